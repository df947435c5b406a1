"""Read a cassette and refuse a damaged one.

Everything that can be checked without the rules of the session is checked on loading: sums, references, order,
the count of steps.  A fault is one :class:`CassetteError` with the line and what to do; the file is never touched.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any, NoReturn

from pydantic import ValidationError

from pytest_agentreplay.canonical import content_hash, parse_json
from pytest_agentreplay.cassette import lines
from pytest_agentreplay.cassette.files import partial_path
from pytest_agentreplay.errors import CassetteError
from pytest_agentreplay.filenames import SUFFIX
from pytest_agentreplay.records import (
    FORMAT_VERSION,
    Entry,
    ExchangeStep,
    RunEnd,
    RunStart,
    Step,
    Timing,
    ToolStep,
    read_step,
)

__all__ = ["Cassette", "digest_of_sums", "load_cassette", "read_cassette", "what_records"]

_PLAIN_KINDS = frozenset(
    {"attempt", "tool", "permission", "approval", "value", "signal", "timer", "compaction", "checkpoint", "error"}
)
_RECORD_AGAIN = "Restore the file from version control, or record it again: {again}"
_ANOTHER_FILE = f"If it never was one, name another file. {_RECORD_AGAIN}"
_RESOLVE = "Resolve the conflict: keep one side whole, or record it again: {again}"
_OR_MISSING = "or a line is missing"
_NO_CASSETTES_NAME = f"Name a cassette, NAME{SUFFIX}, or a test, FILE::TEST."
_NO_CASSETTE = "this is not an agent cassette, or its first line was changed"
_HEAD = b'{"kind":'


@dataclass(frozen=True)
class Cassette:
    """A recorded run: its steps in order, and the messages they refer to, by address."""

    path: Path
    start: RunStart
    entries: tuple[Entry, ...]
    messages: Mapping[str, Any]
    end: RunEnd | None
    torn: str | None = None

    @cached_property
    def exchanges(self) -> tuple[ExchangeStep, ...]:
        """The entries that are requests with their answers."""
        return tuple(step for step in self.entries if isinstance(step, ExchangeStep))

    def steps(self) -> Sequence[Step]:
        """Return every step, the head first."""
        return (self.start, *self.entries, *((self.end,) if self.end else ()))

    def sub_run(self, lane: str) -> Cassette:
        """Return the run of one lane, with what was recorded inside its tools, as a tape of its own.

        Tools that belong to no lane go with the lane that was opened beside them inside a tool: a sub-agent's helpers.
        """
        opened_inside = {step.parent for step in self.entries if step.lane == lane} - {None}
        kept: list[Entry] = []
        tools: set[str | None] = set()
        # What is inside a tool stands after it, but for requests of its own lane.
        for step in sorted(self.entries, key=lambda step: step.lane != lane):
            is_helper = not step.lane and step.parent in opened_inside
            if step.lane == lane or is_helper or step.parent in tools:
                kept.append(step)
                tools |= {step.id} if isinstance(step, ToolStep) else set()
        kept = [step if step.parent in tools else step.model_copy(update={"parent": None}) for step in kept]
        start = self.start.model_copy(update={"parent_run": self.start.run_id, "name": f"{self.start.name}#{lane}"})
        return replace(self, start=start, entries=tuple(kept), end=None)

    def by_hash(self, request_hash: str) -> Sequence[int]:
        """Return the positions in :attr:`exchanges` that have this hash."""
        return [index for index, step in enumerate(self.exchanges) if step.hash == request_hash]


def load_cassette(path: str | os.PathLike[str], *, partial: bool = False) -> Cassette:
    """Return the cassette in a file.

    With ``partial`` the file is an interrupted recording: it has no end, and a torn last line is left out and named in
    :attr:`Cassette.torn`.  Raises :class:`CassetteError` for a file that is damaged, edited, of a newer format or no
    cassette at all.
    """
    place = Path(path)
    try:
        data = place.read_bytes()
    except OSError as error:
        _refuse_unfinished(place)
        raise CassetteError.unreadable(place, error) from error
    return read_cassette(data, path=place, partial=partial)


def read_cassette(data: bytes, *, path: Path, partial: bool = False) -> Cassette:
    """Return the cassette in the bytes of a file, as :func:`load_cassette` does; ``path`` is what errors call it."""
    return _Loader(path, partial=partial).load(data)


def _refuse_unfinished(path: Path) -> None:
    """Say of a cassette that is not there what there is of it, if a recording of it was left."""
    partial = None if path.exists() else partial_path(path)
    if partial is not None and partial.exists():
        remedy = f"An unfinished recording is beside it: load_cassette({str(partial)!r}, partial=True)"
        raise CassetteError("was never finished", path=path, remedy=remedy)


def what_records(start: RunStart | None) -> str:
    """Return what records a cassette again, as far as its head says so: the command where it is of a test."""
    name = start.name if start is not None else None
    return f"pytest {shlex.quote(name)} --record-mode=rewrite" if name and "::" in name else CassetteError.any_again


def digest_of_sums(sums: Sequence[str]) -> str:
    """Return the digest that the last line carries of the sums of all step lines before it."""
    return sha256("".join(sums).encode()).hexdigest()[:16]


@dataclass
class _Loader:
    path: Path
    partial: bool
    start: RunStart | None = None
    end: dict[str, Any] | None = None
    steps: list[Entry] = field(default_factory=list)
    sums: list[str] = field(default_factory=list)
    timings: list[Any] = field(default_factory=list)
    last_in_lane: dict[str, ExchangeStep] = field(default_factory=dict)
    messages: dict[str, Any] = field(default_factory=dict)
    addresses: dict[str, str] = field(default_factory=dict)
    unused: dict[str, int] = field(default_factory=dict)
    tools: dict[str, str | None] = field(default_factory=dict)  # each tool's call and the one that it is inside
    inside: list[tuple[str, int]] = field(default_factory=list)  # the calls that steps are inside, and their lines
    line: int = 0

    def load(self, data: bytes) -> Cassette:
        self._check_beginning(data.partition(b"\n")[0])
        rows = data.split(b"\n")
        rows, last = rows[:-1], rows[-1]
        torn = f"line {len(rows) + 1} is cut off and was left out" if last else None
        for self.line, row in enumerate(rows, start=1):
            self._read(row.removesuffix(b"\r"))
        if last and not self.partial:
            self.line = len(rows) + 1
            self._check_markers(last)
            self._refuse("the last line is cut off", _RECORD_AGAIN)
        return self._finish(torn)

    def _check_beginning(self, row: bytes) -> None:
        """Refuse a file of something else as that, whatever else is wrong with it."""
        if not row.startswith(_HEAD) and not _HEAD.startswith(row):
            self.line = 1
            self._check_markers(row)
            self._refuse_another_file()

    def _read(self, row: bytes) -> None:
        self._check_markers(row)
        if self.end is not None:
            self._refuse("there are lines after the end of the recording", _RECORD_AGAIN)
        if row.startswith(b'{"kind":"message",') and self.start is not None:
            self._read_message(row)
            return
        fields = self._unseal(row)
        kind = fields.pop("kind", None)
        if self.start is None:
            self._read_start(kind, fields)
        elif kind in ("model", "http"):
            self._read_exchange(fields | {"kind": kind}, row)
        elif kind == "run.end":
            self._read_end(fields)
        elif isinstance(kind, str) and kind in _PLAIN_KINDS:
            self._read_plain(fields | {"kind": kind}, row)
        else:
            self._refuse(f"a line of kind {kind!r} is not expected here", _RECORD_AGAIN)

    def _refuse_another_file(self) -> NoReturn:
        if self.path.suffix == SUFFIX:
            self._refuse(_NO_CASSETTE, _ANOTHER_FILE)
        self._refuse("this is not an agent cassette", _NO_CASSETTES_NAME)

    def _check_markers(self, row: bytes) -> None:
        if lines.is_conflict_marker(row):
            self._refuse("a git conflict marker", _RESOLVE)

    def _unseal(self, row: bytes) -> dict[str, Any]:
        fault = "the line was changed after it was recorded (its sum does not fit)"
        try:
            fields = lines.unseal(row)
        except ValueError:
            fault, fields = "the line is not JSON", None
        if fields is None:
            if self.start is None:
                self._refuse_another_file()
            self._refuse(fault, _RECORD_AGAIN)
        return fields

    def _read_start(self, kind: Any, fields: dict[str, Any]) -> None:
        if kind != "run.start":
            self._refuse(f"the first line is of kind {kind!r}, not 'run.start'", _RECORD_AGAIN)
        version = fields.get("format")
        if not isinstance(version, int) or version > FORMAT_VERSION:
            self._refuse(
                f"the cassette has format {version}; this version reads up to {FORMAT_VERSION}",
                "Upgrade: pip install --upgrade pytest-agent-cassette",
            )
        self.start = self._step(fields | {"kind": "run.start"})

    def _read_message(self, row: bytes) -> None:
        try:
            value = parse_json(row)["value"]
        except ValueError:
            self._refuse("the line is not JSON", _RECORD_AGAIN)
        except KeyError:
            self._refuse("the message has no value", _RECORD_AGAIN)
        address = content_hash(value)
        if address in self.messages:
            self._refuse("the message stands here a second time", _RECORD_AGAIN)
        self.messages[address] = value
        self.addresses[lines.reference(address)] = address
        self.unused[lines.reference(address)] = self.line

    def _read_exchange(self, fields: dict[str, Any], row: bytes) -> None:
        lane = fields.get("lane", "")
        if not isinstance(lane, str):
            self._refuse(f"the step cannot be read (lane: {lane!r} is not a string)", _RECORD_AGAIN)
        before = self.last_in_lane.get(lane)
        after = fields.get("after")
        if (after is None) != (before is None) or (before and lines.reference(before.hash) != after):
            fault = f"the step does not follow the one before it in lane {lane!r}"
            self._refuse(f"{fault}: the order was changed, {_OR_MISSING}", _RECORD_AGAIN)
        timing, *pieces = (fields.pop(name, ()) for name in ("timing", "cuts", "arrivals"))
        self.timings.append((timing or None, pieces))
        try:
            decoded = lines.decode_exchange(fields, before=before, addresses=self.addresses)
        except KeyError as error:
            self._refuse_reference(error.args[0], fields.get("request"))
        except (ValueError, TypeError, AttributeError) as error:
            self._refuse(f"the step cannot be read ({error})", _RECORD_AGAIN)
        step: ExchangeStep = self._step(decoded)
        self._use(fields["request"])
        self._add(step, row)
        self.last_in_lane[lane] = step

    def _read_plain(self, fields: dict[str, Any], row: bytes) -> None:
        self.timings.append((fields.pop("timing", None), ()))
        if self.unused:
            self._refuse_unused()
        step: Entry = self._step(fields)
        if isinstance(step, ToolStep):
            if step.id in self.tools and not self.partial:
                self._refuse(f"the tool call {step.id!r} stands here a second time", _RECORD_AGAIN)
            self.tools[step.id] = step.parent
        self._add(step, row)

    def _add(self, step: Entry, row: bytes) -> None:
        self.steps.append(step)
        self.sums.append(lines.sum_of(row))
        if step.parent is not None:
            self.inside.append((step.parent, self.line))

    def _use(self, request: Mapping[str, Any]) -> None:
        """Account for the messages that stand right before the step that brings them in."""
        for part in ("lists", "add"):
            named = [found for references in request.get(part, {}).values() for found in references]
            places = [self.unused.pop(found) for found in named if found in self.unused]
            if places != sorted(places):
                self._refuse("the messages before the step were moved: it names them in another order", _RECORD_AGAIN)
        if self.unused:
            self._refuse_unused()

    def _read_end(self, fields: dict[str, Any]) -> None:
        timings = fields.pop("timings", [])
        if not isinstance(timings, list) or not all(isinstance(row, list) for row in timings):
            self._refuse("the timings cannot be read", _RECORD_AGAIN)
        if fields.pop("steps", None) != digest_of_sums(self.sums) or len(timings) != len(self.steps):
            self._refuse("steps were added, removed or moved after the recording", _RECORD_AGAIN)
        self.timings = [(row[:2], row[2:]) for row in timings]
        self.end = fields

    def _finish(self, torn: str | None) -> Cassette:
        self.line = self.line or 1
        if self.start is None:
            self._refuse("its first line is cut off" if torn else "the file is empty", _RECORD_AGAIN)
        if self.end is None and not self.partial:
            self._refuse("the recording has no end: the file was cut off", _RECORD_AGAIN)
        if self.unused and not self.partial:
            self._refuse_unused()
        if not self.partial:  # in one, the call that a step is inside may not have ended
            self._check_nesting()
        try:
            entries = tuple(map(_with_timing, self.steps, self.timings))
        except (TypeError, ValueError, LookupError):
            self._refuse("the timings cannot be read", _RECORD_AGAIN)
        end = self.end or {}
        start = self.start.model_copy(update={key: end[key] for key in ("run_id", "recorded_at") if key in end})
        rest = {key: value for key, value in end.items() if key not in ("run_id", "recorded_at")}
        return Cassette(
            path=self.path,
            start=start,
            entries=entries,
            messages=self.messages,
            end=self._step({"kind": "run.end", **rest}) if self.end is not None else None,
            torn=torn,
        )

    def _check_nesting(self) -> None:
        for parent, line in self.inside:
            self.line = line
            around: str | None = parent
            for _ in range(len(self.tools) + 1):
                if around is None:
                    break
                if around not in self.tools:
                    self._refuse(f"the step is inside the tool call {around!r}, which is nowhere", _RECORD_AGAIN)
                around = self.tools[around]
            else:
                self._refuse("the step is inside a tool call that is inside itself", _RECORD_AGAIN)

    def _step(self, fields: dict[str, Any]) -> Any:
        try:
            return read_step(fields)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(str(part) for part in first["loc"][1:])
            self._refuse(f"the step cannot be read ({place}: {first['msg']})", _RECORD_AGAIN)

    def _refuse_reference(self, missing: Any, request: Any) -> NoReturn:
        for found in _named_in(request):
            self.unused.pop(found, None)  # what is left is the message that the step does not know any more
        if self.unused:
            self._refuse_unused()
        self._refuse(f"the step refers to {missing!r}, which is nowhere before it", _RECORD_AGAIN)

    def _refuse_unused(self) -> NoReturn:
        self.line = next(iter(self.unused.values()))
        fault = f"the message was changed after it was recorded, {_OR_MISSING} below it: no step refers to it"
        self._refuse(fault, _RECORD_AGAIN)

    def _refuse(self, fault: str, remedy: str) -> NoReturn:
        raise CassetteError(fault, path=self.path, line=self.line, remedy=remedy, again=what_records(self.start))


def _named_in(request: Any) -> Iterator[Any]:
    """Yield the references that a request's line makes, whatever else is in it."""
    parts = [request.get(part) for part in ("lists", "add")] if isinstance(request, dict) else []
    for part in parts:
        for references in part.values() if isinstance(part, dict) else ():
            yield from (found for found in references if isinstance(found, str))


def _with_timing(step: Entry, row: tuple[Any, Sequence[Any]]) -> Entry:
    timing, pieces = row
    cuts, arrivals = [*pieces, (), ()][:2]
    changes: dict[str, Any] = {"timing": Timing(began=timing[0], took=timing[1]) if timing else None}
    if cuts and isinstance(step, ExchangeStep) and step.response is not None:
        found = {"cuts": tuple(map(int, cuts)), "arrivals": tuple(map(float, arrivals))}
        changes["response"] = step.response.model_copy(update=found)
    return step.model_copy(update=changes)
