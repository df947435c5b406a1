"""A run as events: what each kind tells, where it happened, and under which names."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from pytest_agentreplay.canonical import tool_call_hash
from pytest_agentreplay.dialects import Dialects, load_dialects
from pytest_agentreplay.player import MemoryTape
from pytest_agentreplay.projections.events import event_stream
from pytest_agentreplay.records import (
    ApprovalStep,
    AttemptStep,
    CheckpointStep,
    CompactionStep,
    ErrorStep,
    PermissionStep,
    Response,
    SignalStep,
    TimerStep,
    ToolStep,
    ValueStep,
)
from tests.support.stories import (
    ANTHROPIC,
    REFUSED,
    Story,
    asks,
    claude,
    fails,
    result,
    results,
    says,
    tokens,
    took,
    user,
)


def told(story: Story, **asked: bool) -> list[dict[str, Any]]:
    """Return the events of a story, without that of the run itself."""
    return [event for event in event_stream(story.tape, **asked) if event["event"] != "run"]


def tools(story: Story) -> list[tuple[Any, Any, Any]]:
    """Return the name, id and result of each tool's call."""
    return [(event["name"], event.get("id"), event["result"]) for event in told(story) if event["event"] == "tool"]


def asked_for(story: Story) -> list[list[str]]:
    """Return the names of the calls that each turn asks for."""
    turns = [event for event in told(story) if event["event"] == "turn"]
    return [[call["id"] for call in turn.get("calls", ())] for turn in turns]


def test_a_run_with_a_tool_is_told_as_run_user_turn_tool_and_turn() -> None:
    story = Story(task="charge the card")
    story.model(user("Charge 5."), reply=asks(("toolu_9", "charge", {"amount": 5})))
    story.tool("charge", {"amount": 5}, {"paid": 5}, use="toolu_9")
    story.model(result("toolu_9", '{"paid": 5}'), reply=says("Done."))

    events = event_stream(story.tape)

    assert events == [
        {"event": "run", "name": "test_it", "task": "charge the card"},
        {"event": "user", "text": "Charge 5."},
        {"event": "turn", "calls": [{"id": "call_1", "name": "charge"}]},
        {"event": "tool", "name": "charge", "id": "call_1", "arguments": {"amount": 5}, "result": {"paid": 5}},
        {"event": "turn", "text": "Done."},
    ]


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("tests/test_a.py::test_it", "test_it"),
        ("tests/test_a.py::TestX::test_it", "test_it"),
        ("tests/test_a.py::test_it[a::b/c]", "test_it[a::b/c]"),
        ("nightly", "nightly"),
    ],
)
def test_a_run_is_called_by_its_test_without_the_path_to_it(name: str, shown: str) -> None:
    events = event_stream(Story(name).tape)

    assert events == [{"event": "run", "name": shown}]


def test_a_tape_without_a_head_tells_of_no_run() -> None:
    assert event_stream(MemoryTape()) == []


def test_an_event_is_known_by_its_step() -> None:
    story = Story()
    turn = story.model(user("hi"), reply=says("ho"))
    tool = story.tool("look")

    steps = [event.step for event in event_stream(story.tape)]

    assert steps == [None, turn, turn, tool]


def test_an_event_can_be_changed_and_the_tape_stays_what_it_is() -> None:
    story = Story()
    story.model(user("look"), reply=asks(("c1", "look", {"q": [1]}), ("c2", "look", {"q": [2]})))
    story.tool("look", {"q": [1]}, {"found": [1]}, use="c1")
    story.model(result("c1", "x"), result("c2", [{"type": "text", "text": "two"}]), reply=says("ok"))
    story.tape.append(ValueStep(name="plan", value={"steps": [1]}), {})
    before = [event.copy() for event in event_stream(story.tape)]

    for event in event_stream(story.tape):
        for value in event.values():
            if isinstance(value, dict | list):
                value.clear()

    assert event_stream(story.tape) == before
    assert len([event for event in before if event["event"] == "tool"]) == 2


