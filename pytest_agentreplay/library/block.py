"""A block of code with a cassette: the engine of marked tests, without pytest around it."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, suppress
from contextvars import Token
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

from pytest_agentreplay.agent_run import AgentRun
from pytest_agentreplay.dialects import installed_dialects
from pytest_agentreplay.errors import ConfigurationError, ReplayDivergenceWarning
from pytest_agentreplay.library.tapes import words_for
from pytest_agentreplay.records import Phase
from pytest_agentreplay.session import About, Outcome, Session, open_session, shown_path
from pytest_agentreplay.settings import Layer, Settings, resolve_settings
from pytest_agentreplay.taps.installation import installed_taps
from pytest_agentreplay.taps.reach import UnrecordedTrafficWarning

__all__ = ["CassetteBlock", "settings_of", "use_cassette"]

_PACKAGE = str(Path(__file__).parent.parent)
_PHASES: tuple[Phase, ...] = ("setup", "teardown", "call")  # a block has one, the cassette of a test all of them


def use_cassette(
    path: str | os.PathLike[str],
    *,
    name: str | None = None,
    task: str | None = None,
    config: Mapping[str, Any] | None = None,
    **settings: Any,
) -> CassetteBlock:
    """Record or replay what a block of code asks models and tools, in the cassette at ``path``.

    A context manager, for ``with`` and ``async with``; it gives an :class:`AgentRun`.  ``name`` is what the tape and
    reports call the run, by default the path; ``task`` and ``config`` (instructions, tools, params: plain values) are
    kept in the head of a recording, for :func:`replay`.  ``settings`` are those of the marker: ``record_mode``,
    ``replay``, ``unplayed``, ``tools``, ``hosts``, ``ignore`` and so on, with the same defaults.

    Raises, as the block is entered, :class:`ConfigurationError` for a setting that cannot be meant and
    :class:`CassetteError` for a file that cannot be used; in the block and at its end
    :class:`ReplayDivergenceError`, whatever the code in between made of it, and :class:`NetworkBlockedError`.
    What differs where that is allowed is warned of, at the end, as a :class:`ReplayDivergenceWarning`.
    """
    if not isinstance(name, str | None):
        raise ConfigurationError(f"name={name!r} must be a string")
    place = Path(path)
    resolved = settings_of(settings)
    shown = shown_path(place)

    def opened() -> Session:
        return open_session(
            name=name or shown,
            path=place,
            settings=resolved,
            dialects=installed_dialects(),
            environment=os.environ,
            about=About(task, config),
            words=words_for(place, setting=f"use_cassette({shown!r}, {{setting}})"),
        )

    return CassetteBlock(opened)


def settings_of(settings: Mapping[str, Any]) -> Settings:
    """Return the settings that keyword arguments add up to.  Raises :class:`ConfigurationError`."""
    return resolve_settings([Layer("argument", settings)])


class CassetteBlock:
    """The context manager that :func:`use_cassette` returns; each can be entered once.

    ``outcome`` says of a block that has ended what became of its cassette: ``action`` is ``replayed``, ``recorded``,
    ``continued``, ``kept`` (as an unfinished recording, at ``partial``) or ``nothing``.
    """

    def __init__(self, opened: Callable[[], Session]) -> None:
        self._opened = opened
        self._stack = ExitStack()
        self._token: Token[Any] | None = None
        self.session: Session | None = None
        self.outcome: Outcome | None = None

    def __enter__(self) -> AgentRun:
        if self.session is not None:
            raise ConfigurationError("a cassette's block can be entered once: make another with use_cassette()")
        with ExitStack() as stack:
            self._registry = stack.enter_context(installed_taps()).registry
            session = self.session = self._opened()
            session.begin("call")
            self._token = self._registry.enter(session)
            self._stack = stack.pop_all()
        return AgentRun(session)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        session, token = self.session, self._token
        assert session is not None
        assert token is not None
        with self._stack:
            with suppress(ValueError):  # one that is left in another context than it was entered in
                self._registry.leave(token)
            is_interrupted = isinstance(error, KeyboardInterrupt | SystemExit)
            stopped = None if is_interrupted else session.judge(_PHASES, passed=error is None)
            self.outcome = session.close(passed=error is None and stopped is None)
        try:
            differed = map(ReplayDivergenceWarning, session.player.take_warnings())
            _warn([*differed, *map(UnrecordedTrafficWarning, self.outcome.given_up)])
        finally:
            if stopped is not None and stopped is not error:
                raise stopped from error

    async def __aenter__(self) -> AgentRun:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, traceback)


def _warn(found: Iterable[Warning]) -> None:
    """Give warnings at the line outside this package that the block or the run stands in."""
    frame: FrameType | None = sys._getframe()
    level = 0
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame, level = frame.f_back, level + 1
    for warning in found:
        warnings.warn(warning, stacklevel=level + 1)
