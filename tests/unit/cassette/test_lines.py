"""One line of a cassette, and how it leans on the lines before it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentreplay.cassette.lines import decode_exchange, encode_exchange, reference, seal, sum_of, unseal
from pytest_agentreplay.records import (
    BytesBody,
    ExchangeStep,
    FormBody,
    HttpStep,
    JsonBody,
    ModelStep,
    MultipartBody,
    Part,
    Request,
    Response,
    TextBody,
    TransportError,
    Usage,
    read_step,
)
from tests.unit.documents import any_json, any_text, is_same

ADDRESSES = {f"{number:016x}": f"c1:{number:016x}{'0' * 48}" for number in range(6)}

any_lists = st.dictionaries(
    st.sampled_from(["", "messages", "tools", "a"]),
    st.lists(st.sampled_from(list(ADDRESSES.values())), max_size=4).map(tuple),
    max_size=3,
)


@st.composite
def json_bodies(draw: Any) -> JsonBody:
    lists = draw(any_lists)
    fields = draw(st.dictionaries(st.sampled_from(["", "model", "messages", "a", "b", "\ud800"]), any_json, max_size=4))
    root = draw(st.sampled_from(["object", "array", "scalar"]))
    return JsonBody(root=root, fields={key: value for key, value in fields.items() if key not in lists}, lists=lists)


any_body = st.one_of(
    json_bodies(),
    st.builds(TextBody, text=any_text),
    st.builds(FormBody, pairs=st.lists(st.tuples(any_text, any_text), max_size=2).map(tuple)),
    st.builds(BytesBody, sha256=st.just("00"), size=st.integers(0, 9)),
    st.just(MultipartBody(parts=(Part(headers={"a": "b"}, sha256="00", size=1, text="x"),))),
    st.just(Request(method="GET", url="u").body),
)
any_request = st.builds(
    Request,
    method=st.sampled_from(["GET", "POST"]),
    url=st.sampled_from(["https://a/", "https://b/"]),
    headers=st.dictionaries(st.sampled_from(["content-type", "x"]), st.sampled_from(["a", "b"]), max_size=2),
    body=any_body,
)
any_response = st.builds(
    Response,
    status=st.sampled_from([200, 429]),
    headers=st.sampled_from([(), (("content-type", "application/json"), ("a", "1"), ("a", "2"))]),
    content=st.one_of(st.binary(max_size=8), st.just(b'{"a": 1}')),
    truncated=st.booleans(),
)
any_error = st.builds(
    TransportError,
    client=st.just("httpx"),
    class_name=any_text,
    phase=st.sampled_from(["connect", "body"]),
    text=any_text,
)
any_step = st.builds(
    lambda kind, usage, **fields: kind(**fields, **({"usage": usage} if kind is ModelStep else {})),
    kind=st.sampled_from([ModelStep, HttpStep]),
    usage=st.sampled_from([None, Usage(input_tokens=1, output_tokens=0)]),
    hash=st.sampled_from(["a1:" + "1" * 64, "a1:" + "2" * 64]),
    lane=any_text,
    phase=st.sampled_from(["setup", "call", "teardown"]),
    parent=st.sampled_from([None, "tool 1"]),
    provider=st.sampled_from(["openai", "groq"]),
    operation=st.sampled_from(["chat", "embeddings"]),
    request=any_request,
    response=st.one_of(st.none(), any_response),
    error=st.one_of(st.none(), any_error),
)


def _through_a_file(step: ExchangeStep, before: ExchangeStep | None) -> Any:
    fields = unseal(seal(encode_exchange(step, before=before)))
    assert fields is not None
    return read_step(decode_exchange(fields, before=before, addresses=ADDRESSES))


def _everything(step: ExchangeStep) -> dict[str, Any]:
    shown = step.model_dump()
    shown["request"]["body"].pop("fields", None)
    return shown


def _fields(step: ExchangeStep) -> Any:
    body = step.request.body
    return body.fields if isinstance(body, JsonBody) else None


@given(step=any_step, before=st.one_of(st.none(), any_step))
def test_a_step_comes_back_as_it_was_whatever_stood_before_it(step: ExchangeStep, before: ExchangeStep | None) -> None:
    again = _through_a_file(step, before)

    assert _everything(again) == _everything(step)
    assert is_same(_fields(again), _fields(step)) if _fields(step) is not None else _fields(again) is None


@pytest.mark.parametrize(
    ("first", "second"),
    [(1, True), (True, 1), (1, 1.5), (None, float("nan")), (float("nan"), None), (2**64 + 1, 2**64 + 2), ([1], [True])],
)
def test_a_field_that_changed_only_a_little_is_written_again(first: Any, second: Any) -> None:
    steps = [
        ModelStep(hash="a1:0", request=Request(method="POST", url="u", body=JsonBody(fields={"a": value})))
        for value in (first, second)
    ]

    again = _through_a_file(steps[1], steps[0])

    assert is_same(_fields(again)["a"], second)


def test_a_line_says_only_what_is_new() -> None:
    addresses = tuple(ADDRESSES.values())
    bodies = [
        JsonBody(fields={"model": "m", "seed": 1}, lists={"messages": addresses[:2], "tools": addresses[4:5]}),
        JsonBody(fields={"model": "m", "top_p": 2}, lists={"messages": addresses[:4], "tools": addresses[4:5]}),
    ]
    before, step = (
        ModelStep(hash="a1:" + "1" * 64, provider="openai", request=Request(method="POST", url="u", body=body))
        for body in bodies
    )

    line = encode_exchange(step, before=before)

    assert line == {
        "kind": "model",
        "hash": step.hash,
        "lane": "",
        "after": "1" * 16,
        "request": {
            "fields": {"top_p": 2},
            "gone": ["seed"],
            "add": {"messages": [reference(address) for address in addresses[2:4]]},
        },
    }


def test_unknown_fields_of_a_step_its_request_and_its_response_are_kept() -> None:
    request = Request(method="POST", url="u", body=JsonBody(), from_the_future=1)
    response = Response(status=200, content=b"{}", from_the_future=[2])
    before = ModelStep(hash="a1:0", request=Request(method="POST", url="u", body=JsonBody()))
    step = ModelStep(hash="a1:0", request=request, response=response, from_the_future={"a": 3})

    for again in (_through_a_file(step, None), _through_a_file(step, before)):
        assert again.model_extra == {"from_the_future": {"a": 3}}
        assert again.request.model_extra == {"from_the_future": 1}
        assert again.response.model_extra == {"from_the_future": [2]}


def test_a_reference_that_is_not_known_is_a_key_error() -> None:
    step = ModelStep(
        hash="a1:0", request=Request(method="POST", url="u", body=JsonBody(lists={"a": ("c1:" + "9" * 64,)}))
    )

    with pytest.raises(KeyError, match="9999999999999999"):
        _through_a_file(step, None)


# Sums


@given(value=st.dictionaries(any_text, any_json, min_size=1, max_size=4))
def test_a_sealed_line_gives_its_fields_back(value: dict[str, Any]) -> None:
    line = seal({"kind": "x", **value})

    assert b"\n" not in line
    assert is_same(unseal(line), {"kind": "x", **value})
    assert line.endswith(f',"sum":"{sum_of(line)}"}}'.encode())


@given(value=st.dictionaries(any_text, any_json, max_size=3), data=st.data())
def test_a_sealed_line_with_any_byte_changed_is_not_taken_for_it(value: dict[str, Any], data: st.DataObject) -> None:
    line = seal({"kind": "x", **value})
    at = data.draw(st.integers(0, len(line) - 1))
    other = bytes([data.draw(st.integers(0, 255).filter(lambda byte: byte != line[at]))])
    damaged = line[:at] + other + line[at + 1 :]

    try:
        fields = unseal(damaged)
    except ValueError:
        fields = None

    assert fields is None


@pytest.mark.parametrize("line", [b'{"a":1}', b"[]", b"5", b'{"sum":"0123456789abcdef"}', seal({"a": 1})[:-1] + b" }"])
def test_a_line_without_a_fitting_sum_has_no_fields(line: bytes) -> None:
    assert unseal(line) is None


@pytest.mark.parametrize("line", [b"", b"{", b"text", b'{"a":1}x', b"\xff"])
def test_a_line_that_is_no_json_is_a_value_error(line: bytes) -> None:
    with pytest.raises(ValueError):
        unseal(line)


def test_a_sum_is_the_last_field_and_nothing_else_may_follow() -> None:
    line = seal({"a": 1})

    assert json.loads(line).popitem()[0] == "sum"
    assert unseal(line) == {"a": 1}
    assert unseal(line + line) is None
