"""What the player needs of a tape, and the smallest one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from pytest_agentreplay.records import ExchangeStep, Timing

__all__ = ["MemoryTape", "Tape"]


class Tape(Protocol):
    """An ordered record of one run's exchanges."""

    @property
    def exchanges(self) -> Sequence[ExchangeStep]:
        """The recorded exchanges, in order."""

    @property
    def messages(self) -> Mapping[str, Any]:
        """The elements that requests refer to, by address."""


class WritableTape(Tape, Protocol):
    """A tape that is being recorded."""

    def append(self, step: ExchangeStep, messages: Mapping[str, Any]) -> None:
        """Add a completed exchange; it is durable when this returns."""

    def carry(self, step: ExchangeStep, *, began: float) -> None:
        """Take over an exchange that was served from another tape, whose messages this one has been given.

        ``began`` is when that was, in seconds from the start of the run.
        """


@dataclass
class MemoryTape:
    """A tape in memory: lost when the process ends."""

    exchanges: list[ExchangeStep] = field(default_factory=list)
    messages: dict[str, Any] = field(default_factory=dict)

    def append(self, step: ExchangeStep, messages: Mapping[str, Any]) -> None:
        """Add a completed exchange."""
        self.messages.update(messages)
        self.exchanges.append(step)

    def carry(self, step: ExchangeStep, *, began: float) -> None:
        """Take over an exchange of another tape."""
        self.exchanges.append(step.model_copy(update={"timing": Timing(began=began, took=0.0)}))
