"""What the dialects make of real provider traffic: which exchanges they read, and what they find in the answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import partial
from urllib.parse import urlsplit

import pytest

from pytest_agentreplay.dialects import Reply, load_dialects
from pytest_agentreplay.player import Lanes
from pytest_agentreplay.reader import Asked, HttpRequest, Reader, rule_set_for
from pytest_agentreplay.records import Response
from pytest_agentreplay.redact import redactor_for
from tests.corpus.traffic import Exchange

pytestmark = pytest.mark.corpus

MODEL_STEPS = {
    "anthropic": 5,
    "azure.ai.openai": 4,
    "groq": 3,
    "mistral_ai": 1,
    "openai": 25,
    "openrouter": 3,
}
HTTP_STEPS = {
    "127.0.0.1": 1,
    "aiplatform.googleapis.com": 2,
    "api.anthropic.com": 3,
    "api.cohere.com": 4,
    "api.openai.com": 11,
    "api.perplexity.ai": 1,
    "api.voyageai.com": 1,
    "api.writer.com": 2,
    "api.x.ai": 6,
    "bedrock-runtime.us-east-1.amazonaws.com": 7,
    "bedrock-runtime.us-west-2.amazonaws.com": 2,
    "generativelanguage.googleapis.com": 7,
    "localhost": 2,
    "mcp.deepwiki.com": 7,
    "openrouter.ai": 1,
}
# The tools that each answer calls, choice by choice; every other answer says something and calls none.
TOOL_CALLS = {
    "crewAI__TestAgentExecutorPlanning.test_planning_handles_sequential_dependency_task.yaml#0": [
        ["create_reasoning_plan"]
    ],
    "dd-trace-py__completion_stream_multiple_choices_with_tools.yaml#0": [
        ["get_current_weather"],
        ["get_current_weather"],
    ],
    "mirascope__streams-tool-calls-and-resumes-with-results.har#0": [
        ["secret_retrieval_tool", "secret_retrieval_tool"]
    ],
    "pydantic-ai__test_mcptoolset_in_temporal_workflow.yaml#3": [["ask_question"]],
    "pydantic-ai__test_tool_use_failed_error.yaml#1": [["get_something_by_name"]],
    "aux/pydantic-ai__test_snowflake_tool_calling.yaml#0": [["get_weather"]],
    "dd-trace-py__test_multiple_agent_handoffs.yaml#0": [["research"]],
    "dd-trace-py__test_multiple_agent_handoffs.yaml#1": [["transfer_to_summarizer"]],
}
COMPACTION = "pydantic-ai__test_openai_responses_compact_messages.yaml#2"  # an answer that says nothing, and never ends
FINISH_REASONS = {"completed": 6, None: 1, "stop": 13, "end_turn": 4, "tool_calls": 4, "tool_use": 1, "": 2}

TOKENS_OF_RESPONSES = [
    (334, 23),
    (812, 44),
    (173, 11),
    (29, 9),
    (51, 9),
    (156, 190),
    (298, 8),
]  # handoffs, then a compaction


@pytest.fixture(scope="module")
def reader() -> Reader:
    return Reader(rule_set_for(load_dialects(), redactor=redactor_for()))


@pytest.fixture(scope="module")
def read(traffic: Mapping[str, list[Exchange]], reader: Reader) -> list[tuple[Exchange, Asked]]:
    return [
        (
            exchange,
            reader.read(
                HttpRequest(
                    method=exchange.method,
                    url=exchange.url,
                    headers=exchange.request_headers,
                    content=exchange.request_body,
                )
            ),
        )
        for file in traffic.values()
        for exchange in file
    ]


@pytest.fixture(scope="module")
def answered(read: list[tuple[Exchange, Asked]], reader: Reader) -> dict[str, Reply]:
    """The answers of status 2xx to model calls, redacted as a recording keeps them."""
    replies = {
        exchange.name: reader.read_reply(asked, reader.redact_response(_response_of(exchange)))
        for exchange, asked in read
        if asked.kind == "model" and exchange.status < 300
    }
    assert None not in replies.values()
    return {name: reply for name, reply in replies.items() if reply is not None}


def _response_of(exchange: Exchange) -> Response:
    headers = tuple((name.lower(), value) for name, value in exchange.response_headers)
    return Response(status=exchange.status, headers=headers, content=exchange.response_body)


def test_openais_and_anthropics_completions_are_model_steps_and_all_else_is_http(
    read: list[tuple[Exchange, Asked]],
) -> None:
    spoken = {
        exchange.name: urlsplit(exchange.url).path.endswith(("/chat/completions", "/responses", "/responses/compact"))
        or exchange.url.partition("?")[0] == "https://api.anthropic.com/v1/messages"
        for exchange, _ in read
    }

    kinds = {exchange.name: asked.kind for exchange, asked in read}

    assert len(kinds) == 98
    assert kinds == {name: "model" if is_spoken else "http" for name, is_spoken in spoken.items()}


def test_steps_are_counted_by_provider(read: list[tuple[Exchange, Asked]]) -> None:
    counted = {kind: Counter(asked.provider for _, asked in read if asked.kind == kind) for kind in ("model", "http")}

    assert counted == {"model": MODEL_STEPS, "http": HTTP_STEPS}


def test_every_model_call_names_its_model_and_its_conversation(read: list[tuple[Exchange, Asked]]) -> None:
    calls = [asked for _, asked in read if asked.kind == "model"]

    for asked in calls:
        assert asked.call is not None
        assert asked.call.model
        assert [asked.message_at(index) for index in range(len(asked.chain))].count(None) == 0
        assert len(asked.chain) > 0


def test_a_call_streams_where_its_answer_is_a_stream(read: list[tuple[Exchange, Asked]]) -> None:
    streamed = {
        exchange.name
        for exchange, _ in read
        if exchange.response_body.startswith((b"data:", b"event:")) and exchange.name in _names_of_models(read)
    }

    asked_for = {exchange.name for exchange, asked in read if asked.call is not None and asked.call.stream}

    assert len(asked_for) == 5
    assert asked_for == streamed


def _names_of_models(read: list[tuple[Exchange, Asked]]) -> set[str]:
    return {exchange.name for exchange, asked in read if asked.kind == "model"}


def test_every_good_answer_says_something_or_calls_tools(answered: dict[str, Reply]) -> None:
    called = {
        name: [[call.name for call in message.tool_calls] for message in reply.messages]
        for name, reply in answered.items()
        if any(message.tool_calls for message in reply.messages)
    }
    said = {name: "".join(message.text for message in reply.messages) for name, reply in answered.items()}

    silent = [name for name, text in said.items() if not text and name not in called]

    assert len(answered) == 31
    assert called == TOOL_CALLS
    assert silent == [COMPACTION]


def test_every_good_answer_names_its_model_its_usage_and_why_it_stopped(answered: dict[str, Reply]) -> None:
    usages = [reply.usage for reply in answered.values()]

    assert Counter(reply.finish_reason for reply in answered.values()) == FINISH_REASONS
    assert [name for name, reply in answered.items() if not reply.model] == [COMPACTION]
    assert all(usage and usage.input_tokens and usage.output_tokens for usage in usages)


def test_an_answer_of_status_4xx_says_nothing(read: list[tuple[Exchange, Asked]], reader: Reader) -> None:
    refused = [(exchange, asked) for exchange, asked in read if asked.kind == "model" and exchange.status >= 400]

    replies = [reader.read_reply(asked, _response_of(exchange)) for exchange, asked in refused]

    assert replies == [None] * 10


@pytest.mark.parametrize(
    ("file", "turn"),
    [
        ("mirascope__streams-tool-calls-and-resumes-with-results.har", 0),
        ("pydantic-ai__test_tool_use_failed_error.yaml", 1),
        ("aux/pydantic-ai__test_snowflake_tool_calling.yaml", 0),
        ("pydantic-ai__test_mcptoolset_in_temporal_workflow.yaml", 3),
        ("dd-trace-py__test_multiple_agent_handoffs.yaml", 0),
    ],
)
def test_a_client_sends_back_the_calls_that_were_read(
    read: list[tuple[Exchange, Asked]], answered: dict[str, Reply], file: str, turn: int
) -> None:
    asked = {exchange.name: asked for exchange, asked in read}
    before = asked[f"{file}#{turn}"]
    after = next(asked for name, asked in asked.items() if name in _after(file, turn) and asked.kind == "model")

    echo = after.message_at(len(before.chain))

    assert after.chain[: len(before.chain)] == before.chain
    assert echo is not None
    [message] = answered[f"{file}#{turn}"].messages
    assert echo.role == message.role
    assert echo.tool_calls == message.tool_calls


def _after(file: str, turn: int) -> list[str]:
    return [f"{file}#{index}" for index in range(turn + 1, turn + 9)]


@pytest.mark.parametrize(
    ("file", "lanes"),
    [
        ("dd-trace-py__test_multiple_agent_handoffs.yaml", ["a", "a", "a"]),
        ("pydantic-ai__test_openai_responses_compact_messages.yaml", ["a", "a", "a", "a"]),
        ("chatlas__test_parallel_chat_error_continue_mode.yaml", ["a", "b", "c"]),
    ],
)
def test_responses_are_told_apart_by_conversation(
    read: list[tuple[Exchange, Asked]], reader: Reader, file: str, lanes: list[str]
) -> None:
    placed, live = [], Lanes()

    for exchange, asked in read:
        if exchange.file == file:
            lane = live.place(asked, label=lambda opening, ordinal: f"{opening}.{ordinal}")
            lane.answer(partial(reader.read_reply, asked, reader.redact_response(_response_of(exchange))))
            placed.append(lane.label)

    names = dict(zip(dict.fromkeys(placed), "abc", strict=False))
    assert [names[label] for label in placed] == lanes


def test_the_tokens_of_responses_are_read(answered: dict[str, Reply]) -> None:
    usages = [reply.usage for name, reply in answered.items() if "compact_messages" in name or "handoffs" in name]

    tokens = [(usage.input_tokens, usage.output_tokens) for usage in usages if usage]

    assert tokens == TOKENS_OF_RESPONSES
