"""The canonical order of a cassette: what chance decided while recording is decided by content.

Lanes stand in the order of their opening requests.  Openings that were in flight at the same time arrived in an order
that is chance, and stand by hash; equal ones among them by their answers.  Steps of a lane keep their order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from pytest_agentreplay.canonical import content_hash
from pytest_agentreplay.records import ExchangeStep

__all__ = ["canonical_order", "lane_label"]

_T = TypeVar("_T", bound=Sequence[ExchangeStep])


def canonical_order(steps: Iterable[ExchangeStep]) -> list[ExchangeStep]:
    """Return the steps in canonical order, their lanes named by content."""
    lanes: dict[str, list[ExchangeStep]] = {}
    for step in steps:
        lanes.setdefault(step.lane, []).append(step)
    ordered: list[ExchangeStep] = []
    counts: dict[str, int] = {}
    for lane in _by_opening(list(lanes.values())):
        opening = lane[0].hash
        counts[opening] = counts.get(opening, 0) + 1
        label = lane_label(opening, ordinal=counts[opening])
        ordered += [step if step.lane == label else step.model_copy(update={"lane": label}) for step in lane]
    return ordered


def lane_label(opening_hash: str, *, ordinal: int) -> str:
    """Return the name of the lane that a request opened, the how-many-th of those with an equal opening."""
    return opening_hash.partition(":")[2][:8] + (f".{ordinal}" if ordinal > 1 else "")


def _by_opening(lanes: list[list[ExchangeStep]]) -> list[list[ExchangeStep]]:
    ordered = []
    for cluster in _in_flight_together(lanes):
        equal: dict[str, list[list[ExchangeStep]]] = {}
        for lane in cluster:
            equal.setdefault(lane[0].hash, []).append(lane)
        for _, group in sorted(equal.items()):
            # Equal requests made one after the other keep their order: the first recorded is served first.
            for together in _in_flight_together(group):
                ordered += sorted(together, key=_answers) if len(together) > 1 else together
    return ordered


def _in_flight_together(lanes: Sequence[_T]) -> list[list[_T]]:
    """Group lanes, in order of time, whose opening exchanges overlap."""
    clusters: list[list[_T]] = []
    latest = 0.0
    for lane in sorted(lanes, key=lambda lane: _span(lane[0])):
        began, ended = _span(lane[0])
        if clusters and began < latest:
            clusters[-1].append(lane)
        else:
            clusters.append([lane])
        latest = max(latest, ended)
    return clusters


def _span(step: ExchangeStep) -> tuple[float, float]:
    timing = step.timing
    return (timing.began, timing.began + timing.took) if timing else (0.0, 0.0)


def _answers(lane: Sequence[ExchangeStep]) -> str:
    answers = []
    for step in lane:
        response = step.response
        kept = response.content.decode("utf-8", "surrogateescape") if response else ""
        answers.append([step.hash, response.status if response else None, kept])
    return content_hash(answers)
