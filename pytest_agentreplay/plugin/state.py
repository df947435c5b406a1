"""The fixtures of the state store: one store a session, one branch a test.

Loaded in every session, so what the fixtures need is imported when one of them is used.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_agentreplay.errors import (
    AlreadyExistsError,
    BranchInUseError,
    BranchNotFoundError,
    ConfigurationError,
    StateError,
    StoreFileError,
)
from pytest_agentreplay.plugin.attempts import ATTEMPT
from pytest_agentreplay.plugin.options import name_ini
from pytest_agentreplay.plugin.paths import branch_name

if TYPE_CHECKING:
    from pytest_agentreplay.run_log import RunLog
    from pytest_agentreplay.session import Session
    from pytest_agentreplay.state import Store, View

__all__ = ["add_options", "agent_state", "agent_state_seed", "agent_store", "report_branch"]

_BRANCH: pytest.StashKey[_TestBranch] = pytest.StashKey()
_ATTEMPTS: pytest.StashKey[int] = pytest.StashKey()
_SEED: pytest.StashKey[Callable[[View], object]] = pytest.StashKey()


class _TestBranch:
    """The branch of one attempt at a test."""

    def __init__(self, store: Store, view: View) -> None:
        self.store = store
        self.view = view
        self.forked = view.head
        self.log: RunLog | None = None
        self.session: Session | None = None
        self.failed = False


def add_options(parser: pytest.Parser) -> None:
    """Add what says where the store is, and what stays in it."""
    group = parser.getgroup("agent-replay", "agent cassettes")
    group.addoption(
        "--agent-store",
        metavar="PATH",
        default=None,
        help="The file of the agent_store fixture, shared by all workers. Default: a temporary one for each worker.",
    )
    group.addoption(
        "--agent-keep-branches",
        action="store_true",
        help="Keep the state branches of tests that pass, too.",
    )
    parser.addini("agent_store", "the file of the agent_store fixture, from the root folder on", default="")


@pytest.fixture(scope="session")
def agent_store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """The state store of this session, of this worker under xdist unless ``--agent-store`` names a file."""
    path, named_by = _store_path(request.config)
    with _opened(path or tmp_path_factory.mktemp("agent-state") / "state.db", named_by=named_by) as store:
        yield store


@pytest.fixture(scope="session")
def agent_state_seed() -> Callable[[View], object] | None:
    """What fills the branch ``default`` once, before the first test forks it.  Override it: return a function."""
    return None


@pytest.fixture
def agent_state(request: pytest.FixtureRequest, agent_store: Store, agent_state_seed: Any) -> Iterator[View]:
    """This test's own branch of the store, forked from ``default``; what a marked test's run does is logged on it."""
    item = request.node
    _fill(item.config, agent_store, agent_state_seed)
    view = agent_store.at(_fork(item, agent_store))
    branch = item.stash[_BRANCH] = _TestBranch(agent_store, view)
    session = item.stash[ATTEMPT].session  # of a marked test, whose first fixture is agent_run
    if session is not None:
        _log_steps(branch, session, name=item.nodeid)
    yield view
    del item.stash[_BRANCH]
    _finish(branch, keep=branch.failed or item.config.getoption("agent_keep_branches"))


def report_branch(item: pytest.Item, report: pytest.TestReport) -> None:
    """Say in the report of a failed test where its state is, and who changed what."""
    branch = item.stash.get(_BRANCH, None)
    if branch is not None and report.failed:
        branch.failed = True
        try:
            lines = _describe(branch)
        except StateError as error:  # the store may be why the test failed
            lines = [f"the state cannot be read: {error}"]
        report.sections.append(("agent state", "\n".join(lines)))


def _store_path(config: pytest.Config) -> tuple[Path | None, str]:
    """Return the path of the store's file where one is named, and what names it."""
    option, ini = config.getoption("agent_store"), config.getini("agent_store")
    if option:
        return config.invocation_params.dir / option, "--agent-store"
    return (config.rootpath / ini, name_ini(config, "agent_store")) if ini else (None, "")


def _opened(path: Path, *, named_by: str) -> Store:
    from pytest_agentreplay.state import open_store

    try:
        return open_store(path)
    except StoreFileError as error:
        remedy = f"{error.remedy} It is named by {named_by}." if named_by else error.remedy
        raise StoreFileError(error.fault, path=error.path, remedy=remedy) from error


def _fill(config: pytest.Config, store: Store, seed: Callable[[View], object] | None) -> None:
    """Let the seed fill ``default``, unless it has been filled: by this session, another worker or an earlier run."""
    if seed is None or config.stash.get(_SEED, None) is seed:
        return
    if not callable(seed):
        raise ConfigurationError(f"agent_state_seed must return a function that takes the state, not {seed!r}")
    if _SEED in config.stash:
        raise ConfigurationError("agent_state_seed fills default once a session: override it in one place")
    from pytest_agentreplay.state import fill_once

    fill_once(store, seed)
    config.stash[_SEED] = seed


def _fork(item: pytest.Item, store: Store) -> str:
    """Fork the branch of this attempt; return its name."""
    for attempt in itertools.count(item.stash.get(_ATTEMPTS, 0) + 1):
        item.stash[_ATTEMPTS] = attempt
        with contextlib.suppress(AlreadyExistsError):  # kept by an earlier run, in a store that outlives one
            return store.branches.fork("default", branch_name(item, attempt=attempt)).name
    raise AssertionError("unreachable: there is always a next attempt")


def _log_steps(branch: _TestBranch, session: Session, *, name: str) -> None:
    """Log the steps of a marked test's run on its branch."""
    from pytest_agentreplay.run_log import RunLog

    branch.session = session
    branch.log = RunLog(branch.store, branch.view, since=branch.forked)
    branch.log.start(name)
    session.keep_log(branch.log)


def _describe(branch: _TestBranch) -> list[str]:
    """Return what a failure report says of a test's state."""
    from pytest_agentreplay.run_log import RunLog

    name, session = branch.view.branch, branch.session
    log = branch.log or RunLog(branch.store, branch.view, since=branch.forked)
    return [
        f"branch {name!r}, kept in {branch.store.path}",
        f"  open_store({branch.store.path!r}).at(branch={name!r})",
        *log.describe_changes(diverged=session is not None and session.player.stopped is not None),
    ]


def _finish(branch: _TestBranch, *, keep: bool) -> None:
    if branch.session is not None and branch.log is not None:
        branch.session.leave_log()
        if keep:
            branch.log.end("failed" if branch.failed else "ok")
    if not keep:
        _drop(branch.store, branch.view.branch)


def _drop(store: Store, name: str) -> None:
    """Delete a branch, and first those that the test forked from it."""
    try:
        store.branches.delete(name)
    except BranchInUseError:
        for child in [branch.name for branch in store.branches.list() if branch.parent == name]:
            _drop(store, child)
        store.branches.delete(name)
    except BranchNotFoundError:
        pass  # the test did it