def test_a_tool_that_nobody_recorded_is_told_from_the_conversation() -> None:
    story = Story()
    story.model(user("look twice"), reply=asks(("c1", "look", {"q": 1}), ("c2", "look", {"q": 2})))
    story.model(result("c1", "one"), result("c2", "two"), reply=says("ok"))

    events = told(story)

    assert events[2:4] == [
        {"event": "tool", "name": "look", "id": "call_1", "arguments": {"q": 1}, "result": "one"},
        {"event": "tool", "name": "look", "id": "call_2", "arguments": {"q": 2}, "result": "two"},
    ]


def test_the_step_of_a_tool_that_nobody_recorded_says_all_that_the_conversation_does() -> None:
    story = Story()
    place = {"lane": "@eye", "url": ANTHROPIC, "parent": "look:1", "phase": "setup"}
    story.model(user("look"), reply=claude(None, ("c1", "look", {"q": 1, "at": [2.0]})), **place)
    story.model(results(("c1", "gone"), is_error=True), reply=claude("ok"), **place)

    steps = [event.step for event in event_stream(story.tape) if event["event"] == "tool"]

    assert steps == [
        ToolStep(
            lane="@eye",
            parent="look:1",
            phase="setup",
            hash=tool_call_hash("look", b'{"at":[2],"q":1}'),
            name="look",
            tool_use_id="c1",
            arguments={"at": [2], "q": 1},
            result="gone",
            is_error=True,
            source="transcript",
        )
    ]


def test_a_recorded_tool_is_told_once_and_one_that_was_not_beside_it_too() -> None:
    story = Story()
    story.model(user("go"), reply=asks(("c1", "wrapped", {}), ("c2", "bare", {})))
    story.tool("wrapped", {}, "from the tape", use="c1")
    story.model(result("c1", "from the talk"), result("c2", "from the talk"), reply=says("ok"))

    assert tools(story) == [("wrapped", "call_1", "from the tape"), ("bare", "call_2", "from the talk")]


def test_ids_that_a_provider_gives_out_again_are_calls_of_their_own() -> None:
    story = Story()
    story.model(user("go"), reply=asks(("call_0", "look", {"q": 1})))
    story.tool("look", {"q": 1}, "one", use="call_0")
    story.model(result("call_0", "one"), reply=asks(("call_0", "look", {"q": 2})))
    story.model(result("call_0", "two"), reply=asks(("call_0", "look", {"q": 3})))
    story.tool("look", {"q": 3}, "three", use="call_0")
    story.model(result("call_0", "three"), reply=says("ok"))

    assert asked_for(story) == [["call_1"], ["call_2"], ["call_3"], []]
    assert tools(story) == [("look", "call_1", "one"), ("look", "call_2", "two"), ("look", "call_3", "three")]


def test_a_call_that_was_never_made_does_not_lend_its_name_to_a_later_one_with_its_id() -> None:
    story = Story()
    story.model(user("go"), reply=asks(("call_0", "look", {"q": 1})))
    story.model(user("no, that one"), reply=asks(("call_0", "look", {"q": 2})))
    story.tool("look", {"q": 2}, "two", use="call_0")

    events = told(story)

    assert tools(story) == [("look", "call_2", "two")]
    assert events[1] == {"event": "turn", "calls": [{"id": "call_1", "name": "look", "arguments": {"q": 1}}]}
    assert events[3] == {"event": "turn", "calls": [{"id": "call_2", "name": "look"}]}


def test_a_dialect_that_remembers_what_it_has_read_names_each_call_all_the_same() -> None:
    chat = load_dialects().named("openai", "chat")
    assert chat is not None
    story = Story()
    same = asks(("call_0", "look", {"q": 1}))
    story.model(user("go"), reply=same)
    story.model(user("again"), reply=same)

    remembering = Dialects((replace(chat, read_reply=cache(chat.read_reply)),))
    events = event_stream(story.tape, dialects=remembering)

    assert [event["calls"][0]["id"] for event in events if event["event"] == "turn"] == ["call_1", "call_2"]


