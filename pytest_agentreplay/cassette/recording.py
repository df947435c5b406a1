"""Write a cassette: append to a partial file as answers come in, then put the whole in order and in place at once.

Each exchange is handed to the operating system before the agent gets the end of its answer, so a process that dies
loses no answer it has used.  The cassette itself is replaced by one rename, or stays as it was.  A lock keeps a second
process from recording the same cassette; the operating system lets go of it when the process dies.
"""

from __future__ import annotations

import contextlib
import glob
import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from pytest_agentreplay.addresses import Addresses
from pytest_agentreplay.canonical import write_json
from pytest_agentreplay.cassette import lines
from pytest_agentreplay.cassette.files import partial_path
from pytest_agentreplay.cassette.loading import digest_of_sums
from pytest_agentreplay.cassette.order import canonical_order
from pytest_agentreplay.errors import CassetteError, SecretLeakError
from pytest_agentreplay.locks import Lock, lock_file
from pytest_agentreplay.records import (
    Entry,
    ExchangeStep,
    JsonBody,
    RunEnd,
    RunStart,
    Timing,
    ToolStep,
)
from pytest_agentreplay.redact import Redactor, find_leak

__all__ = ["Recording", "lock_cassette", "write_cassette"]

# What to do about a secret that redaction did not reach.
_UNKNOWN = (
    "Redact it with redact_patterns, redact_headers or redact_json, in the ini file agent_redact_patterns and so on."
)
_LOADED_LATE = "It was set after it had been used: set the variable before the first request or call that holds it."


