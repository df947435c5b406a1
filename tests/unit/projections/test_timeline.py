from __future__ import annotations

from pathlib import Path
from typing import Any

from pytest_agentreplay.cassette import load_cassette
from pytest_agentreplay.dialects import Dialects, load_dialects
from pytest_agentreplay.projections.timeline import read_timeline, total
from pytest_agentreplay.records import TransportError
from tests.support.openai import completion
from tests.support.tapes import ANTHROPIC, Told, chat, write_cassette

ASK = {"role": "user", "content": "what is 6 x 7?"}
CALL = {"id": "call_1", "type": "function", "function": {"name": "multiply", "arguments": '{"a": 6, "b": 7}'}}
ECHO = {"role": "assistant", "content": None, "tool_calls": [CALL]}
RESULT = {"role": "tool", "tool_call_id": "call_1", "content": "42"}

TWO_TURNS = (
    Told(chat(ASK), completion(None, tool_calls=[CALL])),
    Told(chat(ASK, ECHO, RESULT), completion("It is 42.")),
)


def roles_and_texts(messages: Any) -> list[tuple[str, str]]:
    return [(message.role, message.text) for message in messages]


def test_a_message_is_told_once_where_it_first_comes_up(tmp_path: Path) -> None:
    tape = load_cassette(write_cassette(tmp_path / "it.jsonl", TWO_TURNS))

    first, second = read_timeline(tape, load_dialects())

    assert roles_and_texts(first.heard) == [("user", "what is 6 x 7?")]
    assert [call.name for call in first.reply.messages[0].tool_calls] == ["multiply"]
    assert roles_and_texts(second.heard) == [("tool", "42")]
    assert roles_and_texts(second.reply.messages) == [("assistant", "It is 42.")]


def test_an_answer_that_the_agent_sends_back_changed_is_told_again(tmp_path: Path) -> None:
    edited = {"role": "assistant", "content": "edited", "tool_calls": [CALL]}
    exchanges = (TWO_TURNS[0], Told(chat(ASK, edited, RESULT), completion("It is 42.")))
    tape = load_cassette(write_cassette(tmp_path / "it.jsonl", exchanges))

    second = read_timeline(tape, load_dialects())[1]

    assert roles_and_texts(second.heard) == [("assistant", "edited"), ("tool", "42")]


def test_each_conversation_is_told_by_itself(tmp_path: Path) -> None:
    other = {"role": "user", "content": "and 7 x 8?"}
    exchanges = (TWO_TURNS[0], Told(chat(other), completion("56")), TWO_TURNS[1])
    tape = load_cassette(write_cassette(tmp_path / "it.jsonl", exchanges))

    moments = read_timeline(tape, load_dialects())

    told = sorted([text for _, text in roles_and_texts(moment.heard)] for moment in moments)
    assert told == [["42"], ["and 7 x 8?"], ["what is 6 x 7?"]]


def test_a_retry_after_a_failure_tells_nothing_twice(tmp_path: Path) -> None:
    refused = TransportError(client="httpx", class_name="ConnectError", phase="connect", text="refused")
    exchanges = (Told(chat(ASK), error=refused), Told(chat(ASK), completion("42")))
    tape = load_cassette(write_cassette(tmp_path / "it.jsonl", exchanges))

    first, second = read_timeline(tape, load_dialects())

    assert roles_and_texts(first.heard) == [("user", "what is 6 x 7?")]
    assert (first.reply.messages, second.heard) == ((), ())
    assert roles_and_texts(second.reply.messages) == [("assistant", "42")]


def test_content_that_is_neither_text_nor_a_tool_call_is_told_as_json(tmp_path: Path) -> None:
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "42"}]}
    answer = {"type": "message", "role": "assistant", "content": [{"type": "text", "text": "ok"}]}
    exchange = Told({"model": "c", "max_tokens": 9, "messages": [result]}, answer, url=ANTHROPIC)
    tape = load_cassette(write_cassette(tmp_path / "it.jsonl", [exchange]))

    [moment] = read_timeline(tape, load_dialects())

    assert moment.heard[0].text == '[{"content":"42","tool_use_id":"t1","type":"tool_result"}]'
    assert moment.call is not None
    assert moment.call.model == "c"


def test_an_answer_with_an_error_status_says_nothing(tmp_path: Path) -> None:
    exchange = Told(chat(ASK), completion("not an answer"), status=429)
    tape = load_cassette(write_cassette(tmp_path / "it.jsonl", [exchange]))

    [moment] = read_timeline(tape, load_dialects())

    assert moment.reply.messages == ()


def test_a_step_whose_dialect_is_not_installed_is_told_by_its_request_alone(tmp_path: Path) -> None:
    tape = load_cassette(write_cassette(tmp_path / "it.jsonl", TWO_TURNS))

    moments = read_timeline(tape, Dialects(()))

    assert [(moment.call, moment.heard, moment.reply.messages) for moment in moments] == [(None, (), ())] * 2
    assert [moment.step.request.method for moment in moments] == ["POST", "POST"]


def test_tokens_are_summed_and_stay_unknown_where_no_answer_names_them(tmp_path: Path) -> None:
    page = Told(b"", b"<html>", url="https://example.com/", method="GET", headers=(("content-type", "text/html"),))
    tape = load_cassette(write_cassette(tmp_path / "it.jsonl", (*TWO_TURNS, page)))

    totals = total(tape)

    assert (totals.turns, totals.requests, totals.lanes) == (2, 3, 2)
    assert (totals.usage.input_tokens, totals.usage.output_tokens) == (20, 10)
    assert totals.usage.reasoning_tokens is None
    assert totals.seconds is not None
