"""Provider wire formats."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from random import Random
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from pytest_agentreplay.canonical import canonical_json
from pytest_agentreplay.dialects import Call, Dialect, Message, Reply, ToolCall, hookimpl, load_dialects, read_events
from pytest_agentreplay.normalize import NormalRules
from pytest_agentreplay.reader import Reader
from pytest_agentreplay.records import Response, Usage
from tests.support.openai_responses import calls, response, says, stream_of, thinks
from tests.unit.documents import any_json, is_same, places, spelled
from tests.unit.making import CHAT, JSON, RESPONSES, chat, make_reader, post, user

DIALECTS = load_dialects()
OPENAI, ANTHROPIC = (
    next(dialect for dialect in DIALECTS.known if dialect.name == name) for name in ("openai", "anthropic")
)
EVENTS = "text/event-stream"
MESSAGES = "https://api.anthropic.com/v1/messages"


def _stream(*events: Any) -> bytes:
    return "".join(f"data: {event if isinstance(event, str) else json.dumps(event)}\n\n" for event in events).encode(
        "utf-8", "surrogatepass"
    )


OPENAI_ANSWER = {
    "model": "gpt-4.1-2025",
    "choices": [
        {
            "index": 0,
            "finish_reason": "tool_calls",
            "message": {
                "role": "assistant",
                "content": "Let me look.",
                "reasoning_content": "Hm.",
                "tool_calls": [
                    {
                        "id": "call_1",
                        "type": "function",
                        "function": {"name": "look", "arguments": '{"b": 1, "a": 2.0}'},
                    },
                    {"id": "call_2", "type": "function", "function": {"name": "find", "arguments": "not JSON"}},
                ],
            },
        }
    ],
    "usage": {
        "prompt_tokens": 10,
        "completion_tokens": 5,
        "prompt_tokens_details": {"cached_tokens": 4},
        "completion_tokens_details": {"reasoning_tokens": 3},
    },
}
OPENAI_CHUNKS = [
    {"model": "gpt-4.1-2025", "choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]},
    {"choices": [{"index": 0, "delta": {"reasoning_content": "Hm."}}]},
    {"choices": [{"index": 0, "delta": {"content": "Let me "}}]},
    {"choices": [{"index": 0, "delta": {"content": "look."}}]},
    {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "id": "call_1", "function": {"name": "look"}}]}}]},
    {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "function": {"arguments": '{"b": 1, '}}]}}]},
    {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 1, "id": "call_2", "function": {"name": "find"}}]}}]},
    {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "function": {"arguments": '"a": 2.0}'}}]}}]},
    {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 1, "function": {"arguments": "not JSON"}}]}}]},
    {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]},
    {"choices": [], "usage": OPENAI_ANSWER["usage"]},
    "[DONE]",
]
ANTHROPIC_ANSWER = {
    "type": "message",
    "role": "assistant",
    "model": "claude-4",
    "stop_reason": "tool_use",
    "content": [
        {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
        {"type": "text", "text": "Let me "},
        {"type": "text", "text": "look."},
        {"type": "tool_use", "id": "call_1", "name": "look", "input": {"b": 1, "a": 2.0}},
        {"type": "tool_use", "id": "call_2", "name": "find", "input": {}},
    ],
    "usage": {
        "input_tokens": 10,
        "output_tokens": 5,
        "cache_read_input_tokens": 4,
        "cache_creation_input_tokens": 0,
    },
}
ANTHROPIC_EVENTS = [
    {
        "type": "message_start",
        "message": {
            **ANTHROPIC_ANSWER,
            "content": [],
            "stop_reason": None,
            "usage": {"input_tokens": 10, "output_tokens": 1, "cache_read_input_tokens": 4},
        },
    },
    {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}},
    {"type": "ping"},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "Hm."}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "c2ln"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "Let me "}},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "look."}},
    {
        "type": "content_block_start",
        "index": 2,
        "content_block": {"type": "tool_use", "id": "call_1", "name": "look", "input": {}},
    },
    {"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": '{"b": 1, '}},
    {"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": '"a": 2.0}'}},
    {
        "type": "content_block_start",
        "index": 3,
        "content_block": {"type": "tool_use", "id": "call_2", "name": "find", "input": {}},
    },
    {"type": "content_block_delta", "index": 3, "delta": {"type": "input_json_delta", "partial_json": ""}},
    {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 5}},
    {"type": "message_stop"},
]


ANSWERS = [
    pytest.param(OPENAI, json.dumps(OPENAI_ANSWER).encode(), "application/json", id="openai-plain"),
    pytest.param(OPENAI, _stream(*OPENAI_CHUNKS), EVENTS, id="openai-streamed"),
    pytest.param(ANTHROPIC, json.dumps(ANTHROPIC_ANSWER).encode(), "application/json", id="anthropic-plain"),
    pytest.param(ANTHROPIC, _stream(*ANTHROPIC_EVENTS), EVENTS, id="anthropic-streamed"),
]


@pytest.mark.parametrize(("dialect", "content", "media_type"), ANSWERS)
def test_an_answer_is_read_plain_and_streamed_alike(dialect: Dialect, content: bytes, media_type: str) -> None:
    reply = dialect.read_reply(content, media_type)

    assert reply is not None
    (message,) = reply.messages
    second = "not JSON" if dialect is OPENAI else "{}"
    assert message.role == "assistant"
    assert message.text == "Let me look."
    assert message.thinking == "Hm."
    assert message.tool_calls == (
        ToolCall.of(id="call_1", name="look", arguments='{"a":2,"b":1}'),
        ToolCall.of(id="call_2", name="find", arguments=second),
    )
    assert reply.finish_reason == ("tool_calls" if dialect is OPENAI else "tool_use")
    assert reply.model == ("gpt-4.1-2025" if dialect is OPENAI else "claude-4")
    assert reply.usage == Usage(
        input_tokens=10,
        output_tokens=5,
        cache_read_input_tokens=4,
        reasoning_tokens=3 if dialect is OPENAI else None,
    )


@pytest.mark.parametrize(("dialect", "content", "media_type"), ANSWERS)
def test_a_stream_is_known_by_its_look_where_its_media_type_is_missing(
    dialect: Dialect, content: bytes, media_type: str
) -> None:
    assert dialect.read_reply(content, "") == dialect.read_reply(content, media_type)


def test_a_custom_tool_of_openais_is_called_with_its_input_plain_and_streamed() -> None:
    call = {"id": "call_1", "type": "custom", "custom": {"name": "run", "input": "ls -l"}}
    plain = {"choices": [{"index": 0, "message": {"role": "assistant", "content": None, "tool_calls": [call]}}]}
    pieces = [{"index": 0, **call, "custom": {"name": "run"}}, {"index": 0, "custom": {"input": "ls"}}]
    pieces += [{"index": 0, "custom": {"input": " -l"}}]
    chunks = [{"choices": [{"index": 0, "delta": {"role": "assistant", "tool_calls": [piece]}}]} for piece in pieces]

    for content, media_type in ((json.dumps(plain).encode(), "application/json"), (_stream(*chunks), EVENTS)):
        reply = OPENAI.read_reply(content, media_type)
        assert reply is not None
        assert reply.messages[0].tool_calls == (ToolCall("call_1", "run", "ls -l"),)


@given(value=any_json, random=st.randoms(use_true_random=False), is_text=st.booleans())
@example(value={"order": 2**64 + 1}, random=Random(0), is_text=True)
@example(value={"order": 2**64 + 1}, random=Random(0), is_text=False)
@example(value={"order": 2**55}, random=Random(0), is_text=True)
def test_what_a_tool_is_called_with_is_read_exactly_as_text_and_as_a_value(
    value: Any, random: Random, is_text: bool
) -> None:
    assume(is_text or not isinstance(value, str))
    call = ToolCall.of(
        id="c1", name="look", arguments=spelled(value, random).decode("utf-8", "surrogatepass") if is_text else value
    )

    assert is_same(call.value, value)
    assert call.canonical == canonical_json(value)
    assert call.arguments == canonical_json(value).decode()


def test_arguments_that_are_no_json_stay_the_text_that_they_are() -> None:
    call = ToolCall.of(id="c1", name="look", arguments=f'{{"order":{2**64 + 1}n}}')

    assert call.value == call.arguments == call.written
    assert call.canonical == canonical_json(call.written)


@pytest.mark.parametrize(
    "copied",
    [copy.copy, copy.deepcopy, lambda message: pickle.loads(pickle.dumps(message))],
    ids=["copy", "deep", "pickle"],
)
def test_a_copy_of_a_message_says_the_same(copied: Callable[[Message], Message]) -> None:
    message = Message("assistant", tool_calls=(ToolCall.of(id="c1", name="look", arguments='{"b": 1}'),))

    again = copied(message)

    assert again == message
    assert hash(again) == hash(message)
    assert again.tool_calls[0].value == {"b": 1}


def test_several_choices_give_several_messages_in_their_order() -> None:
    chunks = [
        {"choices": [{"index": 1, "delta": {"role": "assistant", "content": "b"}}]},
        {"choices": [{"index": 0, "delta": {"content": "a"}}, {"index": 1, "delta": {"content": "b"}}]},
    ]

    reply = OPENAI.read_reply(_stream(*chunks), EVENTS)

    assert reply is not None
    assert [message.text for message in reply.messages] == ["a", "bb"]


@pytest.mark.parametrize("dialect", [OPENAI, ANTHROPIC])
@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"5", b"null", b"{}", b'{"error":{"message":"no"}}', b"data: x\n\n", b": ping\n\n", b"\xff"],
)
def test_what_is_no_answer_has_no_reply(dialect: Dialect, content: bytes) -> None:
    for media_type in ("application/json", EVENTS, ""):
        assert dialect.read_reply(content, media_type) is None


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ({"role": "user", "content": "a"}, Message(role="user", text="a")),
        ({"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image_url"}]}, Message("user", "a")),
        ({"role": "assistant", "content": None, "refusal": "No."}, Message("assistant", "No.")),
        ({"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}, Message("assistant", "No.")),
        ({"role": "tool", "content": "1", "tool_call_id": "c"}, Message("tool", "1")),
        ({"content": "a"}, None),
        ({"role": 5}, None),
        ("text", None),
        (None, None),
    ],
)
def test_a_message_of_openais_is_read(message: Any, expected: Message | None) -> None:
    assert OPENAI.read_message(message) == expected


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ({"role": "user", "content": "a"}, Message("user", "a")),
        ({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "1"}]}, Message("user")),
        ({"role": "assistant", "content": []}, Message("assistant")),
        ({"content": "a"}, None),
        ([], None),
    ],
)
def test_a_message_of_anthropics_is_read(message: Any, expected: Message | None) -> None:
    assert ANTHROPIC.read_message(message) == expected


def test_what_anthropic_ran_itself_is_no_call_of_the_agents() -> None:
    block = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "x"}}

    message = ANTHROPIC.read_message({"role": "assistant", "content": [block]})

    assert message == Message("assistant")
    assert message is not None
    assert message.hosted_calls == (ToolCall.of(id="s", name="web_search", arguments='{"query":"x"}'),)


@pytest.mark.parametrize("dialect", [OPENAI, ANTHROPIC])
def test_a_body_with_messages_is_a_call(dialect: Dialect) -> None:
    assert dialect.read_call({"model": "m", "messages": [], "stream": True}) == Call("m", "messages", stream=True)
    assert dialect.read_call({"messages": []}) == Call("", "messages", stream=False)
    assert dialect.read_call({"model": "m"}) is None
    assert dialect.read_call({"messages": "hello"}) is None


@pytest.mark.parametrize(
    ("method", "url", "names"),
    [
        ("POST", CHAT, ["openai"]),
        ("POST", CHAT + "/", ["openai"]),
        ("POST", "https://api.groq.com/openai/v1/chat/completions", ["openai"]),
        ("POST", "https://x.openai.azure.com/openai/deployments/d/chat/completions?api-version=1", ["openai"]),
        ("POST", MESSAGES, ["anthropic"]),
        ("GET", CHAT, []),
        ("POST", CHAT + "/chatcmpl-1", []),
        ("POST", "https://api.anthropic.com/v1/messages/count_tokens", []),
        ("POST", "https://api.anthropic.com/v1/messages/batches", []),
        ("POST", "https://example.com/", []),
    ],
)
def test_a_request_is_recognised_by_method_and_path(method: str, url: str, names: list[str]) -> None:
    assert [dialect.name for dialect in DIALECTS.recognise(method=method, url=url)] == names


@pytest.mark.parametrize(
    ("host", "provider"),
    [
        ("api.openai.com", "openai"),
        ("api.groq.com", "groq"),
        ("groq.com", "groq"),
        ("notgroq.com", "openai"),
        ("x.openai.azure.com", "azure.ai.openai"),
        ("127.0.0.1", "openai"),
    ],
)
def test_the_provider_is_told_by_the_host(host: str, provider: str) -> None:
    assert OPENAI.provider_of(host) == provider
    assert DIALECTS.named(provider, "chat") is OPENAI


def test_a_dialect_that_is_not_installed_has_no_name_here() -> None:
    assert DIALECTS.named("unknown", "chat") is None
    assert DIALECTS.named("openai", "embeddings") is None


def test_a_dialect_of_a_plugin_comes_before_the_built_in_ones() -> None:
    def read_call(body: Mapping[str, Any]) -> Call | None:
        return Call("mine", "messages") if body.get("mine") else None

    mine = Dialect(
        name="mine",
        operation="chat",
        path=r"/chat/completions$",
        rules=NormalRules(name="mine"),
        read_call=read_call,
        read_message=lambda element: Message("user", str(element)),
        read_reply=lambda content, media_type: Reply(model=media_type),
    )

    class Plugin:
        @hookimpl
        def agentreplay_dialects(self) -> Iterable[Dialect]:
            return [mine]

    reader = Reader(_with_dialects(make_reader(), Plugin()))

    assert reader.read(chat(user("a"), mine=True)).dialect is mine
    assert reader.read(chat(user("a"))).dialect is not mine
    assert reader.rules.digest != make_reader().rules.digest


def _with_dialects(reader: Reader, plugin: object) -> Any:
    from dataclasses import replace

    return replace(reader.rules, dialects=load_dialects(plugin))


def test_events_that_are_no_json_objects_are_passed_over() -> None:
    content = b'event: a\ndata: {"a":1}\n\ndata:{"b":2}\r\n\r\ndata: [1]\n\ndata: [DONE]\n\n: x\nid: 3\ndata: {"c"'

    assert list(read_events(content)) == [{"a": 1}, {"b": 2}]


# Answers and messages that break their own format

RESPONSE = response(thinks("Hm."), says("one"), calls("look", a=1), conversation={"id": "conv_1"}, error={"code": "x"})
RESPONSE_EVENTS = stream_of(RESPONSE)[1:-1]

ODD = [None, 5, -1, 1.5, True, "x", "", [], {}, [5], [None], ["x"], [[1]], {"a": 1}, [{}], [{"a": 1}], "\ud800", 2**70]


def _damaged(value: Any) -> Iterator[Any]:
    for place in list(places(value))[1:]:
        for odd in ODD:
            changed = copy.deepcopy(value)
            parent = changed
            for step in place[:-1]:
                parent = parent[step]
            parent[place[-1]] = odd
            yield changed


@pytest.mark.parametrize(
    ("url", "answer", "is_streamed"),
    [
        (CHAT, OPENAI_ANSWER, False),
        (CHAT, OPENAI_CHUNKS, True),
        (MESSAGES, ANTHROPIC_ANSWER, False),
        (MESSAGES, ANTHROPIC_EVENTS, True),
        (RESPONSES, RESPONSE, False),
        (RESPONSES, RESPONSE_EVENTS, True),
    ],
)
def test_a_damaged_answer_never_raises(url: str, answer: Any, is_streamed: bool) -> None:
    reader = make_reader()
    asked = reader.read(post({"messages": [], "input": []}, url=url))
    headers = (("content-type", EVENTS),) if is_streamed else JSON

    for damaged in _damaged(answer):
        content = _stream(*damaged) if is_streamed else json.dumps(damaged).encode()
        reply = reader.read_reply(asked, Response(status=200, headers=headers, content=content))
        assert reply is None or isinstance(reply, Reply)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        (CHAT, OPENAI_ANSWER["choices"][0]["message"]),  # type: ignore[index]
        (MESSAGES, ANTHROPIC_ANSWER),
        *((RESPONSES, item) for item in RESPONSE["output"]),
        (RESPONSES, {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "x"}]}),
    ],
)
def test_a_damaged_message_never_raises(url: str, message: Any) -> None:
    reader = make_reader()

    for damaged in _damaged(message):
        asked = reader.read(post({"messages": [damaged], "input": [damaged]}, url=url))
        read = asked.message_at(0)
        assert read is None or isinstance(read, Message)


@given(value=any_json)
@pytest.mark.parametrize("url", [CHAT, MESSAGES, RESPONSES])
def test_any_json_as_a_message_or_an_answer_is_read_without_raising(url: str, value: Any) -> None:
    reader = make_reader()
    asked = reader.read(
        post(json.dumps({"messages": [value], "input": [value], "model": value, "stream": value}).encode(), url=url)
    )

    reply = reader.read_reply(asked, Response(status=200, headers=JSON, content=json.dumps(value).encode()))

    assert isinstance(asked.message_at(0), Message | None)
    assert isinstance(reply, Reply | None)


def test_a_failed_answer_has_no_reply() -> None:
    reader = make_reader()
    content = json.dumps(OPENAI_ANSWER).encode()

    assert reader.read_reply(reader.read(chat(user("a"))), Response(status=500, headers=JSON, content=content)) is None
    assert reader.read_reply(reader.read(post({})), Response(status=200, headers=JSON, content=content)) is None
