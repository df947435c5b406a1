"""What the plugin holds while marked tests run: the patches, the registry of owners, and the open session.

Imported with the first marked test, because it brings in pydantic and vcrpy.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial, wraps
from pathlib import Path
from typing import Any

import pytest

from pytest_agentreplay.agent_run import AgentRun
from pytest_agentreplay.dialects import load_dialects
from pytest_agentreplay.divergence import Words
from pytest_agentreplay.errors import ConfigurationError, ReplayDivergenceException, ReplayStop
from pytest_agentreplay.plugin.options import cassette_name, layers_of
from pytest_agentreplay.plugin.paths import cassette_file_name, fixture_file_name, fixture_folder, node_from_here
from pytest_agentreplay.plugin.shared import SharedPhase
from pytest_agentreplay.plugin.summary import ReportedOutcome
from pytest_agentreplay.records import Phase
from pytest_agentreplay.session import Outcome, Session, open_session, shown_path
from pytest_agentreplay.settings import Settings, resolve_settings
from pytest_agentreplay.taps.installation import installed_taps
from pytest_agentreplay.taps.notes import RECORDED_PROCESS
from pytest_agentreplay.taps.reach import UnrecordedTrafficWarning

__all__ = ["Capture"]


class Capture:
    """The recorder of one pytest session: patched once, then asked test by test."""

    def __init__(self) -> None:
        self._patches = ExitStack()
        self._taps = self._patches.enter_context(installed_taps())
        self.registry = self._taps.registry
        self.outcomes: list[ReportedOutcome] = []
        self._dialects = load_dialects()
        self._settings = Settings()
        self._failed: set[str] = set()  # tests whose recording was made by an attempt that failed
        self._folder = Path()

    def renew_guard(self) -> None:
        """Wrap again what other guards of the network have unwrapped."""
        self._taps.renew_guard()

    def uninstall(self) -> None:
        """Take the patches out."""
        self._patches.close()

    def open(self, item: pytest.Item, *, folder: Any, fixture: Any) -> Session:
        """Open the session of a test, and make the test the owner of what runs from here on.

        ``folder`` and ``fixture`` are what ``agent_cassette_dir`` and ``agent_config`` returned: anything.
        """
        settings = resolve_settings(layers_of(item, fixture=fixture))
        if not isinstance(folder, str | os.PathLike):
            raise ConfigurationError(f"agent_cassette_dir must return the path of a folder, not {folder!r}")
        folder = Path(folder)
        path = folder / cassette_file_name(item, name=cassette_name(item))
        if "__snapshots__" in path.parts:
            raise ConfigurationError(f"{path} lies inside __snapshots__, where snapshot tools delete foreign files")
        self._settings, self._folder = settings, folder
        self.renew_guard()
        session = self._open(
            item.nodeid,
            path,
            settings=self._of_attempt(item.nodeid, settings),
            test=node_from_here(item.config, item.nodeid),
        )
        self.registry.run(session)
        os.environ[RECORDED_PROCESS] = item.nodeid
        if session.recording is not None:
            _let_through_block_network(item)
        return session

    def release(self, session: Session) -> None:
        """Let a test own nothing from here on."""
        self.registry.run(None)
        session.is_open = False
        os.environ.pop(RECORDED_PROCESS, None)

    def close(self, session: Session, *, passed: bool) -> None:
        """Close the session of a test, which owns nothing any more."""
        outcome = session.close(passed=passed)
        self.outcomes.append(_reported(outcome, test=session.player.test, passed=passed))
        recording = session.recording
        is_empty = recording is not None and not outcome.exchanges and not recording.exchanges
        if passed:
            self._failed.discard(session.name)
        elif outcome.action == "recorded":
            self._failed.add(session.name)
        unseen = [_unseen(session)] if is_empty and session.player.programs else []
        _warn_of([*unseen, *outcome.given_up])

    def take_outcomes(self) -> list[ReportedOutcome]:
        """Return what has been done to cassettes since this was asked last, as plain values for a test report."""
        taken, self.outcomes = self.outcomes, []
        return taken

    def shares(self, fixturedef: pytest.FixtureDef[Any]) -> bool:
        """Return whether a fixture that is being set up keeps its requests apart from the running test's."""
        return fixturedef.scope != "function" and self.registry.running is not None

    def phase_of(
        self, fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest, *, phase: Phase
    ) -> SharedPhase:
        """Return what owns the requests of a fixture's setup or teardown, not begun yet."""
        folder = fixture_folder(fixturedef, request, folder=self._folder)
        return SharedPhase(
            phase,
            fixture=fixturedef.argname,
            path=folder / fixture_file_name(fixturedef, request, phase=phase),
            item=request._pyfuncitem,
            open_it=partial(self._open_shared, settings=self._settings),
            registry=self.registry,
        )

    def begin_shared(self, shared: SharedPhase) -> None:
        """Begin a phase."""
        self.renew_guard()
        shared.begin()

    def end_shared(self, shared: SharedPhase, error: BaseException | None) -> None:
        """End a phase, if it has begun."""
        outcome = shared.end(error) if shared.is_open else None
        if outcome is not None:
            self.outcomes.append(_reported(outcome, test=shared.test, passed=error is None))
            _warn_of(outcome.given_up)

    def _of_attempt(self, name: str, settings: Settings) -> Settings:
        """Let a test that is run again, because it failed while it recorded, record what it did not come to."""
        policy = settings.recording
        goes_on = name in self._failed and policy.records_missing and not policy.records_unknown
        return replace(settings, record_mode="new_episodes") if goes_on else settings

    def _open_shared(self, shared: SharedPhase, *, settings: Settings) -> Session:
        return self._open(shared.name, shared.path, settings=settings, words=Words(test=shared.test))

    def _open(
        self, name: str, path: Path, *, settings: Settings, test: str | None = None, words: Words | None = None
    ) -> Session:
        return open_session(
            name=name,
            path=path,
            settings=settings,
            dialects=self._dialects,
            environment=os.environ,
            words=words,
            test=test,
        )

    def own(self, item: pytest.Item, session: Session) -> None:
        """Make an async test name its owner itself, because its runner may use an older context."""
        self.renew_guard()
        item.addfinalizer(self.renew_guard)  # pytest-socket takes itself out before any fixture is torn down
        function = getattr(item, "obj", None)
        function = getattr(function, "agent_replay_original", function)  # a second attempt has the wrapper of the first
        if inspect.iscoroutinefunction(function):
            item.obj = self._owned(function, session)  # type: ignore[attr-defined]

    def own_fixture(self, fixturedef: pytest.FixtureDef[Any]) -> None:
        """Make an async fixture take the running test as its owner, for the same reason: at setup and at teardown."""
        function = fixturedef.func
        if getattr(function, "agent_replay_owned", False):
            return
        owned: Callable[..., Any]
        if inspect.isasyncgenfunction(function):
            owned = self._owned_generator(function)
        elif inspect.iscoroutinefunction(function):
            owned = self._owned_coroutine(function)
        else:
            return
        owned.agent_replay_owned = True  # type: ignore[attr-defined]
        object.__setattr__(fixturedef, "func", owned)

    def _owned_coroutine(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        async def owned(*args: Any, **kwargs: Any) -> Any:
            self.registry.enter(self.registry.running)
            with _stops_as_exceptions():
                return await function(*args, **kwargs)

        return owned

    def _owned_generator(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        async def owned(*args: Any, **kwargs: Any) -> Any:
            self.registry.enter(self.registry.running)
            with _stops_as_exceptions():
                async with contextlib.aclosing(function(*args, **kwargs)) as generator:
                    async for value in generator:
                        yield value
                        self.registry.enter(self.registry.running)

        return owned

    def _owned(self, function: Callable[..., Any], session: Session) -> Callable[..., Any]:
        @wraps(function)
        async def owned(*args: Any, **kwargs: Any) -> Any:
            token = self.registry.enter(session)
            try:
                with _stops_as_exceptions():
                    return await function(*args, **kwargs)
            finally:
                self.registry.leave(token)

        owned.agent_replay_original = function  # type: ignore[attr-defined]
        return owned


@contextlib.contextmanager
def _stops_as_exceptions() -> Iterator[None]:
    """Turn a stop into its ``Exception`` twin where the code under test ends.

    Runners of async tests take any other ``BaseException`` for their own end, and fail every test after it.
    """
    try:
        yield
    except BaseException as error:
        stop = _stop_in(error)
        if stop is None:
            raise
        raise ReplayDivergenceException(*stop.args) from stop


def _stop_in(error: BaseException) -> ReplayStop | None:
    """Return the stop that an error is, or that a group of errors holds."""
    if isinstance(error, BaseExceptionGroup):
        return next(filter(None, map(_stop_in, error.exceptions)), None)
    return error if isinstance(error, ReplayStop) else None


def run_of(session: Session) -> AgentRun:
    """Return what the ``agent_run`` fixture gives."""
    return AgentRun(session)


def _warn_of(unrecorded: Iterable[str]) -> None:
    """Warn of what is not recorded."""
    for text in unrecorded:
        warnings.warn(UnrecordedTrafficWarning(text), stacklevel=3)


def _unseen(session: Session) -> str:
    programs = ", ".join(sorted(session.player.programs))
    return f"{session.player.test} made no request; what the programs that it started request is not seen: {programs}"


def _reported(outcome: Outcome, *, test: str, passed: bool) -> ReportedOutcome:
    """Return what a test report carries to the summary."""
    return ReportedOutcome(
        action=outcome.action,
        path=shown_path(outcome.path),
        absolute=str(outcome.path.resolve()),
        exists=outcome.path.exists(),
        test=test,
        passed=passed,
        exchanges=outcome.exchanges,
        tools=outcome.tools,
        failed=outcome.failed,
        resumed=outcome.resumed,
        resumed_tools=outcome.resumed_tools,
        torn=outcome.torn,
        partial=shown_path(outcome.partial) if outcome.partial else None,
        dropped=list(outcome.dropped),
        unplayed=list(outcome.unplayed),
        tape=shown_path(outcome.tape) if outcome.tape else None,
        made=outcome.made,
        answered=outcome.is_answered,
    )


def _let_through_block_network(item: pytest.Item) -> None:
    """Let a recording through pytest-recording's ``--block-network``, as it does for its own."""
    if item.config.getoption("block_network", default=False) or item.get_closest_marker("block_network"):
        item.add_marker(pytest.mark.block_network(allowed_hosts=[".*"]), append=False)
