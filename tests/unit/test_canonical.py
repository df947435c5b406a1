"""One form of JSON, and the hashes made of it."""

from __future__ import annotations

import json
import math
import struct
import threading
from collections.abc import Callable, Iterator
from hashlib import sha256
from random import Random
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_agentreplay.canonical import (
    canonical_json,
    content_hash,
    format_number,
    hash_list,
    json_tree,
    parse_document,
    parse_json,
    read_canonical,
    request_hash,
    sort_key,
    tool_call_hash,
    write_json,
    write_sorted,
)
from tests.unit.documents import any_json, any_text, changed_somewhere, is_same, spelled

# RFC 8785, appendix B.
RFC_NUMBERS = {
    "0000000000000000": "0",
    "8000000000000000": "0",
    "0000000000000001": "5e-324",
    "8000000000000001": "-5e-324",
    "7fefffffffffffff": "1.7976931348623157e+308",
    "ffefffffffffffff": "-1.7976931348623157e+308",
    "4340000000000000": "9007199254740992",
    "c340000000000000": "-9007199254740992",
    "4430000000000000": "295147905179352830000",
    "44b52d02c7e14af5": "9.999999999999997e+22",
    "44b52d02c7e14af6": "1e+23",
    "44b52d02c7e14af7": "1.0000000000000001e+23",
    "444b1ae4d6e2ef4e": "999999999999999700000",
    "444b1ae4d6e2ef4f": "999999999999999900000",
    "444b1ae4d6e2ef50": "1e+21",
    "3eb0c6f7a0b5ed8c": "9.999999999999997e-7",
    "3eb0c6f7a0b5ed8d": "0.000001",
    "41b3de4355555553": "333333333.3333332",
    "41b3de4355555554": "333333333.33333325",
    "41b3de4355555555": "333333333.3333333",
    "41b3de4355555556": "333333333.3333334",
    "41b3de4355555557": "333333333.33333343",
    "becbf647612f3696": "-0.0000033333333333333333",
    "43143ff3c1cb0959": "1424953923781206.2",
}


def _at_depth(frames: int, function: Callable[[], Any]) -> Any:
    return function() if not frames else _at_depth(frames - 1, function)


@pytest.mark.parametrize(("bits", "expected"), RFC_NUMBERS.items())
def test_a_double_is_written_as_in_rfc_8785_appendix_b(bits: str, expected: str) -> None:
    value = struct.unpack(">d", bytes.fromhex(bits))[0]

    written = canonical_json(value)

    assert written == expected.encode()
    assert canonical_json([value]) == b"[" + written + b"]"
    assert canonical_json({"a": value}) == b'{"a":' + written + b"}"


def test_the_literals_of_rfc_8785_are_written_as_it_says() -> None:
    document = rb"""{
        "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
        "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
        "literals": [null, true, false]
    }"""

    written = canonical_json(parse_json(document))

    assert (
        written
        == (
            '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
            '"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}'
        ).encode()
    )


def test_keys_are_ordered_by_utf_16_code_units_as_in_rfc_8785() -> None:
    document = rb"""{
        "\u20ac": "Euro Sign", "\r": "Carriage Return", "\ufb33": "Hebrew Letter Dalet With Dagesh", "1": "One",
        "\ud83d\ude00": "Emoji: Grinning Face", "\u0080": "Control", "\u00f6": "Latin Small Letter O With Diaeresis"
    }"""

    written = json.loads(canonical_json(parse_json(document)))

    assert list(written.values()) == [
        "Carriage Return",
        "One",
        "Control",
        "Latin Small Letter O With Diaeresis",
        "Euro Sign",
        "Emoji: Grinning Face",
        "Hebrew Letter Dalet With Dagesh",
    ]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (2**53, "9007199254740992"),
        (2**53 + 1, "9007199254740993n"),
        (2**53 + 2, "9007199254740994"),
        (-(2**53) - 1, "-9007199254740993n"),
        (2**64 + 1, "18446744073709551617n"),
        (2**64 + 2, "18446744073709551618n"),
        (10**21, "1e+21"),
        (float("nan"), "NaN"),
        (float("inf"), "Infinity"),
        (float("-inf"), "-Infinity"),
        ("\ud800", '"\\ud800"'),
        ("a\udfffb", '"a\\udfffb"'),
        (True, "true"),
        (1, "1"),
        (1.0, "1"),
        (-0.0, "0"),
        ((1, "a"), '[1,"a"]'),
    ],
)
def test_what_rfc_8785_leaves_out_has_a_form_of_its_own(value: Any, expected: str) -> None:
    assert canonical_json(value) == expected.encode()


