"""Names that stay the same from recording to recording: of tool calls, and of the conversations of a run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pytest_agentreplay.projections.history import Happened, Told
from pytest_agentreplay.projections.timeline import Deed, Moment
from pytest_agentreplay.projections.transcript import ToldCall
from pytest_agentreplay.records import Entry, PermissionStep, ToolStep

__all__ = ["Names", "name_of_call"]


class Names:
    """The names that come up in a history: ``call_1`` and so on for tool calls, ``lane_2`` for further conversations.

    A call is named where a model asks for it, by its number in the run; one that no model asked for has no name.
    """

    def __init__(self, history: Sequence[Happened]) -> None:
        self._answering: dict[int, ToolStep | ToldCall] = {}  # by the number of the call
        self._numbers: dict[int, int] = {}  # of what was done in no conversation, by the identity of what happened
        self._tools: dict[str, str] = {}  # names by the step's own id
        self._lanes = {"": ""}
        self._unnamed = 0
        anywhere: list[tuple[Deed, ToolStep | PermissionStep]] = []
        for happened in history:
            if isinstance(happened, Told):
                self._answering[happened.step.number] = happened.step
                continue
            step = happened.step
            if step.lane not in self._lanes:
                self._open(step)
            if isinstance(happened, Deed) and (step.kind == "tool" or step.kind == "permission"):
                if step.lane:
                    self._know(step, happened.call)
                else:
                    anywhere.append((happened, step))
        if anywhere:
            self._know_anywhere(anywhere, history)

    def lane(self, lane: str) -> str | None:
        """Return the name of a conversation; ``None`` for a run's first, or where there is none."""
        return self._lanes.get(lane) or None

    def answering(self, number: int) -> ToolStep | ToldCall | None:
        """Return the step of the call that has this number, or ``None`` where it was never made."""
        return self._answering.get(number)

    def of(self, deed: Deed | Told) -> str | None:
        """Return the name of the call that was made, or decided about."""
        number = deed.call or self._numbers.get(id(deed))
        return name_of_call(number) if number else None

    def tool(self, step_id: str) -> str | None:
        """Return what the call is called that other steps were made inside."""
        return self._tools.get(step_id)

    def _open(self, step: Entry) -> None:
        """Name a conversation that comes up; what is not told counts for nothing."""
        if step.lane.startswith("@"):
            self._lanes[step.lane] = step.lane[1:]
        elif step.kind != "http":
            self._unnamed += 1
            self._lanes[step.lane] = f"lane_{self._unnamed}" if self._unnamed > 1 else ""

    def _know(self, step: ToolStep | PermissionStep, number: int | None) -> None:
        if step.kind != "tool":
            return
        if number:
            self._answering[number] = step
        if step.id:
            self._tools[step.id] = name_of_call(number) if number else step.name

    def _know_anywhere(
        self, deeds: Iterable[tuple[Deed, ToolStep | PermissionStep]], history: Iterable[Happened]
    ) -> None:
        """Find the calls of what was done in no conversation: those that were not made in their own, as asked for."""
        unmade: dict[str, list[int]] = {}
        for moment in history:
            if isinstance(moment, Moment):
                for number, call in moment.calls():
                    if number not in self._answering:
                        unmade.setdefault(call.id, []).append(number)
        for deed, step in deeds:
            waiting = unmade.get(step.tool_use_id, []) if step.tool_use_id is not None else []
            if waiting:
                self._numbers[id(deed)] = waiting[0]
            self._know(step, waiting[0] if waiting else None)
            if step.kind == "tool":
                del waiting[:1]


def name_of_call(number: int) -> str:
    """Return the name of a call by its number in the run."""
    return f"call_{number}"
