"""Names that stay the same from recording to recording: of tool calls, and of the conversations of a run."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from pytest_agentreplay.projections.timeline import Deed, Moment
from pytest_agentreplay.records import PermissionStep, ToolStep

__all__ = ["Names"]


class Names:
    """The names that come up in a history: ``call_1`` and so on for tool calls, ``lane_2`` for further conversations.

    A call is named where a model asks for it; one that no model asked for has no name.
    """

    def __init__(self, history: Sequence[Moment | Deed]) -> None:
        self._lanes: dict[str, str] = {}
        self._open: dict[tuple[str, str], deque[str]] = {}  # names of calls by lane and id, in the order of asking
        self._told: dict[tuple[str, str], deque[str]] = {}
        self._tools: dict[str, str] = {}  # names by the step's own id
        self._by_step: dict[int, str] = {}
        self._answering: dict[str, ToolStep] = {}
        for happened in history:
            self._lanes.setdefault(happened.step.lane, "")
        self._name_lanes()
        calls = [
            (happened.step.lane, call.id)
            for happened in history
            if isinstance(happened, Moment)
            for message in happened.reply.messages
            for call in message.tool_calls
        ]
        for number, place in enumerate(calls, start=1):
            self._open.setdefault(place, deque()).append(f"call_{number}")
        self._told = {place: deque(names) for place, names in self._open.items()}
        for happened in history:
            if isinstance(happened.step, ToolStep | PermissionStep):
                self._know(happened.step)

    def lane(self, lane: str) -> str | None:
        """Return the name of a conversation; ``None`` for a run's first, or where there is none."""
        return self._lanes.get(lane) or None

    def asked(self, lane: str, tool_use_id: str) -> str:
        """Return the name of the next call that is told under this id."""
        return self._told[lane, tool_use_id].popleft()

    def answering(self, name: str) -> ToolStep | None:
        """Return the step of the call that has this name, or ``None`` where it was never made."""
        return self._answering.get(name)

    def of(self, step: ToolStep | PermissionStep) -> str | None:
        """Return the name of the call that a step is, or decides about."""
        return self._by_step.get(id(step))

    def tool(self, step_id: str) -> str | None:
        """Return what the call is called that other steps were made inside."""
        return self._tools.get(step_id)

    def _know(self, step: ToolStep | PermissionStep) -> None:
        names = self._waiting(step)
        if names:
            self._by_step[id(step)] = names[0]
        if isinstance(step, PermissionStep):
            return
        if names:
            self._answering[names.popleft()] = step
        if step.id:
            self._tools[step.id] = self._by_step.get(id(step), step.name)

    def _waiting(self, step: ToolStep | PermissionStep) -> deque[str] | None:
        """Return the names of the calls that a step can be about: in its conversation, else in any."""
        if step.tool_use_id is None:
            return None
        own = self._open.get((step.lane, step.tool_use_id))
        others = (names for (_, told), names in self._open.items() if told == step.tool_use_id)
        return own or (None if step.lane else next(filter(None, others), None))

    def _name_lanes(self) -> None:
        unnamed = 0
        for lane in self._lanes:
            if lane.startswith("@"):
                self._lanes[lane] = lane[1:]
            elif lane:
                unnamed += 1
                self._lanes[lane] = f"lane_{unnamed}" if unnamed > 1 else ""
