"""Keys and values: text, bytes or JSON."""

from __future__ import annotations

from typing import Any, NamedTuple

from pytest_agentreplay.state.cells import Cell, Cells
from pytest_agentreplay.state.encoding import DELETED, decode, encode
from pytest_agentreplay.state.line import Line
from pytest_agentreplay.state.versions import AsOf, Version

__all__ = ["KeyValues", "Revision"]


class Revision(NamedTuple):
    """What a commit made of a key; ``is_deleted`` where it took the key away."""

    version: Version
    value: Any
    is_deleted: bool


class KeyValues:
    """The key-value pairs of one branch."""

    def __init__(self, line: Line) -> None:
        self._cells = Cells(line, "kv")

    def get(self, key: str, *, as_of: AsOf = None) -> Any:
        """Return the value of a key, ``None`` where it has none."""
        cell = self._cells.find(key, self._cells.position(as_of, "get", key))
        return None if cell is None else decode(cell.kind, cell.stored)

    def exists(self, key: str, *, as_of: AsOf = None) -> bool:
        """Return whether a key has a value; a value of ``None`` is one."""
        cell = self._cells.find(key, self._cells.position(as_of, "exists", key))
        return cell is not None and not cell.is_deleted

    def keys(self, prefix: str = "", *, as_of: AsOf = None) -> list[str]:
        """Return the keys that have a value, sorted."""
        return self._cells.keys(prefix, self._cells.position(as_of, "keys", prefix))

    def history(self, key: str, *, as_of: AsOf = None) -> list[Revision]:
        """Return all that a key has been, newest first, deletions included, across forks."""
        cells = self._cells.history(key, self._cells.position(as_of, "history", key))
        return [revision_of(cell, self._cells.line) for cell in cells]

    def put(self, key: str, value: Any) -> Version:
        """Set a key to text, bytes or a JSON value.  Raises :class:`InvalidInputError` for any other."""
        return self._cells.put(key, *encode(value))

    def delete(self, key: str) -> Version | None:
        """Delete a key; where it has no value nothing is committed, and ``None`` returned."""
        return self._cells.write(key, lambda cell: None if cell is None or cell.is_deleted else (DELETED, None))


def revision_of(cell: Cell, line: Line) -> Revision:
    """Return what a cell says to a user."""
    version = line.version(cell.version, branch=cell.branch)
    return Revision(version, decode(cell.kind, cell.stored), cell.is_deleted)
