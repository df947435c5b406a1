"""What a dialect reads out of the wire, in OpenTelemetry's GenAI words."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pytest_agentreplay.canonical import canonical_json, parse_json, read_canonical, write_json
from pytest_agentreplay.heads import media_type_of
from pytest_agentreplay.normalize import NormalRules
from pytest_agentreplay.records import Response, Usage

__all__ = [
    "Call",
    "Dialect",
    "Message",
    "Reply",
    "ToolCall",
    "ToolResult",
    "count_echoes",
    "join_messages",
    "looks_like_events",
    "read_events",
    "text_in",
]

# What a dialect's functions raise for input that is not of its format, whatever they make of it.
MALFORMED = (AttributeError, LookupError, TypeError, ValueError)
_EVENTS = re.compile(rb"\s*(?:data:|event:|:)")


@dataclass(eq=False, slots=True)
class ToolCall:
    """One call of a tool that a model asks for; ``written`` is what it is called with, as the wire has it: JSON text.

    Two calls are equal where their arguments are the same JSON, or the same text where one is none.  Read only.
    """

    id: str
    name: str
    written: str
    _arguments: str | None = field(default=None, init=False, repr=False)
    _value: Any = field(default=None, init=False, repr=False)

    @classmethod
    def of(cls, *, id: Any, name: Any, arguments: Any) -> ToolCall:  # noqa: A002 - the wire's own word
        """Return the call with its arguments, JSON text or a value."""
        written = arguments if isinstance(arguments, str) else write_json(arguments).decode("utf-8")
        return cls(str(id or ""), str(name or ""), written)

    @property
    def arguments(self) -> str:
        """The arguments as canonical JSON text where they are JSON, else as written."""
        if self._arguments is None:
            self._read()
        return self._arguments or ""

    @property
    def value(self) -> Any:
        """The arguments as a value where they are JSON, in canonical order, else as written."""
        if self._arguments is None:
            self._read()
        return self._value

    @property
    def canonical(self) -> bytes:
        """The canonical JSON of :attr:`value`."""
        value = self.value
        return canonical_json(value) if value is self.written else self.arguments.encode()

    def _read(self) -> None:
        try:
            canonical, self._value = read_canonical(self.written.encode("utf-8", "surrogatepass"))
            self._arguments = canonical.decode("utf-8")
        except ValueError:
            self._value = self._arguments = self.written

    def as_json(self) -> dict[str, str]:
        """Return the call as JSON values."""
        return {"id": self.id, "name": self.name, "arguments": self.arguments}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ToolCall):
            return NotImplemented
        is_same_tool = self.id == other.id and self.name == other.name
        return is_same_tool and (self.written == other.written or self.arguments == other.arguments)

    def __hash__(self) -> int:
        return hash((self.id, self.name))


class ToolResult(NamedTuple):
    """What a tool gave back, as the conversation carries it to the model."""

    id: str
    content: Any
    is_error: bool = False


class Message(NamedTuple):
    """One message of a conversation: its role, its text, the tool calls it makes and the results it brings.

    ``hosted_calls`` are those that the provider ran itself: nobody answers them.  ``is_spelled_out`` says that the text
    stands for content that is neither text nor a tool call.  Two messages are equal where role, text and tool calls
    are: the rest does not come back as it was when an answer is sent back.
    """

    role: str
    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    thinking: str = ""
    tool_results: tuple[ToolResult, ...] = ()
    is_spelled_out: bool = False
    hosted_calls: tuple[ToolCall, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return the message as JSON values, by the names of its fields."""
        calls = {name: [call.as_json() for call in getattr(self, name)] for name in ("tool_calls", "hosted_calls")}
        return {**self._asdict(), **calls, "tool_results": [result._asdict() for result in self.tool_results]}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Message) and self[:3] == other[:3]

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self[:3])


class Call(NamedTuple):
    """A request for a completion: the model, and the key of the array that holds the conversation.

    Under that key may be one text instead, which a user says.  ``base`` is the id of what the provider remembers and
    this request goes on from; ``named`` are the ids of items of earlier answers that it names instead of sending them.
    """

    model: str
    conversation: str
    stream: bool = False
    base: str = ""
    named: tuple[str, ...] = ()


class Reply(NamedTuple):
    """An answer: one message per choice, why the model stopped (``None`` where it has not), and the tokens it took.

    ``handles`` are the ids by which a request can go on from this answer: see :class:`Call`.  ``error`` is what the
    provider says went wrong, in an answer that began well.
    """

    messages: tuple[Message, ...] = ()
    finish_reason: str | None = None
    usage: Usage | None = None
    model: str | None = None
    handles: tuple[str, ...] = ()
    error: str | None = None


