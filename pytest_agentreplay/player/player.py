"""Serve, record or diverge.

The player knows no HTTP and no pytest: it is asked about requests that are read already, and answers with a recorded
step (:class:`Serve`), a :class:`Ticket` for a live call, or a divergence.  A divergence is remembered: every later
request fails at once with the same report, whatever the code in between made of the first.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, NoReturn

from pytest_agentreplay.cassette.order import lane_label
from pytest_agentreplay.dialects import Reply
from pytest_agentreplay.errors import ReplayDivergenceError, ReplayStop
from pytest_agentreplay.player import describe
from pytest_agentreplay.player.lanes import Lane, Lanes
from pytest_agentreplay.player.permissions import Approve, Policy
from pytest_agentreplay.player.refusals import compare_beginning, find_unplayed, refuse_request, unplayed_error
from pytest_agentreplay.player.run import Run
from pytest_agentreplay.player.standins import StandIns
from pytest_agentreplay.player.tickets import Serve, ServeTool, Ticket, ToolOutcome, ToolTicket
from pytest_agentreplay.player.toolbox import Toolbox
from pytest_agentreplay.reader import Asked, ToolCalled
from pytest_agentreplay.records import (
    Entry,
    ExchangeStep,
    HttpStep,
    ModelStep,
    Phase,
    Response,
    Timing,
    ToolFailure,
    ToolStep,
    TransportError,
)

__all__ = ["Beginning", "Player"]

# What a run that goes on from a recording may begin with: anything, the recorded first request, or anything with a
# warning.
Beginning = Literal["free", "required", "told"]


@dataclass
class Player(Run):
    """Plays recordings to one run, or records one.  Thread-safe.

    ``beginning`` says what a run that continues a recording may begin with; :class:`Run` says the rest.
    """

    beginning: Beginning = "free"
    clients: set[str] = field(default_factory=set)  # user agents of live requests
    programs: set[str] = field(default_factory=set)  # that were started, and whose requests nobody sees
    served: int = 0
    in_flight: int = 0
    given_up: dict[str, Asked] = field(default_factory=dict)  # by hash, and not answered since
    policy: Policy | None = None  # asked about calls of tools that are not recorded yet
    approve: Approve | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self._lock = threading.Lock()
        self._lanes = Lanes()
        self.tools = Toolbox(self, StandIns(self))

    def knows(self, asked: Asked) -> bool:
        """Return whether a recording has a request like this one."""
        return any(source.knows(asked.hash) for source in self.sources)

    def ask(
        self,
        asked: Asked,
        *,
        call_site: Callable[[], str | None],
        lane_name: str | None = None,
        parent: str | None = None,
    ) -> Serve | Ticket:
        """Decide about one request; ``parent`` is the recorded tool that it is made inside.

        Raises :class:`ReplayDivergenceError` when no recording can answer it and nothing may go live.
        """
        with self._lock:
            if self.stopped is not None:
                self.halt(self.stopped)
            lane = self._lanes.place(asked, label=_label_of_lane, name=lane_name, parent=parent)
            mark = self.begin(describe.short_name(asked))
            step = None if lane.is_live else self._find(asked, lane, parent=parent)
            self.trail.append((lane.label, asked.hash))
            if step is not None:
                return self._serve(step, asked, lane, mark=mark)
            if not self.goes_live and self.is_background(asked.url):
                return self._serve(_unsent(asked), asked, lane, mark=mark, is_recorded=False)
            if self.goes_live:
                self._check_beginning(asked, lane, call_site=call_site)
                if self.continues:
                    lane.go_live()
                self.in_flight += 1
                return Ticket(asked=asked, lane=lane, phase=self.phase, began=self.clock(), parent=parent, mark=mark)
            if self.settings.replaying.stands_in:
                step = self.tools.stand_ins.for_request(asked, lane, parent=parent, call_site=call_site)
                if step is not None:
                    return self._serve(step, asked, lane, mark=mark)
            return refuse_request(self, asked, lane, call_site=call_site())

    def complete(
        self, ticket: Ticket, *, response: Response | None = None, error: TransportError | None = None
    ) -> None:
        """Record what came of a live call: an answer, a failure, or the part of an answer before a failure.

        Durable when this returns.
        """
        timing = Timing(began=ticket.began - self.started, took=self.clock() - ticket.began)
        kept = self.reader.redact_response(response) if response is not None else None
        if error is not None:
            error = error.model_copy(update={"text": self.reader.redact_value(error.text)})
        reply = self.reader.read_reply(ticket.asked, kept) if kept is not None else None
        step = ticket.step(timing=timing, response=kept, error=error, reply=reply)
        with self._lock:
            self.in_flight -= 1
            self.given_up.pop(ticket.asked.hash, None)
            self._answer(ticket.lane, ticket.asked, None if error else self._reply_in(ticket.asked, kept))
            self.record(step, ticket.asked.messages, mark=ticket.mark)

    def abandon(self, ticket: Ticket) -> None:
        """Forget a live call that was given up before any answer came."""
        with self._lock:
            self.in_flight -= 1
            if not self.is_background(ticket.asked.url):
                self.given_up[ticket.asked.hash] = ticket.asked
            self.observer.abandoned(ticket.mark)
            self._answer(ticket.lane, ticket.asked, None)

    def call_tool(
        self,
        called: ToolCalled,
        *,
        call_site: Callable[[], str | None],
        runs_inside: bool = False,
        lane_name: str | None = None,
        parent: str | None = None,
        tool_use_id: str | None = None,
    ) -> ServeTool | ToolTicket:
        """Decide about one call of a tool; ``runs_inside`` says that its body runs in replay too.

        Raises :class:`ReplayDivergenceError` as :meth:`ask` does, :class:`ToolRefusedError` where none may be called.
        """
        with self._lock:
            if self.stopped is not None:
                self.halt(self.stopped)
            return self.tools.ask(
                called,
                runs_inside=runs_inside,
                lane_name=lane_name,
                parent=parent,
                tool_use_id=tool_use_id,
                call_site=call_site,
            )

    def complete_tool(
        self,
        ticket: ToolTicket,
        *,
        result: Any = None,
        result_type: str | None = None,
        failure: ToolFailure | None = None,
        is_error: bool = False,
    ) -> ToolStep:
        """Record what came of a tool's call; ``is_error`` says that the result is one.  Durable when this returns."""
        outcome = ToolOutcome(result=result, result_type=result_type, failure=failure, is_error=is_error)
        with self._lock:
            return self.tools.complete(ticket, outcome)

    @contextmanager
    def tool_in_flight(self) -> Iterator[None]:
        """Keep a recording open for the tool that runs in this block."""
        with self._lock:
            self.in_flight += 1
        try:
            yield
        finally:
            with self._lock:
                self.in_flight -= 1

    def note(self, step: Entry, *, lane_name: str | None = None, parent: str | None = None) -> None:
        """Record a step that answers nothing, a compaction say, in a named lane or beside a model's last answer."""
        with self._lock:
            place = {"lane": self._lane_of_note(lane_name, parent=parent), "parent": parent, "phase": self.phase}
            timing = Timing(began=self.now(), took=0.0)
            self.record(step.model_copy(update={**place, "timing": timing}), {})

    def stop(self, error: ReplayStop) -> NoReturn:
        """Remember what ends this run, and raise it; every later request raises it again."""
        with self._lock:
            self.halt(self.stopped or error)

    def warn(self, report: str) -> None:
        """Keep the report of what differed where that is allowed."""
        with self._lock:
            self.warned.append(report)

    def take_warnings(self) -> list[str]:
        """Return the reports of what differed where that is allowed, each once."""
        with self._lock:
            taken, self.warned = self.warned, []
        return taken

    def unplayed(self, phases: Sequence[Phase]) -> list[int]:
        """Return the positions of these phases' steps that nothing asked for; background traffic may stay."""
        return find_unplayed(self, phases)

    def unplayed_error(self, phases: Sequence[Phase]) -> ReplayDivergenceError | None:
        """Return the divergence that unplayed steps of these phases are, or ``None``; none while recording."""
        return unplayed_error(self, phases)

    def _check_beginning(self, asked: Asked, lane: Lane, *, call_site: Callable[[], str | None]) -> None:
        """Refuse to go on from a run whose first request was another one, or say that this one begins anew."""
        is_begun = self.served or self.in_flight or (self.recording is not None and self.recording.added)
        if self.beginning != "free" and not is_begun and not self.is_background(asked.url):
            is_required = self.beginning == "required"
            compare_beginning(self, asked, lane, is_required=is_required, call_site=call_site())

    def _lane_of_note(self, name: str | None, *, parent: str | None) -> str:
        if name is not None:
            return f"@{name}"
        answers = (step for step in reversed(self.completed) if isinstance(step, ModelStep) and step.parent == parent)
        return next((step.lane for step in answers), "")

    def _find(self, asked: Asked, lane: Lane, *, parent: str | None) -> ExchangeStep | None:
        found = None
        for source in self.sources:
            position = source.find(asked.hash, lane, parent=parent)
            if position is not None:
                step = source.play(position, lane)
                found = found or step
        return found or self._find_repeat(asked)

    def _find_repeat(self, asked: Asked) -> ExchangeStep | None:
        """Return a step that may be served again: by permission, or because it is background traffic."""
        is_background = self.is_background(asked.url)
        for source in self.sources:
            known = source.positions(asked.hash)
            if known and all(source.played[at] for at in known) and (self.settings.allow_repeats or is_background):
                return source.exchange(known[-1])
            last = source.last_at(method=asked.method, url=asked.url) if is_background else None
            if last is not None:
                return source.exchange(last)
        return None

    def _serve(self, step: ExchangeStep, asked: Asked, lane: Lane, *, mark: Any, is_recorded: bool = True) -> Serve:
        if step.lane:
            lane.follow(step.lane)
        self.trail[-1] = (lane.label, asked.hash)
        if is_recorded:
            self.carry(step, began=self.now())
        self.served += 1
        self.finish(step, mark=mark)
        self._answer(lane, asked, None if step.error else self._reply_in(asked, step.response))
        return Serve(step)

    def _answer(self, lane: Lane, asked: Asked, read_reply: Callable[[], Reply | None] | None) -> None:
        if asked.retrieves and not lane.is_opened_by_fetching() and not (read_reply and lane.awaits(asked.retrieves)):
            return  # the same answer once more, or none, or one that the conversation has left behind
        lane.answer(read_reply)
        if read_reply is not None:
            self.tools.expect_calls_of(lane)

    def _reply_in(self, asked: Asked, response: Response | None) -> Callable[[], Reply | None] | None:
        if response is None or response.status >= 400:
            return None
        return lambda: self.reader.read_reply(asked, response)


def _label_of_lane(opening: str, ordinal: int) -> str:
    return lane_label(opening, ordinal=ordinal)


def _unsent(asked: Asked) -> ExchangeStep:
    """Return the failure that background traffic meets in replay: it is not recorded, and not sent.

    It is no client's own, so each raises its class for a refused connection.
    """
    error = TransportError(
        client="builtins",
        class_name=ConnectionRefusedError.__name__,
        kind="refused",
        phase="connect",
        text=f"background traffic is not sent in replay: {asked.url}",
    )
    return HttpStep(hash=asked.hash, request=asked.request, error=error)
