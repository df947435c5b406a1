"""A request as it crossed the wire, read into what a tape keeps and what it is known by.

Always in the same order, when recording and when replaying: redact, normalise, canonicalise, hash.  A body of JSON is
read as a tree whose array elements are hashed one by one and remembered by their bytes, so that the Nth request of
a growing conversation costs what is new in it.  A hash depends on the request and the rule set alone.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from typing import Any, Literal
from urllib.parse import parse_qsl, urlsplit

import orjson

from pytest_agentreplay import canonical
from pytest_agentreplay.dialects import Call, Dialect, Dialects, Message, Reply
from pytest_agentreplay.multipart import split_multipart
from pytest_agentreplay.normalize import (
    CLIENT_MADE_HINT,
    GENERIC_RULES,
    HASHED_HEADERS,
    JSON_RPC_RULES,
    NormalRules,
    PathRule,
    apply_rules,
    media_type_of,
    normal_headers,
    normal_url,
    parse_ignore,
    stable_call_ids,
)
from pytest_agentreplay.records import (
    Body,
    BytesBody,
    EmptyBody,
    FormBody,
    JsonBody,
    MultipartBody,
    Part,
    Request,
    Response,
    TextBody,
)
from pytest_agentreplay.redact import Redactor

__all__ = ["Asked", "HttpRequest", "Reader", "RuleSet", "ToolCalled", "rule_set_for"]

_LONGEST_KEPT_PART = 4096
# What a dialect runs into where a message or an answer breaks its own format.
_MALFORMED = (AttributeError, LookupError, TypeError, ValueError)


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


@dataclass(frozen=True)
class RuleSet:
    """What is redacted and normalised before a request is hashed."""

    redactor: Redactor
    dialects: Dialects
    ignore: tuple[PathRule, ...] = ()
    match_headers: tuple[str, ...] = ()

    @cached_property
    def digest(self) -> str:
        """``r1:`` and 16 hex digits; equal digests mean that equal requests get equal hashes."""
        description = {
            "redact": self.redactor.describe(),
            "dialects": [[dialect.name, dialect.path, dialect.rules.describe()] for dialect in self.dialects.known],
            "generic": [GENERIC_RULES.describe(), JSON_RPC_RULES.describe()],
            "ignore": [rule.describe() for rule in self.ignore],
            "headers": sorted(self.match_headers),
        }
        return "r1:" + sha256(canonical.canonical_json(description)).hexdigest()[:16]


def rule_set_for(
    dialects: Dialects, *, redactor: Redactor, ignore: Iterable[str] = (), match_headers: Iterable[str] = ()
) -> RuleSet:
    """Return the rule set of the built-in rules and the user's.

    Raises :class:`ConfigurationError` for an ``ignore`` rule that is not understood.
    """
    return RuleSet(
        redactor=redactor,
        dialects=dialects,
        ignore=tuple(parse_ignore(rule) for rule in ignore),
        match_headers=tuple(name.lower() for name in match_headers),
    )


@dataclass(frozen=True, slots=True)
class _Element:
    """One element of a top-level array: its hash, the address it is kept under, and its redacted value.

    ``has_client_ids`` says that ids in it may have been made by the client: then the hash depends on its neighbours.
    """

    hash: str
    address: str
    value: Any
    has_client_ids: bool


@dataclass(frozen=True, slots=True)
class _Fields:
    """What a JSON body holds besides arrays: redacted values, and the canonical JSON of their normal forms."""

    values: dict[str, Any]
    canonical: dict[str, bytes]


@dataclass(frozen=True, slots=True)
class _Head:
    """What stands before the body of a request."""

    method: str
    url: str
    headers: dict[str, str]
    media_type: str
    canonical: bytes
    candidates: tuple[Dialect, ...]


class Asked:
    """A request as read: what it is known by at once, what a tape keeps when it is asked for.

    ``kind`` is ``model`` or ``http``; ``chain`` holds the element hashes of the conversation, empty where there is
    none.
    """

    __slots__ = ("_body", "_elements", "_fields", "_head", "_root", "call", "chain", "dialect", "hash", "kind")

    def __init__(
        self,
        head: _Head,
        *,
        hash: str,  # noqa: A002 - the field's own word
        body: Body | None = None,
        root: Literal["object", "array", "scalar"] = "object",
        fields: _Fields | None = None,
        elements: Mapping[str, Sequence[_Element]] | None = None,
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
        except _MALFORMED:
            return None


class Reader:
    """Reads requests and answers under one rule set.  Thread-safe; remembers what it has hashed."""

    def __init__(self, rules: RuleSet) -> None:
        self.rules = rules
        names = {"content-type", "content-encoding", *HASHED_HEADERS, *rules.match_headers}
        self.wanted_headers = frozenset(name.encode("latin-1") for name in names)
        self._heads: dict[Any, _Head] = {}
        self._elements: dict[Any, dict[bytes, _Element]] = {}
        self._fields: dict[Any, _Fields] = {}
        self._array_rules: dict[tuple[str, str | None], tuple[tuple[PathRule, ...], bool]] = {}

    def read(self, request: HttpRequest) -> Asked:
        """Return what a request is known by.  Never raises for anything a client can send."""
        head = self._head(request.method, request.url, request.headers)
        content = _decode(request.content, request.headers)
        if not content:
            return self._tagged(head, EmptyBody(), tag={"empty": True})
        if _may_be_json(head.media_type, content):
            try:
                value, is_plain = canonical.parse_document(content)
            except ValueError:
                pass
            else:
                return self._json(head, value, is_plain=is_plain)
        return self._other(head, content, headers=request.headers)

    def reread(self, request: Request, messages: Mapping[str, Any]) -> Asked:
        """Return what a recorded request is known by under this reader's rules."""
        head = self._head(request.method, request.url, tuple(request.headers.items()))
        body = request.body
        if isinstance(body, JsonBody):
            return self._reread_json(head, body, messages)
        if isinstance(body, FormBody):
            return self._form(head, body.pairs)
        if isinstance(body, MultipartBody):
            return self._multipart(head, body.parts)
        if isinstance(body, TextBody):
            return self._text(head, body.text)
        if isinstance(body, BytesBody):
            return self._tagged(head, body, tag={"bytes": {"sha256": body.sha256, "bytes": body.size}})
        return self._tagged(head, EmptyBody(), tag={"empty": True})

    def read_tool_call(self, name: str, arguments: Any) -> ToolCalled:
        """Return what the call of a tool is known by; ``arguments`` are JSON."""
        kept = self.rules.redactor.value(arguments)
        digest = sha256(canonical.canonical_json({"tool": name, "arguments": kept})).hexdigest()
        return ToolCalled(name=name, arguments=kept, hash=canonical.REQUEST_FORM + digest)

    def read_reply(self, asked: Asked, response: Response) -> Reply | None:
        """Return the model's answer in a response, or ``None`` where there is none."""
        if asked.dialect is None or response.status >= 400:
            return None
        try:
            return asked.dialect.read_reply(response.content, media_type_of(response.headers))
        except _MALFORMED:
            return None

    def redact_response(self, response: Response) -> Response:
        """Return an answer without secrets; cuts that fell inside what was replaced move to its end."""
        redactor = self.rules.redactor
        headers = tuple((name, redactor.header(name, value)) for name, value in response.headers)
        content = redactor.content(response.content, media_type=media_type_of(headers))
        cuts = response.cuts if content is response.content else _moved_cuts(response, content)
        return response.model_copy(update={"headers": headers, "content": content, "cuts": cuts})

    def normal_form(self, request: Request, messages: Mapping[str, Any]) -> dict[str, Any]:
        """Return a recorded request as the value that its hash stands for, in full: what a diff compares."""
        asked = self.reread(request, messages)
        kept = asked.request
        if not isinstance(kept.body, JsonBody):
            shown: Any = kept.body.model_dump(mode="json", exclude={"kind"})
        else:
            shown = self._normal_body(asked, request=request, messages=messages)
        head = {"method": kept.method, "url": kept.url, "headers": dict(kept.headers)}
        return {**head, "kind": kept.body.kind, "body": shown}

    def _normal_body(self, asked: Asked, *, request: Request, messages: Mapping[str, Any]) -> Any:
        body = request.body
        assert isinstance(body, JsonBody)
        lists = {key: [messages[address] for address in found] for key, found in body.lists.items()}
        value: Any = self.rules.redactor.value({**body.fields, **lists})
        if body.root == "array":
            return apply_rules(value[""], rules=self.rules.ignore)
        if body.root == "scalar":
            return value[""]
        normal = self._rules_of(asked.dialect, value)
        value = stable_call_ids(value, layouts=normal.call_ids)
        value = {key: element for key, element in value.items() if element is not None}
        return apply_rules(value, rules=(*normal.paths, *self.rules.ignore))

    def _head(self, method: str, url: str, headers: tuple[tuple[str, str], ...]) -> _Head:
        kept = normal_headers(headers, also=self.rules.match_headers)
        key = (method, url, tuple(kept.items()))
        found = self._heads.get(key)
        if found is None:
            found = self._heads[key] = self._make_head(method.upper(), url, kept)
        return found

    def _make_head(self, method: str, url: str, kept: dict[str, str]) -> _Head:
        redactor = self.rules.redactor
        shown = normal_url(redactor.url(url))
        kept = {name: redactor.header(name, value) for name, value in kept.items()}
        head = {"headers": kept, "method": method, "url": shown}
        return _Head(
            method=method,
            url=shown,
            headers=kept,
            media_type=kept.get("content-type", ""),
            canonical=canonical.canonical_json(head),
            candidates=self.rules.dialects.recognise(method=method, url=shown),
        )

    def _json(self, head: _Head, value: Any, *, is_plain: bool) -> Asked:
        if isinstance(value, dict):
            rest, lists = self._split(head, value)
            data = {key: _keys_of(items, is_plain=is_plain) for key, items in lists.items()}
            (known,) = _keys_of([rest], is_plain=is_plain)
            return self._object(head, rest, lists, data=data, known=known)
        if isinstance(value, list):
            return self._array(head, value, data=_keys_of(value, is_plain=is_plain))
        scalar = self.rules.redactor.value(value)
        fields = _Fields(values={"": scalar}, canonical={})
        return Asked(head, hash=_hash_json(canonical.canonical_json(scalar), head), root="scalar", fields=fields)

    def _reread_json(self, head: _Head, body: JsonBody, messages: Mapping[str, Any]) -> Asked:
        if body.root == "scalar":
            return self._json(head, body.fields[""], is_plain=False)
        lists = {key: [messages[address] for address in found] for key, found in body.lists.items()}
        data = {key: [b"@" + address.encode() for address in found] for key, found in body.lists.items()}
        if body.root == "array":
            return self._array(head, lists[""], data=data[""])
        # Which arrays are read element by element depends on the rules, which may have changed since.
        rest, lists = self._split(head, {**body.fields, **lists})
        data = {key: data.get(key) or _keys_of(items, is_plain=False) for key, items in lists.items()}
        (known,) = _keys_of([rest], is_plain=False)
        return self._object(head, rest, lists, data=data, known=known)

    def _array(self, head: _Head, items: list[Any], *, data: Iterable[bytes]) -> Asked:
        elements = self._list(None, items, normal=GENERIC_RULES, data=data)
        tree = canonical.hash_list([element.hash for element in elements])
        return Asked(head, hash=_hash_json(tree, head), root="array", elements={"": elements})

    def _split(self, head: _Head, value: dict[str, Any]) -> tuple[dict[str, Any], dict[str, list[Any]]]:
        """Return the small fields of a body, and the arrays that are read element by element."""
        rest, lists = {}, {}
        whole = self._replaced_whole(head, value)
        for key, entry in value.items():
            if type(entry) is list and key not in whole and "*" not in whole:
                lists[self.rules.redactor.text(key)] = entry
            else:
                rest[key] = entry
        return rest, lists

    def _object(
        self,
        head: _Head,
        rest: dict[str, Any],
        lists: Mapping[str, list[Any]],
        *,
        data: Mapping[str, Iterable[bytes]],
        known: bytes,
    ) -> Asked:
        """Read an object; ``data`` and ``known`` stand for the elements and for the rest as :func:`_keys_of` does."""
        body = {**rest, **lists}
        reading = self.rules.dialects.read_call(head.candidates, body) if head.candidates else None
        normal = self._rules_of(reading[0] if reading else None, body)
        elements = {key: self._list(key, items, normal=normal, data=data[key]) for key, items in lists.items()}
        if normal.call_ids and any(element.has_client_ids for items in elements.values() for element in items):
            elements = self._with_stable_ids(elements, normal=normal)
        fields = self._rest(rest, normal=normal, known=known)
        hashes = {key: [element.hash for element in items] for key, items in elements.items()}
        tree = canonical.json_tree(fields.canonical, hashes)
        return Asked(head, hash=_hash_json(tree, head), fields=fields, elements=elements, reading=reading)

    def _rules_of(self, dialect: Dialect | None, value: Mapping[str, Any]) -> NormalRules:
        if dialect is not None:
            return dialect.rules
        return JSON_RPC_RULES if "jsonrpc" in value else GENERIC_RULES

    def _replaced_whole(self, head: _Head, value: Mapping[str, Any]) -> set[str]:
        """Return the keys whose values a rule may replace, whatever they hold."""
        rules = [*self.rules.ignore, *(JSON_RPC_RULES.paths if "jsonrpc" in value else ())]
        for dialect in head.candidates:
            rules += dialect.rules.paths
        return {rule.path[0] for rule in rules if len(rule.path) == 1}

    def _rest(self, rest: dict[str, Any], *, normal: NormalRules, known: bytes) -> _Fields:
        key = (normal.name, known)
        found = self._fields.get(key)
        if found is None:
            values = self.rules.redactor.value(rest)
            present = {name: entry for name, entry in values.items() if entry is not None}
            final = apply_rules(present, rules=(*normal.paths, *self.rules.ignore))
            encoded = {name: canonical.canonical_json(entry) for name, entry in final.items()}
            found = self._fields[key] = _Fields(values=values, canonical=encoded)
        return found

    def _list(self, key: str | None, items: list[Any], *, normal: NormalRules, data: Iterable[bytes]) -> list[_Element]:
        """Read an array; ``data`` holds bytes for each element that two elements share only if they are the same.

        ``key`` is that of the array, ``None`` where the body is the array.
        """
        rules, is_placed = self._element_rules(key, normal)
        if is_placed:
            return self._placed_list(key, items, normal=normal, data=data)
        memo = self._elements.setdefault((normal.name, key), {})
        return [
            memo.get(known) or self._element(item, known, memo=memo, rules=rules, key=key)
            for item, known in zip(items, data, strict=True)
        ]

    def _element_rules(self, key: str | None, normal: NormalRules) -> tuple[tuple[PathRule, ...], bool]:
        """Return the rules that lead into an array, and whether any of them is for one index alone."""
        found = self._array_rules.get((normal.name, key))
        if found is None:
            depth = 0 if key is None else 1
            rules = tuple(
                rule
                for rule in (*normal.paths, *self.rules.ignore)
                if len(rule.path) > depth and (key is None or rule.path[0] in (key, "*"))
            )
            found = self._array_rules[normal.name, key] = rules, any(rule.path[depth] != "*" for rule in rules)
        return found

    def _rules_at(self, key: str | None, count: int, normal: NormalRules) -> list[tuple[PathRule, ...]]:
        """Return the rules for each element of an array of ``count``."""
        rules, is_placed = self._element_rules(key, normal)
        if not is_placed:
            return [rules] * count
        depth = 0 if key is None else 1
        places = [("*", str(index), str(index - count)) for index in range(count)]
        return [tuple(rule for rule in rules if rule.path[depth] in names) for names in places]

    def _placed_list(
        self, key: str | None, items: list[Any], *, normal: NormalRules, data: Iterable[bytes]
    ) -> list[_Element]:
        found = []
        for item, known, rules in zip(items, data, self._rules_at(key, len(items), normal), strict=True):
            memo = self._elements.setdefault((key, rules), {})
            found.append(memo.get(known) or self._element(item, known, memo=memo, rules=rules, key=key))
        return found

    def _element(
        self, item: Any, data: bytes, *, memo: dict[bytes, _Element], rules: tuple[PathRule, ...], key: str | None
    ) -> _Element:
        value = self.rules.redactor.value(item)
        written = canonical.canonical_json(value)
        address = canonical.hash_canonical(written)
        normal = apply_rules(value, rules=rules, depth=1 if key is None else 2)
        digest = address if normal is value else canonical.content_hash(normal)
        found = memo[data] = _Element(
            hash=digest, address=address, value=value, has_client_ids=CLIENT_MADE_HINT in written
        )
        return found

    def _with_stable_ids(
        self, lists: Mapping[str, list[_Element]], *, normal: NormalRules
    ) -> dict[str, list[_Element]]:
        values = {key: [element.value for element in items] for key, items in lists.items()}
        stable = stable_call_ids(values, layouts=normal.call_ids)
        return {key: self._renamed(key, items, stable[key], normal=normal) for key, items in lists.items()}

    def _renamed(self, key: str, items: list[_Element], stable: list[Any], *, normal: NormalRules) -> list[_Element]:
        renamed = []
        for element, value, rules in zip(items, stable, self._rules_at(key, len(items), normal), strict=True):
            if value is not element.value:
                element = replace(element, hash=canonical.content_hash(apply_rules(value, rules=rules, depth=2)))
            renamed.append(element)
        return renamed

    def _other(self, head: _Head, content: bytes, *, headers: tuple[tuple[str, str], ...]) -> Asked:
        if head.media_type == "application/x-www-form-urlencoded":
            text = content.decode("utf-8", "surrogateescape")
            return self._form(head, parse_qsl(text, keep_blank_values=True, errors="surrogateescape"))
        if head.media_type.startswith("multipart/"):
            parts = split_multipart(content, headers)
            if parts is not None:
                return self._multipart(head, [self._part(*part) for part in parts])
        try:
            text = content.decode("utf-8")
        except UnicodeDecodeError:
            body = BytesBody(sha256=sha256(content).hexdigest(), size=len(content))
            return self._tagged(head, body, tag={"bytes": {"sha256": body.sha256, "bytes": body.size}})
        return self._text(head, text)

    def _text(self, head: _Head, text: str) -> Asked:
        body = TextBody(text=self.rules.redactor.text(text))
        return self._tagged(head, body, tag={"text": body.text})

    def _form(self, head: _Head, pairs: Iterable[tuple[str, str]]) -> Asked:
        redactor = self.rules.redactor
        body = FormBody(pairs=tuple(sorted((name, redactor.field(name, value)) for name, value in pairs)))
        return self._tagged(head, body, tag={"form": [list(pair) for pair in body.pairs]})

    def _part(self, headers: dict[str, str], content: bytes) -> Part:
        redactor = self.rules.redactor
        headers = {name: redactor.header(name, value) for name, value in headers.items()}
        try:
            text: str | None = redactor.text(content.decode("utf-8"))
        except UnicodeDecodeError:
            text = None
        kept = content if text is None else text.encode("utf-8")
        short = text if text is not None and len(kept) <= _LONGEST_KEPT_PART else None
        return Part(headers=headers, sha256=sha256(kept).hexdigest(), size=len(kept), text=short)

    def _multipart(self, head: _Head, parts: Iterable[Part]) -> Asked:
        kept = [part if part.text is None else self._part(part.headers, part.text.encode("utf-8")) for part in parts]
        tag = [{"headers": part.headers, "sha256": part.sha256} for part in kept]
        return self._tagged(head, MultipartBody(parts=tuple(kept)), tag={"multipart": tag})

    def _tagged(self, head: _Head, body: Body, *, tag: dict[str, Any]) -> Asked:
        digest = canonical.request_hash(canonical.canonical_json(tag), head=head.canonical)
        return Asked(head, hash=digest, body=body)


