"""Positions that are not in the past of the branch being read: always refused, and the message says what is right."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pytest_agentreplay.errors import HistoryUnavailableError
from pytest_agentreplay.state import Store, open_store


@pytest.fixture
def store() -> Iterator[Store]:
    """A store with two runs, forked from version 3, each at version 5."""
    with open_store(":memory:") as opened:
        opened.kv.put("plan", "buy")
        for name in ("run-1", "run-2"):
            opened.branches.fork("default", name)
            opened.at(name).kv.put("plan", f"of {name}")
            opened.at(name).events.append("tool.call")
        yield opened


READS: dict[str, Any] = {
    "kv.get": lambda view, as_of: view.kv.get("plan", as_of=as_of),
    "kv.exists": lambda view, as_of: view.kv.exists("plan", as_of=as_of),
    "kv.keys": lambda view, as_of: view.kv.keys(as_of=as_of),
    "kv.history": lambda view, as_of: view.kv.history("plan", as_of=as_of),
    "json.get": lambda view, as_of: view.json.get("plan", as_of=as_of),
    "json.exists": lambda view, as_of: view.json.exists("plan", as_of=as_of),
    "json.keys": lambda view, as_of: view.json.keys(as_of=as_of),
    "json.history": lambda view, as_of: view.json.history("plan", as_of=as_of),
    "events.list": lambda view, as_of: view.events.list(as_of=as_of),
    "events.get": lambda view, as_of: view.events.get(0, as_of=as_of),
    "events.range": lambda view, as_of: view.events.range(0, 2, as_of=as_of),
    "events.count": lambda view, as_of: view.events.count(as_of=as_of),
    "events.types": lambda view, as_of: view.events.types(as_of=as_of),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
@pytest.mark.parametrize(
    "as_of",
    [0, -1, 6, True, False, 1.0, 1_700_000_000, 1_700_000_000.5, 2**70, "5", float("nan"), [5]],
    ids=repr,
)
def test_what_is_no_position_of_the_branch_is_refused(store: Store, read: Any, as_of: Any) -> None:
    with pytest.raises(HistoryUnavailableError) as refused:
        read(store.at("run-1"), as_of)

    assert refused.value.code == "history_unavailable"


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_a_version_or_event_of_another_branch_is_refused_though_the_number_exists_here(store: Store, read: Any) -> None:
    other = store.at("run-1")
    event = other.events.list()[0]
    assert store.at("run-2").head == event.version

    for as_of in (event, event.version, other.head):
        with pytest.raises(HistoryUnavailableError, match=r"branch 'run-1'.* not in the past of 'run-2'"):
            read(store.at("run-2"), as_of)


def test_the_message_names_both_branches_and_the_read_that_is_right(store: Store) -> None:
    event = store.at("run-1").events.list()[0]

    with pytest.raises(HistoryUnavailableError) as refused:
        store.at("run-2").json.get("plan", as_of=event)

    assert str(refused.value) == (
        "version 5 was committed on branch 'run-1', "
        "which is not in the past of 'run-2' (itself and 'default' up to 3)\n"
        "  What 'run-1' saw then: store.at(branch='run-1').json.get('plan', as_of=5)"
    )


RIGHT_READS: dict[str, Any] = {
    "store.at(branch='run-1').kv.get('plan', as_of=5)": lambda store, event: store.at("run-2").kv.get(
        "plan", as_of=event
    ),
    "store.at(branch='run-1').json.get('plan', '$.a', as_of=5)": lambda store, event: store.at("run-2").json.get(
        "plan", "$.a", as_of=event
    ),
    "store.at(branch='run-1').events.list(as_of=5)": lambda store, event: store.at("run-2").events.list(as_of=event),
    "store.at(branch='run-1').events.range(0, 2, as_of=5)": lambda store, event: store.at("run-2").events.range(
        0, 2, as_of=event
    ),
    "store.at(branch='run-1', as_of=5)": lambda store, event: store.at("run-2", as_of=event),
    "store.branches.fork('run-1', 'new', version=5)": lambda store, event: store.branches.fork(
        "run-2", "new", version=event
    ),
}


@pytest.mark.parametrize(("right", "wrong"), RIGHT_READS.items(), ids=RIGHT_READS)
def test_the_read_that_is_right_is_written_as_code_that_runs(store: Store, right: str, wrong: Any) -> None:
    event = store.at("run-1").events.list()[0]

    with pytest.raises(HistoryUnavailableError) as refused:
        wrong(store, event)

    assert str(refused.value).endswith(f"What 'run-1' saw then: {right}")
    eval(right, {"store": store})


def test_a_version_of_an_ancestor_from_before_the_fork_is_the_branchs_own_past(store: Store) -> None:
    before = store.at().head

    assert store.at("run-1").kv.get("plan", as_of=before) == "buy"


def test_a_version_of_an_ancestor_from_after_the_fork_is_refused(store: Store) -> None:
    after = store.kv.put("plan", "later")

    with pytest.raises(HistoryUnavailableError, match=r"branch 'default', which is not in the past of 'run-1'"):
        store.at("run-1").kv.get("plan", as_of=after)


def test_a_version_of_a_child_is_refused_by_its_parent(store: Store) -> None:
    child = store.at("run-1").head
    store.kv.put("a", 1)
    store.kv.put("a", 2)

    with pytest.raises(HistoryUnavailableError, match="'run-1'"):
        store.kv.get("plan", as_of=child)


def test_a_version_of_a_deleted_branch_is_refused_and_the_loss_explained(store: Store) -> None:
    event = store.at("run-1").events.list()[0]
    store.branches.delete("run-1")

    with pytest.raises(HistoryUnavailableError, match=r"'run-1' was deleted at \S+, so nothing can be read there"):
        store.at("run-2").kv.get("plan", as_of=event)


def test_a_branch_made_again_under_a_name_does_not_know_the_versions_of_the_first(store: Store) -> None:
    event = store.at("run-1").events.list()[0]
    store.branches.delete("run-1")
    store.branches.fork("default", "run-1")
    again = store.at("run-1")
    again.kv.put("plan", "x")
    again.kv.put("plan", "y")

    with pytest.raises(HistoryUnavailableError):
        again.kv.get("plan", as_of=event)


def test_a_version_of_another_store_is_refused(store: Store) -> None:
    with open_store(":memory:") as other:
        version = other.kv.put("plan", "theirs")

        with pytest.raises(HistoryUnavailableError, match="branch 'default' of another store"):
            store.kv.get("plan", as_of=version)


def test_a_number_that_looks_like_a_time_is_told_what_versions_are(store: Store) -> None:
    with pytest.raises(
        HistoryUnavailableError, match=r"whose versions are 1 to 3; versions are commit counts, not times"
    ):
        store.kv.get("plan", as_of=1_700_000_000)


def test_a_fork_at_a_position_that_is_not_in_the_sources_past_is_refused(store: Store) -> None:
    for version in (0, 9, True, store.at("run-2").head):
        with pytest.raises(HistoryUnavailableError):
            store.branches.fork("run-1", "fork", version=version)

    assert [branch.name for branch in store.branches.list()] == ["default", "run-1", "run-2"]


def test_a_view_of_the_past_is_refused_what_came_after_it(store: Store) -> None:
    past = store.at("run-1", as_of=4)

    with pytest.raises(HistoryUnavailableError, match="whose versions are 1 to 4"):
        past.kv.get("plan", as_of=5)
