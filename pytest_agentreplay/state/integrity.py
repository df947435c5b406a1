"""Whether a store is what was written to it: rows by their sums, commits by their places, logs by their chains."""

from __future__ import annotations

from collections import defaultdict

from pytest_agentreplay.errors import StoreFileError
from pytest_agentreplay.state.encoding import checksum
from pytest_agentreplay.state.engine import Engine
from pytest_agentreplay.state.events import NO_EVENT, EventRow, follows
from pytest_agentreplay.state.line import BranchRow, read_branch_row

__all__ = ["verify_store"]


def verify_store(engine: Engine) -> None:
    """Check everything.  Raises :class:`StoreFileError` with the first thing that is wrong."""
    engine.check()
    with engine.snapshot():
        rows = [read_branch_row(row, engine) for row in engine.all("list_all_branches")]
        branches = {row.id: row for row in rows}
        commits = _checked_commits(engine)
        for row in rows:
            _check_branch(row, branches, commits[row.id], engine)
        lost = set(commits) - set(branches)
    if lost or 1 not in branches:
        raise engine.damaged(f"the row of branch {min(lost, default=1)} is missing")


def _checked_commits(engine: Engine) -> defaultdict[int, list[int]]:
    """Return the versions of each branch's commits; check the sum of each."""
    commits: defaultdict[int, list[int]] = defaultdict(list)
    for branch, shape, key, version, kind, stored, total in engine.all("list_cells"):
        if checksum(branch, shape, key, version, kind, stored) != total:
            raise engine.damaged(f"{shape} {key!r} at version {version!r} of branch {branch!r} has changed")
        commits[branch].append(version)
    for event in map(EventRow._make, engine.all("list_all_events")):
        if not event.is_whole:
            raise engine.damaged(f"event {event.sequence!r} of branch {event.branch!r} has changed")
        commits[event.branch].append(event.version)
    return commits


def _check_branch(row: BranchRow, branches: dict[int, BranchRow], commits: list[int], engine: Engine) -> None:
    expected = [] if row.deleted is not None else list(range(row.fork + 1, row.head + 1))
    if sorted(commits) != expected:
        raise engine.damaged(f"branch {row.name!r} should have {len(expected)} commits, and has {len(commits)}")
    if row.parent is not None and row.parent not in branches:
        raise engine.damaged(f"the parent of branch {row.name!r} is missing")
    if row.deleted is None:
        _check_log(row, branches, engine)


def _check_log(row: BranchRow, branches: dict[int, BranchRow], engine: Engine) -> None:
    """Check the events that a branch added itself: they go on from those it was forked with."""
    own = engine.all("list_events", row.id, row.head, 0, row.events, -1)
    before, sequence = _log_at_fork(row, branches, engine)
    for event in map(EventRow._make, own):
        if event.sequence != sequence or not follows(before, event):
            raise _broken(row, sequence, engine)
        before, sequence = event.hash, sequence + 1
    if sequence != row.events or before != row.chain:
        raise _broken(row, sequence, engine)


def _log_at_fork(row: BranchRow, branches: dict[int, BranchRow], engine: Engine) -> tuple[bytes, int]:
    bound = row.fork
    parent = branches.get(row.parent) if row.parent is not None else None
    while parent is not None:
        found = engine.one("find_newest_event", parent.id, bound)
        if found is not None:
            sequence, link = found
            return link, sequence + 1
        bound = min(bound, parent.fork)
        parent = branches.get(parent.parent) if parent.parent is not None else None
    return NO_EVENT, 0


def _broken(row: BranchRow, sequence: int, engine: Engine) -> StoreFileError:
    return engine.damaged(f"the log of branch {row.name!r} is broken at event {sequence}")