def test_the_text_of_an_escape_is_not_the_lone_surrogate_it_names() -> None:
    assert canonical_json("\\ud800") != canonical_json("\ud800")


@pytest.mark.parametrize("value", [{1}, b"bytes", object(), {"a": {1}}, [b""]])
def test_what_is_no_json_value_is_refused(value: Any) -> None:
    with pytest.raises(TypeError):
        canonical_json(value)


@pytest.mark.parametrize("document", [b'{"a":1,"a":2}', b'{"a":12345678901234567890,"a":2}', b'{"a":NaN,"a":2}'])
def test_of_duplicate_keys_the_last_one_wins(document: bytes) -> None:
    assert parse_json(document) == {"a": 2}


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (b"18446744073709551617", 2**64 + 1),
        (b"[18446744073709551618]", [2**64 + 2]),
        (b'{"a":-9223372036854775809}', {"a": -(2**63) - 1}),
        (b'"\\ud800"', "\ud800"),
        (b"1e400", math.inf),
        (b"-0", 0),
    ],
)
def test_what_a_fast_parser_rounds_or_refuses_is_read_exactly(document: bytes, expected: Any) -> None:
    assert parse_json(document) == expected


@pytest.mark.parametrize("document", [b"", b"{", b"nul", b"[1,]", b'{"a":1}x', b'"\xff"', b"\xef\xbb\xbf{}"])
def test_what_is_no_json_is_a_value_error(document: bytes) -> None:
    with pytest.raises(ValueError):
        parse_json(document)


