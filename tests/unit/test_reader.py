"""What a request is known by."""

from __future__ import annotations

import copy
import gzip
import json
import subprocess
import sys
import zlib
from collections.abc import Callable
from random import Random
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentreplay.divergence import find_changes
from pytest_agentreplay.payloads import cut
from pytest_agentreplay.reader import HttpRequest, Reader, rule_set_for
from pytest_agentreplay.records import Response
from pytest_agentreplay.redact import redactor_for
from tests.unit.documents import any_json, changed_somewhere, is_same, places, spelled
from tests.unit.making import CHAT, DIALECTS, JSON, chat, conversation, make_reader, post, user

GENERIC = "https://api.example.com/v1/thing"
MESSAGES = "https://api.anthropic.com/v1/messages"
FORM = (("content-type", "application/x-www-form-urlencoded"),)
KEY = "sk-proj-A1b2C3d4E5f6G7h8I9j0K1l2"


def _at_depth(frames: int, function: Callable[[], Any]) -> Any:
    return function() if not frames else _at_depth(frames - 1, function)


def _hash(request: HttpRequest, reader: Reader | None = None) -> str:
    return (reader or make_reader()).read(request).hash


def _reread_hash(request: HttpRequest, **rules: Any) -> str:
    """Return the hash that a request has once it is recorded and read back, by a reader that has read nothing."""
    asked = make_reader(**rules).read(request)
    return make_reader(**rules).reread(asked.request, asked.messages).hash


def _form(request: HttpRequest, reader: Reader) -> dict[str, Any]:
    asked = reader.read(request)
    return reader.normal_form(asked.request, asked.messages)


def _without_nulls(body: Any) -> Any:
    """Return a body without the one thing that is normalised where no dialect is spoken: top-level nulls."""
    return {key: value for key, value in body.items() if value is not None} if isinstance(body, dict) else body


# The same request, written differently


@given(body=any_json, random=st.randoms(use_true_random=False))
def test_key_order_white_space_escapes_and_number_spelling_do_not_count(body: Any, random: Random) -> None:
    requests = [post(spelled(body, random), url=GENERIC) for _ in range(3)]

    hashes = {_hash(request) for request in requests}

    assert len(hashes) == 1


@pytest.mark.parametrize("spelling", ["1", "1.0", "1e0", "1E0", "10e-1", "0.1e1", "1.000", "1e+0"])
@pytest.mark.parametrize("place", ['{"n": %s}', '{"messages": [{"n": %s}]}', "[%s]", "%s", '{"n": {"n": [%s]}}'])
def test_a_number_counts_by_its_value(spelling: str, place: str) -> None:
    request = post((place % spelling).encode(), url=GENERIC)

    assert _hash(request) == _hash(post((place % "1").encode(), url=GENERIC))
    assert _hash(request) != _hash(post((place % "true").encode(), url=GENERIC))
    assert _hash(request) != _hash(post((place % '"1"').encode(), url=GENERIC))


@given(pairs=st.lists(st.tuples(st.text(max_size=4), st.text(max_size=4)), max_size=5), random=st.randoms())
def test_the_order_of_query_pairs_does_not_count(pairs: list[tuple[str, str]], random: Random) -> None:
    shuffled = random.sample(pairs, len(pairs))
    urls = [
        GENERIC + "?" + "&".join(f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in order)
        for order in (pairs, shuffled)
    ]

    hashes = {_hash(post({}, url=url)) for url in urls}

    assert len(hashes) == 1


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("https://api.example.com/v1", "https://api.example.com:443/v1"),
        ("http://api.example.com/v1", "http://api.example.com:80/v1"),
        ("https://API.Example.com/v1", "https://api.example.com/v1"),
        ("http://127.0.0.1:41000/v1", "http://127.0.0.1:52000/v1"),
        ("https://x.googleapis.com:443/a?key=k", "https://x.googleapis.com/a?key=other"),
        ("https://api.example.com", "https://api.example.com/"),
    ],
)
def test_default_ports_and_what_is_no_part_of_the_address_do_not_count(first: str, second: str) -> None:
    assert _hash(post({}, url=first)) == _hash(post({}, url=second))


def test_the_case_of_a_method_does_not_count() -> None:
    asked = make_reader().read(post({}, method="post"))

    assert asked.hash == _hash(post({}))
    assert (asked.method, asked.request.method) == ("POST", "POST")


def _multipart(boundary: str, parts: list[tuple[str, bytes]]) -> HttpRequest:
    content = b""
    for name, data in parts:
        head = f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n'
        content += head.encode() + data + b"\r\n"
    headers = (("content-type", f"multipart/form-data; boundary={boundary}"),)
    return post(content + f"--{boundary}--\r\n".encode(), headers=headers)


_boundary = st.text("abcdefABCDEF0123456789'()+_-./:=?", min_size=8, max_size=40).map(lambda text: f'"{text}x"')


