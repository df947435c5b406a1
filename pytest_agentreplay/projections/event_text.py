"""The text of an event stream, as it stands in a golden: YAML that a person likes to read, and back.

Multi-line text stands as literal blocks, nothing is folded or cut, and two streams have the same text only where they
are the same.
"""

from __future__ import annotations

import re
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
# What a literal block gives back as it was; YAML keeps the other line ends and unprintable letters in quotes alone, and
# line ends at the end of a block would run into those between events.
_IN_A_BLOCK = re.compile(
    "(?s)(?!.*\n\n\\Z)[\t\n\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]*"
)


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
    return HEADER + "\n".join(_written(event) for event in events)


def parse_events(text: str) -> list[Any]:
    """Return the events of a text that :func:`write_events` has written.  Raises ``ValueError`` for any other."""
    try:
        events = _plain(yaml.load(text, Loader=yaml.SafeLoader))  # the one in C refuses lone surrogates
    except _UNREADABLE as error:
        raise ValueError(f"these are no events: {error}") from error
    if not isinstance(events, list | None):
        raise ValueError("these are no events: not a list")  # noqa: TRY004 - a file can be wrong, not the caller
    return events or []


def _is_block(text: str) -> bool:
    return "\n" in text.strip("\n") and _IN_A_BLOCK.fullmatch(text) is not None


def _written(event: Any) -> str:
    return yaml.dump(
        [_plain(event)], Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=_NO_LIMIT, default_flow_style=False
    )


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
