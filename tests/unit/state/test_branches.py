from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_agentreplay.errors import (
    AlreadyExistsError,
    BranchInUseError,
    BranchNotFoundError,
    HistoryUnavailableError,
    InvalidInputError,
)
from pytest_agentreplay.state import Store, open_store


@pytest.fixture
def store() -> Iterator[Store]:
    with open_store(":memory:") as opened:
        yield opened


@pytest.mark.parametrize("name", ["a", "x" * 255, "test[1-\u00e9]~3f~1", "a b", "-", "\U0001f375"], ids=len)
def test_a_name_of_1_to_255_printable_characters_can_be_taken(store: Store, name: str) -> None:
    store.branches.fork("default", name)

    assert store.at(name).branch == name


@pytest.mark.parametrize("name", ["", "x" * 256, "_a", "a\nb", "a\x00", "\x7f", "\ud800", 5, None, b"a"], ids=repr)
def test_other_names_are_refused(store: Store, name: Any) -> None:
    with pytest.raises(InvalidInputError):
        store.branches.fork("default", name)

    assert len(store.branches.list()) == 1


def test_a_name_that_is_taken_is_refused(store: Store) -> None:
    store.branches.fork("default", "run")

    for name in ("run", "default"):
        with pytest.raises(AlreadyExistsError, match=f"there is a branch '{name}' already"):
            store.branches.fork("default", name)


def test_default_and_branches_with_children_cannot_be_deleted(store: Store) -> None:
    store.branches.fork("default", "parent")
    store.branches.fork("parent", "child", version=2)

    with pytest.raises(
        BranchInUseError, match="'parent' cannot be deleted: 'child' was forked from it; delete that one first"
    ):
        store.branches.delete("parent")
    with pytest.raises(BranchInUseError, match="'default' cannot be deleted: it is the one that all others come from"):
        store.branches.delete("default")

    store.branches.delete("child")
    store.branches.delete("parent")
    assert [branch.name for branch in store.branches.list()] == ["default"]


def test_after_a_delete_every_read_and_write_of_an_old_view_is_refused(store: Store) -> None:
    store.kv.put("inherited", "v")
    store.branches.fork("default", "run")
    view, unused = store.at("run"), store.at("run")
    view.kv.put("key", "v")
    store.branches.delete("run")

    for old in (view, unused):
        for use in (
            lambda old: old.kv.get("key"),
            lambda old: old.kv.get("inherited", as_of=3),
            lambda old: old.kv.keys(),
            lambda old: old.kv.history("key"),
            lambda old: old.json.get("key"),
            lambda old: old.events.list(),
            lambda old: old.events.count(),
            lambda old: old.events.types(),
            lambda old: old.events.get(0),
            lambda old: old.events.verify_chain(),
            lambda old: old.head,
            lambda old: old.kv.put("key", "w"),
            lambda old: old.kv.delete("key"),
            lambda old: old.json.set("key", "$.a", 1),
            lambda old: old.events.append("a"),
        ):
            with pytest.raises(
                BranchNotFoundError, match=r"branch 'run' was deleted at \S+, and what was written on it"
            ):
                use(old)


def test_old_views_do_not_see_a_branch_made_again_under_the_name(store: Store) -> None:
    store.branches.fork("default", "run")
    old = store.at("run")
    store.branches.delete("run")
    store.branches.fork("default", "run")
    store.at("run").kv.put("key", "new")

    with pytest.raises(BranchNotFoundError, match="the branch that has this name now is another one"):
        old.kv.get("key")
    assert store.at("run").kv.get("key") == "new"


def test_branches_that_are_not_there_are_named(store: Store) -> None:
    store.branches.fork("default", "gone")
    store.branches.delete("gone")

    for use in (store.at, store.branches.get, store.branches.delete, lambda name: store.branches.fork(name, "x")):
        with pytest.raises(BranchNotFoundError, match="there is no branch 'never' in :memory:"):
            use("never")
        with pytest.raises(BranchNotFoundError, match="branch 'gone' was deleted at"):
            use("gone")


def test_a_fork_below_the_fork_of_its_source_sees_what_was_there_then(store: Store) -> None:
    store.kv.put("key", "old")
    store.kv.put("key", "new")
    store.branches.fork("default", "run")
    store.branches.fork("run", "early", version=3)

    early = store.at("early")

    assert (early.kv.get("key"), early.head, early.kv.put("key", "mine")) == ("old", 3, 4)
    with pytest.raises(HistoryUnavailableError):
        early.kv.get("key", as_of=store.at().head)


@pytest.mark.parametrize("version", [1, 2])
def test_a_fork_at_the_very_beginning_is_empty(store: Store, version: int) -> None:
    store.kv.put("key", "v")
    store.events.append("a")
    store.branches.fork("default", "start", version=version)

    start = store.at("start")
    first = start.events.append("b")

    assert (start.kv.get("key"), start.kv.keys(), first.sequence, first.version) == (None, [], 0, version + 1)
    assert start.events.verify_chain()


def test_a_value_is_found_through_a_hundred_forks(store: Store) -> None:
    store.kv.put("deep", "v")
    parent = "default"
    for depth in range(100):
        name = f"level-{depth}"
        store.branches.fork(parent, name)
        store.at(name).kv.put(f"at {depth}", depth)
        parent = name
    view = store.at(parent)

    found = [view.kv.get("deep"), view.kv.get("at 0"), view.kv.get("at 50"), view.kv.get("at 50", as_of=60)]

    assert found == ["v", 0, 50, 50]
    assert view.kv.get("at 60", as_of=60) is None
    assert (len(view.kv.keys()), view.head) == (101, 103)
    assert [view.kv.get("deep"), view.kv.get("nothing"), view.kv.get("nothing")] == ["v", None, None]


@pytest.mark.parametrize("commits", [1, 2_000])
def test_a_fork_takes_less_than_300_bytes_whatever_the_history(tmp_path: Path, commits: int) -> None:
    path = tmp_path / "state.db"
    with open_store(path) as store:
        for number in range(commits):
            store.kv.put(f"key {number % 7}", number)
    before = path.stat().st_size

    with open_store(path) as store:
        for number in range(200):
            store.branches.fork("default", f"test_a_claim~3f2a91c0~{number}", version=2 + commits // 2 or None)

    assert 0 < path.stat().st_size - before <= 200 * 300
