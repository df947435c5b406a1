"""A run as a person tells it: what was heard and said at each step, and what the whole took.

Every message is told once, where it first comes up: a step's own request repeats its conversation, the timeline does
not.  Steps that no dialect reads are told by their request and the status of their answer alone; what is no request,
tool calls above all, by what it says itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pytest_agentreplay.canonical import canonical_json
from pytest_agentreplay.dialects import Call, Dialect, Dialects, Message, Reply
from pytest_agentreplay.normalize import media_type_of
from pytest_agentreplay.projections.tape import Tape
from pytest_agentreplay.projections.usage import sum_usage
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
        usage=sum_usage(step.usage for step in tape.exchanges if isinstance(step, ModelStep)),
        seconds=max(ends, default=None),
    )


class _Teller:
    """Tells steps in their order, and remembers for each lane what has been told of it."""

    def __init__(self, dialects: Dialects, messages: Mapping[str, Any]) -> None:
        self._dialects = dialects
        self._messages = messages
        self._heard: dict[str, tuple[str, ...]] = {}
        self._said: dict[str, tuple[Message, ...]] = {}

    def tell(self, step: ExchangeStep, *, number: int) -> Moment:
        dialect = self._dialects.named(step.provider, step.operation) if step.kind == "model" else None
        call = self._read_call(step, dialect) if dialect else None
        if dialect is None or call is None:
            return Moment(number=number, step=step)
        heard = self._hear(step, dialect, call)
        reply = _read_reply(step, dialect)
        self._said[step.lane] = reply.messages
        return Moment(number=number, step=step, call=call, heard=heard, reply=reply)

    def _read_call(self, step: ExchangeStep, dialect: Dialect) -> Call | None:
        body = step.request.body
        if not isinstance(body, JsonBody):
            return None
        lists = {key: [self._messages[address] for address in found] for key, found in body.lists.items()}
        return dialect.read_call({**body.fields, **lists})

    def _hear(self, step: ExchangeStep, dialect: Dialect, call: Call) -> tuple[Message, ...]:
        """Return the messages that a request adds to what its lane has heard and said."""
        body = step.request.body
        addresses = body.lists.get(call.conversation, ()) if isinstance(body, JsonBody) else ()
        known = self._heard.get(step.lane, ())
        self._heard[step.lane] = addresses
        new = addresses[len(known) :] if addresses[: len(known)] == known else addresses
        heard = tuple(_read_messages([self._messages[address] for address in new], dialect))
        return heard[1:] if heard and heard[0] in self._said.get(step.lane, ()) else heard


def _read_reply(step: ExchangeStep, dialect: Dialect) -> Reply:
    response = step.response
    if response is None or response.status >= 400:
        return Reply()
    return dialect.read_reply(response.content, media_type_of(response.headers)) or Reply()


def _read_messages(elements: Iterable[Any], dialect: Dialect) -> Iterable[Message]:
    for element in elements:
        message = dialect.read_message(element)
        if message is not None:
            yield _spelled_out(message, element)


def _spelled_out(message: Message, element: Any) -> Message:
    """Return a message that says something: content that is neither text nor a tool call is told as JSON."""
    if message.text or message.tool_calls or not isinstance(element, dict) or not element.get("content"):
        return message
    return replace(message, text=canonical_json(element["content"]).decode("utf-8"), is_spelled_out=True)
