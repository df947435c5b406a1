from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Mapping

import brotli
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentreplay.encodings import decode_pieces, encoding_of

ENCODERS: Mapping[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": brotli.compress,
    "zstd": zstandard.ZstdCompressor().compress,
    "identity": bytes,
}


def cut(data: bytes, places: list[int]) -> list[bytes]:
    ends = sorted(place % (len(data) + 1) for place in places)
    return [data[start:end] for start, end in zip([0, *ends], [*ends, len(data)], strict=True)]


@pytest.mark.parametrize("encoding", ENCODERS)
@given(content=st.binary(max_size=300), places=st.lists(st.integers(0, 400), max_size=5))
def test_pieces_cut_anywhere_decode_to_the_content(encoding: str, content: bytes, places: list[int]) -> None:
    pieces = cut(ENCODERS[encoding](content), places)

    decoded = decode_pieces(pieces, encoding)

    assert decoded is not None
    assert len(decoded) == len(pieces)
    assert b"".join(decoded) == content


def test_several_encodings_are_undone_from_the_last() -> None:
    packed = brotli.compress(gzip.compress(b"text"))

    assert decode_pieces([packed], "gzip, br") == [b"text"]


def test_members_of_gzip_are_joined() -> None:
    packed = gzip.compress(b"one ") + gzip.compress(b"two")

    assert decode_pieces([packed[:25], packed[25:]], "GZIP") == [b"one ", b"two"]


def test_a_bare_deflate_stream_is_taken_as_one() -> None:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)

    assert decode_pieces([packer.compress(b"text") + packer.flush()], "deflate") == [b"text"]


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd", "unheard-of", "gzip, unheard-of"])
def test_bytes_that_are_not_what_their_header_says_are_not_decoded(encoding: str) -> None:
    assert decode_pieces([b"plain text, and not a little"], encoding) is None


def test_an_answer_that_broke_off_is_decoded_as_far_as_it_goes() -> None:
    packer = zlib.compressobj(wbits=31)
    packed = packer.compress(b"one ") + packer.flush(zlib.Z_SYNC_FLUSH)

    assert decode_pieces([packed], "gzip") == [b"one "]


def test_the_encoding_of_headers_is_named_once_or_in_a_list() -> None:
    headers = [("Content-Encoding", "gzip"), ("x", "y"), ("content-encoding", "br")]

    assert encoding_of(headers) == "gzip,br"
    assert encoding_of([]) == ""
