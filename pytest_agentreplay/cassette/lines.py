"""One line of a cassette, and how it leans on the lines before it.

A step's line says what is new in it: a request that goes on from the one before it in its lane names that one by hash
(``after``) and says what it adds.  References are the first 16 hex digits of a content hash.  Every line but a
message's own ends in ``sum``, a hash of the line's bytes; a message is verified by being referred to.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

from pytest_agentreplay.addresses import Addresses
from pytest_agentreplay.canonical import parse_json, write_json
from pytest_agentreplay.heads import media_type_of
from pytest_agentreplay.payloads import decode_content, encode_content
from pytest_agentreplay.records import Entry, ExchangeStep, JsonBody, Request, Response

__all__ = [
    "decode_exchange",
    "encode_exchange",
    "encode_plain",
    "is_conflict_marker",
    "reference",
    "seal",
    "sum_of",
    "unseal",
]

_CONFLICT_MARKERS = (b"<<<<<<< ", b"=======", b">>>>>>> ", b"||||||| ")

_SUM = re.compile(rb',"sum":"([0-9a-f]{16})"}\Z')
_REQUEST_KEYS = frozenset({"method", "url", "headers", "body", "root", "fields", "lists", "gone", "add"})
_RESPONSE_KEYS = frozenset({"status", "headers", "truncated", "json", "style", "tail", "events", "text", "base64"})
_SEALED_TAIL = 26  # the length of ,"sum":"0123456789abcdef"}


def is_conflict_marker(row: bytes) -> bool:
    """Return whether git wrote a line, to part the sides of a merge: none of ours begins as one does."""
    return row.startswith(_CONFLICT_MARKERS)


def reference(digest: str) -> str:
    """Return the short form of a content or request hash, by which lines refer to it."""
    return digest.partition(":")[2][:16]


def seal(line: Mapping[str, Any]) -> bytes:
    """Return a line's bytes, without the line end, with its sum as the last field."""
    data = write_json(line)
    return data[:-1] + b',"sum":"' + _digest(data).encode() + b'"}'


def unseal(data: bytes) -> dict[str, Any] | None:
    """Return the fields of a sealed line, or ``None`` when its sum is missing or does not fit.

    Raises ``ValueError`` when the line is no JSON.
    """
    found = _SUM.search(data)
    if found is None:
        parse_json(data)
        return None
    body = data[:-_SEALED_TAIL] + b"}"
    if _digest(body) != found.group(1).decode():
        return None
    value = parse_json(body)
    return value if isinstance(value, dict) else None


def sum_of(data: bytes) -> str:
    """Return the sum that a sealed line carries."""
    return data[-18:-2].decode()


def encode_exchange(step: ExchangeStep, *, before: ExchangeStep | None) -> dict[str, Any]:
    """Return the line of an exchange; ``before`` is the one it goes on from."""
    line: dict[str, Any] = {"kind": step.kind, "hash": step.hash, "lane": step.lane}
    line |= {"after": reference(before.hash)} if before is not None else {}
    line |= {"phase": step.phase} if step.phase != "call" else {}
    line |= {"parent": step.parent} if step.parent else {}
    for name in ("provider", "operation"):
        value = getattr(step, name)
        line |= {name: value} if before is None or getattr(before, name) != value else {}
    line["request"] = _encode_request(step.request, before=before.request if before else None)
    line["request"] |= step.request.model_extra or {}
    if step.response is not None:
        line["response"] = _encode_response(step.response, before=before.response if before else None)
    if step.error is not None:
        line["error"] = step.error.model_dump(mode="json")
    usage = getattr(step, "usage", None)
    if usage is not None:
        line["usage"] = usage.model_dump(mode="json", exclude_none=True)
    return line | (step.model_extra or {})


def encode_plain(step: Entry) -> dict[str, Any]:
    """Return the line of a step that is no exchange: its fields, those left out that say nothing."""
    fields = step.model_dump(exclude_defaults=True)  # as they are: pydantic's JSON knows no NaN
    return {"kind": step.kind} | {name: value for name, value in fields.items() if value is not None}


def decode_exchange(
    line: Mapping[str, Any], *, before: ExchangeStep | None, addresses: Mapping[str, str]
) -> dict[str, Any]:
    """Return the fields of the step that a line describes.

    ``addresses`` maps references to full addresses.  Raises ``KeyError`` for a reference it does not hold, and
    ``ValueError`` or ``TypeError`` for a line that was never written.
    """
    fields = {key: value for key, value in line.items() if key not in ("after", "request", "response")}
    if before is not None:
        fields = {"provider": before.provider, "operation": before.operation} | fields
    base = before.request if before else None
    fields["request"] = _decode_request(line["request"], before=base, addresses=addresses)
    fields["request"] |= _unknown(line["request"], _REQUEST_KEYS)
    if "response" in line:
        fields["response"] = _decode_response(line["response"], before=before.response if before else None)
    return fields


