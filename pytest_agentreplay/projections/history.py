"""Everything a run did, in the order of its tape, with the tool calls that only conversations tell of."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_agentreplay.dialects import Dialects
from pytest_agentreplay.projections.tape import Tape
from pytest_agentreplay.projections.timeline import Deed, Moment, read_story
from pytest_agentreplay.projections.transcript import ToldCalls
from pytest_agentreplay.records import ToolStep

__all__ = ["read_history"]


def read_history(tape: Tape, dialects: Dialects) -> Iterator[Moment | Deed]:
    """Yield what happened at each step of a tape, and right before a request the unwrapped tool calls it tells of."""
    told = ToldCalls(tape.entries)
    for happened in read_story(tape, dialects):
        if isinstance(happened, Moment):
            for step in told.by(happened):
                yield Deed(number=happened.number, step=step, inside=happened.inside)
        elif isinstance(happened.step, ToolStep):
            told.know(happened.step)
        yield happened
