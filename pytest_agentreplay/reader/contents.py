"""The bytes of requests and answers: what encodes them, what they may be, and where they were cut."""

from __future__ import annotations

from collections.abc import Iterable

from pytest_agentreplay.encodings import decode_pieces, encoding_of
from pytest_agentreplay.records import Response

__all__ = ["decode_content", "may_be_json", "moved_cuts"]


def may_be_json(media_type: str, content: bytes) -> bool:
    """Return whether a body is to be tried as JSON: by its media type, else by its first character."""
    if media_type.endswith("json"):
        return True
    if media_type.startswith(("multipart/", "application/x-www-form-urlencoded", "application/x-ndjson")):
        return False
    return content.lstrip()[:1] in (b"{", b"[")


def decode_content(content: bytes, headers: Iterable[tuple[str, str]]) -> bytes:
    """Undo the content encoding of a request; what cannot be undone is hashed as it is."""
    encoding = encoding_of(headers)
    pieces = decode_pieces([content], encoding) if encoding else None
    return content if pieces is None else pieces[0]


def moved_cuts(response: Response, content: bytes) -> tuple[int, ...]:
    """Return cuts for redacted content: each at the same event, or as far from the start, as it was."""
    places: list[int] = []
    seen = 0
    for length in response.cuts[:-1]:
        seen += length
        events = response.content[:seen].count(b"\n\n")
        at = _end_of_event(content, events) if response.content[:seen].endswith(b"\n\n") else min(seen, len(content))
        places.append(max(at, places[-1] if places else 0))
    ends = [*places, len(content)]
    return tuple(end - start for start, end in zip([0, *ends[:-1]], ends, strict=True) if end > start)


def _end_of_event(content: bytes, count: int) -> int:
    at = 0
    for _ in range(count):
        found = content.find(b"\n\n", at)
        if found < 0:  # the event ended inside what was replaced
            return len(content)
        at = found + 2
    return at