@dataclass(frozen=True)
class Dialect:
    """One wire format.

    ``path`` is a regular expression for the URL path.  ``read_call`` returns ``None`` when the body is not of this
    format after all; ``read_message`` reads one element of the conversation; ``read_reply`` reads the bytes of an
    answer given its media type, and returns ``None`` when there is no message in them.  ``stream_end`` matches what a
    complete stream ends in: an agent that has seen it has its answer, whether the connection is closed yet or not.
    ``groups`` says what a difference in a field is one in, for fields that other formats do not have or mean otherwise:
    ``system prompt``, ``model's own turn``, ``sampling``.
    A dialect of method ``GET`` has answers that were asked for before: the group ``id`` of its path is what it is
    known by among the handles of a :class:`Reply`.

    The functions may raise what they like of :data:`MALFORMED`; they are called through :meth:`call_in`,
    :meth:`message_in` and :meth:`reply_in`, which take it for an answer that is none.
    """

    name: str
    operation: str
    path: str
    rules: NormalRules
    read_call: Callable[[Mapping[str, Any]], Call | None]
    read_message: Callable[[Any], Message | None]
    read_reply: Callable[[bytes, str], Reply | None]
    providers: Mapping[str, str] = field(default_factory=dict)
    stream_end: re.Pattern[bytes] | None = None
    method: str = "POST"
    groups: Mapping[str, str] = field(default_factory=dict)

    def group_of(self, name: str) -> str | None:
        """Return what a difference in a field is one in, ``None`` where that is what it is in other formats."""
        return self.groups.get(name)

    def role_of(self, element: Any) -> str | None:
        """Return whose an element of a conversation is; what brings results of tools is a tool's."""
        message = self.message_in(element)
        return None if message is None else "tool" if message.tool_results else message.role

    def call_in(self, body: Mapping[str, Any]) -> Call | None:
        """Return the call that a request body makes, or ``None`` where it makes none or is malformed."""
        try:
            return self.read_call(body)
        except MALFORMED:
            return None

    def message_in(self, element: Any) -> Message | None:
        """Return what an element of a conversation says, or ``None`` where it is no message or malformed."""
        try:
            return self.read_message(element)
        except MALFORMED:
            return None

    def reply_in(self, response: Response) -> Reply | None:
        """Return the answer in a response, or ``None`` where it is a refusal, holds none or is malformed."""
        if response.status >= 400:
            return None
        try:
            reply = self.read_reply(response.content, media_type_of(response.headers))
        except MALFORMED:
            return None
        ending: Any = reply.finish_reason if reply is not None else None
        return reply if ending is None or isinstance(ending, str) else None

    def provider_of(self, host: str) -> str:
        """Return the provider's OpenTelemetry name by the host that serves this wire format."""
        for suffix, provider in self.providers.items():
            if host == suffix or host.endswith("." + suffix):
                return provider
        return self.name


def join_messages(first: Message, second: Message) -> Message:
    """Return what two messages of one role say together."""
    return Message(
        role=first.role,
        text=first.text + second.text,
        tool_calls=first.tool_calls + second.tool_calls,
        thinking="\n\n".join(filter(None, (first.thinking, second.thinking))),
        tool_results=first.tool_results + second.tool_results,
        hosted_calls=first.hosted_calls + second.hosted_calls,
    )


def count_echoes(messages: Iterable[Message | None], is_answer: Callable[[Message], bool]) -> int:
    """Return how many messages at the start are together an answer that is sent back; 0 where none is.

    Some formats send an answer back as several elements, reasoning and calls each by itself.
    """
    count, so_far = 0, None
    for position, message in enumerate(messages, start=1):
        if message is None or (so_far is not None and message.role != so_far.role):
            break
        so_far = message if so_far is None else join_messages(so_far, message)
        if is_answer(so_far):
            count = position
    return count


def text_in(content: Any) -> str:
    """Return the text of a message's content: text, or a list of parts as OpenAI's formats have them."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    parts = (part.get("text") or part.get("refusal") for part in content if isinstance(part, dict))
    return "".join(part for part in parts if isinstance(part, str))


def looks_like_events(content: bytes, media_type: str) -> bool:
    """Return whether an answer is a server-sent stream, by its media type or, where that is wrong, by its look."""
    return media_type == "text/event-stream" or _EVENTS.match(content) is not None


def read_events(content: bytes) -> Iterable[dict[str, Any]]:
    """Yield the JSON objects of a server-sent stream; what is no JSON object is passed over."""
    for line in content.splitlines():
        if line.startswith(b"data:"):
            try:
                value = parse_json(line[5:].strip())
            except ValueError:
                continue
            if isinstance(value, dict):
                yield value
