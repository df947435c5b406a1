"""Tell child processes which recorded test they work for, so that they refuse what could not be recorded there.

A child that is forked or started anew inherits the environment, which says so.  What outlives a test does not: the
workers of a pool, and the server that new processes are forked from.  So a process and a pool's job take a note along.
What another program requests, nobody here can see: it is noted by its name.
"""

from __future__ import annotations

import functools
import multiprocessing.pool
import os
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any
from unittest import mock

from pytest_agentreplay.taps.notes import RECORDED_PROCESS, Job, Note
from pytest_agentreplay.taps.owners import Registry

__all__ = ["tell_child_processes"]

_POOL_METHODS = ("apply_async", "_map_async", "imap", "imap_unordered")


@contextmanager
def tell_child_processes(registry: Registry) -> Iterator[None]:
    """Give every process and pool job that is started in this block a note of the test that it works for."""
    pool = multiprocessing.pool
    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(BaseProcess, "start", _starting(registry)))
        stack.enter_context(mock.patch.object(subprocess.Popen, "__init__", _opening(registry)))
        stack.enter_context(mock.patch.object(ProcessPoolExecutor, "submit", _submitting(registry)))
        for name in _POOL_METHODS:
            real = getattr(pool.Pool, name)
            if name not in vars(pool.ThreadPool):  # inherited; its jobs stay in this process
                stack.enter_context(mock.patch.object(pool.ThreadPool, name, real, create=True))
            stack.enter_context(mock.patch.object(pool.Pool, name, _pooling(registry, real)))
        yield


def _starting(registry: Registry) -> Callable[..., None]:
    real = BaseProcess.start

    @functools.wraps(real)
    def start(process: Any) -> None:
        process._agent_replay_note = Note(_test_of(registry))
        real(process)

    return start


def _opening(registry: Registry) -> Callable[..., None]:
    """Return what stands in for ``Popen.__init__``: it notes which program a recorded test starts."""
    real = subprocess.Popen.__init__

    @functools.wraps(real)
    def init(process: Any, args: Any, *rest: Any, **options: Any) -> None:
        owner = None if registry.concerns_no_one() else registry.named() or registry.running
        if owner is not None:
            first = args if isinstance(args, str | bytes | os.PathLike) else next(iter(args), "")
            owner.player.programs.add(Path(os.fsdecode(first).split(" ")[0]).name)
        real(process, args, *rest, **options)

    return init


def _submitting(registry: Registry) -> Callable[..., Any]:
    real = ProcessPoolExecutor.submit

    @functools.wraps(real)  # type: ignore[arg-type]
    def submit(executor: ProcessPoolExecutor, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        return real(executor, _noted(registry, function), *args, **kwargs)

    return submit


def _pooling(registry: Registry, real: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(real)
    def method(pool: Any, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return real(pool, _noted(registry, func), *args, **kwargs)

    return method


def _noted(registry: Registry, function: Callable[..., Any]) -> Callable[..., Any]:
    test = _test_of(registry)
    return function if test is None or registry.concerns_no_one() else Job(function, test)


def _test_of(registry: Registry) -> str | None:
    """Return the test, or the block of code, that what is started here and now works for."""
    owner = registry.named()
    return os.environ.get(RECORDED_PROCESS) or (owner.name if owner is not None else None)