def _encode_request(request: Request, *, before: Request | None) -> dict[str, Any]:
    body = request.body
    base = before.body if before is not None else None
    if before is not None and isinstance(base, JsonBody) and isinstance(body, JsonBody):
        return _encode_addition(request, before=before, body=body, base=base)
    leans = isinstance(base, JsonBody)  # then what is left out is that of the request before
    line: dict[str, Any] = {"method": request.method, "url": request.url}
    line |= {"headers": request.headers} if request.headers or leans else {}
    if not isinstance(body, JsonBody):
        is_said = leans or body.kind != "empty"
        return line | ({"body": body.model_dump(mode="json", exclude_none=True)} if is_said else {})
    line |= {"root": body.root} if body.root != "object" else {}
    line |= {"fields": body.fields} if body.fields else {}
    lists = {key: [reference(address) for address in found] for key, found in body.lists.items()}
    return line | {"lists": lists}


def _encode_addition(request: Request, *, before: Request, body: JsonBody, base: JsonBody) -> dict[str, Any]:
    line: dict[str, Any] = {
        key: getattr(request, key)
        for key in ("method", "url", "headers")
        if getattr(request, key) != getattr(before, key)
    }
    changed = {key: value for key, value in body.fields.items() if not _same(value, base.fields, key)}
    gone = [key for key in (*base.fields, *base.lists) if key not in body.fields and key not in body.lists]
    add: dict[str, list[str]] = {}
    lists: dict[str, list[str]] = {}
    line |= {"root": body.root} if body.root != base.root else {}
    for key, found in body.lists.items():
        known = base.lists.get(key)
        if known is not None and found.goes_on_from(known):
            add |= {key: [reference(address) for address in found.after(len(known))]} if len(found) > len(known) else {}
        else:
            lists[key] = [reference(address) for address in found]
    parts = {"fields": changed, "gone": gone, "lists": lists, "add": add}
    return line | {name: part for name, part in parts.items() if part}


def _same(value: Any, fields: Mapping[str, Any], key: str) -> bool:
    # 1, 1.0 and True are equal in Python, and are not the same to a reader of the file.
    return key in fields and write_json(fields[key]) == write_json(value)


def _decode_request(line: Mapping[str, Any], *, before: Request | None, addresses: Mapping[str, str]) -> dict[str, Any]:
    base = before.body if before is not None and isinstance(before.body, JsonBody) else None
    head: dict[str, Any] = {"headers": {}}
    if before is not None and base is not None:
        head = {"method": before.method, "url": before.url, "headers": before.headers}
    head |= {key: line[key] for key in ("method", "url", "headers") if key in line}
    if "body" in line:
        return head | {"body": line["body"]}
    if base is None and "lists" not in line:
        return head
    gone = line.get("gone", ())
    fields = {key: value for key, value in (base.fields if base else {}).items() if key not in gone}
    lists = {key: found for key, found in (base.lists if base else {}).items() if key not in gone}
    lists |= {key: Addresses(_addresses(found, addresses)) for key, found in line.get("lists", {}).items()}
    for key, found in line.get("add", {}).items():
        lists[key] = lists.get(key, Addresses()).plus(_addresses(found, addresses))
    fields = {key: value for key, value in fields.items() if key not in lists} | line.get("fields", {})
    lists = {key: found for key, found in lists.items() if key not in line.get("fields", {})}
    body = {"kind": "json", "root": line.get("root", base.root if base else "object"), "fields": fields, "lists": lists}
    return head | {"body": body}


def _addresses(references: Sequence[str], addresses: Mapping[str, str]) -> list[str]:
    return [addresses[found] for found in references]


def _encode_response(response: Response, *, before: Response | None) -> dict[str, Any]:
    line: dict[str, Any] = {"status": response.status}
    if response.headers != (before.headers if before else ()):
        line["headers"] = [list(pair) for pair in response.headers]
    line |= {"truncated": True} if response.truncated else {}
    line |= response.model_extra or {}
    return line | encode_content(response.content, media_type=media_type_of(response.headers))


def _decode_response(line: Mapping[str, Any], *, before: Response | None) -> dict[str, Any]:
    return _unknown(line, _RESPONSE_KEYS) | {
        "status": line["status"],
        "headers": line.get("headers", before.headers if before else ()),
        "content": decode_content(line),
        "truncated": line.get("truncated", False),
    }


def _unknown(line: Mapping[str, Any], known: frozenset[str]) -> dict[str, Any]:
    """Return what a newer version wrote and this one does not read, to be written again."""
    return {key: value for key, value in line.items() if key not in known}


def _digest(data: bytes) -> str:
    return sha256(data).hexdigest()[:16]
