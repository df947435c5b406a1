"""Tapes in memory, told step by step: what was heard and answered in each conversation, what tools did, and notes."""

from __future__ import annotations

import json
from typing import Any

from pytest_agentreplay.canonical import content_hash
from pytest_agentreplay.dialects import load_dialects
from pytest_agentreplay.player import MemoryTape
from pytest_agentreplay.reader import HttpRequest, Reader, rule_set_for
from pytest_agentreplay.records import (
    Entry,
    HttpStep,
    ModelStep,
    Response,
    RunStart,
    Timing,
    ToolFailure,
    ToolStep,
    TransportError,
    Usage,
)
from pytest_agentreplay.redact import redactor_for

OPENAI = "https://api.openai.com/v1/chat/completions"
ANTHROPIC = "https://api.anthropic.com/v1/messages"
JSON = (("content-type", "application/json"),)
REFUSED = TransportError(client="httpx", class_name="ConnectError", phase="connect", text="refused")

# What is drawn of one model call, one tool and one answer.
SPECIFIED = """\
flowchart TD
  start([user])
  n0["LLM"]
  start --> n0
  n1["tool: charge"]
  n0 --> n1
  n2["LLM"]
  n1 --> n2
  n2 --> done([done])
"""

Call = tuple[str, str, Any]  # id, name, arguments

_RULES = rule_set_for(load_dialects(), redactor=redactor_for())


def user(text: Any) -> dict[str, Any]:
    """Return a message of the user's."""
    return {"role": "user", "content": text}


def result(call_id: str, content: Any) -> dict[str, Any]:
    """Return the message that brings OpenAI's model the result of a tool."""
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def results(*found: tuple[str, Any], is_error: bool = False) -> dict[str, Any]:
    """Return the message that brings Anthropic's model the results of tools, each by id."""
    blocks = [{"type": "tool_result", "tool_use_id": call_id, "content": content} for call_id, content in found]
    return user([block | ({"is_error": True} if is_error else {}) for block in blocks])


def says(*texts: str | None, calls: tuple[Call, ...] = (), stop: str | None = None, status: int = 200) -> Response:
    """Return OpenAI's answer, a choice for each text; the first calls tools."""
    finish = stop or ("tool_calls" if calls else "stop")
    choices = [{"index": at, "message": _message(text), "finish_reason": finish} for at, text in enumerate(texts)]
    if calls:
        choices = choices or [{"index": 0, "message": _message(None), "finish_reason": finish}]
        choices[0]["message"]["tool_calls"] = [_call(*call) for call in calls]
    return _json({"choices": choices}, status=status)


def asks(*calls: Call) -> Response:
    """Return OpenAI's answer that calls tools and says nothing."""
    return says(calls=calls)


def claude(text: str | None, *calls: Call, stop: str | None = None) -> Response:
    """Return Anthropic's answer."""
    blocks: list[dict[str, Any]] = [{"type": "text", "text": text}] if text is not None else []
    blocks += [{"type": "tool_use", "id": call_id, "name": name, "input": value} for call_id, name, value in calls]
    ending = stop or ("tool_use" if calls else "end_turn")
    return _json({"type": "message", "role": "assistant", "content": blocks, "stop_reason": ending})


def fails(status: int, message: str | None = None) -> Response:
    """Return an error of the provider's."""
    return _json({"error": {"message": message, "type": "x", "request_id": "r1"}} if message else "?", status=status)


class Story:
    """A tape that grows by what is told; each conversation remembers what was said in it."""

    def __init__(self, name: str | None = "tests/test_it.py::test_it", *, task: str | None = None) -> None:
        self.tape = MemoryTape(start=RunStart(name=name, task=task) if name else None)
        self._reader = Reader(_RULES)
        self._said: dict[str, list[Any]] = {}

    def model(
        self, *heard: Any, reply: Response | TransportError, lane: str = "a1", url: str = OPENAI, **more: Any
    ) -> ModelStep:
        """Tell of one request that adds messages to its conversation, and of its answer."""
        said = self._said.setdefault(lane, [])
        said += heard
        content = json.dumps({"model": "m", "messages": said}).encode()
        asked = self._reader.read(HttpRequest(method="POST", url=url, headers=JSON, content=content))
        answered = {"error": reply} if isinstance(reply, TransportError) else {"response": reply}
        step = ModelStep(
            hash=asked.hash,
            lane=lane,
            provider=asked.provider,
            operation=asked.operation,
            request=asked.request,
            **answered,
            **more,
        )
        self.tape.append(step, asked.messages)
        said += _echo(answered.get("response"))
        return step

    def http(self, url: str = "https://telemetry.example.com/", *, lane: str = "h1", **more: Any) -> None:
        """Tell of traffic that no dialect reads."""
        asked = self._reader.read(HttpRequest(method="POST", url=url, headers=JSON, content=b"{}"))
        step = HttpStep(hash=asked.hash, lane=lane, request=asked.request, response=_json({}), **more)
        self.tape.append(step, asked.messages)

    def fetched(self, content: Any, *, lane: str) -> None:
        """Tell of an answer of OpenAI's responses that was asked for before and is fetched now."""
        url = "https://api.openai.com/v1/responses/resp_1"
        asked = self._reader.read(HttpRequest(method="GET", url=url, headers=(), content=b""))
        known_by = {"hash": asked.hash, "provider": asked.provider, "operation": asked.operation}
        step = HttpStep(lane=lane, request=asked.request, response=_json(content), **known_by)
        self.tape.append(step, asked.messages)

    def tool(
        self,
        name: str,
        arguments: Any = None,
        result: Any = None,
        *,
        use: str | None = None,
        failure: str | None = None,
        lane: str = "a1",
        **more: Any,
    ) -> ToolStep:
        """Tell of one recorded call; ``use`` is the provider's id, ``failure`` is ``MODULE:NAME: MESSAGE``."""
        digest = content_hash([name, arguments]).partition(":")[2]
        kind, _, message = (failure or "").partition(": ")
        step = ToolStep(
            hash=f"a1:{digest}",
            lane=lane,
            name=name,
            arguments=arguments,
            result=result,
            tool_use_id=use,
            error=ToolFailure(type=kind, message=message) if failure else None,
            **{"id": f"{digest[:16]}.{len(self.tape.entries)}", "is_error": bool(failure), **more},
        )
        self.tape.append(step, {})
        return step

    def note(self, *steps: Entry) -> None:
        """Add steps that answer nothing."""
        for step in steps:
            self.tape.append(step, {})


def took(began: float, seconds: float) -> Timing:
    """Return when a step began and how long it took."""
    return Timing(began=began, took=seconds)


def tokens(sent: int | None, received: int | None) -> Usage:
    """Return the tokens of one call."""
    return Usage(input_tokens=sent, output_tokens=received)


def _message(text: str | None) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def _call(call_id: str, name: str, arguments: Any) -> dict[str, Any]:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": text}}


def _json(value: Any, *, status: int = 200) -> Response:
    return Response(status=status, headers=JSON, content=json.dumps(value).encode())


def _echo(response: Response | None) -> list[Any]:
    """Return an answer as the agent sends it back with its next request."""
    if response is None or response.status >= 400 or response.truncated:
        return []
    try:
        body = json.loads(response.content)
    except ValueError:
        return []
    if "choices" in body:
        return [choice["message"] for choice in body["choices"][:1]]
    return [{"role": "assistant", "content": body["content"]}] if "content" in body else []
