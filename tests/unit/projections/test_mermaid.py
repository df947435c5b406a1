"""Diagrams of runs, exact."""

from __future__ import annotations

import pytest

from pytest_agentreplay.dialects import Dialects
from pytest_agentreplay.errors import ConfigurationError
from pytest_agentreplay.player import MemoryTape
from pytest_agentreplay.projections.mermaid import render_mermaid
from pytest_agentreplay.records import (
    ApprovalStep,
    AttemptStep,
    CheckpointStep,
    CompactionStep,
    ErrorStep,
    PermissionStep,
    SignalStep,
    TimerStep,
    ValueStep,
)
from tests.support.stories import REFUSED, SPECIFIED, Story, asks, result, says, user


def labels(story: Story) -> list[str]:
    """Return the labels of a flowchart as they are written in it."""
    return [line[line.index('["') + 2 : -2] for line in render_mermaid(story.tape).splitlines() if '["' in line]


def called(name: str) -> str:
    """Return the label of one call of a tool, as it is written in a flowchart."""
    story = Story()
    story.tool(name)
    return labels(story)[0]


def sequence(story: Story) -> str:
    return render_mermaid(story.tape, style="sequence")


@pytest.mark.parametrize("is_recorded", [True, False])
def test_one_call_one_tool_and_one_answer_are_drawn_as_specified_wrapped_or_not(is_recorded: bool) -> None:
    story = Story()
    story.model(user("Charge 5."), reply=asks(("c1", "charge", {"amount": 5})))
    if is_recorded:
        story.tool("charge", {"amount": 5}, "ok", use="c1")
    story.model(result("c1", "ok"), reply=says("Done."))

    assert render_mermaid(story.tape) == SPECIFIED


def test_an_empty_run_goes_from_start_to_done() -> None:
    assert render_mermaid(MemoryTape()) == "flowchart TD\n  start([user])\n  start --> done([done])\n"


def test_each_kind_of_step_has_its_label() -> None:
    story = Story()
    story.tool("charge", failure="builtins:ValueError: no funds")
    story.tool("charge", None, "no funds", is_error=True)
    story.tool("charge")
    story.model(user("go"), reply=REFUSED)
    story.note(
        ApprovalStep(name="refund", approved=True),
        ApprovalStep(name="refund", approved=False),
        ValueStep(name="plan", value=1),
        ValueStep(name="run:complete"),
    )

    assert labels(story) == [
        "tool: charge ✗",
        "tool: charge ✗",
        "tool: charge",
        "LLM",
        "approved ✓",
        "denied ✗",
        "step: plan",
        "step: run:complete",
    ]


def test_housekeeping_is_not_drawn_and_takes_no_number() -> None:
    story = Story()
    story.http()
    story.note(
        AttemptStep(tool="charge"),
        SignalStep(name="go"),
        TimerStep(name="later", fire_at="2030-01-01T00:00:00Z"),
        CheckpointStep(id="1", boundary=True),
        CompactionStep(),
        PermissionStep(decision="allow"),
        ErrorStep(type="ValueError", message="no"),
    )
    story.note(ValueStep(name="run:complete"))

    assert render_mermaid(story.tape) == (
        'flowchart TD\n  start([user])\n  n0["step: run:complete"]\n  start --> n0\n  n0 --> done([done])\n'
    )


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ('say "hi"', "tool: say #34;hi#34;"),
        ("#quot;", "tool: #35;quot;"),
        ("&lt;", "tool: #38;lt;"),
        ("<b>x</b>", "tool: #60;b>x#60;/b>"),
        ("`x`", "tool: #96;x#96;"),
        ("100 %", "tool: 100 %"),
        ("%%{init: {}}%%", "tool: #37;#37;{init: {}}#37;#37;"),
        ("one\ntwo\r\n", "tool: one#10;two#13;#10;"),
        ("\x00\x1b\x7f\x9b", "tool: #0;#27;#127;#155;"),
        ("\ud800\ufffd", "tool: #55296;#65533;"),
        ("\u2028\u2029", "tool: #8232;#8233;"),
        ("direction LR", "tool: direction#32;LR"),
        ('style:"x"', "tool: #115;tyle:#34;x#34;"),
        ("classDef a:b", "tool: #99;lassDef a:b"),
        ("C:\\new", "tool: C:#92;new"),
        ("fa:fa-bell", "tool: fa#58;fa-bell"),
        ("$$x$$ $5", "tool: #36;#36;x#36;#36; $5"),
        ("ﬂ°°65¶ß", "tool: #64258;°°65#182;ß"),
        ("ends in a space ", "tool: ends in a space#32;"),
        ("", "tool:#32;"),
        ("end", "tool: end"),
        ("a[b](c){d}|e|;--> x", "tool: a[b](c){d}|e|;--> x"),
        ("👩‍👩‍👧 שלום \u202eabc", "tool: 👩‍👩‍👧 שלום \u202eabc"),
    ],
)
def test_what_mermaid_would_read_as_more_than_text_is_written_as_entities(name: str, written: str) -> None:
    assert called(name) == written


def test_a_failed_tool_is_marked_after_its_whole_name() -> None:
    story = Story()
    story.tool("charge ", failure="builtins:ValueError: no")

    assert labels(story) == ["tool: charge  ✗"]


def test_each_line_ends_in_a_newline_and_nothing_else_breaks_lines() -> None:
    story = Story()
    for name in ("a\nb", "a\u2028b", "a\x85b", "a\x0cb"):
        story.tool(name)

    text = render_mermaid(story.tape)

    assert text.endswith("\n")
    assert text.splitlines() == text.removesuffix("\n").split("\n")
    assert len(text.splitlines()) == 2 + 2 * 4 + 1