@given(
    first=st.text("abcdef0123456789", min_size=16, max_size=32),
    second=st.text("abcdef0123456789", min_size=16, max_size=32),
    parts=st.lists(st.tuples(st.sampled_from(["file", "model", "purpose"]), st.binary(max_size=40)), max_size=3),
)
def test_the_boundary_of_a_multipart_body_does_not_count_and_its_parts_do(
    first: str, second: str, parts: list[tuple[str, bytes]]
) -> None:
    reader = make_reader()
    changed = [(name, data + b"x") for name, data in parts]

    hashes = {_hash(_multipart(boundary, parts), reader) for boundary in (first, second)}

    assert len(hashes) == 1
    assert not parts or _hash(_multipart(first, changed), reader) not in hashes


def test_the_boundary_of_a_multipart_body_may_be_quoted() -> None:
    parts = [("file", b"\x00\x01")]
    quoted = _multipart("one two", parts)
    quoted = HttpRequest("POST", CHAT, (("content-type", 'multipart/form-data; boundary="one two"'),), quoted.content)

    assert _hash(quoted) == _hash(_multipart("other", parts))


@pytest.mark.parametrize(
    ("encoding", "compress"),
    [
        ("gzip", lambda data: gzip.compress(data, 1)),
        ("gzip", lambda data: gzip.compress(data, 9)),
        ("x-gzip", gzip.compress),
        ("deflate", zlib.compress),
        ("deflate", lambda data: zlib.compress(data)[2:-4]),
        ("identity", bytes),
    ],
)
def test_a_compressed_body_counts_by_what_it_holds(encoding: str, compress: Callable[[bytes], bytes]) -> None:
    body = json.dumps({"messages": [user("hello")]}).encode()

    request = post(compress(body), headers=(*JSON, ("content-encoding", encoding)))

    assert _hash(request) == _hash(post(body))


@pytest.mark.parametrize(
    "content",
    [b"", b"\x1f\x8b", gzip.compress(b"x" * 99)[:-9], b"no gzip at all"],
    ids=["empty", "head", "cut", "plain"],  # gzip writes the time, and an id must be the same in every worker
)
def test_a_body_that_is_not_compressed_as_it_says_is_read_as_it_is(content: bytes) -> None:
    request = post(content, headers=(*JSON, ("content-encoding", "gzip")))

    assert _hash(request) == _reread_hash(request)


# What counts and what does not, at every place of two real bodies

OPENAI_BODY: dict[str, Any] = {
    "model": "gpt-4.1",
    "temperature": 0.7,
    "max_tokens": 100,
    "seed": 7,
    "stream": True,
    "stream_options": {"include_usage": True},
    "metadata": {"run": "42"},
    "user": "u-1",
    "safety_identifier": "s-1",
    "prompt_cache_key": "p-1",
    "stop": ["END", "STOP"],
    "tool_choice": {"type": "function", "function": {"name": "look"}},
    "messages": [
        {"role": "system", "content": "It is 2024-05-01, id 7b0b7cf8-7c2e-4f2a-9a54-0c4b2a7d2e10, see /tmp/a."},
        {"role": "user", "content": [{"type": "text", "text": "Hi"}, {"type": "image_url", "image_url": {"url": "u"}}]},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": '{"a": 1, "b": [2]}'}},
                {"id": "call_2", "type": "function", "function": {"name": "look", "arguments": "not JSON"}},
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": '{"user": "x", "metadata": null}'},
        {"role": "tool", "tool_call_id": "call_2", "content": "22"},
    ],
    "tools": [
        {"type": "function", "function": {"name": "look", "parameters": {"properties": {"user": {"type": "string"}}}}},
        {"type": "function", "function": {"name": "find", "parameters": {"required": ["a", "b"]}}},
    ],
}
ANTHROPIC_BODY: dict[str, Any] = {
    "model": "claude",
    "max_tokens": 10,
    "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
    "metadata": {"user_id": "u"},
    "thinking": {"type": "enabled", "budget_tokens": 1024},
    "messages": [
        {"role": "user", "content": "Hi"},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
                {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"signature": "1", "a": 1}},
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "toolu_1",
                    "content": [{"type": "web_search_result", "title": "t", "encrypted_content": "ZW5j"}],
                }
            ],
        },
    ],
    "tools": [{"name": "look", "input_schema": {"type": "object"}}],
}
# What counts by its presence alone, as SPEC 3 lists it.
BY_PRESENCE: dict[str, tuple[tuple[Any, ...], ...]] = {
    CHAT: (("metadata",), ("user",), ("safety_identifier",), ("prompt_cache_key",)),
    MESSAGES: (
        ("metadata",),
        ("messages", 1, "content", 0, "signature"),
        ("messages", 2, "content", 0, "content", 0, "encrypted_content"),
    ),
}
BODIES = {CHAT: OPENAI_BODY, MESSAGES: ANTHROPIC_BODY}


def _changed_at(body: Any, place: tuple[Any, ...], change: Callable[[Any, Any], None]) -> Any:
    changed = copy.deepcopy(body)
    parent = changed
    for step in place[:-1]:
        parent = parent[step]
    change(parent, place[-1])
    return changed


