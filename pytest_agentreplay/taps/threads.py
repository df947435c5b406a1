"""Carry the owner of a test into the threads and pools it uses.

A new thread starts with an empty context, and a pool's worker with that of whoever came first.  Three standard
places are wrapped for the length of the session: ``Thread.start``, ``ThreadPoolExecutor.submit`` and the methods of
``multiprocessing.pool.ThreadPool``.  The last also turns a ``ReplayStop`` into an ``Exception`` at the edge of the job,
because a worker that dies of a ``BaseException`` leaves the pool waiting for ever.  A thread that ends with the stop
that the running test is failed with leaves nothing for ``threading.excepthook`` to tell again.
"""

from __future__ import annotations

import functools
import multiprocessing.dummy
import multiprocessing.pool
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any, NoReturn
from unittest import mock

from pytest_agentreplay.errors import ReplayDivergenceException, ReplayStop
from pytest_agentreplay.taps.owners import Registry

__all__ = ["carry_owner_into_threads", "raise_in_thread"]

_POOL_METHODS = ("apply_async", "_map_async", "imap", "imap_unordered")


@contextmanager
def carry_owner_into_threads(registry: Registry) -> Iterator[None]:
    """Give every thread and job started in this block the owner of the code that starts it."""
    pool = multiprocessing.pool.ThreadPool
    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(threading.Thread, "start", _starting(registry)))
        stack.enter_context(mock.patch.object(ThreadPoolExecutor, "submit", _submitting(registry)))
        for name in _POOL_METHODS:
            real = getattr(pool, name)
            # The methods are inherited from Pool, whose workers are processes: patch the subclass alone.
            stack.enter_context(mock.patch.object(pool, name, _pooling(registry, real), create=True))
        yield


def raise_in_thread(stop: ReplayStop) -> NoReturn:
    """Raise what has ended a run; its twin in a pool's worker whose job is not wrapped, and which it would kill."""
    thread = threading.current_thread()
    is_worker = isinstance(thread, multiprocessing.dummy.DummyProcess)
    if is_worker and not getattr(thread, "agent_replay_shielded", False):
        raise ReplayDivergenceException(*stop.args) from stop
    raise stop


def _starting(registry: Registry) -> Callable[..., None]:
    real = threading.Thread.start

    @functools.wraps(real)
    def start(thread: threading.Thread) -> None:
        if not registry.concerns_no_one():
            carried = registry.carry()
            run = thread.run

            def owned_run() -> None:
                registry.enter(carried)
                try:
                    run()
                except ReplayStop as stop:
                    if not registry.has_stopped_with(stop):
                        raise

            thread.run = owned_run  # type: ignore[method-assign]
        real(thread)

    return start


def _submitting(registry: Registry) -> Callable[..., Any]:
    real = ThreadPoolExecutor.submit

    @functools.wraps(real)  # type: ignore[arg-type]
    def submit(executor: ThreadPoolExecutor, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        return real(executor, _owned(registry, function), *args, **kwargs)

    return submit


def _pooling(registry: Registry, real: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(real)
    def method(pool: Any, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return real(pool, _shielded(_owned(registry, func)), *args, **kwargs)

    return method


def _owned(registry: Registry, function: Callable[..., Any]) -> Callable[..., Any]:
    if registry.concerns_no_one():
        return function
    carried = registry.carry()

    @functools.wraps(function)
    def owned(*args: Any, **kwargs: Any) -> Any:
        token = registry.enter(carried)
        try:
            return function(*args, **kwargs)
        finally:
            registry.leave(token)

    return owned


def _shielded(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def shielded(*args: Any, **kwargs: Any) -> Any:
        threading.current_thread().agent_replay_shielded = True  # type: ignore[attr-defined]
        try:
            return function(*args, **kwargs)
        except ReplayStop as stop:
            raise ReplayDivergenceException(*stop.args) from stop
        finally:
            threading.current_thread().agent_replay_shielded = False  # type: ignore[attr-defined]

    return shielded
