"""The HTTP clients that are caught, one module a family, each a row of the table.

A tap is given the client's module and yields what stands in for its methods: class, name and replacement.  Where one
client sits on another, the outer one is caught and the inner one left alone: requests and botocore are urllib3's,
httpx-aiohttp is aiohttp's, urllib.request is http.client's, and urllib3 itself is caught above http.client.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from pytest_agentreplay.taps.clients.aiohttp import tap_aiohttp
from pytest_agentreplay.taps.clients.http_client import tap_http_client
from pytest_agentreplay.taps.clients.httpx import tap_httpx
from pytest_agentreplay.taps.clients.urllib3 import tap_urllib3
from pytest_agentreplay.taps.exchange import Exchanges

__all__ = ["CLIENTS", "ClientTap"]

ClientTap: TypeAlias = Callable[[Any, Exchanges], Iterable[tuple[type, str, Callable[..., Any]]]]

CLIENTS: Mapping[str, ClientTap] = {
    "aiohttp": tap_aiohttp,
    "http.client": tap_http_client,
    "httpx": tap_httpx,
    "httpx2": tap_httpx,
    "urllib3": tap_urllib3,
}