class Recording:
    """A cassette being written.  Thread-safe; nothing is on disk before the first exchange.

    ``redactor`` is asked once more before anything is written; ``lock`` (:func:`lock_cassette`) is released at the end.
    ``partial`` is where it stands until it is finished, by default where a later recording looks for it.
    """

    def __init__(
        self,
        path: Path,
        start: RunStart,
        *,
        redactor: Redactor,
        lock: Lock | None = None,
        partial: Path | None = None,
    ) -> None:
        self.path = path
        self.partial = partial or partial_path(path)
        self.entries: list[Entry] = []
        self.messages: dict[str, Any] = {}
        self.added = 0  # requests and tool calls that were made, not carried
        self.start = start
        self._redactor = redactor
        self._writer = _Writer()
        self._on_file: set[int] = set()  # by identity: the steps that a resumed partial holds already
        self._file: IO[bytes] | None = None
        self._lock = threading.Lock()
        self._process_lock = lock
        self._is_over = False  # an answer that arrives later is not written: the file may be another recording's now

    @property
    def exchanges(self) -> list[ExchangeStep]:
        """The entries that are requests with their answers."""
        return [step for step in self.entries if isinstance(step, ExchangeStep)]

    def resume(self, steps: Iterable[Entry], messages: Mapping[str, Any]) -> None:
        """Go on from an interrupted recording, whose steps stay on file and are taken over as they are played."""
        with self._lock:
            self.messages.update(messages)
            rows = [_start_row(self.start, timed=True)]
            for step in steps:
                rows += self._writer.rows(step, self.messages, timing=True)
                self._on_file.add(id(step))
            _replace(self.partial, b"".join(row + b"\n" for row in rows))
            self._file = self.partial.open("ab", buffering=0)

    def know(self, messages: Mapping[str, Any]) -> None:
        """Take the messages that carried steps refer to."""
        with self._lock:
            self.messages.update(messages)

    def append(self, step: Entry, messages: Mapping[str, Any]) -> None:
        """Add one completed step; it survives the process when this returns.

        Raises :class:`SecretLeakError`, and writes nothing, when a secret is left in it.
        """
        self._refuse_leak(step, messages)
        with self._lock:
            if not self._is_over:
                self.messages.update(messages)
                self._write(step)
                self.added += isinstance(step, ExchangeStep | ToolStep)

    def carry(self, step: Entry, *, began: float, rank: int | None = None) -> None:
        """Take over a step that was served from the cassette or from the recording that is resumed.

        ``began`` is when that was in this run: the order of equal requests is that of one run, not of two; ``rank``
        is the place of a tool's call among those of its turn.
        """
        carried = step.model_copy(update={"timing": Timing(began=began, took=0.0), "rank": rank})
        with self._lock:
            if id(step) in self._on_file:
                self.entries.append(carried)
            else:
                self._write(carried)

    def close(self, end: RunEnd, *, versions: Mapping[str, str] | None = None) -> None:
        """Put the cassette in canonical order and in place; the partial file is removed.  Nothing recorded, no file.

        ``versions`` are added to those in the head.
        """
        with self._lock:
            if self.entries and self._file is not None:
                start = self.start.model_copy(update={"versions": self.start.versions | dict(versions or {})})
                write_cassette(self.path, start=start, end=end, entries=self.entries, messages=self.messages)
                self._close_file()
                self.partial.unlink()
            self._close_file()

    def leave(self) -> None:
        """Stop, and leave the partial file as it is."""
        with self._lock:
            self._close_file()

    def discard(self) -> None:
        """Stop, and remove the partial file: the cassette holds all of it."""
        with self._lock:
            self._close_file()
            if self.partial.exists():
                self.partial.unlink(missing_ok=True)

    def _refuse_leak(self, step: Entry, messages: Mapping[str, Any]) -> None:
        self._redactor.look()
        fresh = {address: value for address, value in messages.items() if address not in self.messages}
        if isinstance(step, ExchangeStep):
            line = lines.encode_exchange(step, before=None)
            line["request"] = {key: value for key, value in line["request"].items() if key != "lists"}
        else:
            line = lines.encode_plain(step)
        # Hashes are ours, and a user's expression may match one by chance.
        line = {key: value for key, value in line.items() if key not in ("hash", "lane", "id", "parent")}
        what = "An exchange" if isinstance(step, ExchangeStep) else f"A step of kind {step.kind!r}"
        for place, value in (("step", line), ("messages", list(fresh.values()))):
            leak = find_leak(value, self._redactor)
            if leak is not None:
                raise SecretLeakError(
                    f"{what} was not recorded: {leak.rule} is left in {place} at {leak.path}.\n"
                    f"  The steps before it are kept in {self.partial}.\n"
                    f"  {_LOADED_LATE if leak.is_of_variable else _UNKNOWN}"
                )

    def _close_file(self) -> None:
        self._is_over = True
        if self._file is not None:
            self._file.close()
            self._file = None
        if self._process_lock is not None:
            self._process_lock.release()

    def _write(self, step: Entry) -> None:
        rows = self._writer.rows(step, self.messages, timing=True)
        try:
            _write_whole(self._open(), b"".join(row + b"\n" for row in rows))
        except OSError:
            self._writer.undo()
            raise
        self.entries.append(step)

    def _open(self) -> IO[bytes]:
        if self._file is None:
            self.partial.parent.mkdir(parents=True, exist_ok=True)
            file = self.partial.open("wb", buffering=0)
            _write_whole(file, _start_row(self.start, timed=True) + b"\n")
            self._file = file
        return self._file


def write_cassette(
    path: Path, *, start: RunStart, end: RunEnd, entries: Iterable[Entry], messages: Mapping[str, Any]
) -> None:
    """Write a finished cassette in canonical order, in one rename."""
    writer = _Writer()
    ordered = canonical_order(entries)
    rows = [_start_row(start, timed=False)]
    sums = []
    for step in ordered:
        rows += writer.rows(step, messages, timing=False)
        sums.append(lines.sum_of(rows[-1]))
    rows.append(_end_row(end, start=start, ordered=ordered, sums=sums))
    _replace(path, b"".join(row + b"\n" for row in rows))


