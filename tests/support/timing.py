"""Claims about time, on a machine that may be doing something else."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

T = TypeVar("T")


def sooner_or_later(claim: Callable[[], bool]) -> bool:
    """Return whether a claim about time holds in one of a few tries: the machine may be doing something else."""
    return any(claim() for _ in range(4))


def timed(act: Callable[[], T]) -> tuple[float, T]:
    """Return how long something took, in seconds, and what came of it."""
    started = time.perf_counter()
    result = act()
    return time.perf_counter() - started, result


@dataclass
class SendLog:
    """The pieces of an answer, and when the server sent each."""

    pieces: Sequence[bytes]
    sent: list[float] = field(default_factory=list)

    def __iter__(self) -> Iterator[bytes]:
        for piece in self.pieces:
            self.sent.append(time.monotonic())
            yield piece

    def delays(self, heard: Sequence[float]) -> list[float]:
        """Return how long after its sending each piece was heard."""
        return [heard_at - sent_at for heard_at, sent_at in zip(heard, self.sent, strict=True)]
