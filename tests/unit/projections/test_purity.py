"""Every fold over a tape is a pure function of it: told twice it is the same, and the tape stays as it was."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_agentreplay.canonical import canonical_json
from pytest_agentreplay.cassette import Recording, canonical_order, load_cassette
from pytest_agentreplay.player import MemoryTape
from pytest_agentreplay.projections.costs import costs
from pytest_agentreplay.projections.drawn import trajectory
from pytest_agentreplay.projections.events import event_stream
from pytest_agentreplay.projections.mermaid import render_mermaid
from pytest_agentreplay.projections.replayed import replay_events
from pytest_agentreplay.projections.tape import Tape
from pytest_agentreplay.records import (
    ApprovalStep,
    CompactionStep,
    ErrorStep,
    ModelStep,
    PermissionStep,
    RunEnd,
    ValueStep,
)
from pytest_agentreplay.redact import redactor_for
from tests.support.stories import ANTHROPIC, REFUSED, Story, asks, claude, fails, result, results, says, user

FOLDS: dict[str, Callable[[Tape], Any]] = {
    "events": lambda tape: event_stream(tape, hashes=True, costs=True),
    "replayed": replay_events,
    "mermaid": render_mermaid,
    "sequence": lambda tape: render_mermaid(tape, style="sequence"),
    "trajectory": trajectory,
    "costs": costs,
}


def everything() -> Story:
    """Return a run with a step of every kind that is told, wrapped tools and others, and a sub-agent."""
    story = Story()
    story.http()
    story.model(user("go"), reply=fails(429, "slow down"))
    story.model(reply=asks(("c1", "look", {"q": [1, {"deep": 2}]}), ("c2", "bare", {}), ("c3", "research", {})))
    story.note(PermissionStep(lane="a1", tool_use_id="c1", decision="allow"))
    story.tool("look", {"q": [1, {"deep": 2}]}, {"found": ["one"]}, use="c1")
    outer = story.tool("research", {}, use="c3", failure="builtins:ValueError: no")
    story.note(
        CompactionStep(lane="a1", summary="short"),
        ApprovalStep(lane="a1", name="refund", approved=False),
        ValueStep(lane="a1", name="plan", value={"steps": [1]}),
        ErrorStep(lane="a1", type="ValueError", message="no"),
    )
    story.model(result("c1", "x"), result("c2", "y"), result("c3", "z"), reply=says("one", "two"))
    story.model(user("dig"), reply=claude("hm", ("t1", "dig", {})), lane="b2", url=ANTHROPIC, parent=outer.id)
    story.model(
        results(("t1", "dug")), reply=claude("ok", stop="max_tokens"), lane="b2", url=ANTHROPIC, parent=outer.id
    )
    story.model(user("again"), reply=REFUSED, lane="@named")
    return story


def state_of(tape: Tape) -> bytes:
    return canonical_json([[step.model_dump(mode="json") for step in tape.entries], dict(tape.messages)])


def parts_of(tape: MemoryTape) -> Iterator[MemoryTape]:
    """Yield a tape as it was after each of its steps, from none."""
    for count in range(len(tape.entries) + 1):
        yield replace(tape, entries=tape.entries[:count])


def events_without_arguments(tape: Tape) -> list[dict[str, Any]]:
    return [without_arguments(event) for event in event_stream(tape)]


def without_arguments(event: Mapping[str, Any]) -> dict[str, Any]:
    """Return an event without what a turn tells of calls that no tool's event tells of yet."""
    said = [event, *event.get("choices", ())]
    bare = [[{"id": call["id"], "name": call["name"]} for call in one.get("calls", ())] for one in said]
    return {**event, "calls": bare, "choices": None}


# Folds whose events follow the steps of a tape, each with the steps of everything() that it tells nothing of.
GROWING: dict[str, tuple[Callable[[Tape], list[Any]], list[str]]] = {
    "events": (events_without_arguments, ["http"]),
    "replayed": (
        replay_events,
        ["http", "model", "permission", "compaction", "approval", "value", "error", "model"],  # two calls failed
    ),
    "trajectory": (trajectory, ["http", "permission", "compaction", "error"]),
}


def written(path: Path, story: Story) -> Tape:
    """Return a story's tape as it is read back from a file."""
    start = story.tape.start
    assert start is not None
    recording = Recording(path, start, redactor=redactor_for())
    recording.know(story.tape.messages)
    for step in story.tape.entries:
        recording.append(step, story.tape.messages if isinstance(step, ModelStep) else {})
    recording.close(RunEnd())
    return load_cassette(recording.path)


@pytest.mark.parametrize("fold", FOLDS)
def test_a_fold_gives_the_same_each_time_and_leaves_the_tape_as_it_was(fold: str) -> None:
    tape = everything().tape
    before, entries = state_of(tape), list(tape.entries)

    first, second = FOLDS[fold](tape), FOLDS[fold](tape)

    assert first == second
    assert first
    assert state_of(tape) == before
    assert all(now is then for now, then in zip(tape.entries, entries, strict=True))


@pytest.mark.parametrize("fold", FOLDS)
def test_a_fold_of_a_file_is_that_of_what_was_written_to_it(fold: str, tmp_path: Path) -> None:
    story = everything()
    in_order = canonical_order(story.tape.entries)

    tape = written(tmp_path / "it.jsonl", story)

    assert FOLDS[fold](tape) == FOLDS[fold](replace(story.tape, entries=in_order))


@pytest.mark.parametrize("fold", GROWING)
def test_what_is_told_of_a_part_of_a_tape_is_how_the_whole_begins(fold: str) -> None:
    tell, silent = GROWING[fold]
    whole = everything().tape
    told = tell(whole)
    before: list[Any] = []
    untold = []

    for part in parts_of(whole):
        found = tell(part)
        assert found == told[: len(found)]
        if part.entries and len(found) == len(before):
            untold.append(part.entries[-1].kind)
        before = found

    assert untold == silent  # any other step is told of as soon as it is there
    assert before == told