def test_calls_without_ids_are_told_apart_by_their_order() -> None:
    story = Story()
    story.model(user("go"), reply=asks(("", "look", {"q": 1}), ("", "book", {"q": 2})))
    story.model(result("", "one"), result("", "two"), reply=says("ok"))

    assert tools(story) == [("look", "call_1", "one"), ("book", "call_2", "two")]


def test_two_recorded_calls_of_one_turn_with_one_id_are_two_calls() -> None:
    story = Story()
    story.model(user("go"), reply=asks(("X", "look", {"q": 1}), ("X", "book", {"q": 2})))
    story.tool("look", {"q": 1}, "one", use="X")
    story.tool("book", {"q": 2}, "two", use="X")
    story.model(result("X", "one"), result("X", "two"), reply=says("ok"))

    assert tools(story) == [("look", "call_1", "one"), ("book", "call_2", "two")]
    assert told(story)[1] == {
        "event": "turn",
        "calls": [{"id": "call_1", "name": "look"}, {"id": "call_2", "name": "book"}],
    }


@pytest.mark.parametrize(("given", "used"), [("X", "X"), ("", None)])
def test_of_two_calls_with_one_id_the_one_that_nobody_recorded_is_told_as_itself(given: str, used: str | None) -> None:
    story = Story()
    story.model(user("go"), reply=asks((given, "look", {"q": 1}), (given, "book", {"q": 2})))
    story.tool("look", {"q": 1}, "one", use=used, lane="" if used else "a1")
    story.model(result(given, "one"), result(given, "two"), reply=says("ok"))

    assert tools(story)[1] == ("book", "call_2", "two")
    assert tools(story)[0] == ("look", "call_1" if used else None, "one")


def test_a_call_that_is_made_again_keeps_its_id_and_hides_no_later_one() -> None:
    story = Story()
    story.model(user("go"), reply=asks(("X", "look", {"q": 1})))
    story.tool("look", {"q": 1}, "not now", use="X", is_error=True)
    story.tool("look", {"q": 1, "slowly": True}, "one", use="X")
    story.model(result("X", "one"), reply=asks(("X", "book", {"q": 2})))
    story.model(result("X", "two"), reply=says("ok"))

    assert told(story)[1] == {"event": "turn", "calls": [{"id": "call_1", "name": "look"}]}
    assert tools(story) == [("look", "call_1", "not now"), ("look", "call_1", "one"), ("book", "call_2", "two")]


def test_a_record_behind_the_request_that_brought_its_result_is_of_its_call() -> None:
    story = Story()
    story.tool("look", {"q": 0}, "zero", use="X")
    story.model(user("go"), reply=asks(("X", "look", {"q": 1})))
    story.model(result("X", "pending"), reply=says("wait"))
    story.tool("look", {"q": 1}, "late", use="X")

    assert tools(story) == [("look", None, "zero"), ("look", "call_1", "late")]
    assert asked_for(story) == [["call_1"], []]


def test_a_decision_behind_the_result_of_a_call_that_was_recorded_elsewhere_names_it() -> None:
    story = Story()
    story.model(user("go"), reply=asks(("X", "look", {"q": 1})))
    story.tool("look", {"q": 1}, "one", use="X", lane="")
    story.model(result("X", "one"), reply=says("ok"))
    story.note(PermissionStep(lane="a1", tool_use_id="X", decision="allow"))

    [decided] = [event for event in told(story) if event["event"] == "permission"]

    assert decided["call"] == "call_1"


def test_calls_of_a_fetched_answer_are_counted_with_the_others() -> None:
    story = Story()
    story.model(user("go"), reply=asks(("c1", "look", {"q": 1})))
    call = {"type": "function_call", "call_id": "c2", "name": "book", "arguments": '{"q": 2}'}
    story.fetched({"id": "resp_1", "object": "response", "status": "completed", "output": [call]}, lane="b2")

    assert asked_for(story) == [["call_1"], ["call_2"]]


