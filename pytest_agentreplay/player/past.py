"""What a run has done so far, in the order of its tape, whatever the order in which it was completed."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from pytest_agentreplay.player.recorded import Recorded
from pytest_agentreplay.records import Entry, ToolStep

__all__ = ["in_order_of_tape"]


def in_order_of_tape(completed: Sequence[Entry], recorded: Recorded) -> list[Entry]:
    """Return the steps of a replay in the order of the recording.

    Steps that were made anew, notes and the calls of live tools, stand where the recording has theirs; what it does not
    have stands after the step of its conversation that was completed before.
    """
    places = {id(step): place for place, step in enumerate(recorded.steps)}
    served = {id(step) for step in completed}
    spare: dict[tuple[str, ...], deque[int]] = {}
    for place, step in enumerate(recorded.steps):
        if id(step) not in served:
            spare.setdefault(_kin(step), deque()).append(place)
    standing: list[int] = []
    latest: dict[str, int] = {}
    for step in completed:
        place = places.pop(id(step), -1)  # served once more, a step stands where it was asked for again
        if place < 0:
            waiting = spare.get(_kin(step))
            place = waiting.popleft() if waiting else latest.get(step.lane, -1)
        latest[step.lane] = place
        standing.append(place)
    return [completed[at] for at in sorted(range(len(completed)), key=standing.__getitem__)]


def _kin(step: Entry) -> tuple[str, ...]:
    # Of equal calls at once it is chance which is completed first; a live one has the id of the recorded one.
    made = step.id if isinstance(step, ToolStep) else ""
    return (step.kind, step.lane, step.parent or "", str(getattr(step, "hash", "")), made)
