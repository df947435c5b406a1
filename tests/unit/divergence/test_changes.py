"""What differs between two requests, as paths."""

from __future__ import annotations

import ast
import re
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentreplay.divergence import Change, alike, find_changes
from pytest_agentreplay.divergence.changes import ABSENT, volatile_kind
from tests.unit.documents import any_json, changed_somewhere, is_same
from tests.unit.making import DIALECTS, said, user


def _form(body: Any, **head: Any) -> dict[str, Any]:
    return {"method": "POST", "url": "https://a/", "headers": {}, "kind": "json", "body": body, **head}


def _changes(recorded: Any, now: Any) -> list[tuple[str, Any, Any, str]]:
    found = find_changes(_form(recorded), _form(now))
    return [(change.path, change.recorded, change.now, change.group) for change in found]


@pytest.mark.parametrize(
    ("recorded", "now", "expected"),
    [
        ({"model": "a"}, {"model": "b"}, [("$.model", "a", "b", "model")]),
        ({"system": "a"}, {"system": "b"}, [("$.system", "a", "b", "system prompt")]),
        ({"system": [{"text": "a"}]}, {"system": [{"text": "b"}]}, [("$.system[0].text", "a", "b", "system prompt")]),
        ({"temperature": 0}, {"temperature": 1}, [("$.temperature", 0, 1, "sampling")]),
        ({"seed": 1}, {}, [("$.seed", 1, ABSENT, "sampling")]),
        ({}, {"top_p": 1}, [("$.top_p", ABSENT, 1, "sampling")]),
        ({"stream": True}, {"stream": False}, [("$.stream", True, False, "transport")]),
        ({"max_output_tokens": 1}, {"max_output_tokens": 2}, [("$.max_output_tokens", 1, 2, "sampling")]),
        ({"reasoning": {"effort": 1}}, {"reasoning": {"effort": 2}}, [("$.reasoning.effort", 1, 2, "sampling")]),
        ({"text": "a"}, {"text": "b"}, [("$.text", "a", "b", "body")]),
        ({"input": "a"}, {"input": "b"}, [("$.input", "a", "b", "user text")]),
        ({"input": "a"}, {"input": ["b"]}, [("$.input", "a", ["b"], "user text")]),
        ({"other": 1}, {"other": 2}, [("$.other", 1, 2, "body")]),
        ({"odd key": 1}, {"odd key": 2}, [("$['odd key']", 1, 2, "body")]),
        ({"a-b": {"c_d": [1, 2]}}, {"a-b": {"c_d": [1, 3]}}, [("$.a-b.c_d[1]", 2, 3, "body")]),
        ({"a": 1}, {"a": True}, [("$.a", 1, True, "body")]),
        ({"a": None}, {}, [("$.a", None, ABSENT, "body")]),
        ({"a": [1]}, {"a": {"0": 1}}, [("$.a", [1], {"0": 1}, "body")]),
        ([1, 2], [1, 3], [("$[1]", 2, 3, "user text")]),
        ("a", "b", [("$", "a", "b", "body")]),
        ({"a": 1, "b": [1.0]}, {"b": [1], "a": 1.0}, []),
    ],
)
def test_a_difference_has_its_path_its_values_and_its_group(recorded: Any, now: Any, expected: Any) -> None:
    assert _changes(recorded, now) == expected


@pytest.mark.parametrize(
    ("message", "group"),
    [
        ({"role": "system", "content": "a"}, "system prompt"),
        ({"role": "developer", "content": "a"}, "system prompt"),
        ({"role": "user", "content": "a"}, "user text"),
        ({"role": "assistant", "content": "a"}, "model's own turn"),
        ({"role": "tool", "content": "a", "tool_call_id": "c"}, "tool result"),
        ({"role": "user", "content": [{"type": "text", "text": "a"}]}, "user text"),
        ("a", "user text"),
        ({"no": "role"}, "body"),
    ],
)
@pytest.mark.parametrize("key", ["messages", "input", "contents"])
def test_a_difference_in_the_conversation_belongs_to_the_message_it_is_in(key: str, message: Any, group: str) -> None:
    changed = {**message, "x": 1} if isinstance(message, dict) else "b"

    (change,) = _changes({key: [message]}, {key: [changed]})

    assert change[3] == group


