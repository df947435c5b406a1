"""No waiting in replay: the pause that a client makes after a recorded failure is skipped.

SDKs, urllib3, botocore and retry libraries all wait before they try again, by ``Retry-After`` or by a time of their
own.  What they are told stays as it was recorded; the first sleep after a recorded failure, in the same thread or task,
returns at once.  Each failure has one such pause; any other sleep of the agent's is as long as ever.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from types import ModuleType
from typing import Any
from unittest import mock

from pytest_agentreplay.taps.imports import patched_when_imported
from pytest_agentreplay.taps.owners import Registry

__all__ = ["skip_retry_pauses"]


@contextmanager
def skip_retry_pauses(registry: Registry) -> Iterator[None]:
    """Skip the pause after each recorded failure, until the block ends."""
    table = {name: partial(_patch, registry=registry, wrap=wrap) for name, wrap in _SLEEPS.items()}
    with patched_when_imported(table):
        yield


def _patch(module: ModuleType, *, registry: Registry, wrap: Callable[..., Any]) -> AbstractContextManager[Any]:
    return mock.patch.object(module, "sleep", wrap(registry, module.sleep))


def _blocking(registry: Registry, real: Callable[[float], None]) -> Callable[[float], None]:
    @functools.wraps(real)
    def sleep(seconds: float, /) -> None:
        real(0 if seconds > 0 and registry.takes_pause() else seconds)

    return sleep


def _awaited(registry: Registry, real: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    @functools.wraps(real)
    async def sleep(delay: float, *args: Any, **kwargs: Any) -> Any:
        return await real(0 if delay > 0 and registry.takes_pause() else delay, *args, **kwargs)

    return sleep


_SLEEPS: Mapping[str, Callable[..., Any]] = {
    "anyio": _awaited,
    "asyncio": _awaited,
    "time": _blocking,
    "trio": _awaited,
}