def test_an_unknown_style_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="mermaid style 'pie' is not known; there are flowchart and sequence"):
        render_mermaid(MemoryTape(), style="pie")  # type: ignore[arg-type]


def test_without_the_dialect_what_was_recorded_is_drawn() -> None:
    story = Story()
    story.model(user("go"), reply=asks(("c1", "look", {})))
    story.model(result("c1", "ok"), reply=says("ok"))

    text = render_mermaid(story.tape, dialects=Dialects(()))

    assert [line for line in text.splitlines() if "[" in line][1:-1] == ['  n0["LLM"]', '  n1["LLM"]']


def test_a_sequence_has_one_participant_for_each_agent_and_sub_agents_between_call_and_return() -> None:
    story = Story()
    story.model(user("plan"), reply=asks(("c1", "research", {"on": "tea"}), ("c2", "research", {"on": "cups"})))
    outer = [story.tool("research", {"on": on}, "found", use=use) for on, use in (("tea", "c1"), ("cups", "c2"))]
    for lane, tool in zip(("b2", "c3"), outer, strict=True):
        story.model(user(lane), reply=asks(("c1", "look", {})), lane=lane, parent=tool.id)
        story.tool("look", {}, failure="builtins:ValueError: no", use="c1", lane=lane, parent=tool.id)
        story.model(result("c1", "no"), reply=says("found"), lane=lane, parent=tool.id)
    story.model(result("c1", "found"), result("c2", "found"), reply=says("Done."))
    story.note(ValueStep(name="run:complete", lane="a1"))

    assert sequence(story) == (
        "sequenceDiagram\n"
        "  actor user\n"
        "  participant a0 as agent\n"
        "  participant a1 as research\n"
        "  participant a2 as research 2\n"
        "  user->>a0: start\n"
        "  a0->>a0: LLM\n"
        "  a0->>a1: tool: research\n"
        "  a1->>a1: LLM\n"
        "  a1->>a1: tool: look ✗\n"
        "  a1->>a1: LLM\n"
        "  a1-->>a0: tool: research\n"
        "  a0->>a2: tool: research\n"
        "  a2->>a2: LLM\n"
        "  a2->>a2: tool: look ✗\n"
        "  a2->>a2: LLM\n"
        "  a2-->>a0: tool: research\n"
        "  a0->>a0: LLM\n"
        "  a0->>a0: step: run:complete\n"
        "  a0-->>user: done\n"
    )


def test_a_sub_agent_that_failed_brings_the_mark_back() -> None:
    story = Story()
    story.model(user("plan"), reply=asks(("c1", "research", {})))
    outer = story.tool("research", {}, use="c1", failure="builtins:ValueError: no")
    story.model(user("dig"), reply=says("dug"), lane="b2", parent=outer.id)

    assert sequence(story).splitlines()[-4:] == [
        "  a0->>a1: tool: research",
        "  a1->>a1: LLM",
        "  a1-->>a0: tool: research ✗",
        "  a0-->>user: done",
    ]


def test_agents_that_the_user_named_have_that_name_and_are_called_one_after_the_other() -> None:
    story = Story()
    story.model(user("write"), reply=says("a poem"), lane="@writer")
    story.model(user("read"), reply=says("good"), lane="@critic; #1")
    story.model(user("more"), reply=says("two poems"), lane="@writer")

    assert sequence(story) == (
        "sequenceDiagram\n"
        "  actor user\n"
        "  participant a0 as writer\n"
        "  participant a1 as critic#59; #35;1\n"
        "  user->>a0: start\n"
        "  a0->>a0: LLM\n"
        "  a0->>a0: LLM\n"
        "  a0-->>user: done\n"
        "  user->>a1: start\n"
        "  a1->>a1: LLM\n"
        "  a1-->>user: done\n"
    )


def test_tools_inside_tools_that_belong_to_no_conversation_are_their_caller_s() -> None:
    story = Story()
    story.model(user("go"), reply=asks(("c1", "outer", {})))
    outer = story.tool("outer", {}, 1, use="c1")
    inner = story.tool("inner", {}, 1, lane="", parent=outer.id)
    story.tool("inmost", {}, 1, lane="", parent=inner.id)

    assert sequence(story).splitlines()[2:] == [
        "  participant a0 as agent",
        "  user->>a0: start",
        "  a0->>a0: LLM",
        "  a0->>a0: tool: outer",
        "  a0->>a0: tool: inner",
        "  a0->>a0: tool: inmost",
        "  a0-->>user: done",
    ]


def test_a_tool_whose_own_tool_calls_a_sub_agent_is_drawn_before_it() -> None:
    story = Story()
    story.model(user("go"), reply=asks(("c1", "outer", {})))
    outer = story.tool("outer", {}, use="c1", failure="builtins:ValueError: no")
    inner = story.tool("research", {}, 1, lane="", parent=outer.id)
    story.model(user("dig"), reply=says("dug"), lane="b2", parent=inner.id)

    assert sequence(story).splitlines()[4:] == [
        "  user->>a0: start",
        "  a0->>a0: LLM",
        "  a0->>a0: tool: outer ✗",
        "  a0->>a1: tool: research",
        "  a1->>a1: LLM",
        "  a1-->>a0: tool: research",
        "  a0-->>user: done",
    ]


def test_what_is_inside_a_call_that_never_ended_is_drawn_all_the_same() -> None:
    story = Story()
    story.model(user("dig"), reply=says("dug"), parent="never ended")

    assert "  a0->>a0: LLM\n" in sequence(story)


def test_an_empty_sequence_has_the_user_alone() -> None:
    assert render_mermaid(MemoryTape(), style="sequence") == "sequenceDiagram\n  actor user\n"