class Theirs:
    """A format with a field and an element of its own."""

    def group_of(self, name: str) -> str | None:
        return "system prompt" if name == "preamble" else None

    def role_of(self, element: Any) -> str | None:
        return "tool" if "outcome" in element else None


def test_a_format_says_what_it_has_of_its_own_and_nothing_else() -> None:
    recorded = {"preamble": "a", "model": "a", "messages": [{"role": "user", "outcome": "a"}, user("a")]}
    now = {"preamble": "b", "model": "b", "messages": [{"role": "user", "outcome": "b"}, user("b")]}

    changes = find_changes(_form(recorded), _form(now), meaning=Theirs())

    assert [(change.path, change.group) for change in changes] == [
        ("$.preamble", "system prompt"),
        ("$.model", "model"),
        ("$.messages[0].outcome", "tool result"),
        ("$.messages[1].content", "user text"),
    ]


OWN_FIELDS: list[tuple[str, Any, Any, str, str]] = [
    ("instructions", "a", "b", "$.instructions", "system prompt"),
    ("previous_response_id", "a", "b", "$.previous_response_id", "model's own turn"),
    ("text", {"verbosity": 1}, {"verbosity": 2}, "$.text.verbosity", "sampling"),
]
OWN_ELEMENTS: list[tuple[str, str, dict[str, Any], str]] = [
    ("anthropic", "messages", {"role": "user", "content": [{"type": "tool_result", "content": "a"}]}, "tool result"),
    ("anthropic", "messages", {"role": "user", "content": [{"type": "text", "text": "a"}]}, "user text"),
    ("openai", "messages", {"role": "tool", "content": "a", "tool_call_id": "c"}, "tool result"),
    ("openai", "messages", {"role": "developer", "content": "a"}, "system prompt"),
    ("openai", "input", {"type": "function_call_output", "output": "a"}, "tool result"),
    ("openai", "input", {"type": "computer_call_output", "output": {}}, "tool result"),
    ("openai", "input", {"type": "function_call", "name": "a"}, "model's own turn"),
    ("openai", "input", {"type": "web_search_call", "id": "a"}, "model's own turn"),
    ("openai", "input", {"type": "reasoning", "summary": []}, "model's own turn"),
    ("openai", "input", {"type": "compaction", "id": "a"}, "model's own turn"),
    ("openai", "input", {"type": "item_reference", "id": "a"}, "model's own turn"),
    ("openai", "input", {"role": "developer", "content": "a"}, "system prompt"),
]


@pytest.mark.parametrize(("field", "recorded", "now", "path", "group"), OWN_FIELDS, ids=[row[0] for row in OWN_FIELDS])
def test_a_dialect_says_what_its_own_fields_are(field: str, recorded: Any, now: Any, path: str, group: str) -> None:
    responses = DIALECTS.named("openai", "responses")
    assert responses is not None

    (change,) = find_changes(_form({field: recorded}), _form({field: now}), meaning=responses)

    assert (change.path, change.group) == (path, group)


@pytest.mark.parametrize(("provider", "key", "element", "group"), OWN_ELEMENTS)
def test_a_dialect_says_whose_an_element_of_its_conversations_is(
    provider: str, key: str, element: dict[str, Any], group: str
) -> None:
    dialect = DIALECTS.named(provider, "responses" if key == "input" else "chat")
    assert dialect is not None

    (change,) = find_changes(_form({key: [element]}), _form({key: [{**element, "x": 1}]}), meaning=dialect)

    assert change.group == group


def test_a_difference_in_a_tool_is_one_of_its_schema() -> None:
    tools = [[{"name": "look", "parameters": {"required": required}}] for required in (["a"], ["a", "b"])]

    assert _changes({"tools": tools[0]}, {"tools": tools[1]}) == [
        ("$.tools[0].parameters.required[1]", ABSENT, "b", "tool schema")
    ]


