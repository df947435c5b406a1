"""JSON documents, read and changed at paths such as ``$.plan.steps[0]``.

A write keeps the whole document anew: it costs what the document is long, and a read as of any version the same.
"""

from __future__ import annotations

from typing import Any

from pytest_agentreplay.errors import InvalidInputError
from pytest_agentreplay.state.cells import Cell, Cells
from pytest_agentreplay.state.encoding import DELETED, Stored, decode, encode_json
from pytest_agentreplay.state.kv import Revision, revision_of
from pytest_agentreplay.state.line import Line
from pytest_agentreplay.state.paths import ABSENT, delete_at, find_at, parse_path, set_at
from pytest_agentreplay.state.versions import AsOf, Version

__all__ = ["Documents"]

_MOST_PARSED = 8


class Documents:
    """The JSON documents of one branch."""

    def __init__(self, line: Line) -> None:
        self._cells = Cells(line, "json")
        self._parsed: dict[tuple[str, int, int], Any] = {}  # the last that a path was read in; never handed out

    def get(self, key: str, path: str = "$", *, as_of: AsOf = None) -> Any:
        """Return what a document has at a path, ``None`` where it has nothing."""
        found = self._find(key, path, self._cells.position(as_of, "get", key, path))
        return None if found is ABSENT else found

    def exists(self, key: str, path: str = "$", *, as_of: AsOf = None) -> bool:
        """Return whether a document has something at a path; ``null`` is something."""
        return self._find(key, path, self._cells.position(as_of, "exists", key, path)) is not ABSENT

    def keys(self, prefix: str = "", *, as_of: AsOf = None) -> list[str]:
        """Return the keys that have a document, sorted."""
        return self._cells.keys(prefix, self._cells.position(as_of, "keys", prefix))

    def history(self, key: str, *, as_of: AsOf = None) -> list[Revision]:
        """Return all that a document has been, newest first, deletions included, across forks."""
        cells = self._cells.history(key, self._cells.position(as_of, "history", key))
        return [revision_of(cell, self._cells.line) for cell in cells]

    def set(self, key: str, path: str, value: Any) -> Version:
        """Set what a document has at a path, ``$`` for all of it; objects on the way are made.

        An index one past the end of an array appends.  Raises :class:`InvalidInputError` for a value that is no JSON,
        and for a path that leads through what is neither object nor array.
        """
        steps = parse_path(path)
        content = encode_json(value)
        if not steps:
            return self._cells.put(key, *content)

        def revise(cell: Cell | None) -> tuple[str, Stored]:
            try:
                return encode_json(set_at(_document(cell), steps, decode(*content)))
            except InvalidInputError as error:
                raise InvalidInputError(f"json {key!r} has no place for {path!r}: {error}") from error

        version = self._cells.write(key, revise)
        assert version is not None
        return version

    def delete(self, key: str, path: str = "$") -> Version | None:
        """Delete what a document has at a path; where it has nothing nothing is committed, and ``None`` returned."""
        steps = parse_path(path)

        def revise(cell: Cell | None) -> tuple[str, Stored] | None:
            document = _document(cell)
            if document is ABSENT:
                return None
            if not steps:
                return DELETED, None
            return encode_json(document) if delete_at(document, steps) else None

        return self._cells.write(key, revise)

    def _find(self, key: str, path: str, position: int) -> Any:
        steps = parse_path(path)
        document = self._looked_into(key, position) if steps else None
        if document is None:
            cell = self._cells.find(key, position)
            if not steps or cell is None or cell.is_deleted:
                return find_at(_document(cell), steps)
            document = self._parse(key, cell)
        found = find_at(document, steps)
        return decode(*encode_json(found)) if isinstance(found, dict | list) else found

    def _looked_into(self, key: str, position: int) -> Any:
        """Return a document that a path was read in before, ``None`` where it was not: then it is not read again."""
        if not self._parsed:
            return None
        version = self._cells.newest_own(key, position)
        return None if version is None else self._parsed.get((key, self._cells.line.branch, version))

    def _parse(self, key: str, cell: Cell) -> Any:
        """Return a document to look into: whoever asks what was known then asks for more than one path."""
        place = (key, cell.branch, cell.version)
        found = self._parsed.get(place, ABSENT)
        if found is ABSENT:
            found = _document(cell)
            if len(self._parsed) >= _MOST_PARSED:
                self._parsed = {}  # not cleared: another thread may be looking
            self._parsed[place] = found
        return found


def _document(cell: Cell | None) -> Any:
    return ABSENT if cell is None or cell.is_deleted else decode(cell.kind, cell.stored)
