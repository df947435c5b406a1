"""URLs, headers and places in a body, in normal form."""

from __future__ import annotations

import copy
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentreplay.errors import ConfigurationError
from pytest_agentreplay.normalize import (
    CallIds,
    PathRule,
    apply_rules,
    media_type_of,
    normal_headers,
    normal_url,
    parse_ignore,
    stable_call_ids,
)
from tests.unit.documents import any_json, is_same

SIGNED = "X-Amz-Algorithm=AWS4&X-Amz-Credential=A%2FB&X-Amz-Signature=f00&x-amz-date=20240501T000000Z"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://api.example.com/v1", "https://api.example.com/v1"),
        ("HTTPS://API.Example.COM/v1", "https://api.example.com/v1"),
        ("https://api.example.com", "https://api.example.com/"),
        ("https://api.example.com?a=1", "https://api.example.com/?a=1"),
        ("https://api.example.com:443/v1", "https://api.example.com/v1"),
        ("https://api.example.com:0443/v1", "https://api.example.com/v1"),
        ("http://api.example.com:80/v1", "http://api.example.com/v1"),
        ("https://api.example.com:80/v1", "https://api.example.com:80/v1"),
        ("https://api.example.com:/v1", "https://api.example.com/v1"),
        ("wss://api.example.com:443/v1", "wss://api.example.com/v1"),
        ("ws://api.example.com:80/v1", "ws://api.example.com/v1"),
        ("http://127.0.0.1:32767/v1", "http://127.0.0.1:32767/v1"),
        ("http://127.0.0.1:32768/v1", "http://127.0.0.1/v1"),
        ("http://127.0.0.1:65535/v1", "http://127.0.0.1/v1"),
        ("http://127.1.2.3:40000/v1", "http://127.1.2.3/v1"),
        ("http://localhost:40000/v1", "http://localhost/v1"),
        ("http://app.localhost:40000/v1", "http://app.localhost/v1"),
        ("http://[::1]:40000/v1", "http://[::1]/v1"),
        ("http://[::1]:8000/v1", "http://[::1]:8000/v1"),
        ("http://[::1]/v1", "http://[::1]/v1"),
        ("http://[2001:db8::1]:40000/v1", "http://[2001:db8::1]:40000/v1"),
        ("http://api.example.com:40000/v1", "http://api.example.com:40000/v1"),
        ("http://localhost.example.com:40000/v1", "http://localhost.example.com:40000/v1"),
        ("https://user:password@api.example.com/v1", "https://api.example.com/v1"),
        ("https://api.example.com/v1#fragment", "https://api.example.com/v1"),
        ("https://api.example.com/v1/%6dodels/gpt%2D4", "https://api.example.com/v1/models/gpt-4"),
        ("https://api.example.com/v1/a%20b/é", "https://api.example.com/v1/a%20b/%C3%A9"),
        ("https://api.example.com/v1/%E9", "https://api.example.com/v1/%E9"),
        ("https://api.example.com/v1/%25", "https://api.example.com/v1/%25"),
        ("https://api.example.com/v1/a%3Fb", "https://api.example.com/v1/a%3Fb"),
        ("https://api.example.com/v1/models:generate", "https://api.example.com/v1/models:generate"),
        ("https://api.example.com/v1/models%3Agenerate", "https://api.example.com/v1/models:generate"),
        ("https://api.example.com/v1/", "https://api.example.com/v1/"),
        ("https://api.example.com/v1?b=2&a=1", "https://api.example.com/v1?a=1&b=2"),
        ("https://api.example.com/v1?a=2&a=1", "https://api.example.com/v1?a=1&a=2"),
        ("https://api.example.com/v1?a=", "https://api.example.com/v1?a="),
        ("https://api.example.com/v1?a=x+y%20z", "https://api.example.com/v1?a=x%20y%20z"),
        ("https://api.example.com/v1?a=%FF", "https://api.example.com/v1?a=%FF"),
        ("https://api.example.com/v1?a=%E2%82%AC", "https://api.example.com/v1?a=%E2%82%AC"),
        ("https://api.example.com/v1?", "https://api.example.com/v1"),
        (
            f"https://bucket.s3.amazonaws.com/key?{SIGNED}&versionId=3",
            "https://bucket.s3.amazonaws.com/key?versionId=3",
        ),
        ("https://x.googleapis.com/v1?key=[redacted:url-key]&alt=sse", "https://x.googleapis.com/v1?alt=sse"),
    ],
)
def test_a_url_has_one_normal_form(url: str, expected: str) -> None:
    assert normal_url(url) == expected


any_word = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)


@given(
    scheme=st.sampled_from(["http", "https"]),
    host=st.sampled_from(["localhost", "api.example.com", "[::1]"]),
    port=st.one_of(st.just(""), st.integers(1, 65535).map(lambda port: f":{port}")),
    path=st.lists(any_word, max_size=3),
    pairs=st.lists(st.tuples(any_word, any_word), max_size=3),
)
def test_the_normal_form_of_a_normal_form_is_itself(
    scheme: str, host: str, port: str, path: list[str], pairs: list[tuple[str, str]]
) -> None:
    address = "".join("/" + quote(part) for part in path)
    query = "&".join(f"{quote(name)}={quote(value)}" for name, value in pairs)

    normal = normal_url(f"{scheme}://{host}{port}{address}?{query}")

    assert normal_url(normal) == normal


@given(first=st.binary(max_size=4), second=st.binary(max_size=4))
@pytest.mark.parametrize("place", ["https://a.b/x{}", "https://a.b/?x={}", "https://a.b/?{}=x"])
def test_two_urls_that_differ_in_a_byte_stay_two(place: str, first: bytes, second: bytes) -> None:
    urls = [normal_url(place.format(quote(data, safe=""))) for data in (first, second)]

    assert (urls[0] == urls[1]) == (first == second)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([], {}),
        ([("Content-Type", "Application/JSON; charset=utf-8")], {"content-type": "application/json"}),
        ([("content-type", "")], {}),
        ([("Anthropic-Version", "2023-06-01")], {"anthropic-version": "2023-06-01"}),
        ([("anthropic-beta", "b, a ,c")], {"anthropic-beta": "a,b,c"}),
        ([("anthropic-beta", "b"), ("Anthropic-Beta", "a")], {"anthropic-beta": "a,b"}),
        ([("OpenAI-Beta", "assistants=v2")], {"openai-beta": "assistants=v2"}),
        ([("MCP-Protocol-Version", "2025-06-18")], {"mcp-protocol-version": "2025-06-18"}),
        ([("User-Agent", "x"), ("Authorization", "Bearer x"), ("X-Stainless-Retry-Count", "1"), ("Host", "a")], {}),
        ([("X-Tenant", "b,a")], {"x-tenant": "a,b"}),
    ],
)
def test_only_headers_that_change_the_answer_are_kept(headers: list[tuple[str, str]], expected: dict[str, str]) -> None:
    assert normal_headers(headers, also=["X-Tenant"]) == expected


def test_the_media_type_is_that_of_the_content_type_header_without_parameters() -> None:
    assert media_type_of([("x", "y"), ("Content-Type", " Text/Event-Stream ; charset=utf-8")]) == "text/event-stream"
    assert media_type_of([]) == ""


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
