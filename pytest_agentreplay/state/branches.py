"""Branches: fork, list, look up, delete."""

from __future__ import annotations

import datetime
import unicodedata
from dataclasses import dataclass

from pytest_agentreplay.errors import AlreadyExistsError, BranchInUseError, BranchNotFoundError, InvalidInputError
from pytest_agentreplay.state.engine import Engine
from pytest_agentreplay.state.events import NO_EVENT, Clock, newest_event
from pytest_agentreplay.state.line import BranchRow, Line, read_branch_row, seal
from pytest_agentreplay.state.lineage import ENDLESS, FIRST_HEAD
from pytest_agentreplay.state.versions import AsOf, Origin, Version

__all__ = ["DEFAULT", "Branch", "Branches", "add_default"]

DEFAULT = "default"
_LONGEST = 255


@dataclass(frozen=True, slots=True)
class Branch:
    """What is known of a branch: where it stands, and where it was forked (nowhere, for ``default``)."""

    name: str
    head: Version
    parent: str | None
    forked_at: Version | None
    created: datetime.datetime


class Branches:
    """The branches of a store."""

    def __init__(self, engine: Engine, *, store: str, clock: Clock) -> None:
        self._engine = engine
        self._store = store
        self._clock = clock

    def fork(self, source: str, name: str, *, version: AsOf = None) -> Branch:
        """Make a branch that begins as ``source`` is, or was at a version, and goes its own way from there.

        Nothing is copied.  Raises :class:`AlreadyExistsError` where the name is taken.
        """
        check_name(name)
        with self._engine.writing():
            row = self._row(source)
            line = self._line(row)
            position = line.position(
                version, right=lambda branch, number: f"store.branches.fork({branch!r}, {name!r}, version={number})"
            )
            if self._engine.one("find_branch_named", name) is not None:
                raise AlreadyExistsError(f"there is a branch {name!r} already; take another name, or delete that one")
            made = self._add(name, row, line, position)
        return self._described(made, parent=row, line=line)

    def get(self, name: str) -> Branch:
        """Return what is known of a branch.  Raises :class:`BranchNotFoundError`."""
        with self._engine.snapshot():
            row = self._row(name)
            return self._described(row, parent=self._parent_of(row), line=self._line(row))

    def delete(self, name: str) -> None:
        """Delete a branch and what was written on it.

        Raises :class:`BranchInUseError` for ``default`` and for one that others were forked from.
        """
        if name == DEFAULT:
            raise BranchInUseError(f"branch {DEFAULT!r} cannot be deleted: it is the one that all others come from")
        with self._engine.writing():
            row = self._row(name)
            child = self._engine.one("find_child", row.id)
            if child is not None:
                [fork] = child
                raise BranchInUseError(
                    f"branch {name!r} cannot be deleted: {fork!r} was forked from it; delete that one first"
                )
            gone = seal(row._replace(deleted=_now(self._clock)))
            self._engine.run("drop_cells", row.id)
            self._engine.run("drop_events", row.id)
            self._engine.run("mark_branch_deleted", gone.id, gone.deleted, gone.sum)

    def line(self, name: str, *, pinned: int = ENDLESS) -> Line:
        """Return a branch by its name, for reading and writing.  Raises :class:`BranchNotFoundError`."""
        return self._line(self._row(name), pinned=pinned)

    def _line(self, row: BranchRow, *, pinned: int = ENDLESS) -> Line:
        line = Line(self._engine, branch=row.id, name=row.name, store=self._store, pinned=pinned)
        line.saw_head(row.head)
        return line

    def _add(self, name: str, source: BranchRow, line: Line, position: int) -> BranchRow:
        head, events, chain = source.head, source.events, source.chain
        if position != ENDLESS:
            sequence, chain = newest_event(line, position)
            head, events = position, sequence + 1
        [number] = self._engine.one("next_branch_id") or (1,)
        made = seal(
            BranchRow(
                id=number,
                name=name,
                parent=source.id,
                fork=head,
                head=head,
                events=events,
                chain=chain,
                created=_now(self._clock),
                deleted=None,
                sum=0,
            )
        )
        self._engine.run("add_branch", *made)
        return made

    def _described(self, row: BranchRow, *, parent: BranchRow | None, line: Line) -> Branch:
        created = datetime.datetime.fromtimestamp(row.created / 1e6, tz=datetime.UTC)
        forked_at = None if parent is None else self._version(parent, row.fork, line=line)
        head = forked_at if forked_at == row.head else None
        if head is None:
            head = Version(row.head, Origin(self._store, row.id, row.name))
        return Branch(row.name, head=head, parent=parent and parent.name, forked_at=forked_at, created=created)

    def _version(self, row: BranchRow, number: int, *, line: Line) -> Version:
        """Return a version that a branch, or one before it, has committed."""
        if row.parent is None or number > row.fork:
            return Version(number, Origin(self._store, row.id, row.name))
        return Version(number, line.lineage.origin_at(number))

    def _row(self, name: object) -> BranchRow:
        row = self._engine.one("find_branch_named", name) if isinstance(name, str) else None
        if row is None:
            raise self._not_found(name)
        return read_branch_row(row, self._engine)

    def _not_found(self, name: object) -> BranchNotFoundError:
        found = self._engine.one("find_deleted_named", name) if isinstance(name, str) else None
        if found is None:
            return BranchNotFoundError(f"there is no branch {name!r} in {self._engine.path}")
        [deleted] = found
        when = datetime.datetime.fromtimestamp(deleted / 1e6, tz=datetime.UTC).isoformat(timespec="seconds")
        return BranchNotFoundError(f"branch {name!r} was deleted at {when}, and what was written on it with it")

    def _parent_of(self, row: BranchRow) -> BranchRow | None:
        found = None if row.parent is None else self._engine.one("find_branch", row.parent)
        return None if found is None else read_branch_row(found, self._engine)

    def list(self) -> list[Branch]:
        """Return all branches, the oldest first."""
        with self._engine.snapshot():
            rows = [read_branch_row(row, self._engine) for row in self._engine.all("list_branches")]
            by_id = {row.id: row for row in rows}
            return [
                self._described(row, parent=by_id.get(row.parent) if row.parent else None, line=self._line(row))
                for row in rows
            ]


def add_default(engine: Engine, *, clock: Clock) -> None:
    """Make the first branch of a new store."""
    with engine.writing():
        if engine.one("find_branch_named", DEFAULT) is None:
            row = BranchRow(1, DEFAULT, None, FIRST_HEAD, FIRST_HEAD, 0, NO_EVENT, _now(clock), None, 0)
            engine.run("add_branch", *seal(row))


def check_name(name: object) -> None:
    """Raise :class:`InvalidInputError` unless a name can be a branch's."""
    if not isinstance(name, str) or not 1 <= len(name) <= _LONGEST:
        raise InvalidInputError(f"the branch name {name!r} is not a string of 1 to {_LONGEST} characters")
    if name.startswith("_"):
        raise InvalidInputError(f"the branch name {name!r} begins with _, which is kept for the store itself")
    odd = next((letter for letter in name if unicodedata.category(letter) in ("Cc", "Cs")), None)
    if odd is not None:
        raise InvalidInputError(f"the branch name {name!r} has the control character {odd!r}")


def _now(clock: Clock) -> int:
    return int(clock().timestamp() * 1_000_000)
