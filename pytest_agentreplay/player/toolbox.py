"""Serve, run or diverge: the same decision for a tool's call that the player makes for a request.

A call belongs to the conversation whose last answer asked for it, by name and arguments; with that come the provider's
id of the call and its place among those of its turn.  Equal calls are answered by that id, else first in, first out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from pytest_agentreplay.canonical import canonical_json
from pytest_agentreplay.cassette.order import tool_label
from pytest_agentreplay.dialects import ToolCall
from pytest_agentreplay.errors import ToolDeniedError, ToolRefusedError
from pytest_agentreplay.player import describe
from pytest_agentreplay.player.lanes import Lane
from pytest_agentreplay.player.run import Run
from pytest_agentreplay.player.standins import StandIns
from pytest_agentreplay.reader import ToolCalled
from pytest_agentreplay.records import (
    Entry,
    HttpStep,
    ModelStep,
    PermissionStep,
    Phase,
    Timing,
    ToolFailure,
    ToolStep,
)

__all__ = ["ServeTool", "ToolTicket", "Toolbox"]

_DENIED = f"{ToolDeniedError.__module__}:{ToolDeniedError.__qualname__}"


@dataclass(frozen=True, slots=True)
class ServeTool:
    """The recorded step that answers a tool's call."""

    step: ToolStep


@dataclass(slots=True)
class ToolTicket:
    """Leave to run a tool; hand it back with what came of it.

    ``expected`` is the recorded step of a tool that runs live in replay, for comparison.
    """

    called: ToolCalled
    id: str
    lane: str
    parent: str | None
    tool_use_id: str | None
    rank: int | None
    phase: Phase
    began: float
    expected: ToolStep | None = None
    decision: PermissionStep | None = None
    mark: Any = None  # the observer's


