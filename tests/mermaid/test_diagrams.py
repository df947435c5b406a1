"""Diagrams as the real mermaid reads them: each parses, nothing in a name adds to it, and each label is the name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from pytest_agentreplay.cassette import load_cassette
from pytest_agentreplay.projections.drawn import read_drawn
from pytest_agentreplay.projections.mermaid import render_mermaid
from pytest_agentreplay.projections.sequence import Talk, read_talk
from pytest_agentreplay.projections.tape import Tape
from pytest_agentreplay.records import (
    ApprovalStep,
    AttemptStep,
    CheckpointStep,
    CompactionStep,
    ErrorStep,
    PermissionStep,
    SignalStep,
    TimerStep,
    ToolStep,
    ValueStep,
)
from tests.support import mermaid
from tests.support.mermaid import read_diagrams
from tests.support.stories import SPECIFIED, Story, asks, result, says, user

Read = dict[str, Any]  # diagrams by their text

PROJECT = Path(__file__).resolve().parents[2]
TAPES = 500
FEW_TAPES = 120  # where CI's soak run does not read them all
MOST_STEPS = 499  # mermaid refuses more than 500 edges

# What mermaid, or what stands around a diagram, reads as something else than the text of a label.
NASTY = [
    '%%{init: {"theme": "dark"}}%%',
    "%%{init: {'flowchart': {'htmlLabels': false}}}%%",
    "%%",
    "%% comment",
    "%",
    '"',
    '"]',
    '"] --> n0["',
    "'",
    "`",
    "`**bold**`",
    "[x]",
    "(x)",
    "([x])",
    "{x}",
    "{{x}}",
    "|x|",
    "@{ shape: rect }",
    "\n",
    "\r\n",
    "a\nb",
    "\n  n9[x]",
    "\t",
    "\x00",
    "\x1b[31m",
    "\x85",
    "\u2028",
    "\ufeff",
    "\u00a0",
    "end",
    "END",
    "graph TD",
    "subgraph x",
    "flowchart LR",
    "sequenceDiagram",
    "participant x as y",
    "note over a0: x",
    "loop x",
    "title x",
    "accTitle: x",
    "---",
    "-->",
    "->>",
    "==>",
    "~~~",
    "click n0 call x()",
    "class n0 x",
    "classDef x fill:#fff;",
    "style n0 fill:#fff;",
    'style:"x"',
    'classDef:"x"',
    "direction LR",
    "direction\tTB",
    "wrap:",
    "nowrap: x",
    ":",
    ";",
    "a;b",
    "#",
    "#34;",
    "#quot;",
    "#9829;",
    "&",
    "&lt;",
    "&#60;",
    "<br>",
    "<br/>",
    "<b>x</b>",
    "<script>x</script>",
    "<!-- x -->",
    '<a href="x">',
    "<",
    ">",
    "$$x$$",
    "$",
    "\\n",
    "C:\\new",
    "\\",
    "fa:fa-bell",
    "fab:fa-x",
    "__init__",
    "*x*",
    "[l](u)",
    "~~x~~",
    "https://example.com",
    "ann@example.com",
    "ﬂ°°65¶ß",
    "ﬂ°quot¶ß",
    "ﬂ",
    "°",
    "¶ß",
    "😀",
    "👩‍👩‍👧",
    "𐍈",
    "שלום",
    "مرحبا",
    "\u202eabc\u202c",
    "\u200f",
    "e\u0301",
    "\ud800",
    "\udfff",
    "\ufffd",
    "\uffff",
    "__proto__",
    "constructor",
    "toString",
    "start",
    "done",
    "n0",
    "a0",
    "user",
    " ",
    "  x  ",
    "",
    "x" * 300,
    "✗",
    " ✓",
]
# Those of them that a picture could show in another way; some other letters are no letters in HTML.
SHOWN = [
    '%%{init: {"theme": "dark"}}%%',
    "C:\\new",
    "fa:fa-bell",
    "$$x$$",
    "<b>x</b>",
    'style:"x"',
    "#quot;",
    "👩‍👩‍👧 שלום",
]
names = st.one_of(
    st.sampled_from(NASTY),
    st.lists(st.sampled_from(NASTY), min_size=2, max_size=4).map("".join),
    st.lists(st.sampled_from(NASTY), min_size=2, max_size=3).map(" ".join),
    st.text(st.characters(exclude_categories=()), max_size=8),
)
lanes = st.one_of(st.sampled_from(["a1", "b2", "c3"]), names.map("@{}".format))


@dataclass
class Made:
    """A tape, and the labels of what is drawn of it, as they were meant when it was made."""

    story: Story = field(default_factory=Story)
    labels: list[str] = field(default_factory=list)
    tools: list[ToolStep] = field(default_factory=list)

    @property
    def tape(self) -> Tape:
        return self.story.tape


@st.composite
def made_tapes(draw: st.DrawFn) -> Made:
    """Return a tape of any steps, in any conversations, inside any tools."""
    made = Made()
    for kind in draw(st.lists(st.sampled_from([*_KINDS, "tool", "tool", "model", "inside"]), max_size=6)):
        _KINDS[kind](made, draw)
    return made


def _place(made: Made, draw: st.DrawFn) -> dict[str, Any]:
    parents = st.sampled_from([tool.id for tool in made.tools]) if made.tools else st.none()
    return {"lane": draw(lanes), "parent": draw(st.one_of(st.none(), parents))}


def _model(made: Made, draw: st.DrawFn) -> None:
    made.story.model(user("go"), reply=says("ok"), **_place(made, draw))
    made.labels.append("LLM")


def _told_tool(made: Made, draw: st.DrawFn) -> None:
    """Add a tool that only the conversation tells of."""
    name, place = draw(names), _place(made, draw)
    made.story.model(user("go"), reply=asks(("c1", name, {})), **place)
    made.story.model(result("c1", "ok"), reply=says("ok"), **place)
    made.labels += ["LLM", f"tool: {name}", "LLM"]


def _tool(made: Made, draw: st.DrawFn) -> None:
    name, failure, place = draw(names), draw(st.sampled_from([None, "builtins:ValueError: no"])), _place(made, draw)
    place["lane"] = draw(st.sampled_from([place["lane"], ""]))
    made.tools.append(made.story.tool(name, {}, failure=failure, **place))
    made.labels.append(f"tool: {name} ✗" if failure else f"tool: {name}")


def _inside(made: Made, draw: st.DrawFn) -> None:
    """Add a sub-agent."""
    name = draw(names)
    outer = made.story.tool(name, {})
    made.story.model(user("dig"), reply=says("dug"), lane=f"sub{len(made.tools)}", parent=outer.id)
    made.tools.append(outer)
    made.labels += [f"tool: {name}", "LLM"]


def _approval(made: Made, draw: st.DrawFn) -> None:
    approved = draw(st.booleans())
    made.story.note(ApprovalStep(name=draw(names), approved=approved, lane=draw(lanes)))
    made.labels.append("approved ✓" if approved else "denied ✗")


def _value(made: Made, draw: st.DrawFn) -> None:
    name = draw(st.one_of(names, st.just("run:complete")))
    made.story.note(ValueStep(name=name, lane=draw(lanes)))
    made.labels.append(f"step: {name}")


def _undrawn(made: Made, draw: st.DrawFn) -> None:
    name = draw(names)
    made.story.http()
    made.story.note(
        AttemptStep(tool=name),
        SignalStep(name=name),
        TimerStep(name=name, fire_at="2030-01-01T00:00:00Z"),
        CheckpointStep(id=name, boundary=True),
        CompactionStep(summary=name),
        PermissionStep(decision="deny", reason=name),
        ErrorStep(type=name, message=name),
    )


_KINDS = {
    "model": _model,
    "told": _told_tool,
    "tool": _tool,
    "inside": _inside,
    "approval": _approval,
    "value": _value,
    "undrawn": _undrawn,
}


def make_tapes(count: int) -> list[Made]:
    """Return so many tapes, the same ones each time."""
    made: list[Made] = []

    @settings(
        max_examples=count,
        phases=[Phase.generate],
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(tape=made_tapes())
    def collect(tape: Made) -> None:
        made.append(tape)

    collect()
    return made


def with_each_name() -> Story:
    """Return a run in which each of the nasty names is that of a tool, of a step and of an agent."""
    story = Story()
    for name in NASTY:
        story.tool(name, {}, failure="builtins:ValueError: no", lane=f"@{name}")
        story.tool(name, {}, lane=f"@{name}")
        story.note(ValueStep(name=name, lane=f"@{name}"))
    return story


def longest() -> Story:
    """Return a run of as many steps as mermaid draws."""
    story = Story()
    for _ in range(MOST_STEPS):
        story.tool("look")
    return story


def talk_of(tape: Tape) -> Talk:
    return read_talk(read_drawn(tape))


def check_flowchart(diagram: Any, labels: Sequence[str]) -> None:
    """Check that a diagram is the chain of these labels and nothing else."""
    nodes = {f"n{number}": label for number, label in enumerate(labels)}
    chain = ["start", *nodes, "done"]
    assert diagram.labels == {"start": "user", **nodes, "done": "done"}
    assert diagram.edges == tuple((first, second, "") for first, second in pairwise(chain))
    assert (diagram.direction, diagram.config) == ("TB", {})


def check_sequence(diagram: Any, talk: Talk) -> None:
    """Check that a diagram has these agents and lines and nothing else."""
    arrows = [(line.speaker, line.hearer, line.text, "-->>" if line.is_return else "->>") for line in talk.lines]
    assert diagram.participants == {"user": "user", **talk.agents}
    assert diagram.messages == tuple(arrows)
    assert (diagram.notes, diagram.config) == ((), {})


def in_both_styles(tape: Tape) -> list[str]:
    return [render_mermaid(tape), render_mermaid(tape, style="sequence")]


def committed(pattern: str) -> list[Path]:
    """Return the project's own files of a kind, not those of what is installed in it."""
    folders = (PROJECT / "examples", PROJECT / "tests", PROJECT / "docs")
    return sorted(path for folder in folders for path in folder.rglob(pattern) if "node_modules" not in path.parts)


