"""The text of an event stream, as it stands in a golden: YAML that a person likes to read, and back.

Multi-line text stands as literal blocks, nothing is folded or cut, and two streams have the same text only where they
are the same.
"""

from __future__ import annotations

import functools
import re
import string
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import yaml
from yaml.emitter import ScalarAnalysis

__all__ = ["parse_events", "write_events"]

HEADER = "# agent-events 1\n"
_NO_LIMIT = 2**31
# What PyYAML raises, also by mistake where a tag does not fit its value.
_UNREADABLE = (yaml.YAMLError, ValueError, LookupError, AttributeError, TypeError, RecursionError)
# What is text to YAML 1.1, which this is, and a number to YAML 1.2, which others read.
_NUMBER_ELSEWHERE = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|0o[0-7]+")
_LINE_END = re.compile("[\n\r\x85\u2028\u2029]")
# What a literal block gives back as it was; YAML keeps the other line ends and unprintable letters in quotes alone.
_IN_A_BLOCK = re.compile("[\t\n\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]*")


# What PyYAML writes without quotes where it begins with a letter, and in single quotes where it could be a comment or a
# key; what it reads as something else than text.
_PRINTED = re.compile("[\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]*")
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,60}", re.ASCII)
_WORDS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})
_LETTERS = frozenset(string.ascii_letters)
_SHORT = 40  # letters of what is likely to come up again: names, ids, units
_NESTED = frozenset({dict, list})
_PLAIN_TYPES = _NESTED | {str, int, float, bool, type(None)}


# In C, where PyYAML was built with it: several times as fast, but it refuses lone surrogates, however they are written.
_LONE_SURROGATE = re.compile(r"\\u[dD]")
_FastLoader: type[yaml.SafeLoader | yaml.CSafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _OddKeyError(Exception):
    """A key that does not stand for itself in YAML."""


class _Dumper(yaml.SafeDumper):
    """PyYAML's dumper, but for literal blocks wherever they give the text back, and lists set in under their key."""

    def analyze_scalar(self, scalar: str) -> ScalarAnalysis:
        analysis = super().analyze_scalar(scalar)
        if _is_block(scalar):
            analysis.allow_block = True
        return analysis

    def determine_block_hints(self, text: str) -> str:
        hints: str = super().determine_block_hints(text)
        return f"{self.best_indent}{hints}" if text.startswith("\t") else hints  # a tab would be taken for indentation

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002, FBT001, FBT002
        super().increase_indent(flow, indentless=False)


def _represent_text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=_style_of(text))


def _style_of(text: str) -> str | None:
    if _is_block(text):
        return "|"
    if _LINE_END.search(text):
        return '"'
    return "'" if _NUMBER_ELSEWHERE.fullmatch(text) else None


_Dumper.add_representer(str, _represent_text)


def write_events(events: Iterable[Any]) -> str:
    """Return the text of events, or of any plain values."""
    return HEADER + "\n".join(map(_written, events))


def parse_events(text: str) -> list[Any]:
    """Return the events of a text that :func:`write_events` has written.  Raises ``ValueError`` for any other."""
    try:
        events = _plain(yaml.load(text, Loader=yaml.SafeLoader if _LONE_SURROGATE.search(text) else _FastLoader))
    except _UNREADABLE as error:
        raise ValueError(f"these are no events: {error}") from error
    if not isinstance(events, list | None):
        raise ValueError("these are no events: not a list")  # noqa: TRY004 - a file can be wrong, not the caller
    return events or []


def _is_block(text: str) -> bool:
    """Return whether text stands as a block: several lines, the last one not empty, as that sets events apart."""
    return "\n" in text.strip("\n") and not text.endswith("\n\n") and _IN_A_BLOCK.fullmatch(text) is not None


def _written(event: Any) -> str:
    """Return one event as an element of the list.

    PyYAML's dumper, in Python, takes milliseconds for an event: what needs no thought is laid out here as it would, and
    each scalar that needs any is left to it, an event whose keys do whole.
    """
    lines: list[str] = []
    try:
        if isinstance(event, dict) and event:  # also where it is more than a dict, as events are
            _lay_out(event, first="- ", margin="  ", lines=lines)
        else:
            _lay_out([event], first="", margin="", lines=lines)
    except _OddKeyError:
        return _dumped([_plain(event)])
    return "".join(lines)


def _lay_out(value: Any, *, first: str, margin: str, lines: list[str]) -> None:
    """Add the lines of an object or array that holds something: behind ``first``, those after it behind ``margin``."""
    inner = margin + "  "
    is_object = isinstance(value, dict)
    for key, item in value.items() if is_object else enumerate(value):
        head = f"{first}{_simple(key)}:" if is_object else f"{first}-"
        first = margin
        if type(item) is str and "\n" not in item:
            lines.append(f"{head} {_text(item) if len(item) > _SHORT else _short_text(item)}\n")
            continue
        kept = item if type(item) in _PLAIN_TYPES else _plain(item)
        if kept and type(kept) in _NESTED:
            if is_object:
                lines.append(f"{head}\n")
            _lay_out(kept, first=inner if is_object else f"{head} ", margin=inner, lines=lines)
        elif type(kept) is str and _is_block(kept):
            lines.append(_block(head, kept, inner))
        else:
            lines.append(f"{head} {_scalar(kept)}\n")


def _block(head: str, text: str, margin: str) -> str:
    first = "2" if text.startswith((" ", "\n", "\t")) else ""  # a tab would be taken for indentation
    lines = [margin + line if line else "" for line in text.removesuffix("\n").split("\n")]
    return f"{head} |{first}{'' if text.endswith(chr(10)) else '-'}\n" + "\n".join(lines) + "\n"


def _scalar(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, dict | list):
        return "{}" if isinstance(value, dict) else "[]"
    return _text(value) if isinstance(value, str) else _dumped_alone(value)


def _text(text: str) -> str:
    if not (text.isprintable() if text.isascii() else _PRINTED.fullmatch(text)):
        return _dumped_text(text)
    if ": " in text or " #" in text:
        return "'" + text.replace("'", "''") + "'"
    is_plain = text[:1] in _LETTERS and not text.endswith((":", " ")) and text.lower() not in _WORDS
    return text if is_plain else _dumped_text(text)


@functools.lru_cache(maxsize=4096)
def _short_text(text: str) -> str:
    return _text(text)


@functools.lru_cache(maxsize=1024)
def _simple(key: object) -> str:
    """Return a key that stands for itself in YAML."""
    if type(key) is str and _PLAIN_KEY.fullmatch(key) and key.lower() not in _WORDS:
        return key
    raise _OddKeyError


@functools.lru_cache(maxsize=4096)
def _dumped_text(text: str) -> str:
    return _dumped_alone(text)


def _dumped_alone(scalar: Any) -> str:
    return _dumped([scalar]).removeprefix("- ").removesuffix("\n")


def _dumped(value: Any) -> str:
    text: str = yaml.dump(
        value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=_NO_LIMIT, default_flow_style=False
    )
    return text


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, str):
        return str.__str__(value)  # as it is, whatever a subclass, an enum say, is shown as
    if isinstance(value, int | float):
        return int(value) if isinstance(value, int) else float(value)
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return [_plain(item) for item in value]
    return repr(value)
