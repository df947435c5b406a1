"""What came of a run: what it said, what it took, and what of that was live."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_agentreplay.dialects import Message
from pytest_agentreplay.projections.costs import spent
from pytest_agentreplay.projections.replayed import AssistantTurn, replay_events
from pytest_agentreplay.projections.usage import sum_usage
from pytest_agentreplay.records import ModelStep, Usage
from pytest_agentreplay.session import Session

__all__ = ["Result", "Stopwatch", "result_of"]


@dataclass(frozen=True)
class Result:
    """What came of a run.

    ``message`` is the last answer of its models, ``output`` what its code returned; ``usage`` sums the tokens of all
    its model calls, ``turns`` counts those that were made live; ``duration`` is in seconds.  ``cost_usd`` is what it
    spent live, 0.0 in a replay, ``recorded_cost_usd`` what the answers that it was served had cost; either is ``None``
    where a price is unknown (prices need the extra ``prices``).  ``tape`` is the tape that the run wrote; ``torn`` says
    what of the tape it went on from a crash had cut off.
    """

    message: Message | None
    output: Any
    usage: Usage
    turns: int
    duration: float
    run_id: str | None
    cost_usd: float | None
    recorded_cost_usd: float | None
    tape: Path | None
    torn: str | None = None


class Stopwatch:
    """Seconds since it was made."""

    def __init__(self) -> None:
        self._began = time.perf_counter()

    @property
    def seconds(self) -> float:
        """How long it has been."""
        return time.perf_counter() - self._began


def result_of(session: Session, *, output: Any, duration: float, tape: Path | None, torn: str | None = None) -> Result:
    """Return what came of a session's run."""
    player, dialects = session.player, session.reader.rules.dialects
    models = [step for step in player.completed if isinstance(step, ModelStep)]
    live = [step for step in models if session.made(step)]
    turns = [event for event in replay_events(session.tape(), dialects=dialects) if isinstance(event, AssistantTurn)]
    return Result(
        message=turns[-1].message if turns else None,
        output=output,
        usage=sum_usage(step.usage for step in models),
        turns=len(live),
        duration=duration,
        run_id=session.run_id,
        cost_usd=spent(live, dialects),
        recorded_cost_usd=spent([step for step in models if not session.made(step)], dialects),
        tape=tape,
        torn=torn,
    )
