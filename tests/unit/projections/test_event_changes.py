"""What differs between two event streams, told by events."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentreplay.projections.event_changes import EventChange, find_event_changes, title_of
from pytest_agentreplay.projections.events import event_stream
from tests.support.stories import Story, asks, result, says, user
from tests.unit.documents import any_json

USER = {"event": "user", "text": "Charge 5."}
ASKED = {"event": "turn", "calls": [{"id": "call_1", "name": "charge"}]}
CHARGED = {"event": "tool", "name": "charge", "id": "call_1", "arguments": {"amount": 5}, "result": {"paid": True}}
DONE = {"event": "turn", "text": "Done."}
RUN = [USER, ASKED, CHARGED, DONE]


def told(changes: list[EventChange]) -> list[tuple[str, str, list[tuple[str, Any, Any]]]]:
    return [
        (change.sign, change.title, [(inner.path, inner.recorded, inner.now) for inner in change.changes])
        for change in changes
    ]


def test_an_added_turn_is_one_added_event() -> None:
    more = {"event": "turn", "text": "Let me see."}

    assert told(find_event_changes(RUN, [USER, more, *RUN[1:]])) == [("+", "turn Let me see.", [])]


def test_a_removed_tool_call_is_one_removed_event() -> None:
    assert told(find_event_changes(RUN, [USER, ASKED, DONE])) == [("-", "tool charge", [])]


def test_a_changed_argument_is_told_with_its_path() -> None:
    changed = CHARGED | {"arguments": {"amount": 500}}

    found = told(find_event_changes(RUN, [USER, ASKED, changed, DONE]))

    assert found == [("~", "tool charge", [("$.arguments.amount", 5, 500)])]


def test_several_changes_come_in_the_order_of_the_run() -> None:
    now = [
        USER | {"text": "Charge 6."},
        ASKED,
        CHARGED | {"arguments": {"amount": 6}, "result": {"paid": False}},
        {"event": "approval", "name": "refund", "approved": True},
    ]

    assert told(find_event_changes(RUN, now)) == [
        ("~", "user Charge 6.", [("$.text", "Charge 5.", "Charge 6.")]),
        ("~", "tool charge", [("$.arguments.amount", 5, 6), ("$.result.paid", True, False)]),
        ("-", "turn Done.", []),
        ("+", "approval refund", []),
    ]


def test_names_of_calls_that_only_shifted_are_no_change() -> None:
    permission = {"event": "permission", "call": "call_1", "decision": "allow"}
    inside = {"event": "turn", "inside": "call_1", "text": "dug"}
    shifted = [
        {"event": "turn", "calls": [{"id": "call_2", "name": "charge"}]},
        permission | {"call": "call_2"},
        CHARGED | {"id": "call_2"},
        inside | {"inside": "call_2"},
    ]

    assert find_event_changes([ASKED, permission, CHARGED, inside], shifted) == []


def test_a_tool_put_in_before_others_changes_none_of_them() -> None:
    def story(*names: str) -> list[Any]:
        told = Story()
        for number, name in enumerate(names):
            told.model(*([user("go")] if not number else ()), reply=asks((f"c{number}", name, {})))
            told.tool(name, {}, "ok", use=f"c{number}")
            told.model(result(f"c{number}", "ok"), reply=says(f"{name} is done"))
        return list(event_stream(told.tape))

    changes = find_event_changes(story("look", "book"), story("look", "pay", "book"))

    assert [(change.sign, change.title) for change in changes] == [
        ("+", "turn calls pay"),
        ("+", "tool pay"),
        ("+", "turn pay is done"),
    ]


@pytest.mark.parametrize(
    ("golden", "now", "path"),
    [
        ({"event": "turn", "inside": "research"}, {"event": "turn", "inside": "book"}, "$.inside"),
        ({"event": "row", "id": 1}, {"event": "row", "id": 2}, "$.id"),
        ({"event": "tool", "result": {"id": "call_1"}}, {"event": "tool", "result": {"id": "call_2"}}, "$.result.id"),
    ],
)
def test_what_is_no_name_of_a_call_is_compared(golden: Any, now: Any, path: str) -> None:
    [change] = find_event_changes([golden], [now])

    assert [inner.path for inner in change.changes] == [path]


def test_a_call_that_is_asked_for_otherwise_is_a_change_of_the_turn() -> None:
    now = {"event": "turn", "calls": [{"id": "call_1", "name": "refund"}]}

    [change] = find_event_changes([ASKED], [now])

    assert [(inner.path, inner.recorded, inner.now) for inner in change.changes] == [
        ("$.calls[0].name", "charge", "refund")
    ]


@pytest.mark.parametrize(
    ("event", "title"),
    [
        ({"event": "run", "name": "test_it"}, "run test_it"),
        ({"event": "turn", "text": "I look.", "calls": [{"name": "look"}, {"name": "book"}]}, "turn calls look, book"),
        ({"event": "turn"}, "turn"),
        ({"event": "user", "text": "one\n  two"}, "user one two"),
        ({"event": "user", "text": "x" * 100}, f"user {'x' * 64}…"),
        ({"event": "permission", "call": "call_1", "decision": "deny"}, "permission deny"),
        ({"event": "error", "status": 429, "message": "slow down"}, "error slow down"),
        ({"event": "tool", "name": 7}, "tool 7"),
        ({"event": "turn", "calls": ["odd"]}, "turn"),
        ({"other": 1}, "event"),
        ("text", "'text'"),
        (None, "None"),
    ],
)
def test_an_event_is_called_by_what_tells_it_from_others(event: Any, title: str) -> None:
    assert title_of(event) == title


_events = st.lists(
    st.one_of(
        any_json,
        st.sampled_from([*RUN, {"event": "turn", "text": "Done?"}, CHARGED | {"id": "call_2", "result": None}]),
    ),
    max_size=5,
)


@given(golden=_events)
def test_equal_streams_differ_in_nothing(golden: list[Any]) -> None:
    assert find_event_changes(golden, list(golden)) == []


@given(golden=_events, now=_events)
def test_each_change_is_a_real_one_and_the_streams_lengths_add_up(golden: list[Any], now: list[Any]) -> None:
    changes = find_event_changes(golden, now)

    signs = [change.sign for change in changes]
    assert len(golden) - len(now) == signs.count("-") - signs.count("+")
    assert all(change.changes for change in changes if change.sign == "~")
