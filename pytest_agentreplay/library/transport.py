"""A tape as the transport of an HTTP client: what the client is asked is answered from it, and nothing is patched."""

from __future__ import annotations

import importlib
import os
import warnings
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pytest_agentreplay.agent_run import AgentRun
from pytest_agentreplay.cassette import Cassette
from pytest_agentreplay.dialects import installed_dialects
from pytest_agentreplay.errors import ConfigurationError, ReplayDivergenceWarning, ReplayStop
from pytest_agentreplay.library.block import settings_of
from pytest_agentreplay.library.tapes import load_tape, words_for
from pytest_agentreplay.player.describe import short_name
from pytest_agentreplay.records import ExchangeStep, ToolStep
from pytest_agentreplay.session import open_replay, shown_path
from pytest_agentreplay.taps.clients.httpx import Answers, answers_of
from pytest_agentreplay.taps.exchange import Exchanges
from pytest_agentreplay.taps.owners import Registry
from pytest_agentreplay.taps.threads import raise_in_thread

__all__ = ["ReplayTransport"]


class ReplayTransport:
    """Answers the requests of a client of httpx or httpx2, sync or async, from a tape.  Thread-safe.

    ``httpx.Client(transport=ReplayTransport("run.jsonl"))``, and so for an SDK that takes such a client.  ``tape`` is a
    tape or the path of a cassette; ``settings`` are those of :func:`use_cassette` that say how a request is matched and
    what is done with one that the tape does not have: ``replay`` may be ``strict`` or ``warn``.

    Raises :class:`ConfigurationError` for settings that cannot be meant, :class:`CassetteError` for a tape that cannot
    be read, and from the client's methods :class:`ReplayDivergenceError`, which no SDK takes for a failed request
    (in a worker of ``multiprocessing.pool`` its twin, of which the worker does not die).

    The idea is that of httpx's own ``MockTransport``.
    """

    def __init__(self, tape: Cassette | str | os.PathLike[str], *, name: str | None = None, **settings: Any) -> None:
        loaded = tape if isinstance(tape, Cassette) else load_tape(Path(tape))
        resolved = settings_of(settings)
        if resolved.replaying.goes_live:
            raise ConfigurationError(
                f"a ReplayTransport connects to nothing: replay={resolved.replay!r} cannot be meant"
            )
        self._session = open_replay(
            loaded,
            onto=None,
            name=name or loaded.start.name or shown_path(loaded.path),
            settings=resolved,
            dialects=installed_dialects(),
            environment=os.environ,
            words=words_for(loaded.path),
        )
        self._session.begin("call")
        self._exchanges = Exchanges(Registry(running=self._session))
        self._answers: dict[str, Answers] = {}

    def handle_request(self, request: Any) -> Any:
        """Return the recorded answer to a request."""
        __tracebackhide__ = True
        try:
            return self._of(request).handle_request(self, request)
        except ReplayStop as stop:
            raise_in_thread(stop)
        finally:
            self._warn()

    async def handle_async_request(self, request: Any) -> Any:
        """Return the recorded answer to a request."""
        __tracebackhide__ = True
        try:
            return await self._of(request).handle_async_request(self, request)
        except ReplayStop as stop:
            raise_in_thread(stop)
        finally:
            self._warn()

    @property
    def run(self) -> AgentRun:
        """What has been replayed so far."""
        return AgentRun(self._session)

    @property
    def unplayed(self) -> tuple[str, ...]:
        """The recorded steps that nothing has asked for yet, by what reports call them."""
        recorded = self._session.player.recorded
        steps = [recorded.steps[at] for at in recorded.unplayed()] if recorded is not None else []
        return tuple(short_name(step) for step in steps if isinstance(step, ExchangeStep | ToolStep))

    def close(self) -> None:
        """Do nothing: there is no connection to close."""

    async def aclose(self) -> None:
        """Do nothing: there is no connection to close."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    def _of(self, request: Any) -> Answers:
        """Return what answers in the terms of the library that a request is of."""
        library = type(request).__module__.partition(".")[0]
        if library not in self._answers:
            self._answers[library] = answers_of(importlib.import_module(library), self._exchanges)
        return self._answers[library]

    def _warn(self) -> None:
        for report in self._session.player.take_warnings():
            warnings.warn(ReplayDivergenceWarning(report), stacklevel=3)
