"""Find the test that a request belongs to.

One patch serves the whole session, so each request must find the test it belongs to.  The owner is a context variable
set inside the test and carried into the threads it starts.  Event-loop runners keep the context they were made in, so
an owner can be stale: such a request goes to the running test if its tape knows it, else nowhere.  One that names no
owner goes to the running test.
"""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar, Token
from dataclasses import dataclass
from multiprocessing import current_process
from typing import Protocol

from pytest_agentreplay.errors import ReplayDivergenceException, ReplayStop, StrayRequestError
from pytest_agentreplay.player import Player
from pytest_agentreplay.reader import Asked, Reader
from pytest_agentreplay.taps.notes import RECORDED_PROCESS

__all__ = [
    "Carried",
    "Owner",
    "Registry",
    "Scope",
    "StrayRequestWarning",
    "installed",
    "installed_registry",
    "refuse_in_child",
]

# One a process, like the patches it goes with: decorated tools look here for the test they run in.
_installed: list[Registry] = []


class StrayRequestWarning(UserWarning):
    """A request that named no test was recorded for the test that was running."""


class Owner(Protocol):
    """The test, or the block of code, that requests belong to."""

    @property
    def name(self) -> str:
        """What reports call it."""

    @property
    def is_open(self) -> bool:
        """Whether it still takes requests."""

    @property
    def player(self) -> Player:
        """Who decides about its requests."""

    @property
    def reader(self) -> Reader:
        """Who reads its requests."""


@dataclass(frozen=True)
class Scope:
    """What else is known of code that runs: the lane it was told to use, and the recorded tool it runs inside.

    ``calling`` are the names of the tool whose call was caught and whose code begins here; ``by_adapter`` says that a
    framework's call was caught, so that the same call may be caught again further in.
    """

    lane: str | None = None
    parent: str | None = None
    calling: tuple[str, ...] = ()
    by_adapter: bool = False


@dataclass(frozen=True)
class Carried:
    """An owner and a scope that a thread or a pool's job was given when it was started."""

    owner: Owner | None
    scope: Scope = Scope()


