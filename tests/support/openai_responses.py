"""A provider that speaks OpenAI's responses API, made up from what is asked; ids are new each time."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator
from typing import Any

from tests.support.server import Answer, Seen, answer_json

USAGE = {
    "input_tokens": 20,
    "input_tokens_details": {"cached_tokens": 8, "cache_write_tokens": 2},
    "output_tokens": 7,
    "output_tokens_details": {"reasoning_tokens": 3},
    "total_tokens": 27,
}
# The first of these that an event's item has is sent in pieces.
_PIECES = {"arguments": "response.function_call_arguments", "input": "response.custom_tool_call_input"}


def new_id(prefix: str) -> str:
    """Return an id as the provider makes them."""
    return f"{prefix}_{uuid.uuid4().hex}"


def says(text: str) -> dict[str, Any]:
    """Return the item of a message."""
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    return {"type": "message", "id": new_id("msg"), "status": "completed", "role": "assistant", "content": [part]}


def thinks(text: str) -> dict[str, Any]:
    """Return the item of reasoning."""
    summary = [{"type": "summary_text", "text": text}]
    return {"type": "reasoning", "id": new_id("rs"), "summary": summary, "encrypted_content": uuid.uuid4().hex}


def calls(name: str, **arguments: Any) -> dict[str, Any]:
    """Return the item of a call of a function."""
    call = {"type": "function_call", "id": new_id("fc"), "call_id": new_id("call"), "name": name}
    return {**call, "arguments": json.dumps(arguments), "status": "completed"}


def response(*output: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Return an answer of these items; ``fields`` replace those it has."""
    return {
        "id": new_id("resp"),
        "object": "response",
        "created_at": 1700000000,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "model": "m-2025",
        "output": list(output),
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": USAGE,
        **fields,
    }


def stream_of(body: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the events of an answer that is streamed."""
    begun = {**body, "status": "in_progress", "output": [], "usage": None}
    events: list[dict[str, Any]] = [{"type": "response.created", "response": begun}]
    for index, item in enumerate(body["output"]):
        events += ({**event, "output_index": index} for event in _events_of(item))
    events.append({"type": f"response.{body['status']}", "response": body})
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]


def stream_answer(events: list[dict[str, Any]], *, gap: float = 0.0) -> Answer:
    """Return a streamed answer, one event a chunk, each with its name as the provider sends it."""
    chunks = [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events]
    return Answer(headers=(("content-type", "text/event-stream"),), chunks=chunks, gap=gap)


def _events_of(item: dict[str, Any]) -> Iterator[dict[str, Any]]:
    key = next((key for key in _PIECES if key in item), None)
    yield {"type": "response.output_item.added", "item": item | ({key: ""} if key else {"content": [], "summary": []})}
    place = {"item_id": item["id"]}
    if key is not None:
        yield from (place | {"type": f"{_PIECES[key]}.delta", "delta": piece} for piece in _cut(item[key]))
        yield place | {"type": f"{_PIECES[key]}.done", key: item[key], "name": item["name"]}
    for number, part in enumerate(item.get("content") or ()):
        where = place | {"content_index": number}
        yield where | {"type": "response.content_part.added", "part": {**part, "text": ""}}
        for piece in _cut(part["text"]):
            yield where | {"type": "response.output_text.delta", "delta": piece, "logprobs": []}
        yield where | {"type": "response.output_text.done", "text": part["text"], "logprobs": []}
        yield where | {"type": "response.content_part.done", "part": part}
    for number, part in enumerate(item.get("summary") or ()):
        where = place | {"summary_index": number}
        yield where | {"type": "response.reasoning_summary_part.added", "part": {**part, "text": ""}}
        for piece in _cut(part["text"]):
            yield where | {"type": "response.reasoning_summary_text.delta", "delta": piece}
        yield where | {"type": "response.reasoning_summary_text.done", "text": part["text"]}
    yield {"type": "response.output_item.done", "item": item}


def _cut(text: str) -> list[str]:
    return re.findall(r".{1,6}", text, re.DOTALL)


class Responses:
    """Answers every endpoint: calls the first tool that is offered once, then says what it last heard."""

    def __init__(self) -> None:
        self.made: dict[str, dict[str, Any]] = {}
        self.polls: dict[str, int] = {}

    def __call__(self, seen: Seen) -> Answer:
        _, _, rest = seen.path.partition("/responses")
        name, _, action = rest.strip("/").partition("/")
        if name == "compact":
            item = {"type": "compaction", "id": new_id("cmp"), "encrypted_content": uuid.uuid4().hex}
            body = response(item, object="response.compaction")
        elif seen.method == "POST" and not name:
            return self._create(seen.json())
        elif seen.method == "DELETE":
            body = {"id": name, "object": "response", "deleted": True}
        elif action == "cancel":
            body = self.made[name] | {"status": "cancelled", "output": []}
        else:
            body = self._poll(name)
        return answer_json(body)

    def _poll(self, name: str) -> dict[str, Any]:
        self.polls[name] = self.polls.get(name, 0) + 1
        is_done = self.polls[name] > 1
        return self.made[name] if is_done else self.made[name] | {"status": "in_progress", "output": [], "usage": None}

    def _create(self, asked: dict[str, Any]) -> Answer:
        body = response(*self._output(asked), previous_response_id=asked.get("previous_response_id"))
        self.made[body["id"]] = body
        if asked.get("background"):
            return answer_json(body | {"status": "queued", "output": [], "usage": None})
        return stream_answer(stream_of(body)) if asked.get("stream") else answer_json(body)

    def _output(self, asked: dict[str, Any]) -> list[dict[str, Any]]:
        heard = asked["input"] if isinstance(asked["input"], list) else [{"role": "user", "content": asked["input"]}]
        if asked.get("tools") and heard[-1].get("type") != "function_call_output":
            return [thinks("I must look."), calls(asked["tools"][0]["name"], city="Paris")]
        if (asked.get("text") or {}).get("format", {}).get("type") == "json_schema":
            return [says('{"city": "Paris"}')]
        last = heard[-1].get("output") or heard[-1].get("content")
        return [thinks("Easy."), says(f"echo: {last}")]