def test_a_message_put_in_does_not_change_the_later_ones() -> None:
    recorded = [user("a"), said("b"), user("c")]

    assert _changes({"messages": recorded}, {"messages": [user("new"), *recorded]}) == [
        ("$.messages[0]", ABSENT, user("new"), "user text")
    ]
    assert _changes({"messages": recorded}, {"messages": recorded[:1] + recorded[2:]}) == [
        ("$.messages[1]", said("b"), ABSENT, "model's own turn")
    ]


def test_a_message_put_in_among_hundreds_of_equal_ones_is_one_difference() -> None:
    recorded = [user("go on")] * 300

    assert _changes({"messages": recorded}, {"messages": [user("new"), *recorded]}) == [
        ("$.messages[0]", ABSENT, user("new"), "user text")
    ]


def _result(number: int, content: str = "dry") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": f"call_{number}", "content": content}


def test_messages_that_changed_places_are_one_difference_that_says_which_moved_where() -> None:
    before = {"messages": [user("a"), _result(1), _result(2), _result(3)]}
    after = {"messages": [user("a"), _result(2), _result(3), _result(1)]}

    changes = find_changes(_form(before), _form(after))

    assert changes == [Change("$.messages", before["messages"], after["messages"], "order", moved=((1, 3),))]


def test_what_else_differs_among_messages_that_changed_places_is_told_by_itself() -> None:
    before = {"messages": [user("a"), _result(1), _result(2), user("b")]}
    after = {"messages": [user("c"), _result(2), _result(1), user("b"), user("new")]}

    changes = find_changes(_form(before), _form(after))

    assert [(change.path, change.moved) for change in changes] in (
        [("$.messages", (moved,)), ("$.messages[0].content", ()), ("$.messages[4]", ())] for moved in ((1, 2), (2, 1))
    )


def test_requests_are_as_alike_as_what_kept_its_place() -> None:
    recorded = [_result(number, "wet " * 100) for number in range(10)]

    likeness = alike(_form({"messages": recorded}), _form({"messages": [*recorded[1:], recorded[0]]}))

    assert 0.85 < likeness < 0.95


@given(elements=st.lists(any_json, min_size=2, max_size=6), random=st.randoms(use_true_random=False))
def test_the_same_elements_in_another_order_differ_in_their_order_alone(elements: list[Any], random: Random) -> None:
    shuffled = random.sample(elements, len(elements))

    changes = find_changes(_form({"a": elements}), _form({"a": shuffled}))

    assert [(change.path, change.group) for change in changes] == (
        [] if is_same(elements, shuffled) else [("$.a", "order")]
    )
    for old, new in (place for change in changes for place in change.moved):
        assert is_same(elements[old], shuffled[new])


def test_differences_outside_the_body_come_first() -> None:
    recorded = _form({"a": 1}, headers={"x": "1", "y": "1"})
    now = _form({"a": 2}, method="PUT", url="https://b/", headers={"x": "2"})

    changes = find_changes(recorded, now)

    assert [(change.path, change.group) for change in changes] == [
        ("method", "transport"),
        ("url", "transport"),
        ("headers.x", "transport"),
        ("headers.y", "transport"),
        ("$.a", "body"),
    ]


def test_bodies_of_two_kinds_differ_whatever_they_hold() -> None:
    changes = find_changes(_form({"text": "a"}), _form({"text": "a"}, kind="text"))

    assert [(change.recorded, change.now, change.group) for change in changes] == [("json", "text", "transport")]


@given(recorded=any_json, random=st.randoms(use_true_random=False))
def test_nothing_is_found_just_where_nothing_differs(recorded: Any, random: Random) -> None:
    now = changed_somewhere(recorded, random)

    assert (_changes(recorded, now) == []) == is_same(recorded, now)
    assert _changes(recorded, recorded) == []


def _at(value: Any, path: str) -> Any:
    for name, quoted, index in re.findall(r"\.([^.\[\]]+)|\[('.*?'|\".*?\")\]|\[(\d+)\]", path[1:]):
        value = value[int(index)] if index else value[name or ast.literal_eval(quoted)]
    return value


