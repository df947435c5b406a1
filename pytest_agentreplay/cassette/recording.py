"""Write a cassette: append to a partial file as answers come in, then put the whole in order and in place at once.

Each exchange is handed to the operating system before the agent gets the end of its answer, so a process that dies
loses no answer it has used.  The cassette itself is replaced by one rename, or stays as it was.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import orjson

from pytest_agentreplay.canonical import content_hash
from pytest_agentreplay.cassette import lines
from pytest_agentreplay.cassette.loading import digest_of_sums
from pytest_agentreplay.cassette.order import canonical_order
from pytest_agentreplay.records import ExchangeStep, JsonBody, RunEnd, RunStart, Step

__all__ = ["Recording", "partial_path"]


def partial_path(path: Path) -> Path:
    """Return where an unfinished recording of a cassette is kept."""
    return path.with_name(path.name.removesuffix(".jsonl") + ".partial.jsonl")


class Recording:
    """A cassette being written.  Thread-safe; nothing is on disk before the first exchange."""

    def __init__(self, path: Path, start: RunStart) -> None:
        self.path = path
        self.partial = partial_path(path)
        self.exchanges: list[ExchangeStep] = []
        self.messages: dict[str, Any] = {}
        self._start = start
        self._writer = _Writer()
        self._file: IO[bytes] | None = None
        self._lock = threading.Lock()

    def steps(self) -> Sequence[Step]:
        """Return every step so far, the head first, in the order of completion."""
        return (self._start, *self.exchanges)

    def by_hash(self, request_hash: str) -> Sequence[int]:
        """Return the positions in :attr:`exchanges` that have this hash."""
        return [index for index, step in enumerate(self.exchanges) if step.hash == request_hash]

    def append(self, step: ExchangeStep, messages: Mapping[str, Any]) -> None:
        """Add one completed exchange; it survives the process when this returns."""
        with self._lock:
            self.messages.update(messages)
            rows = self._writer.rows(step, self.messages, timing=True)
            self._open().write(b"".join(row + b"\n" for row in rows))
            self.exchanges.append(step)

    def close(self, end: RunEnd) -> None:
        """Put the cassette in canonical order and in place; the partial file is removed.  Nothing recorded, no file."""
        with self._lock:
            if self._file is None:
                return
            self._file.close()
            self._file = None
            _replace(self.path, self._whole(end))
            self.partial.unlink()

    def leave(self) -> None:
        """Stop, and leave the partial file as it is."""
        with self._lock:
            if self._file is not None:
                self._file.close()
                self._file = None

    def _open(self) -> IO[bytes]:
        if self._file is None:
            self.partial.parent.mkdir(parents=True, exist_ok=True)
            self._file = self.partial.open("wb", buffering=0)
            self._file.write(_start_row(self._start, timed=True) + b"\n")
        return self._file

    def _whole(self, end: RunEnd) -> bytes:
        writer = _Writer()
        ordered = canonical_order(self.exchanges)
        rows = [_start_row(self._start, timed=False)]
        sums = []
        for step in ordered:
            rows += writer.rows(step, self.messages, timing=False)
            sums.append(lines.sum_of(rows[-1]))
        rows.append(_end_row(end, start=self._start, ordered=ordered, sums=sums))
        return b"".join(row + b"\n" for row in rows)


class _Writer:
    """Turns steps into lines, each message once, each request by what it adds to the one before it in its lane."""

    def __init__(self) -> None:
        self._written: set[str] = set()
        self._last: dict[str, ExchangeStep] = {}

    def rows(self, step: ExchangeStep, messages: Mapping[str, Any], *, timing: bool) -> list[bytes]:
        before = self._last.get(step.lane)
        rows = [self._message(address, messages) for address in self._new(step, before)]
        line = lines.encode_exchange(
            step, before=before.request if before else None, after=before.hash if before else None
        )
        if timing:
            began_took, cuts = _timing_of(step)
            line |= {"timing": began_took} | ({"cuts": cuts} if cuts else {})
        self._last[step.lane] = step
        return [*rows, lines.seal(line)]

    def _new(self, step: ExchangeStep, before: ExchangeStep | None) -> list[str]:
        body = step.request.body
        if not isinstance(body, JsonBody):
            return []
        known = before.request.body.lists if before and isinstance(before.request.body, JsonBody) else {}
        found = []
        for key, addresses in body.lists.items():
            prefix = known.get(key, ())
            start = len(prefix) if addresses[: len(prefix)] == prefix else 0
            for address in addresses[start:]:
                if address not in self._written:
                    self._written.add(address)
                    found.append(address)
        return found

    def _message(self, address: str, messages: Mapping[str, Any]) -> bytes:
        value = messages[address]
        try:
            data = orjson.dumps(value)
            faithful = content_hash(orjson.loads(data)) == address
        except (TypeError, ValueError):
            faithful = False
        if not faithful:  # integers beyond 64 bits, NaN, lone surrogates: Python's own writer keeps them
            data = json.dumps(value, separators=(",", ":")).encode("ascii")
        return b'{"kind":"message","value":' + data + b"}"


def _start_row(start: RunStart, *, timed: bool) -> bytes:
    fields = start.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    kept = {"kind": "run.start", "format": start.format} | fields
    if not timed:
        kept = {key: value for key, value in kept.items() if key not in ("run_id", "recorded_at")}
    return lines.seal(kept)


def _end_row(end: RunEnd, *, start: RunStart, ordered: Sequence[ExchangeStep], sums: Sequence[str]) -> bytes:
    fields = end.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    timings = [[*began_took, cuts] if cuts else began_took for began_took, cuts in map(_timing_of, ordered)]
    about = {"recorded_at": start.recorded_at, "run_id": start.run_id}
    kept = {"kind": "run.end", "outcome": end.outcome} | fields
    return lines.seal(kept | {"steps": digest_of_sums(sums)} | about | {"timings": timings})


def _timing_of(step: ExchangeStep) -> tuple[list[float], list[int]]:
    timing = step.timing
    began_took = [round(timing.began, 4), round(timing.took, 4)] if timing else [0.0, 0.0]
    cuts = list(step.response.cuts) if step.response and len(step.response.cuts) > 1 else []
    return began_took, cuts


def _replace(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
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