def _other_value(parent: Any, step: Any) -> None:
    value = parent[step]
    if isinstance(value, bool):
        parent[step] = not value
    elif isinstance(value, int | float):
        parent[step] = value + 1
    elif isinstance(value, str):
        parent[step] = value + "x"
    else:
        parent[step] = "other"


def _removed(parent: Any, step: Any) -> None:
    del parent[step]


def _doubled(parent: Any, step: Any) -> None:
    if isinstance(parent, list):
        parent.insert(step, copy.deepcopy(parent[step]))
    else:
        parent[f"{step}x"] = parent[step]


def _swapped(parent: Any, step: Any) -> None:
    if isinstance(parent, list):
        parent.append(parent.pop(step))
    else:
        parent[step] = [parent[step]]


@pytest.mark.parametrize("url", [CHAT, MESSAGES])
@pytest.mark.parametrize("change", [_other_value, _removed, _doubled, _swapped])
def test_any_change_outside_the_normalised_places_counts_and_none_inside_does(
    url: str, change: Callable[[Any, Any], None]
) -> None:
    body = BODIES[url]
    reader = make_reader()
    recorded = _hash(post(body, url=url), reader)
    form = _form(post(body, url=url), reader)

    for place in list(places(body))[1:]:
        changed = _changed_at(body, place, change)
        request = post(changed, url=url)
        covering = next((free for free in BY_PRESENCE[url] if place[: len(free)] == free), None)
        is_inside = covering is not None and (len(place) > len(covering) or change in (_other_value, _swapped))
        is_free = is_inside or is_same(_without_nulls(changed), body)
        assert (_hash(request, reader) == recorded) == is_free, place
        assert (find_changes(form, _form(request, reader)) == []) == is_free, place
        assert _reread_hash(request) == _hash(request, reader), place


@pytest.mark.parametrize("url", [CHAT, MESSAGES])
def test_what_counts_by_presence_counts_by_presence(url: str) -> None:
    for place in BY_PRESENCE[url]:
        absent = _changed_at(BODIES[url], place, _removed)
        assert _hash(post(absent, url=url)) != _hash(post(BODIES[url], url=url))


def test_the_normalised_names_count_where_no_dialect_speaks_them() -> None:
    for place in (("metadata",), ("user",), ("safety_identifier",)):
        changed = _changed_at(OPENAI_BODY, place, _other_value)
        assert _hash(post(changed, url=GENERIC)) != _hash(post(OPENAI_BODY, url=GENERIC))


@pytest.mark.parametrize("key", ["metadata", "user", "tools", "stop", "new"])
def test_a_top_level_null_is_the_same_as_nothing(key: str) -> None:
    absent = {name: value for name, value in OPENAI_BODY.items() if name != key}

    assert _hash(post({**absent, key: None})) == _hash(post(absent))


def test_a_null_further_down_is_not_the_same_as_nothing() -> None:
    assert _hash(chat({"role": "user", "content": "a", "name": None})) != _hash(chat(user("a")))
    assert _hash(chat(user("a"), tool_choice={"a": None})) != _hash(chat(user("a"), tool_choice={}))


def _calling(arguments: str, call_id: str = "call_1") -> dict[str, Any]:
    function = {"name": "look", "arguments": arguments}
    return {"role": "assistant", "tool_calls": [{"id": call_id, "type": "function", "function": function}]}


def test_tool_arguments_that_are_json_count_as_json() -> None:
    recorded = _hash(chat(_calling('{"a": 1, "b": "x"}')))

    assert _hash(chat(_calling('{"b":"x","a":1.0}'))) == recorded
    assert _hash(chat(_calling('{"b":"x","a":2}'))) != recorded
    assert _hash(chat(_calling('{"b":"x","a":true}'))) != recorded
    assert _hash(chat(_calling('{"b":"x","a":1'))) != recorded


def test_text_that_is_json_counts_as_text() -> None:
    assert _hash(chat(user('{"a": 1}'))) != _hash(chat(user('{"a":1}')))


def _made(number: int) -> str:
    return f"pyd_ai_{number:032x}"


def _two_calls(
    first: str, second: str, *, arguments: tuple[str, str] = ("{}", "{}"), is_swapped: bool = False
) -> HttpRequest:
    calls = [
        {"id": call_id, "type": "function", "function": {"name": "look", "arguments": text}}
        for call_id, text in zip((first, second), arguments, strict=True)
    ]
    answered = (second, first) if is_swapped else (first, second)
    results = [
        {"role": "tool", "tool_call_id": call_id, "content": text}
        for call_id, text in zip(answered, ("one", "two"), strict=True)
    ]
    return chat(user("a"), {"role": "assistant", "content": None, "tool_calls": calls}, *results)


