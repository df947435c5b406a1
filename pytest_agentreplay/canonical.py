"""One form of JSON, and the hashes made of it.

Two values that mean the same to a JSON reader have the same canonical bytes, and two that do not, do not.  The
form is RFC 8785 (keys ordered by UTF-16 code units, shortest numbers, no white space, arrays keep their order) with
extensions that never raise: an integer that no double can hold keeps its digits and gets the suffix ``n``; ``NaN``,
``Infinity`` and ``-Infinity`` are written bare; a lone surrogate is written as its escape.  None of these can be
mistaken for something else, because canonical JSON never writes them otherwise.

Hashes name their form: ``c1:`` is the content hash of one value, ``a1:`` the hash of a request (see
:func:`request_hash`).  The parser is orjson, measured against msgspec and the standard library by
``benchmarks/canonical.py``; documents that a fast parser would round or refuse take the standard library's exact path.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from hashlib import sha256
from typing import Any

import orjson

__all__ = [
    "CONTENT_FORM",
    "REQUEST_FORM",
    "canonical_json",
    "content_hash",
    "format_number",
    "hash_canonical",
    "hash_list",
    "json_tree",
    "parse_document",
    "parse_json",
    "read_canonical",
    "request_hash",
    "sort_key",
    "tool_call_hash",
    "write_json",
    "write_sorted",
]

CONTENT_FORM = "c1:"
REQUEST_FORM = "a1:"

_SORTED = orjson.OPT_SORT_KEYS
_DIGITS_ONLY = bytes(ord("0") if chr(byte) in "0123456789" else ord(" ") for byte in range(256))
_TWO_DIGITS = b"0" * 2
_FOUR_DIGITS = b"0" * 4
_SIXTEEN_DIGITS = b"0" * 16
# Numbers that orjson writes differently from RFC 8785: floats, and those of 16 digits and more.
_CAREFUL_NUMBER = re.compile(rb"-?(?:\d+[.eE]|\d{16})")
_CAREFUL_NUMBER_INSIDE = re.compile(rb"[:,\[]-?(?:\d+[.eE]|\d{16})")
# What shows in one pass over a document that it holds no number at all: each stands after one of these signs.
_SIGNS_AND_DIGITS = bytes.maketrans(b",[123456789", b"::000000000")
_BEYOND_BASIC_PLANE = re.compile(rb"[\xf0-\xf4]")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_JSON_STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_BRACKET = re.compile(r"[\[\]{}]")
_DEEPEST = 400
_EXACT_LIMIT = 2**53
_SIMPLE = frozenset({str, int, bool, type(None)})


def parse_json(data: bytes) -> Any:
    """Return the value of a JSON document, exactly.

    Integers of any size keep every digit, ``NaN``, infinities and lone surrogates are accepted, and of duplicate
    keys the last wins.  Raises ``ValueError`` when ``data`` is not JSON in UTF-8, or nests deeper than any provider
    does.
    """
    return parse_document(data)[0]


def parse_document(data: bytes) -> tuple[Any, bool]:
    """Return what :func:`parse_json` does, and whether a fast writer would write the value faithfully."""
    if len(data) < 16 or not _has_long_number(data):
        try:
            return orjson.loads(data), True
        except orjson.JSONDecodeError:
            pass
    return _parse_exactly(data.decode("utf-8")), False


def _has_long_number(data: bytes) -> bool:
    """Return whether a number in a JSON document has 16 digits in a row."""
    # Of 16 digits in a row every eighth byte holds two, and every fourth four: most documents are done with after an
    # eighth of the work.
    if _TWO_DIGITS not in data[::8].translate(_DIGITS_ONLY) or _FOUR_DIGITS not in data[::4].translate(_DIGITS_ONLY):
        return False
    digits = data.translate(_DIGITS_ONLY)
    at = digits.find(_SIXTEEN_DIGITS)
    while at >= 0:
        if _may_be_number(data, at):
            return True
        at = digits.find(_SIXTEEN_DIGITS, digits.find(b" ", at))
    return False


def _may_be_number(data: bytes, at: int) -> bool:
    """Return whether the digits at a place can belong to a number: one stands after a bracket, a comma or a colon."""
    while at and data[at - 1] in b"+-.0123456789Ee":
        at -= 1
    while at and data[at - 1] in b" \t\r\n":
        at -= 1
    return not at or data[at - 1] in b"[,:"


def _parse_exactly(text: str) -> Any:
    if _depth_of(text) > _DEEPEST:
        raise ValueError(f"the document nests deeper than {_DEEPEST} levels")
    try:
        return json.loads(text)
    except RecursionError:  # the caller's stack is deep already: whether a document parses must not depend on it
        with ThreadPoolExecutor(max_workers=1) as fresh_stack:
            return fresh_stack.submit(json.loads, text).result()


def _depth_of(text: str) -> int:
    outside_strings = _JSON_STRING.sub("", text)
    depth = deepest = 0
    for bracket in _BRACKET.findall(outside_strings):
        depth += 1 if bracket in "[{" else -1
        deepest = max(deepest, depth)
    return deepest


def canonical_json(value: Any) -> bytes:
    """Return the canonical bytes of a JSON value (``dict``, ``list``, ``str``, numbers, ``bool``, ``None``).

    Raises ``TypeError`` for anything else.
    """
    try:
        data = orjson.dumps(value, option=_SORTED)
    except TypeError:  # what the fast writer refuses: big integers, lone surrogates, depth
        return _write(value, scalar=_format_scalar, keys=_sorted_keys)
    # The fast writer turns NaN and infinities into null, so a null takes the careful path as well.
    if b"null" in data or _has_careful_number(data) or _has_late_key(data):
        return _write(value, scalar=_format_scalar, keys=_sorted_keys)
    return data


def read_canonical(data: bytes) -> tuple[bytes, Any]:
    """Return the canonical bytes of a JSON document, and its value with keys in their order.

    Raises what :func:`parse_json` does.
    """
    value, is_plain = parse_document(data)
    ordered: Any
    if is_plain and _is_simple(value):  # as the arguments of most calls are
        ordered = dict(sorted(value.items()))
        return orjson.dumps(ordered), ordered
    canonical = canonical_json(value)
    try:
        ordered, is_plain = parse_document(canonical)
    except ValueError:  # integers that no double can hold have a suffix there
        ordered, is_plain = None, False
    return canonical, ordered if is_plain else parse_json(write_sorted(value))


def _is_simple(value: Any) -> bool:
    """Return whether the fast writer writes an object as it should, but for the order of its keys."""
    return type(value) is dict and _SIMPLE.issuperset(map(type, value.values())) and "".join(value).isascii()


def _has_careful_number(data: bytes) -> bool:
    """Return whether a compact document may hold a number that the fast writer writes differently."""
    if data[0] in b"-0123456789":
        return _CAREFUL_NUMBER.match(data) is not None
    return b":0" in data.translate(_SIGNS_AND_DIGITS, b"-") and _CAREFUL_NUMBER_INSIDE.search(data) is not None


def _has_late_key(data: bytes) -> bool:
    """Return whether a key may hold a character beyond the basic plane, which the fast writer orders too late."""
    if data.isascii() or not _BEYOND_BASIC_PLANE.search(data):
        return False
    for piece in data.split(b'":'):  # each key stands at the end of a piece, after its last quotation mark
        start = piece.rfind(b'"')
        if piece[start - 1 : start] == b"\\" or _BEYOND_BASIC_PLANE.search(piece, start):
            return True
    return False


def write_json(value: Any) -> bytes:
    """Return compact JSON from which :func:`parse_json` reads the same value, keys in their order."""
    try:
        data = orjson.dumps(value)
    except TypeError:  # big integers, lone surrogates, depth
        return _write(value, scalar=json.dumps, keys=list)
    if b"null" in data and not _says(data, value):  # NaN, infinities
        return _write(value, scalar=json.dumps, keys=list)
    return data


def _says(data: bytes, value: Any) -> bool:
    """Return whether a document holds a value, as far as the caller's stack lets one see it."""
    try:
        return bool(orjson.loads(data) == value)
    except RecursionError:
        return False


