"""Fixtures for the tests of the library: cassettes, replays and resumed runs without pytest's plugin around them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.agent import Desk, echo_or_stream
from tests.support.suite import Provider, providing


@pytest.fixture
def provider() -> Iterator[Provider]:
    """A provider that answers a chat request with its last message."""
    with providing(echo_or_stream) as running:
        yield running


@pytest.fixture
def desk(provider: Provider) -> Desk:
    """An agent's way to the provider."""
    return Desk(provider.url)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a cassette is, or will be."""
    return tmp_path / "run.jsonl"