@pytest.mark.parametrize("depth", [200, 390])
@pytest.mark.parametrize("number", [b"1", b"12345678901234567890"])
def test_a_document_nested_deep_is_read_and_written(depth: int, number: bytes) -> None:
    document = b'{"a":[' * (depth // 2) + number + b"]}" * (depth // 2)

    written = canonical_json(parse_json(document))

    assert written.count(b"[") == depth // 2
    assert number in written


@pytest.mark.parametrize("number", [b"1", b"12345678901234567890"])
def test_how_deep_the_caller_is_does_not_change_what_is_read_and_written(number: bytes) -> None:
    document = b"[" * 200 + number + b"]" * 200

    written = _at_depth(850, lambda: canonical_json(parse_json(document)))

    assert written == canonical_json(parse_json(document))


@pytest.mark.parametrize("depth", [5_000, 100_000])
@pytest.mark.parametrize("number", [b"1", b"12345678901234567890"])
def test_a_document_nested_deeper_than_any_is_a_value_error(depth: int, number: bytes) -> None:
    with pytest.raises(ValueError):
        parse_json(b"[" * depth + number + b"]" * depth)


@given(value=any_json, random=st.randoms(use_true_random=False))
def test_two_spellings_of_a_value_have_one_canonical_form(value: Any, random: Random) -> None:
    documents = [spelled(value, random) for _ in range(3)]

    written = {canonical_json(parse_json(document)) for document in documents}

    assert written == {canonical_json(value)}


@given(value=any_json, random=st.randoms(use_true_random=False))
def test_canonical_forms_are_equal_just_where_values_are(value: Any, random: Random) -> None:
    other = changed_somewhere(value, random)

    are_equal = canonical_json(value) == canonical_json(other)

    assert are_equal == is_same(value, other)


@given(value=any_json)
def test_what_is_written_is_read_back_as_the_same_value(value: Any) -> None:
    assert is_same(parse_json(write_json(value)), value)


def _objects_in(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _objects_in(inner)


@given(value=any_json)
@example(value={"b": 2**64 + 1, "a": 2**55})
def test_what_is_written_in_order_is_read_back_as_the_same_value(value: Any) -> None:
    read = parse_json(write_sorted(value))

    assert is_same(read, value)
    assert all(list(found) == sorted(found, key=sort_key) for found in _objects_in(read))


@given(
    before=st.integers(0, 40),
    after=st.integers(0, 40),
    number=st.tuples(st.sampled_from(["", "-", "1.", "-0.5e", "1E+"]), st.integers(16, 40)),
    place=st.sampled_from([("", ""), ("[", "]"), ('{"a":', "}"), ("[1,\t", "\n,2]")]),
)
def test_a_number_with_sixteen_digits_in_a_row_is_seen_wherever_it_stands(
    before: int, after: int, number: tuple[str, int], place: tuple[str, str]
) -> None:
    sign, count = number
    document = " " * before + place[0] + sign + "1" * count + place[1] + " " * after

    _, is_plain = parse_document(document.encode())

    assert not is_plain


@given(value=any_json, random=st.randoms(use_true_random=False))
def test_a_document_said_to_be_plain_is_written_faithfully_by_a_fast_writer(value: Any, random: Random) -> None:
    document = spelled(value, random)

    parsed, is_plain = parse_document(document)

    assert is_same(parsed, value)
    assert not is_plain or is_same(parse_json(json.dumps(parsed).encode()), value)


@given(value=any_json, random=st.randoms(use_true_random=False))
@example(value={"b": 1e20, "a": 2**60 + 1}, random=Random(0))
@example(value=[math.nan, None, 1.0], random=Random(0))
def test_a_document_is_read_with_its_canonical_form_and_its_keys_in_order(value: Any, random: Random) -> None:
    canonical, read = read_canonical(spelled(value, random))

    assert canonical == canonical_json(value)
    assert canonical_json(read) == canonical
    assert all(list(found) == sorted(found, key=sort_key) for found in _objects_in(read))


@given(value=st.floats(allow_nan=False, allow_infinity=False))
def test_a_written_double_reads_back_as_the_same_double(value: float) -> None:
    assert float(format_number(value)) == value


@given(keys=st.lists(any_text, unique=True))
def test_keys_are_sorted_by_their_utf_16_code_units(keys: list[str]) -> None:
    ordered = sorted(keys, key=sort_key)

    assert ordered == sorted(keys, key=lambda key: [*key.encode("utf-16-be", "surrogatepass")])


def test_hashes_name_their_form_and_hash_the_canonical_bytes() -> None:
    head = canonical_json({"headers": {}, "method": "POST", "url": "https://a/"})

    digest = request_hash(b'{"json":1}', head=head)

    whole = b'{"body":{"json":1},"headers":{},"method":"POST","url":"https://a/"}'
    assert digest == "a1:" + sha256(whole).hexdigest()
    assert content_hash({"b": 1, "a": 2.0}) == "c1:" + sha256(b'{"a":2,"b":1}').hexdigest()


@given(name=any_text, arguments=any_json)
def test_the_hash_of_a_tools_call_is_that_of_its_name_and_arguments(name: str, arguments: Any) -> None:
    digest = tool_call_hash(name, canonical_json(arguments))

    assert digest == "a1:" + content_hash({"tool": name, "arguments": arguments}).removeprefix("c1:")


@given(fields=st.dictionaries(any_text, any_json, max_size=4), lists=st.dictionaries(any_text, st.lists(any_json)))
def test_a_tree_is_the_canonical_form_of_an_object_with_hashes_for_its_elements(
    fields: dict[str, Any], lists: dict[str, list[Any]]
) -> None:
    fields = {key: value for key, value in fields.items() if key not in lists}
    hashes = {key: [content_hash(element) for element in elements] for key, elements in lists.items()}

    tree = json_tree({key: canonical_json(value) for key, value in fields.items()}, hashes)

    assert tree == canonical_json({**fields, **hashes})
    assert all(hash_list(found) == canonical_json(found) for found in hashes.values())


def test_values_are_hashed_alike_in_many_threads() -> None:
    values = [{"n": number, "deep": json.loads("[" * 300 + "]" * 300)} for number in range(20)]
    expected = [content_hash(value) for value in values]
    found: list[list[str]] = []

    threads = [
        threading.Thread(target=lambda: found.append([content_hash(value) for value in values])) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert found == [expected] * 8
