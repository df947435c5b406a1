"""The canonical order of a cassette: what chance decided while recording is decided by content.

Lanes stand in the order of their opening steps.  Openings that were in flight at the same time arrived in an order
that is chance, and stand by hash; equal ones among them by their answers.  A lane that was opened inside a tool stands
after the lane that called the tool, in the order of the calls.  Requests of a lane keep their order; what was done
between two of them, the tools of one turn above all, stands in the order in which the model asked for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from pytest_agentreplay.canonical import content_hash
from pytest_agentreplay.records import Entry, HttpStep, ModelStep, ToolStep

__all__ = ["canonical_order", "lane_label", "tool_label"]

_Lane: TypeAlias = list[Entry]


def canonical_order(steps: Iterable[Entry]) -> list[Entry]:
    """Return the steps in canonical order, their lanes and tools named by content."""
    lanes: dict[str, _Lane] = {}
    for step in steps:
        lanes.setdefault(step.lane, []).append(step)
    return _relabelled(_as_tree([_in_turn(lane) for lane in lanes.values()]))


def lane_label(opening_hash: str, *, ordinal: int) -> str:
    """Return the name of the lane that a request opened, the how-many-th of those with an equal opening."""
    return opening_hash.partition(":")[2][:8] + (f".{ordinal}" if ordinal > 1 else "")


def tool_label(call_hash: str, *, ordinal: int) -> str:
    """Return the name of a tool call, the how-many-th of equal ones."""
    return call_hash.partition(":")[2][:16] + (f".{ordinal}" if ordinal > 1 else "")


def _in_turn(lane: _Lane) -> _Lane:
    """Put what stands between two requests of a lane in the order of the calls."""
    ordered: _Lane = []
    turn: _Lane = []
    for step in lane:
        if isinstance(step, ModelStep | HttpStep):
            ordered += [*sorted(turn, key=_place_in_turn), step]
            turn = []
        else:
            turn.append(step)
    return [*ordered, *sorted(turn, key=_place_in_turn)]


def _place_in_turn(step: Entry) -> tuple[float, float]:
    # The sort is stable: what the model did not rank stays as it came, after what it did.
    return (float("inf"), _span(step)[0]) if step.rank is None else (float(step.rank), 0.0)


def _as_tree(lanes: list[_Lane]) -> list[_Lane]:
    children: dict[str | None, list[_Lane]] = {}
    for lane in lanes:
        children.setdefault(lane[0].parent, []).append(lane)
    ordered: list[_Lane] = []
    tools = {step.id for lane in lanes for step in lane if isinstance(step, ToolStep)}
    roots = [lane for parent, found in children.items() if parent not in tools for lane in found]
    pending = list(reversed(_by_opening(roots)))
    while pending:
        lane = pending.pop()
        ordered.append(lane)
        inside = [children[step.id] for step in lane if isinstance(step, ToolStep) and step.id in children]
        for found in reversed(inside):
            pending += reversed(_by_opening(found))
    return ordered


def _relabelled(lanes: list[_Lane]) -> list[Entry]:
    opened: dict[str, int] = {}
    called: dict[str, int] = {}
    tools: dict[str | None, str] = {}
    ordered: list[tuple[Entry, str]] = []
    for lane in lanes:
        label = lane[0].lane
        if not label.startswith("@"):  # a lane that the user named keeps its name
            opening = _opening_hash(lane)
            opened[opening] = opened.get(opening, 0) + 1
            label = lane_label(opening, ordinal=opened[opening]) if label else ""
        for step in lane:
            if isinstance(step, ToolStep):
                called[step.hash] = called.get(step.hash, 0) + 1
                tools[step.id] = tool_label(step.hash, ordinal=called[step.hash])
            ordered.append((step, label))
    return [_named(step, label, tools) for step, label in ordered]


def _named(step: Entry, label: str, tools: dict[str | None, str]) -> Entry:
    changes: dict[str, str] = {"lane": label} if step.lane != label else {}
    if isinstance(step, ToolStep) and tools[step.id] != step.id:
        changes["id"] = tools[step.id]
    if step.parent is not None and tools.get(step.parent, step.parent) != step.parent:
        changes["parent"] = tools[step.parent]
    return step.model_copy(update=changes) if changes else step


def _opening_hash(lane: _Lane) -> str:
    first = next((step for step in lane if isinstance(step, ModelStep | HttpStep)), None)
    return first.hash if first is not None else _hash_of(lane[0])


def _hash_of(step: Entry) -> str:
    return getattr(step, "hash", "") or content_hash(step.model_dump(mode="json"))


def _by_opening(lanes: list[_Lane]) -> list[_Lane]:
    ordered = []
    for cluster in _in_flight_together(lanes):
        equal: dict[str, list[_Lane]] = {}
        for lane in cluster:
            equal.setdefault(_opening_hash(lane), []).append(lane)
        for _, group in sorted(equal.items()):
            # Equal requests made one after the other keep their order: the first recorded is served first.
            for together in _in_flight_together(group):
                ordered += sorted(together, key=_answers) if len(together) > 1 else together
    return ordered


def _in_flight_together(lanes: Sequence[_Lane]) -> list[list[_Lane]]:
    """Group lanes, in order of time, whose opening steps overlap."""
    clusters: list[list[_Lane]] = []
    latest = 0.0
    for lane in sorted(lanes, key=lambda lane: _span(lane[0])):
        began, ended = _span(lane[0])
        if clusters and began < latest:
            clusters[-1].append(lane)
        else:
            clusters.append([lane])
        latest = max(latest, ended)
    return clusters


def _span(step: Entry) -> tuple[float, float]:
    timing = step.timing
    return (timing.began, timing.began + timing.took) if timing else (0.0, 0.0)


def _answers(lane: _Lane) -> str:
    answers: list[object] = []
    for step in lane:
        if isinstance(step, ModelStep | HttpStep):
            response = step.response
            kept = response.content.decode("utf-8", "surrogateescape") if response else ""
            answers.append([step.hash, response.status if response else None, kept])
        else:
            answers.append(step.model_dump(mode="json", exclude={"lane", "id", "parent"}))
    return content_hash(answers)
