"""The dialect of OpenAI's responses API."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from pytest_agentreplay.dialects import Call, Message, Reply, StreamEnd, ToolCall, ToolResult, load_dialects
from pytest_agentreplay.records import Usage
from tests.support.openai_responses import calls, response, says, stream_of, thinks
from tests.unit.making import RESPONSES, make_reader, responses, user

DIALECTS = load_dialects()
DIALECT = DIALECTS.named("openai", "responses")
assert DIALECT is not None
EVENTS = "text/event-stream"


def _stream(*events: Mapping[str, Any]) -> bytes:
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events).encode()


def _reply(*output: dict[str, Any], **fields: Any) -> Reply:
    assert DIALECT is not None
    reply = DIALECT.read_reply(json.dumps(response(*output, **fields)).encode(), "application/json")
    assert reply is not None
    return reply


def _call(name: str, arguments: str, call_id: str = "c") -> ToolCall:
    return ToolCall.of(id=call_id, name=name, arguments=arguments)


# What is asked


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"model": "m", "input": "hello", "stream": True}, Call("m", "input", stream=True)),
        ({"model": "m", "input": []}, Call("m", "input")),
        ({"input": "hello", "previous_response_id": "resp_1"}, Call("", "input", base="resp_1")),
        ({"input": "hello", "conversation": "conv_1"}, Call("", "input", base="conv_1")),
        ({"input": "hello", "conversation": {"id": "conv_1"}}, Call("", "input", base="conv_1")),
        ({"previous_response_id": "resp_1"}, Call("", "input", base="resp_1")),
        ({"prompt": {"id": "pmpt_1"}}, Call("", "input")),
        (
            {"input": [{"type": "item_reference", "id": "rs_1"}, {"id": "msg_1"}]},
            Call("", "input", named=("rs_1", "msg_1")),
        ),
        (
            {"input": [{"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAA"}]},
            Call("", "input", named=("cmp_1", "gAAA")),
        ),
        ({"input": [{"type": "function_call", "id": "fc_1"}]}, Call("", "input")),
        ({"model": "m"}, None),
        ({"input": 5}, None),
        ({"input": None}, None),
        ({"input": {"a": 1}, "previous_response_id": "resp_1"}, None),
        ({"messages": []}, None),
    ],
)
def test_a_body_is_a_call_where_the_model_has_something_to_go_on_from(body: Any, expected: Call | None) -> None:
    assert DIALECT is not None
    assert DIALECT.read_call(body) == expected


@pytest.mark.parametrize(
    ("method", "url", "operations"),
    [
        ("POST", RESPONSES, ["responses"]),
        ("POST", RESPONSES + "/", ["responses"]),
        ("POST", "https://x.openai.azure.com/openai/responses?api-version=1", ["responses"]),
        ("POST", RESPONSES + "/compact", ["compact"]),
        ("POST", RESPONSES + "/input_tokens", []),
        ("POST", RESPONSES + "/resp_1/cancel", []),
        ("GET", RESPONSES + "/resp_1", ["retrieve"]),
        ("GET", RESPONSES + "/resp_1?stream=true", ["retrieve"]),
        ("GET", "https://forms.example.com/forms/1/responses/2", []),
        ("GET", RESPONSES, []),
        ("DELETE", RESPONSES + "/resp_1", []),
        ("GET", RESPONSES + "/resp_1/input_items", []),
    ],
)
def test_what_asks_the_model_is_told_from_what_asks_about_an_answer(
    method: str, url: str, operations: list[str]
) -> None:
    assert [dialect.operation for dialect in DIALECTS.recognise(method=method, url=url)] == operations


# Items


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        ("hello", Message("user", "hello")),
        ({"role": "user", "content": "a"}, Message("user", "a")),
        (
            {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "a"}]},
            Message("developer", "a"),
        ),
        ({"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}, Message("assistant", "No.")),
        ({"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}, Message("user")),
        ({"type": "compaction", "encrypted_content": "gAAA"}, Message("assistant")),
        ({"type": "item_reference", "id": "msg_1"}, Message("assistant")),
        ({"id": "msg_1"}, Message("assistant")),
        ({"type": "message"}, None),
        ({"type": 5, "id": "x"}, None),
        ({}, None),
        (None, None),
        (5, None),
    ],
)
def test_a_message_and_what_stands_for_earlier_ones_are_read(item: Any, expected: Message | None) -> None:
    assert DIALECT is not None
    assert DIALECT.read_message(item) == expected


@pytest.mark.parametrize(
    ("item", "call"),
    [
        (
            {"type": "function_call", "call_id": "c", "name": "f", "arguments": '{"b": 1, "a": 2.0}'},
            _call("f", '{"a":2,"b":1}'),
        ),
        ({"type": "custom_tool_call", "call_id": "c", "name": "sql", "input": "select 1;"}, _call("sql", "select 1;")),
        ({"type": "computer_call", "call_id": "c", "action": {"type": "wait"}}, _call("computer", '{"type":"wait"}')),
        (
            {"type": "local_shell_call", "call_id": "c", "action": {"command": ["ls"]}},
            _call("local_shell", '{"command":["ls"]}'),
        ),
        ({"type": "shell_call", "call_id": "c", "action": {"commands": ["ls"]}}, _call("shell", '{"commands":["ls"]}')),
        (
            {"type": "apply_patch_call", "call_id": "c", "operation": {"path": "a"}},
            _call("apply_patch", '{"path":"a"}'),
        ),
        (
            {"type": "tool_search_call", "call_id": "c", "execution": "client", "arguments": {}},
            _call("tool_search", "{}"),
        ),
    ],
)
def test_a_call_that_the_agent_answers_is_a_tool_call(item: dict[str, Any], call: ToolCall) -> None:
    assert DIALECT is not None
    assert DIALECT.read_message(item) == Message("assistant", tool_calls=(call,))


@pytest.mark.parametrize(
    ("item", "call"),
    [
        ({"type": "web_search_call", "id": "c", "action": {"query": "x"}}, _call("web_search", '{"query":"x"}')),
        ({"type": "file_search_call", "id": "c", "queries": ["x"], "results": [{}]}, _call("file_search", '["x"]')),
        ({"type": "code_interpreter_call", "id": "c", "code": "print(1)"}, _call("code_interpreter", "print(1)")),
        (
            {"type": "image_generation_call", "id": "c", "result": "iVBO", "revised_prompt": "a cat"},
            _call("image_generation", "a cat"),
        ),
        (
            {"type": "mcp_call", "id": "c", "name": "ask", "arguments": '{"q": 1}', "output": "1"},
            _call("ask", '{"q":1}'),
        ),
        ({"type": "mcp_list_tools", "id": "c", "server_label": "wiki", "tools": []}, _call("mcp_list_tools", "wiki")),
        (
            {"type": "mcp_approval_request", "id": "c", "name": "ask", "arguments": "{}"},
            _call("mcp_approval_request", "{}"),
        ),
        ({"type": "tool_search_call", "id": "c", "execution": "server", "arguments": {}}, _call("tool_search", "{}")),
        ({"type": "weather_map_call", "id": "c"}, _call("weather_map", "null")),  # of a kind that is not known yet
    ],
)
def test_a_call_that_the_provider_ran_is_no_call_of_the_agents(item: dict[str, Any], call: ToolCall) -> None:
    assert DIALECT is not None

    message = DIALECT.read_message(item)

    assert message == Message("assistant")
    assert message is not None
    assert message.hosted_calls == (call,)


@pytest.mark.parametrize(
    ("item", "text", "result"),
    [
        ({"type": "function_call_output", "call_id": "c", "output": "1"}, "1", ToolResult("c", "1")),
        ({"type": "custom_tool_call_output", "call_id": "c", "output": "1"}, "1", ToolResult("c", "1")),
        ({"type": "local_shell_call_output", "id": "c", "output": "1"}, "1", ToolResult("c", "1")),
        (
            {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "1"}]},
            "1",
            ToolResult("c", [{"type": "input_text", "text": "1"}]),
        ),
        (
            {"type": "computer_call_output", "call_id": "c", "output": {"image_url": "x"}},
            '{"image_url":"x"}',
            ToolResult("c", {"image_url": "x"}),
        ),
        (
            {"type": "apply_patch_call_output", "call_id": "c", "status": "failed"},
            "",
            ToolResult("c", None, is_error=True),
        ),
    ],
)
def test_what_a_tool_gave_back_is_read(item: dict[str, Any], text: str, result: ToolResult) -> None:
    assert DIALECT is not None

    message = DIALECT.read_message(item)

    assert message == Message("tool", text)
    assert message is not None
    assert message.tool_results == (result,)


def test_an_approval_is_told_as_it_stands() -> None:
    assert DIALECT is not None

    message = DIALECT.read_message({"type": "mcp_approval_response", "approve": True, "approval_request_id": "r"})

    assert message == Message("user", '{"approval_request_id":"r","approve":true,"type":"mcp_approval_response"}')


# Answers

LOOK = {**calls("look", a=1), "call_id": "c"}
OUTPUT = [
    thinks("Hm."),
    says("Let me "),
    {"type": "web_search_call", "id": "w", "action": {"query": "x"}},
    says("look."),
    LOOK,
]


@pytest.mark.parametrize("is_streamed", [False, True])
def test_all_items_of_an_answer_are_one_message(is_streamed: bool) -> None:
    assert DIALECT is not None
    body = response(*OUTPUT)
    content = _stream(*stream_of(body)) if is_streamed else json.dumps(body).encode()

    replies = [
        DIALECT.read_reply(content, media_type) for media_type in (EVENTS if is_streamed else "application/json", "")
    ]

    reply = replies[0]
    assert replies == [reply, reply]
    assert reply is not None
    [message] = reply.messages
    assert message == Message("assistant", "Let me look.", (_call("look", '{"a":1}'),))
    assert (message.thinking, [call.name for call in message.hosted_calls]) == ("Hm.", ["web_search"])
    assert (reply.finish_reason, reply.model, reply.error) == ("completed", "m-2025", None)
    assert reply.usage == Usage(
        input_tokens=20, output_tokens=7, cache_read_input_tokens=8, cache_creation_input_tokens=2, reasoning_tokens=3
    )


@pytest.mark.parametrize(
    ("fields", "finish_reason", "error"),
    [
        ({"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}, "max_output_tokens", None),
        ({"status": "failed", "error": {"code": "server_error", "message": "broke"}}, "failed", "server_error: broke"),
        ({"status": "failed", "error": {}}, "failed", "error"),
        ({"status": "queued"}, None, None),
        ({"status": "cancelled"}, "cancelled", None),
    ],
)
def test_an_answer_says_how_it_ended(fields: dict[str, Any], finish_reason: str | None, error: str | None) -> None:
    assert DIALECT is not None
    content = _stream(*stream_of(response(**fields)))

    replies = [_reply(**fields), DIALECT.read_reply(content, EVENTS)]

    assert [(reply.finish_reason, reply.error) for reply in replies if reply] == [(finish_reason, error)] * 2


@pytest.mark.parametrize("error", [{"code": "c", "message": "broke"}, {"error": {"code": "c", "message": "broke"}}])
def test_a_stream_that_breaks_with_an_error_keeps_what_came_before(error: dict[str, Any]) -> None:
    assert DIALECT is not None
    begun = stream_of(response(says("one two three")))[:5]

    reply = DIALECT.read_reply(_stream(*begun, {"type": "error", **error}), EVENTS)
    alone = DIALECT.read_reply(_stream({"type": "error", **error}), EVENTS)

    assert reply is not None
    assert alone is not None
    assert [message.text for message in reply.messages] == ["one two three"[:12]]
    assert (reply.finish_reason, reply.error) == (alone.finish_reason, alone.error) == ("error", "c: broke")


def test_a_stream_says_as_much_as_came_of_it() -> None:
    assert DIALECT is not None
    custom = {"type": "custom_tool_call", "id": "x", "call_id": "c2", "name": "sql", "input": "select 1;"}
    events = stream_of(response(*OUTPUT, custom))

    replies = [DIALECT.read_reply(_stream(*events[:count]), EVENTS) for count in range(1, len(events) + 1)]

    told = ["".join(message.text for message in reply.messages) for reply in replies if reply]
    thought = ["".join(message.thinking for message in reply.messages) for reply in replies if reply]
    called = [
        [call.arguments for message in reply.messages for call in message.tool_calls] for reply in replies if reply
    ]
    assert list(dict.fromkeys(told)) == ["", "Let me", "Let me ", "Let me look."]
    assert list(dict.fromkeys(thought)) == ["", "Hm."]
    assert [json.loads(text) for text in dict.fromkeys(map(json.dumps, called))] == [
        [],
        [""],
        ['{"a": '],
        ['{"a":1}'],
        ['{"a":1}', ""],
        ['{"a":1}', "select"],
        ['{"a":1}', "select 1;"],
    ]


def test_an_end_that_repeats_no_items_leaves_those_that_were_streamed() -> None:
    assert DIALECT is not None
    *events, end = stream_of(response(*OUTPUT))
    bare = {**end, "response": {**end["response"], "output": []}}

    reply = DIALECT.read_reply(_stream(*events, bare), EVENTS)

    assert reply is not None
    assert [message.text for message in reply.messages] == ["Let me look."]


def test_an_answer_can_be_gone_on_from_by_its_id_its_conversation_and_its_items() -> None:
    compaction = {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAA"}

    reply = _reply(LOOK, compaction, id="resp_1", conversation={"id": "conv_1"})

    assert reply.handles == ("resp_1", "conv_1", LOOK["id"], "cmp_1", "gAAA")


def test_a_compaction_says_nothing_and_takes_tokens() -> None:
    reply = _reply({**says("kept"), "role": "user"}, object="response.compaction")

    assert reply.messages == ()
    assert reply.usage is not None


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"null", b"{}", b'{"error":{"message":"no"}}', b'{"output":"x"}', b"data: x\n\n", b": ping\n\n"],
)
def test_what_is_no_answer_has_no_reply(content: bytes) -> None:
    assert DIALECT is not None
    for media_type in ("application/json", EVENTS, ""):
        assert DIALECT.read_reply(content, media_type) is None


# Hashes


@pytest.mark.parametrize(
    ("first", "second", "is_same"),
    [
        ({"arguments": '{"a": 1}'}, {"arguments": '{"a":1}'}, True),
        ({"arguments": '{"a": 1}'}, {"arguments": '{"a":2}'}, False),
        ({"encrypted_content": "gAAA"}, {"encrypted_content": "gBBB"}, True),
        ({"encrypted_content": "gAAA"}, {}, False),
        ({"id": "fc_1"}, {"id": "fc_2"}, False),
        ({"call_id": "pyd_ai_" + "0" * 32}, {"call_id": "pyd_ai_" + "1" * 32}, True),
        ({"call_id": "call_1"}, {"call_id": "call_2"}, False),
        ({"input": '{"a": 1}'}, {"input": '{"a":1}'}, False),
    ],
)
def test_only_what_carries_no_meaning_is_the_same_in_an_item(first: Any, second: Any, is_same: bool) -> None:
    reader = make_reader()
    item = {"type": "function_call", "name": "look"}

    hashes = {reader.read(responses(user("a"), {**item, **fields})).hash for fields in (first, second)}

    assert len(hashes) == (1 if is_same else 2)


def test_metadata_counts_by_its_presence_and_an_earlier_response_by_its_id() -> None:
    reader = make_reader()

    def read(**fields: Any) -> str:
        return reader.read(responses(user("a"), **fields)).hash

    assert read(metadata={"a": "1"}, user="u") == read(metadata={"a": "2"}, user="v") != read()
    assert read(previous_response_id="resp_1") != read(previous_response_id="resp_2")
    assert read(previous_response_id=None, conversation=None) == read()


def test_a_text_is_another_request_than_a_list_and_begins_the_same_conversation() -> None:
    reader = make_reader()

    text, listed = reader.read(responses("hello")), reader.read(responses(user("hello")))

    assert text.hash != listed.hash
    assert text.chain == listed.chain
    assert text.message_at(0) == listed.message_at(0) == Message("user", "hello")
    assert text.request.body.fields["input"] == "hello"  # type: ignore[union-attr]


# The end of a stream


def _ends(content: bytes, *, size: int) -> list[int]:
    assert DIALECT is not None
    assert DIALECT.stream_end is not None
    end = StreamEnd(DIALECT.stream_end)
    chunks = [content[at : at + size] for at in range(0, len(content), size)]
    return [min(len(content), (index + 1) * size) for index, chunk in enumerate(chunks) if end.is_in(chunk)]


LONG = response(says("x" * 3000), instructions='"type":"response.completed" ' * 20)


@pytest.mark.parametrize("size", [1, 7, 64, 100_000])
@pytest.mark.parametrize("status", ["completed", "failed", "incomplete"])
def test_the_end_of_a_stream_is_seen_wherever_it_is_cut(size: int, status: str) -> None:
    content = _stream(*stream_of({**LONG, "status": status}))

    assert _ends(content, size=size) == [len(content)]
    assert _ends(content.replace(b"\n", b"\r\n"), size=size) == [len(content) + content.count(b"\n")]


@pytest.mark.parametrize("size", [1, 100_000])
def test_a_stream_may_end_in_an_error_or_without_names_of_events(size: int) -> None:
    begun = _stream(*stream_of(LONG)[:-1])
    bare = b"data: " + json.dumps(stream_of(LONG)[-1]).encode() + b"\n\n"

    assert _ends(begun, size=size) == []
    assert _ends(begun + bare, size=size) == [len(begun + bare)]
    assert _ends(begun + b'event: error\ndata: {"code":"x"}\n\n', size=size)[-1:] == [len(begun) + 33]
    assert _ends(begun + bare + b"data: [DONE]\n\n", size=100_000) == [len(begun + bare) + 14]
