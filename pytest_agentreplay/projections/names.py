"""Names that stay the same from recording to recording: of tool calls, and of the conversations of a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pytest_agentreplay.dialects import ToolCall
from pytest_agentreplay.projections.history import Happened
from pytest_agentreplay.projections.timeline import Moment
from pytest_agentreplay.projections.transcript import ToldCall
from pytest_agentreplay.records import PermissionStep, ToolStep

__all__ = ["Names"]


class Names:
    """The names that come up in a history: ``call_1`` and so on for tool calls, ``lane_2`` for further conversations.

    A call is named where a model asks for it; one that no model asked for has no name.  Providers give an id out again
    in later turns: it stands for the last call that was asked for under it.
    """

    def __init__(self, history: Sequence[Happened]) -> None:
        self._asked: dict[int, list[str]] = {}  # names of the calls of a turn, by the identity of what happened
        self._waiting: dict[tuple[str, str], list[str]] = {}  # by lane and id: not made yet, of the turn that gave it
        self._unmade: dict[str, list[str]] = {}  # by id alone: not made in its own conversation, of all turns
        self._tools: dict[str, str] = {}  # names by the step's own id
        self._by_deed: dict[int, str] = {}  # by the identity of what happened
        self._answering: dict[str, ToolStep | ToldCall] = {}
        self._count = 0
        self._lanes = _names_of_lanes(history)
        anywhere: list[Happened] = []  # what stands in no conversation
        for happened in history:
            if isinstance(happened, Moment):
                self._ask(happened)
            elif happened.step.lane:
                self._know(happened)
            else:
                anywhere.append(happened)
        if anywhere:
            self._unmade = self._left_over(history)
        for happened in anywhere:
            self._know(happened)

    def lane(self, lane: str) -> str | None:
        """Return the name of a conversation; ``None`` for a run's first, or where there is none."""
        return self._lanes.get(lane) or None

    def asked(self, moment: Moment) -> Iterator[str]:
        """Yield the names of the calls that a turn asks for, in their order."""
        return iter(self._asked[id(moment)])

    def answering(self, name: str) -> ToolStep | ToldCall | None:
        """Return the step of the call that has this name, or ``None`` where it was never made."""
        return self._answering.get(name)

    def of(self, deed: Happened) -> str | None:
        """Return the name of the call that was made, or decided about."""
        return self._by_deed.get(id(deed))

    def tool(self, step_id: str) -> str | None:
        """Return what the call is called that other steps were made inside."""
        return self._tools.get(step_id)

    def _ask(self, moment: Moment) -> None:
        asked: dict[tuple[str, str], list[str]] = {}
        names = self._asked[id(moment)] = []
        for call in _calls_of(moment):
            self._count += 1
            names.append(f"call_{self._count}")
            asked.setdefault((moment.step.lane, call.id), []).append(names[-1])
        self._waiting |= asked

    def _left_over(self, history: Sequence[Happened]) -> dict[str, list[str]]:
        """Return the names of the calls that were not made in their own conversation, by id, in the order of asking."""
        unmade: dict[str, list[str]] = {}
        for moment in history:
            if isinstance(moment, Moment):
                for call, name in zip(_calls_of(moment), self.asked(moment), strict=True):
                    if name not in self._answering:
                        unmade.setdefault(call.id, []).append(name)
        return unmade

    def _know(self, deed: Happened) -> None:
        step = deed.step
        if step.kind != "tool" and step.kind != "permission":
            return
        name = next(iter(self._names_for(step)), None)
        if name is not None:
            self._by_deed[id(deed)] = name
        if step.kind == "tool":
            self._make(step, name)

    def _make(self, step: ToolStep | ToldCall, name: str | None) -> None:
        if name is not None:
            self._answering[name] = step
            self._names_for(step).pop(0)
        if step.id:
            self._tools[step.id] = name or step.name

    def _names_for(self, step: ToolStep | ToldCall | PermissionStep) -> list[str]:
        """Return the names of the calls that a step can be about: in its conversation, or in any where it has none."""
        if step.tool_use_id is None:
            return []
        waiting = self._waiting.get((step.lane, step.tool_use_id)) if step.lane else self._unmade.get(step.tool_use_id)
        return waiting or []


def _calls_of(moment: Moment) -> list[ToolCall]:
    return [call for message in moment.reply.messages for call in message.tool_calls]


def _names_of_lanes(history: Sequence[Happened]) -> dict[str, str]:
    lanes: dict[str, str] = {}
    unnamed = 0
    for happened in history:
        lane = happened.step.lane
        if not lane or lane in lanes or happened.step.kind == "http":  # what is not told counts for nothing
            continue
        if lane.startswith("@"):
            lanes[lane] = lane[1:]
        else:
            unnamed += 1
            lanes[lane] = f"lane_{unnamed}" if unnamed > 1 else ""
    return lanes
