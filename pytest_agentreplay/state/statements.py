"""SQL by name: the statements of a ``.sql`` file, and the migrations in their order."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from pathlib import Path

__all__ = ["SCHEMA", "SQL", "migrations", "past_statement", "read_statements"]

_FOLDER = Path(__file__).parent
_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
_FIRST_FREE = re.compile(r"\?(\d+)")


def read_statements(text: str) -> dict[str, str]:
    """Return the statements of a file by the names in the comments above them."""
    _, *parts = _NAME.split(text)
    return {name: body.strip().removesuffix(";") for name, body in zip(parts[::2], parts[1::2], strict=True)}


@functools.cache
def past_statement(name: str, segments: int) -> str:
    """Return a statement that reads along a lineage of so many segments."""
    statement = SQL[name]
    first = 1 + max(int(number) for number in _FIRST_FREE.findall(statement))
    pairs = (f"(?{at}, ?{at + 1})" for at in range(first, first + 2 * segments, 2))
    return statement.replace("$lineage", ", ".join(pairs))


def migrations() -> list[str]:
    """Return the scripts that make each version of the schema from the one before it."""
    return [path.read_text(encoding="utf-8") for path in sorted((_FOLDER / "migrations").glob("*.sql"))]


SQL: Mapping[str, str] = read_statements((_FOLDER / "statements.sql").read_text(encoding="utf-8"))
SCHEMA = (_FOLDER / "schema.sql").read_text(encoding="utf-8")