def test_call_ids_that_the_client_made_do_not_count_but_which_call_they_name_does() -> None:
    recorded = _hash(_two_calls(_made(1), _made(2)))

    assert _hash(_two_calls(_made(11), _made(12))) == recorded
    assert _hash(_two_calls(_made(2), _made(1))) == recorded
    assert _hash(_two_calls(_made(1), _made(2), is_swapped=True)) != recorded
    assert _hash(_two_calls(_made(1), _made(1))) != recorded
    assert _hash(_two_calls("call_1", "call_2")) != _hash(_two_calls("call_11", "call_12"))


def test_call_ids_that_the_client_made_count_by_tool_and_arguments() -> None:
    first = _hash(_two_calls(_made(1), _made(2), arguments=('{"a":1}', '{"a":2}')))

    assert _hash(_two_calls(_made(5), _made(6), arguments=('{ "a": 1.0 }', '{"a":2}'))) == first
    assert _hash(_two_calls(_made(5), _made(6), arguments=('{"a":3}', '{"a":2}'))) != first


def test_client_made_ids_in_anthropic_messages_do_not_count() -> None:
    def request(call_id: str) -> HttpRequest:
        use = {"type": "tool_use", "id": call_id, "name": "look", "input": {"a": 1}}
        result = {"type": "tool_result", "tool_use_id": call_id, "content": "1"}
        messages = [user("a"), {"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
        return post({"model": "m", "messages": messages}, url=MESSAGES)

    assert _hash(request(_made(1))) == _hash(request(_made(2)))
    assert _hash(request("toolu_1")) != _hash(request("toolu_2"))


def test_a_client_made_id_counts_in_text() -> None:
    assert _hash(chat(user(_made(1)))) != _hash(chat(user(_made(2))))


def test_client_made_ids_are_found_however_they_are_written() -> None:
    request = _two_calls(_made(1), _made(2))
    escaped = post(request.content.replace(b"pyd_ai_", b"pyd\\u005fai\\u005F"))

    assert _hash(escaped) == _hash(request) == _reread_hash(escaped)


def test_json_rpc_ids_and_progress_tokens_do_not_count() -> None:
    def call(number: int, **params: Any) -> HttpRequest:
        params = {"name": "look", "_meta": {"progressToken": number}, **params}
        return post({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}, url=GENERIC)

    assert _hash(call(1)) == _hash(call(2))
    assert _hash(call(1)) != _hash(call(1, name="find"))
    assert _hash(post({"id": 1}, url=GENERIC)) != _hash(post({"id": 2}, url=GENERIC))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (post({}), post({}, method="PUT")),
        (post({}), post({}, url=CHAT + "/x")),
        (post({}), post({}, url=CHAT + "?a=1")),
        (post({}, url=CHAT + "?a=1"), post({}, url=CHAT + "?a=2")),
        (post({}, url=CHAT + "?a=%ff"), post({}, url=CHAT + "?a=%fe")),
        (post({}, url="http://api.openai.com/"), post({}, url="https://api.openai.com/")),
        (post({}, url="http://127.0.0.1:8000/"), post({}, url="http://127.0.0.1:9000/")),
        (post({}), post({}, headers=(*JSON, ("anthropic-version", "1")))),
        (post(b"a=1", headers=FORM), post(b"a=2", headers=FORM)),
        (post(b"a=%ff", headers=FORM), post(b"a=%fe", headers=FORM)),
        (post(b"", headers=JSON), post(b"{}", headers=JSON)),
        (post(b"{}", headers=JSON), post(b"[]", headers=JSON)),
        (post(b'{"":[1]}', headers=JSON), post(b"[1]", headers=JSON)),
        (post(b'{"":1}', headers=JSON), post(b"1", headers=JSON)),
        (post(b'{"text":"a"}', headers=JSON), post(b"a", headers=JSON)),
        (post(b"a", headers=JSON), post(b'"a"', headers=JSON)),
        (post(b"\xff", headers=JSON), post(b"\xfe", headers=JSON)),
        (_multipart("b", [("a", b"x"), ("b", b"y")]), _multipart("b", [("b", b"y"), ("a", b"x")])),
        (_multipart("b", [("a", b"x")]), _multipart("b", [("b", b"x")])),
    ],
)
def test_requests_that_differ_have_two_hashes_and_a_difference_to_show(first: HttpRequest, second: HttpRequest) -> None:
    reader = make_reader()

    assert _hash(first, reader) != _hash(second, reader)
    assert find_changes(_form(first, reader), _form(second, reader))


@given(
    body=any_json, random=st.randoms(use_true_random=False), url=st.sampled_from([GENERIC, "http://127.0.0.1:40000/"])
)
def test_hash_equality_agrees_with_a_walk_over_both_trees_and_with_the_difference_shown(
    body: Any, random: Random, url: str
) -> None:
    reader = make_reader()
    other = changed_somewhere(body, random)
    first, second = (post(spelled(value, random), url=url) for value in (body, other))

    are_same = is_same(_without_nulls(body), _without_nulls(other))

    assert (_hash(first, reader) == _hash(second, reader)) == are_same
    assert (find_changes(_form(first, reader), _form(second, reader)) == []) == are_same


