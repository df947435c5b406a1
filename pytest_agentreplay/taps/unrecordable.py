"""What cannot be recorded is named: gRPC, whose calls do not go through Python's sockets.

In replay a call is held against the rules for connections, and while recording it passes with a warning.  Websockets
and everything else on sockets are met by :mod:`~pytest_agentreplay.taps.network`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from types import ModuleType
from typing import Any
from unittest import mock
from urllib.parse import urlsplit

from pytest_agentreplay.taps.imports import patched_when_imported
from pytest_agentreplay.taps.owners import Registry
from pytest_agentreplay.taps.reach import Reach

__all__ = ["guard_grpc"]

# The classes behind every stub, and their methods that start a call.
_SYNC: Sequence[tuple[str, tuple[str, ...]]] = (
    ("_UnaryUnaryMultiCallable", ("__call__", "with_call", "future")),
    ("_UnaryStreamMultiCallable", ("__call__",)),
    ("_SingleThreadedUnaryStreamMultiCallable", ("__call__",)),
    ("_StreamUnaryMultiCallable", ("__call__", "with_call", "future")),
    ("_StreamStreamMultiCallable", ("__call__",)),
)
_ASYNC: Sequence[tuple[str, tuple[str, ...]]] = (
    ("UnaryUnaryMultiCallable", ("__call__",)),
    ("UnaryStreamMultiCallable", ("__call__",)),
    ("StreamUnaryMultiCallable", ("__call__",)),
    ("StreamStreamMultiCallable", ("__call__",)),
)


@contextmanager
def guard_grpc(registry: Registry) -> Iterator[None]:
    """Hold every gRPC call made in this block against the rules of the test that makes it."""
    reach = Reach(registry)
    table = {
        "grpc._channel": partial(_patch, registry=registry, reach=reach, classes=_SYNC),
        "grpc.aio._channel": partial(_patch, registry=registry, reach=reach, classes=_ASYNC),
    }
    with patched_when_imported(table):
        yield


def _patch(
    module: ModuleType, *, registry: Registry, reach: Reach, classes: Sequence[tuple[str, tuple[str, ...]]]
) -> AbstractContextManager[Any]:
    stack = ExitStack()
    for class_name, methods in classes:
        kind = getattr(module, class_name, None)
        for name in methods if kind is not None else ():
            guarded = _guarded(getattr(kind, name), registry=registry, reach=reach)
            stack.enter_context(mock.patch.object(kind, name, guarded))
    return stack


def _guarded(real: Callable[..., Any], *, registry: Registry, reach: Reach) -> Callable[..., Any]:
    @functools.wraps(real)
    def call(callable_: Any, *args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        if not registry.concerns_no_one():
            host, port = _target_of(callable_)
            if host is not None:
                reach.check(host, port=port, by="a gRPC call")
        return real(callable_, *args, **kwargs)

    return call


def _target_of(callable_: Any) -> tuple[str | None, int | None]:
    """Return host and port of a call's channel, as ``dns:///HOST:PORT`` or ``HOST:PORT``; none for a Unix socket."""
    target = callable_._channel.target  # a method of sync channels, a value of async ones
    target = target() if callable(target) else target
    text = target.decode() if isinstance(target, bytes) else str(target)
    if text.startswith(("unix:", "unix-abstract:", "vsock:")):
        return None, None
    where = urlsplit("//" + text.rpartition("/")[2].removeprefix("dns:").removeprefix("ipv4:").removeprefix("ipv6:"))
    return where.hostname, where.port
