"""What every benchmark shares: rows with a reach, a table or JSON lines, and contenders measured in turn.

A row is one measured number.  Where it has a base, the reach bounds the ratio of the two; where it has none, the number
itself.  Lower is better in every row.  A row without a reach is there to compare with, and is always ok.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

__all__ = ["Row", "measure", "median", "print_rows", "read_arguments"]

_COLUMNS = ("name", "n", "value", "unit", "base", "ratio", "reach", "ok")


@dataclass(frozen=True)
class Row:
    """One measured number: of what, for which ``n``, in which unit, against which base, and what it should reach."""

    name: str
    n: int
    value: float
    unit: str
    base: float | None = None
    reach: float | None = None

    @property
    def ratio(self) -> float | None:
        return None if self.base is None else self.value / self.base

    @property
    def ok(self) -> bool:
        bounded = self.value if self.ratio is None else self.ratio
        return self.reach is None or bounded <= self.reach


def measure(contenders: Mapping[str, Callable[[], float]], *, rounds: int) -> dict[str, list[float]]:
    """Return what each contender says of itself in each round.

    In a round each has its turn once, another one first each time, so that a machine that slows down slows them all.
    """
    results: dict[str, list[float]] = {name: [] for name in contenders}
    names = list(contenders)
    for index in range(rounds):
        first = index % len(names)
        for name in names[first:] + names[:first]:
            gc.collect()  # nobody pays for another's garbage
            results[name].append(contenders[name]())
    return results


def median(samples: Iterable[float]) -> float:
    return statistics.median(samples)


def read_arguments(description: str | None, *, rounds: int) -> argparse.Namespace:
    """Return the command line: ``json`` and ``rounds``."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object a line instead of a table")
    parser.add_argument("--rounds", type=int, default=rounds, help="rounds to take the median of (default %(default)s)")
    return parser.parse_args()


def print_rows(rows: Iterable[Row], *, as_json: bool) -> None:
    if as_json:
        for row in rows:
            print(json.dumps({column: _plain(getattr(row, column)) for column in _COLUMNS}))
        return
    lines = [_COLUMNS, *([_shown(row, column) for column in _COLUMNS] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in (lines[0], ["-" * width for width in widths], *lines[1:]):
        print("  ".join(map(_aligned, _COLUMNS, line, widths)).rstrip())


def _plain(value: object) -> object:
    return round(value, 4) if isinstance(value, float) else value


def _shown(row: Row, column: str) -> str:
    if column == "ok":
        return "" if row.reach is None else "yes" if row.ok else "NO"
    value = getattr(row, column)
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:,.0f}" if value >= 1000 else f"{value:.2f}"
    return str(value)


def _aligned(column: str, cell: str, width: int) -> str:
    return cell.ljust(width) if column in ("name", "unit", "ok") else cell.rjust(width)
