"""A recording as the player sees it: lanes, positions, and what has been played."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from pytest_agentreplay.player.lanes import Lane
from pytest_agentreplay.player.tape import Tape
from pytest_agentreplay.reader import Reader
from pytest_agentreplay.records import ExchangeStep

__all__ = ["Recorded", "recorded_for"]


class Recorded:
    """Positions of a tape by hash and by lane, and which live conversation follows which lane.  Not thread-safe.

    ``steps`` carry their hashes under the live rules.
    """

    def __init__(self, tape: Tape, steps: Sequence[ExchangeStep]) -> None:
        self.tape = tape
        self.steps = steps
        self.played = [False] * len(steps)
        self._lanes: dict[str, list[int]] = {}
        self._next: dict[str, int] = {}
        self._openings: dict[str, deque[int]] = {}
        self._by_hash: dict[str, list[int]] = {}
        self._by_endpoint: dict[tuple[str, str], int] = {}
        self._followed: dict[Lane, str] = {}
        for position, step in enumerate(steps):
            lane = self._lanes.setdefault(step.lane, [])
            lane.append(position)
            self._by_hash.setdefault(step.hash, []).append(position)
            self._by_endpoint[step.request.method, step.request.url] = position
            if len(lane) == 1:
                self._openings.setdefault(step.hash, deque()).append(position)

    def knows(self, request_hash: str) -> bool:
        """Return whether a request with this hash was recorded, played or not."""
        return request_hash in self._by_hash

    def positions(self, request_hash: str) -> Sequence[int]:
        """Return where a request with this hash was recorded."""
        return self._by_hash.get(request_hash, ())

    def find(self, request_hash: str, lane: Lane) -> int | None:
        """Return the unplayed step that answers a request: the next of its lane, or one that opens a lane."""
        following = self.next_for(lane)
        if following is not None and self.steps[following].hash == request_hash:
            return following
        opening = self._openings.get(request_hash)
        return opening[0] if opening else None

    def next_for(self, lane: Lane) -> int | None:
        """Return the position of the next unplayed step of the lane that a live conversation follows."""
        followed = self._followed.get(lane)
        return self.next_in(followed) if followed is not None else None

    def next_in(self, lane: str) -> int | None:
        """Return the position of a recorded lane's next unplayed step."""
        positions = self._lanes[lane]
        index = self._next.get(lane, 0)
        return positions[index] if index < len(positions) else None

    def last_at(self, *, method: str, url: str) -> int | None:
        """Return the position of the last request to an endpoint, whatever its body."""
        return self._by_endpoint.get((method, url))

    def play(self, position: int, lane: Lane) -> ExchangeStep:
        """Mark the next step of its lane as played by a live conversation, and return it."""
        step = self.steps[position]
        index = self._next.get(step.lane, 0)
        if index == 0:
            self._openings[step.hash].remove(position)
        self._next[step.lane] = index + 1
        self.played[position] = True
        self._followed[lane] = step.lane
        return step

    def unplayed(self) -> list[int]:
        """Return the positions that have not been played, in order."""
        return [position for position, played in enumerate(self.played) if not played]


def recorded_for(tape: Tape, reader: Reader, *, digest: str) -> Recorded:
    """Return a tape as the player sees it under a reader's rules.

    ``digest`` is that of the rules the tape was recorded under; where the reader's differs, each hash is derived again
    from the stored request.
    """
    if digest == reader.rules.digest:
        return Recorded(tape, tape.exchanges)
    steps = []
    for step in tape.exchanges:
        live = reader.reread(step.request, tape.messages).hash
        steps.append(step if step.hash == live else step.model_copy(update={"hash": live}))
    return Recorded(tape, steps)