def test_equal_ids_of_two_conversations_are_two_calls() -> None:
    story = Story()
    for lane in ("a1", "b2"):
        story.model(user(lane), reply=asks(("c1", "look", {"of": lane})), lane=lane)
    for lane in ("b2", "a1"):
        story.tool("look", {"of": lane}, lane, use="c1", lane=lane)

    assert tools(story) == [("look", "call_2", "b2"), ("look", "call_1", "a1")]


def test_a_tool_of_no_conversation_is_known_by_its_id_wherever_it_stands() -> None:
    story = Story()
    story.tool("look", {"q": 1}, "one", use="c1", lane="")
    story.model(user("go"), reply=asks(("c1", "look", {"q": 1})))
    story.model(result("c1", "one"), reply=asks(("c1", "look", {"q": 2})))
    story.tool("look", {"q": 2}, "two", use="c1", lane="")

    assert tools(story) == [("look", "call_1", "one"), ("look", "call_2", "two")]


def test_a_tool_that_no_model_asked_for_has_no_id() -> None:
    story = Story()
    story.tool("look", {}, 1, lane="")
    story.tool("look", {}, 2, use="nobody knows", lane="")

    assert tools(story) == [("look", None, 1), ("look", None, 2)]


def test_one_step_that_was_served_twice_is_told_under_the_id_of_each_time() -> None:
    story = Story()
    first = story.model(user("go"), reply=asks(("c1", "look", {})))
    tool = story.tool("look", {}, "one", use="c1")
    story.note(first, tool)

    assert asked_for(story) == [["call_1"], ["call_2"]]
    assert tools(story) == [("look", "call_1", "one"), ("look", "call_2", "one")]


def test_arguments_that_no_tool_event_tells_stand_with_the_call() -> None:
    story = Story()
    story.model(
        user("go"), reply=asks(("c1", "look", {"q": 1}), ("c2", "look", {"q": 2}), ("c3", "look", "not { JSON"))
    )
    story.tool("look", {"q": 1, "user": "filled in"}, None, use="c1")
    story.tool("look", {"q": 2}, None, use="c2")

    turn = told(story)[1]

    assert turn["calls"] == [
        {"id": "call_1", "name": "look", "arguments": {"q": 1}},
        {"id": "call_2", "name": "look"},
        {"id": "call_3", "name": "look", "arguments": "not { JSON"},
    ]


def test_a_tool_that_raised_tells_the_class_and_the_message() -> None:
    story = Story()
    story.tool("charge", {"amount": 5}, failure="shop.errors:CardDeclined: no funds")

    assert told(story) == [
        {
            "event": "tool",
            "name": "charge",
            "arguments": {"amount": 5},
            "error": {"type": "CardDeclined", "message": "no funds"},
        }
    ]


def test_a_result_that_is_an_error_says_so_wrapped_or_not() -> None:
    story = Story()
    story.model(user("go"), reply=claude(None, ("t1", "charge", {}), ("t2", "book", {})), url=ANTHROPIC)
    story.tool("charge", {}, "no funds", use="t1", is_error=True)
    story.model(results(("t1", "no funds"), ("t2", "closed"), is_error=True), reply=claude("Sorry."), url=ANTHROPIC)

    assert told(story)[2:] == [
        {"event": "tool", "name": "charge", "id": "call_1", "arguments": {}, "result": "no funds", "is_error": True},
        {"event": "tool", "name": "book", "id": "call_2", "arguments": {}, "result": "closed", "is_error": True},
        {"event": "turn", "text": "Sorry."},
    ]


