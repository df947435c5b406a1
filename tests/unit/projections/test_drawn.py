"""The names of what a run did."""

from __future__ import annotations

from pytest_agentreplay.player import MemoryTape
from pytest_agentreplay.projections.drawn import trajectory
from pytest_agentreplay.records import ApprovalStep, AttemptStep, PermissionStep, ValueStep
from tests.support.stories import Story, asks, fails, result, says, user


def test_a_trajectory_is_the_names_of_what_was_done_and_nothing_of_what_came_of_it() -> None:
    story = Story()
    story.model(user("go"), reply=fails(429))
    story.model(reply=asks(("c1", "charge", {}), ("c2", "look", {})))
    story.tool("charge", {}, use="c1", failure="builtins:ValueError: no funds")
    story.note(
        PermissionStep(decision="allow"),
        AttemptStep(tool="charge"),
        ApprovalStep(name="refund", approved=True),
        ApprovalStep(name="refund", approved=False),
        ValueStep(name="plan", value=1),
    )
    story.http()
    story.model(result("c1", "no funds"), result("c2", "seen"), reply=says("Sorry."))
    story.note(ValueStep(name="run:complete"))

    assert trajectory(story.tape) == [
        "LLM",
        "LLM",
        "tool: charge",
        "approval",
        "approval",
        "step: plan",
        "tool: look",
        "LLM",
        "step: run:complete",
    ]


def test_an_empty_run_has_none() -> None:
    assert trajectory(MemoryTape()) == []
