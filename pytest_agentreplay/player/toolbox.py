"""Serve, run or diverge: the same decision for a tool's call that the player makes for a request.

A call belongs to the conversation whose last answer asked for it, by name and arguments; with that come the provider's
id of the call and its place among those of its turn.  Equal calls are answered first in, first out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

from pytest_agentreplay.canonical import canonical_json
from pytest_agentreplay.cassette.order import tool_label
from pytest_agentreplay.errors import ToolRefusedError
from pytest_agentreplay.player import describe
from pytest_agentreplay.player.lanes import Lane
from pytest_agentreplay.reader import ToolCalled
from pytest_agentreplay.records import Entry, PermissionStep, Phase, Timing, ToolFailure, ToolStep

if TYPE_CHECKING:
    from pytest_agentreplay.player.player import Player

__all__ = ["ServeTool", "Surprise", "ToolTicket", "Toolbox"]


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


@dataclass(frozen=True, slots=True)
class Surprise:
    """A tool that ran live and did something else than was recorded: the cause of what differs after it."""

    name: str
    recorded: Any
    now: Any


@dataclass(slots=True)
class _Pending:
    """A call that a model has asked for and nobody has made yet."""

    lane: Lane
    tool_use_id: str
    rank: int


@dataclass
class Toolbox:
    """The tools of one run.  Guarded by the player's lock."""

    player: Player
    surprises: list[Surprise] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._unread: list[Lane] = []
        self._pending: dict[tuple[str, str], deque[_Pending]] = {}
        self._ordinals: dict[str, int] = {}

    def expect_calls_of(self, lane: Lane) -> None:
        """Note that a conversation has been answered; the answer is read when a tool is called."""
        self._unread.append(lane)

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
        player = self.player
        mode = player.settings.tool_mode(called.name)
        if mode == "refuse":
            player.stopped = ToolRefusedError(_refusal(called, test=player.test, call_site=call_site()))
            player.raise_stopped()
        pending = self._take_pending(called, tool_use_id)
        lane = f"@{lane_name}" if lane_name else pending.lane.label if pending else ""
        ticket = ToolTicket(
            called=called,
            id=self._label(called),
            lane=lane,
            parent=parent,
            tool_use_id=tool_use_id or (pending.tool_use_id if pending else None),
            rank=pending.rank if pending else None,
            phase=player.phase,
            began=player.now(),
        )
        runs = mode == "live" or runs_inside
        found = self._find(called, lane=lane, whole=not runs)
        if found and not runs:
            return self._serve(found, ticket)
        if not found and player.recording is None and mode != "live":
            self._refuse(called, call_site=call_site())
        ticket.expected = found[0] if found and isinstance(found[0], ToolStep) else None
        ticket.id = ticket.expected.id if ticket.expected and ticket.expected.id else ticket.id
        return ticket

    def complete(
        self,
        ticket: ToolTicket,
        *,
        result: Any = None,
        result_type: str | None = None,
        failure: ToolFailure | None = None,
    ) -> ToolStep:
        """Record what came of a call; of a live tool in replay, remember where it differs from the recording."""
        player = self.player
        redact = player.reader.rules.redactor.value
        step = ToolStep(
            lane=ticket.lane,
            phase=ticket.phase,
            parent=ticket.parent,
            timing=Timing(began=ticket.began, took=player.now() - ticket.began),
            rank=ticket.rank,
            hash=ticket.called.hash,
            id=ticket.id,
            tool_use_id=ticket.tool_use_id,
            name=ticket.called.name,
            arguments=ticket.called.arguments,
            result=redact(result),
            result_type=result_type,
            error=failure
            and failure.model_copy(update={"message": redact(failure.message), "args": redact(failure.args)}),
            is_error=failure is not None,
        )
        self._compare(step, ticket.expected)
        if ticket.decision is not None:
            player.record(ticket.decision, {})
        player.record(step, {})
        return step

    def _label(self, called: ToolCalled) -> str:
        ordinal = self._ordinals[called.hash] = self._ordinals.get(called.hash, 0) + 1
        return tool_label(called.hash, ordinal=ordinal)

    def _take_pending(self, called: ToolCalled, tool_use_id: str | None) -> _Pending | None:
        for lane in self._unread:
            for answer in lane.answers():
                for rank, call in enumerate(answer.tool_calls):
                    waiting = self._pending.setdefault((call.name, call.arguments), deque())
                    waiting.append(_Pending(lane=lane, tool_use_id=call.id, rank=rank))
        self._unread.clear()
        key = (called.name, canonical_json(called.arguments).decode("utf-8"))
        waiting = self._pending.get(key, deque())
        chosen = next((item for item in waiting if item.tool_use_id == tool_use_id), waiting[0] if waiting else None)
        if chosen is not None:
            waiting.remove(chosen)
        return chosen

    def _find(self, called: ToolCalled, *, lane: str, whole: bool) -> list[Entry]:
        found: list[Entry] = []
        for source in self.player.sources:
            position = source.find_tool(called.hash, lane=lane)
            if position is not None:
                played = source.play_tool(position, whole=whole)
                found = found or played
        return found

    def _serve(self, found: Sequence[Entry], ticket: ToolTicket) -> ServeTool:
        player = self.player
        step = found[0]
        assert isinstance(step, ToolStep)
        if player.recording is not None:
            for entry in found:
                player.recording.carry(entry, began=player.now())
        player.completed.append(step.model_copy(update={"rank": ticket.rank}))
        return ServeTool(step)

    def _compare(self, step: ToolStep, expected: ToolStep | None) -> None:
        if self.player.recording is not None or expected is None:
            return
        recorded, now = _outcome(expected), _outcome(step)
        if canonical_json(recorded) != canonical_json(now):
            self.surprises.append(Surprise(name=step.name, recorded=recorded, now=now))

    def _refuse(self, called: ToolCalled, *, call_site: str | None) -> NoReturn:
        player = self.player
        player.calls.append(f"tool {called.name}")
        scene = player.scene(call_site)
        if player.recorded is None:
            player.diverge("missing-cassette", describe.missing_tool(scene, called, partial=player.partial))
        steps = [step for step in player.recorded.steps if isinstance(step, ToolStep)]
        times = sum(step.hash == called.hash for step in steps)
        if times:
            player.diverge("exhausted", describe.exhausted_tool(scene, called, times=times))
        left = [
            step
            for position in player.recorded.unplayed()
            if isinstance(step := player.recorded.steps[position], ToolStep)
        ]
        player.diverge("changed", describe.changed_tool(scene, called, left))


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
