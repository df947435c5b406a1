"""The tool calls of a run: those that were recorded, and those that the conversations tell of.

Where nobody wrapped a tool, the model's call and the result in a later request say what happened; such a step has
``source="transcript"`` and no arguments beyond what the model wrote.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from pytest_agentreplay.canonical import REQUEST_FORM, content_hash, parse_json
from pytest_agentreplay.dialects import Dialects, ToolCall, ToolResult
from pytest_agentreplay.projections.timeline import read_timeline
from pytest_agentreplay.records import Entry, ExchangeStep, ToolStep

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
    """Return every tool call of a tape: the recorded ones in its order, then those that only conversations tell of."""
    recorded = [step for step in tape.entries if isinstance(step, ToolStep)]
    known = {step.tool_use_id for step in recorded if step.tool_use_id}
    told = [step for step in _told(tape, dialects) if step.tool_use_id not in known]
    return [*recorded, *told]


def _told(tape: Recorded, dialects: Dialects) -> Iterator[ToolStep]:
    asked: dict[tuple[str, str], ToolCall] = {}
    for moment in read_timeline(tape, dialects):
        lane = moment.step.lane
        for message in moment.heard:
            for result in message.tool_results:
                call = asked.pop((lane, result.id), None)
                if call is not None:
                    yield _step_of(call, result, moment.step)
        for message in moment.reply.messages:
            asked |= {(lane, call.id): call for call in message.tool_calls}


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
