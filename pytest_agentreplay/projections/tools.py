"""The tool calls of a run: those that were recorded, and those that the conversations tell of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pytest_agentreplay.dialects import Dialects
from pytest_agentreplay.projections.history import read_history
from pytest_agentreplay.projections.tape import Tape
from pytest_agentreplay.projections.transcript import ToldCall
from pytest_agentreplay.records import ToolStep

__all__ = ["read_tool_steps"]


def read_tool_steps(tape: Tape, dialects: Dialects) -> list[ToolStep]:
    """Return every tool call of a tape, in its order.

    A call that only the conversation tells of stands where its result is told; one that was made inside another stands
    after it.
    """
    found = [happened.step for happened in read_history(tape, dialects)]
    steps = [step.as_step() if isinstance(step, ToldCall) else step for step in found]
    return list(_outer_first([step for step in steps if isinstance(step, ToolStep)]))


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
