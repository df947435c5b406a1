"""Fixtures that outlive a test keep their requests in cassettes of their own.

A module- or session-scoped fixture is set up by whichever test comes first, which depends on the selection and on the
worker; its requests in that test's cassette would be missing everywhere else.  So each such fixture has a cassette for
its setup, and one for its teardown where it makes requests there.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from pytest_agentreplay.errors import ReplayDivergenceWarning
from pytest_agentreplay.player import Player
from pytest_agentreplay.plugin.attempts import INTERRUPTIONS
from pytest_agentreplay.plugin.paths import node_from_here
from pytest_agentreplay.reader import Reader
from pytest_agentreplay.records import Phase
from pytest_agentreplay.session import Outcome, Session
from pytest_agentreplay.taps.owners import Owner, Registry

__all__ = ["SharedPhase"]

OpenPhase: TypeAlias = "Callable[[SharedPhase], Session]"


class SharedPhase:
    """The setup or the teardown of one fixture, as the owner of what it requests.

    ``item`` is the test that the fixture is set up for, and ``test`` what selects it on a command line.  The session
    behind it is opened by its first request: most fixtures make none.
    """

    def __init__(
        self, phase: Phase, *, fixture: str, path: Path, item: pytest.Item, open_it: OpenPhase, registry: Registry
    ) -> None:
        self.name = f"{phase} of fixture {fixture!r}"
        self.phase = phase
        self.path = path
        self.item = item
        self.test = node_from_here(item.config, item.nodeid)
        self.is_open = False
        self.error: BaseException | None = None
        self._open_it = open_it
        self._registry = registry
        self._session: Session | None = None
        self._lock = threading.Lock()
        self._before: Owner | None = None

    @property
    def player(self) -> Player:
        """Who decides about its requests."""
        return self._opened().player

    @property
    def reader(self) -> Reader:
        """Who reads its requests."""
        return self._opened().reader

    def watched(self, finalizer: Callable[[], object]) -> Callable[[], object]:
        """Return a finalizer of the fixture that leaves in ``error`` what it raises: pytest tells no other of it."""

        def run() -> object:
            try:
                return finalizer()
            except BaseException as error:
                if not isinstance(self.error, INTERRUPTIONS):
                    self.error = error
                raise

        return run

    def begin(self) -> None:
        """Own what runs from here on."""
        self.is_open = True
        self._before = self._registry.run(self)

    def end(self, error: BaseException | None) -> Outcome | None:
        """Give the ownership back; return what became of the cassette, or ``None`` where nothing was requested.

        Raises the divergence that the phase met, whatever became of it on the way up; warns of what differed where that
        is allowed.
        """
        self.is_open = False
        self._registry.run(self._before)
        session = self._session or (self._opened() if self.path.exists() else None)
        if session is None:
            return None
        stopped = session.judge((self.phase,), passed=error is None)
        outcome = session.close(passed=error is None and stopped is None)
        try:
            for report in session.player.take_warnings():
                self.item.warn(ReplayDivergenceWarning(report))
        finally:
            if stopped is not None and stopped is not error and not isinstance(error, INTERRUPTIONS):
                raise stopped from error
        return outcome

    def _opened(self) -> Session:
        with self._lock:
            if self._session is None:
                self._session = self._open_it(self)
                self._session.begin(self.phase)
            return self._session
