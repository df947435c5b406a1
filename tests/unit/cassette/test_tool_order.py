"""The canonical order of tool calls, of what is inside them, and of decisions on them."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentreplay.cassette.order import canonical_order, tool_label
from pytest_agentreplay.records import CompactionStep, Entry, PermissionStep, Timing, ToolStep
from tests.unit.making import chat, make_reader, step_for, user

READER = make_reader()


def _call(
    name: str,
    *,
    at: float,
    took: float = 0.5,
    lane: str = "",
    parent: str | None = None,
    rank: int | None = None,
    id: str | None = None,  # noqa: A002 - the field's own word
    result: Any = None,
) -> ToolStep:
    called = READER.read_tool_call(name, {})
    return ToolStep(
        hash=called.hash,
        id=id or tool_label(called.hash, ordinal=1),
        name=name,
        arguments={},
        lane=lane,
        parent=parent,
        rank=rank,
        result=result,
        timing=Timing(began=at, took=took),
    )


def _decision(reason: str, *, at: float, lane: str = "", rank: int | None = None) -> PermissionStep:
    return PermissionStep(decision="allow", reason=reason, lane=lane, rank=rank, timing=Timing(began=at, took=0.0))


def _request(text: str, *, at: float, took: float = 0.5, lane: str = "l", parent: str | None = None) -> Entry:
    return step_for(READER.read(chat(user(text))), lane=lane, began=at, took=took, parent=parent)


def _named(steps: list[Entry]) -> list[str]:
    """Return what each step is: a tool's name, a decision's reason, or what was asked."""
    return [_name(step) for step in steps]


def _name(step: Entry) -> str:
    if isinstance(step, ToolStep):
        return step.name
    if isinstance(step, PermissionStep):
        return step.reason or ""
    return str(getattr(step, "summary", None) or TEXTS[getattr(step, "hash", "")])


TEXTS = {READER.read(chat(user(text))).hash: text for text in (*"abcdefgh", "one", "two", "three", "inner")}


def test_the_tools_of_a_turn_stand_as_the_model_asked_whichever_was_done_first() -> None:
    first = _request("one", at=0)
    turn = [_call(name, at=1 + rank / 10, lane="l", rank=rank) for rank, name in enumerate("xyz")]
    last = _request("two", at=5)

    for order in ([0, 1, 2], [2, 0, 1], [1, 2, 0]):
        ordered = canonical_order([first, *(turn[index] for index in order), last])

        assert _named(ordered) == ["one", "x", "y", "z", "two"]


def test_the_tools_of_two_turns_are_not_mixed() -> None:
    steps = [
        _request("one", at=0),
        _call("late", at=1, lane="l", rank=1),
        _request("two", at=2),
        _call("early", at=3, lane="l", rank=0),
    ]

    assert _named(canonical_order(steps)) == ["one", "late", "two", "early"]


def test_a_decision_stays_right_before_its_call() -> None:
    steps = [
        _request("one", at=0),
        _decision("on y", at=1, lane="l", rank=1),
        _call("y", at=1, lane="l", rank=1),
        _decision("on x", at=1.1, lane="l", rank=0),
        _call("x", at=1.1, lane="l", rank=0),
        _decision("on u", at=1.2, lane="l"),
        _call("u", at=1.2, lane="l"),
    ]

    assert _named(canonical_order(steps)) == ["one", "on x", "x", "on y", "y", "on u", "u"]


def test_calls_that_no_model_ranked_stand_by_time_and_by_content_where_they_overlap() -> None:
    def recorded(starts: dict[str, float]) -> list[str]:
        steps = [_call(name, at=at, took=1) for name, at in starts.items()]
        return _named(canonical_order([*steps, _call("after", at=9), _call("before", at=-9)]))

    orders = [
        recorded({"x": 0.1, "y": 0.2, "z": 0.3}),
        recorded({"z": 0.1, "x": 0.2, "y": 0.3}),
        recorded({"y": 0.1, "z": 0.2, "x": 0.3}),
    ]

    assert orders[0] == orders[1] == orders[2]
    assert (orders[0][0], orders[0][-1]) == ("before", "after")


def test_equal_calls_keep_the_order_in_which_they_were_made() -> None:
    steps = [_call("x", at=number, result=10 - number, id=f"live {number}") for number in range(4)]

    ordered = canonical_order(steps)

    assert [step.result for step in ordered if isinstance(step, ToolStep)] == [10, 9, 8, 7]
    assert [step.id for step in ordered if isinstance(step, ToolStep)] == [
        tool_label(steps[0].hash, ordinal=ordinal) for ordinal in (1, 2, 3, 4)
    ]


def test_lanes_opened_inside_tools_stand_after_the_lane_that_called_them_in_the_order_of_the_calls() -> None:
    x, y = (_call(name, at=1, took=6, lane="l", rank=rank) for rank, name in enumerate("xy"))
    steps = [
        _request("one", at=0),
        _request("a", at=2, lane="in y", parent=y.id),
        _request("b", at=3, lane="in x", parent=x.id),
        _call("helper", at=4, parent=y.id),
        y,
        x,
        _request("two", at=8),
        _request("three", at=20, lane="other"),
    ]

    ordered = canonical_order(steps)

    assert _named(ordered) == ["one", "x", "y", "two", "b", "a", "helper", "three"]


def test_what_is_inside_a_tool_names_it_by_its_place_among_equal_calls() -> None:
    calls = [_call("x", at=10 * number, took=5, id=f"live {number}") for number in range(2)]
    inside = [_request("inner", at=10 * number + 1, lane=f"in {number}", parent=f"live {number}") for number in (0, 1)]

    ordered = canonical_order([inside[1], calls[1], inside[0], calls[0]])

    label = tool_label(calls[0].hash, ordinal=1)
    assert [(step.parent, getattr(step, "id", "")) for step in ordered] == [
        (None, label),
        (None, f"{label}.2"),
        (label, ""),
        (f"{label}.2", ""),
    ]


def test_what_is_inside_a_call_that_never_ended_is_inside_nothing() -> None:
    steps = [_request("one", at=0, parent="gone"), _call("x", at=2, parent="gone")]

    assert [step.parent for step in canonical_order(steps)] == [None, None]


def test_calls_inside_calls_that_belong_to_no_lane_are_kept_whichever_came_first() -> None:
    outer = _call("outer", at=1, id="outer")
    inner = _call("inner", at=1, parent="outer", id="inner")
    inmost = _call("inmost", at=1, parent="inner", id="inmost")

    ordered = canonical_order([inmost, inner, outer])

    assert _named(ordered) == ["outer", "inner", "inmost"]
    assert [step.parent for step in ordered] == [None, *(tool_label(step.hash, ordinal=1) for step in (outer, inner))]


def test_calls_that_are_inside_each_other_are_not_lost() -> None:
    steps = [_call("x", at=0, parent="y", id="x"), _call("y", at=0, parent="x", id="y"), _call("z", at=1)]

    assert sorted(_named(canonical_order(steps))) == ["x", "y", "z"]


def test_lanes_that_the_user_named_and_that_are_held_at_once_stand_by_name() -> None:
    def recorded(first: str, second: str) -> list[str]:
        steps = [
            _request("one", at=0, lane=first),
            _request("one", at=1, lane=second),  # its opening does not overlap the other's
            _request("two", at=2, lane=first),
            _request("two", at=3, lane=second),
        ]
        return [step.lane for step in canonical_order(steps)]

    assert recorded("@a", "@b") == recorded("@b", "@a") == ["@a", "@a", "@b", "@b"]


def test_lanes_that_the_user_named_and_that_are_held_in_turn_stand_in_that_order() -> None:
    steps = [_request("one", at=0, lane="@b"), _request("two", at=1, lane="@b"), _request("one", at=2, lane="@a")]

    assert [step.lane for step in canonical_order(steps)] == ["@b", "@b", "@a"]


def test_a_note_stands_where_it_was_made() -> None:
    note = CompactionStep(summary="shorter", lane="l", timing=Timing(began=1, took=0))
    steps = [_request("one", at=0), note, _request("two", at=2)]

    assert _named(canonical_order(steps)) == ["one", "shorter", "two"]


@st.composite
def recordings(draw: st.DrawFn) -> list[Entry]:
    """Return the steps of a run of nested tools, some equal, some in lanes, in the order of their ends."""
    steps: list[Entry] = []
    parents: list[str | None] = [None]
    for number in range(draw(st.integers(1, 12))):
        parent = draw(st.sampled_from(parents))
        at, took = draw(st.integers(0, 5)), draw(st.integers(0, 3))
        if draw(st.booleans()):
            name = draw(st.sampled_from("xyz"))
            lane = draw(st.sampled_from(["", "", "l", f"lane {number}", "@named"]))
            rank = draw(st.none() | st.integers(0, 3)) if lane else None
            steps.append(_call(name, at=at, took=took, lane=lane, parent=parent, rank=rank, id=f"live {number}"))
            parents.append(f"live {number}")
        else:
            lane = draw(st.sampled_from(["l", f"lane {number}", "@named"]))
            steps.append(_request(draw(st.sampled_from("abc")), at=at, took=took, lane=lane, parent=parent))
    return draw(st.permutations(steps))


def _content(step: Entry) -> str:
    return step.model_dump_json(exclude={"lane", "id", "parent"})


@given(steps=recordings())
def test_ordering_loses_nothing_names_each_call_once_and_a_second_time_changes_nothing(steps: list[Entry]) -> None:
    once = canonical_order(steps)

    assert sorted(map(_content, once)) == sorted(map(_content, steps))
    ids = [step.id for step in once if isinstance(step, ToolStep)]
    assert len(set(ids)) == len(ids)
    assert {step.parent for step in once} - {None} <= set(ids)
    assert canonical_order(once) == once


@given(random=st.randoms(use_true_random=False))
def test_the_order_of_parallel_tools_depends_on_no_chance(random: Random) -> None:
    """One turn of four calls, each with a request and a call inside, ended in any order, gives one file."""

    def recorded() -> list[tuple[str, str | None, str]]:
        ended = []
        for rank, name in enumerate("wxyz"):
            began = 1 + random.random()
            outer = _call(name, at=began, took=5 + random.random(), lane="l", rank=rank)
            request = _request(name if name in TEXTS else "inner", at=began + 1, lane=f"in {name}", parent=outer.id)
            helper = _call(f"help {name}", at=began + 2, parent=outer.id)
            ended.append((random.random(), [request, helper, outer]))
        mixed = [step for _, part in sorted(ended, key=lambda pair: pair[0]) for step in part]
        ordered = canonical_order([_request("one", at=0), *mixed, _request("two", at=9)])
        return [(_name(step), step.parent, step.lane) for step in ordered]

    assert recorded() == recorded() == recorded()


@pytest.mark.parametrize("ordinal", [1, 2, 11])
def test_a_call_is_named_by_its_hash_and_its_place_among_equal_ones(ordinal: int) -> None:
    label = tool_label("a1:0123456789abcdef0123", ordinal=ordinal)

    assert label == "0123456789abcdef" + (f".{ordinal}" if ordinal > 1 else "")
