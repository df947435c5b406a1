"""Where a stream ends: told from its chunks as they come, wherever they are cut."""

from __future__ import annotations

import re

__all__ = ["StreamEnd"]

_GAPS = (b"\n\n", b"\r\n\r\n")


class StreamEnd:
    """Watches one stream for the event that a dialect says is its last.

    Only the event that is coming in is kept: an event may be as long as the whole answer, and may come in small pieces.
    """

    def __init__(self, pattern: re.Pattern[bytes]) -> None:
        self._pattern = pattern
        self._pieces: list[bytes] = []

    def is_in(self, chunk: bytes) -> bool:
        """Return whether the stream has ended with this chunk."""
        self._pieces.append(chunk)
        if not chunk.endswith(b"\n"):
            return False
        event = _last_event(b"".join(self._pieces))
        self._pieces = [event]
        return event.endswith(_GAPS) and self._pattern.search(event) is not None


def _last_event(text: bytes) -> bytes:
    """Return the last event of a stream, with the empty line after it if that is there."""
    length = len(text.rstrip(b"\r\n"))
    starts = [at + len(gap) for gap in _GAPS if (at := text.rfind(gap, 0, length)) >= 0]
    return text[max(starts, default=0) :]
