"""Secrets in server-sent streams, also where one is split over the same field of successive events."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pytest_agentreplay.canonical import parse_json, write_json

__all__ = ["Span", "redact_event_stream"]

Span = tuple[int, int, str]  # where a secret begins and ends, and the token for it

_DATA_LINE = re.compile(r"^(data:[ ]?)(.*?)(\r?)$", re.MULTILINE)
_Path = tuple[str | int, ...]
_Place = tuple[int, _Path]  # which event, and where in it
_INDEX_NAMES = ("index", "output_index", "content_index", "summary_index")  # which of several texts a piece belongs to


def redact_event_stream(text: str, *, find_spans: Callable[[str], Iterable[Span]]) -> str:
    """Return a stream in which each secret is replaced by its token.

    ``find_spans`` finds secrets in the text that a field's pieces make together.  The token stands in the piece where
    the secret begins; its other pieces lose their part of it.
    """
    events = list(_DATA_LINE.finditer(text))
    values = [_parse_or_none(event.group(2)) for event in events]
    tracks: dict[_Path, list[tuple[_Place, str]]] = {}
    for position, value in enumerate(values):
        for path, leaf in string_leaves(value):
            if path:
                tracks.setdefault(_track(value, path), []).append(((position, path), leaf))
    changed: set[int] = set()
    for leaves in tracks.values():
        for (position, path), leaf in _redacted_pieces(leaves, find_spans):
            _set_leaf(values[position], path, leaf)
            changed.add(position)
    return _rewrite(text, events=events, values=values, changed=changed)


def string_leaves(value: Any, path: _Path = ()) -> Iterable[tuple[_Path, str]]:
    """Yield the strings in a JSON value with their paths."""
    pending = [(path, value)]  # a stack of its own, because a value may be deeper than the caller's has room for
    while pending:
        path, value = pending.pop()
        if isinstance(value, str):
            yield path, value
        items: Iterable[tuple[str | int, Any]] = ()
        if isinstance(value, dict):
            items = value.items()
        elif isinstance(value, list):
            items = enumerate(value)
        pending += reversed([((*path, key), element) for key, element in items])


def _track(value: Any, path: _Path) -> _Path:
    """Return what the pieces of one text have in common: the path, where objects that carry an index go by that."""
    track = _indices_in(value)
    for step in path:
        value = value[step]
        found = _indices_in(value)
        track += (found or [step]) if isinstance(step, int) else [step, *found]
    return tuple(track)


def _indices_in(value: Any) -> list[str | int]:
    indices = [value.get(name) for name in _INDEX_NAMES] if isinstance(value, dict) else []
    return [f"#{index}" for index in indices if isinstance(index, int)]


def _redacted_pieces(
    leaves: Sequence[tuple[_Place, str]], find_spans: Callable[[str], Iterable[Span]]
) -> Iterable[tuple[_Place, str]]:
    joined = "".join(leaf for _, leaf in leaves)
    spans = sorted(find_spans(joined))
    start = 0
    for position, leaf in leaves if spans else ():
        end = start + len(leaf)
        kept = _without_spans(joined, spans=spans, start=start, end=end)
        if kept != leaf:
            yield position, kept
        start = end


def _parse_or_none(text: str) -> Any:
    try:
        return parse_json(text.encode("utf-8"))
    except ValueError:
        return None


def _set_leaf(value: Any, path: tuple[str | int, ...], leaf: str) -> None:
    for key in path[:-1]:
        value = value[key]
    value[path[-1]] = leaf


def _without_spans(text: str, *, spans: Sequence[Span], start: int, end: int) -> str:
    """Return ``text[start:end]`` without the spans; a span's token stands where the span begins."""
    out = []
    at = start
    for first, last, token in spans:
        if last <= at or first >= end:
            continue
        out.append(text[at : max(first, at)])
        if first >= start:
            out.append(token)
        at = min(last, end)
    out.append(text[at:end])
    return "".join(out)


def _rewrite(text: str, *, events: Sequence[re.Match[str]], values: Sequence[Any], changed: set[int]) -> str:
    out = []
    at = 0
    for position in sorted(changed):
        event = events[position]
        out += [text[at : event.start(2)], write_json(values[position]).decode("utf-8")]
        at = event.end(2)
    return "".join([*out, text[at:]])