@given(
    recorded=st.recursive(
        st.sampled_from([1, "a", None, True]),
        lambda inner: st.one_of(
            st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(["a", "b c", "d-e"]), inner, max_size=3)
        ),
        max_leaves=8,
    ),
    random=st.randoms(use_true_random=False),
)
def test_the_path_of_a_difference_leads_to_what_is_there_now(recorded: Any, random: Random) -> None:
    now = changed_somewhere(recorded, random)

    for change in find_changes(_form(recorded), _form(now)):
        if change.now is not ABSENT:
            assert is_same(_at(now, change.path), change.now)
        assert not (change.now is ABSENT and change.recorded is ABSENT)


@given(recorded=any_json, random=st.randoms(use_true_random=False))
def test_two_requests_are_alike_from_nothing_to_all(recorded: Any, random: Random) -> None:
    now = changed_somewhere(recorded, random)

    likeness = alike(_form(recorded), _form(now))

    assert 0 <= likeness <= 1
    assert alike(_form(recorded), _form(recorded)) == 1


def test_a_request_with_one_word_changed_is_more_alike_than_another() -> None:
    recorded = {"messages": [user("one " * 50), user("two")]}

    near = alike(_form(recorded), _form({"messages": [user("one " * 50), user("three")]}))
    far = alike(_form(recorded), _form({"messages": [user("something else")]}))

    assert near > 0.9 > far


@pytest.mark.parametrize(
    ("recorded", "now", "kind"),
    [
        ("On 2024-05-01 at", "On 2024-06-02 at", "a date or time"),
        ("2024-05-01T10:00:00Z", "2025-05-01T11:12:13.5+02:00", "a date or time"),
        (
            "id 7b0b7cf8-7c2e-4f2a-9a54-0c4b2a7d2e10",
            "id 00000000-7c2e-4f2a-9a54-0c4b2a7d2e10",
            "a UUID",
        ),
        ("It is 10:15.", "It is 9:07.", "a time of day"),
        ("see /tmp/pytest-1/x.txt", "see /tmp/pytest-22/x.txt", "a temporary path"),
        ("trace 0123456789abcdef", "trace 0a1b2c3d4e5f6789", "a random id"),
        ("at 1700000000", "at 1712345678", "a Unix time"),
        ("at 1700000000123", "at 1712345678123", "a Unix time"),
        ("It is Monday, November 30, 2026.", "It is Tuesday, December 1, 2026.", "a date in words"),
        ("It is 30 Nov 2026.", "It is 1st December, 2026.", "a date in words"),
        ("It is May 2026.", "It is June 2026.", "a date in words"),
        ("Monday, November 30, 2026 10:15", "Tuesday, December 1, 2026 9:07", "a date in words and a time of day"),
        (
            "2024-05-01 7b0b7cf8-7c2e-4f2a-9a54-0c4b2a7d2e10",
            "2024-05-02 00000000-7c2e-4f2a-9a54-0c4b2a7d2e10",
            "a date or time and a UUID",
        ),
        (
            "It is 2024-05-01 10:15:33.123456, run 7b0b7cf8-7c2e-4f2a-9a54-0c4b2a7d2e10.",
            "It is 2024-06-02 11:16:34.654321, run 11b0ccf8-1c2e-4f2a-9a54-123456789abc.",
            "a date or time and a UUID",
        ),
        (
            "2024-05-01 10:15, 9:07, in /tmp/a/1",
            "2024-05-02 11:16, 9:08, in /tmp/a/2",
            "a date or time and a time of day and a temporary path",
        ),
        ("Octane 1000", "Octane 2000", None),
        ("Marks 1234", "Marks 5678", None),
        ("Market 1000", "March 2000", None),
        ("It is Mayor 12, 2026.", "It is Major 13, 2026.", None),
        ("It is 2024-05-01 10:15.", "Today is 2024-05-02 9:07.", None),
        ("On 2024-05-01 at", "On 2024-06-02 on", None),
        ("a", "b", None),
        (1700000000, 1712345678, None),
        ("2024-05-01", None, None),
    ],
)
def test_a_difference_that_looks_volatile_is_told_by_its_kind(recorded: Any, now: Any, kind: str | None) -> None:
    found = volatile_kind(Change(path="$.a", recorded=recorded, now=now, group="body"))

    assert (found[0] if found else None) == kind
    assert found is None or found[1].sub("", recorded) == found[1].sub("", now)
