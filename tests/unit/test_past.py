"""The order of what a run has done so far: the tape's, whatever was completed first."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from pytest_agentreplay.player import MemoryTape, Recorded, in_order_of_tape
from pytest_agentreplay.projections.events import event_stream
from pytest_agentreplay.records import CompactionStep, Entry, PermissionStep, ToolStep
from tests.support.stories import Story, asks, result, says, user


def recorded_run() -> Story:
    """Return two turns with three tools between them, one of them a sub-agent of two turns with a tool."""
    story = Story()
    calls = [("c1", "look", {"q": 1}), ("c2", "look", {"q": 2}), ("c3", "research", {})]
    story.model(user("go"), reply=asks(*calls))
    story.note(PermissionStep(lane="a1", tool_use_id="c1", decision="allow"))
    story.tool("look", {"q": 1}, "one", use="c1")
    story.tool("look", {"q": 2}, "two", use="c2")
    outer = story.tool("research", {}, "found", use="c3")
    story.note(CompactionStep(lane="a1", summary="short"))
    story.model(*(result(use, "x") for use, _, _ in calls), reply=says("ok"))
    story.model(user("dig"), reply=asks(("c1", "dig", {})), lane="b2", parent=outer.id)
    story.tool("dig", {}, "dug", use="c1", lane="b2", parent=outer.id)
    story.model(result("c1", "dug"), reply=says("found"), lane="b2", parent=outer.id)
    return story


RUN = recorded_run()
ENTRIES = RUN.tape.entries


def past(completed: Sequence[Entry]) -> list[Entry]:
    return in_order_of_tape(completed, Recorded(RUN.tape, ENTRIES))


def anew(step: Entry, **changes: object) -> Entry:
    """Return a step as it is made again in replay: another object, with what it came to this time."""
    return step.model_copy(update=changes)


def is_same(first: Sequence[Entry], second: Sequence[Entry]) -> bool:
    return [id(step) for step in first] == [id(step) for step in second]


@given(completed=st.permutations(ENTRIES))
def test_what_was_served_stands_as_recorded_whatever_was_completed_first(completed: list[Entry]) -> None:
    assert is_same(past(completed), ENTRIES)


@given(completed=st.permutations(ENTRIES), count=st.integers(0, len(ENTRIES)))
def test_a_run_that_has_not_come_to_its_end_is_part_of_the_recorded_one(completed: list[Entry], count: int) -> None:
    kept = [step for step in ENTRIES if any(step is done for done in completed[:count])]

    assert is_same(past(completed[:count]), kept)


@given(completed=st.permutations(ENTRIES))
def test_tools_that_ran_live_and_notes_stand_where_the_recording_has_theirs(completed: list[Entry]) -> None:
    made_again = {
        id(step): anew(step, result="now") if isinstance(step, ToolStep) else anew(step)
        for step in ENTRIES
        if isinstance(step, ToolStep | CompactionStep | PermissionStep)
    }

    found = past([made_again.get(id(step), step) for step in completed])

    assert is_same(found, [made_again.get(id(step), step) for step in ENTRIES])


def test_equal_live_calls_stand_in_the_order_in_which_they_were_made() -> None:
    story = Story()
    story.model(user("go"), reply=asks(*((f"c{number}", "look", {}) for number in range(3))))
    for number in range(3):
        story.tool("look", {}, number, use=f"c{number}")
    first, *calls = story.tape.entries
    live = [anew(step, result="now") for step in calls]

    found = in_order_of_tape([live[0], first, *live[1:]], Recorded(story.tape, story.tape.entries))

    assert is_same(found, [first, *live])


def test_a_call_that_is_not_recorded_stands_after_what_its_conversation_did_before() -> None:
    first, *rest = ENTRIES
    surprise = Story().tool("surprise", {}, "!", lane="a1")
    dug = next(step for step in rest if step.lane == "b2")

    found = past([first, dug, surprise, *(step for step in rest if step is not dug)])

    assert is_same(found, [first, surprise, *rest])


def test_a_call_of_no_conversation_that_is_not_recorded_stands_first() -> None:
    surprise = Story().tool("surprise", {}, "!", lane="")

    assert is_same(past([*ENTRIES, surprise]), [surprise, *ENTRIES])


def test_an_answer_that_was_served_once_more_stands_where_it_was_asked_for_again() -> None:
    first, permission, look, *rest = ENTRIES

    found = past([first, permission, look, look, *rest, rest[-1]])

    assert is_same(found, [first, permission, look, look, *rest, rest[-1]])


def test_nothing_done_is_nothing() -> None:
    assert past([]) == []


@given(completed=st.permutations(ENTRIES))
def test_events_of_a_replay_are_those_of_the_recording(completed: list[Entry]) -> None:
    replayed = MemoryTape(entries=past(completed), messages=RUN.tape.messages, start=RUN.tape.start)

    assert event_stream(replayed) == event_stream(RUN.tape)
