"""Places in a body, in normal form."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentreplay.errors import ConfigurationError
from pytest_agentreplay.normalize import (
    CallIds,
    PathRule,
    apply_rules,
    parse_ignore,
    stable_call_ids,
)
from tests.unit.documents import any_json, is_same

# Ignore rules


@pytest.mark.parametrize(
    ("rule", "path", "pattern"),
    [
        ("$.system", ("system",), None),
        ("$.messages[0].content", ("messages", "0", "content"), None),
        ("$.messages[-1].content", ("messages", "-1", "content"), None),
        ("$.messages[*].content[*].text", ("messages", "*", "content", "*", "text"), None),
        ("$.messages.*.content", ("messages", "*", "content"), None),
        ("$.*", ("*",), None),
        ("$[0]", ("0",), None),
        ("$['a.b']", ("a.b",), None),
        ('$["a b"].c', ("a b", "c"), None),
        ("$.with-hyphen.with space", ("with-hyphen", "with space"), None),
        ("$.system =~ \\d{4}-\\d{2}", ("system",), "\\d{4}-\\d{2}"),
        ("  $.system=~today  ", ("system",), "today"),
        ("$.a =~ b=~c", ("a",), "b=~c"),
    ],
)
def test_an_ignore_rule_is_read(rule: str, path: tuple[str, ...], pattern: str | None) -> None:
    parsed = parse_ignore(rule)

    assert parsed.path == path
    assert parsed.action == "ignore"
    assert (parsed.pattern.pattern if parsed.pattern else None) == pattern


@pytest.mark.parametrize(
    "rule",
    [
        "",
        "$",
        "system",
        ".system",
        "messages[0]",
        "$system",
        "$.",
        "$..a",
        "$.a.",
        "$.a..b",
        "$.a[",
        "$.a[]",
        "$.a[x]",
        "$.a[1.5]",
        "$.a[01]",
        "$.a[-0]",
        "$.a[0:2]",
        "$.a]b",
        "$.a['']",
        "$.a =~",
        "$.a =~   ",
        "=~ x",
        "$ =~ x",
    ],
)
def test_an_ignore_rule_that_cannot_be_meant_is_refused_with_an_example(rule: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_ignore(rule)

    assert f"rule {rule!r} is not understood; write a path such as '$.messages[0].content'" in str(caught.value)


@pytest.mark.parametrize("expression", ["(", "[a", "*", "(?P<a>x)(?P<a>y)", "a{9999999999}"])
def test_an_ignore_rule_whose_expression_does_not_compile_is_refused(expression: str) -> None:
    with pytest.raises(ConfigurationError, match="the expression does not compile"):
        parse_ignore(f"$.a =~ {expression}")


@pytest.mark.parametrize(
    ("rule", "value", "expected"),
    [
        ("$.a", {"a": 1, "b": 2}, {"a": "[ignored]", "b": 2}),
        ("$.a", {"a": None}, {"a": "[ignored]"}),
        ("$.a", {"b": 1}, {"b": 1}),
        ("$.a", [1], [1]),
        ("$.a.b", {"a": {"b": 1, "c": 2}}, {"a": {"b": "[ignored]", "c": 2}}),
        ("$.a[0]", {"a": [1, 2]}, {"a": ["[ignored]", 2]}),
        ("$.a[-1]", {"a": [1, 2]}, {"a": [1, "[ignored]"]}),
        ("$.a[-2]", {"a": [1, 2]}, {"a": ["[ignored]", 2]}),
        ("$.a[2]", {"a": [1, 2]}, {"a": [1, 2]}),
        ("$.a[-3]", {"a": [1, 2]}, {"a": [1, 2]}),
        ("$.a[*]", {"a": [1, 2]}, {"a": ["[ignored]", "[ignored]"]}),
        ("$.a[*].b", {"a": [{"b": 1}, 2, {"c": 3}]}, {"a": [{"b": "[ignored]"}, 2, {"c": 3}]}),
        ("$.a[*]", {"a": {"x": 1}}, {"a": {"x": "[ignored]"}}),
        ("$.a[0]", {"a": {"0": 1}}, {"a": {"0": "[ignored]"}}),
        ("$[0].a", [{"a": 1}, {"a": 2}], [{"a": "[ignored]"}, {"a": 2}]),
        ("$.a =~ \\d+", {"a": "x 12 y 3"}, {"a": "x [ignored] y [ignored]"}),
        ("$.a =~ ^\\d+$", {"a": "x 12"}, {"a": "x 12"}),
        ("$.a =~ \\d+", {"a": 12}, {"a": 12}),
        ("$.a =~ \\d+", {"a": ["12"]}, {"a": ["12"]}),
    ],
)
def test_an_ignore_rule_replaces_what_its_path_leads_to(rule: str, value: Any, expected: Any) -> None:
    before = copy.deepcopy(value)

    assert apply_rules(value, rules=[parse_ignore(rule)]) == expected
    assert value == before


def test_rules_apply_in_their_order() -> None:
    rules = [parse_ignore("$.a =~ b"), parse_ignore("$.a =~ c\\[ignored\\]")]

    assert apply_rules({"a": "cb"}, rules=rules) == {"a": "[ignored]"}


def test_the_actions_of_a_rule() -> None:
    value = {"a": '{"y": 1.0, "x": [1e0]}', "b": "secret", "c": "not JSON", "d": {"x": 1}}
    rules = [PathRule((key,), "json") for key in "acd"] + [PathRule(("b",), "presence")]

    assert apply_rules(value, rules=rules) == {**value, "a": '{"x":[1],"y":1}', "b": "[present]"}


@given(value=any_json)
def test_a_rule_that_leads_nowhere_returns_the_value_itself(value: Any) -> None:
    rules = [parse_ignore("$.no[*].where"), parse_ignore("$[7].x"), parse_ignore("$.* =~ ^never$")]

    assert apply_rules(value, rules=rules) is value


@given(value=any_json, rule=st.sampled_from(["$.a", "$.*", "$[0]", "$.a[*]", "$.*.*", "$.a =~ ."]))
def test_a_rule_changes_nothing_in_the_value_it_is_given(value: Any, rule: str) -> None:
    before = copy.deepcopy(value)

    apply_rules(value, rules=[parse_ignore(rule)])

    assert is_same(value, before)


# Ids of calls

LAYOUT = CallIds(
    call=("calls", "*"), id_key="id", name=("name",), arguments=("arguments",), references=(("results", "*", "of"),)
)


def _made(number: int) -> str:
    return f"pyd_ai_{number:032x}"


def _body(*ids: str, arguments: Any = None, name: str = "look") -> dict[str, Any]:
    return {
        "calls": [{"id": call_id, "name": name, "arguments": arguments} for call_id in ids],
        "results": [{"of": call_id} for call_id in reversed(ids)],
    }


def _stable(body: dict[str, Any]) -> dict[str, Any]:
    return stable_call_ids(body, layouts=[LAYOUT])


def test_a_client_made_id_becomes_a_hash_of_its_call_and_an_ordinal() -> None:
    stable = _stable(_body(_made(7), _made(3)))

    first, second = (call["id"] for call in stable["calls"])
    assert first.startswith("[call:")
    assert first.endswith(":1]")
    assert second == first.removesuffix("1]") + "2]"
    assert [result["of"] for result in stable["results"]] == [second, first]


@pytest.mark.parametrize(
    ("first", "second", "are_equal"),
    [
        (_body(_made(1)), _body(_made(2)), True),
        (_body(_made(1), arguments={"a": 1}), _body(_made(2), arguments={"a": 1.0}), True),
        (_body(_made(1), arguments='{"a": 1}'), _body(_made(2), arguments='{"a":1}'), True),
        (_body(_made(1), arguments={"a": 1}), _body(_made(2), arguments={"a": 2}), False),
        (_body(_made(1), name="find"), _body(_made(2)), False),
        (_body(_made(1)), _body(_made(2), _made(3)), False),
    ],
)
def test_stable_ids_are_equal_where_calls_are(first: Any, second: Any, are_equal: bool) -> None:
    ids = [[call["id"] for call in _stable(body)["calls"]] for body in (first, second)]

    assert (ids[0] == ids[1]) == are_equal


@pytest.mark.parametrize(
    "call_id", ["call_1", "toolu_01", "pyd_ai_short", "x" + _made(1), _made(1) + "0" * 9, "", 5, None]
)
def test_an_id_that_a_provider_may_have_made_stays(call_id: Any) -> None:
    body = _body(call_id)

    assert _stable(body) is body


def test_a_result_of_no_call_keeps_its_id() -> None:
    body = {"calls": [], "results": [{"of": _made(1)}]}

    assert _stable(body) is body
