"""Content encodings undone piece by piece: gzip, deflate, br and zstd.

What comes out of a piece is what could be known when it came in, so the cuts of a compressed stream stay where they
were.  br and zstd need a library; where none is installed, and where bytes are not what their header says, nothing is
decoded and the caller keeps what it has.
"""

from __future__ import annotations

import importlib
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

__all__ = ["decode_pieces", "encoding_of"]

Decode: TypeAlias = Callable[[bytes], bytes]

_DEFLATE_METHOD = 8


def decode_pieces(pieces: Sequence[bytes], encoding: str) -> list[bytes] | None:
    """Return the pieces with their content encoding undone, as far as they go; ``None`` where that cannot be done."""
    decoders = [_decoder_of(name.strip().lower()) for name in reversed(encoding.split(",")) if name.strip()]
    decoded: list[bytes] = []
    try:
        for piece in pieces:
            for decode in decoders:
                if decode is None:
                    return None
                piece = decode(piece)
            decoded.append(piece)
    except Exception as error:  # each library has errors of its own
        if isinstance(error, MemoryError | RecursionError):
            raise
        return None
    return decoded


def encoding_of(headers: Iterable[tuple[str, str]]) -> str:
    """Return the content encoding that headers name, empty where they name none."""
    return ",".join(value for name, value in headers if name.lower() == "content-encoding")


class _Gzip:
    """Any number of gzip members, one after the other."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(16 + zlib.MAX_WBITS)

    def __call__(self, piece: bytes) -> bytes:
        out = b""
        while piece:
            if self._member.eof:
                self._member = zlib.decompressobj(16 + zlib.MAX_WBITS)
            out += self._member.decompress(piece)
            piece = self._member.unused_data.lstrip(b"\0")
        return out


class _Deflate:
    """A zlib stream, or what many servers send under that name: a bare deflate stream."""

    def __init__(self) -> None:
        self._stream: Any = None

    def __call__(self, piece: bytes) -> bytes:
        if self._stream is None and piece:
            is_wrapped = piece[0] & 0x0F == _DEFLATE_METHOD
            self._stream = zlib.decompressobj(zlib.MAX_WBITS if is_wrapped else -zlib.MAX_WBITS)
        return bytes(self._stream.decompress(piece)) if piece else b""


def _brotli() -> Decode | None:
    library = _first_of("brotli", "brotlicffi")
    if library is None:
        return None
    stream = library.Decompressor()
    decode: Decode = getattr(stream, "process", None) or stream.decompress
    return decode


def _zstd() -> Decode | None:
    standard = _first_of("compression.zstd", "backports.zstd")
    if standard is not None:
        stream = standard.ZstdDecompressor()
        return lambda piece: stream.decompress(piece) if piece else b""
    library = _first_of("zstandard")
    return None if library is None else library.ZstdDecompressor().decompressobj(read_across_frames=True).decompress


def _first_of(*names: str) -> Any:
    for name in names:
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    return None


def _decoder_of(name: str) -> Decode | None:
    make = _DECODERS.get(name)
    return make() if make is not None else None


_DECODERS: Mapping[str, Callable[[], Decode | None]] = {
    "gzip": _Gzip,
    "x-gzip": _Gzip,
    "deflate": _Deflate,
    "br": _brotli,
    "zstd": _zstd,
    "identity": lambda: bytes,
}