class Registry:
    """Finds the owner of a request.  One a process; ``running`` is what runs from the start on."""

    def __init__(self, *, running: Owner | None = None) -> None:
        self._running = running
        self._process = os.getpid()
        self._scope: ContextVar[Scope | None] = ContextVar("agent_replay_scope", default=None)
        self._current: ContextVar[Owner | Carried | None] = ContextVar("agent_replay_owner", default=None)
        self._live: ContextVar[bool] = ContextVar("agent_replay_live", default=False)
        self._failed: ContextVar[list[Owner] | None] = ContextVar("agent_replay_failed", default=None)

    @property
    def running(self) -> Owner | None:
        """The test that runs, whatever a context names."""
        return self._running

    def run(self, owner: Owner | None) -> Owner | None:
        """Make ``owner`` what runs, and the owner of this context; return what ran before."""
        before, self._running = self._running, owner
        self.enter(owner)
        return before

    def enter(self, owner: Owner | Carried | None) -> Token[Owner | Carried | None]:
        """Make ``owner`` the owner of what this context does from here on."""
        return self._current.set(owner)

    def leave(self, token: Token[Owner | Carried | None]) -> None:
        """Undo an :meth:`enter` of the same context."""
        self._current.reset(token)

    def carry(self) -> Carried:
        """Return the current owner in the form that a thread or a job takes along."""
        found = self._current.get()
        return Carried(found.owner if isinstance(found, Carried) else found, self.scope())

    def scope(self) -> Scope:
        """Return the scope of what runs here and now."""
        found = self._current.get()
        return self._scope.get() or (found.scope if isinstance(found, Carried) else Scope())

    @contextmanager
    def inside(self, scope: Scope) -> Iterator[None]:
        """Give what runs in this block a scope."""
        token = self._scope.set(scope)
        try:
            yield
        finally:
            self._scope.reset(token)

    @contextmanager
    def live_call(self) -> Iterator[None]:
        """Mark this block as a live call that is recorded: what a client does in it is not looked at again."""
        token = self._live.set(True)
        try:
            yield
        finally:
            with suppress(ValueError):  # a coroutine that nobody awaits any more is closed in any context
                self._live.reset(token)

    def is_in_live_call(self) -> bool:
        """Return whether what is done here and now belongs to a live call that is recorded."""
        return self._live.get()

    def note_answer(self, failed: Owner | None) -> None:
        """Note that this context got a recorded answer: ``failed`` is its test where one tries again after it."""
        if failed is not None or self._failed.get():
            self._failed.set([failed] if failed is not None else [])

    def takes_pause(self) -> bool:
        """Return whether a wait that begins here and now is that after a recorded failure; each has one."""
        failed = self._failed.get()
        if not failed:
            return False
        owner = failed.pop()  # the list is the same in every copy of this context
        return owner.is_open and owner is (self.named() or self.running)

    def concerns_no_one(self) -> bool:
        """Return whether a request made here and now is none of our business."""
        found = self._current.get()
        owner = found.owner if isinstance(found, Carried) else found
        return owner is None and self.running is None

    def named(self) -> Owner | None:
        """Return the owner this context names, if it is open."""
        found = self._current.get()
        owner = found.owner if isinstance(found, Carried) else found
        return owner if owner is not None and owner.is_open else None

    def has_stopped_with(self, stop: ReplayStop) -> bool:
        """Return whether a stop has been noted for the test that runs, which is failed with it at its end."""
        test = self.running
        return test is not None and test.is_open and test.player.stopped is stop

    def of_tool(self, name: str) -> Owner | None:
        """Return the test that a tool's call belongs to, or ``None`` where no test is concerned.

        Raises :class:`StrayRequestError` where its test is over, or in a child process, whose record would be lost.
        """
        if self.concerns_no_one():
            return None
        refuse_in_child(f"A call of the tool {name!r}", self)
        return self._answerable(f"A call of the tool {name!r}", undone="It was not made")

    def answerable(self, what: str) -> Owner | None:
        """Return the test whose rules a connection made here and now must keep to, or ``None``.

        Raises :class:`StrayRequestError` for a thread or job whose test is over; ``what`` says what it tried to reach.
        """
        return self._answerable(f"A connection to {what}")

    def _answerable(self, made: str, *, undone: str = "It was not sent") -> Owner | None:
        owner = self.named()
        if owner is not None:
            return owner
        found = self._current.get()
        if isinstance(found, Carried) and found.owner is not None:
            raise StrayRequestError(_stray(found.owner, self.running, made, undone=undone))
        return self.running

    def settle(self, read: Callable[[Owner], Asked]) -> tuple[Owner, Asked]:
        """Return the owner of a request, and the request as it reads it.

        Raises :class:`StrayRequestError` for a request that no running test owns or knows.
        """
        refuse_in_child("A request", self)
        owner = self.named()
        if owner is not None:
            return owner, read(owner)
        found = self._current.get()
        running = self.running
        stale = found.owner if isinstance(found, Carried) else found
        if running is None or (stale is not None and isinstance(found, Carried)):
            raise StrayRequestError(_stray(stale, running, "A request"))
        asked = read(running)
        if running.player.is_recording:
            # In the main thread there is only one test that code can belong to when it names none.
            if stale is not None or threading.current_thread() is not threading.main_thread():
                warnings.warn(StrayRequestWarning(_recorded_for(stale, running)), stacklevel=2)
            return running, asked
        # One that names no test, from a server thread say, can only be the running test's: it gets that test's report.
        if stale is None or running.player.knows(asked):
            return running, asked
        raise StrayRequestError(_stray(stale, running, f"A request to {asked.url}", is_unknown=True))

    @property
    def is_in_child(self) -> bool:
        """Whether this is a copy, in a child of the process that it is for."""
        return os.getpid() != self._process


@contextmanager
def installed(registry: Registry) -> Iterator[None]:
    """Make a registry the one that decorated tools ask, for the length of this block."""
    _installed.append(registry)
    try:
        yield
    finally:
        _installed.remove(registry)


def installed_registry() -> Registry | None:
    """Return the registry that decorated tools ask, or ``None`` outside recorded sessions."""
    return _installed[-1] if _installed else None


def _recorded_for(stale: Owner | None, running: Owner) -> str:
    origin = f"of {stale.name}, which is over," if stale else "that named no test"
    return f"a request {origin} was recorded for {running.name}"


def refuse_in_child(what: str, registry: Registry | None) -> None:
    """Refuse what would be neither recorded nor answered: a call or request in a child process of a recorded test.

    Raises :class:`StrayRequestError`; in the workers of ``multiprocessing.Pool``, which never answer after a
    ``BaseException``, its twin :class:`ReplayDivergenceException`.
    """
    if registry is not None and not registry.is_in_child:
        return
    test = os.environ.get(RECORDED_PROCESS)
    if test is None and (registry is None or registry.concerns_no_one()):
        return
    report = (
        f"{what} was made in a child process of {test or 'a recorded test'}, "
        "where it can be neither recorded nor answered.\n"
        "  Make it in the test's own process: in a thread, a task, or the main program."
    )
    raise (ReplayDivergenceException if "PoolWorker" in current_process().name else StrayRequestError)(report)


def _stray(
    stale: Owner | None, running: Owner | None, made: str, *, is_unknown: bool = False, undone: str = "It was not sent"
) -> str:
    origin = f"was made by {stale.name}, which is over" if stale else "was made outside any test"
    now = f"while {running.name} was running" if running else "while no recorded test was running"
    known = f", whose recording does not know it ({running.player.cassette})" if running and is_unknown else ""
    return f"{made} {origin}, {now}{known}.\n  {undone}. Wait for threads and background tasks before the test ends."
