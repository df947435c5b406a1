"""Everything a run did, in the order of its tape, with the tool calls that only conversations tell of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

from pytest_agentreplay.dialects import Dialects
from pytest_agentreplay.projections.tape import Tape
from pytest_agentreplay.projections.timeline import Moment, read_story
from pytest_agentreplay.projections.transcript import ToldCall, ToldCalls
from pytest_agentreplay.records import Entry

__all__ = ["Done", "Happened", "read_history"]


class Done(NamedTuple):
    """One step that is no exchange, or a tool's call that nobody recorded, where the request stands that tells of it.

    ``inside`` is the name of the tool that it was done inside.  ``call_number`` is the number, as in
    :meth:`Moment.calls`, of the call that it makes or decides about; ``None`` where its conversation asked for none.
    """

    number: int
    step: Entry | ToldCall
    inside: str | None
    call_number: int | None


Happened: TypeAlias = Moment | Done


def read_history(tape: Tape, dialects: Dialects) -> Iterator[Happened]:
    """Yield what happened at each step of a tape, and right before a request the unwrapped tool calls it tells of."""
    told = ToldCalls(tape.entries)
    for happened in read_story(tape, dialects):
        if isinstance(happened, Moment):
            for call in told.by(happened):
                yield Done(happened.number, call, happened.inside, call.number)
            yield happened
        else:
            yield Done(*happened, told.match(happened.step))
