"""Anthropic's messages API.

Read from the public API reference: a request has ``messages``, whose content is text or a list of blocks; an answer is
one message, or, streamed, ``message_start``, blocks by index with their deltas, and ``message_delta``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pytest_agentreplay.canonical import parse_json
from pytest_agentreplay.dialects.vocabulary import (
    Call,
    Dialect,
    Message,
    Reply,
    ToolCall,
    ToolResult,
    looks_like_events,
    read_events,
)
from pytest_agentreplay.normalize import CallIds, NormalRules, PathRule
from pytest_agentreplay.records import Usage

__all__ = ["DIALECT"]

_RULES = NormalRules(
    name="anthropic.messages",
    paths=(
        PathRule(("messages", "*", "content", "*", "signature"), "presence"),
        PathRule(("messages", "*", "content", "*", "encrypted_content"), "presence"),
        PathRule(("messages", "*", "content", "*", "content", "*", "encrypted_content"), "presence"),
        PathRule(("metadata",), "presence"),
    ),
    call_ids=(
        CallIds(
            call=("messages", "*", "content", "*"),
            id_key="id",
            name=("name",),
            arguments=("input",),
            references=(("messages", "*", "content", "*", "tool_use_id"),),
        ),
    ),
)


def read_call(body: Mapping[str, Any]) -> Call | None:
    """Return the call that a request body makes, or ``None`` when it has no messages."""
    if not isinstance(body.get("messages"), list):
        return None
    return Call(model=str(body.get("model") or ""), conversation="messages", stream=bool(body.get("stream")))


def read_message(element: Any) -> Message | None:
    """Return one element of ``messages``, or the message that an answer is."""
    if not isinstance(element, dict) or not isinstance(element.get("role"), str):
        return None
    content = element.get("content")
    if isinstance(content, str):
        return Message(role=element["role"], text=content)
    blocks = [block for block in content or () if isinstance(block, dict)]
    return Message(
        role=element["role"],
        text=_joined(blocks, kind="text", key="text"),
        tool_calls=_calls_in(blocks, "tool_use"),
        hosted_calls=_calls_in(blocks, "server_tool_use", "mcp_tool_use"),
        thinking=_joined(blocks, kind="thinking", key="thinking"),
        tool_results=tuple(
            ToolResult(
                id=str(block.get("tool_use_id") or ""),
                content=block.get("content"),
                is_error=bool(block.get("is_error")),
            )
            for block in blocks
            if block.get("type") == "tool_result"
        ),
    )


def read_reply(content: bytes, media_type: str) -> Reply | None:
    """Return the answer in a response, plain or streamed."""
    if looks_like_events(content, media_type):
        return _read_stream(content)
    try:
        body = parse_json(content)
    except ValueError:
        return None
    return _reply_of(body) if isinstance(body, dict) and body.get("type") == "message" else None


def _reply_of(body: Mapping[str, Any]) -> Reply | None:
    message = read_message(body)
    if message is None:
        return None
    return Reply(
        messages=(message,),
        finish_reason=body.get("stop_reason"),
        usage=_usage_of(body.get("usage")),
        model=body.get("model"),
    )


def _read_stream(content: bytes) -> Reply | None:
    body: dict[str, Any] = {}
    blocks: dict[int, dict[str, Any]] = {}
    for event in read_events(content):
        kind = event.get("type")
        if kind == "message_start" and isinstance(event.get("message"), dict):
            body = dict(event["message"])
        elif kind == "content_block_start":
            blocks[event.get("index") or 0] = dict(event.get("content_block") or {})
        elif kind == "content_block_delta":
            _add_delta(blocks.setdefault(event.get("index") or 0, {}), event.get("delta") or {})
        elif kind == "message_delta":
            body |= {"stop_reason": (event.get("delta") or {}).get("stop_reason")}
            body["usage"] = (body.get("usage") or {}) | (event.get("usage") or {})
    content_blocks = [_finish_block(block) for _, block in sorted(blocks.items())]
    return _reply_of({**body, "content": content_blocks}) if body else None


def _add_delta(block: dict[str, Any], delta: Mapping[str, Any]) -> None:
    for key in ("text", "thinking", "signature"):
        if isinstance(delta.get(key), str):
            block[key] = (block.get(key) or "") + delta[key]
    if isinstance(delta.get("partial_json"), str):
        block["partial_json"] = block.get("partial_json", "") + delta["partial_json"]


def _finish_block(block: Mapping[str, Any]) -> dict[str, Any]:
    if not block.get("partial_json"):
        return dict(block)
    return {**block, "input": block["partial_json"]}


def _calls_in(blocks: list[dict[str, Any]], *kinds: str) -> tuple[ToolCall, ...]:
    return tuple(
        ToolCall.of(id=block.get("id"), name=block.get("name"), arguments=block.get("input"))
        for block in blocks
        if block.get("type") in kinds
    )


def _joined(blocks: list[dict[str, Any]], *, kind: str, key: str) -> str:
    return "".join(block.get(key) or "" for block in blocks if block.get("type") == kind)


def _usage_of(usage: Any) -> Usage | None:
    if not isinstance(usage, dict):
        return None
    return Usage(
        input_tokens=usage.get("input_tokens"),
        output_tokens=usage.get("output_tokens"),
        cache_read_input_tokens=usage.get("cache_read_input_tokens") or None,
        cache_creation_input_tokens=usage.get("cache_creation_input_tokens") or None,
    )


DIALECT = Dialect(
    name="anthropic",
    operation="chat",
    path=r"/messages/?$",
    rules=_RULES,
    read_call=read_call,
    read_message=read_message,
    read_reply=read_reply,
    stream_end=re.compile(rb'data: ?\{[^\n]*"message_stop"[^\n]*\}\r?\n\r?\n\Z'),
)
