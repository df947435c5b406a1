from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pytest_agentreplay.taps.clients.wire import Dechunker


def chunked(pieces: list[bytes], *, extension: bytes = b"", trailer: bytes = b"") -> bytes:
    chunks = [b"%X%s\r\n%s\r\n" % (len(piece), extension, piece) for piece in pieces if piece]
    return b"".join(chunks) + b"0\r\n" + trailer + b"\r\n"


@given(
    pieces=st.lists(st.binary(max_size=40), max_size=6),
    extension=st.sampled_from([b"", b";name=value"]),
    trailer=st.sampled_from([b"", b"x-checksum: 1\r\n"]),
    step=st.integers(1, 50),
)
def test_a_chunked_body_cut_anywhere_is_taken_apart(
    pieces: list[bytes], extension: bytes, trailer: bytes, step: int
) -> None:
    wire = chunked(pieces, extension=extension, trailer=trailer)
    dechunker = Dechunker()

    content = b"".join(b"".join(dechunker.feed(wire[at : at + step])) for at in range(0, len(wire), step))

    assert content == b"".join(pieces)
    assert dechunker.is_done


def test_a_body_that_breaks_off_is_not_done() -> None:
    dechunker = Dechunker()

    content = b"".join(dechunker.feed(chunked([b"one", b"two"])[:-5]))

    assert content == b"onetwo"
    assert not dechunker.is_done


def test_what_is_no_chunked_body_ends_it() -> None:
    dechunker = Dechunker()

    assert list(dechunker.feed(b"not a length\r\nabc")) == []
    assert dechunker.is_done