@given(body=any_json, random=st.randoms(use_true_random=False), url=st.sampled_from([CHAT, MESSAGES]))
def test_hash_equality_and_the_difference_shown_agree_under_the_rules_of_a_dialect(
    body: Any, random: Random, url: str
) -> None:
    ignore = ["$.messages[-1].content", "$.a", "$.messages[*].id =~ [a-z]+", "$.*[0].a", "$.b[0][1]"]
    reader = make_reader(ignore=ignore)
    base = {**random.choice([OPENAI_BODY, ANTHROPIC_BODY]), "a": body, "metadata": body, "b": [body, body]}
    first, second = (post(changed_somewhere(base, random), url=url) for _ in range(2))

    are_equal = _hash(first, reader) == _hash(second, reader)

    assert (find_changes(_form(first, reader), _form(second, reader)) == []) == are_equal
    assert _reread_hash(first, ignore=ignore) == _hash(first, reader)


# What no client should send

ODD_BODIES = {
    "a big integer": b'{"n":18446744073709551617,"messages":[{"n":18446744073709551617}]}',
    "its neighbour": b'{"n":18446744073709551618,"messages":[{"n":18446744073709551618}]}',
    "NaN": b'{"n":NaN,"messages":[NaN,{"n":NaN}]}',
    "Infinity": b'{"n":Infinity,"messages":[-Infinity]}',
    "a number beyond all doubles": b'{"n":1e999,"messages":[1e-999]}',
    "a number of 5000 digits": b'{"n":' + b"7" * 5000 + b"}",
    "a lone surrogate": b'{"n":"\\ud800","messages":[{"\\udfff":"\\ud800"}]}',
    "a lone surrogate as a key": b'{"\\ud800":1,"\\ud801":[1]}',
    "invalid UTF-8": b'{"n":"\xff\xfe"}',
    "surrogates in UTF-8": b'{"n":"\xed\xa0\x80"}',
    "a byte order mark": b'\xef\xbb\xbf{"n":1}',
    "duplicate keys": b'{"n":1,"n":[2],"messages":[],"messages":[{"a":1,"a":2}]}',
    "an empty key": b'{"":[{"a":1}],"n":{"":1}}',
    "no end": b'{"n":[',
    "nothing but white space": b" \n ",
    "a scalar": b"7",
    "a text": b'"text"',
    "null": b"null",
    "arguments of every kind": json.dumps(
        {"messages": [_calling(text) for text in ("NaN", "1e999", "[", "")]}
    ).encode(),
}


@pytest.mark.parametrize("url", [CHAT, MESSAGES, GENERIC])
@pytest.mark.parametrize("body", ODD_BODIES.values(), ids=ODD_BODIES)
def test_whatever_a_client_sends_gets_a_hash_that_reading_it_back_gives_again(body: bytes, url: str) -> None:
    request = post(body, url=url)

    assert _hash(request) == _hash(request) == _reread_hash(request)


def test_big_integers_that_are_one_double_have_two_hashes() -> None:
    names = ("a big integer", "its neighbour")

    first, second = (_hash(post(ODD_BODIES[name])) for name in names)

    assert first != second


def test_all_odd_bodies_differ() -> None:
    hashes = {name: _hash(post(body)) for name, body in ODD_BODIES.items()}

    assert len(set(hashes.values())) == len(hashes)


def test_of_duplicate_keys_the_last_one_counts() -> None:
    assert _hash(post(b'{"a":1,"a":2}')) == _hash(post(b'{"a":2}'))


@pytest.mark.parametrize("depth", [200, 300, 390, 600, 1000, 3000])
@pytest.mark.parametrize("place", [b'{"n":%s}', b'{"messages":[%s]}', b"%s"])
@pytest.mark.parametrize("opening", [(b"[", b"]"), (b'{"a":', b"}")], ids=["arrays", "objects"])
def test_a_body_nested_deep_gets_a_hash(depth: int, place: bytes, opening: tuple[bytes, bytes]) -> None:
    nested = opening[0] * depth + b"%s" + opening[1] * depth

    first, second = (post(place % (nested % leaf)) for leaf in (b"1", b"2"))

    assert _hash(first) == _reread_hash(first)
    assert _hash(first) != _hash(second)


@pytest.mark.parametrize("depth", [200, 390])
@pytest.mark.parametrize("place", [b'{"n":%s}', b'{"messages":[%s]}'])
def test_a_difference_at_the_bottom_of_a_deep_body_is_found(depth: int, place: bytes) -> None:
    reader = make_reader()
    first, second = (post(place % (b'{"a":' * depth + leaf + b"}" * depth)) for leaf in (b"1", b"2"))

    changes = find_changes(_form(first, reader), _form(second, reader))

    assert len(changes) == 1