def write_sorted(value: Any) -> bytes:
    """Return JSON from which :func:`parse_json` reads the same value, keys in the order of canonical JSON.

    Canonical JSON itself says what a number is, and not always in the digits that it has.
    """
    return _write(value, scalar=json.dumps, keys=_sorted_keys)


def content_hash(value: Any) -> str:
    """Return ``c1:`` and the SHA-256 hex digest of the canonical JSON of one value."""
    return hash_canonical(canonical_json(value))


def hash_canonical(data: bytes) -> str:
    """Return ``c1:`` and the SHA-256 hex digest of bytes that are canonical already."""
    return CONTENT_FORM + sha256(data).hexdigest()


def request_hash(body: bytes, *, head: bytes) -> str:
    """Return ``a1:`` and the SHA-256 of the canonical JSON of ``{method, url, headers, body}``.

    ``head`` is the canonical JSON of the first three; ``body`` that of the body, tagged by its kind, such as
    ``{"json": …}`` around a :func:`json_tree`.
    """
    return REQUEST_FORM + sha256(b'{"body":' + body + b"," + head[1:]).hexdigest()


def tool_call_hash(name: str, arguments: bytes) -> str:
    """Return ``a1:`` and the SHA-256 of the canonical JSON of ``{tool, arguments}``; ``arguments`` are canonical."""
    return REQUEST_FORM + sha256(b'{"arguments":' + arguments + b',"tool":' + _key_bytes(name) + b"}").hexdigest()


