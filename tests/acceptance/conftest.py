"""Fixtures for the promises that are kept from end to end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

# Loaded before the suites run in this process, so that they import them in no time.
import pytest_agentreplay.plugin.capture  # noqa: F401
from tests.support.suite import Provider, Suite, make_suite, providing


@pytest.fixture
def provider() -> Iterator[Provider]:
    """A provider that answers a chat request with its last message."""
    with providing() as running:
        yield running


@pytest.fixture
def suite(pytester: pytest.Pytester, provider: Provider, monkeypatch: pytest.MonkeyPatch) -> Suite:
    """An empty suite beside an agent that talks to the provider."""
    return make_suite(pytester, provider, monkeypatch)