@pytest.mark.parametrize("leaf", [b"1", b"12345678901234567890", b'"\\ud800"'])
@pytest.mark.parametrize("place", [b'{"n":%s}', b'{"messages":[%s]}'])
def test_how_deep_the_caller_is_does_not_change_the_hash(leaf: bytes, place: bytes) -> None:
    request = post(place % (b'{"a":[' * 100 + leaf + b"]}" * 100))

    found = _at_depth(820, lambda: (_hash(request), _reread_hash(request)))

    assert found == (_hash(request), _hash(request))


@given(
    content=st.binary(max_size=60), media_type=st.sampled_from(["application/json", "text/plain", *[FORM[0][1]], ""])
)
def test_any_bytes_get_a_hash_that_reading_them_back_gives_again(content: bytes, media_type: str) -> None:
    request = post(content, headers=(("content-type", media_type),), url=GENERIC)

    assert _hash(request) == _reread_hash(request)


@given(body=any_json, random=st.randoms(use_true_random=False))
def test_reading_a_recorded_request_back_gives_its_hash(body: Any, random: Random) -> None:
    request = post(spelled(body, random), url=GENERIC)

    assert _hash(request) == _reread_hash(request)


@given(body=any_json)
def test_a_recorded_request_is_the_request_that_reading_it_back_gives(body: Any) -> None:
    asked = make_reader().read(post(json.dumps(body).encode(), url=GENERIC))

    again = make_reader().reread(asked.request, asked.messages)

    assert (repr(again.request), again.messages.keys()) == (repr(asked.request), asked.messages.keys())


# A hash depends on the request and the rules alone


def test_a_request_hashed_after_50_turns_has_the_hash_of_a_fresh_reader() -> None:
    requests = conversation(50)
    reader = make_reader()

    hashes = [_hash(request, reader) for request in requests]

    assert hashes == [_hash(request) for request in requests]
    assert len(set(hashes)) == 50


def test_a_request_has_the_same_hash_in_a_fresh_process() -> None:
    reader = make_reader()
    hashes = [_hash(request, reader) for request in conversation(50)]
    script = (
        "from tests.unit.making import conversation, make_reader\n"
        "print(make_reader().read(conversation(50)[-1]).hash, make_reader().rules.digest)"
    )

    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert process.stdout.split() == [hashes[-1], reader.rules.digest]


@given(values=st.lists(any_json, max_size=5))
def test_what_was_read_before_does_not_change_a_hash(values: list[Any]) -> None:
    reader = make_reader()
    requests = [post(json.dumps({"messages": values[: index + 1]}).encode()) for index in range(len(values))]

    hashes = [_hash(request, reader) for request in requests]

    assert hashes == [_hash(request) for request in requests]


def test_the_position_of_a_message_does_not_change_what_is_kept_of_it() -> None:
    reader = make_reader(ignore=["$.messages[0].content"])
    first = reader.read(chat(user("a"), user("b")))

    second = reader.read(chat(user("b"), user("a")))

    assert first.messages.keys() == second.messages.keys()
    assert first.hash != second.hash


# Rules


@pytest.mark.parametrize(
    ("rule", "first", "second"),
    [
        ("$.seed", {"seed": 1}, {"seed": 2}),
        ("$.messages[0].content", {"messages": [user("a")]}, {"messages": [user("b")]}),
        ("$.messages[-1].content", {"messages": [1, user("a")]}, {"messages": [1, user("b")]}),
        ("$.messages[*].content", {"messages": [user("a"), user("b")]}, {"messages": [user("c"), user("d")]}),
        ("$.messages", {"messages": [user("a")]}, {"messages": [user("a"), user("b")]}),
        ("$.messages[*].content =~ \\d+", {"messages": [user("a 1")]}, {"messages": [user("a 22")]}),
        ("$.*[0].content", {"messages": [user("a")]}, {"messages": [user("b")]}),
        ("$.*", {"messages": [user("a")], "x": 1}, {"messages": [], "x": 2}),
        ("$['odd.key'][0]", {"odd.key": [1]}, {"odd.key": [2]}),
        ("$[0].a", [{"a": 1}], [{"a": 2}]),
        ("$[-1]", [1, 2], [1, 3]),
        ("$.a.b.c", {"a": {"b": {"c": 1}}}, {"a": {"b": {"c": [2]}}}),
    ],
)
def test_an_ignored_place_may_differ(rule: str, first: Any, second: Any) -> None:
    reader = make_reader(ignore=[rule])
    requests = [post(body) for body in (first, second)]

    assert _hash(requests[0], reader) == _hash(requests[1], reader)
    assert _hash(requests[0]) != _hash(requests[1])
    assert find_changes(_form(requests[0], reader), _form(requests[1], reader)) == []
    assert _reread_hash(requests[0], ignore=[rule]) == _hash(requests[0], reader)


