"""The parts of a multipart body."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentreplay.multipart import split_multipart


def _headers(boundary: str) -> list[tuple[str, str]]:
    return [("Content-Type", f"multipart/form-data; boundary={boundary}")]


def _body(boundary: str, *parts: bytes) -> bytes:
    delimiter = b"--" + boundary.encode()
    return b"".join(delimiter + b"\r\n" + part + b"\r\n" for part in parts) + delimiter + b"--\r\n"


PART = (
    b'Content-Disposition: form-data; name="a"; filename="f.bin"\r\nContent-Type: image/png\r\n\r\n\x89\r\n\r\nPNG\r\n'
)


def test_a_part_has_its_headers_and_its_bytes() -> None:
    parts = split_multipart(_body("b", PART, b"\r\nno headers"), _headers("b"))

    assert parts == [
        ({"content-disposition": 'form-data; name="a"; filename="f.bin"', "content-type": "image/png"}, PART[87:]),
        ({}, b"no headers"),
    ]


@pytest.mark.parametrize("declared", ["b c", '"b c"', '"b c"; charset=utf-8', "'b"])
def test_a_boundary_is_read_as_declared(declared: str) -> None:
    boundary = declared.partition(";")[0].strip('"') if declared.startswith('"') else declared.split(" ")[0]

    assert split_multipart(_body(boundary, b"\r\nx"), _headers(declared)) == [({}, b"x")]


def test_what_stands_before_and_after_the_parts_is_no_part() -> None:
    body = b"preamble\r\n" + _body("b", b"\r\nx") + b"epilogue"

    assert split_multipart(body, _headers("b")) == [({}, b"x")]


def test_a_body_of_no_parts_has_none() -> None:
    assert split_multipart(b"--b--\r\n", _headers("b")) == []


@pytest.mark.parametrize(
    ("content", "headers"),
    [
        (_body("b", b"\r\nx"), []),
        (_body("b", b"\r\nx"), [("content-type", "multipart/form-data")]),
        (_body("b", b"\r\nx"), _headers("other")),
        (_body("b", b"\r\nx")[:-4], _headers("b")),
        (_body("b", b"no blank line"), _headers("b")),
        (b"", _headers("b")),
        (b"--b", _headers("b")),
    ],
)
def test_a_body_that_breaks_its_boundary_is_not_split(content: bytes, headers: list[tuple[str, str]]) -> None:
    assert split_multipart(content, headers) is None


@given(contents=st.lists(st.binary(max_size=40).filter(lambda data: b"--boundary" not in data), max_size=4))
def test_any_bytes_come_out_of_a_part_as_they_went_in(contents: list[bytes]) -> None:
    body = _body("boundary", *(b"X-Number: %d\r\n\r\n" % index + data for index, data in enumerate(contents)))

    parts = split_multipart(body, _headers("boundary"))

    assert parts == [({"x-number": str(index)}, data) for index, data in enumerate(contents)]


@given(content=st.binary(max_size=60), boundary=st.text(max_size=6))
def test_no_bytes_and_no_boundary_raise(content: bytes, boundary: str) -> None:
    parts = split_multipart(content, _headers(boundary))

    assert parts is None or all(isinstance(data, bytes) for _, data in parts)


def test_two_file_names_that_are_no_utf_8_stay_two() -> None:
    names = [
        split_multipart(_body("b", b'Content-Disposition: form-data; filename="%c"\r\n\r\nx' % byte), _headers("b"))
        for byte in (0xFE, 0xFF)
    ]

    assert names[0] != names[1]
