"""What of a run is drawn, and what it is called: the steps that a diagram and a trajectory show.

Attempts, signals, timers and housekeeping are not drawn, nor is traffic that no dialect recognises.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pytest_agentreplay.dialects import Dialects, installed_dialects
from pytest_agentreplay.projections.history import read_history
from pytest_agentreplay.projections.tape import Tape
from pytest_agentreplay.projections.transcript import ToldCall
from pytest_agentreplay.records import ApprovalStep, Entry, ModelStep, ToolStep, ValueStep

__all__ = ["Drawn", "read_drawn", "trajectory"]

FAILED = " ✗"


@dataclass(frozen=True)
class Drawn:
    """One step as it is drawn: its name, the mark of how it ended, and the step itself."""

    name: str
    mark: str
    step: Entry | ToldCall

    @property
    def label(self) -> str:
        """What the step is labelled with."""
        return self.name + self.mark


def read_drawn(tape: Tape, dialects: Dialects | None = None) -> Iterator[Drawn]:
    """Yield the steps of a tape that are drawn, in its order."""
    for happened in read_history(tape, dialects or installed_dialects()):
        drawn = _drawn(happened.step)
        if drawn is not None:
            yield drawn


def trajectory(tape: Tape, *, dialects: Dialects | None = None) -> list[str]:
    """Return the names of what a run did, in the order of its tape, and nothing of what came of it.

    ``LLM`` is a model call, ``tool: NAME`` a tool's, ``approval`` a person's decision, ``step: NAME`` a durable step.
    Raises nothing for a tape that could be loaded.
    """
    return [
        drawn.name if not isinstance(drawn.step, ApprovalStep) else "approval" for drawn in read_drawn(tape, dialects)
    ]


def _drawn(step: Entry | ToldCall) -> Drawn | None:
    if isinstance(step, ModelStep):
        return Drawn("LLM", "", step)
    if isinstance(step, ToolStep | ToldCall):
        failed = step.is_error or step.error is not None
        return Drawn(f"tool: {step.name}", FAILED if failed else "", step)
    if isinstance(step, ApprovalStep):
        return Drawn("approved", " ✓", step) if step.approved else Drawn("denied", FAILED, step)
    if isinstance(step, ValueStep):
        return Drawn(f"step: {step.name}", "", step)
    return None
