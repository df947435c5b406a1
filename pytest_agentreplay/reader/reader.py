"""Reads requests under one rule set.

A body of JSON is read as a tree whose array elements are hashed one by one and remembered by their bytes, so that the
Nth request of a growing conversation costs what is new in it.  A hash depends on the request and the rule set alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson

from pytest_agentreplay import canonical
from pytest_agentreplay.dialects import Dialect, Reply
from pytest_agentreplay.heads import HASHED_HEADERS, media_type_of, normal_headers, normal_url
from pytest_agentreplay.normalize import (
    GENERIC_RULES,
    JSON_RPC_RULES,
    NormalRules,
    PathRule,
    apply_rules,
    stable_call_ids,
)
from pytest_agentreplay.reader.asked import Asked, Fields, Head, HttpRequest, ToolCalled
from pytest_agentreplay.reader.bodies import read_body, reread_body, tag_of
from pytest_agentreplay.reader.contents import decode_content, may_be_json, moved_cuts
from pytest_agentreplay.reader.elements import Elements
from pytest_agentreplay.reader.rules import RuleSet
from pytest_agentreplay.records import Body, JsonBody, Request, Response

__all__ = ["Reader"]


class Reader:
    """Reads requests and answers under one rule set.  Thread-safe; remembers what it has hashed."""

    def __init__(self, rules: RuleSet) -> None:
        self.rules = rules
        names = {"content-type", "content-encoding", *HASHED_HEADERS, *rules.match_headers}
        self.wanted_headers = frozenset(names)
        self._forget()

    def read(self, request: HttpRequest) -> Asked:
        """Return what a request is known by.  Never raises for anything a client can send."""
        self._look()
        head = self._head(request.method, request.url, request.headers)
        content = decode_content(request.content, request.headers)
        if content and may_be_json(head.media_type, content):
            try:
                value, is_plain = canonical.parse_document(content)
            except ValueError:
                pass
            else:
                return self._json(head, value, is_plain=is_plain)
        redactor = self.rules.redactor
        return _tagged(head, read_body(content, request.headers, media_type=head.media_type, redactor=redactor))

    def reread(self, request: Request, messages: Mapping[str, Any]) -> Asked:
        """Return what a recorded request is known by under this reader's rules."""
        self._look()
        head = self._head(request.method, request.url, tuple(request.headers.items()))
        if isinstance(request.body, JsonBody):
            return self._reread_json(head, request.body, messages)
        return _tagged(head, reread_body(request.body, self.rules.redactor))

    def read_tool_call(self, name: str, arguments: Any) -> ToolCalled:
        """Return what the call of a tool is known by; ``arguments`` are JSON."""
        kept = self.redact_value(arguments)
        return ToolCalled(name, kept, canonical.tool_call_hash(name, canonical.canonical_json(kept)))

    def read_reply(self, asked: Asked, response: Response) -> Reply | None:
        """Return the model's answer in a response, or ``None`` where there is none."""
        return asked.dialect.reply_in(response) if asked.dialect else None

    def redact_value(self, value: Any) -> Any:
        """Return a JSON value, as of a tool's call, without secrets."""
        self._look()
        return self.rules.redactor.value(value)

    def redact_response(self, response: Response) -> Response:
        """Return an answer without secrets; cuts that fell inside what was replaced move to its end."""
        self._look()
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

    def _look(self) -> None:
        """Take in the secrets of the environment; what was read without one of them is read anew."""
        self.rules.redactor.look()
        if self.rules.redactor.environment.pairs is not self._pairs:
            self._forget()

    def _forget(self) -> None:
        # Others instead of empty ones: what a thread is reading under fewer secrets goes into those.
        pairs = self.rules.redactor.environment.pairs
        self._heads: dict[Any, Head] = {}
        self._elements = Elements(self.rules)
        self._fields: dict[Any, Fields] = {}
        self._keys: dict[str, str] = {}
        self._pairs = pairs

    def _head(self, method: str, url: str, headers: tuple[tuple[str, str], ...]) -> Head:
        key = (method, url, headers)
        heads = self._heads
        found = heads.get(key)
        if found is None:
            kept = normal_headers(headers, also=self.rules.match_headers)
            found = heads[key] = self._make_head(method.upper(), url, kept)
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
        elements = self._elements.read(None, items, normal=GENERIC_RULES, data=data)
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
        read = {key: self._elements.read(key, items, normal=normal, data=data[key]) for key, items in lists.items()}
        elements = self._elements.with_stable_ids(read, normal=normal)
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
        keys = self._keys
        found = keys.get(key)
        if found is None:
            found = keys[key] = self.rules.redactor.text(key)
        return found

    def _replaced_whole(self, candidates: Iterable[Dialect]) -> frozenset[str]:
        """Return the keys whose values a rule may replace, whatever they hold."""
        rules = [*self.rules.ignore, *(rule for dialect in candidates for rule in dialect.rules.paths)]
        return _whole_keys(rules)

    def _rest(self, rest: dict[str, Any], *, normal: NormalRules, known: bytes) -> Fields:
        key = (normal.name, known)
        fields = self._fields
        found = fields.get(key)
        if found is None:
            values = self.rules.redactor.value(rest)
            present = {name: entry for name, entry in values.items() if entry is not None}
            final = apply_rules(present, rules=(*normal.paths, *self.rules.ignore))
            encoded = {name: canonical.canonical_json(entry) for name, entry in final.items()}
            found = fields[key] = Fields(values=values, canonical=encoded)
        return found


def _tagged(head: Head, body: Body) -> Asked:
    tag = canonical.canonical_json(tag_of(body))
    return Asked(head, hash=canonical.request_hash(tag, head=head.canonical), body=body)


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
