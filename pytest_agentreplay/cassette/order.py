"""The canonical order of a cassette: what chance decided while recording is decided by content.

Lanes stand in the order of their opening steps.  Openings that were in flight at the same time arrived in an order
that is chance, and stand by hash; equal ones among them by their answers.  Lanes that the user named stand by name
where they were held at the same time.  A lane that was opened inside a tool stands
after the lane that called the tool, in the order of the calls.  Requests of a lane keep their order; what was done
between two of them, the tools of one turn above all, stands in the order in which the model asked for it, and what no
model asked for in the order of time, by content where it was done at the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from pytest_agentreplay.canonical import content_hash
from pytest_agentreplay.records import Entry, ExchangeStep, PermissionStep, Timing, ToolStep

__all__ = ["canonical_order", "lane_label", "tool_label"]

_Lane: TypeAlias = list[Entry]


def canonical_order(steps: Iterable[Entry]) -> list[Entry]:
    """Return the steps in canonical order, their lanes and tools named by content."""
    lanes: dict[tuple[str, str | None], _Lane] = {}
    for step in steps:
        # What belongs to no conversation belongs to what it was done inside.
        lanes.setdefault((step.lane, None if step.lane else step.parent), []).append(step)
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
        if isinstance(step, ExchangeStep):
            ordered += [*_by_call(turn), step]
            turn = []
        else:
            turn.append(step)
    return [*ordered, *_by_call(turn)]


def _by_call(turn: _Lane) -> _Lane:
    """Order what was done in one turn: as the model ranked it, then the rest."""
    calls = _with_their_decisions(turn)
    ranked = sorted((call for call in calls if call[-1].rank is not None), key=lambda call: call[-1].rank or 0)
    rest = _by_content([call for call in calls if call[-1].rank is None], key=lambda call: _hash_of(call[-1]))
    return [step for call in (*ranked, *rest) for step in call]


def _with_their_decisions(turn: _Lane) -> list[_Lane]:
    """Keep each tool's call together with the decision that was made right before it."""
    calls: list[_Lane] = []
    for step in turn:
        if calls and isinstance(step, ToolStep) and isinstance(calls[-1][-1], PermissionStep):
            calls[-1].append(step)
        else:
            calls.append([step])
    return calls


def _as_tree(lanes: list[_Lane]) -> list[_Lane]:
    tools = {step.id: lane for lane in lanes for step in lane if isinstance(step, ToolStep)}
    children: dict[str, list[_Lane]] = {}
    roots: list[_Lane] = []
    for lane in lanes:
        parent = lane[0].parent
        if parent is None or tools.get(parent, lane) is lane:
            roots.append(lane)
        else:
            children.setdefault(parent, []).append(lane)
    ordered: list[_Lane] = []
    pending = _last_first(roots)
    while pending:
        lane = pending.pop()
        ordered.append(lane)
        inside = [children.pop(step.id) for step in lane if isinstance(step, ToolStep) and step.id in children]
        for found in reversed(inside):
            pending += _last_first(found)
    # Lanes that were opened inside each other's tools are reached from nowhere; no recording makes them.
    return [*ordered, *(lane for found in children.values() for lane in found)]


def _last_first(lanes: list[_Lane]) -> list[_Lane]:
    return list(reversed(_by_content(lanes, key=_name_by_content)))


def _relabelled(lanes: list[_Lane]) -> list[Entry]:
    opened: dict[str, int] = {}
    called: dict[str, int] = {}
    tools: dict[str | None, str] = {}
    ordered: list[tuple[Entry, str]] = []
    for lane in lanes:
        label = lane[0].lane
        if not _is_named(lane[0]):  # a lane that the user named keeps its name
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
    changes: dict[str, str | None] = {"lane": label} if step.lane != label else {}
    if isinstance(step, ToolStep) and tools[step.id] != step.id:
        changes["id"] = tools[step.id]
    parent = tools.get(step.parent)  # of a call that never ended there is no step, and nothing is inside it
    if parent != step.parent:
        changes["parent"] = parent
    return step.model_copy(update=changes) if changes else step


def _is_named(step: Entry) -> bool:
    return step.lane.startswith("@")


def _name_by_content(lane: _Lane) -> str:
    return lane[0].lane if _is_named(lane[0]) else _opening_hash(lane)


def _opening_hash(lane: _Lane) -> str:
    first = next((step for step in lane if isinstance(step, ExchangeStep)), None)
    return first.hash if first is not None else _hash_of(lane[0])


def _hash_of(step: Entry) -> str:
    return getattr(step, "hash", "") or content_hash(step.model_dump(mode="json"))


def _by_content(items: list[_Lane], *, key: Callable[[_Lane], str]) -> list[_Lane]:
    """Order by time, and what began together by its key and its answers."""
    ordered = []
    for cluster in _in_flight_together(items):
        equal: dict[str, list[_Lane]] = {}
        for item in cluster:
            equal.setdefault(key(item), []).append(item)
        for _, group in sorted(equal.items()):
            # Equal requests made one after the other keep their order: the first recorded is served first.
            for together in _in_flight_together(group):
                ordered += sorted(together, key=_answers) if len(together) > 1 else together
    return ordered


def _in_flight_together(items: Sequence[_Lane]) -> list[list[_Lane]]:
    """Group, in order of time, what begins with steps that overlap."""
    clusters: list[list[_Lane]] = []
    latest = 0.0
    for item in sorted(items, key=_span):
        began, ended = _span(item)
        if clusters and began < latest:
            clusters[-1].append(item)
        else:
            clusters.append([item])
        latest = max(latest, ended)
    return clusters


def _span(item: _Lane) -> tuple[float, float]:
    """Return when it began and ended: a lane's opening, or, where the user named the lane, all of it."""
    steps = [step for step in item if not isinstance(step, PermissionStep)] or item
    timings = [step.timing or Timing(began=0.0, took=0.0) for step in (steps if _is_named(item[0]) else steps[:1])]
    return min(timing.began for timing in timings), max(timing.began + timing.took for timing in timings)


def _answers(lane: _Lane) -> str:
    answers: list[object] = []
    for step in lane:
        if isinstance(step, ExchangeStep):
            response = step.response
            kept = response.content.decode("utf-8", "surrogateescape") if response else ""
            answers.append([step.hash, response.status if response else None, kept])
        else:
            answers.append(step.model_dump(mode="json", exclude={"lane", "id", "parent"}))
    return content_hash(answers)
