"""The bytes of an answer as values, and back."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentreplay.canonical import write_json
from pytest_agentreplay.payloads import cut, decode_content, encode_content, split_events
from tests.unit.documents import any_json, spelled

MEDIA_TYPES = ["application/json", "text/event-stream", "application/x-ndjson", "text/plain", "image/png", ""]
media_types = st.sampled_from(MEDIA_TYPES)


def _through_a_line(stored: dict[str, Any]) -> dict[str, Any]:
    """Return what a line of a cassette gives back."""
    return orjson.loads(write_json(stored))


@pytest.mark.parametrize(
    ("content", "media_type", "stored"),
    [
        (b"", "application/json", {}),
        (b'{"a":1,"b":[2.5]}', "application/json", {"json": {"a": 1, "b": [2.5]}}),
        (b'{"a":1}\n', "application/json", {"json": {"a": 1}, "tail": "\n"}),
        (b'{"a": 1, "b": 2}', "application/json", {"json": {"a": 1, "b": 2}, "style": "spaced"}),
        (b'{\n  "a": 1\n}', "application/json", {"json": {"a": 1}, "style": "indented"}),
        (b'{"a":"\\u00e9"}', "application/json", {"json": {"a": "\u00e9"}, "style": "ascii"}),
        ('{"a": "é"}'.encode(), "application/json", {"json": {"a": "é"}, "style": "unicode"}),
        (b'{"a":1}', "application/problem+json", {"json": {"a": 1}}),
        (b'{"a":1}', "", {"json": {"a": 1}}),
        (b'{"a":1}', "text/plain", {"text": '{"a":1}'}),
        (b'{"a":1.0e0}', "application/json", {"text": '{"a":1.0e0}'}),
        (b'{"a":1,"a":2}', "application/json", {"text": '{"a":1,"a":2}'}),
        (b'{"a":18446744073709551617}', "application/json", {"text": '{"a":18446744073709551617}'}),
        (b'{"a":"\\ud800"}', "application/json", {"text": '{"a":"\\ud800"}'}),
        (b"{broken", "application/json", {"text": "{broken"}),
        (b"null", "application/json", {"json": None}),
        (b"data: a\n\ndata: b\n\n", "text/event-stream", {"events": ["data: a\n\n", "data: b\n\n"]}),
        (b'{"a":1}\n{"a":2}\n', "application/x-ndjson", {"events": ['{"a":1}\n', '{"a":2}\n']}),
        (b"\x89PNG", "image/png", {"base64": "iVBORw=="}),
        ("text é".encode(), "text/plain", {"text": "text é"}),
    ],
)
def test_content_is_kept_in_the_most_readable_form_that_gives_it_back(
    content: bytes, media_type: str, stored: dict[str, Any]
) -> None:
    assert encode_content(content, media_type=media_type) == stored
    assert decode_content(_through_a_line(stored)) == content


@given(content=st.one_of(st.binary(max_size=60), st.text(max_size=40).map(str.encode)), media_type=media_types)
def test_any_bytes_come_back_as_they_were(content: bytes, media_type: str) -> None:
    assert decode_content(_through_a_line(encode_content(content, media_type=media_type))) == content


@given(value=any_json, random=st.randoms(use_true_random=False), media_type=media_types)
def test_json_in_any_spelling_comes_back_byte_for_byte(value: Any, random: Random, media_type: str) -> None:
    content = spelled(value, random)

    assert decode_content(_through_a_line(encode_content(content, media_type=media_type))) == content


@given(value=any_json, style=st.sampled_from([{}, {"separators": (",", ":")}, {"indent": 2}, {"ensure_ascii": False}]))
def test_json_as_servers_write_it_comes_back_byte_for_byte(value: Any, style: dict[str, Any]) -> None:
    content = json.dumps(value, **style).encode("utf-8", "surrogatepass")

    assert decode_content(_through_a_line(encode_content(content, media_type="application/json"))) == content


@given(
    pieces=st.lists(
        st.sampled_from(["data: a", "data: é", "\n\n", "\r\n\r\n", "\r\r", "\n", "\r", "\u2028", ":", "\x0b"])
    )
)
def test_a_stream_in_pieces_joins_to_the_stream(pieces: list[str]) -> None:
    text = "".join(pieces)

    assert "".join(split_events(text)) == text
    for media_type in ("text/event-stream", "application/x-ndjson"):
        assert decode_content(encode_content(text.encode(), media_type=media_type)) == text.encode()


@pytest.mark.parametrize(
    ("text", "events"),
    [
        ("data: a\n\ndata: b\n\n", ["data: a\n\n", "data: b\n\n"]),
        ("data: a\r\n\r\ndata: b", ["data: a\r\n\r\n", "data: b"]),
        ("data: a\r\rdata: b\r\r", ["data: a\r\r", "data: b\r\r"]),
        ("", []),
    ],
)
def test_a_stream_is_split_after_blank_lines(text: str, events: list[str]) -> None:
    assert split_events(text) == events


@given(content=st.binary(max_size=30), lengths=st.lists(st.integers(0, 12), max_size=6).map(tuple))
def test_pieces_of_any_lengths_join_to_the_content(content: bytes, lengths: tuple[int, ...]) -> None:
    pieces = cut(content, lengths)

    assert b"".join(pieces) == content
    assert all(pieces)


def test_content_is_cut_at_the_lengths_given_and_the_rest_is_the_last_piece() -> None:
    assert cut(b"abcdef", (1, 2)) == [b"a", b"bc", b"def"]
    assert cut(b"abc", ()) == [b"abc"]
    assert cut(b"abc", (2, 9, 4)) == [b"ab", b"c"]


@pytest.mark.parametrize(
    "stored", [{"json": 1, "style": "unknown"}, {"base64": "!"}, {"events": 5}, {"text": None}, {"events": [1]}]
)
def test_what_was_never_stored_is_refused(stored: dict[str, Any]) -> None:
    with pytest.raises((ValueError, KeyError, TypeError, AttributeError)):
        decode_content(stored)
