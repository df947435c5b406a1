"""Serve, run or diverge: the same decision for a tool's call that the player makes for a request.

A call is part of the conversation that asked for it, where one did: with that come the provider's id of the call and
its place among those of its turn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from pytest_agentreplay.cassette.order import tool_label
from pytest_agentreplay.errors import ToolDeniedError
from pytest_agentreplay.player import describe
from pytest_agentreplay.player.lanes import Lane
from pytest_agentreplay.player.pending import PendingCalls
from pytest_agentreplay.player.refusals import refuse_any_call, refuse_call
from pytest_agentreplay.player.run import Run
from pytest_agentreplay.player.standins import StandIns
from pytest_agentreplay.player.tickets import ServeTool, ToolOutcome, ToolTicket, outcome_of
from pytest_agentreplay.reader import ToolCalled
from pytest_agentreplay.records import Entry, ExchangeStep, PermissionStep, ToolStep

__all__ = ["Toolbox"]

_DENIED = f"{ToolDeniedError.__module__}:{ToolDeniedError.__qualname__}"


@dataclass(frozen=True, slots=True)
class _Found:
    """The recorded step of a call; ``played`` are the steps that went with it, ``is_answer`` says that it answers."""

    step: ToolStep
    played: Sequence[Entry]
    is_answer: bool


@dataclass
class Toolbox:
    """The tools of one run.  Guarded by the player's lock."""

    run: Run
    stand_ins: StandIns

    def __post_init__(self) -> None:
        self.played = 0  # recorded calls that were made again
        self._pending = PendingCalls()
        self._ordinals: dict[str, int] = {}
        self._taken = {step.id for source in self.run.sources for step in source.steps if isinstance(step, ToolStep)}

    def expect_calls_of(self, lane: Lane) -> None:
        """Note that a conversation has been answered; the answer is read when a tool is called."""
        self._pending.expect_from(lane)

    def ask(
        self,
        called: ToolCalled,
        *,
        runs_inside: bool,
        lane_name: str | None,
        parent: str | None,
        tool_use_id: str | None,
        call_site: Callable[[], str | None],
    ) -> ServeTool | ToolTicket:
        """Decide about one call; ``runs_inside`` says that its body runs in replay too, as a sub-agent's does."""
        run = self.run
        mode = run.settings.tool_mode(called.name)
        if mode == "refuse":
            refuse_any_call(run, called, call_site=call_site())
        ticket = self._ticket(called, lane_name=lane_name, parent=parent, tool_use_id=tool_use_id)
        found = self._find(ticket, runs=mode == "live" or runs_inside)
        if found is None and not run.goes_live and mode != "live":
            found = self._stand_in(ticket, call_site=call_site)
            if found is None:
                refuse_call(run, called, call_site=call_site())
        if found is not None and found.is_answer:
            return self._serve(found, ticket)
        expected = found.step if found is not None else None
        return replace(ticket, expected=expected, id=(expected.id if expected else "") or self._label(called))

    def complete(self, ticket: ToolTicket, outcome: ToolOutcome) -> ToolStep:
        """Record what came of a call; of a live tool in replay, remember where it differs from the recording."""
        run = self.run
        step = ticket.step(outcome, took=run.now() - ticket.began, redact=run.reader.redact_value)
        if ticket.expected is not None and run.recording is not None and ticket.meets(step):
            self._carry([ticket.expected], ticket)
            run.finish(step, mark=ticket.mark)
            return step
        self._compare(step, ticket)
        if ticket.decision is not None:
            run.record(ticket.decision, {})
        run.record(step, {}, mark=ticket.mark)
        return step

    def _ticket(
        self, called: ToolCalled, *, lane_name: str | None, parent: str | None, tool_use_id: str | None
    ) -> ToolTicket:
        pending = self._pending.take(called, tool_use_id=tool_use_id, parent=parent)
        return ToolTicket(
            called=called,
            id="",
            lane=f"@{lane_name}" if lane_name else pending.lane.label if pending else "",
            parent=parent,
            tool_use_id=tool_use_id or (pending.call.id if pending else None),
            rank=pending.rank if pending else None,
            phase=self.run.phase,
            began=self.run.now(),
            mark=self.run.begin(f"tool {called.name}"),
        )

    def _label(self, called: ToolCalled) -> str:
        while True:
            ordinal = self._ordinals[called.hash] = self._ordinals.get(called.hash, 0) + 1
            label = tool_label(called.hash, ordinal=ordinal)
            if label not in self._taken:
                return label

    def _find(self, ticket: ToolTicket, *, runs: bool) -> _Found | None:
        """Return the recorded step of a call; with ``runs`` its body is to run, unless that was denied."""
        found = None
        for source in self.run.sources:
            position = source.find_tool(
                ticket.called.hash, lane=ticket.lane, parent=ticket.parent, tool_use_id=ticket.tool_use_id
            )
            if position is None:
                continue
            step = source.steps[position]
            assert isinstance(step, ToolStep)
            is_answer = not runs or _is_denial(step)
            played = source.play_tool(position, whole=is_answer)
            found = found or _Found(step=step, played=played, is_answer=is_answer)
        self.played += found is not None
        return found or self._find_repeat(ticket, runs=runs)

    def _stand_in(self, ticket: ToolTicket, *, call_site: Callable[[], str | None]) -> _Found | None:
        """Return the next recorded call of the tool, where the replay mode lets one stand in for another."""
        run = self.run
        if run.recorded is None or not run.settings.replaying.stands_in:
            return None
        place = self.stand_ins.for_tool(ticket.called, lane=ticket.lane, parent=ticket.parent, call_site=call_site)
        if place is None:
            return None
        step = run.recorded.steps[place]
        assert isinstance(step, ToolStep)
        self.played += 1
        return _Found(step=step, played=run.recorded.play_tool(place, whole=True), is_answer=True)

    def _find_repeat(self, ticket: ToolTicket, *, runs: bool) -> _Found | None:
        """Return the last of equal calls, where the settings let it be made more often than it was recorded."""
        recorded = self.run.recorded
        if recorded is None or self.run.goes_live or not self.run.settings.allow_repeats:
            return None
        step = recorded.last_call(ticket.called.hash, parent=ticket.parent)
        return None if step is None else _Found(step=step, played=[step], is_answer=not runs or _is_denial(step))

    def _serve(self, found: _Found, ticket: ToolTicket) -> ServeTool:
        run = self.run
        played = _as_asked_for(found.played, ticket) if run.goes_live else found.played
        self._carry(played, ticket)
        for step in played:  # what is inside is part of this run as it was of the recorded one
            run.finish(step, mark=ticket.mark)
        run.trail += [(step.lane, step.hash) for step in played if isinstance(step, ExchangeStep)]
        return ServeTool(found.step)

    def _carry(self, entries: Sequence[Entry], ticket: ToolTicket) -> None:
        for entry in entries:
            is_inside = entry.parent != entries[-1].parent
            began, rank = (self.run.now(), None) if is_inside else (ticket.began, ticket.rank)
            self.run.carry(entry, began=began, rank=rank)

    def _compare(self, step: ToolStep, ticket: ToolTicket) -> None:
        expected = ticket.expected
        if self.run.goes_live or expected is None or ticket.meets(step):
            return
        surprise = describe.Surprise(name=step.name, recorded=outcome_of(expected), now=outcome_of(step))
        self.run.surprises.append(surprise)


def _as_asked_for(played: Sequence[Entry], ticket: ToolTicket) -> Sequence[Entry]:
    """Return a recorded call, and the decision on it, as part of the conversation that asks for it now.

    One that has gone live asks for it by another id, and may be another conversation than the recorded one.
    """
    call = played[-1]
    place = {"lane": ticket.lane or call.lane, "tool_use_id": ticket.tool_use_id}
    if ticket.tool_use_id is None or all(getattr(call, name) == value for name, value in place.items()):
        return played
    decided = len(played) > 1 and isinstance(played[-2], PermissionStep)
    own = 1 + decided
    return [*played[:-own], *(step.model_copy(update=place) for step in played[-own:])]


def _is_denial(step: ToolStep) -> bool:
    return step.error is not None and step.error.type == _DENIED
