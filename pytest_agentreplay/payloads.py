"""The bytes of an answer as values that a person can read in a diff, and back, byte for byte.

A JSON document is kept as JSON where writing it again in one of the common styles gives the same bytes; a server-sent
stream as the list of its events; other text as text; the rest as base64.  :func:`encode_content` tries these in turn
and keeps the first that :func:`decode_content` turns back into the same bytes, so nothing depends on guessing right.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import orjson

from pytest_agentreplay.canonical import parse_json

__all__ = ["cut", "decode_content", "encode_content", "split_events"]

_EVENT_END = re.compile(r"(?<=\n\n)|(?<=\r\n\r\n)|(?<=\r\r)")
_EVENT_STREAM = ("text/event-stream",)
_LINE_STREAM = ("application/x-ndjson", "application/jsonl", "application/stream+json", "application/json-seq")


def _write_spaced(value: Any) -> bytes:
    return json.dumps(value).encode("ascii")


def _write_unicode_spaced(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8")


def _write_indented(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_INDENT_2)


def _write_ascii(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode("ascii")


_STYLES: Mapping[str, Callable[[Any], bytes]] = {
    "compact": orjson.dumps,
    "spaced": _write_spaced,
    "indented": _write_indented,
    "ascii": _write_ascii,
    "unicode": _write_unicode_spaced,
}


def encode_content(content: bytes, *, media_type: str = "") -> dict[str, Any]:
    """Return ``content`` as ``{}``, ``{"json", "style", "tail"}``, ``{"events"}``, ``{"text"}`` or ``{"base64"}``."""
    if not content:
        return {}
    if media_type.endswith("json") or not media_type:
        found = _encode_json(content)
        if found is not None:
            return found
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(content).decode("ascii")}
    if media_type in _EVENT_STREAM:
        return {"events": split_events(text)}
    if media_type in _LINE_STREAM:
        return {"events": text.splitlines(keepends=True)}
    return {"text": text}


def decode_content(stored: Mapping[str, Any]) -> bytes:
    """Return the bytes that :func:`encode_content` was given.

    Raises ``ValueError``, ``KeyError`` or ``TypeError`` for what it never returned.
    """
    if "json" in stored:
        write = _STYLES[stored.get("style", "compact")]
        return write(stored["json"]) + str(stored.get("tail", "")).encode("ascii")
    if "events" in stored:
        return "".join(stored["events"]).encode("utf-8")
    if "text" in stored:
        text: str = stored["text"]
        return text.encode("utf-8")
    if "base64" in stored:
        return base64.b64decode(stored["base64"], validate=True)
    return b""


def split_events(text: str) -> list[str]:
    """Split the text of a server-sent stream after each blank line; joined, the pieces are the text."""
    return [piece for piece in _EVENT_END.split(text) if piece]


def cut(content: bytes, lengths: tuple[int, ...]) -> list[bytes]:
    """Cut ``content`` into pieces of the given lengths in bytes; what is left over is the last piece."""
    pieces = []
    start = 0
    for length in lengths:
        pieces.append(content[start : start + length])
        start += length
    if start < len(content):
        pieces.append(content[start:])
    return [piece for piece in pieces if piece]


def _encode_json(content: bytes) -> dict[str, Any] | None:
    document = content.rstrip(b" \r\n\t")
    try:
        value = parse_json(document)
        value = parse_json(orjson.dumps(value))  # what a line of the file will give back
    except (ValueError, TypeError):
        return None
    tail = content[len(document) :].decode("ascii")
    for style, write in _STYLES.items():
        if write(value) == document:
            kept: dict[str, Any] = {"json": value}
            return kept | ({"style": style} if style != "compact" else {}) | ({"tail": tail} if tail else {})
    return None