def test_anthropic_results_are_tools_and_what_the_user_says_beside_them_is_told() -> None:
    story = Story()
    story.model(user("go"), reply=claude("I look.", ("t1", "look", {"q": 1})), url=ANTHROPIC)
    content = [*results(("t1", [{"type": "text", "text": "one"}]))["content"], {"type": "text", "text": "quick!"}]
    story.model(user(content), reply=claude("ok"), url=ANTHROPIC)

    found = [{"type": "text", "text": "one"}]
    assert told(story) == [
        {"event": "user", "text": "go"},
        {"event": "turn", "text": "I look.", "calls": [{"id": "call_1", "name": "look"}]},
        {"event": "tool", "name": "look", "id": "call_1", "arguments": {"q": 1}, "result": found},
        {"event": "user", "text": "quick!"},
        {"event": "turn", "text": "ok"},
    ]


def test_a_user_message_without_text_is_told_as_json() -> None:
    story = Story()
    picture = {"type": "image_url", "image_url": {"url": "https://example.com/cup.png"}}
    story.model(user([picture]), reply=says("a cup"))

    [event, _] = told(story)

    assert event["text"] == '[{"image_url":{"url":"https://example.com/cup.png"},"type":"image_url"}]'


def test_system_prompts_and_echoes_are_not_told_and_no_message_twice() -> None:
    story = Story()
    story.model({"role": "system", "content": "Be brief."}, user("one"), reply=says("first"))
    story.model(user("two"), reply=says("second"))

    assert told(story) == [
        {"event": "user", "text": "one"},
        {"event": "turn", "text": "first"},
        {"event": "user", "text": "two"},
        {"event": "turn", "text": "second"},
    ]


def test_a_permission_names_the_call_that_it_decides_about() -> None:
    story = Story()
    story.model(user("go"), reply=asks(("c1", "charge", {}), ("c2", "charge", {"again": 1})))
    story.note(
        PermissionStep(lane="a1", tool_use_id="c2", decision="ask", resolution="deny", policy="caps", reason="too much")
    )
    story.tool("charge", {"again": 1}, use="c2", failure="pytest_agentreplay.errors:ToolDeniedError: too much")

    assert told(story)[2:] == [
        {
            "event": "permission",
            "call": "call_2",
            "decision": "ask",
            "resolution": "deny",
            "policy": "caps",
            "reason": "too much",
        },
        {
            "event": "tool",
            "name": "charge",
            "id": "call_2",
            "arguments": {"again": 1},
            "error": {"type": "ToolDeniedError", "message": "too much"},
        },
    ]


def test_a_permission_about_no_known_call_names_none() -> None:
    story = Story()
    story.note(PermissionStep(decision="allow"), PermissionStep(decision="deny", tool_use_id="x"))

    assert told(story) == [{"event": "permission", "decision": "allow"}, {"event": "permission", "decision": "deny"}]


def test_notes_are_told_with_what_they_hold() -> None:
    story = Story()
    story.note(
        ApprovalStep(name="refund", approved=True, approver="ann", reason="fair"),
        ApprovalStep(name="refund", approved=False),
        ValueStep(name="plan", value={"steps": [1, None]}),
        ValueStep(name="run:complete"),
        CompactionStep(tokens_before=900, tokens_after=100, summary="we talked", dropped_messages=7),
        CompactionStep(tokens_before=900),
        ErrorStep(error_phase="tools", type="ValueError", message="no"),
        ErrorStep(type="ValueError", message="no"),
    )

    assert told(story) == [
        {"event": "approval", "name": "refund", "approved": True, "approver": "ann", "reason": "fair"},
        {"event": "approval", "name": "refund", "approved": False},
        {"event": "value", "name": "plan", "value": {"steps": [1, None]}},
        {"event": "value", "name": "run:complete", "value": None},
        {
            "event": "compaction",
            "tokens_before": 900,
            "tokens_after": 100,
            "summary": "we talked",
            "dropped_messages": 7,
        },
        {"event": "compaction", "tokens_before": 900},
        {"event": "error", "during": "tools", "type": "ValueError", "message": "no"},
        {"event": "error", "type": "ValueError", "message": "no"},
    ]


def test_housekeeping_and_unknown_traffic_are_not_told() -> None:
    story = Story()
    story.http()
    story.note(
        AttemptStep(tool="charge"),
        SignalStep(name="go", value=1),
        TimerStep(name="later", fire_at="2030-01-01T00:00:00Z"),
        CheckpointStep(id="1", boundary=True),
    )

    assert told(story) == []


