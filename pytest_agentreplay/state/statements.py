"""SQL by name: the statements of a ``.sql`` file, and the migrations in their order.

In the file parameters are numbered, so that one can be used twice.  Some versions of Python's sqlite3 take a sequence
of parameters for nameless placeholders alone, so a statement is kept in that form, with the order it wants them in.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any

__all__ = ["SCHEMA", "SQL", "Statement", "migrations", "past_statement", "read_statements"]

_FOLDER = Path(__file__).parent
_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
_NUMBERED = re.compile(r"\?(\d+)")


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement as SQLite gets it; ``arrange`` puts its numbered parameters in the order of the placeholders."""

    text: str
    arrange: Callable[[tuple[Any, ...]], tuple[Any, ...]]


def read_statements(text: str) -> dict[str, str]:
    """Return the statements of a file, parameters numbered, by the names in the comments above them."""
    _, *parts = _NAME.split(text)
    return {name: body.strip().removesuffix(";") for name, body in zip(parts[::2], parts[1::2], strict=True)}


def _compile(numbered: str) -> Statement:
    order = [int(number) - 1 for number in _NUMBERED.findall(numbered)]
    arrange = _as_they_are if order == list(range(len(order))) else itemgetter(*order)
    return Statement(_NUMBERED.sub("?", numbered), arrange)


def _as_they_are(parameters: tuple[Any, ...]) -> tuple[Any, ...]:
    return parameters


@functools.cache
def past_statement(name: str, segments: int) -> Statement:
    """Return a statement that reads along a lineage of so many segments, whose parameters come last."""
    numbered = _SOURCES[name]
    first = 1 + max(int(number) for number in _NUMBERED.findall(numbered))
    pairs = (f"(?{at}, ?{at + 1})" for at in range(first, first + 2 * segments, 2))
    return _compile(numbered.replace("$lineage", ", ".join(pairs)))


def migrations() -> list[str]:
    """Return the scripts that make each version of the schema from the one before it."""
    return [path.read_text(encoding="utf-8") for path in sorted((_FOLDER / "migrations").glob("*.sql"))]


_SOURCES = read_statements((_FOLDER / "statements.sql").read_text(encoding="utf-8"))
SQL: Mapping[str, Statement] = {name: _compile(text) for name, text in _SOURCES.items() if "$lineage" not in text}
SCHEMA = (_FOLDER / "schema.sql").read_text(encoding="utf-8")