@pytest.mark.parametrize(
    ("rule", "first", "second"),
    [
        ("$.seed", {"seed": 1}, {}),
        ("$.messages[0].content", {"messages": [user("a"), user("b")]}, {"messages": [user("a"), user("c")]}),
        ("$.messages[-1].content", {"messages": [user("a"), user("b")]}, {"messages": [user("c"), user("b")]}),
        ("$.messages[0].content", {"messages": [user("a")]}, {"messages": [{"role": "system", "content": "a"}]}),
        ("$.messages[*].content =~ \\d+", {"messages": [user("a 1")]}, {"messages": [user("b 1")]}),
        ("$.messages[*].content =~ \\d+", {"messages": [user("a 1")]}, {"messages": [user("a")]}),
        ("$.messages[*].content", {"messages": [user("a")]}, {"messages": [user("a"), user("a")]}),
        ("$.a", {"b": {"a": 1}}, {"b": {"a": 2}}),
    ],
)
def test_an_ignore_rule_reaches_no_further_than_its_place(rule: str, first: Any, second: Any) -> None:
    reader = make_reader(ignore=[rule])

    assert _hash(post(first), reader) != _hash(post(second), reader)
    assert find_changes(_form(post(first), reader), _form(post(second), reader))


def test_an_ignored_place_and_a_client_made_id_may_meet() -> None:
    reader = make_reader(ignore=["$.messages[-1].content"])

    def request(number: int) -> HttpRequest:
        made = _made(number)
        result = {"role": "tool", "tool_call_id": made, "content": str(number)}
        return chat(_calling("{}", made), result)

    assert _hash(request(1), reader) == _hash(request(2), reader)
    assert find_changes(_form(request(1), reader), _form(request(2), reader)) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, {"ignore": ["$.messages[0].content"]}),
        ({}, {"ignore": ["$.tools"]}),
        ({"ignore": ["$.tools"]}, {}),
        ({"ignore": ["$.messages"]}, {}),
        ({"ignore": ["$.*"]}, {"ignore": ["$.model"]}),
        ({}, {"redact_patterns": ["customer=cust-\\d+"]}),
        ({}, {"ignore": ["$.messages[*].tool_calls[*].id"], "redact_patterns": ["u-\\d"]}),
    ],
)
def test_a_recorded_request_gets_its_hash_under_other_rules_without_being_recorded_again(
    before: dict[str, Any], after: dict[str, Any]
) -> None:
    request = post({**OPENAI_BODY, "user": "cust-12", "note": "cust-12"})
    recorded = make_reader(**before).read(request)
    reader = make_reader(**after)

    asked = reader.reread(recorded.request, recorded.messages)

    assert asked.hash == _hash(request, reader)
    assert find_changes(reader.normal_form(recorded.request, recorded.messages), _form(request, reader)) == []


@pytest.mark.parametrize(
    "content_and_headers",
    [
        (b"note=cust-12", FORM),
        (b"about cust-12", (("content-type", "text/plain"),)),
        (_multipart("b", [("a", b"cust-12")]).content, _multipart("b", []).headers),
    ],
)
def test_a_redaction_rule_needs_no_new_recording_of_other_bodies_either(content_and_headers: Any) -> None:
    content, headers = content_and_headers
    request = post(content, headers=headers, url=GENERIC + "?customer=cust-12")
    recorded = make_reader().read(request)
    reader = make_reader(redact_patterns=["customer=cust-\\d+"])

    asked = reader.reread(recorded.request, recorded.messages)

    assert asked.hash == _hash(request, reader) != recorded.hash
    assert find_changes(reader.normal_form(recorded.request, recorded.messages), _form(request, reader)) == []


def test_a_matched_header_counts_and_another_does_not() -> None:
    def request(value: str) -> HttpRequest:
        return post({}, headers=(*JSON, ("X-Tenant", value)))

    assert _hash(request("a")) == _hash(request("b"))
    assert _hash(request("a"), make_reader(match_headers=["x-tenant"])) != _hash(
        request("b"), make_reader(match_headers=["x-tenant"])
    )


def test_the_digest_of_the_rules_changes_with_each_of_them() -> None:
    digests = {
        make_reader(**rules).rules.digest
        for rules in (
            {},
            {"ignore": ["$.a"]},
            {"ignore": ["$.a =~ 1"]},
            {"ignore": ["$.a", "$.b"]},
            {"match_headers": ["x-a"]},
            {"redact_patterns": ["a=b+"]},
            {"redact_patterns": ["b+"]},
        )
    }

    assert len(digests) == 7
    assert make_reader(ignore=["$.a"]).rules.digest == make_reader(ignore=["$.a"]).rules.digest


# Secrets