@dataclass(slots=True)
class _Pending:
    """A call that a model has asked for and nobody has made yet."""

    lane: Lane
    call: ToolCall
    rank: int


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
        self._unread: dict[Lane, None] = {}
        self._pending: list[_Pending] = []
        self._ordinals: dict[str, int] = {}
        self._taken = {step.id for source in self.run.sources for step in source.steps if isinstance(step, ToolStep)}

    def expect_calls_of(self, lane: Lane) -> None:
        """Note that a conversation has been answered; the answer is read when a tool is called."""
        self._unread[lane] = None

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
        run.calls.append(f"tool {called.name}")
        mode = run.settings.tool_mode(called.name)
        if mode == "refuse":
            run.halt(ToolRefusedError(_refusal(called, test=run.test, call_site=call_site())))
        pending = self._take_pending(called, tool_use_id, parent=parent)
        lane = f"@{lane_name}" if lane_name else pending.lane.label if pending else ""
        ticket = ToolTicket(
            called=called,
            id="",
            lane=lane,
            parent=parent,
            tool_use_id=tool_use_id or (pending.call.id if pending else None),
            rank=pending.rank if pending else None,
            phase=run.phase,
            began=run.now(),
            mark=run.observer.began(run.calls[-1]),
        )
        found = self._find(ticket, runs=mode == "live" or runs_inside)
        if found is not None and found.is_answer:
            return self._serve(found, ticket)
        if found is None and not run.goes_live and mode != "live":
            found = self._stand_in(ticket, call_site=call_site)
            if found is None:
                self._refuse(called, call_site=call_site())
            return self._serve(found, ticket)
        ticket.expected = found.step if found is not None else None
        ticket.id = (found.step.id if found is not None else "") or self._label(called)
        return ticket

    def complete(
        self,
        ticket: ToolTicket,
        *,
        result: Any = None,
        result_type: str | None = None,
        failure: ToolFailure | None = None,
        is_error: bool = False,
    ) -> ToolStep:
        """Record what came of a call; of a live tool in replay, remember where it differs from the recording."""
        run = self.run
        redact = run.reader.rules.redactor.value
        step = ToolStep(
            lane=ticket.lane,
            phase=ticket.phase,
            parent=ticket.parent,
            timing=Timing(began=ticket.began, took=run.now() - ticket.began),
            rank=ticket.rank,
            hash=ticket.called.hash,
            id=ticket.id,
            tool_use_id=ticket.tool_use_id,
            name=ticket.called.name,
            arguments=ticket.called.arguments,
            result=redact(result),
            result_type=result_type,
            error=failure
            and failure.model_copy(
                update={
                    "message": redact(failure.message),
                    "args": redact(failure.args),
                    "state": redact(failure.state),
                }
            ),
            is_error=is_error or failure is not None,
        )
        if ticket.expected is not None and run.recording is not None and _is_same(step, ticket.expected):
            self._carry([ticket.expected], ticket)
            run.finish(step, mark=ticket.mark)
            return step
        self._compare(step, ticket.expected)
        if ticket.decision is not None:
            run.record(ticket.decision, {})
        run.record(step, {}, mark=ticket.mark)
        return step

    def _label(self, called: ToolCalled) -> str:
        while True:
            ordinal = self._ordinals[called.hash] = self._ordinals.get(called.hash, 0) + 1
            label = tool_label(called.hash, ordinal=ordinal)
            if label not in self._taken:
                return label

    def _take_pending(self, called: ToolCalled, tool_use_id: str | None, *, parent: str | None) -> _Pending | None:
        if self._unread:
            self._read_answers()
        if not self._pending:
            return None
        # A framework may call a tool by another name than the model knows, and with arguments it has filled in: where
        # the id is known it decides.  Ids can be equal across conversations.
        named = [item for item in self._pending if tool_use_id and item.call.id == tool_use_id]
        # What a tool calls in its body, no conversation outside has asked for.
        beside = [item for item in self._pending if item.lane.parent == parent]
        arguments = canonical_json(called.arguments).decode("utf-8")
        alike = [item for item in named or beside if (item.call.name, item.call.arguments) == (called.name, arguments)]
        akin = alike or named or [item for item in beside if _is_akin(item.call, called)]
        chosen = next(iter(akin), None)
        if chosen is not None:
            self._pending.remove(chosen)
        return chosen

    def _read_answers(self) -> None:
        # A conversation that has gone on waits for no call of an earlier turn.
        self._pending = [item for item in self._pending if item.lane not in self._unread]
        for lane in self._unread:
            for answer in lane.answers():
                self._pending += [_Pending(lane, call, rank) for rank, call in enumerate(answer.tool_calls)]
        self._unread.clear()

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
        run.trail += [(step.lane, step.hash) for step in played if isinstance(step, ModelStep | HttpStep)]
        return ServeTool(found.step)

    def _carry(self, entries: Sequence[Entry], ticket: ToolTicket) -> None:
        for entry in entries:
            is_inside = entry.parent != entries[-1].parent
            began, rank = (self.run.now(), None) if is_inside else (ticket.began, ticket.rank)
            self.run.carry(entry, began=began, rank=rank)

    def _compare(self, step: ToolStep, expected: ToolStep | None) -> None:
        if self.run.goes_live or expected is None:
            return
        if not _is_same(step, expected):
            self.run.surprises.append(
                describe.Surprise(name=step.name, recorded=_outcome(expected), now=_outcome(step))
            )

    def _refuse(self, called: ToolCalled, *, call_site: str | None) -> NoReturn:
        run = self.run
        scene = run.scene(call_site)
        if run.recorded is None:
            run.diverge("missing-cassette", describe.missing_tool(scene, called, partial=run.partial))
        steps = [step for step in run.recorded.steps if isinstance(step, ToolStep)]
        times = sum(step.hash == called.hash for step in steps)
        if times:
            run.diverge("exhausted", describe.exhausted_tool(scene, called, times=times))
        left = [
            step for position in run.recorded.unplayed() if isinstance(step := run.recorded.steps[position], ToolStep)
        ]
        run.diverge("changed", describe.changed_tool(scene, called, left))


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


def _is_akin(call: ToolCall, called: ToolCalled) -> bool:
    """Return whether a call is one that a model asked for, with arguments that the agent added or left out."""
    if call.name != called.name or not isinstance(called.arguments, dict):
        return False
    asked = call.value
    if not isinstance(asked, dict):  # the call of a tool that takes one text
        return list(called.arguments.values()) in ([call.written], [call.arguments])
    shared = asked.keys() & called.arguments.keys()
    is_part = len(shared) == min(len(asked), len(called.arguments))
    return is_part and all(canonical_json(asked[key]) == canonical_json(called.arguments[key]) for key in shared)


def _is_same(step: ToolStep, recorded: ToolStep) -> bool:
    return canonical_json(_outcome(step)) == canonical_json(_outcome(recorded))


def _outcome(step: ToolStep) -> Any:
    return {"error": f"{step.error.type}: {step.error.message}"} if step.error else step.result


def _refusal(called: ToolCalled, *, test: str, call_site: str | None) -> str:
    return "\n".join(
        [
            f"Tool refused: {called.name} was called, and this test lets none be called (tools='refuse').",
            "",
            f"  test      {test}",
            *([f"  called    {call_site}"] if call_site else []),
        ]
    )
