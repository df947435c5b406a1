"""OpenAI's chat completions, which many other providers speak too.

Read from the public API reference: a request has ``messages``; an answer has ``choices`` with a ``message`` each, or,
streamed, chunks whose ``delta`` add up by choice index and tool-call index.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
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
    text_in,
)
from pytest_agentreplay.normalize import CallIds, NormalRules, PathRule
from pytest_agentreplay.records import Usage

__all__ = ["DIALECT", "PROVIDERS"]

# By the host that serves OpenAI's formats: the provider's name in OpenTelemetry.
PROVIDERS = {
    "openai.azure.com": "azure.ai.openai",
    "groq.com": "groq",
    "mistral.ai": "mistral_ai",
    "deepseek.com": "deepseek",
    "perplexity.ai": "perplexity",
    "x.ai": "x_ai",
    "openrouter.ai": "openrouter",
}

_RULES = NormalRules(
    name="openai.chat",
    paths=(
        PathRule(("messages", "*", "tool_calls", "*", "function", "arguments"), "json"),
        PathRule(("messages", "*", "function_call", "arguments"), "json"),
        PathRule(("metadata",), "presence"),
        PathRule(("user",), "presence"),
        PathRule(("safety_identifier",), "presence"),
        PathRule(("prompt_cache_key",), "presence"),
    ),
    call_ids=(
        CallIds(
            call=("messages", "*", "tool_calls", "*"),
            id_key="id",
            name=("function", "name"),
            arguments=("function", "arguments"),
            references=(("messages", "*", "tool_call_id"),),
        ),
    ),
)


def read_call(body: Mapping[str, Any]) -> Call | None:
    """Return the call that a request body makes, or ``None`` when it has no messages."""
    if not isinstance(body.get("messages"), list):
        return None
    return Call(str(body.get("model") or ""), "messages", bool(body.get("stream")))


def read_message(element: Any) -> Message | None:
    """Return one element of ``messages``."""
    role = element.get("role") if isinstance(element, dict) else None
    if not isinstance(role, str):
        return None
    text = text_in(element.get("content")) or text_in(element.get("refusal"))
    if role == "tool":
        return Message(role, text, tool_results=(_result_in(element),))
    called = element.get("tool_calls")
    thought = element.get("reasoning_content") or element.get("reasoning")
    return Message(role, text, _calls_in(called) if called else (), text_in(thought) if thought else "")


def read_reply(content: bytes, media_type: str) -> Reply | None:
    """Return the answer in a response, plain or streamed."""
    if looks_like_events(content, media_type):
        return _read_stream(content)
    try:
        body = parse_json(content)
    except ValueError:
        return None
    choices = body.get("choices") if isinstance(body, dict) else None
    if not isinstance(choices, list):
        return None
    found = [choice for choice in choices if isinstance(choice, dict)]
    messages = tuple([message for choice in found if (message := read_message(choice.get("message")))])
    finish_reason = found[0].get("finish_reason") if found else None
    return Reply(messages, finish_reason, _usage_of(body.get("usage")), body.get("model"))


def _read_stream(content: bytes) -> Reply | None:
    choices: dict[int, dict[str, Any]] = {}
    usage = model = finish = None
    for event in read_events(content):
        usage = _usage_of(event.get("usage")) or usage
        model = event.get("model") or model
        for choice in event.get("choices") or ():
            if isinstance(choice, dict):
                _add_delta(choices.setdefault(choice.get("index") or 0, {}), choice.get("delta") or {})
                finish = choice.get("finish_reason") or finish
    if not choices:
        return None
    messages = tuple(message for _, choice in sorted(choices.items()) if (message := _finish_choice(choice)))
    return Reply(messages=messages, finish_reason=finish, usage=usage, model=model)


def _add_delta(choice: dict[str, Any], delta: Mapping[str, Any]) -> None:
    for key in ("content", "refusal", "reasoning_content", "reasoning"):
        if isinstance(delta.get(key), str):
            choice[key] = choice.get(key, "") + delta[key]
    choice["role"] = delta.get("role") or choice.get("role") or "assistant"
    for piece in delta.get("tool_calls") or ():
        calls = choice.setdefault("tool_calls", {})
        call = calls.setdefault(piece.get("index") or 0, {"id": "", "name": "", "arguments": ""})
        made = piece.get("function") or piece.get("custom") or {}
        call["id"] = piece.get("id") or call["id"]
        call["name"] += made.get("name") or ""
        call["arguments"] += made.get("arguments") or made.get("input") or ""


def _finish_choice(choice: Mapping[str, Any]) -> Message | None:
    calls = [
        {"id": call["id"], "function": {"name": call["name"], "arguments": call["arguments"]}}
        for _, call in sorted(choice.get("tool_calls", {}).items())
    ]
    return read_message({**choice, "tool_calls": calls})


def _calls_in(called: Iterable[Any]) -> tuple[ToolCall, ...]:
    calls = []
    for call in called:
        made = (call.get("function") or call.get("custom") or {}) if isinstance(call, dict) else None
        if isinstance(made, dict):
            arguments = made.get("arguments", made.get("input"))
            calls.append(ToolCall.of(id=call.get("id"), name=made.get("name"), arguments=arguments))
    return tuple(calls)


def _result_in(element: Mapping[str, Any]) -> ToolResult:
    return ToolResult(str(element.get("tool_call_id") or ""), element.get("content"))


def _usage_of(usage: Any) -> Usage | None:
    if not isinstance(usage, dict):
        return None
    read = usage.get("prompt_tokens_details") or {}
    written = usage.get("completion_tokens_details") or {}
    return Usage(
        input_tokens=usage.get("prompt_tokens"),
        output_tokens=usage.get("completion_tokens"),
        cache_read_input_tokens=read.get("cached_tokens") or None,
        reasoning_tokens=written.get("reasoning_tokens") or None,
    )


DIALECT = Dialect(
    name="openai",
    operation="chat",
    path=r"/chat/completions/?$",
    rules=_RULES,
    read_call=read_call,
    read_message=read_message,
    read_reply=read_reply,
    stream_end=re.compile(rb"data: ?\[DONE\]\r?\n\r?\n\Z"),
    providers=PROVIDERS,
)