def test_where_an_event_stands_is_told_where_it_is_not_the_usual_place() -> None:
    story = Story()
    story.model(user("plan"), reply=asks(("c1", "research", {})), phase="setup")
    outer = story.tool("research", {}, "found", use="c1")
    story.model(user("dig"), reply=asks(("c1", "dig", {})), lane="b2", parent=outer.id)
    story.tool("dig", {}, "dug", use="c1", lane="b2", parent=outer.id)
    story.note(ValueStep(name="cleaned", value=1, phase="teardown", lane="@helper", parent="gone"))

    assert told(story) == [
        {"event": "user", "phase": "setup", "text": "plan"},
        {"event": "turn", "phase": "setup", "calls": [{"id": "call_1", "name": "research"}]},
        {"event": "tool", "name": "research", "id": "call_1", "arguments": {}, "result": "found"},
        {"event": "user", "lane": "lane_2", "inside": "call_1", "text": "dig"},
        {"event": "turn", "lane": "lane_2", "inside": "call_1", "calls": [{"id": "call_2", "name": "dig"}]},
        {
            "event": "tool",
            "lane": "lane_2",
            "inside": "call_1",
            "name": "dig",
            "id": "call_2",
            "arguments": {},
            "result": "dug",
        },
        {"event": "value", "lane": "helper", "phase": "teardown", "name": "cleaned", "value": 1},
    ]


def test_what_is_inside_a_call_that_no_model_asked_for_is_inside_the_tool_of_that_name() -> None:
    story = Story()
    outer = story.tool("research", {}, "found", lane="")
    story.tool("dig", {}, "dug", lane="", parent=outer.id)

    assert [event.get("inside") for event in told(story)] == [None, "research"]


def test_lanes_are_numbered_as_they_come_up_and_named_ones_keep_their_name() -> None:
    story = Story()
    for lane in ("@critic", "ffff", "0000", "@writer", "ffff"):
        story.model(user(lane), reply=says(lane), lane=lane)

    turns = [event for event in told(story) if event["event"] == "turn"]

    assert [(turn.get("lane"), turn["text"]) for turn in turns] == [
        ("critic", "@critic"),
        (None, "ffff"),
        ("lane_2", "0000"),
        ("writer", "@writer"),
        (None, "ffff"),
    ]


def test_traffic_that_is_not_told_takes_no_number_from_the_lanes() -> None:
    story = Story()
    story.http(lane="h1")
    story.model(user("one"), reply=says("first"))
    story.http(lane="h2")
    story.model(user("two"), reply=says("second"), lane="b2")

    assert [event.get("lane") for event in told(story)] == [None, None, "lane_2", "lane_2"]


def test_an_answer_that_was_fetched_in_a_named_lane_is_told_there() -> None:
    story = Story()
    story.model(user("one"), reply=says("first"))
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "second"}]}
    story.fetched({"id": "resp_1", "object": "response", "status": "completed", "output": [said]}, lane="@late")

    assert told(story)[-1] == {"event": "turn", "lane": "late", "text": "second"}


def test_several_choices_are_told_beside_each_other() -> None:
    story = Story()
    story.model(user("pick"), reply=says("one", "two", calls=(("c1", "look", {}),)))

    turn = told(story)[1]

    call = {"id": "call_1", "name": "look", "arguments": {}}
    assert turn == {"event": "turn", "choices": [{"text": "one", "calls": [call]}, {"text": "two"}]}


