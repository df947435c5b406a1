"""What a listener would have heard: answers and tool results in the order of the tape, nothing else."""

from __future__ import annotations

import pytest

from pytest_agentreplay.dialects import Dialects, Message, ToolCall
from pytest_agentreplay.player import MemoryTape
from pytest_agentreplay.projections.replayed import AssistantTurn, ToolCompleted, replay_events
from pytest_agentreplay.records import (
    ApprovalStep,
    AttemptStep,
    CompactionStep,
    ErrorStep,
    PermissionStep,
    Response,
    ValueStep,
)
from tests.support.stories import (
    ANTHROPIC,
    JSON,
    REFUSED,
    Story,
    asks,
    claude,
    fails,
    result,
    results,
    says,
    user,
)


def said(text: str) -> AssistantTurn:
    return AssistantTurn(Message("assistant", text))


def test_answers_and_tool_results_are_told_in_the_order_of_the_tape() -> None:
    story = Story()
    story.model(user("Charge 5."), reply=asks(("c1", "charge", {"amount": 5})))
    story.tool("charge", {"amount": 5}, {"paid": 5}, use="c1")
    story.model(result("c1", "paid"), reply=says("Done."))

    asked = Message("assistant", tool_calls=(ToolCall("c1", "charge", '{"amount":5}'),))
    assert replay_events(story.tape) == [
        AssistantTurn(asked, replayed=True),
        ToolCompleted("c1", "charge", {"paid": 5}, is_error=False),
        AssistantTurn(Message("assistant", "Done."), replayed=True),
    ]


def test_a_tool_that_raised_gives_its_message_as_an_error() -> None:
    story = Story()
    story.tool("charge", failure="builtins:ValueError: no funds", use="c1")
    story.tool("charge", None, "refused", is_error=True)

    assert replay_events(story.tape) == [
        ToolCompleted("c1", "charge", "no funds", is_error=True),
        ToolCompleted(None, "charge", "refused", is_error=True),
    ]


def test_results_that_only_the_conversation_tells_of_are_told_with_the_provider_s_ids() -> None:
    story = Story()
    story.model(user("go"), reply=claude(None, ("t1", "look", {"q": 1}), ("t2", "book", {})), url=ANTHROPIC)
    story.model(results(("t1", "one"), ("t2", "two"), is_error=True), reply=claude("ok"), url=ANTHROPIC)

    assert replay_events(story.tape)[1:] == [
        ToolCompleted("t1", "look", "one", is_error=True),
        ToolCompleted("t2", "book", "two", is_error=True),
        said("ok"),
    ]


def test_nothing_else_is_told() -> None:
    story = Story()
    story.http()
    story.note(
        PermissionStep(decision="allow"),
        ApprovalStep(name="refund", approved=True),
        ValueStep(name="run:complete"),
        AttemptStep(tool="charge"),
        CompactionStep(),
        ErrorStep(type="ValueError", message="no"),
    )

    assert replay_events(story.tape) == []


@pytest.mark.parametrize(
    "reply",
    [
        fails(429, "slow down"),
        REFUSED,
        Response(status=200, content=b"<html>"),
        Response(status=200, content=b'{"choices": []}', headers=JSON),
        Response(status=200, content=b"", headers=(("content-type", "text/event-stream"),), truncated=True),
    ],
)
def test_an_answer_without_a_message_is_not_told(reply: Response) -> None:
    story = Story()
    story.model(user("go"), reply=reply)
    story.model(reply=says("ok"))

    assert replay_events(story.tape) == [said("ok")]


def test_of_several_choices_the_first_is_told() -> None:
    story = Story()
    story.model(user("pick"), reply=says("one", "two"))

    assert replay_events(story.tape) == [said("one")]


def test_a_stream_is_told_as_the_one_message_that_it_adds_up_to() -> None:
    pieces = b"".join(
        b'data: {"choices": [{"index": 0, "delta": {"content": "%s"}}]}\n\n' % piece for piece in (b"a", b"b")
    )
    story = Story()
    story.model(
        user("go"), reply=Response(status=200, headers=(("content-type", "text/event-stream"),), content=pieces)
    )

    assert replay_events(story.tape) == [said("ab")]


def test_without_the_dialect_no_answer_is_told() -> None:
    story = Story()
    story.model(user("go"), reply=says("ok"))
    story.tool("look", {}, 1)

    assert replay_events(story.tape, dialects=Dialects(())) == [ToolCompleted(None, "look", 1)]


def test_an_empty_tape_tells_nothing() -> None:
    assert replay_events(MemoryTape()) == []
