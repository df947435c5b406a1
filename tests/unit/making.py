"""Requests, exchanges and tapes to test with, made with as few words as a test needs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pytest_agentreplay.cassette import Recording
from pytest_agentreplay.dialects import load_dialects
from pytest_agentreplay.reader import Asked, HttpRequest, Reader, rule_set_for
from pytest_agentreplay.records import ExchangeStep, HttpStep, ModelStep, Response, RunEnd, RunStart, Timing
from pytest_agentreplay.redact import redactor_for

__all__ = [
    "CHAT",
    "JSON",
    "RESPONSES",
    "answer",
    "chat",
    "conversation",
    "make_reader",
    "post",
    "record",
    "responses",
    "said",
    "step_for",
    "user",
]

CHAT = "https://api.openai.com/v1/chat/completions"
RESPONSES = "https://api.openai.com/v1/responses"
JSON = (("content-type", "application/json"),)
DIALECTS = load_dialects()
REDACTOR = redactor_for()


def make_reader(*, redact_patterns: Iterable[str] = (), **rules: Iterable[str]) -> Reader:
    """Return a reader that has read nothing yet."""
    redactor = redactor_for(patterns=redact_patterns) if redact_patterns else REDACTOR
    return Reader(rule_set_for(DIALECTS, redactor=redactor, **rules))


def post(body: Any, *, url: str = CHAT, headers: Iterable[tuple[str, str]] = JSON, method: str = "POST") -> HttpRequest:
    """Return a request; ``body`` is bytes, or a value to be sent as JSON."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return HttpRequest(method=method, url=url, headers=tuple(headers), content=content)


def user(text: str) -> dict[str, str]:
    """Return a message of the user's."""
    return {"role": "user", "content": text}


def said(text: str) -> dict[str, str]:
    """Return a message of the model's, as an agent sends it back."""
    return {"role": "assistant", "content": text}


def chat(*messages: Any, **fields: Any) -> HttpRequest:
    """Return a chat completion request."""
    return post({"model": "m", "messages": list(messages), **fields})


def responses(*items: Any, **fields: Any) -> HttpRequest:
    """Return a request of the responses API: one text, or items."""
    is_text = len(items) == 1 and isinstance(items[0], str)
    return post({"model": "m", "input": items[0] if is_text else list(items), **fields}, url=RESPONSES)


def answer(text: str, *, status: int = 200) -> Response:
    """Return the answer of a chat completion."""
    message = {"role": "assistant", "content": text}
    body = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    return Response(status=status, headers=JSON, content=json.dumps(body).encode())


def conversation(turns: int) -> list[HttpRequest]:
    """Return the requests of a conversation that grows by an answer and a question each turn."""
    messages: list[Any] = [{"role": "system", "content": "Be brief."}]
    requests = []
    for turn in range(turns):
        messages.append(user(f"question {turn}"))
        requests.append(chat(*messages, tools=[{"type": "function", "function": {"name": "look"}}]))
        messages.append(said(f"answer {turn}"))
    return requests


def step_for(
    asked: Asked,
    *,
    lane: str = "",
    response: Response | None = None,
    began: float = 0.0,
    took: float = 0.0,
    **more: Any,
) -> ExchangeStep:
    """Return the step that a player would make of a request and its answer."""
    kind = ModelStep if asked.kind == "model" else HttpStep
    return kind(
        hash=asked.hash,
        lane=lane or asked.hash[3:11],
        provider=asked.provider,
        operation=asked.operation,
        request=asked.request,
        response=response,
        timing=Timing(began=began, took=took),
        **more,
    )


def record(path: Path, steps: Iterable[tuple[ExchangeStep, Mapping[str, Any]]], **start: Any) -> Path:
    """Write a cassette of steps, each with the messages its request brings, and return where it is."""
    recording = Recording(path, RunStart(**{"rules": make_reader().rules.digest, **start}), redactor=REDACTOR)
    for step, messages in steps:
        recording.append(step, messages)
    recording.close(RunEnd())
    return path
