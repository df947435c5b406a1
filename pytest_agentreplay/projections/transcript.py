"""Tool calls as conversations tell of them.

Where nobody wrapped a tool, the model's call and the result in a later request say what happened: nothing is known of
it beyond what the model wrote and read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias

from pytest_agentreplay.canonical import tool_call_hash
from pytest_agentreplay.dialects import ToolCall, ToolResult
from pytest_agentreplay.projections.timeline import Moment
from pytest_agentreplay.records import Entry, ExchangeStep, Phase, ToolStep

__all__ = ["ToldCall", "ToldCalls"]


@dataclass(eq=False, slots=True)
class ToldCall:
    """A tool's call as conversations tell of it: what a model asked for, and what a later request brought of it.

    It reads as the step that it would be on a tape, and :meth:`as_step` makes that: most readers want a name and a
    result, and to check and hash a thousand calls takes longer than to tell of them.  ``number`` is that of the call in
    the run, as in :meth:`Moment.calls`.
    """

    number: int
    call: ToolCall
    outcome: ToolResult
    brought_by: ExchangeStep

    kind: ClassVar[Literal["tool"]] = "tool"
    id: ClassVar[str] = ""
    error: ClassVar[None] = None

    @property
    def lane(self) -> str:
        """The conversation."""
        return self.brought_by.lane

    @property
    def phase(self) -> Phase:
        """The phase of the test."""
        return self.brought_by.phase

    @property
    def parent(self) -> str | None:
        """The call that it was made inside, by id."""
        return self.brought_by.parent

    @property
    def tool_use_id(self) -> str:
        """The id that the provider gave the call."""
        return self.call.id

    @property
    def name(self) -> str:
        """The tool's name."""
        return self.call.name

    @property
    def arguments(self) -> Any:
        """The arguments as a value, in canonical order."""
        return self.call.value

    @property
    def result(self) -> Any:
        """The result as the conversation has it."""
        return self.outcome.content

    @property
    def is_error(self) -> bool:
        """Whether the conversation calls the result an error."""
        return self.outcome.is_error

    def as_step(self) -> ToolStep:
        """Return the step of a tape that says the same."""
        return ToolStep(
            lane=self.lane,
            phase=self.phase,
            parent=self.parent,
            hash=tool_call_hash(self.name, self.call.canonical),
            tool_use_id=self.tool_use_id,
            name=self.name,
            arguments=self.arguments,
            result=self.result,
            is_error=self.is_error,
            source="transcript",
        )


_Numbered: TypeAlias = tuple[int, ToolCall]  # a call and its number in the run, as in Moment.calls


class ToldCalls:
    """Reads tool calls and their results out of conversations, and leaves out those that were recorded."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._asked: dict[tuple[str, str], list[_Numbered]] = {}  # by conversation and id
        self._made: set[int] = set()  # numbers of those that were recorded or told
        self._answered: set[int] = set()  # of those whose results a request has brought
        self._known: Counter[tuple[str, str]] = Counter()  # by conversation and id: an id can come up again
        for step in entries:
            if step.kind == "tool" and not step.lane:
                self._know(step)

    def match(self, step: Entry) -> int | None:
        """Return the number of the call that a recorded step makes or decides about, and note that it was made.

        ``None`` where it has no conversation, or that asked for no call by its id.
        """
        if not step.lane or (step.kind != "tool" and step.kind != "permission"):
            return None
        asked = self._asked.get((step.lane, step.tool_use_id), ()) if step.tool_use_id is not None else ()
        number, _ = _first(asked, but=self._made)
        if step.kind == "tool":
            self._made.add(number)
            if number or not asked:  # a call that is made again brings one result all the same
                self._know(step)
        return number or next((number for number, _ in reversed(asked)), None)

    def by(self, moment: Moment) -> Iterator[ToldCall]:
        """Yield the calls whose results a request brings, and note those that its answer asks for."""
        lane = moment.step.lane
        for message in moment.heard:
            for result in message.tool_results:
                number, call = _first(self._asked.get((lane, result.id), ()), but=self._answered)
                if call is None:
                    continue
                self._answered.add(number)
                if not self._was_recorded(lane, result.id):
                    self._made.add(number)
                    yield ToldCall(number, call, result, moment.step)
        for numbered in moment.calls():
            place = lane, numbered[1].id
            asked = self._asked.get(place)
            if asked is not None and asked[0][0] > moment.asked:
                asked.append(numbered)
            else:  # an id that is given out again stands for the calls of the later turn
                self._asked[place] = [numbered]

    def _know(self, step: ToolStep) -> None:
        self._known[step.lane, step.tool_use_id or ""] += 1

    def _was_recorded(self, lane: str, tool_use_id: str) -> bool:
        for place in ((lane, tool_use_id), ("", tool_use_id)) if self._known else ():
            if self._known[place] > 0:
                self._known[place] -= 1
                return True
        return False


def _first(calls: Iterable[_Numbered], *, but: Container[int]) -> tuple[int, ToolCall | None]:
    """Return the first call whose number is not among others, or 0 and ``None``."""
    for number, call in calls:
        if number not in but:
            return number, call
    return 0, None