def json_tree(fields: Mapping[str, bytes], lists: Mapping[str, Sequence[str]]) -> bytes:
    """Return the canonical JSON of an object whose arrays are known by the content hashes of their elements.

    ``fields`` maps the other keys to the canonical JSON of their values.  The elements are not looked at, so the cost
    is that of their number, however large they are.
    """
    parts = {**fields, **{key: hash_list(hashes) for key, hashes in lists.items()}}
    keys = sorted(parts) if all(map(str.isascii, parts)) else sorted(parts, key=sort_key)
    return b"{" + b",".join([_key_bytes(key) + b":" + parts[key] for key in keys]) + b"}"


def hash_list(hashes: Sequence[str]) -> bytes:
    """Return the canonical JSON of an array of content hashes."""
    return ('["' + '","'.join(hashes) + '"]').encode("ascii") if hashes else b"[]"


def sort_key(key: str) -> bytes:
    """Return what RFC 8785 orders object keys by: the UTF-16 code units."""
    return key.encode("utf-16-be", "surrogatepass")


@cache
def _key_bytes(key: str) -> bytes:
    return canonical_json(key)


class _Verbatim(str):
    """Text that goes into the output as it is, among values still to be written."""

    __slots__ = ()


_COMMA, _COLON = _Verbatim(","), _Verbatim(":")
_END_LIST, _END_DICT = _Verbatim("]"), _Verbatim("}")


def _write(value: Any, *, scalar: Callable[[Any], str], keys: Callable[[Mapping[str, Any]], list[str]]) -> bytes:
    # An explicit stack, so that the result never depends on how deep the caller's own stack is.
    out: list[str] = []
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, _Verbatim):
            out.append(item)
        elif isinstance(item, dict):
            out.append("{")
            pending.extend(_dict_items(item, keys(item)))
        elif isinstance(item, list | tuple):
            out.append("[")
            pending.extend(_list_items(item))
        else:
            out.append(scalar(item))
    return "".join(out).encode("utf-8")


def _sorted_keys(value: Mapping[str, Any]) -> list[str]:
    return sorted(value, key=sort_key)


def _dict_items(value: dict[str, Any], keys: Sequence[str]) -> list[Any]:
    """Return what is still to be written of an object, last first."""
    items: list[Any] = [_END_DICT]
    for key in reversed(keys):
        items += (value[key], _COLON, key, _COMMA)
    return items[:-1] if value else items


def _list_items(value: Sequence[Any]) -> list[Any]:
    """Return what is still to be written of an array, last first."""
    items: list[Any] = [_END_LIST]
    for element in reversed(value):
        items += (element, _COMMA)
    return items[:-1] if value else items


def _format_scalar(value: Any) -> str:
    if isinstance(value, str):
        return _format_string(value)
    if value is None or isinstance(value, bool):
        return "null" if value is None else "true" if value else "false"
    if isinstance(value, int | float):
        return format_number(value)
    raise TypeError(f"{type(value).__name__} is not a JSON value: {value!r}")


def _format_string(text: str) -> str:
    if _LONE_SURROGATE.search(text):
        pieces = _LONE_SURROGATE.split(text)
        escapes = [f"\\u{ord(found):04x}" for found in _LONE_SURROGATE.findall(text)]
        inner = pieces[0] and _format_string(pieces[0])[1:-1]
        for escape, piece in zip(escapes, pieces[1:], strict=True):
            inner += escape + (_format_string(piece)[1:-1] if piece else "")
        return f'"{inner}"'
    return orjson.dumps(text).decode("utf-8")


def format_number(value: int | float) -> str:
    """Return a number as RFC 8785 writes it (ECMAScript's shortest form), or in this module's exact extension."""
    if isinstance(value, float):
        if not math.isfinite(value):
            return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
        return _format_double(value) if abs(value) > _EXACT_LIMIT or not value.is_integer() else str(int(value))
    if abs(value) > _EXACT_LIMIT:
        return _format_double(float(value)) if _is_a_double(value) else f"{value}n"
    return str(value)


def _is_a_double(value: int) -> bool:
    try:
        return int(float(value)) == value
    except OverflowError:
        return False


def _format_double(value: float) -> str:
    # repr gives the shortest digits that read back as the same double; only the layout differs from ECMAScript's.
    mantissa, _, exponent = repr(abs(value)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    fraction = "" if fraction == "0" else fraction
    point = len(whole) + int(exponent or 0)
    digits = (whole + fraction).lstrip("0")
    point -= len(whole + fraction) - len(digits)
    digits = digits.rstrip("0")
    sign = "-" if value < 0 else ""
    count = len(digits)
    if count <= point <= 21:
        return sign + digits + "0" * (point - count)
    if 0 < point <= 21:
        return f"{sign}{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    tail = f".{digits[1:]}" if count > 1 else ""
    return f"{sign}{digits[0]}{tail}e{'+' if point > 0 else '-'}{abs(point - 1)}"
