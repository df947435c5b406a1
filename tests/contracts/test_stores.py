"""What every store does, in a file and in memory."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_agentreplay.state import Store, Version, open_store


@pytest.fixture(params=["file", "durable file", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    path = ":memory:" if request.param == "memory" else tmp_path / "state.db"
    with open_store(path, durability="durable" if "durable" in request.param else "fast") as opened:
        yield opened


def test_a_new_store_is_at_version_2_and_its_first_write_is_version_3(store: Store) -> None:
    before = store.at().head

    written = store.kv.put("plan", "buy")

    assert (before, written, store.at().head) == (2, 3, 3)


def test_each_event_tells_what_was_known_when_it_was_added(store: Store) -> None:
    start = store.events.append("run.start")
    store.kv.put("state.step", 1)
    read = store.events.append("tool.call", "read")
    store.kv.put("state.step", 2)
    edit = store.events.append("tool.call", "edit")
    store.kv.put("state.step", 3)
    end = store.events.append("run.end")

    known = [store.kv.get("state.step", as_of=event) for event in (start, read, edit, end)]

    store.branches.fork("default", "retry", version=7)
    assert [event.version for event in (start, read, edit, end)] == [3, 5, 7, 9]
    assert known == [None, 1, 2, 3]
    assert [store.kv.get("state.step", as_of=version) for version in (3, 5, 7, 9)] == [None, 1, 2, 3]
    assert store.at("retry").kv.get("state.step") == 2


@pytest.mark.parametrize(
    "value",
    [
        *("text", "", "tea\x00pot", "caf\u00e9 \U0001f375", "lone \ud800", b"", b"\x00\xff"),
        *(None, True, 1, 2**80, 0.1, float("inf"), [], {}),
        *({"a": [1, {"b": None}], "": "\ud800"}, [True, 1, 1.5, "x"]),
    ],
    ids=repr,
)
def test_a_value_comes_back_as_it_was_put(store: Store, value: object) -> None:
    store.kv.put("key", value)

    found = store.kv.get("key")

    assert found == value
    assert type(found) is type(value)


def test_what_was_read_can_be_changed_without_changing_the_store(store: Store) -> None:
    value = {"items": [1]}
    store.kv.put("key", value)
    value["items"].append(2)

    store.kv.get("key")["items"].append(3)

    assert store.kv.get("key") == {"items": [1]}


def test_a_fork_goes_on_from_where_it_was_made_and_neither_side_sees_the_other(store: Store) -> None:
    store.kv.put("plan", "buy")
    forked = store.branches.fork("default", "run-1")
    run = store.at("run-1")

    theirs = run.kv.put("plan", "sell")
    ours = store.kv.put("plan", "hold")

    assert (forked.head, forked.parent, forked.forked_at) == (3, "default", 3)
    assert (theirs, ours) == (4, 4)
    assert (run.kv.get("plan"), store.kv.get("plan")) == ("sell", "hold")
    assert run.kv.get("plan", as_of=3) == "buy"


def test_deleting_a_key_commits_and_deleting_it_again_does_not(store: Store) -> None:
    store.kv.put("key", "v")

    deleted = store.kv.delete("key")
    again = store.kv.delete("key")
    never = store.kv.delete("other")

    assert (deleted, again, never, store.at().head) == (4, None, None, 4)
    assert store.kv.get("key") is None
    assert not store.kv.exists("key")
    assert store.kv.exists("key", as_of=3)


def test_a_key_deleted_on_a_fork_is_still_there_where_it_came_from(store: Store) -> None:
    store.kv.put("key", "v")
    store.branches.fork("default", "run")

    store.at("run").kv.delete("key")

    assert (store.at("run").kv.keys(), store.kv.keys()) == ([], ["key"])


def test_history_is_newest_first_with_deletions_and_across_the_fork(store: Store) -> None:
    store.kv.put("key", "a")
    store.kv.delete("key")
    store.branches.fork("default", "run")
    store.kv.put("key", "not in the past of run")
    run = store.at("run")
    run.kv.put("key", "b")

    history = run.kv.history("key")

    assert [(entry.version, entry.value, entry.is_deleted) for entry in history] == [
        (5, "b", False),
        (4, None, True),
        (3, "a", False),
    ]
    assert [entry.version.branch for entry in history] == ["run", "default", "default"]
    assert [entry.version for entry in run.kv.history("key", as_of=3)] == [3]
    assert run.kv.history("other") == []


def test_keys_are_listed_by_prefix_as_of_a_version_and_along_the_past(store: Store) -> None:
    for key in ("b", "a.2", "a.1"):
        store.kv.put(key, "v")
    store.branches.fork("default", "run")
    run = store.at("run")
    run.kv.put("a.3", "v")

    assert run.kv.keys() == ["a.1", "a.2", "a.3", "b"]
    assert run.kv.keys("a.") == ["a.1", "a.2", "a.3"]
    assert run.kv.keys("a.", as_of=4) == ["a.2"]
    assert run.kv.keys("c") == []


def test_a_document_is_set_read_and_deleted_at_paths(store: Store) -> None:
    first = store.json.set("plan", "$.stocks", 60)
    store.json.set("plan", "$.steps[0].name", "look")
    store.json.set("plan", '$."any key"', None)

    gone = store.json.delete("plan", "$.steps[0].name")
    nothing = store.json.delete("plan", "$.steps[7]")

    assert (first, gone, nothing) == (3, 6, None)
    assert store.json.get("plan") == {"stocks": 60, "steps": [{}], "any key": None}
    assert store.json.get("plan", "$.steps[0].name", as_of=5) == "look"
    assert store.json.exists("plan", '$."any key"')
    assert not store.json.exists("plan", "$.other")
    assert (store.json.get("plan", "$.stocks[0]"), store.json.get("absent")) == (None, None)


def test_a_document_and_a_key_of_the_same_name_are_two_things(store: Store) -> None:
    store.kv.put("plan", "text")
    store.json.set("plan", "$", {"a": 1})

    store.json.delete("plan")

    assert (store.kv.get("plan"), store.json.get("plan"), store.json.keys()) == ("text", None, [])
    assert [entry.is_deleted for entry in store.json.history("plan")] == [True, False]


def test_events_are_numbered_from_0_without_gaps_and_on_from_the_fork(store: Store) -> None:
    store.events.append("a")
    store.kv.put("key", "between")
    second = store.events.append("b", {"n": 1})
    store.events.append("c")
    store.branches.fork("default", "run", version=second)
    run = store.at("run")
    run.events.append("a", [2])

    events = run.events.list()

    assert [(event.sequence, event.version, event.type) for event in events] == [(0, 3, "a"), (1, 5, "b"), (2, 6, "a")]
    assert [event.version.branch for event in events] == ["default", "default", "run"]
    assert events[1].payload == {"n": 1}
    assert run.events.verify_chain().is_valid
    assert [event.sequence for event in run.events.range(1, 3)] == [1, 2]
    assert [event.sequence for event in run.events.list("a")] == [0, 2]
    assert [event.sequence for event in run.events.list(limit=2)] == [0, 1]
    assert run.events.get(2) == events[2]
    assert run.events.get(3) is None
    assert (run.events.count(), run.events.count("a"), run.events.types()) == (3, 2, ["a", "b"])


def test_the_log_can_be_read_as_of_a_version(store: Store) -> None:
    store.events.append("a")
    store.events.append("b")

    assert [event.type for event in store.events.list(as_of=3)] == ["a"]
    assert (store.events.count(as_of=3), store.events.count("b", as_of=3), store.events.types(as_of=3)) == (1, 0, ["a"])
    assert (store.events.get(1, as_of=3), store.events.range(0, 9, as_of=2)) == (None, [])


def test_a_view_as_of_a_version_reads_the_past_and_writes_nothing(store: Store) -> None:
    store.kv.put("key", "old")
    event = store.events.append("look")
    store.kv.put("key", "new")

    past = store.at(as_of=event)

    assert (past.kv.get("key"), past.head, past.events.count(), past.kv.history("key")[0].value) == ("old", 4, 1, "old")
    assert past.events.verify_chain()
    with pytest.raises(Exception, match="as of 4; write to"):
        past.kv.put("key", "newer")


def test_a_version_is_an_int_that_survives_copying_and_pickling(store: Store) -> None:
    version = store.kv.put("key", "v")

    copies = [copy.deepcopy(version), pickle.loads(pickle.dumps(version))]

    assert isinstance(version, int)
    assert (f"{version}", f"{version:03}", str(version), repr(version)) == (
        "3",
        "003",
        "3",
        "Version(3, branch='default')",
    )
    assert all(type(found) is Version and found == 3 and found.origin == version.origin for found in copies)
    assert type(version + 1) is int


def test_branches_are_listed_and_looked_up(store: Store) -> None:
    store.kv.put("key", "v")
    store.branches.fork("default", "a")
    store.branches.fork("a", "b")
    store.at("b").kv.put("key", "w")

    listed = store.branches.list()

    assert [(branch.name, branch.parent, branch.head) for branch in listed] == [
        ("default", None, 3),
        ("a", "default", 3),
        ("b", "a", 4),
    ]
    assert [branch.head.branch for branch in listed] == ["default", "default", "b"]
    assert store.branches.get("b") == listed[2]
    assert store.branches.get("b").forked_at == store.branches.get("a").head


def test_an_empty_store_reads_as_nothing(store: Store) -> None:
    assert (store.kv.get("a"), store.kv.keys(), store.kv.history("a"), store.json.get("a", "$.b")) == (
        None,
        [],
        [],
        None,
    )
    assert (store.events.list(), store.events.count(), store.events.types(), store.events.get(0)) == ([], 0, [], None)
    assert store.kv.get("a", as_of=1) is None
    assert store.events.verify_chain()
    store.verify()


def test_reads_write_nothing(store: Store) -> None:
    store.kv.put("key", "v")
    store.branches.fork("default", "run")
    view = store.at("run")

    view.kv.get("key")
    view.json.get("doc", "$.a")
    view.events.list()

    assert (view.head, store.at().head) == (3, 3)