def _hash_json(tree: bytes, head: _Head) -> str:
    return canonical.request_hash(b'{"json":' + tree + b"}", head=head.canonical)


def _keys_of(items: Sequence[Any], *, is_plain: bool) -> list[bytes]:
    """Return bytes for each value that two values share only if they are the same to a JSON reader."""
    if is_plain:
        try:
            return [orjson.dumps(item) for item in items]
        except TypeError:  # nested deeper than the fast writer goes
            pass
    return [b"=" + canonical.canonical_json(item) for item in items]


def _moved_cuts(response: Response, content: bytes) -> tuple[int, ...]:
    """Return cuts for redacted content: each at the same event, or as far from the start, as it was."""
    places: list[int] = []
    seen = 0
    for length in response.cuts[:-1]:
        seen += length
        events = response.content[:seen].count(b"\n\n")
        at = _end_of_event(content, events) if response.content[:seen].endswith(b"\n\n") else min(seen, len(content))
        places.append(max(at, places[-1] if places else 0))
    ends = [*places, len(content)]
    return tuple(end - start for start, end in zip([0, *ends[:-1]], ends, strict=True) if end > start)


def _end_of_event(content: bytes, count: int) -> int:
    at = 0
    for _ in range(count):
        found = content.find(b"\n\n", at)
        if found < 0:  # the event ended inside what was replaced
            return len(content)
        at = found + 2
    return at


def _may_be_json(media_type: str, content: bytes) -> bool:
    if media_type.endswith("json"):
        return True
    if media_type.startswith(("multipart/", "application/x-www-form-urlencoded", "application/x-ndjson")):
        return False
    return content.lstrip()[:1] in (b"{", b"[")


def _decode(content: bytes, headers: Iterable[tuple[str, str]]) -> bytes:
    """Undo the content encoding of a request; what cannot be undone is hashed as it is."""
    for name, value in headers:
        if name.lower() == "content-encoding":
            try:
                return _DECODERS[value.strip().lower()](content)
            except (KeyError, OSError, EOFError, ValueError, zlib.error):
                return content
    return content


def _inflate(content: bytes) -> bytes:
    try:
        return zlib.decompress(content)
    except zlib.error:
        return zlib.decompress(content, -zlib.MAX_WBITS)


_DECODERS = {"gzip": gzip.decompress, "x-gzip": gzip.decompress, "deflate": _inflate, "identity": bytes}
