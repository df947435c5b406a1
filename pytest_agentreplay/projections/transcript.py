"""Tool calls as conversations tell of them.

Where nobody wrapped a tool, the model's call and the result in a later request say what happened; such a step has
``source="transcript"`` and no arguments beyond what the model wrote.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from pytest_agentreplay.canonical import tool_call_hash
from pytest_agentreplay.dialects import ToolCall, ToolResult
from pytest_agentreplay.projections.timeline import Moment
from pytest_agentreplay.records import Entry, ExchangeStep, ToolStep

__all__ = ["ToldCalls"]


class ToldCalls:
    """Reads tool calls and their results out of conversations, and leaves out those that were recorded."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._asked: dict[tuple[str, str], list[ToolCall]] = {}
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
        for message in moment.heard:
            for result in message.tool_results:
                waiting = self._asked.get((lane, result.id))
                call = waiting.pop(0) if waiting else None
                if call is not None and not self._was_recorded(lane, result.id):
                    yield _step_of(call, result, moment.step)
        asked: dict[tuple[str, str], list[ToolCall]] = {}
        for message in moment.reply.messages:
            for call in message.tool_calls:
                asked.setdefault((lane, call.id), []).append(call)
        self._asked |= asked  # an id that is given out again stands for the later calls

    def _know(self, step: ToolStep) -> None:
        self._known[step.lane, step.tool_use_id or ""] += 1

    def _was_recorded(self, lane: str, tool_use_id: str) -> bool:
        for place in ((lane, tool_use_id), ("", tool_use_id)) if self._known else ():
            if self._known[place] > 0:
                self._known[place] -= 1
                return True
        return False


def _step_of(call: ToolCall, result: ToolResult, step: ExchangeStep) -> ToolStep:
    return ToolStep(
        lane=step.lane,
        phase=step.phase,
        parent=step.parent,
        hash=tool_call_hash(call.name, call.canonical),
        tool_use_id=call.id,
        name=call.name,
        arguments=call.value,
        result=result.content,
        is_error=result.is_error,
        source="transcript",
    )