class _Writer:
    """Turns steps into lines, each message once, each request by what it adds to the one before it in its lane."""

    def __init__(self) -> None:
        self._written: set[str] = set()
        self._last: dict[str, ExchangeStep] = {}
        self._latest: tuple[str, ExchangeStep | None, list[str]] = ("", None, [])

    def undo(self) -> None:
        """Forget the step that was turned into lines last: they could not be written."""
        lane, before, new = self._latest
        self._written.difference_update(new)
        if before is not None:
            self._last[lane] = before
        else:
            self._last.pop(lane, None)

    def rows(self, step: Entry, messages: Mapping[str, Any], *, timing: bool) -> list[bytes]:
        if not isinstance(step, ExchangeStep):
            self._latest = (step.lane, self._last.get(step.lane), [])
            line = lines.encode_plain(step)
            return [lines.seal(line | ({"timing": _timing_of(step)[0]} if timing else {}))]
        before = self._last.get(step.lane)
        new = self._new(step, before)
        rows = [_message_row(messages[address]) for address in new]
        self._latest = (step.lane, before, new)
        line = lines.encode_exchange(step, before=before)
        if timing:
            began_took, *pieces = _timing_of(step)
            line |= {"timing": began_took} | dict(zip(("cuts", "arrivals"), pieces, strict=False))
        self._last[step.lane] = step
        return [*rows, lines.seal(line)]

    def _new(self, step: ExchangeStep, before: ExchangeStep | None) -> list[str]:
        body = step.request.body
        if not isinstance(body, JsonBody):
            return []
        known = before.request.body.lists if before and isinstance(before.request.body, JsonBody) else {}
        found = []
        for key, addresses in body.lists.items():
            before_it = known.get(key, Addresses())
            start = len(before_it) if addresses.goes_on_from(before_it) else 0
            for address in addresses.after(start):
                if address not in self._written:
                    self._written.add(address)
                    found.append(address)
        return found


def lock_cassette(path: Path, *, wait: float = 60.0) -> Lock:
    """Return the lock that a process holds while it records a cassette, once no other process does.

    ``wait`` is in seconds.  Raises :class:`CassetteError` when another process still records then.
    """
    try:
        return lock_file(path, wait=wait)
    except TimeoutError as error:
        raise CassetteError(
            f"is being recorded by another process or test, for longer than {wait:g} seconds",
            path=path,
            remedy="Give each test a cassette of its own, or run again when the other is done.",
        ) from error


def _write_whole(file: IO[bytes], data: bytes) -> None:
    """Write all of it or, where the disk is full, nothing: what comes later must not stand after half a line."""
    start = file.tell()
    try:
        while data:
            data = data[file.write(data) :]
    except OSError:
        file.truncate(start)
        file.seek(start)
        raise


def _message_row(value: Any) -> bytes:
    return b'{"kind":"message","value":' + write_json(value) + b"}"


def _start_row(start: RunStart, *, timed: bool) -> bytes:
    fields = start.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    kept = {"kind": "run.start", "format": start.format} | fields
    if not timed:
        kept = {key: value for key, value in kept.items() if key not in ("run_id", "recorded_at")}
    return lines.seal(kept)


def _end_row(end: RunEnd, *, start: RunStart, ordered: Sequence[Entry], sums: Sequence[str]) -> bytes:
    fields = end.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    timings = [[*began_took, *pieces] for began_took, *pieces in map(_timing_of, ordered)]
    about = {"recorded_at": start.recorded_at, "run_id": start.run_id}
    kept = {"kind": "run.end", "outcome": end.outcome} | fields
    return lines.seal(kept | {"steps": digest_of_sums(sums)} | about | {"timings": timings})


def _timing_of(step: Entry) -> list[list[Any]]:
    """Return when a step began and how long it took; of an answer in pieces also their lengths, and their arrivals."""
    timing = step.timing
    began_took = [round(timing.began, 4), round(timing.took, 4)] if timing else [0.0, 0.0]
    response = step.response if isinstance(step, ExchangeStep) else None
    if response is None or len(response.cuts) < 2:
        return [began_took]
    return [began_took, list(response.cuts), *([list(response.arrivals)] if response.arrivals else [])]


def _replace(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    for leftover in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):  # of a process that was killed here
        leftover.unlink(missing_ok=True)
    fresh = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with fresh.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            fresh.unlink()