@pytest.mark.parametrize(
    "request_with",
    [
        lambda key: chat(user(f"my key is {key}")),
        lambda key: chat(user("a"), note=key),
        lambda key: post({key: [1], "messages": []}),
        lambda key: post({"messages": [{key: 1}]}),
        lambda key: post(f'"{key}"'.encode()),
        lambda key: post(f"key: {key}".encode(), headers=(("content-type", "text/plain"),)),
        lambda key: post(f"note={key}".encode(), headers=FORM),
        lambda key: _multipart("b", [("note", key.encode())]),
        lambda key: post({}, url=f"{GENERIC}?note={key}"),
        lambda key: post({}, url=f"https://user:{key}@api.example.com/v1/{key}/x"),
        lambda key: post({}, headers=(*JSON, ("authorization", f"Bearer {key}"))),
        lambda key: post(gzip.compress(json.dumps({"a": key}).encode()), headers=(*JSON, ("content-encoding", "gzip"))),
    ],
)
def test_a_key_does_not_count_and_is_not_kept(request_with: Callable[[str], HttpRequest]) -> None:
    request, other = (request_with(key) for key in (KEY, KEY.replace("A1", "Z9")))

    asked = make_reader(match_headers=["authorization"]).read(request)

    assert asked.hash == _hash(other, make_reader(match_headers=["authorization"]))
    assert KEY not in repr(asked.request) + repr(asked.messages)


def test_cuts_between_the_events_of_a_stream_stay_between_them() -> None:
    events = [f'data: {{"a":"{text}"}}\n\n'.encode() for text in ("x ", KEY[:9], KEY[9:], " y", KEY + " z", "end")]
    response = Response(
        status=200,
        headers=(("content-type", "text/event-stream"),),
        content=b"".join(events),
        cuts=tuple(map(len, events)),
    )

    kept = make_reader().redact_response(response)

    assert cut(kept.content, kept.cuts) == [
        b'data: {"a":"x "}\n\n',
        b'data: {"a":"[redacted:openai-key]"}\n\n',
        b'data: {"a":""}\n\n',
        b'data: {"a":" y"}\n\n',
        b'data: {"a":"[redacted:openai-key] z"}\n\n',
        b'data: {"a":"end"}\n\n',
    ]


def test_cuts_that_fell_inside_a_key_move_to_its_end() -> None:
    reader = make_reader()
    content = f'data: {{"a":"{KEY}"}}\n\ndata: {{"a":" x"}}\n\n'.encode()
    pieces = (12, 20, len(content) - 32 - 18, 18)

    kept = reader.redact_response(
        Response(status=200, headers=(("content-type", "text/event-stream"),), content=content, cuts=pieces)
    )

    assert KEY.encode() not in kept.content
    assert sum(kept.cuts) == len(kept.content)
    assert all(length > 0 for length in kept.cuts)
    assert kept.content.endswith(b'data: {"a":" x"}\n\n')


@given(
    content=st.lists(
        st.sampled_from(
            [
                b"a ",
                b"\n\n",
                KEY.encode(),
                b"-----BEGIN PRIVATE KEY-----\n\nx ",
                b"\xff",
                b"-----END PRIVATE KEY----- ",
                b"data: ",
                b'{"a":"b"}',
            ]
        ),
        max_size=8,
    ).map(b"".join),
    random=st.randoms(use_true_random=False),
    media_type=st.sampled_from(["text/event-stream", "application/json", "text/plain"]),
)
def test_the_cuts_of_a_redacted_answer_add_up_to_its_length(content: bytes, random: Random, media_type: str) -> None:
    places = sorted(random.sample(range(1, len(content)), min(3, len(content) - 1))) if len(content) > 1 else []
    cuts = tuple(end - start for start, end in zip([0, *places], [*places, len(content)], strict=True))
    response = Response(status=200, headers=(("content-type", media_type),), content=content, cuts=cuts)

    kept = make_reader().redact_response(response)

    assert sum(kept.cuts) == len(kept.content)
    assert KEY.encode() not in kept.content


def test_an_answer_that_breaks_its_own_format_is_no_answer() -> None:
    reader = make_reader()
    asked = reader.read(chat(user("a")))

    for body in (b'{"choices":[{"message":{"role":"assistant","tool_calls":5}}]}', b"[]", b"{}", b"", b"\xff"):
        reply = reader.read_reply(asked, Response(status=200, headers=JSON, content=body))
        assert reply is None or not reply.messages


def test_a_message_that_breaks_its_own_format_is_no_message() -> None:
    asked = make_reader().read(post({"messages": [{"role": "assistant", "content": 5, "tool_calls": 5}]}))

    assert asked.kind == "model"
    assert asked.message_at(0) is None


def test_what_was_read_before_a_secret_was_known_is_read_anew() -> None:
    environment: dict[str, str] = {}
    rules = rule_set_for(DIALECTS, redactor=redactor_for(environment=environment))
    secret = "first-1234567890"
    request = post(
        {"model": "m", "note": secret, secret: [1], "messages": [user(secret)]},
        url=f"https://api.example.com/v1/chat/completions?a={secret}",
    )
    reader = Reader(rules)
    before = reader.read(request)

    environment["A_TOKEN"] = secret
    after = reader.read(request)

    assert after.hash == Reader(rules).read(request).hash != before.hash
    assert secret not in after.request.model_dump_json() + json.dumps(after.messages)
    assert reader.normal_form(before.request, before.messages) == reader.normal_form(after.request, after.messages)
