"""The canonical order of a cassette."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from pytest_agentreplay.cassette.order import canonical_order, lane_label
from pytest_agentreplay.reader import Asked
from pytest_agentreplay.records import ExchangeStep, Response
from tests.unit.making import answer, chat, make_reader, said, step_for, user

READER = make_reader()


def _ask(*texts: str) -> Asked:
    messages = [said(text) if index % 2 else user(text) for index, text in enumerate(texts)]
    return READER.read(chat(*messages))


def _step(lane: str, *texts: str, at: float, took: float = 1.0, response: Response | None = None) -> ExchangeStep:
    return step_for(_ask(*texts), lane=lane, began=at, took=took, response=response or answer("a"))


def _shown(steps: list[ExchangeStep]) -> list[tuple[str, str, bytes]]:
    return [(step.lane, step.hash, step.response.content if step.response else b"") for step in steps]


def _hashes(steps: list[ExchangeStep]) -> list[str]:
    return [step.hash for step in steps]


def test_lanes_made_one_after_the_other_keep_their_order() -> None:
    steps = [_step("l1", "z", at=0), _step("l2", "a", at=2), _step("l3", "m", at=4)]

    assert _hashes(canonical_order(steps)) == _hashes(steps)


def test_the_steps_of_a_lane_stand_together_in_their_order() -> None:
    first, second = _step("l1", "a", at=0), _step("l1", "a", "a", "b", at=4)
    between = _step("l2", "z", at=2)

    assert _hashes(canonical_order([first, between, second])) == _hashes([first, second, between])


def test_a_lane_is_named_by_its_opening_and_equal_ones_by_their_ordinal() -> None:
    steps = [_step("x", "a", at=0), _step("y", "a", at=2), _step("z", "b", at=4), _step("y", "a", "a", "c", at=6)]

    ordered = canonical_order(steps)

    label = steps[0].hash[3:11]
    assert [step.lane for step in ordered] == [label, f"{label}.2", f"{label}.2", steps[2].hash[3:11]]
    assert lane_label("a1:0123456789abcdef", ordinal=1) == "01234567"
    assert lane_label("a1:0123456789abcdef", ordinal=12) == "01234567.12"


def test_openings_in_flight_together_stand_by_content_whichever_came_first() -> None:
    def recorded(order: list[str]) -> list[tuple[str, str, bytes]]:
        return _shown(canonical_order([_step(text, text, at=at / 10) for at, text in enumerate(order)]))

    assert recorded(["a", "b", "c"]) == recorded(["c", "a", "b"]) == recorded(["b", "c", "a"])


def test_equal_openings_in_flight_together_stand_by_their_answers() -> None:
    def recorded(order: list[str]) -> list[tuple[str, str, bytes]]:
        steps = [_step(text, "same", at=at / 10, response=answer(text)) for at, text in enumerate(order)]
        later = [
            _step(text, "same", text, "go on", at=5 + at / 10, response=answer(text)) for at, text in enumerate(order)
        ]
        return _shown(canonical_order([*steps, *reversed(later)]))

    assert recorded(["a", "b", "c"]) == recorded(["c", "a", "b"]) == recorded(["b", "c", "a"])


def test_equal_openings_made_one_after_the_other_keep_their_order_among_others_in_flight() -> None:
    long_one = _step("l0", "other", at=0, took=100)
    equal = [_step(f"l{text}", "same", at=10 * at + 1, response=answer(text)) for at, text in enumerate("zam")]

    ordered = canonical_order([*equal, long_one])

    kept = [step.response for step in ordered if step.hash == equal[0].hash]
    assert kept == [step.response for step in equal]


def test_steps_without_times_keep_the_order_they_came_in() -> None:
    steps = [step.model_copy(update={"timing": None}) for step in (_step("x", "z", at=0), _step("y", "a", at=0))]

    assert _hashes(canonical_order(steps)) == _hashes(steps)


@given(random=st.randoms(use_true_random=False), counts=st.lists(st.integers(1, 4), min_size=1, max_size=5))
def test_the_order_depends_on_no_chance_when_conversations_are_interleaved(random: Random, counts: list[int]) -> None:
    """Conversations that begin together, some of them alike, give one order however their steps are completed."""

    def recorded() -> list[tuple[str, str, bytes]]:
        lanes = []
        for number, count in enumerate(counts):
            texts = [f"opening {number // 2}"]
            lane = []
            for turn in range(count):
                said_then = f"answer {number} {turn}"
                at = random.random() * 0.9 if turn == 0 else 10.0 * turn + random.random()
                lane.append(
                    _step(f"lane {number}", *texts, at=at, took=1 - at if turn == 0 else 1, response=answer(said_then))
                )
                texts += [said_then, f"question {number} {turn}"]
            lanes.append(lane)
        mixed = []
        while any(lanes):
            mixed.append(random.choice([lane for lane in lanes if lane]).pop(0))
        return _shown(canonical_order(mixed))

    assert recorded() == recorded() == recorded()


@given(random=st.randoms(use_true_random=False), count=st.integers(0, 8))
def test_ordering_adds_and_loses_nothing_and_a_second_time_changes_nothing(random: Random, count: int) -> None:
    steps = [
        _step(f"lane {random.randrange(3)}", random.choice("abc"), at=random.random() * 4, took=random.random() * 2)
        for _ in range(count)
    ]

    once = canonical_order(steps)

    assert sorted(_hashes(once)) == sorted(_hashes(steps))
    assert _shown(canonical_order(once)) == _shown(once)
