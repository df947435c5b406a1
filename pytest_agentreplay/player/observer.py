"""Who is told of a run's steps as they begin and complete."""

from __future__ import annotations

from typing import Any, Protocol

from pytest_agentreplay.records import Entry

__all__ = ["Observer", "Unobserved"]


class Observer(Protocol):
    """Is told of steps in the order in which they happen, by one thread at a time."""

    def began(self, name: str) -> Any:
        """Note that a step begins; return a mark that comes back with what becomes of it."""

    def completed(self, step: Entry, mark: Any) -> None:
        """Take a completed step; ``mark`` is ``None`` for one that began as it ended."""

    def abandoned(self, mark: Any) -> None:
        """Note that a step was given up."""


class Unobserved:
    """Nobody."""

    def began(self, name: str) -> None:
        """Give no mark."""

    def completed(self, step: Entry, mark: Any) -> None:
        """Let it pass."""

    def abandoned(self, mark: Any) -> None:
        """Let it pass."""
