"""Fixtures for the tests of what a pytest user sees."""

from __future__ import annotations

import random
from collections.abc import Iterator

# Loaded before the suites run in this process, so that they import them in no time, and leave no second copy of a
# client behind: what a suite imports first is forgotten with it, and only half of it.
import aiohttp  # noqa: F401
import botocore.httpsession  # noqa: F401
import httpcore  # noqa: F401
import httpcore2  # noqa: F401
import httpx  # noqa: F401
import httpx2  # noqa: F401
import pytest
import requests  # noqa: F401

import pytest_agentreplay.plugin.capture  # noqa: F401
from tests.support.suite import Provider, Suite, make_suite, providing


@pytest.fixture(autouse=True)
def seeded(request: pytest.FixtureRequest) -> None:
    """Draw the same pauses each time the test runs: a suite in this process draws from the same ``random``."""
    random.seed(request.node.nodeid)


@pytest.fixture
def provider() -> Iterator[Provider]:
    """A provider that answers a chat request with its last message."""
    with providing() as running:
        yield running


@pytest.fixture
def suite(pytester: pytest.Pytester, provider: Provider, monkeypatch: pytest.MonkeyPatch) -> Suite:
    """An empty suite beside an agent that talks to the provider."""
    return make_suite(pytester, provider, monkeypatch)
