"""A run's steps as events on a branch of the state store, so that each says what was known when it began.

The log is an observer of the player: it appends each step as it completes, with ``began``, the version that the branch
had when the step started.  The state as of ``began`` is what the agent knew when it acted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pytest_agentreplay.errors import ConfigurationError, HistoryUnavailableError
from pytest_agentreplay.player.describe import short_name
from pytest_agentreplay.records import Entry, ExchangeStep, ToolStep
from pytest_agentreplay.state import Event, Store, Version, View

__all__ = ["RunLog"]

_MOST_LINES = 20
# Of a tool's call the event holds what was asked and what came of it; of a request its names: its text is on the tape.
_KEPT: Mapping[str, frozenset[str]] = {
    "tool": frozenset({"id", "hash", "name", "arguments", "result", "error", "is_error", "tool_use_id"}),
    "model": frozenset({"hash", "provider", "operation", "usage"}),
    "http": frozenset({"hash"}),
}
_PLACE = frozenset({"lane", "phase", "parent"})


@dataclass(frozen=True, slots=True, eq=False)
class _Mark:
    """A step that has begun."""

    name: str
    began: Version


@dataclass(frozen=True, slots=True)
class _Span:
    """The versions during which a step ran; ``end`` is ``None`` while it does."""

    name: str
    began: int
    end: int | None


class RunLog:
    """The log of one run, on one branch; ``since`` is where the branch began."""

    def __init__(self, store: Store, view: View, *, since: Version) -> None:
        self._store = store
        self._view = view
        self._since = since
        self._open: dict[int, _Mark] = {}
        self._last: _Mark | None = None
        self._spans: list[_Span] = []

    @property
    def branch(self) -> str:
        """The name of the branch."""
        return self._view.branch

    def start(self, name: str) -> None:
        """Note that the run begins."""
        self._view.events.append("run.start", {"began": int(self._view.head), "name": name})

    def end(self, outcome: str) -> None:
        """Note how the run ended."""
        self._view.events.append("run.end", {"began": int(self._view.head), "outcome": outcome})

    def began(self, name: str) -> _Mark:
        """Note what a step knows that begins now."""
        mark = self._last = _Mark(name, self._view.head)
        self._open[id(mark)] = mark
        return mark

    def completed(self, step: Entry, mark: _Mark | None) -> None:
        """Append a step to the log."""
        began = mark.began if mark is not None else self._view.head
        event = self._view.events.append(step.kind, _payload_of(step, began=int(began)))
        self._spans.append(_Span(_name_of(step), int(began), int(event.version)))
        self.abandoned(mark)

    def abandoned(self, mark: _Mark | None) -> None:
        """Forget a step that will not complete."""
        if mark is not None:
            self._open.pop(id(mark), None)

    def state_at(self, moment: Event | Entry) -> View:
        """Return the branch as it was when a step began: that of an event, or a recorded request or tool's call."""
        event = self._event_of(moment) if isinstance(moment, ExchangeStep | ToolStep) else moment
        if not isinstance(event, Event):
            raise ConfigurationError(f"state_at takes an event of the run or of agent_state.events, not {event!r}")
        began = event.payload.get("began") if isinstance(event.payload, dict) else None
        self._view.kv.exists("-", as_of=event)  # refuses an event of another branch
        return self._store.at(self.branch, as_of=event.version if began is None else began)

    def describe_changes(self, *, diverged: bool) -> list[str]:
        """Return lines that say which keys the run had changed, before the diverging step where it did, and who."""
        stopped = self._last if diverged else None
        until = self._view.head if stopped is None else stopped.began
        newest: dict[tuple[str, str], tuple[int, bool]] = {}
        for change in self._view.changes(since=self._since, until=until):
            newest[change.shape, change.key] = int(change.version), change.is_deleted
        if not newest:
            return [f"no key was changed before the diverging step (as of version {until})"] if diverged else []
        before = "by this test," if stopped is None else f"before the diverging step, {stopped.name},"
        lines = [f"keys changed {before} as of version {until}:"]
        for (shape, key), (version, is_deleted) in sorted(newest.items(), key=lambda item: item[1]):
            verb = "deleted" if is_deleted else "written"
            lines.append(f"  {shape} {key!r} {verb} at version {version} by {self._writer_of(version, stopped)}")
        more = len(lines) - _MOST_LINES
        return lines if more <= 0 else [*lines[:_MOST_LINES], f"  … and {more} more"]

    def _writer_of(self, version: int, stopped: _Mark | None) -> str:
        """Return who was at work when a version was committed: the innermost step, or the test between two steps."""
        running = [_Span(mark.name, int(mark.began), None) for mark in self._open.values() if mark is not stopped]
        inside = [
            span
            for span in (*self._spans, *running)
            if span.began < version and (span.end is None or version < span.end)
        ]
        if inside:
            span = max(inside, key=lambda span: span.began)
            return f"{span.name} (from {span.began} to {span.end or 'now'})"
        before = [span for span in self._spans if span.end is not None and span.end < version]
        return (
            f"the test's code, after {max(before, key=lambda span: span.end or 0).name}"
            if before
            else "the test's code"
        )

    def _event_of(self, step: ExchangeStep | ToolStep) -> Event:
        """Return the event of a step; of equal requests the last, as the one that the run knows most at."""
        known = getattr(step, "id", None)
        for event in reversed(self._view.events.list(step.kind)):
            if event.payload.get("hash") == step.hash and event.payload.get("id") == known:
                return event
        told = ", which only the conversation tells of" if getattr(step, "source", "") == "transcript" else ""
        raise HistoryUnavailableError(f"the step {_name_of(step)!r}{told} is not on branch {self.branch!r}")


def _name_of(step: Entry) -> str:
    return short_name(step) if isinstance(step, ExchangeStep | ToolStep) else step.kind


def _payload_of(step: Entry, *, began: int) -> dict[str, Any]:
    kept = _KEPT.get(step.kind)
    fields = step.model_dump(mode="json", include=None if kept is None else set(kept | _PLACE), exclude={"kind"})
    return {"began": began, "step": _name_of(step)} | {
        name: value for name, value in fields.items() if value is not None
    }
