"""Tokens, summed."""

from __future__ import annotations

from collections.abc import Iterable

from pytest_agentreplay.records import Usage

__all__ = ["sum_usage"]


def sum_usage(usages: Iterable[Usage | None]) -> Usage:
    """Return tokens summed.  A count that no answer named is ``None``, never 0."""
    totals: dict[str, int] = {}
    for usage in usages:
        for name, count in (usage.model_dump(exclude_none=True) if usage else {}).items():
            totals[name] = totals.get(name, 0) + count
    return Usage(**totals)
