"""Reads requests under one rule set.

A body of JSON is read as a tree whose array elements are hashed one by one and remembered by their bytes, so that the
Nth request of a growing conversation costs what is new in it.  A hash depends on the request and the rule set alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any
from urllib.parse import parse_qsl

import orjson

from pytest_agentreplay import canonical
from pytest_agentreplay.dialects import Dialect, Reply
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
    stable_call_ids,
)
from pytest_agentreplay.reader.asked import Asked, Element, Fields, Head, HttpRequest, ToolCalled
from pytest_agentreplay.reader.contents import decode_content, may_be_json, moved_cuts
from pytest_agentreplay.reader.rules import RuleSet
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

__all__ = ["Reader"]

_LONGEST_KEPT_PART = 4096


class Reader:
    """Reads requests and answers under one rule set.  Thread-safe; remembers what it has hashed."""

    def __init__(self, rules: RuleSet) -> None:
        self.rules = rules
        names = {"content-type", "content-encoding", *HASHED_HEADERS, *rules.match_headers}
        self.wanted_headers = frozenset(names)
        self._heads: dict[Any, Head] = {}
        self._elements: dict[Any, dict[bytes, Element]] = {}
        self._fields: dict[Any, Fields] = {}
        self._keys: dict[str, str] = {}
        self._array_rules: dict[tuple[str, str | None], tuple[tuple[PathRule, ...], bool]] = {}

    def read(self, request: HttpRequest) -> Asked:
        """Return what a request is known by.  Never raises for anything a client can send."""
        head = self._head(request.method, request.url, request.headers)
        content = decode_content(request.content, request.headers)
        if not content:
            return self._tagged(head, EmptyBody(), tag={"empty": True})
        if may_be_json(head.media_type, content):
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
        return ToolCalled(name, kept, canonical.tool_call_hash(name, canonical.canonical_json(kept)))

    def read_reply(self, asked: Asked, response: Response) -> Reply | None:
        """Return the model's answer in a response, or ``None`` where there is none."""
        return asked.dialect.reply_in(response) if asked.dialect else None

    def redact_response(self, response: Response) -> Response:
        """Return an answer without secrets; cuts that fell inside what was replaced move to its end."""
        redactor = self.rules.redactor
        headers = tuple((name, redactor.header(name, value)) for name, value in response.headers)
        content = redactor.content(response.content, media_type=media_type_of(headers))
        cuts = response.cuts if content is response.content else moved_cuts(response, content)
        update = {"headers": headers, "content": content, "cuts": cuts, "arrivals": response.arrivals[: len(cuts)]}
        return response.model_copy(update=update)

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

    def _head(self, method: str, url: str, headers: tuple[tuple[str, str], ...]) -> Head:
        key = (method, url, headers)
        found = self._heads.get(key)
        if found is None:
            kept = normal_headers(headers, also=self.rules.match_headers)
            found = self._heads[key] = self._make_head(method.upper(), url, kept)
        return found

    def _make_head(self, method: str, url: str, kept: dict[str, str]) -> Head:
        redactor = self.rules.redactor
        shown = normal_url(redactor.url(url))
        kept = {name: redactor.header(name, value) for name, value in kept.items()}
        head = {"headers": kept, "method": method, "url": shown}
        candidates = self.rules.dialects.recognise(method=method, url=shown)
        return Head(
            method=method,
            url=shown,
            headers=kept,
            media_type=kept.get("content-type", ""),
            canonical=canonical.canonical_json(head),
            candidates=candidates,
            replaced=self._replaced_whole(candidates),
        )

    def _json(self, head: Head, value: Any, *, is_plain: bool) -> Asked:
        if isinstance(value, dict):
            rest, lists = self._split(head, value)
            data = {key: _keys_of(items, is_plain=is_plain) for key, items in lists.items()}
            (known,) = _keys_of([rest], is_plain=is_plain)
            return self._object(head, rest, lists, data=data, known=known)
        if isinstance(value, list):
            return self._array(head, value, data=_keys_of(value, is_plain=is_plain))
        scalar = self.rules.redactor.value(value)
        fields = Fields(values={"": scalar}, canonical={})
        return Asked(head, hash=_hash_json(canonical.canonical_json(scalar), head), root="scalar", fields=fields)

    def _reread_json(self, head: Head, body: JsonBody, messages: Mapping[str, Any]) -> Asked:
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

    def _array(self, head: Head, items: list[Any], *, data: Iterable[bytes]) -> Asked:
        elements = self._list(None, items, normal=GENERIC_RULES, data=data)
        tree = canonical.hash_list([element.hash for element in elements])
        return Asked(head, hash=_hash_json(tree, head), root="array", elements={"": elements})

    def _split(self, head: Head, value: dict[str, Any]) -> tuple[dict[str, Any], dict[str, list[Any]]]:
        """Return the small fields of a body, and the arrays that are read element by element."""
        rest, lists = {}, {}
        whole = head.replaced | (_JSON_RPC_KEYS if "jsonrpc" in value else frozenset())
        for key, entry in value.items():
            if type(entry) is list and key not in whole and "*" not in whole:
                lists[self._key(key)] = entry
            else:
                rest[key] = entry
        return rest, lists

    def _object(
        self,
        head: Head,
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

    def _key(self, key: str) -> str:
        """Return the key of an array, redacted."""
        found = self._keys.get(key)
        if found is None:
            found = self._keys[key] = self.rules.redactor.text(key)
        return found

    def _replaced_whole(self, candidates: Iterable[Dialect]) -> frozenset[str]:
        """Return the keys whose values a rule may replace, whatever they hold."""
        rules = [*self.rules.ignore, *(rule for dialect in candidates for rule in dialect.rules.paths)]
        return _whole_keys(rules)

    def _rest(self, rest: dict[str, Any], *, normal: NormalRules, known: bytes) -> Fields:
        key = (normal.name, known)
        found = self._fields.get(key)
        if found is None:
            values = self.rules.redactor.value(rest)
            present = {name: entry for name, entry in values.items() if entry is not None}
            final = apply_rules(present, rules=(*normal.paths, *self.rules.ignore))
            encoded = {name: canonical.canonical_json(entry) for name, entry in final.items()}
            found = self._fields[key] = Fields(values=values, canonical=encoded)
        return found

    def _list(self, key: str | None, items: list[Any], *, normal: NormalRules, data: Iterable[bytes]) -> list[Element]:
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
    ) -> list[Element]:
        found = []
        for item, known, rules in zip(items, data, self._rules_at(key, len(items), normal), strict=True):
            memo = self._elements.setdefault((key, rules), {})
            found.append(memo.get(known) or self._element(item, known, memo=memo, rules=rules, key=key))
        return found

    def _element(
        self, item: Any, data: bytes, *, memo: dict[bytes, Element], rules: tuple[PathRule, ...], key: str | None
    ) -> Element:
        value = self.rules.redactor.value(item)
        written = canonical.canonical_json(value)
        address = canonical.hash_canonical(written)
        normal = apply_rules(value, rules=rules, depth=1 if key is None else 2)
        digest = address if normal is value else canonical.content_hash(normal)
        found = memo[data] = Element(
            hash=digest, address=address, value=value, has_client_ids=CLIENT_MADE_HINT in written
        )
        return found

    def _with_stable_ids(self, lists: Mapping[str, list[Element]], *, normal: NormalRules) -> dict[str, list[Element]]:
        values = {key: [element.value for element in items] for key, items in lists.items()}
        stable = stable_call_ids(values, layouts=normal.call_ids)
        return {key: self._renamed(key, items, stable[key], normal=normal) for key, items in lists.items()}

    def _renamed(self, key: str, items: list[Element], stable: list[Any], *, normal: NormalRules) -> list[Element]:
        renamed = []
        for element, value, rules in zip(items, stable, self._rules_at(key, len(items), normal), strict=True):
            if value is not element.value:
                element = replace(element, hash=canonical.content_hash(apply_rules(value, rules=rules, depth=2)))
            renamed.append(element)
        return renamed

    def _other(self, head: Head, content: bytes, *, headers: tuple[tuple[str, str], ...]) -> Asked:
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

    def _text(self, head: Head, text: str) -> Asked:
        body = TextBody(text=self.rules.redactor.text(text))
        return self._tagged(head, body, tag={"text": body.text})

    def _form(self, head: Head, pairs: Iterable[tuple[str, str]]) -> Asked:
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

    def _multipart(self, head: Head, parts: Iterable[Part]) -> Asked:
        kept = [part if part.text is None else self._part(part.headers, part.text.encode("utf-8")) for part in parts]
        tag = [{"headers": part.headers, "sha256": part.sha256} for part in kept]
        return self._tagged(head, MultipartBody(parts=tuple(kept)), tag={"multipart": tag})

    def _tagged(self, head: Head, body: Body, *, tag: dict[str, Any]) -> Asked:
        digest = canonical.request_hash(canonical.canonical_json(tag), head=head.canonical)
        return Asked(head, hash=digest, body=body)


def _hash_json(tree: bytes, head: Head) -> str:
    return canonical.request_hash(b'{"json":' + tree + b"}", head=head.canonical)


def _keys_of(items: Sequence[Any], *, is_plain: bool) -> list[bytes]:
    """Return bytes for each value that two values share only if they are the same to a JSON reader."""
    if is_plain:
        try:
            return [orjson.dumps(item) for item in items]
        except TypeError:  # nested deeper than the fast writer goes
            pass
    return [b"=" + canonical.canonical_json(item) for item in items]


def _whole_keys(rules: Iterable[PathRule]) -> frozenset[str]:
    return frozenset(rule.path[0] for rule in rules if len(rule.path) == 1)


_JSON_RPC_KEYS = _whole_keys(JSON_RPC_RULES.paths)
