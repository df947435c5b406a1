"""The tool calls of a run: those that were recorded, and those that the conversations tell of.

Where nobody wrapped a tool, the model's call and the result in a later request say what happened; such a step has
``source="transcript"`` and no arguments beyond what the model wrote.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from pytest_agentreplay.canonical import REQUEST_FORM, content_hash, parse_json
from pytest_agentreplay.dialects import Dialects, ToolCall, ToolResult
from pytest_agentreplay.projections.timeline import Moment, read_timeline
from pytest_agentreplay.records import Entry, ExchangeStep, HttpStep, ModelStep, ToolStep

__all__ = ["read_tool_steps"]


class Recorded(Protocol):
    """What this fold needs of a tape."""

    @property
    def entries(self) -> Sequence[Entry]:
        """The recorded steps, in order."""

    @property
    def exchanges(self) -> Sequence[ExchangeStep]:
        """Those of them that are exchanges."""

    @property
    def messages(self) -> Mapping[str, Any]:
        """The elements that requests refer to, by address."""


def read_tool_steps(tape: Recorded, dialects: Dialects) -> list[ToolStep]:
    """Return every tool call of a tape in its order, the calls of one turn as the model asked for them.

    A call that only the conversation tells of stands where its result is told; one that was made inside another stands
    after it.
    """
    told = _Told(tape.entries)
    moments = iter(read_timeline(tape, dialects))
    turns: Counter[str] = Counter()
    groups: dict[object, list[ToolStep]] = {}
    for position, step in enumerate(tape.entries):
        if isinstance(step, ModelStep | HttpStep):
            turns[step.lane] += 1
            groups[position] = list(told.by(next(moments)))
        elif isinstance(step, ToolStep):
            told.know(step)
            place = position if step.rank is None else (step.lane, turns[step.lane])
            groups.setdefault(place, []).append(step)
    calls = [step for group in groups.values() for step in sorted(group, key=lambda step: step.rank or 0)]
    return list(_outer_first(calls))


def _outer_first(calls: Sequence[ToolStep]) -> Iterator[ToolStep]:
    known = {step.id for step in calls if step.id}
    inside: dict[str | None, list[ToolStep]] = {}
    for step in calls:
        inside.setdefault(step.parent if step.parent in known else None, []).append(step)
    pending = inside.pop(None, [])[::-1]
    while pending:
        step = pending.pop()
        yield step
        pending += inside.pop(step.id, [])[::-1] if step.id else []


class _Told:
    """Reads tool calls and their results out of conversations, and leaves out those that were recorded."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._asked: dict[tuple[str, str], ToolCall] = {}
        self._known: Counter[tuple[str, str]] = Counter()  # by conversation and id: an id can come up again
        for step in entries:
            if isinstance(step, ToolStep) and not step.lane:
                self._know(step)

    def know(self, step: ToolStep) -> None:
        """Note a recorded call, of those that have a conversation."""
        if step.lane:
            self._know(step)

    def by(self, moment: Moment) -> Iterator[ToolStep]:
        """Yield the calls whose results a request brings, and remember those that its answer asks for."""
        lane = moment.step.lane
        for result in (result for message in moment.heard for result in message.tool_results):
            call = self._asked.pop((lane, result.id), None)
            if call is not None and not self._was_recorded(lane, result.id):
                yield _step_of(call, result, moment.step)
        for message in moment.reply.messages:
            self._asked |= {(lane, call.id): call for call in message.tool_calls}

    def _know(self, step: ToolStep) -> None:
        self._known[step.lane, step.tool_use_id or ""] += 1

    def _was_recorded(self, lane: str, tool_use_id: str) -> bool:
        for place in ((lane, tool_use_id), ("", tool_use_id)):
            if self._known[place] > 0:
                self._known[place] -= 1
                return True
        return False


def _step_of(call: ToolCall, result: ToolResult, step: ExchangeStep) -> ToolStep:
    arguments = _arguments_of(call)
    digest = content_hash({"tool": call.name, "arguments": arguments}).partition(":")[2]
    return ToolStep(
        lane=step.lane,
        phase=step.phase,
        parent=step.parent,
        hash=REQUEST_FORM + digest,
        tool_use_id=call.id,
        name=call.name,
        arguments=arguments,
        result=result.content,
        is_error=result.is_error,
        source="transcript",
    )


def _arguments_of(call: ToolCall) -> Any:
    try:
        return parse_json(call.arguments.encode("utf-8", "surrogatepass"))
    except ValueError:
        return call.arguments
