"""The log of a branch: events that are only ever added, numbered without gaps, each hashed with the one before it."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

from pytest_agentreplay.canonical import canonical_json, parse_json
from pytest_agentreplay.errors import InvalidInputError
from pytest_agentreplay.state.encoding import checksum, encode_json, is_text
from pytest_agentreplay.state.engine import Row
from pytest_agentreplay.state.line import Line, find_branch_row, read_in_view
from pytest_agentreplay.state.lineage import ENDLESS, Segment
from pytest_agentreplay.state.versions import AsOf, Version

__all__ = ["NO_EVENT", "ChainCheck", "Clock", "Event", "EventRow", "Events", "follows", "newest_event"]

Clock: TypeAlias = Callable[[], datetime.datetime]

NO_EVENT = bytes(32)  # what the first event of a store is hashed with
CHAIN_FORM = "e1:"
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)


class EventRow(NamedTuple):
    """An event as the file keeps it: ``payload`` is JSON, ``timestamp`` counts microseconds."""

    branch: int
    sequence: int
    version: int
    type: str
    payload: str
    timestamp: int
    hash: bytes
    sum: int

    @property
    def is_whole(self) -> bool:
        """Whether it is what was written."""
        return checksum(*self[:-1]) == self.sum


@dataclass(frozen=True, slots=True)
class Event:
    """One event.  ``timestamp`` says when it occurred; ``version`` is what reads take as ``as_of``."""

    sequence: int
    version: Version
    type: str
    payload: Any
    timestamp: datetime.datetime
    hash: str


@dataclass(frozen=True, slots=True)
class ChainCheck:
    """What a check of the log found: ``first_wrong`` is the sequence of the first event that is not what was added."""

    length: int
    first_wrong: int | None = None

    @property
    def is_valid(self) -> bool:
        """Whether every event is what was added, in its place."""
        return self.first_wrong is None

    def __bool__(self) -> bool:
        return self.is_valid


class Events:
    """The events that one branch sees: its own, and those of its past up to the fork."""

    def __init__(self, line: Line, *, clock: Clock) -> None:
        self._line = line
        self._clock = clock

    def append(self, type: str, payload: Any = None, *, timestamp: datetime.datetime | None = None) -> Event:  # noqa: A002
        """Add an event; ``timestamp``, with a time zone, says when it occurred where that was not now."""
        _check_type(type)
        _, text = encode_json(payload)
        occurred = _microseconds(timestamp or self._clock())
        with self._line.committing() as row:
            sequence, number = row.events, row.head + 1
            link = chain_hash(row.chain, sequence, number, type, text, occurred)
            fields = (self._line.branch, sequence, number, type, text, occurred, link)
            version = self._line.move(row, events=sequence + 1, chain=link)
            made = EventRow(*fields, sum=checksum(*fields))
            self._line.engine.run("add_event", *made)
        return _event(made, version)

    def get(self, sequence: int, *, as_of: AsOf = None) -> Event | None:
        """Return an event by its sequence, ``None`` where there is none."""
        position = self._position(as_of, "get", sequence)
        return next(iter(self._read(position, first=sequence, last=sequence + 1)), None)

    def range(self, start: int, stop: int, *, as_of: AsOf = None) -> list[Event]:
        """Return the events whose sequence is from ``start`` up to, without, ``stop``."""
        return self._read(self._position(as_of, "range", start, stop), first=start, last=stop)

    def count(self, type: str | None = None, *, as_of: AsOf = None) -> int:  # noqa: A002
        """Return how many events there are: of all types, or of one."""
        position = self._position(as_of, "count", *([] if type is None else [type]))
        with self._line.engine.snapshot():
            self._line.head()
            if type is None:
                return newest_event(self._line, position)[0] + 1
            parts = self._line.lineage.up_to(position)
            counts = [self._line.engine.one("count_events_of_type", part.branch, part.bound, type) for part in parts]
            return sum(count for [count] in filter(None, counts))

    def types(self, *, as_of: AsOf = None) -> list[str]:
        """Return the types of the events, sorted."""
        position = self._position(as_of, "types")
        with self._line.engine.snapshot():
            self._line.head()
            parts = self._line.lineage.up_to(position)
            rows = [self._line.engine.all("list_types", part.branch, part.bound) for part in parts]
            return sorted({found for [found] in chain.from_iterable(rows)})

    def verify_chain(self) -> ChainCheck:
        """Derive every hash again, and see that no event is missing, moved or changed."""
        with self._line.engine.snapshot():
            row = find_branch_row(self._line.engine, self._line.branch)
            self._line.head()
            position = self._line.pinned
            rows = [row for part in self._line.lineage.up_to(position)[::-1] for row in self._rows(part)]
        assert row is not None
        length, last = (row.events, row.chain) if position == ENDLESS else (len(rows), None)
        return _check_chain(rows, length=length, last=last)

    def _rows(self, part: Segment) -> Iterator[EventRow]:
        return map(EventRow._make, self._line.engine.all("list_events", part.branch, part.bound, 0, ENDLESS, -1))

    def _read(
        self, position: int, *, first: int = 0, last: int = ENDLESS, type_: str | None = None, limit: int | None = None
    ) -> list[Event]:
        engine, left = self._line.engine, -1 if limit is None else limit
        statement, further = ("list_events", ()) if type_ is None else ("list_events_of_type", (type_,))
        found: list[Event] = []
        with engine.snapshot():
            self._line.head()
            for part in reversed(self._line.lineage.up_to(position)):
                rows = engine.all(statement, part.branch, part.bound, max(first, 0), last, left, *further)
                found += self._checked(rows)
                left = left if limit is None else limit - len(found)
        return found

    def _checked(self, rows: Iterable[Row]) -> Iterator[Event]:
        for row in map(EventRow._make, rows):
            if not row.is_whole:
                raise self._line.engine.damaged(f"event {row.sequence!r} has changed")
            yield _event(row, self._line.version(row.version, branch=row.branch))

    def _position(self, as_of: AsOf, method: str, *arguments: object) -> int:
        def right(branch: str, number: int) -> str:
            return read_in_view(branch, "events", method, *arguments, as_of=number)

        return self._line.position(as_of, right=right)

    def list(self, type: str | None = None, *, limit: int | None = None, as_of: AsOf = None) -> list[Event]:  # noqa: A002
        """Return the events, oldest first: all, or those of a type."""
        return self._read(self._position(as_of, "list", *([] if type is None else [type])), type_=type, limit=limit)


def newest_event(line: Line, position: int) -> tuple[int, bytes]:
    """Return sequence and hash of the newest event up to a position, or those of no event at all."""
    for part in line.lineage.up_to(position):
        row = line.engine.one("find_newest_event", part.branch, part.bound)
        if row is not None:
            sequence, link = row
            return sequence, link
    return -1, NO_EVENT


def chain_hash(before: bytes, sequence: int, version: int, type: str, payload: str, timestamp: int) -> bytes:  # noqa: A002
    """Return the hash of an event in form ``e1:``: of its fields, and of the event before it."""
    fields = [before.hex(), sequence, version, type, timestamp, parse_json(payload.encode("utf-8"))]
    return sha256(CHAIN_FORM.encode() + canonical_json(fields)).digest()


def follows(before: bytes, row: EventRow) -> bool:
    """Return whether the hash of an event is that of its fields and of the event before it."""
    return chain_hash(before, row.sequence, row.version, row.type, row.payload, row.timestamp) == row.hash


def _check_chain(rows: list[EventRow], *, length: int, last: bytes | None) -> ChainCheck:
    before = NO_EVENT
    for expected, row in enumerate(rows):
        if row.sequence != expected or not row.is_whole or not follows(before, row):
            return ChainCheck(length, first_wrong=expected)
        before = row.hash
    if len(rows) != length or (last is not None and before != last):
        return ChainCheck(length, first_wrong=len(rows))
    return ChainCheck(length)


def _event(row: EventRow, version: Version) -> Event:
    payload = parse_json(row.payload.encode("utf-8"))
    occurred = _EPOCH + row.timestamp * _MICROSECOND
    return Event(row.sequence, version, row.type, payload, occurred, CHAIN_FORM + row.hash.hex())


def _check_type(name: object) -> None:
    if not isinstance(name, str) or not name or not is_text(name):
        raise InvalidInputError(f"the event type {name!r} is not kept; a type is a string, not empty")


def _microseconds(moment: datetime.datetime) -> int:
    if moment.tzinfo is None:
        raise InvalidInputError(f"the timestamp {moment!r} has no time zone; give one, datetime.UTC for example")
    return (moment - _EPOCH) // _MICROSECOND
