"""Cassettes written without any HTTP: each exchange is told to a session as a client would."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_agentreplay.dialects import load_dialects
from pytest_agentreplay.player import Ticket
from pytest_agentreplay.reader import HttpRequest
from pytest_agentreplay.records import Phase, Response, TransportError
from pytest_agentreplay.session import Session, open_session
from pytest_agentreplay.settings import Settings

OPENAI = "https://api.openai.com/v1/chat/completions"
RESPONSES = "https://api.openai.com/v1/responses"
ANTHROPIC = "https://api.anthropic.com/v1/messages"
JSON = (("content-type", "application/json"),)
EVENTS = (("content-type", "text/event-stream"),)


@dataclass(frozen=True)
class Told:
    """One exchange: a request, and what came of it.  A ``body`` that is no ``bytes`` is sent as JSON."""

    body: Any
    answer: Any = None
    url: str = OPENAI
    method: str = "POST"
    status: int = 200
    headers: tuple[tuple[str, str], ...] = JSON
    truncated: bool = False
    error: TransportError | None = None
    phase: Phase = "call"


def chat(*messages: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Return the body of a chat request."""
    return {"model": "m", "messages": list(messages), **fields}


def write_cassette(path: Path, exchanges: Sequence[Told], *, passed: bool = True) -> Path:
    """Record the exchanges as one test would, and return the cassette."""
    session = _record(path, exchanges)
    session.close(passed=passed)
    return path


def write_partial(path: Path, exchanges: Sequence[Told]) -> Path:
    """Record the exchanges and leave them as an interrupted test would; return the partial recording."""
    session = _record(path, exchanges)
    assert session.recording is not None
    session.recording.leave()
    return session.recording.partial


def _record(path: Path, exchanges: Sequence[Told]) -> Session:
    settings = Settings(record_mode="rewrite")
    session = open_session(name="test_it.py::test_it", path=path, settings=settings, dialects=load_dialects())
    for told in exchanges:
        session.begin(told.phase)
        ticket = session.player.ask(session.reader.read(_request(told)), call_site=lambda: None)
        assert isinstance(ticket, Ticket)
        session.player.complete(ticket, response=None if told.error else _response(told), error=told.error)
    return session


def _request(told: Told) -> HttpRequest:
    content = told.body if isinstance(told.body, bytes) else json.dumps(told.body).encode()
    return HttpRequest(method=told.method, url=told.url, headers=JSON if content else (), content=content)


def _response(told: Told) -> Response:
    content = told.answer if isinstance(told.answer, bytes) else json.dumps(told.answer).encode()
    return Response(status=told.status, headers=told.headers, content=content, truncated=told.truncated)