@pytest.fixture(scope="module")
def recorded() -> list[Tape]:
    """The tapes of the examples."""
    return [load_cassette(path) for path in committed("*.jsonl") if "cassettes" in path.parts]


@pytest.fixture(scope="module")
def read(recorded: list[Tape]) -> Read:
    """The diagrams that are the same in every run as mermaid reads them, by their text."""
    drawn = [*recorded, with_each_name().tape, longest().tape]
    texts = [text for tape in drawn for text in in_both_styles(tape)]
    return read_all([*texts, SPECIFIED, *(path.read_text(encoding="utf-8") for path in committed("*.mermaid"))])


def read_all(texts: Iterable[str]) -> Read:
    """Return diagrams as mermaid reads them, by their text."""
    asked = list(dict.fromkeys(texts))
    return dict(zip(asked, read_diagrams(asked), strict=True))


@pytest.mark.parametrize("count", [FEW_TAPES, pytest.param(TAPES, marks=pytest.mark.slow)])
def test_any_tape_is_drawn_as_what_mermaid_reads_back(count: int) -> None:
    tapes = make_tapes(count)
    read = read_all(text for made in tapes for text in in_both_styles(made.tape))

    assert len(tapes) == count
    assert sum(bool(made.labels) for made in tapes) > count * 0.8
    for made in tapes:
        flowchart, sequence = (read[text] for text in in_both_styles(made.tape))
        check_flowchart(flowchart, made.labels)
        check_sequence(sequence, talk_of(made.tape))
        assert set(made.labels) <= {text for _, _, text, _ in sequence.messages}


