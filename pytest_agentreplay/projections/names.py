"""Names that stay the same from recording to recording: of tool calls, and of the conversations of a run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from pytest_agentreplay.projections.history import Done, Happened
from pytest_agentreplay.projections.timeline import Moment
from pytest_agentreplay.projections.transcript import ToldCall
from pytest_agentreplay.records import Entry, PermissionStep, ToolStep

__all__ = ["Names", "name_of_call"]

_Call: TypeAlias = tuple[Done, ToolStep | PermissionStep]  # a call that was made or decided about


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
        anywhere: list[_Call] = []
        for happened in history:
            step = happened.step
            if isinstance(step, ToldCall):  # the request behind it opens its conversation
                self._answering[step.number] = step
                continue
            if step.lane not in self._lanes:
                self._open(step)
            if isinstance(happened, Moment) or (step.kind != "tool" and step.kind != "permission"):
                continue
            if not step.lane:
                anywhere.append((happened, step))
            elif step.kind == "tool":
                self._know(step, happened.call_number)
        if anywhere:
            self._know_anywhere(anywhere, history)

    def lane(self, lane: str) -> str | None:
        """Return the name of a conversation; ``None`` for a run's first, or where there is none."""
        return self._lanes.get(lane) or None

    def answering(self, number: int) -> ToolStep | ToldCall | None:
        """Return the step of the call that has this number, or ``None`` where it was never made."""
        return self._answering.get(number)

    def of(self, done: Done) -> str | None:
        """Return the name of the call that was made, or decided about."""
        number = done.call_number or self._numbers.get(id(done))
        return name_of_call(number) if number else None

    def tool(self, step_id: str) -> str | None:
        """Return what the call is called that other steps were made inside."""
        return self._tools.get(step_id)

    def _open(self, step: Entry) -> None:
        """Name a conversation that comes up.  One without a name of its own counts only where it is told."""
        if step.lane.startswith("@"):
            self._lanes[step.lane] = step.lane[1:]
        elif step.kind != "http":
            self._unnamed += 1
            self._lanes[step.lane] = f"lane_{self._unnamed}" if self._unnamed > 1 else ""

    def _know(self, step: ToolStep, number: int | None) -> None:
        if number:  # the first: a call that is made again may have other arguments
            self._answering.setdefault(number, step)
        if step.id:
            self._tools[step.id] = name_of_call(number) if number else step.name

    def _know_anywhere(self, deeds: Iterable[_Call], history: Iterable[Happened]) -> None:
        """Find the calls of what was done in no conversation: those that were not made in their own, as asked for."""
        unmade: dict[str | None, list[int]] = {}
        for moment in history:
            if isinstance(moment, Moment):
                for number, call in moment.calls():
                    if number not in self._answering:
                        unmade.setdefault(call.id, []).append(number)
        for done, step in deeds:
            waiting = unmade.get(step.tool_use_id, [])
            if waiting:
                self._numbers[id(done)] = waiting[0]
            if step.kind == "tool":
                self._know(step, waiting.pop(0) if waiting else None)


def name_of_call(number: int) -> str:
    """Return the name of a call by its number in the run."""
    return f"call_{number}"
