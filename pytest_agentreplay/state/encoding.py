"""Values as a row keeps them, and the sum that shows whether a row is still what was written."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Any, TypeAlias

import orjson

from pytest_agentreplay.canonical import parse_json, write_json
from pytest_agentreplay.errors import InvalidInputError

__all__ = ["DELETED", "JSON", "Stored", "checksum", "decode", "encode", "encode_json", "is_text"]

Stored: TypeAlias = str | bytes | None

JSON = "json"
DELETED = "deleted"
_TEXT = "text"
_EXACT_JSON = "exact-json"  # what a fast parser would round or refuse
_BYTES = "bytes"
_ODD_TEXT = "odd-text"  # with lone surrogates, which SQLite does not keep
_SCALARS = (str, int, float, bool, type(None))


def encode(value: Any) -> tuple[str, Stored]:
    """Return the kind of a value and what is kept of it.  Raises :class:`InvalidInputError` for what is none."""
    if type(value) is str:
        return (_TEXT, value) if is_text(value) else (_ODD_TEXT, value.encode("utf-8", "surrogatepass"))
    if type(value) is bytes:
        return _BYTES, value
    return encode_json(value)


def encode_json(value: Any) -> tuple[str, str]:
    """Return the kind of a JSON value, and text from which the same value is read.

    Raises :class:`InvalidInputError` for what is no JSON.
    """
    try:
        data = orjson.dumps(value)
        if orjson.loads(data) == value:
            return JSON, data.decode("utf-8")
    except TypeError:
        pass
    # No JSON, or JSON that the fast writer does not write: NaN, big integers, lone surrogates, depth.
    _refuse_others(value)
    data = write_json(value)
    if repr(parse_json(data)) != repr(value):
        raise InvalidInputError(f"{value!r:.200} would not come back as it is")
    return _EXACT_JSON, data.decode("utf-8")


def decode(kind: str, stored: Stored) -> Any:
    """Return the value that :func:`encode` was given; a container is a new one each time."""
    if kind == JSON:
        return orjson.loads(str(stored))
    if kind == _EXACT_JSON:
        return parse_json(str(stored).encode("utf-8"))
    if kind == _ODD_TEXT:
        return bytes(stored).decode("utf-8", "surrogatepass")  # type: ignore[arg-type]
    return None if kind == DELETED else stored


def checksum(*fields: object) -> int:
    """Return the CRC-32 of a row's fields, their types included; the last may be long."""
    *heads, last = fields
    head = repr(heads).encode("utf-8", "surrogatepass")
    if isinstance(last, str):
        return zlib.crc32(last.encode("utf-8", "surrogatepass"), zlib.crc32(b"s" + head))
    if isinstance(last, bytes):
        return zlib.crc32(last, zlib.crc32(b"b" + head))
    return zlib.crc32(repr(last).encode(), zlib.crc32(b"o" + head))


def is_text(value: str) -> bool:
    """Return whether text has a UTF-8 form."""
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _refuse_others(value: Any) -> None:
    """Raise for the first part of a value that is no JSON."""
    pending: list[tuple[str, Any, int]] = [("$", value, 0)]
    while pending:
        path, part, depth = pending.pop()
        if depth > _DEEPEST:
            raise InvalidInputError(f"the value nests deeper than {_DEEPEST} levels, or contains itself")
        if type(part) is dict:
            odd = next((key for key in part if type(key) is not str), None)
            if odd is not None:
                raise InvalidInputError(f"{path}: the key {odd!r} is a {type(odd).__name__}; JSON's keys are strings")
            pending += _inside(((f"{path}.{key}", item) for key, item in part.items()), depth)
        elif type(part) is list:
            pending += _inside(((f"{path}[{index}]", item) for index, item in enumerate(part)), depth)
        elif type(part) not in _SCALARS:
            kind = type(part).__name__
            raise InvalidInputError(
                f"{path}: a {kind} is not kept; give a str, bytes or JSON (dict, list, str, number, bool, None)"
            )


_DEEPEST = 400  # what canonical.parse_json reads


def _inside(parts: Iterable[tuple[str, Any]], depth: int) -> list[tuple[str, Any, int]]:
    return [(path, part, depth + 1) for path, part in parts]
