"""What a store cannot keep, it refuses when it is given, and says where the fault lies."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentreplay.errors import InvalidInputError, StateError
from pytest_agentreplay.state import Store, open_store
from pytest_agentreplay.state.paths import ABSENT, delete_at, find_at, parse_path, set_at
from tests.unit.documents import any_json


@dataclasses.dataclass
class Plan:
    stocks: int


class Kind(enum.Enum):
    BUY = "buy"


LOOP: list[Any] = []
LOOP.append(LOOP)


@pytest.fixture
def store() -> Iterator[Store]:
    with open_store(":memory:") as opened:
        yield opened


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"a": [1, (2, 3)]}, r"\$\.a\[1\]: a tuple is not kept"),
        ({"a": {1, 2}}, r"\$\.a: a set is not kept"),
        ({1: "a"}, r"\$: the key 1 is a int; JSON's keys are strings"),
        (Plan(60), r"\$: a Plan is not kept"),
        ([Kind.BUY], r"\$\[0\]: a Kind is not kept"),
        (datetime.datetime(2026, 1, 1), r"\$: a datetime is not kept"),
        (uuid.UUID(int=5), r"\$: a UUID is not kept"),
        ([b"bytes"], r"\$\[0\]: a bytes is not kept"),
        (LOOP, "nests deeper than 400 levels, or contains itself"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_that_would_not_come_back_is_refused_by_its_place(store: Store, value: Any, message: str) -> None:
    for write in (
        lambda: store.kv.put("key", value),
        lambda: store.json.set("key", "$", value),
        lambda: store.json.set("key", "$.a", value),
        lambda: store.events.append("type", value),
    ):
        with pytest.raises(InvalidInputError, match=message):
            write()

    assert store.at().head == 2


@pytest.mark.parametrize("key", ["", None, 5, b"key", "\ud800"], ids=repr)
def test_a_key_is_a_string_that_says_something(store: Store, key: Any) -> None:
    for use in (store.kv.get, store.kv.delete, store.kv.history, store.json.get, lambda key: store.kv.put(key, "v")):
        with pytest.raises(InvalidInputError, match="the key"):
            use(key)
    with pytest.raises(InvalidInputError, match="the event type"):
        store.events.append(key)


@pytest.mark.parametrize(
    "path", ["", "a", "$a", "$.", "$..a", "$.a[", "$[-1]", "$[a]", '$."a', "$.a ]", None, 5], ids=repr
)
def test_a_path_that_cannot_be_read_is_refused(store: Store, path: Any) -> None:
    with pytest.raises(InvalidInputError, match="the path"):
        store.json.get("doc", path)
    with pytest.raises(InvalidInputError, match="the path"):
        store.json.set("doc", path, 1)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("$.list.name", "'name' leads into a list, which is not an object"),
        ("$.name[0]", "0 leads into a str, which is not an array"),
        ("$[0]", "0 leads into a dict, which is not an array"),
        ("$.list[2]", "index 2 is beyond the end of an array of 1"),
        ("$.new[1]", "index 1 is beyond the end of an array of 0"),
    ],
)
def test_a_path_through_what_has_no_such_place_is_refused_and_nothing_is_written(
    store: Store, path: str, message: str
) -> None:
    store.json.set("doc", "$", {"list": [1], "name": "x"})

    with pytest.raises(InvalidInputError, match=message):
        store.json.set("doc", path, 1)

    assert (store.json.get("doc"), store.at().head) == ({"list": [1], "name": "x"}, 3)


def test_an_index_one_past_the_end_appends(store: Store) -> None:
    store.json.set("doc", "$.list[0]", "a")

    store.json.set("doc", "$.list[1]", "b")

    assert store.json.get("doc") == {"list": ["a", "b"]}


def test_a_timestamp_needs_a_time_zone_and_is_kept_to_the_microsecond(store: Store) -> None:
    when = datetime.datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=datetime.timezone(datetime.timedelta(hours=2)))

    event = store.events.append("a", timestamp=when)

    assert store.events.get(0) == event
    assert event.timestamp == when
    with pytest.raises(InvalidInputError, match="has no time zone"):
        store.events.append("a", timestamp=when.replace(tzinfo=None))


def test_events_take_their_time_from_the_clock_that_the_store_was_given() -> None:
    moment = datetime.datetime(2020, 2, 29, tzinfo=datetime.UTC)

    with open_store(":memory:", clock=lambda: moment) as store:
        event = store.events.append("a")

    assert event.timestamp == moment


def test_a_closed_store_says_that_it_is_closed() -> None:
    store = open_store(":memory:")
    view = store.at()
    store.close()
    store.close()

    for use in (lambda: view.kv.get("a"), lambda: view.kv.put("a", 1), store.branches.list):
        with pytest.raises(StateError, match="the store is closed"):
            use()


@given(any_json)
def test_any_json_comes_back_from_a_key_and_from_a_document(value: Any) -> None:
    with open_store(":memory:") as store:
        store.kv.put("key", value)
        store.json.set("doc", "$", {"at": [value]})

        assert repr(store.kv.get("key")) == repr(value)
        assert repr(store.json.get("doc", "$.at[0]")) == repr(value)


@given(st.lists(st.text(min_size=1, max_size=5), min_size=1, max_size=3))
def test_any_key_can_be_named_in_a_path(keys: list[str]) -> None:
    quoted = "".join('."' + key.replace("\\", "\\\\").replace('"', '\\"') + '"' for key in keys)

    path = parse_path(f"${quoted}")

    document = set_at(ABSENT, path, 1)
    assert path == tuple(keys)
    assert find_at(document, path) == 1
    assert delete_at(document, path)
    assert find_at(document, path) is ABSENT
