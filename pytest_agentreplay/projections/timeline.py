"""A run as a person tells it: what was heard and said at each step, and what the whole took.

Every message is told once, where it first comes up: a step's own request repeats its conversation, the timeline does
not.  Steps that no dialect reads are told by their request and the status of their answer alone; what is no request,
tool calls above all, by what it says itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pytest_agentreplay.canonical import canonical_json, content_hash
from pytest_agentreplay.dialects import Call, Dialect, Dialects, Message, Reply, count_echoes
from pytest_agentreplay.normalize import media_type_of
from pytest_agentreplay.projections.tape import Tape
from pytest_agentreplay.projections.usage import sum_usage
from pytest_agentreplay.reader.asked import MALFORMED
from pytest_agentreplay.records import Entry, ExchangeStep, HttpStep, JsonBody, ModelStep, ToolStep, Usage

__all__ = ["Deed", "Moment", "Totals", "read_story", "read_timeline", "total"]


@dataclass(frozen=True)
class Moment:
    """One exchange as told.

    ``number`` counts the steps of the tape from 1.  ``heard`` are the messages that the request adds to its
    conversation, without an echo of the answer before it.  ``call`` is ``None`` where no dialect reads the request.
    ``inside`` is the name of the tool that it was made inside.
    """

    number: int
    step: ExchangeStep
    call: Call | None = None
    heard: tuple[Message, ...] = ()
    reply: Reply = field(default_factory=Reply)
    inside: str | None = None


@dataclass(frozen=True)
class Deed:
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
    tools = {step.id: step.name for step in tape.entries if isinstance(step, ToolStep)}
    return [
        replace(teller.tell(step, number=number), inside=tools.get(step.parent or ""))
        if isinstance(step, ModelStep | HttpStep)
        else Deed(number=number, step=step, inside=tools.get(step.parent or ""))
        for number, step in enumerate(tape.entries, start=1)
    ]


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


class _Teller:
    """Tells steps in their order, and remembers for each lane what has been told of it."""

    def __init__(self, dialects: Dialects, messages: Mapping[str, Any]) -> None:
        self._dialects = dialects
        self._messages = messages
        self._heard: dict[str, tuple[str, ...]] = {}
        self._replies: dict[str, Reply] = {}
        self._arrays: dict[tuple[str, str], tuple[tuple[str, ...], list[Any]]] = {}  # by lane and key, as of the last

    def tell(self, step: ExchangeStep, *, number: int) -> Moment:
        dialect = self._dialects.named(step.provider, step.operation)
        if dialect is not None and step.kind == "http":
            return Moment(number=number, step=step, reply=self._awaited(step, dialect))
        call = self._read_call(step, dialect) if dialect else None
        if dialect is None or call is None:
            return Moment(number=number, step=step)
        heard = self._hear(step, dialect, call)
        reply = _read_reply(step, dialect)
        self._replies[step.lane] = reply
        return Moment(number=number, step=step, call=call, heard=heard, reply=reply)

    def _awaited(self, step: ExchangeStep, dialect: Dialect) -> Reply:
        """Return an answer that was fetched, unless it was whole before and has been told."""
        before = self._replies.get(step.lane, Reply())
        if before.finish_reason is not None:
            return Reply()
        self._replies[step.lane] = _read_reply(step, dialect)
        return self._replies[step.lane]

    def _read_call(self, step: ExchangeStep, dialect: Dialect) -> Call | None:
        body = step.request.body
        if not isinstance(body, JsonBody):
            return None
        lists = {key: self._elements(step.lane, key, addresses) for key, addresses in body.lists.items()}
        return dialect.read_call({**body.fields, **lists})

    def _hear(self, step: ExchangeStep, dialect: Dialect, call: Call) -> tuple[Message, ...]:
        """Return the messages that a request adds to what its lane has heard and said."""
        before, known = self._replies.get(step.lane, Reply()), self._heard.get(step.lane, ())
        addresses, elements = self._conversation(step, call)
        self._heard[step.lane] = addresses
        if addresses[: len(known)] != known or call.base in before.handles:  # all of it is new
            known = ()
        new = [(read, element) for element in elements[len(known) :] if (read := dialect.read_message(element))]
        echoes = count_echoes((message for message, _ in new), lambda echo: echo in before.messages)
        return tuple(_spelled_out(message, element) for message, element in new[echoes:])

    def _conversation(self, step: ExchangeStep, call: Call) -> tuple[tuple[str, ...], list[Any]]:
        """Return the addresses of a conversation's elements, and the elements; of one that is a text, the text."""
        body = step.request.body
        if not isinstance(body, JsonBody):
            return (), []
        text = body.fields.get(call.conversation)
        if isinstance(text, str):
            return (content_hash({"role": "user", "content": text}),), [text]
        addresses = body.lists.get(call.conversation, ())
        return addresses, self._elements(step.lane, call.conversation, addresses)

    def _elements(self, lane: str, key: str, addresses: tuple[str, ...]) -> list[Any]:
        """Return what an array of a request holds: most of the time what it held before in its lane, and some more."""
        known, elements = self._arrays.get((lane, key), ((), []))
        if addresses[: len(known)] != known:
            known, elements = (), []
        elements.extend(self._messages[address] for address in addresses[len(known) :])
        self._arrays[lane, key] = addresses, elements
        return elements


def _read_reply(step: ExchangeStep, dialect: Dialect) -> Reply:
    response = step.response
    if response is None or response.status >= 400:
        return Reply()
    try:
        return dialect.read_reply(response.content, media_type_of(response.headers)) or Reply()
    except MALFORMED:
        return Reply()


def _spelled_out(message: Message, element: Any) -> Message:
    """Return a message that says something: what is neither text nor a call is told as JSON, or by its type."""
    if message.text or message.tool_calls or message.hosted_calls or message.thinking or not isinstance(element, dict):
        return message
    if element.get("content"):
        return replace(message, text=canonical_json(element["content"]).decode("utf-8"), is_spelled_out=True)
    if isinstance(element.get("type"), str):
        return replace(message, text=f"[{element['type']}]", is_spelled_out=True)
    return message
