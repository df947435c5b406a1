"""What a run took: tokens, and dollars where the price of every call is known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pytest_agentreplay.dialects import Dialects, installed_dialects
from pytest_agentreplay.projections.prices import price_of
from pytest_agentreplay.projections.tape import Tape
from pytest_agentreplay.projections.timeline import Moment, read_timeline
from pytest_agentreplay.projections.usage import sum_usage
from pytest_agentreplay.records import ModelStep, Usage

__all__ = ["Cost", "Costs", "costs", "spent"]


@dataclass(frozen=True)
class Cost:
    """What some model calls took.  ``cost_usd`` is ``None`` as soon as the price of one is unknown, 0.0 for none."""

    calls: int
    usage: Usage
    cost_usd: float | None


@dataclass(frozen=True)
class Costs:
    """What a run took in all, and by the model that was asked for."""

    total: Cost
    by_model: Mapping[str, Cost]


def costs(tape: Tape, *, dialects: Dialects | None = None) -> Costs:
    """Return what the model calls of a tape took, as their answers say: failed calls count as calls.

    Raises nothing for a tape that could be loaded.
    """
    dialects = dialects or installed_dialects()
    moments = [told for told in read_timeline(tape, dialects) if told.step.kind == "model"]
    by_model: dict[str, list[Moment]] = {}
    for told in moments:
        by_model.setdefault(told.call.model if told.call else "", []).append(told)
    each = {model: _cost(calls, dialects) for model, calls in by_model.items()}
    return Costs(total=_cost(moments, dialects), by_model=each)


def spent(steps: Sequence[ModelStep], dialects: Dialects) -> float | None:
    """Return what model calls cost, in dollars: 0.0 for none, ``None`` as soon as one price is unknown."""
    prices = [price_of(step, dialects) for step in steps]
    known = [price for price in prices if price is not None]
    return sum(known, 0.0) if len(known) == len(prices) else None


def _cost(moments: Iterable[Moment], dialects: Dialects) -> Cost:
    steps = [told.step for told in moments if isinstance(told.step, ModelStep)]
    return Cost(
        calls=len(steps),
        usage=sum_usage(step.usage for step in steps),
        cost_usd=spent(steps, dialects),
    )
