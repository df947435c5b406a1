"""What a dialect reads out of the wire, in OpenTelemetry's GenAI words."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pytest_agentreplay.canonical import canonical_json, parse_json
from pytest_agentreplay.normalize import NormalRules
from pytest_agentreplay.records import Usage

__all__ = ["Call", "Dialect", "Message", "Reply", "ToolCall", "ToolResult", "read_events"]


@dataclass(frozen=True)
class ToolCall:
    """One call of a tool that a model asks for; ``arguments`` is canonical JSON text where it is JSON."""

    id: str
    name: str
    arguments: str

    @classmethod
    def of(cls, *, id: Any, name: Any, arguments: Any) -> ToolCall:  # noqa: A002 - the wire's own word
        """Return the call with its arguments, JSON text or a value, in canonical text."""
        return cls(id=str(id or ""), name=str(name or ""), arguments=_canonical_arguments(arguments))


@dataclass(frozen=True)
class ToolResult:
    """What a tool gave back, as the conversation carries it to the model."""

    id: str
    content: Any
    is_error: bool = False


@dataclass(frozen=True)
class Message:
    """One message of a conversation: its role, its text, the tool calls it makes and the results it brings.

    ``is_spelled_out`` says that the text stands for content that is neither text nor a tool call.
    """

    role: str
    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    thinking: str = field(default="", compare=False)
    tool_results: tuple[ToolResult, ...] = field(default=(), compare=False)
    is_spelled_out: bool = field(default=False, compare=False)


@dataclass(frozen=True)
class Call:
    """A request for a completion: the model, and the key of the array that holds the conversation."""

    model: str
    conversation: str
    stream: bool = False


@dataclass(frozen=True)
class Reply:
    """An answer: one message per choice, why the model stopped, and the tokens it took."""

    messages: tuple[Message, ...] = ()
    finish_reason: str | None = None
    usage: Usage | None = None
    model: str | None = None


@dataclass(frozen=True)
class Dialect:
    """One wire format.

    ``path`` is a regular expression for the URL path.  ``read_call`` returns ``None`` when the body is not of this
    format after all; ``read_message`` reads one element of the conversation; ``read_reply`` reads the bytes of an
    answer given its media type, and returns ``None`` when there is no message in them.  ``stream_end`` matches what a
    complete stream ends in: an agent that has seen it has its answer, whether the connection is closed yet or not.
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

    def provider_of(self, host: str) -> str:
        """Return the provider's OpenTelemetry name by the host that serves this wire format."""
        for suffix, provider in self.providers.items():
            if host == suffix or host.endswith("." + suffix):
                return provider
        return self.name


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


def _canonical_arguments(arguments: Any) -> str:
    if isinstance(arguments, str):
        try:
            arguments = parse_json(arguments.encode("utf-8", "surrogatepass"))
        except ValueError:
            return str(arguments)
    return canonical_json(arguments).decode("utf-8")
