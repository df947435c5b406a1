"""Requests and tool calls as they are made, and as they are read."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import urlsplit

from pytest_agentreplay.addresses import Addresses
from pytest_agentreplay.canonical import content_hash
from pytest_agentreplay.dialects import Call, Dialect, Message
from pytest_agentreplay.records import Body, JsonBody, Request

__all__ = ["Asked", "Element", "Fields", "Head", "HttpRequest", "ToolCalled"]


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

    @property
    def retrieval(self) -> Dialect | None:
        """The dialect of an answer that is fetched again, if that is what is asked."""
        return next((dialect for dialect in self.candidates if self.method == "GET"), None)


class Asked:
    """A request as read: what it is known by at once, what a tape keeps when it is asked for.

    ``kind`` is ``model`` or ``http``; ``chain`` holds the element hashes of the conversation, empty where there is
    none.  A conversation that is one text has the hash of a user's message.  ``retrieves`` is the id of an earlier
    answer that this request only fetches.
    """

    __slots__ = (
        "_body",
        "_elements",
        "_fields",
        "_head",
        "_root",
        "call",
        "chain",
        "dialect",
        "hash",
        "kind",
        "retrieves",
    )

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
        self.dialect: Dialect | None = reading[0] if reading else head.retrieval
        self.call: Call | None = reading[1] if reading else None
        self.kind: Literal["model", "http"] = "model" if reading else "http"
        self.retrieves = _id_in(head) if self.call is None else ""
        self.chain = self._chain_of(self.call) if self.call else ()

    def _chain_of(self, call: Call) -> tuple[str, ...]:
        elements = self._elements.get(call.conversation)
        if elements is not None:
            return tuple([element.hash for element in elements])
        text = self._text_of(call)
        return () if text is None else (content_hash({"role": "user", "content": text}),)

    def _text_of(self, call: Call) -> str | None:
        value = self._fields.values.get(call.conversation) if self._fields else None
        return value if isinstance(value, str) else None

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
            lists = {key: Addresses(item.address for item in items) for key, items in self._elements.items()}
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
        elements = self._elements.get(self.call.conversation)
        return self.dialect.message_in(elements[index].value if elements else self._text_of(self.call))


def _id_in(head: Head) -> str:
    found = re.search(head.retrieval.path, urlsplit(head.url).path) if head.retrieval else None
    return found["id"] if found else ""