def test_every_nasty_name_is_read_back(read: Read) -> None:
    tape = with_each_name().tape
    labels = [label for name in NASTY for label in (f"tool: {name} ✗", f"tool: {name}", f"step: {name}")]

    flowchart, sequence = (read[text] for text in in_both_styles(tape))

    check_flowchart(flowchart, labels)
    check_sequence(sequence, talk_of(tape))
    assert list(sequence.participants.values()) == ["user", *NASTY]


def test_every_diagram_of_an_example_is_read_back(recorded: list[Tape], read: Read) -> None:
    assert len(recorded) >= 2
    for tape in recorded:
        flowchart, sequence = (read[text] for text in in_both_styles(tape))
        check_flowchart(flowchart, [drawn.label for drawn in read_drawn(tape)])
        check_sequence(sequence, talk_of(tape))


def test_the_specified_diagram_is_read_back(read: Read) -> None:
    check_flowchart(read[SPECIFIED], ["LLM", "tool: charge", "LLM"])


def test_the_longest_flowchart_that_mermaid_takes_is_read_back(read: Read) -> None:
    check_flowchart(read[render_mermaid(longest().tape)], ["tool: look"] * MOST_STEPS)


def test_nasty_names_are_shown_as_they_are() -> None:
    story = Story()
    for name in SHOWN:
        story.tool(name, {}, lane=f"@{name}")

    flowchart, sequence = mermaid.draw_diagrams(in_both_styles(story.tape))

    assert list(flowchart.labels.values()) == ["user", *(f"tool: {name}" for name in SHOWN), "done"]
    assert [text for text in sequence.messages if text.startswith("tool: ")] == [f"tool: {name}" for name in SHOWN]
    assert [sequence.labels[f"a{number}"] for number in range(len(SHOWN))] == SHOWN
