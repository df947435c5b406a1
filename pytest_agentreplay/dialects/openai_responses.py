"""OpenAI's responses API.

Read from the public API reference: a request has ``input``, a text or a list of items, or names an earlier response or
a conversation that the provider remembers; an answer has ``output``, a list of items, or, streamed, events that add up
to one by output index, the last of which holds the whole answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

from pytest_agentreplay.canonical import parse_json
from pytest_agentreplay.dialects.openai_chat import PROVIDERS
from pytest_agentreplay.dialects.openai_items import names_in, names_of, read_item
from pytest_agentreplay.dialects.vocabulary import (
    Call,
    Dialect,
    Message,
    Reply,
    join_messages,
    looks_like_events,
    read_events,
)
from pytest_agentreplay.normalize import CallIds, NormalRules, PathRule
from pytest_agentreplay.records import Usage

__all__ = ["DIALECTS"]

_RULES = NormalRules(
    name="openai.responses",
    paths=(
        PathRule(("input", "*", "arguments"), "json"),
        PathRule(("input", "*", "encrypted_content"), "presence"),
        PathRule(("metadata",), "presence"),
        PathRule(("user",), "presence"),
        PathRule(("safety_identifier",), "presence"),
        PathRule(("prompt_cache_key",), "presence"),
    ),
    call_ids=(
        CallIds(
            call=("input", "*"),
            id_key="call_id",
            name=("name",),
            arguments=("arguments",),
            references=(),
        ),
    ),
)


_AT_WORK = ("queued", "in_progress")


def read_call(body: Mapping[str, Any]) -> Call | None:
    """Return the call that a request body makes, or ``None`` when it has nothing that the model could go on from."""
    items = body.get("input")
    base = _base_of(body)
    if not isinstance(items, str | list) and (items is not None or not (base or body.get("prompt"))):
        return None
    return Call(
        model=str(body.get("model") or ""),
        conversation="input",
        stream=bool(body.get("stream")),
        base=base,
        named=tuple(names_in(items)) if isinstance(items, list) else (),
    )


def _base_of(body: Mapping[str, Any]) -> str:
    """Return the id of what the provider remembers: a response, or a conversation, by its id or as an object."""
    conversation = body.get("conversation")
    if isinstance(conversation, dict):
        conversation = conversation.get("id")
    return next((name for name in (body.get("previous_response_id"), conversation) if isinstance(name, str)), "")


def read_reply(content: bytes, media_type: str) -> Reply | None:
    """Return the answer in a response, plain or streamed."""
    if looks_like_events(content, media_type):
        return _read_stream(content)
    try:
        body = parse_json(content)
    except ValueError:
        return None
    return _reply_of(body) if isinstance(body, dict) and isinstance(body.get("output"), list) else None


def _reply_of(body: Mapping[str, Any]) -> Reply:
    output = [item for item in body.get("output") or () if isinstance(item, dict)]
    details, status = body.get("incomplete_details") or {}, body.get("status")
    return Reply(
        messages=_messages_in(output) if body.get("object") != "response.compaction" else (),
        finish_reason=details.get("reason") or (None if status in _AT_WORK else status),
        usage=_usage_of(body.get("usage")),
        model=body.get("model"),
        handles=tuple(_handles_of(body, output)),
        error=_error_in(body.get("error")),
    )


def _messages_in(output: Sequence[Any]) -> tuple[Message, ...]:
    """Return what the model says in all of its items as one message."""
    said = [message for item in output if (message := read_item(item)) and message.role == "assistant"]
    return (reduce(join_messages, said),) if said else ()


def _handles_of(body: Mapping[str, Any], output: Sequence[Any]) -> Iterable[str]:
    yield from names_of(body)
    yield from names_of(body.get("conversation"))
    for item in output:
        yield from names_of(item)


def _error_in(error: Any) -> str | None:
    if not isinstance(error, dict):
        return None
    return ": ".join(str(error[key]) for key in ("code", "message") if error.get(key)) or "error"


def _usage_of(usage: Any) -> Usage | None:
    if not isinstance(usage, dict):
        return None
    read = usage.get("input_tokens_details") or {}
    written = usage.get("output_tokens_details") or {}
    return Usage(
        input_tokens=usage.get("input_tokens"),
        output_tokens=usage.get("output_tokens"),
        cache_read_input_tokens=read.get("cached_tokens") or None,
        cache_creation_input_tokens=read.get("cache_write_tokens") or None,
        reasoning_tokens=written.get("reasoning_tokens") or None,
    )


# What the pieces of a stream add to: a field of an item, or the text of one of its parts.
_FIELD_PIECES: Mapping[str, str] = {
    "response.code_interpreter_call_code.delta": "code",
    "response.custom_tool_call_input.delta": "input",
    "response.function_call_arguments.delta": "arguments",
    "response.mcp_call_arguments.delta": "arguments",
}
_PART_PIECES: Mapping[str, tuple[str, str, str]] = {
    "response.output_text.delta": ("content", "content_index", "text"),
    "response.reasoning_summary_text.delta": ("summary", "summary_index", "text"),
    "response.reasoning_text.delta": ("content", "content_index", "text"),
    "response.refusal.delta": ("content", "content_index", "refusal"),
}


@dataclass
class _Stream:
    """What the events of a stream have added up to."""

    body: dict[str, Any] = field(default_factory=dict)
    items: dict[int, dict[str, Any]] = field(default_factory=dict)
    parts: dict[int, dict[tuple[str, int], dict[str, str]]] = field(default_factory=dict)  # of items not done yet
    error: dict[str, Any] | None = None

    def add(self, event: Mapping[str, Any]) -> None:
        kind, index = event.get("type"), event.get("output_index") or 0
        if isinstance(event.get("response"), dict):
            self.body = event["response"]
        elif kind == "error":
            self.error = event.get("error") or {**event}
        elif kind in ("response.output_item.added", "response.output_item.done"):
            self.items[index] = dict(event.get("item") or {})
            self.parts.pop(index, None)
        elif isinstance(event.get("delta"), str):
            self._add_piece(str(kind), event, item=self.items.setdefault(index, {}), index=index)

    def _add_piece(self, kind: str, event: Mapping[str, Any], *, item: dict[str, Any], index: int) -> None:
        if kind in _FIELD_PIECES:
            key = _FIELD_PIECES[kind]
            item[key] = (item.get(key) or "") + event["delta"]
        elif kind in _PART_PIECES:
            key, number, text = _PART_PIECES[kind]
            part = self.parts.setdefault(index, {}).setdefault((key, event.get(number) or 0), {})
            part[text] = part.get(text, "") + event["delta"]

    def output(self) -> list[dict[str, Any]]:
        """Return the items, each as far as it came."""
        for index, parts in self.parts.items():
            for (key, _), part in sorted(parts.items(), key=lambda found: found[0]):
                whole = self.items[index]
                whole[key] = [*(whole.get(key) or ()), part]
        return [item for _, item in sorted(self.items.items())]


def _read_stream(content: bytes) -> Reply | None:
    stream = _Stream()
    for event in read_events(content):
        stream.add(event)
    if not stream.body and not stream.items and stream.error is None:
        return None
    body = {**stream.body, "output": stream.body.get("output") or stream.output()}
    if stream.error is not None:
        body |= {"status": "error", "error": stream.error}
    return _reply_of(body)


_RESPONSES = Dialect(
    name="openai",
    operation="responses",
    path=r"/responses/?$",
    rules=_RULES,
    read_call=read_call,
    read_message=read_item,
    read_reply=read_reply,
    stream_end=re.compile(
        rb'(?:^|\n)(?:event: ?|data: ?\{"type": ?")(?:response\.(?:completed|failed|incomplete)|error)'
        rb'(?:"[^\n]*)?\r?\n(?:[^\r\n]+\r?\n)*\r?\n\Z'
        rb"|data: ?\[DONE\]\r?\n\r?\n\Z"
    ),
    providers=PROVIDERS,
    groups={"instructions": "system prompt", "previous_response_id": "model's own turn", "text": "sampling"},
)
_COMPACT = replace(_RESPONSES, operation="compact", path=r"/responses/compact/?$", stream_end=None)
_RETRIEVE = replace(
    _RESPONSES,
    operation="retrieve",
    method="GET",
    path=r"/responses/(?P<id>resp_[^/]+)/?$",
)
DIALECTS = (_RESPONSES, _COMPACT, _RETRIEVE)
