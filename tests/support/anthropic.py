"""Answers in Anthropic's messages format, made up from what is asked."""

from __future__ import annotations

import json
from typing import Any

from tests.support.server import Answer, Seen, answer_json


def message(text: str) -> dict[str, Any]:
    """Return a message that says ``text``."""
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude",
        "content": [{"type": "text", "text": text}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 5},
    }


def message_stream(pieces: list[str], *, gap: float = 0.0) -> Answer:
    """Return a streamed message, one piece of text an event."""
    start = message("") | {"content": [], "stop_reason": None}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": start},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *(
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": piece}}
            for piece in pieces
        ),
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn", "stop_sequence": None},
            "usage": {"output_tokens": 5},
        },
        {"type": "message_stop"},
    ]
    chunks = [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events]
    return Answer(headers=(("content-type", "text/event-stream"),), chunks=chunks, gap=gap)


def echo(seen: Seen) -> Answer:
    """Answer with the last message, streamed where that is asked."""
    asked = seen.json()
    text = f"echo: {asked['messages'][-1]['content']}"
    return message_stream([text[:4], text[4:]]) if asked.get("stream") else answer_json(message(text))
