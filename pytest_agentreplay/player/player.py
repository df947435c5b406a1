"""Serve, record or diverge.

The player knows no HTTP and no pytest: it is asked about requests that are read already, and answers with a recorded
step (:class:`Serve`), a :class:`Ticket` for a live call, or a divergence.  A divergence is remembered: every later request
fails at once with the same report, whatever the code in between made of the first.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from pytest_agentreplay.cassette.order import lane_label
from pytest_agentreplay.dialects import Message
from pytest_agentreplay.errors import ReplayDivergenceError, ReplayDivergenceException
from pytest_agentreplay.player import describe
from pytest_agentreplay.player.lanes import Lane, Lanes
from pytest_agentreplay.player.recorded import Recorded
from pytest_agentreplay.player.tape import Tape, WritableTape
from pytest_agentreplay.reader import Asked, Reader
from pytest_agentreplay.records import ExchangeStep, HttpStep, ModelStep, Phase, Response, Timing, TransportError
from pytest_agentreplay.settings import Settings

__all__ = ["Player", "Serve", "Ticket"]


@dataclass(frozen=True, slots=True)
class Serve:
    """The recorded step that answers a request."""

    step: ExchangeStep


@dataclass(slots=True)
class Ticket:
    """Leave to make a request live; hand it back with what came of it."""

    asked: Asked
    lane: Lane
    phase: Phase
    began: float


@dataclass
class Player:
    """Plays one tape to one run, or records one.  Thread-safe.

    ``tape`` is the recording to serve, or ``None``; ``recording`` the tape to write to, or ``None`` where nothing may
    go live.  ``clock`` gives seconds from any start.
    """

    reader: Reader
    settings: Settings
    test: str
    cassette: str
    tape: Tape | None = None
    recording: WritableTape | None = None
    clock: Callable[[], float] = time.monotonic
    phase: Phase = "setup"
    stopped: ReplayDivergenceError | None = None
    calls: list[str] = field(default_factory=list)
    trail: list[tuple[str, str]] = field(default_factory=list)  # lane and hash of each request, in order
    completed: list[ExchangeStep] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._lanes = Lanes()
        self._started = self.clock()
        self._in_flight = 0
        self.recorded = Recorded(self.tape, self._live_hashes(self.tape)) if self.tape is not None else None

    def knows(self, asked: Asked) -> bool:
        """Return whether the recording has a request like this one."""
        return self.recorded is not None and self.recorded.knows(asked.hash)

    @property
    def in_flight(self) -> int:
        """How many live calls have not come back."""
        return self._in_flight

    def ask(self, asked: Asked, *, call_site: Callable[[], str | None]) -> Serve | Ticket:
        """Decide about one request.

        Raises :class:`ReplayDivergenceError` when the recording cannot answer it and nothing may go live.
        """
        with self._lock:
            if self.stopped is not None:
                self._raise(self.stopped)
            lane = self._lanes.place(asked, label=lambda opening, ordinal: lane_label(opening, ordinal=ordinal))
            self.calls.append(describe.short_name(asked))
            self.trail.append((lane.label, asked.hash))
            if self.recording is not None:
                self._in_flight += 1
                return Ticket(asked=asked, lane=lane, phase=self.phase, began=self.clock())
            return self._serve(asked, lane, call_site=call_site)

    def complete(
        self, ticket: Ticket, *, response: Response | None = None, error: TransportError | None = None
    ) -> None:
        """Record what came of a live call: an answer, a failure, or the part of an answer before a failure.

        Durable when this returns.
        """
        timing = Timing(began=ticket.began - self._started, took=self.clock() - ticket.began)
        kept = self.reader.redact_response(response) if response is not None else None
        step = self._step(ticket, timing=timing, response=kept, error=error)
        with self._lock:
            if self.recording is not None:
                self.recording.append(step, ticket.asked.messages)
            self._in_flight -= 1
            self.completed.append(step)
            ticket.lane.answer(None if error else self._answers_in(ticket.asked, kept))

    def abandon(self, ticket: Ticket) -> None:
        """Forget a live call that was given up before any answer came."""
        with self._lock:
            self._in_flight -= 1
            ticket.lane.answer(None)

    def unplayed(self, phases: Sequence[Phase]) -> list[int]:
        """Return the positions of recorded steps of these phases that nothing asked for; background traffic may stay."""
        if self.recorded is None:
            return []
        return [
            position
            for position in self.recorded.unplayed()
            if self.recorded.steps[position].phase in phases and not self._is_background(self.recorded.steps[position])
        ]

    def unplayed_error(self, phases: Sequence[Phase]) -> ReplayDivergenceError | None:
        """Return the divergence that unplayed steps of these phases are, or ``None``."""
        left = self.unplayed(phases)
        if not left or self.recorded is None:
            return None
        report = describe.unplayed(self.scene(None), self.recorded.steps, left, phase=phases[-1])
        return ReplayDivergenceError(report, kind="unplayed")

    def scene(self, call_site: str | None, lane: Lane | None = None) -> describe.Scene:
        """Return where the run stands, for a report."""
        recorded = self.recorded.steps if self.recorded else ()
        return describe.Scene(
            test=self.test,
            cassette=self.cassette,
            call_site=call_site,
            lane=lane.label if lane else "",
            recorded=tuple(describe.short_name(step) for step in recorded),
            now=tuple(self.calls),
            place=max(0, len(self.calls) - 1),
        )

    def _serve(self, asked: Asked, lane: Lane, *, call_site: Callable[[], str | None]) -> Serve:
        recorded = self.recorded
        if recorded is None:
            self._diverge("missing-cassette", describe.missing(self.scene(call_site(), lane), asked))
        position = self._position(recorded, asked, lane)
        if position is None:
            self._refuse(recorded, asked, lane, call_site=call_site())
        if recorded.played[position]:
            step = recorded.steps[position]  # a repeat that is allowed
        else:
            step = recorded.play(position)
            lane.recorded = step.lane
        self.completed.append(step)
        lane.answer(self._answers_in(asked, step.response))
        return Serve(step)

    def _position(self, recorded: Recorded, asked: Asked, lane: Lane) -> int | None:
        following = recorded.next_in(lane.recorded)
        if following is not None and recorded.hashes[following] == asked.hash:
            return following
        opening = recorded.opening(asked.hash)
        if opening is not None:
            return opening
        known = recorded.positions(asked.hash)
        if known and all(recorded.played[position] for position in known):
            return known[-1] if self.settings.allow_repeats or self._is_background(recorded.steps[known[-1]]) else None
        return None

    def _refuse(self, recorded: Recorded, asked: Asked, lane: Lane, *, call_site: str | None) -> NoReturn:
        scene = self.scene(call_site, lane)
        known = recorded.positions(asked.hash)
        if any(not recorded.played[position] for position in known):
            following = recorded.next_in(lane.recorded)
            expected = recorded.steps[following] if following is not None else self._first_of_lane(recorded, known)
            self._diverge("order", describe.order(scene, asked, expected))
        if known:
            self._diverge("exhausted", describe.exhausted(scene, asked, times=len(known)))
        left = recorded.unplayed()
        following = recorded.next_in(lane.recorded)
        candidates = [following] if following is not None else left
        steps = [recorded.steps[position] for position in candidates]
        messages = self.tape.messages if self.tape else {}
        self._diverge("changed", describe.changed(scene, asked, steps, reader=self.reader, messages=messages))

    def _first_of_lane(self, recorded: Recorded, known: Sequence[int]) -> ExchangeStep | None:
        position = next(position for position in known if not recorded.played[position])
        following = recorded.next_in(recorded.steps[position].lane)
        return recorded.steps[following] if following is not None else None

    def _diverge(self, kind: str, report: str) -> NoReturn:
        self.stopped = ReplayDivergenceError(report, kind=kind)
        self._raise(self.stopped)

    def _raise(self, error: ReplayDivergenceError) -> NoReturn:
        thread = threading.current_thread()
        if type(thread).__module__ == "multiprocessing.dummy" and not getattr(thread, "agent_replay_shielded", False):
            raise ReplayDivergenceException(*error.args)
        raise error.with_traceback(None)

    def _answers_in(self, asked: Asked, response: Response | None) -> Callable[[], tuple[Message, ...]] | None:
        if response is None or response.status >= 400:
            return None

        def read() -> tuple[Message, ...]:
            reply = self.reader.read_reply(asked, response)
            return reply.messages if reply else ()

        return read

    def _is_background(self, step: ExchangeStep) -> bool:
        address = step.request.url.partition("://")[2]
        return any(address.startswith(known) for known in self.settings.background)

    def _step(
        self, ticket: Ticket, *, timing: Timing, response: Response | None, error: TransportError | None
    ) -> ExchangeStep:
        asked = ticket.asked
        common: dict[str, Any] = {
            "lane": ticket.lane.label,
            "phase": ticket.phase,
            "timing": timing,
            "hash": asked.hash,
            "provider": asked.provider,
            "operation": asked.operation,
            "request": asked.request,
            "response": response,
            "error": error,
        }
        if asked.kind == "http":
            return HttpStep(**common)
        reply = self.reader.read_reply(asked, response) if response is not None else None
        return ModelStep(**common, usage=reply.usage if reply else None)

    def _live_hashes(self, tape: Tape) -> list[str]:
        digest = getattr(getattr(tape, "start", None), "rules", "")
        if digest == self.reader.rules.digest:
            return [step.hash for step in tape.exchanges]
        return [self.reader.reread(step.request, tape.messages).hash for step in tape.exchanges]
