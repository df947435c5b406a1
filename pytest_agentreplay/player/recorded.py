"""A recording as the player sees it: lanes, positions, and what has been played."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from pytest_agentreplay.player.lanes import Lane
from pytest_agentreplay.player.tape import Tape
from pytest_agentreplay.reader import Reader
from pytest_agentreplay.records import Entry, ExchangeStep, PermissionStep, ToolStep

__all__ = ["Recorded", "recorded_for"]

# What must be asked for again; decisions and notes go with the step they belong to.
_Asked = ExchangeStep | ToolStep


class Recorded:
    """Positions of a tape by hash and by lane, and which live conversation follows which lane.  Not thread-safe.

    ``steps`` are all steps of the tape; exchanges carry their hashes under the live rules.
    """

    def __init__(self, tape: Tape, steps: Sequence[Entry]) -> None:
        self.tape = tape
        self.steps = steps
        self.played = [not isinstance(step, _Asked) for step in steps]
        self._lanes: dict[str, list[int]] = {}
        self._next: dict[str, int] = {}
        self._openings: dict[str, list[int]] = {}  # not played yet, as the tools below
        self._by_hash: dict[str, list[int]] = {}
        self._by_endpoint: dict[tuple[str, str], int] = {}
        self._tools: dict[str, list[int]] = {}
        self._inside: dict[str, list[int]] = {}
        self._by_id: dict[str, ToolStep] = {}
        self._followed: dict[Lane, str] = {}
        self._taken_along: set[int] = set()
        for position, step in enumerate(steps):
            if step.parent is not None:
                self._inside.setdefault(step.parent, []).append(position)
            if isinstance(step, ToolStep):
                self._tools.setdefault(step.hash, []).append(position)
                self._by_id.setdefault(step.id, step)
            elif isinstance(step, ExchangeStep):
                self._index_exchange(position, step)

    def knows(self, request_hash: str) -> bool:
        """Return whether a request with this hash was recorded, played or not."""
        return request_hash in self._by_hash

    def positions(self, request_hash: str) -> Sequence[int]:
        """Return where a request with this hash was recorded."""
        return self._by_hash.get(request_hash, ())

    def exchange(self, position: int) -> ExchangeStep:
        """Return the exchange at a position that this object has named."""
        step = self.steps[position]
        assert isinstance(step, ExchangeStep)
        return step

    def find(self, request_hash: str, lane: Lane, *, parent: str | None = None) -> int | None:
        """Return the unplayed step that answers a request: the next of its lane, or one that opens a lane.

        ``parent`` is the tool that the request is made inside; what was recorded inside a tool answers no other.
        """
        following = self.next_for(lane)
        if following is not None and self.exchange(following).hash == request_hash:
            return following
        return self._nearest(self._openings.get(request_hash, ()), lane=None, parent=parent)

    def find_tool(
        self, call_hash: str, *, lane: str, parent: str | None = None, tool_use_id: str | None = None
    ) -> int | None:
        """Return the first unplayed call of a tool, in its conversation if it is there, else anywhere.

        Of equal calls in one conversation, that with the provider's id comes before the first.
        """
        return self._nearest(self._tools.get(call_hash, ()), lane=lane, parent=parent, tool_use_id=tool_use_id)

    def last_call(self, call_hash: str, *, parent: str | None = None) -> ToolStep | None:
        """Return the last recorded call of a tool, played or not."""
        calls = (step for step in reversed(self.steps) if isinstance(step, ToolStep) and step.hash == call_hash)
        return next((step for step in calls if parent is not None or step.parent is None), None)

    def follows(self, lane: Lane) -> str | None:
        """Return the recorded lane that a live conversation follows."""
        if lane not in self._followed and lane.is_named and lane.label in self._lanes:
            self._followed[lane] = lane.label
        return self._followed.get(lane)

    def next_for(self, lane: Lane) -> int | None:
        """Return the position of the next unplayed step of the lane that a live conversation follows."""
        followed = self.follows(lane)
        return self.next_in(followed) if followed is not None else None

    def next_in(self, lane: str) -> int | None:
        """Return the position of a recorded lane's next unplayed step."""
        positions = self._lanes[lane]
        index = self._next.get(lane, 0)
        while index < len(positions) and self.played[positions[index]]:
            index += 1
        self._next[lane] = index
        return positions[index] if index < len(positions) else None

    def stand_ins(self, like: Callable[[Entry], bool], lane: Lane, *, parent: str | None) -> list[int]:
        """Return the unplayed steps that may answer a request that is not recorded: the next of its lane like it.

        A conversation that follows none yet may go on as any that nothing follows, those inside the same tool first.
        """
        followed = self.follows(lane)
        taken = set(self._followed.values())
        lanes = [followed] if followed is not None else [name for name in self._lanes if name not in taken]
        found = [place for name in lanes if (place := self._first_unplayed(self._lanes[name], like)) is not None]
        return [place for place in found if self.steps[place].parent == parent] or found

    def next_tool(self, name: str, *, lane: str, parent: str | None) -> int | None:
        """Return the first unplayed call of a tool whatever its arguments, in its conversation if it is there."""
        places = [place for places in self._tools.values() for place in places]
        return self._nearest(
            sorted(place for place in places if self._tool(place).name == name), lane=lane, parent=parent
        )

    def last_at(self, *, method: str, url: str) -> int | None:
        """Return the position of the last request to an endpoint, whatever its body."""
        return self._by_endpoint.get((method, url))

    def play(self, position: int, lane: Lane) -> ExchangeStep:
        """Mark the next step of its lane as played by a live conversation, and return it."""
        step = self.exchange(position)
        self._mark(position)
        self._followed[lane] = step.lane
        return step

    def play_tool(self, position: int, *, whole: bool) -> list[Entry]:
        """Mark a tool's call as played, and return it with the decision on it, and ``whole`` with what is inside it.

        What is inside stands first, as it does when it is recorded.
        """
        step = self.steps[position]
        self._mark(position)
        before = self.steps[position - 1] if position else step
        inside = self._inside_of(step) if whole and isinstance(step, ToolStep) else []
        self._taken_along.update(inside)
        for nested in inside:
            self._mark(nested)
        decision = [before] if isinstance(before, PermissionStep) else []
        return [*(self.steps[nested] for nested in inside), *decision, step]

    def tools_around(self, step: Entry) -> Iterator[ToolStep]:
        """Yield a tool's step itself, and the tools that a step was recorded inside, from the inmost."""
        around: Entry | None = step
        while around is not None:
            if isinstance(around, ToolStep):
                yield around
            around = self._by_id.get(around.parent) if around.parent else None

    def own_steps(self) -> Iterator[Entry]:
        """Yield the steps but those that went with a tool that was served."""
        yield from (step for position, step in enumerate(self.steps) if position not in self._taken_along)

    def unplayed(self) -> list[int]:
        """Return the positions that have not been played, in order."""
        return [position for position, played in enumerate(self.played) if not played]

    def _index_exchange(self, position: int, step: ExchangeStep) -> None:
        lane = self._lanes.setdefault(step.lane, [])
        lane.append(position)
        self._by_hash.setdefault(step.hash, []).append(position)
        self._by_endpoint[step.request.method, step.request.url] = position
        if len(lane) == 1:
            self._openings.setdefault(step.hash, []).append(position)

    def _first_unplayed(self, positions: Sequence[int], like: Callable[[Entry], bool]) -> int | None:
        return next((place for place in positions if not self.played[place] and like(self.steps[place])), None)

    def _tool(self, position: int) -> ToolStep:
        step = self.steps[position]
        assert isinstance(step, ToolStep)
        return step

    def _nearest(
        self, positions: Sequence[int], *, lane: str | None, parent: str | None, tool_use_id: str | None = None
    ) -> int | None:
        """Return the first of some positions: of those inside the same tool, of those in the same lane, or of all."""
        best, rating = None, -1
        highest = 6 + (tool_use_id is not None)
        for position in positions:
            step = self.steps[position]
            if step.parent is not None and parent is None:
                continue
            is_called = tool_use_id is not None and getattr(step, "tool_use_id", None) == tool_use_id
            found = 4 * (step.parent == parent) + 2 * (lane is None or step.lane == lane) + is_called
            if found > rating:
                best, rating = position, found
            if rating == highest:
                break
        return best

    def _mark(self, position: int) -> None:
        self.played[position] = True
        step = self.steps[position]
        waiting: list[int] | None = None
        if isinstance(step, ToolStep):
            waiting = self._tools.get(step.hash)
        elif isinstance(step, ExchangeStep):
            waiting = self._openings.get(step.hash)
        if waiting and position in waiting:
            waiting.remove(position)

    def _inside_of(self, tool: ToolStep) -> list[int]:
        found: list[int] = []
        pending = [tool.id]
        while pending:
            for position in self._inside.get(pending.pop(), ()):
                if not self.played[position]:
                    found.append(position)
                    step = self.steps[position]
                    pending += [step.id] if isinstance(step, ToolStep) else []
        return sorted(found)


def recorded_for(tape: Tape, reader: Reader, *, digest: str) -> Recorded:
    """Return a tape as the player sees it under a reader's rules.

    ``digest`` is that of the rules the tape was recorded under; where the reader's differs, each hash is derived again
    from the stored request or call.
    """
    if digest == reader.rules.digest:
        return Recorded(tape, tape.entries)
    return Recorded(tape, list(_rehashed(tape, reader)))


def _rehashed(tape: Tape, reader: Reader) -> Iterable[Entry]:
    for step in tape.entries:
        live = None
        if isinstance(step, ExchangeStep):
            live = reader.reread(step.request, tape.messages).hash
        elif isinstance(step, ToolStep):
            live = reader.read_tool_call(step.name, step.arguments).hash
        if live is None or live == getattr(step, "hash", None):
            yield step
        else:
            yield step.model_copy(update={"hash": live})
