"""A branch's own past: which commits of which branches it sees.

A fork copies nothing.  What a branch sees is a row of segments, the newest first: its own commits, then its parent's
up to the fork, then its grandparent's up to the parent's fork.  Versions only grow along it, so the newest commit up to
any position lies in the first segment that begins below the position and has one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pytest_agentreplay.errors import BranchNotFoundError
from pytest_agentreplay.state.engine import Engine
from pytest_agentreplay.state.versions import Origin

__all__ = ["ENDLESS", "FIRST_HEAD", "Lineage", "Segment", "flat", "load_lineage"]

FIRST_HEAD = 2  # where the first branch of a new store stands
ENDLESS = 2**63 - 1  # the bound of a branch's own segment: all it ever commits


class Segment(NamedTuple):
    """The commits of one branch after ``start``, up to and including ``bound``."""

    branch: int
    name: str
    start: int
    bound: int


class Lineage:
    """The segments of one branch.  They never change: a branch that others stem from cannot be deleted."""

    def __init__(self, segments: Sequence[Segment], *, store: str) -> None:
        self.segments = tuple(segments)
        self.own = self.segments[0]
        self.inherited = flat(self.segments[1:])
        self._origins = {part.branch: Origin(store, part.branch, part.name) for part in self.segments}
        self._starts = [part.start for part in reversed(self.segments)]

    def up_to(self, position: int) -> tuple[Segment, ...]:
        """Return the segments that a read as of a position goes through, cut off at it."""
        first = len(self.segments) - bisect_right(self._starts, position - 1)
        newest, *rest = self.segments[first:] or (self.segments[-1],)
        return newest._replace(bound=min(newest.bound, position)), *rest

    def origin_of(self, branch: int) -> Origin:
        """Return where a commit of one of the branches was made."""
        return self._origins[branch]

    def has(self, branch: int, version: int) -> bool:
        """Return whether a commit of a branch is on this one's own past."""
        return any(part.branch == branch and version <= part.bound for part in self.segments)

    def origin_at(self, position: int) -> Origin:
        """Return the branch on which the commit at a position was made; the first positions are the root's."""
        return self._origins[self.up_to(position)[0].branch]


def flat(segments: Iterable[Segment]) -> tuple[int, ...]:
    """Return segments as statements take them: branch and bound of each in turn."""
    return tuple(number for part in segments for number in (part.branch, part.bound))


def load_lineage(engine: Engine, branch: int, *, store: str) -> Lineage:
    """Return the lineage of a branch.  Raises :class:`BranchNotFoundError` where it has been deleted."""
    rows = engine.all("list_past", branch)
    segments = [Segment(number, name, start=fork, bound=bound) for number, name, fork, bound, _ in rows]
    deleted = [at for *_, at in rows]
    if not segments or deleted[0] is not None:
        raise BranchNotFoundError(f"there is no branch {branch} any more")
    own, *others = segments
    # A branch that had committed nothing of its own by the fork adds nothing to what the fork sees.
    kept = [part for part in others if part.start < part.bound or part.start == part.bound == FIRST_HEAD]
    return Lineage([own, *kept], store=store)
