"""A test suite whose agents are written with a framework."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import pytest_agentreplay.plugin.capture  # noqa: F401 - loaded before suites run in this process
from tests.support.suite import Provider, Suite, make_suite, providing


@pytest.fixture(scope="module", autouse=True)
def framework(request: pytest.FixtureRequest) -> None:
    """Import the framework of a module of tests once: what a suite imports itself, it imports in every run."""
    for name in getattr(request.module, "FRAMEWORK", ()):
        importlib.import_module(name)


@pytest.fixture(autouse=True)
def no_loop_is_left() -> Iterator[None]:
    """Close the event loop that a framework leaves as the thread's: whichever test collects it would be told of it."""
    yield
    with warnings.catch_warnings(), contextlib.suppress(RuntimeError):  # there may be none
        warnings.simplefilter("ignore", DeprecationWarning)
        asyncio.get_event_loop_policy().get_event_loop().close()
        asyncio.set_event_loop_policy(None)


@pytest.fixture
def provider() -> Iterator[Provider]:
    """A provider that answers a chat request with its last message."""
    with providing() as running:
        yield running


@pytest.fixture
def suite(pytester: pytest.Pytester, provider: Provider, monkeypatch: pytest.MonkeyPatch) -> Suite:
    """An empty suite, to be recorded and replayed."""
    for name in ("OPENAI_API_KEY", "LANGSMITH_TRACING", "LANGCHAIN_TRACING_V2"):
        monkeypatch.delenv(name, raising=False)
    return make_suite(pytester, provider, monkeypatch)


@pytest.fixture
def twice(suite: Suite, provider: Provider) -> Callable[[int], list[dict[str, Any]]]:
    """Record the suite, replay it, see that so many tests passed both times; returns the tool steps on its tapes."""

    def run(passed: int) -> list[dict[str, Any]]:
        suite.record().assert_outcomes(passed=passed)
        provider.stop()
        suite.run().assert_outcomes(passed=passed)
        names = sorted(path.name for path in suite.cassette("test_it").glob("*.jsonl"))
        lines = [line for name in names for line in suite.lines(f"test_it/{name}")]
        return [line for line in lines if line["kind"] == "tool"]

    return run
