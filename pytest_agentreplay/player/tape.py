"""What the player needs of a tape, and the smallest one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from pytest_agentreplay.records import Entry, ExchangeStep, RunStart, Timing, ToolStep

__all__ = ["MemoryTape", "Tape", "WritableTape"]


class Tape(Protocol):
    """An ordered record of one run's steps."""

    @property
    def entries(self) -> Sequence[Entry]:
        """The recorded steps between head and end, in order."""

    @property
    def messages(self) -> Mapping[str, Any]:
        """The elements that requests refer to, by address."""


class WritableTape(Tape, Protocol):
    """A tape that is being recorded."""

    @property
    def added(self) -> int:
        """How many requests and tool calls were made for it, and not taken over from another tape."""

    def append(self, step: Entry, messages: Mapping[str, Any]) -> None:
        """Add a completed step; it is durable when this returns."""

    def carry(self, step: Entry, *, began: float, rank: int | None = None) -> None:
        """Take over a step that was served from another tape, whose messages this one has been given.

        ``rank`` is the place of a tool's call among those of its turn.
        """


@dataclass
class MemoryTape:
    """A tape in memory: lost when the process ends."""

    entries: list[Entry] = field(default_factory=list)
    messages: dict[str, Any] = field(default_factory=dict)
    start: RunStart | None = None
    added: int = 0

    @property
    def exchanges(self) -> list[ExchangeStep]:
        """The entries that are requests with their answers."""
        return [step for step in self.entries if isinstance(step, ExchangeStep)]

    def append(self, step: Entry, messages: Mapping[str, Any]) -> None:
        """Add a completed step."""
        self.added += isinstance(step, ExchangeStep | ToolStep)
        self.messages.update(messages)
        self.entries.append(step)

    def carry(self, step: Entry, *, began: float, rank: int | None = None) -> None:
        """Take over a step of another tape."""
        self.entries.append(step.model_copy(update={"timing": Timing(began=began, took=0.0), "rank": rank}))
