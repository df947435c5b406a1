"""The recorded exchanges of the corpus: read, served by a local server, and changed in one place."""

from __future__ import annotations

import base64
import json
import random
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import parse_qsl, unquote, urlsplit

from tests.support.server import Answer, Seen

PathTo: TypeAlias = tuple[str | int, ...]

PASS_HEADER = "x-pass"  # which client asks, so that each finds the answers in their recorded order
_NOT_SENT = frozenset({"host", "connection", "content-length", "transfer-encoding", "accept-encoding"})
_NOT_ANSWERED = frozenset({"connection", "content-length", "content-encoding", "transfer-encoding"})
_STREAMS = ("text/event-stream", "application/vnd.amazon.eventstream", "application/x-ndjson")
_MOST_CHUNKS = 12

# What carries no meaning to the model (the project's specification, section 3): counted by presence, or not at all.
_BY_PRESENCE = frozenset({"metadata", "user", "safety_identifier", "prompt_cache_key"})
_OPAQUE = frozenset({"thoughtSignature", "signature", "encrypted_content"})
_SECRET = frozenset({"password"})  # a secret by its name: redacted before anything is hashed


@dataclass(frozen=True)
class Exchange:
    """One request and its answer, as some public project recorded it."""

    file: str
    index: int
    method: str
    url: str
    request_headers: tuple[tuple[str, str], ...]
    request_body: bytes
    status: int
    response_headers: tuple[tuple[str, str], ...]
    response_body: bytes

    @property
    def name(self) -> str:
        return f"{self.file}#{self.index}"

    @property
    def is_event_stream(self) -> bool:
        path = urlsplit(self.url).path
        return response_header(self, "content-type").startswith(_STREAMS) or path.endswith("-stream")

    @property
    def is_chunked(self) -> bool:
        return self.is_event_stream or response_header(self, "transfer-encoding") == "chunked"

    def sent_to(self, base: str) -> dict[str, Any]:
        """Return the request as an inner test makes it: the host replaced, everything else as recorded."""
        parts = urlsplit(self.url)
        return {
            "name": self.name,
            "method": self.method,
            "url": base + parts.path + (f"?{parts.query}" if parts.query else ""),
            "headers": [pair for pair in self.request_headers if pair[0].lower() not in _NOT_SENT],
            "body": base64.b64encode(self.request_body).decode(),
        }


def response_header(exchange: Exchange, name: str) -> str:
    """Return the value of a header of the recorded answer, empty where there is none."""
    return next((value for key, value in exchange.response_headers if key.lower() == name), "")


