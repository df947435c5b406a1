"""Every client that is caught, driven in one way: what to ask, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping

from tests.contracts.clients.drivers import aiohttp, http_client, httpx, urllib3
from tests.contracts.clients.drivers.driver import Ask, Driver, Got

__all__ = ["DRIVERS", "Ask", "Driver", "Got"]

DRIVERS: Mapping[str, Driver] = {
    driver.name: driver
    for family in (httpx.DRIVERS, urllib3.DRIVERS, aiohttp.DRIVERS, http_client.DRIVERS)
    for driver in family
}
