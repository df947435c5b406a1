"""The log of a branch: events that are only ever added, numbered without gaps, each hashed with the one before it."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, TypeAlias

from pytest_agentreplay.canonical import canonical_json, parse_json
from pytest_agentreplay.errors import InvalidInputError
from pytest_agentreplay.state.encoding import checksum, encode_json, is_text
from pytest_agentreplay.state.engine import Row
from pytest_agentreplay.state.line import Line, read_in_view
from pytest_agentreplay.state.lineage import ENDLESS
from pytest_agentreplay.state.versions import AsOf, Version

__all__ = ["NO_EVENT", "ChainCheck", "Clock", "Event", "Events"]

Clock: TypeAlias = Callable[[], datetime.datetime]

NO_EVENT = bytes(32)  # what the first event of a store is hashed with
CHAIN_FORM = "e1:"
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)


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
            self._line.engine.run("add_event", *fields, checksum(*fields))
        return _event(fields, version)

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
            return sum(
                self._line.engine.all("count_events_of_type", part.branch, part.bound, type)[0][0]
                for part in self._line.lineage.up_to(position)
            )

    def types(self, *, as_of: AsOf = None) -> list[str]:
        """Return the types of the events, sorted."""
        position = self._position(as_of, "types")
        with self._line.engine.snapshot():
            self._line.head()
            parts = self._line.lineage.up_to(position)
            return sorted({row[0] for part in parts for row in self._line.engine.all("list_types", *_ends(part))})

    def verify_chain(self) -> ChainCheck:
        """Derive every hash again, and see that no event is missing, moved or changed."""
        with self._line.engine.snapshot():
            row = self._line.engine.one("find_branch", self._line.branch)
            self._line.head()
            position = self._line.pinned
            rows = [row for part in self._line.lineage.up_to(position)[::-1] for row in self._rows(part)]
        assert row is not None
        length, last = (row[5], row[6]) if position == ENDLESS else (len(rows), None)
        return _check_chain(rows, length=length, last=last)

    def _rows(self, part: Any) -> list[Row]:
        return self._line.engine.all("list_events", part.branch, part.bound, 0, ENDLESS, -1)

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
        for *fields, total in rows:
            if checksum(*fields) != total:
                raise self._line.engine.damaged(f"event {fields[1]!r} has changed")
            yield _event(tuple(fields), self._line.version(fields[2], branch=fields[0]))

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
        row = line.engine.one("find_newest_event", *_ends(part))
        if row is not None:
            return row[0], row[1]
    return -1, NO_EVENT


def chain_hash(before: bytes, sequence: int, version: int, type: str, payload: str, timestamp: int) -> bytes:  # noqa: A002
    """Return the hash of an event in form ``e1:``: of its fields, and of the event before it."""
    fields = [before.hex(), sequence, version, type, timestamp, parse_json(payload.encode("utf-8"))]
    return sha256(CHAIN_FORM.encode() + canonical_json(fields)).digest()


def _check_chain(rows: list[Row], *, length: int, last: bytes | None) -> ChainCheck:
    before = NO_EVENT
    for expected, (branch, sequence, version, type_, payload, timestamp, link, total) in enumerate(rows):
        fields = (branch, sequence, version, type_, payload, timestamp, link)
        is_whole = sequence == expected and checksum(*fields) == total
        if not is_whole or chain_hash(before, sequence, version, type_, payload, timestamp) != link:
            return ChainCheck(length, first_wrong=expected)
        before = link
    if len(rows) != length or (last is not None and before != last):
        return ChainCheck(length, first_wrong=len(rows))
    return ChainCheck(length)


def _event(fields: Row, version: Version) -> Event:
    _, sequence, _, type_, payload, occurred, link = fields
    value = parse_json(payload.encode("utf-8"))
    return Event(sequence, version, type_, value, _EPOCH + occurred * _MICROSECOND, CHAIN_FORM + link.hex())


def _check_type(name: object) -> None:
    if not isinstance(name, str) or not name or not is_text(name):
        raise InvalidInputError(f"the event type {name!r} is not kept; a type is a string, not empty")


def _microseconds(moment: datetime.datetime) -> int:
    if moment.tzinfo is None:
        raise InvalidInputError(f"the timestamp {moment!r} has no time zone; give one, datetime.UTC for example")
    return (moment - _EPOCH) // _MICROSECOND


def _ends(part: Any) -> tuple[int, int]:
    return part.branch, part.bound