def test_an_answer_that_stopped_early_says_why() -> None:
    story = Story()
    for stop in ("length", "content_filter", "stop"):
        story.model(user("go"), reply=says("well", stop=stop))
    for stop in ("max_tokens", "refusal", "end_turn"):
        story.model(user("go"), reply=claude("well", stop=stop), lane="b2", url=ANTHROPIC)
    unsaid = Response(status=200, content=b'{"choices": [{"message": {"role": "assistant"}, "finish_reason": ""}]}')
    story.model(user("go"), reply=unsaid)
    cut = says("well").model_copy(update={"truncated": True})
    story.model(user("go"), reply=cut)

    turns = [event for event in told(story) if event["event"] == "turn"]

    assert [turn.get("stop_reason") for turn in turns] == [
        "length",
        "content_filter",
        None,
        "max_tokens",
        "refusal",
        None,
        None,
        None,
    ]
    assert [turn.get("truncated") for turn in turns] == [None] * 7 + [True]


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (fails(429, "slow down"), {"status": 429, "message": "slow down"}),
        (fails(500), {"status": 500}),
        (says("not an answer", status=503), {"status": 503}),
        (
            Response(status=400, headers=(("content-type", "text/html"),), content=b"<html>"),
            {"status": 400},
        ),
        (Response(status=400, content=b'{"error": "bad words"}'), {"status": 400, "message": "bad words"}),
        (Response(status=400, content=b'{"message": "bad words"}'), {"status": 400, "message": "bad words"}),
        (REFUSED, {"type": "ConnectError", "message": "refused"}),
    ],
)
def test_a_failed_call_is_an_error_and_its_retry_tells_nothing_twice(reply: Any, expected: dict[str, Any]) -> None:
    story = Story()
    story.model(user("go"), reply=reply)
    story.model(reply=says("ok"))

    assert told(story) == [
        {"event": "user", "text": "go"},
        {"event": "error", **expected},
        {"event": "turn", "text": "ok"},
    ]


def test_an_answer_that_cannot_be_read_is_a_turn_that_says_nothing() -> None:
    story = Story()
    story.model(user("go"), reply=Response(status=200, content=b"<html>"))

    assert told(story)[1:] == [{"event": "turn"}]


def test_a_step_whose_dialect_is_not_installed_is_a_turn_that_says_nothing() -> None:
    story = Story(None)
    story.model(user("go"), reply=says("ok"))

    assert event_stream(story.tape, dialects=Dialects(())) == [{"event": "turn"}]


def test_times_costs_and_hashes_are_told_where_they_are_asked_for() -> None:
    story = Story()
    turn = story.model(
        user("go"), reply=asks(("c1", "look", {})), timing=took(0.5, 0.25), usage=tokens(10, 5), cost_usd=0.01
    )
    tool = story.tool("look", {}, "one", use="c1", timing=took(0.75, 0.125))
    story.model(result("c1", "one"), reply=says("ok"))

    _, timed, ran, _ = told(story, times=True)
    _, priced, free, unpriced = told(story, costs=True)
    _, hashed, called, _ = told(story, hashes=True)
    plain = told(story)

    assert timed == {**plain[1], "timing": {"began": 0.5, "took": 0.25}}
    assert ran == {**plain[2], "timing": {"began": 0.75, "took": 0.125}}
    assert priced == {**plain[1], "usage": {"input_tokens": 10, "output_tokens": 5}, "cost_usd": 0.01}
    assert (free, unpriced) == (plain[2], plain[3])
    assert (hashed, called) == ({**plain[1], "hash": turn.hash}, {**plain[2], "hash": tool.hash})


def test_equal_runs_with_other_ids_times_and_lanes_give_equal_events() -> None:
    def told_with(prefix: str, began: float) -> list[dict[str, Any]]:
        story = Story()
        use, lane = f"{prefix}_1", f"{prefix}00"
        story.model(user("go"), reply=asks((use, "look", {"q": 1})), lane=lane, timing=took(began, 1.0))
        outer = story.tool("look", {"q": 1}, "one", use=use, lane=lane, id=f"{prefix}.7")
        story.model(user("dig"), reply=says("dug"), lane=f"{prefix}ff", parent=outer.id)
        story.model(result(use, "one"), reply=says("ok"), lane=lane)
        return told(story)

    assert told_with("a", 0.0) == told_with("b", 9.5)
