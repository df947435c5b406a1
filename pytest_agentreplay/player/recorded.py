"""The recording as the player sees it: lanes, positions, and what has been played."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from pytest_agentreplay.player.tape import Tape
from pytest_agentreplay.records import ExchangeStep

__all__ = ["Recorded"]


class Recorded:
    """Positions of a tape by hash and by lane, with what has been played.  Not thread-safe.

    ``hashes`` are the steps' hashes under the live rules: the tape's own, unless the rules have changed since.
    """

    def __init__(self, tape: Tape, hashes: Sequence[str]) -> None:
        self.steps: Sequence[ExchangeStep] = tape.exchanges
        self.hashes = hashes
        self.played = [False] * len(self.steps)
        self._lanes: dict[str, list[int]] = {}
        self._next: dict[str, int] = {}
        self._openings: dict[str, deque[int]] = {}
        self._by_hash: dict[str, list[int]] = {}
        for position, step in enumerate(self.steps):
            lane = self._lanes.setdefault(step.lane, [])
            lane.append(position)
            self._by_hash.setdefault(hashes[position], []).append(position)
            if len(lane) == 1:
                self._openings.setdefault(hashes[position], deque()).append(position)

    def knows(self, request_hash: str) -> bool:
        """Return whether a request with this hash was recorded, played or not."""
        return request_hash in self._by_hash

    def positions(self, request_hash: str) -> Sequence[int]:
        """Return where a request with this hash was recorded."""
        return self._by_hash.get(request_hash, ())

    def next_in(self, lane: str | None) -> int | None:
        """Return the position of a lane's next unplayed step."""
        if lane is None:
            return None
        positions = self._lanes[lane]
        index = self._next.get(lane, 0)
        return positions[index] if index < len(positions) else None

    def opening(self, request_hash: str) -> int | None:
        """Return the position of the first unplayed lane that a request with this hash opens."""
        found = self._openings.get(request_hash)
        return found[0] if found else None

    def play(self, position: int) -> ExchangeStep:
        """Mark the next step of its lane as played, and return it."""
        step = self.steps[position]
        index = self._next.get(step.lane, 0)
        if index == 0:
            self._openings[self.hashes[position]].remove(position)
        self._next[step.lane] = index + 1
        self.played[position] = True
        return step

    def unplayed(self) -> list[int]:
        """Return the positions that have not been played, in order."""
        return [position for position, played in enumerate(self.played) if not played]
