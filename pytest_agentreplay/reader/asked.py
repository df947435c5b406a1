"""Requests and tool calls as they are made, and as they are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import urlsplit

from pytest_agentreplay.dialects import Call, Dialect, Message
from pytest_agentreplay.records import Body, JsonBody, Request

__all__ = ["MALFORMED", "Asked", "Element", "Fields", "Head", "HttpRequest", "ToolCalled"]

# What a dialect runs into where a message or an answer breaks its own format.
MALFORMED = (AttributeError, LookupError, TypeError, ValueError)


@dataclass(frozen=True)
class HttpRequest:
    """A request as the client made it."""

    method: str
    url: str
    headers: tuple[tuple[str, str], ...]
    content: bytes


@dataclass(frozen=True, slots=True)
class ToolCalled:
    """A call of a tool as read: redacted, with its hash."""

    name: str
    arguments: Any
    hash: str


@dataclass(frozen=True, slots=True)
class Element:
    """One element of a top-level array: its hash, the address it is kept under, and its redacted value.

    ``has_client_ids`` says that ids in it may have been made by the client: then the hash depends on its neighbours.
    """

    hash: str
    address: str
    value: Any
    has_client_ids: bool


@dataclass(frozen=True, slots=True)
class Fields:
    """What a JSON body holds besides arrays: redacted values, and the canonical JSON of their normal forms."""

    values: dict[str, Any]
    canonical: dict[str, bytes]


@dataclass(frozen=True, slots=True)
class Head:
    """What stands before the body of a request; ``replaced`` are keys of the body that a rule may replace whole."""

    method: str
    url: str
    headers: dict[str, str]
    media_type: str
    canonical: bytes
    candidates: tuple[Dialect, ...]
    replaced: frozenset[str]


class Asked:
    """A request as read: what it is known by at once, what a tape keeps when it is asked for.

    ``kind`` is ``model`` or ``http``; ``chain`` holds the element hashes of the conversation, empty where there is
    none.
    """

    __slots__ = ("_body", "_elements", "_fields", "_head", "_root", "call", "chain", "dialect", "hash", "kind")

    def __init__(
        self,
        head: Head,
        *,
        hash: str,  # noqa: A002 - the field's own word
        body: Body | None = None,
        root: Literal["object", "array", "scalar"] = "object",
        fields: Fields | None = None,
        elements: Mapping[str, Sequence[Element]] | None = None,
        reading: tuple[Dialect, Call] | None = None,
    ) -> None:
        self._head, self._body, self._root, self._fields, self._elements = head, body, root, fields, elements or {}
        self.hash = hash
        self.dialect: Dialect | None = reading[0] if reading else None
        self.call: Call | None = reading[1] if reading else None
        self.kind: Literal["model", "http"] = "model" if reading else "http"
        conversation = self._elements.get(self.call.conversation, ()) if self.call else ()
        self.chain = tuple([element.hash for element in conversation])

    @property
    def url(self) -> str:
        """The URL in normal form, redacted."""
        return self._head.url

    @property
    def method(self) -> str:
        """The method, in upper case."""
        return self._head.method

    @property
    def provider(self) -> str:
        """The provider's name: OpenTelemetry's where a dialect reads the request, else the host."""
        host = urlsplit(self._head.url).hostname or ""
        return self.dialect.provider_of(host) if self.dialect else host

    @property
    def operation(self) -> str:
        """The operation: the dialect's, else the method."""
        return self.dialect.operation if self.dialect else self._head.method

    @property
    def request(self) -> Request:
        """The request as a tape keeps it."""
        body = self._body
        if body is None:
            values = self._fields.values if self._fields else {}
            lists = {key: tuple(item.address for item in items) for key, items in self._elements.items()}
            body = JsonBody(root=self._root, fields=values, lists=lists)
        head = self._head
        return Request(method=head.method, url=head.url, headers=head.headers, body=body)

    @property
    def messages(self) -> dict[str, Any]:
        """The redacted elements of the body's arrays by address, in order of appearance."""
        return {element.address: element.value for items in self._elements.values() for element in items}

    def message_at(self, index: int) -> Message | None:
        """Return one element of the conversation as the dialect reads it."""
        if self.call is None or self.dialect is None:
            return None
        try:
            return self.dialect.read_message(self._elements[self.call.conversation][index].value)
        except MALFORMED:
            return None
