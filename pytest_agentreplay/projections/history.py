"""Everything a run did, in the order of its tape, with the tool calls that only conversations tell of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

from pytest_agentreplay.dialects import Dialects
from pytest_agentreplay.projections.tape import Tape
from pytest_agentreplay.projections.timeline import Deed, Moment, read_story
from pytest_agentreplay.projections.transcript import ToldCall, ToldCalls

__all__ = ["Happened", "Told", "read_history"]


class Told(NamedTuple):
    """One tool's call that nobody recorded, where the request stands that tells of it."""

    number: int
    step: ToldCall
    inside: str | None = None

    @property
    def call(self) -> int:
        """The number of the call in the run."""
        return self.step.number


Happened: TypeAlias = Moment | Deed | Told


def read_history(tape: Tape, dialects: Dialects) -> Iterator[Happened]:
    """Yield what happened at each step of a tape, and right before a request the unwrapped tool calls it tells of."""
    told = ToldCalls(tape.entries)
    for happened in read_story(tape, dialects):
        if isinstance(happened, Moment):
            for call in told.by(happened):
                yield Told(happened.number, call, happened.inside)
            yield happened
        else:
            yield happened._replace(call=told.number_of(happened.step))
