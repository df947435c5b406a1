"""One branch as its readers and writers know it: where it stands, what it sees, and which positions can be meant."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

from pytest_agentreplay.errors import BranchNotFoundError, HistoryUnavailableError, ReadOnlyError
from pytest_agentreplay.state.encoding import checksum
from pytest_agentreplay.state.engine import Engine, Row
from pytest_agentreplay.state.lineage import ENDLESS, Lineage, load_lineage
from pytest_agentreplay.state.versions import AsOf, Origin, Version

__all__ = ["BranchRow", "Line", "RightRead", "find_branch_row", "read_branch_row", "read_in_view", "seal"]

RightRead: TypeAlias = Callable[[str, int], str]  # of a branch and a position

_LIKE_A_TIME = 10**8  # no store counts so far, and every time in seconds is beyond it


class BranchRow(NamedTuple):
    """Where a branch stands: ``events`` counts those it sees, ``chain`` is the hash of the last of them."""

    id: int
    name: str
    parent: int | None
    fork: int
    head: int
    events: int
    chain: bytes
    created: int
    deleted: int | None
    sum: int


def read_in_view(branch: str, shape: str, method: str, *arguments: object, as_of: int) -> str:
    """Return a read of a branch as code."""
    listed = ", ".join([*map(repr, arguments), f"as_of={as_of}"])
    return f"store.at(branch={branch!r}).{shape}.{method}({listed})"


def seal(row: BranchRow) -> BranchRow:
    """Return a row with the sum of its other fields."""
    return row._replace(sum=checksum(*row[:-1]))


def read_branch_row(row: Row, engine: Engine) -> BranchRow:
    """Return a row of the branches.  Raises :class:`StoreFileError` where it is not what was written."""
    read = BranchRow._make(row)
    if checksum(*read[:-1]) != read.sum:
        raise engine.damaged(f"the row of branch {read.name!r} has changed")
    return read


def find_branch_row(engine: Engine, branch: int) -> BranchRow | None:
    """Return the row of a branch by its identity, be it deleted, and whatever its sum says."""
    row = engine.one("find_branch", branch)
    return None if row is None else BranchRow._make(row)


class Line:
    """One branch of a store, by its identity: a branch that is made again under the same name is another.

    ``pinned`` is the position that all reads are as of, where there is one; nothing can be written then.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        branch: int,
        name: str,
        store: str,
        lineage: Lineage | None = None,
        pinned: int = ENDLESS,
    ) -> None:
        self.engine = engine
        self.branch = branch
        self.name = name
        self.store = store
        self.pinned = pinned
        self.origin = Origin(store, branch, name)
        if lineage is not None:
            self.lineage = lineage
        self._head_seen = 0  # heads only grow

    @cached_property
    def lineage(self) -> Lineage:
        """The segments of its past."""
        try:
            return load_lineage(self.engine, self.branch, store=self.store)
        except BranchNotFoundError:
            raise self.gone() from None

    def head(self) -> int:
        """Return the newest version.  Raises :class:`BranchNotFoundError` where the branch has been deleted."""
        row = self.engine.one("find_head", self.branch)
        if row is None:
            raise self.gone()
        [head] = row
        return self.saw_head(head)

    def saw_head(self, head: Any) -> int:
        """Remember a head that a read came across."""
        if type(head) is not int:
            raise self.engine.damaged(f"the head of branch {self.name!r} is {head!r}")
        self._head_seen = head
        return head

    def version(self, number: int, *, branch: int | None = None) -> Version:
        """Return the version of a commit on one of the branches of its past, by default on itself."""
        origin = self.origin if branch is None else self.lineage.origin_of(branch)
        return Version(number, origin)

    def position(self, as_of: AsOf, *, right: RightRead) -> int:
        """Return the position that a read is meant as of; ``right`` writes that read as code, for another branch.

        Raises :class:`HistoryUnavailableError` where it is not in the past of this branch.
        """
        if as_of is None:
            return self.pinned
        version = getattr(as_of, "version", as_of)
        if isinstance(version, bool) or not isinstance(version, int):
            raise HistoryUnavailableError(
                f"as_of={as_of!r} is no version; give a version, an event of this store, or its number"
            )
        if isinstance(version, Version):
            self._refuse_foreign(version, right=right)
        number = int(version)
        if number > self.pinned or not (1 <= number <= self._head_seen or 1 <= number <= self.head()):
            raise self._out_of_range(number)
        return number

    @contextmanager
    def committing(self) -> Iterator[BranchRow]:
        """Give the row to build on; the block writes one commit, and moves the branch to it by :meth:`move`."""
        if self.pinned != ENDLESS:
            raise ReadOnlyError(f"this is branch {self.name!r} as of {self.pinned}; write to store.at({self.name!r})")
        with self.engine.writing():
            found = self.engine.one("find_branch", self.branch)
            row = None if found is None else read_branch_row(found, self.engine)
            if row is None or row.deleted is not None:
                raise self.gone()
            yield row

    def move(self, row: BranchRow, **changes: Any) -> Version:
        """Write the next version of a branch's row; return that version."""
        moved = seal(row._replace(head=row.head + 1, **changes))
        self.engine.run("move_branch", moved.id, moved.head, moved.events, moved.chain, moved.sum)
        return Version(moved.head, self.origin)

    def gone(self) -> BranchNotFoundError:
        """Return the error of a branch that has been deleted."""
        row = find_branch_row(self.engine, self.branch)
        when = f" at {_shown(row.deleted)}" if row is not None and row.deleted is not None else ""
        again = self.engine.one("find_branch_named", self.name)
        hint = "; the branch that has this name now is another one" if again is not None else ""
        return BranchNotFoundError(f"branch {self.name!r} was deleted{when}, and what was written on it with it{hint}")

    def _refuse_foreign(self, version: Version, *, right: RightRead) -> None:
        origin = version.origin
        if origin.store != self.store:
            raise HistoryUnavailableError(
                f"version {version} was committed on branch {origin.name!r} of another store, not on {self.name!r} of "
                f"{self.engine.path}\n  What {origin.name!r} saw then, in that store: {right(origin.name, version)}"
            )
        if origin.branch != self.branch and not self.lineage.has(origin.branch, int(version)):
            raise self._on_another_branch(version, origin, right=right)

    def _on_another_branch(self, version: Version, origin: Origin, *, right: RightRead) -> HistoryUnavailableError:
        row = find_branch_row(self.engine, origin.branch)
        message = (
            f"version {version} was committed on branch {origin.name!r}, which is not in the past of {self.name!r} "
            f"({self._described()})"
        )
        if row is None or row.deleted is not None:
            when = f" at {_shown(row.deleted)}" if row is not None and row.deleted is not None else ""
            return HistoryUnavailableError(
                f"{message}; {origin.name!r} was deleted{when}, so nothing can be read there"
            )
        return HistoryUnavailableError(f"{message}\n  What {origin.name!r} saw then: {right(origin.name, version)}")

    def _described(self) -> str:
        past = [f"{part.name!r} up to {part.bound}" for part in self.lineage.segments[1:4]]
        more = len(self.lineage.segments) - 4
        return f"itself and {', '.join(past)}{f' and {more} more' if more > 0 else ''}" if past else "itself alone"

    def _out_of_range(self, number: int) -> HistoryUnavailableError:
        hint = "; versions are commit counts, not times" if number >= _LIKE_A_TIME else ""
        return HistoryUnavailableError(
            f"version {number} is not in the past of branch {self.name!r}, whose versions are 1 to "
            f"{min(self._head_seen, self.pinned)}{hint}"
        )


def _shown(microseconds: int) -> str:
    moment = datetime.datetime.fromtimestamp(microseconds / 1e6, tz=datetime.UTC)
    return moment.isoformat(timespec="seconds")
