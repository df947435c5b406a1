"""Keys and their versions, for every shape of state that is read by key.

A cell is one key at one version: a commit writes one, and none is ever changed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from pytest_agentreplay.errors import InvalidInputError
from pytest_agentreplay.state.encoding import DELETED, Stored, checksum, is_text
from pytest_agentreplay.state.line import Line, read_in_view
from pytest_agentreplay.state.lineage import ENDLESS, flat
from pytest_agentreplay.state.versions import AsOf, Version

__all__ = ["Cell", "Cells", "Revise"]

_MOST_PLACES = 10_000


class Cell(NamedTuple):
    """What a key was at a version."""

    branch: int
    version: int
    kind: str
    stored: Stored

    @property
    def is_deleted(self) -> bool:
        """Whether the key was deleted by this commit."""
        return self.kind == DELETED


Revise = Callable[[Cell | None], tuple[str, Stored] | None]


class Cells:
    """The cells of one shape on one branch."""

    def __init__(self, line: Line, shape: str) -> None:
        self.line = line
        self.shape = shape
        # Where in the past of the fork a key was last written.  That never changes, so it is found once.
        self._places: dict[str, tuple[int, ...]] = {}

    def find(self, key: str, position: int) -> Cell | None:
        """Return the newest cell of a key up to a position, be it a deletion."""
        self._check_key(key)
        lineage = self.line.lineage
        if position > lineage.own.start:
            return self._find_from_own(key, position)
        return self._read(key, flat(lineage.up_to(position)))

    def newest_own(self, key: str, position: int) -> int | None:
        """Return the version of the newest cell of a key that this branch wrote itself; what it holds is not read."""
        self._check_key(key)
        line = self.line
        if position <= line.lineage.own.start:
            return None
        row = line.engine.one("find_own_cell", line.branch, self.shape, key, position)
        if row is None:
            raise line.gone()
        head, version = row
        line.saw_head(head)
        return None if version is None else int(version)

    def write(self, key: str, revise: Revise) -> Version | None:
        """Commit what ``revise`` makes of the newest cell, unless that is ``None``; return the version."""
        self._check_key(key)
        line = self.line
        with line.committing() as row:
            revised = revise(self.find(key, ENDLESS))
            return None if revised is None else self._add(key, revised, line.move(row))

    def put(self, key: str, kind: str, stored: Stored) -> Version:
        """Commit a value, whatever was there."""
        self._check_key(key)
        with self.line.committing() as row:
            return self._add(key, (kind, stored), self.line.move(row))

    def history(self, key: str, position: int) -> list[Cell]:
        """Return every cell of a key up to a position, newest first, across forks."""
        self._check_key(key)
        found: list[Cell] = []
        with self.line.engine.snapshot():
            self.line.head()
            for part in self.line.lineage.up_to(position):
                rows = self.line.engine.all("list_cell_history", part.branch, self.shape, key, part.bound)
                found += [self._checked(key, Cell(part.branch, *fields), total) for *fields, total in rows]
        return found

    def keys(self, prefix: str, position: int) -> list[str]:
        """Return the keys that have a value at a position, sorted."""
        kinds: dict[str, str] = {}
        with self.line.engine.snapshot():
            self.line.head()
            for part in self.line.lineage.up_to(position):
                rows = self.line.engine.all("list_keys", part.branch, self.shape, part.bound, prefix)
                for key, kind in rows:
                    if kind is not None:
                        kinds.setdefault(key, kind)
        return sorted(key for key, kind in kinds.items() if kind != DELETED)

    def position(self, as_of: AsOf, method: str, *arguments: str) -> int:
        """Return the position that a read is meant as of; the method and its arguments are told where it is none."""

        def right(branch: str, number: int) -> str:
            shown = [*arguments[:1], *(path for path in arguments[1:] if path != "$")]
            return read_in_view(branch, self.shape, method, *shown, as_of=number)

        return self.line.position(as_of, right=right)

    def _find_from_own(self, key: str, position: int) -> Cell | None:
        lineage = self.line.lineage
        own = (self.line.branch, position)
        if not lineage.inherited:
            return self._read(key, own)
        if key in self._places:
            return self._read(key, own + self._places[key])
        found = self._read(key, own + lineage.inherited)
        if found is None or found.branch != self.line.branch:
            self._remember(key, found)
        return found

    def _remember(self, key: str, found: Cell | None) -> None:
        if len(self._places) >= _MOST_PLACES:
            self._places = {}  # not cleared: another thread may be looking
        at = None if found is None else found.branch
        parts = self.line.lineage.segments
        self._places[key] = next(((part.branch, part.bound) for part in parts if part.branch == at), ())

    def _read(self, key: str, pairs: tuple[int, ...]) -> Cell | None:
        """Return the newest cell of a key along pairs of branch and bound, the newest first."""
        line = self.line
        if len(pairs) == 2 and pairs[0] == line.branch:
            row = line.engine.one("read_cell", line.branch, self.shape, key, pairs[1])
        else:
            row = line.engine.one_in_past("read_cell_in_past", len(pairs) // 2, line.branch, self.shape, key, *pairs)
        if row is None:
            raise line.gone()
        head, branch, version, kind, stored, total = row
        line.saw_head(head)
        return None if branch is None else self._checked(key, Cell(branch, version, kind, stored), total)

    def _checked(self, key: str, cell: Cell, total: object) -> Cell:
        if checksum(cell.branch, self.shape, key, cell.version, cell.kind, cell.stored) != total:
            raise self.line.engine.damaged(f"{self.shape} {key!r} at version {cell.version!r} has changed")
        return cell

    def _add(self, key: str, content: tuple[str, Stored], version: Version) -> Version:
        kind, stored = content
        number = int(version)
        total = checksum(self.line.branch, self.shape, key, number, kind, stored)
        self.line.engine.run("add_cell", self.line.branch, self.shape, key, number, kind, stored, total)
        return version

    def _check_key(self, key: object) -> None:
        if not isinstance(key, str) or not key or not is_text(key):
            raise InvalidInputError(
                f"the key {key!r} is not kept; a key is a string, not empty, without lone surrogates"
            )
