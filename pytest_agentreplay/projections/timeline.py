"""A run as a person tells it: what was heard and said at each step, and what the whole took.

Every message is told once, where it first comes up: a step's own request repeats its conversation, the timeline does
not.  Steps that no dialect reads are told by their request and the status of their answer alone; what is no request,
tool calls above all, by what it says itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from pytest_agentreplay.addresses import Addresses
from pytest_agentreplay.canonical import canonical_json, content_hash
from pytest_agentreplay.dialects import Call, Dialect, Dialects, Message, Reply, ToolCall, count_echoes
from pytest_agentreplay.projections.tape import Tape
from pytest_agentreplay.projections.usage import sum_usage
from pytest_agentreplay.records import Entry, ExchangeStep, JsonBody, ToolStep, Usage

__all__ = ["Deed", "Moment", "Totals", "read_story", "read_timeline", "total"]


_NO_REPLY = Reply()
_NOTHING = Addresses()


class Moment(NamedTuple):
    """One exchange as told.

    ``number`` counts the steps of the tape from 1.  ``heard`` are the messages that the request adds to its
    conversation, without an echo of the answer before it.  ``call`` is ``None`` where no dialect reads the request.
    ``inside`` is the name of the tool that it was made inside.  ``asked`` is how many tool calls earlier answers
    asked for, where this one holds messages.
    """

    number: int
    step: ExchangeStep
    inside: str | None = None
    call: Call | None = None
    heard: tuple[Message, ...] = ()
    reply: Reply = _NO_REPLY
    asked: int = 0

    def calls(self) -> Iterator[tuple[int, ToolCall]]:
        """Yield the tool calls that the answer asks for, each with its number in the run, from 1."""
        number = self.asked
        for message in self.reply.messages:
            for call in message.tool_calls:
                number += 1
                yield number, call


class Deed(NamedTuple):
    """One step that is no exchange: a tool's call, a decision on one, a note.

    ``inside`` is the name of the tool that it was done inside.
    """

    number: int
    step: Entry
    inside: str | None = None


@dataclass(frozen=True)
class Totals:
    """What a run took: model calls, requests, tool calls, conversations, tokens, and seconds to its last answer."""

    turns: int
    requests: int
    tools: int
    lanes: int
    usage: Usage
    seconds: float | None


def read_story(tape: Tape, dialects: Dialects) -> list[Moment | Deed]:
    """Return what happened at each step of a tape, in its order."""
    teller = _Teller(dialects, tape.messages)
    tools = {step.id: step.name for step in tape.entries if step.kind == "tool"}
    story: list[Moment | Deed] = []
    for number, step in enumerate(tape.entries, start=1):
        inside = tools.get(step.parent) if step.parent else None
        if step.kind == "model" or step.kind == "http":
            story.append(teller.tell(step, number=number, inside=inside))
        else:
            story.append(Deed(number, step, inside))
    return story


def read_timeline(tape: Tape, dialects: Dialects) -> list[Moment]:
    """Return what happened at each exchange of a tape, in its order."""
    return [told for told in read_story(tape, dialects) if isinstance(told, Moment)]


def total(tape: Tape) -> Totals:
    """Return what a tape adds up to.  A count of tokens that no answer named is ``None``, never 0."""
    ends = [step.timing.began + step.timing.took for step in tape.entries if step.timing]
    return Totals(
        turns=sum(step.kind == "model" for step in tape.exchanges),
        requests=len(tape.exchanges),
        tools=sum(isinstance(step, ToolStep) for step in tape.entries),
        lanes=len({step.lane for step in tape.exchanges}),
        usage=sum_usage(step.usage for step in tape.exchanges),
        seconds=max(ends, default=None),
    )


# What a request holds in one of its arrays, and how many of these elements the request before it in its lane held.
_Array: TypeAlias = tuple[Sequence[Any], int]


class _Teller:
    """Tells steps in their order, and remembers for each lane what has been told of it."""

    def __init__(self, dialects: Dialects, messages: Mapping[str, Any]) -> None:
        self._dialects = dialects
        self._messages = messages
        self._asked = 0
        self._replies: dict[str, Reply] = {}
        self._arrays: dict[tuple[str, str], tuple[Addresses, list[Any]]] = {}  # by lane and key, as of the last

    def tell(self, step: ExchangeStep, *, number: int, inside: str | None) -> Moment:
        dialect = self._dialects.named(step.provider, step.operation)
        if dialect is None:
            return Moment(number, step, inside)
        if step.kind == "http":
            reply = self._awaited(step, dialect)
            return Moment(number, step, inside, reply=reply, asked=self._count(reply))
        body = step.request.body
        if body.kind != "json":
            return Moment(number, step, inside)
        value, known = dict(body.fields), {}
        for key, addresses in body.lists.items():
            value[key], known[key] = self._array(step.lane, key, addresses, self._messages)
        call = dialect.call_in(value)
        if call is None:
            return Moment(number, step, inside)
        key = call.conversation
        conversation = (value[key], known[key]) if key in known else self._text(step.lane, body, key)
        heard = self._hear(step.lane, dialect, call, conversation)
        reply = self._replies[step.lane] = _read_reply(step, dialect)
        return Moment(number, step, inside, call, heard, reply, self._count(reply))

    def _count(self, reply: Reply) -> int:
        """Return how many tool calls were asked for before an answer, and count its own."""
        before = self._asked
        for message in reply.messages:
            self._asked += len(message.tool_calls)
        return before

    def _awaited(self, step: ExchangeStep, dialect: Dialect) -> Reply:
        """Return an answer that was fetched, unless it was whole before and has been told."""
        before = self._replies.get(step.lane, _NO_REPLY)
        if before.finish_reason is not None:
            return _NO_REPLY
        self._replies[step.lane] = _read_reply(step, dialect)
        return self._replies[step.lane]

    def _hear(self, lane: str, dialect: Dialect, call: Call, conversation: _Array) -> tuple[Message, ...]:
        """Return the messages that a request adds to what its lane has heard and said."""
        before = self._replies.get(lane, _NO_REPLY)
        elements, known = conversation
        if call.base and call.base in before.handles:  # all of it is new
            known = 0
        new = [(message, element) for element in elements[known:] if (message := dialect.message_in(element))]
        if before.messages:
            del new[: count_echoes([message for message, _ in new], before.messages.__contains__)]
        return tuple([_spelled_out(message, element) for message, element in new])

    def _array(self, lane: str, key: str, addresses: Addresses, messages: Mapping[str, Any]) -> _Array:
        """Return what an array of a request holds: most of the time what it held before in its lane, and some more."""
        known, elements = self._arrays.get((lane, key), (_NOTHING, []))
        if not addresses.goes_on_from(known):
            known, elements = _NOTHING, []
        elements.extend([messages[address] for address in addresses.after(len(known))])
        self._arrays[lane, key] = addresses, elements
        return elements, len(known)

    def _text(self, lane: str, body: JsonBody, key: str) -> _Array:
        """Return the text that stands for a conversation, as the message that it is."""
        text = body.fields.get(key)
        if not isinstance(text, str):
            return (), 0
        message = {"role": "user", "content": text}
        address = content_hash(message)
        return self._array(lane, key, Addresses([address]), {address: message})


def _read_reply(step: ExchangeStep, dialect: Dialect) -> Reply:
    return (dialect.reply_in(step.response) if step.response is not None else None) or _NO_REPLY


def _spelled_out(message: Message, element: Any) -> Message:
    """Return a message that says something: what is neither text nor a call is told as JSON, or by its type."""
    if message.text or message.tool_calls or message.hosted_calls or message.thinking or not isinstance(element, dict):
        return message
    if element.get("content"):
        return message._replace(text=canonical_json(element["content"]).decode("utf-8"), is_spelled_out=True)
    if isinstance(element.get("type"), str):
        return message._replace(text=f"[{element['type']}]", is_spelled_out=True)
    return message
