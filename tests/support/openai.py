"""Answers in OpenAI's chat format, made up from what is asked."""

from __future__ import annotations

import json
from typing import Any

from tests.support.server import Answer, answer_events, answer_json


def completion(text: str | None, *, tool_calls: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    """Return a chat completion."""
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if tool_calls:
        message["tool_calls"] = tool_calls
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1700000000,
        "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls" if tool_calls else "stop"}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
    }


def call(id: str, name: str, **arguments: Any) -> dict[str, Any]:  # noqa: A002 - the wire's own word
    """Return a call of a tool, as a model asks for it."""
    return {"id": id, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


def chat_answer(text: str, *, delay: float = 0.0) -> Answer:
    """Return a plain answer that says ``text``."""
    return answer_json(completion(text), delay=delay)


def chat_stream(pieces: list[str], *, gap: float = 0.0) -> Answer:
    """Return a streamed answer, one piece of text an event."""
    chunks: list[str | dict[str, Any]] = [
        {
            "id": "chatcmpl-1",
            "object": "chat.completion.chunk",
            "created": 1700000000,
            "model": "m",
            "choices": [{"index": 0, "delta": {"role": "assistant", "content": piece}, "finish_reason": None}],
        }
        for piece in pieces
    ]
    return answer_events([*chunks, "[DONE]"], gap=gap)