def read_exchanges(path: Path) -> dict[str, list[Exchange]]:
    """Return the exchanges of each source file, in recorded order."""
    files: dict[str, list[Exchange]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        exchange = Exchange(
            file=row["file"],
            index=row["index"],
            method=row["method"],
            url=row["url"],
            request_headers=tuple(row["request_headers"].items()),
            request_body=base64.b64decode(row["request_body"] or ""),
            status=row["status"],
            response_headers=tuple(row["response_headers"].items()),
            response_body=base64.b64decode(row["response_body"] or ""),
        )
        files.setdefault(exchange.file, []).append(exchange)
    return files


def answering(exchanges: Iterable[Exchange]) -> Callable[[Seen], Answer]:
    """Return a function that answers a request as recorded: equal ones in order, for each pass anew."""
    recorded: dict[tuple[Any, ...], list[Exchange]] = {}
    for exchange in exchanges:
        parts = urlsplit(exchange.url)
        key = _key(exchange.method, parts.path, parts.query, exchange.request_body)
        recorded.setdefault(key, []).append(exchange)
    waiting: dict[tuple[Any, ...], deque[Exchange]] = {}

    def respond(seen: Seen) -> Answer:
        parts = urlsplit(seen.path)
        key = _key(seen.method, parts.path, parts.query, seen.body)
        queue = waiting.setdefault((seen.headers[PASS_HEADER], *key), deque(recorded.get(key, ())))
        if not queue:
            return Answer(status=599, body=f"nothing is left for {seen.method} {seen.path}".encode())
        return _answer_of(queue.popleft())

    return respond


def _key(method: str, path: str, query: str, body: bytes) -> tuple[Any, ...]:
    return method, unquote(path), tuple(parse_qsl(query, keep_blank_values=True)), body


def _answer_of(exchange: Exchange) -> Answer:
    headers = tuple(pair for pair in exchange.response_headers if pair[0].lower() not in _NOT_ANSWERED)
    chunks: Sequence[bytes] = _uneven_chunks(exchange) if exchange.is_chunked else [exchange.response_body]
    if response_header(exchange, "content-encoding") == "gzip":
        headers, chunks = (*headers, ("content-encoding", "gzip")), _gzipped(chunks)
    if exchange.is_chunked:
        return Answer(status=exchange.status, headers=headers, chunks=chunks)
    return Answer(status=exchange.status, headers=headers, body=b"".join(chunks))


def _uneven_chunks(exchange: Exchange) -> list[bytes]:
    """Cut an answer anywhere, also inside an event or a character, the same way each time."""
    body = exchange.response_body
    chance = random.Random(exchange.name)
    places = sorted(chance.sample(range(1, len(body)), min(_MOST_CHUNKS - 1, len(body) - 1))) if len(body) > 1 else []
    return [body[start:end] for start, end in zip([0, *places], [*places, len(body)], strict=True) if end > start]


def _gzipped(chunks: Sequence[bytes]) -> list[bytes]:
    compressor = zlib.compressobj(wbits=31)
    packed = [compressor.compress(chunk) + compressor.flush(zlib.Z_SYNC_FLUSH) for chunk in chunks]
    return [*packed, compressor.flush()]


def leaves_of(value: Any, path: PathTo = ()) -> Iterator[tuple[PathTo, Any]]:
    """Yield each value of a JSON document that holds no other, with its path; an empty container is one."""
    if isinstance(value, dict) and value:
        for key, element in value.items():
            yield from leaves_of(element, (*path, key))
    elif isinstance(value, list) and value:
        for index, element in enumerate(value):
            yield from leaves_of(element, (*path, index))
    else:
        yield path, value


def counts(path: PathTo, leaf: Any, document: Any) -> bool:
    """Return whether a leaf is hashed by its value: whether it is outside what is redacted or normalised by default."""
    if path and (path[0] in _BY_PRESENCE or path[-1] in _OPAQUE | _SECRET):
        return False
    if isinstance(document, dict) and "jsonrpc" in document and (path == ("id",) or path[-1:] == ("progressToken",)):
        return False
    return not (isinstance(leaf, str) and leaf.startswith("pyd_ai_"))


def another(leaf: Any) -> Any:
    """Return a value that differs from ``leaf`` as little as its type allows."""
    if isinstance(leaf, bool):
        return not leaf
    if isinstance(leaf, int | float):
        return leaf + 1
    if isinstance(leaf, str):
        return leaf + "~"
    return {"more": 0} if isinstance(leaf, dict) else ["more"] if isinstance(leaf, list) else "more"


def with_leaf(value: Any, path: PathTo, leaf: Any) -> Any:
    """Return a copy of a document with one leaf replaced."""
    if not path:
        return leaf
    step, *rest = path
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[step] = with_leaf(value[step], tuple(rest), leaf)
    return copy


def changed(exchange: Exchange, base: str) -> dict[str, Any]:
    """Return the request of an exchange with one thing changed: a leaf of its body, a byte of a part, a path segment.

    ``changed`` is the place as a report names it.
    """
    request = exchange.sent_to(base)
    if not exchange.request_body:
        path, question, query = request["url"].partition("?")
        return request | {"url": f"{path}~{question}{query}", "changed": "url"}
    body, place = _changed_body(exchange)
    return request | {"body": base64.b64encode(body).decode(), "changed": place}


def _changed_body(exchange: Exchange) -> tuple[bytes, str]:
    body = exchange.request_body
    if body.startswith(b"--"):
        inside = body.index(b"\r\n\r\n") + 5
        return body[:inside] + bytes([body[inside] ^ 1]) + body[inside + 1 :], "body.parts[0].sha256"
    document = json.loads(body)
    found = [(path, leaf) for path, leaf in leaves_of(document) if counts(path, leaf, document)]
    path, leaf = random.Random(exchange.name).choice(found)
    within, _ = next(leaves_of(another(leaf)))
    return json.dumps(with_leaf(document, path, another(leaf))).encode(), shown_path((*path, *within))


def shown_path(path: PathTo) -> str:
    """Return a path as reports write it."""
    return "$" + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
