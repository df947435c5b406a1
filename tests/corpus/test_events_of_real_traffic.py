"""Real traffic as events: every exchange that a dialect reads is a turn or an error, and stays told as it is now."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from itertools import groupby
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from pytest_agentreplay.cassette import Cassette, load_cassette
from pytest_agentreplay.dialects import Dialects, anthropic_messages, openai_chat
from pytest_agentreplay.player import Ticket
from pytest_agentreplay.projections.event_text import parse_events, write_events
from pytest_agentreplay.projections.events import Event, event_stream
from pytest_agentreplay.reader import HttpRequest
from pytest_agentreplay.records import Response
from pytest_agentreplay.session import open_session
from pytest_agentreplay.settings import Settings
from tests.corpus.traffic import Exchange

pytestmark = pytest.mark.corpus

DIALECTS = Dialects((openai_chat.DIALECT, anthropic_messages.DIALECT))

# What each tape is told as: its events without that of the run, and the first digits of the SHA-256 of its text, which
# itself is the corpus's.
GOLDENS = {
    "chatlas__test_anthropic_file_lifecycle.yaml": ("user turn", "822b3058b392a7e1"),
    "crewAI__TestAgentExecutorPlanning.test_planning_handles_sequential_dependency_task.yaml": (
        (
            "user turn:call_1 user@2 turn@2 user@3 turn@3 user@4 turn@4 user@5 turn@5"
            " user@6 turn@6 user@7 turn@7 user@8 turn@8 user@9 turn@9"
        ),
        "02d3e49106324958",
    ),
    "dd-trace-py__completion_stream_multiple_choices_with_tools.yaml": ("user turn", "0e08ea96f9282058"),
    "dd-trace-py__mistral_v1_chat_completions_post_20aaaaf3.json": ("user turn", "45459808866a39f3"),
    "llama-stack__670757c2c823fca147653335273a99d3a32296d94a05678b08d6328d4968f7b1.json": (
        "user*51 turn",
        "4188bdad54638dd8",
    ),
    "mirascope__streams-tool-calls-and-resumes-with-results.har": (
        "user turn:call_1:call_2 tool:secret_retrieval_tool*2 turn",
        "fa6e794e5906cd37",
    ),
    "openllmetry__test_chat_reasoning.yaml": ("user turn user@2 error@2:404*3", "a3606944d446b04a"),
    "pydantic-ai__test_anthropic_web_fetch_tool.yaml": ("user turn user turn", "5caf98f922119d7c"),
    "pydantic-ai__test_mcptoolset_in_temporal_workflow.yaml": (
        "user turn:call_1 tool:ask_question turn",
        "9c46ac0338b729f2",
    ),
    "pydantic-ai__test_openrouter_errors_raised.yaml": ("user error:429*3", "69dc5ed1bf330292"),
    "pydantic-ai__test_tool_use_failed_error.yaml": (
        "user error:400 user@2 turn@2:call_1 tool@2:get_something_by_name turn@2",
        "5a571a74d5881d41",
    ),
    "aux/pydantic-ai__test_snowflake_tool_calling.yaml": ("user turn:call_1 tool:get_weather turn", "e7ac8a2ded8126ae"),
}


@pytest.fixture(scope="module")
def tapes(traffic: Mapping[str, list[Exchange]], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Cassette]:
    """The exchanges of each file, recorded as those of one test."""
    folder = tmp_path_factory.mktemp("cassettes")
    return {file: _record(folder / f"{at}.jsonl", exchanges) for at, (file, exchanges) in enumerate(traffic.items())}


def _record(path: Path, exchanges: list[Exchange]) -> Cassette:
    settings = Settings(record_mode="rewrite")
    session = open_session(name="test_it.py::test_it", path=path, settings=settings, dialects=DIALECTS)
    session.begin("call")
    for exchange in exchanges:
        asked = session.reader.read(
            HttpRequest(
                method=exchange.method,
                url=exchange.url,
                headers=exchange.request_headers,
                content=exchange.request_body,
            )
        )
        ticket = session.player.ask(asked, call_site=lambda: None)
        assert isinstance(ticket, Ticket)
        headers = tuple((name.lower(), value) for name, value in exchange.response_headers)
        response = Response(status=exchange.status, headers=headers, content=exchange.response_body)
        session.player.complete(ticket, response=response)
    session.close(passed=True)
    return load_cassette(path)


def events_of(tape: Cassette) -> list[Event]:
    return event_stream(tape, dialects=DIALECTS)


def is_read(exchange: Exchange) -> bool:
    """Return whether an exchange is one of OpenAI's chat completions or Anthropic's messages, by its URL."""
    path = urlsplit(exchange.url).path
    is_anthropic = exchange.url.partition("?")[0] == "https://api.anthropic.com/v1/messages"
    return exchange.method == "POST" and (path.endswith("/chat/completions") or is_anthropic)


def golden_of(events: list[Event]) -> tuple[str, str]:
    words = [_word(event) for event in events if event["event"] != "run"]
    runs = [(word, len(list(run))) for word, run in groupby(words)]
    shape = " ".join(word if count == 1 else f"{word}*{count}" for word, count in runs)
    return shape, sha256(write_events(events).encode()).hexdigest()[:16]


def _word(event: Mapping[str, Any]) -> str:
    named = [event.get("name"), event.get("status"), *(call["id"] for call in event.get("calls", ()))]
    place = event["lane"].replace("lane_", "@") if "lane" in event else ""
    return event["event"] + place + "".join(f":{name}" for name in named if name is not None)


def test_every_exchange_that_is_read_is_told_as_a_turn_or_an_error(
    traffic: Mapping[str, list[Exchange]], tapes: Mapping[str, Cassette]
) -> None:
    expected = {
        file: [exchange.status < 400 for exchange in found if is_read(exchange)] for file, found in traffic.items()
    }

    told = {
        file: [event["event"] == "turn" for event in events_of(tape) if event["event"] in ("turn", "error")]
        for file, tape in tapes.items()
    }

    assert sum(map(len, told.values())) == 31
    assert {file: sorted(ends) for file, ends in told.items()} == {
        file: sorted(ends) for file, ends in expected.items()
    }


def test_each_turn_says_something_or_asks_for_tools(tapes: Mapping[str, Cassette]) -> None:
    turns = [event for tape in tapes.values() for event in events_of(tape) if event["event"] == "turn"]

    assert [turn for turn in turns if not turn.keys() & {"text", "calls", "choices"}] == []


def test_each_tape_is_told_as_its_golden(tapes: Mapping[str, Cassette]) -> None:
    told = {file: golden_of(events_of(tape)) for file, tape in tapes.items() if len(events_of(tape)) > 1}

    assert told == GOLDENS


def test_each_text_reads_back_as_the_events(tapes: Mapping[str, Cassette]) -> None:
    for tape in tapes.values():
        events = events_of(tape)
        assert parse_events(write_events(events)) == events
