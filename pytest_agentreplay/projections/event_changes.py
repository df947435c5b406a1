"""What differs between two event streams, event by event: added, removed, or changed at a path.

Events are aligned by what they are before they are compared by what they say, and the names of calls, which shift when
one is put in, are compared with nothing: only what an agent did counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

from pytest_agentreplay.canonical import canonical_json
from pytest_agentreplay.divergence import ABSENT, Change, find_value_changes

__all__ = ["EventChange", "find_event_changes", "title_of"]

_LONGEST_TITLE = 70
_CALL = re.compile(r"call_\d+")
_NAMES_OF_CALLS = ("id", "call", "inside")


@dataclass(frozen=True)
class EventChange:
    """One event that differs: ``golden`` alone was removed, ``now`` alone added; with both, ``changes`` says where.

    What is not there is ``ABSENT``.
    """

    golden: Any
    now: Any
    changes: tuple[Change, ...] = ()

    @property
    def sign(self) -> str:
        """``-`` for a removed event, ``+`` for an added, ``~`` for a changed one."""
        return "+" if self.golden is ABSENT else "-" if self.now is ABSENT else "~"

    @property
    def title(self) -> str:
        """What the event is called."""
        return title_of(self.golden if self.now is ABSENT else self.now)


def find_event_changes(golden: Sequence[Any], now: Sequence[Any]) -> list[EventChange]:
    """Return what differs between two streams of plain events, in the order of the first."""
    old, new = ([_nameless(event) for event in events] for events in (golden, now))
    matcher = SequenceMatcher(a=[*map(canonical_json, old)], b=[*map(canonical_json, new)], autojunk=False)
    blocks = [(old[a:b], new[c:d]) for tag, a, b, c, d in matcher.get_opcodes() if tag != "equal"]
    return [change for block in blocks for change in _in_block(*block)]


def title_of(event: Any) -> str:
    """Return what an event is called in one line: its kind, and the name or the words that tell it from others."""
    if not isinstance(event, Mapping):
        return _short(repr(event))
    kind = str(event.get("event", "event"))
    calls = [str(call.get("name")) for call in event.get("calls") or () if isinstance(call, Mapping)]
    called = f"calls {', '.join(calls)}" if calls else ""
    said = event.get("name") or called or event.get("text") or event.get("decision") or event.get("message") or ""
    return _short(f"{kind} {said}".strip())


def _in_block(golden: Sequence[Any], now: Sequence[Any]) -> Iterator[EventChange]:
    """Yield the changes of a block of differing events: those of one kind and name stand for each other."""
    matcher = SequenceMatcher(a=[_kin(event) for event in golden], b=[_kin(event) for event in now], autojunk=False)
    for tag, a, b, c, d in matcher.get_opcodes():
        if tag == "equal":
            pairs = zip(golden[a:b], now[c:d], strict=True)
            yield from (EventChange(old, new, tuple(find_value_changes(old, new))) for old, new in pairs)
        else:
            yield from (EventChange(old, ABSENT) for old in golden[a:b])
            yield from (EventChange(ABSENT, new) for new in now[c:d])


def _kin(event: Any) -> tuple[str, str]:
    """Return what an event has in common with the one it may have become."""
    return (str(event.get("event")), str(event.get("name"))) if isinstance(event, Mapping) else ("", "")


def _nameless(event: Any) -> Any:
    """Return an event without the names of calls."""
    if not isinstance(event, Mapping):
        return event
    kept = {key: value for key, value in event.items() if key not in _NAMES_OF_CALLS or not _is_call(value)}
    if isinstance(kept.get("calls"), list):
        kept["calls"] = [_nameless(call) for call in kept["calls"]]
    return kept


def _is_call(value: Any) -> bool:
    return isinstance(value, str) and _CALL.fullmatch(value) is not None


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_TITLE else f"{line[: _LONGEST_TITLE - 1]}…"
