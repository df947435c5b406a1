"""Which requests belong together."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from pytest_agentreplay.dialects import Message, Reply, ToolCall
from pytest_agentreplay.player import Lane, Lanes
from pytest_agentreplay.reader import Asked, HttpRequest
from tests.unit.making import chat, make_reader, post, responses, said, user

READER = make_reader()


def _place(lanes: Lanes, *messages: Any, **fields: Any) -> Lane:
    return _place_request(lanes, chat(*messages, **fields))


def _place_request(lanes: Lanes, request: HttpRequest) -> Lane:
    return lanes.place(READER.read(request), label=lambda opening, ordinal: f"{opening[3:11]}.{ordinal}")


def _answers(text: str = "", *calls: ToolCall) -> Callable[[], Reply]:
    return lambda: Reply(messages=(Message(role="assistant", text=text, tool_calls=calls),))


def test_a_request_that_extends_the_last_one_and_its_answer_continues_it() -> None:
    lanes = Lanes()
    first = _place(lanes, user("a"))
    first.answer(_answers("one"))

    second = _place(lanes, user("a"), said("one"), user("b"))
    second.answer(_answers("two"))
    third = _place(lanes, user("a"), said("one"), user("b"), said("two"), user("c"))

    assert first is second is third


@pytest.mark.parametrize(
    "messages",
    [
        [user("b")],
        [user("a"), said("other"), user("b")],
        [user("a"), user("one")],
        [user("x"), said("one"), user("b")],
        [user("a")],
    ],
)
def test_a_request_that_extends_nothing_opens_a_lane(messages: list[Any]) -> None:
    lanes = Lanes()
    first = _place(lanes, user("a"))
    first.answer(_answers("one"))

    assert _place(lanes, *messages) is not first


def test_a_request_that_is_still_in_flight_is_not_continued() -> None:
    lanes = Lanes()
    first = _place(lanes, user("a"))

    assert _place(lanes, user("a"), said("one"), user("b")) is not first


def test_two_that_opened_alike_are_told_apart_by_their_answers() -> None:
    lanes = Lanes()
    first, second = _place(lanes, user("a")), _place(lanes, user("a"))
    first.answer(_answers("one"))
    second.answer(_answers("two"))

    assert _place(lanes, user("a"), said("two"), user("b")) is second
    assert _place(lanes, user("a"), said("one"), user("b")) is first


def test_two_that_were_answered_alike_are_continued_first_come_first_served() -> None:
    lanes = Lanes()
    opened = [_place(lanes, user("a")) for _ in range(2)]
    for lane in opened:
        lane.answer(_answers("one"))

    continued = [_place(lanes, user("a"), said("one"), user("b")) for _ in range(2)]

    assert continued == opened


def test_the_longest_conversation_that_fits_is_continued() -> None:
    lanes = Lanes()
    short = _place(lanes, user("a"))
    short.answer(_answers("one"))
    long = _place(lanes, user("a"), said("one"), user("b"))
    long.answer(_answers("two"))
    other = _place(lanes, user("a"))
    other.answer(_answers("one"))

    assert long is short
    assert _place(lanes, user("a"), said("one"), user("b"), said("two"), user("c")) is long
    assert _place(lanes, user("a"), said("one"), user("x")) is other


def test_a_retry_of_a_failed_request_stays_in_its_lane() -> None:
    lanes = Lanes()
    first = _place(lanes, user("a"))
    first.answer(None)

    second = _place(lanes, user("a"))
    second.answer(None)
    third = _place(lanes, user("a"))
    third.answer(_answers("one"))

    assert first is second is third
    assert _place(lanes, user("a")) is not first


def test_a_retry_in_the_middle_of_a_conversation_stays_in_its_lane() -> None:
    lanes = Lanes()
    first = _place(lanes, user("a"))
    first.answer(_answers("one"))
    failed = _place(lanes, user("a"), said("one"), user("b"))
    failed.answer(None)

    assert _place(lanes, user("a"), said("one"), user("b")) is failed is first


def test_two_failed_requests_that_end_alike_are_retried_in_their_own_lanes() -> None:
    lanes = Lanes()
    failed = []
    for name in "ab":
        lane = _place(lanes, user(name))
        lane.answer(_answers("one"))
        assert _place(lanes, user(name), said("one"), user("go on")) is lane
        lane.answer(None)
        failed.append(lane)

    retried = [_place(lanes, user(name), said("one"), user("go on")) for name in "ba"]

    assert retried == failed[::-1]


def test_a_repeat_of_an_answered_request_opens_a_lane() -> None:
    lanes = Lanes()
    first = _place(lanes, user("a"))
    first.answer(_answers("one"))

    assert _place(lanes, user("a")) is not first


@pytest.mark.parametrize(
    ("echo", "continues"),
    [
        ({"role": "assistant", "content": None, "tool_calls": [("call_1", "look", "{}")]}, True),
        ({"role": "assistant", "content": "thinking aloud", "tool_calls": [("call_1", "look", '{"a": 1}')]}, True),
        ({"role": "assistant", "content": None, "tool_calls": [("call_2", "look", "{}")]}, False),
        ({"role": "assistant", "content": None, "tool_calls": [("call_1", "find", "{}")]}, False),
        ({"role": "assistant", "content": None, "tool_calls": []}, False),
        ({"role": "assistant", "content": ""}, False),
    ],
)
def test_an_answer_that_calls_tools_is_known_by_its_calls(echo: dict[str, Any], continues: bool) -> None:
    calls = [
        {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
        for call_id, name, arguments in echo.get("tool_calls", ())
    ]
    lanes = Lanes()
    first = _place(lanes, user("a"))
    first.answer(_answers("", ToolCall.of(id="call_1", name="look", arguments="{}")))

    then = _place(lanes, user("a"), {**echo, "tool_calls": calls}, {"role": "tool", "content": "1"})

    assert (then is first) == continues


@pytest.mark.parametrize(
    ("text", "echo", "continues"),
    [
        ("one", {"role": "assistant", "content": [{"type": "text", "text": "one"}]}, True),
        (" one\n", {"role": "assistant", "content": "one"}, True),
        ("one", {"role": "assistant", "content": "one", "refusal": None, "annotations": []}, True),
        ("one", {"role": "user", "content": "one"}, False),
        ("one", {"role": "assistant", "content": "One"}, False),
        ("one", "one", False),
    ],
)
def test_an_echo_counts_by_what_it_says(text: str, echo: Any, continues: bool) -> None:
    lanes = Lanes()
    first = _place(lanes, user("a"))
    first.answer(_answers(text))

    assert (_place(lanes, user("a"), echo, user("b")) is first) == continues


def test_any_choice_of_several_may_be_the_one_that_is_continued() -> None:
    lanes = Lanes()
    first = _place(lanes, user("a"))
    first.answer(lambda: Reply(messages=(Message("assistant", "one"), Message("assistant", "two"))))

    assert _place(lanes, user("a"), said("two"), user("b")) is first


def test_exchanges_that_are_no_conversation_have_a_lane_each() -> None:
    lanes = Lanes()
    request = post(b"", url="https://example.com/", method="GET", headers=())

    placed = [_place_request(lanes, request) for _ in range(3)]
    placed[0].answer(None)
    placed.append(_place_request(lanes, request))

    assert len(set(placed)) == 4
    assert [lane.label.partition(".")[2] for lane in placed] == ["1", "2", "3", "4"]


def test_a_lane_keeps_the_label_of_its_opening() -> None:
    lanes = Lanes()
    first = _place(lanes, user("a"))
    opening = READER.read(chat(user("a"))).hash
    first.answer(_answers("one"))

    _place(lanes, user("a"), said("one"), user("b"))

    assert (first.label, first.opening) == (f"{opening[3:11]}.1", opening)


# Answers of several items, and those that the provider remembers

CALL = {"type": "function_call", "id": "fc_1", "call_id": "c", "name": "look", "arguments": "{}"}
RESULT = {"type": "function_call_output", "call_id": "c", "output": "1"}
REASONING = {"type": "reasoning", "id": "rs_1", "summary": []}


def _ask(lanes: Lanes, *items: Any, **fields: Any) -> Lane:
    return _place_request(lanes, responses(*items, **fields))


def _named(*handles: str, text: str = "one") -> Callable[[], Reply]:
    return lambda: Reply(messages=(Message("assistant", text),), handles=handles)


@pytest.mark.parametrize(
    ("echo", "continues"),
    [
        ([REASONING, said("one"), CALL], True),
        ([said("one"), CALL], True),
        ([CALL], True),
        ([REASONING, said("one")], False),
        ([REASONING], False),
        ([{**CALL, "call_id": "other"}], False),
        ([RESULT, said("one"), CALL], False),
    ],
)
def test_an_answer_of_several_items_is_continued_by_what_they_say_together(echo: list[Any], continues: bool) -> None:
    lanes = Lanes()
    first = _ask(lanes, user("a"))
    first.answer(_answers("one", ToolCall.of(id="c", name="look", arguments="{}")))

    assert (_ask(lanes, user("a"), *echo, RESULT) is first) == continues


def test_a_conversation_may_open_with_a_text() -> None:
    lanes = Lanes()
    first = _ask(lanes, "a")
    first.answer(_answers("one"))

    assert _ask(lanes, user("a"), said("one"), user("b")) is first


def test_a_request_that_names_the_last_answer_continues_it() -> None:
    lanes = Lanes()
    opened = [_ask(lanes, "a") for _ in range(2)]
    for lane, name in zip(opened, ("resp_1", "resp_2"), strict=True):
        lane.answer(_named(name))

    second = _ask(lanes, "b", previous_response_id="resp_2")
    second.answer(_named("resp_3"))
    first = _ask(lanes, "b", previous_response_id="resp_1")
    third = _ask(lanes, RESULT, previous_response_id="resp_3")

    assert [first, second, third] == [opened[0], opened[1], opened[1]]


@pytest.mark.parametrize("name", ["resp_0", "resp_2"])
def test_a_request_that_names_an_answer_which_is_not_the_last_opens_a_lane(name: str) -> None:
    lanes = Lanes()
    first = _ask(lanes, "a")
    first.answer(_named("resp_0"))
    _ask(lanes, "b", previous_response_id="resp_0").answer(_named("resp_1"))

    assert _ask(lanes, "c", previous_response_id=name) is not first


def test_a_conversation_of_the_providers_is_continued_by_its_name() -> None:
    lanes = Lanes()
    first = _ask(lanes, "a", conversation="conv_1")
    first.answer(_named("resp_1", "conv_1"))
    second = _ask(lanes, "a", conversation={"id": "conv_1"})

    in_flight = _ask(lanes, "a", conversation="conv_1")

    assert first is second is not in_flight


def test_a_retry_of_what_names_an_answer_stays_in_its_lane() -> None:
    lanes = Lanes()
    opened = [_ask(lanes, text) for text in ("a", "b")]
    for number, lane in enumerate(opened):
        lane.answer(_named(f"resp_{number}"))
        assert _ask(lanes, "go on", previous_response_id=f"resp_{number}") is lane
        lane.answer(None)

    retried = [_ask(lanes, "go on", previous_response_id=f"resp_{number}") for number in (1, 0)]

    assert retried == opened[::-1]


def test_a_request_may_extend_the_last_one_on_the_same_base() -> None:
    lanes = Lanes()
    first = _ask(lanes, user("a"), previous_response_id="resp_0")
    first.answer(_named("resp_1"))

    other = _ask(lanes, user("a"), said("one"), user("b"))
    same = _ask(lanes, user("a"), said("one"), user("b"), previous_response_id="resp_0")

    assert same is first is not other


@pytest.mark.parametrize(
    "items",
    [
        [user("a"), {"type": "item_reference", "id": "fc_1"}, RESULT],
        [{"type": "compaction", "encrypted_content": "gAAA"}, user("b")],
    ],
)
def test_a_request_that_names_an_item_of_the_last_answer_continues_it(items: list[Any]) -> None:
    lanes = Lanes()
    first = _ask(lanes, user("a"))
    first.answer(_named("resp_1", "fc_1", "gAAA"))

    second = _ask(lanes, *items)
    second.answer(_named("resp_2", text="two"))
    third = _ask(lanes, *items, said("two"), user("c"))

    assert first is second is third


def _fetch(lanes: Lanes, name: str, *, lane: str | None = None) -> Lane:
    request = post(b"", url=f"https://api.openai.com/v1/responses/{name}", method="GET", headers=())
    return lanes.place(READER.read(request), label=lambda opening, ordinal: f"{opening[3:11]}.{ordinal}", name=lane)


def test_fetching_the_last_answer_belongs_to_its_lane_and_leaves_it_where_it_is() -> None:
    lanes = Lanes()
    first = _ask(lanes, user("a"))
    first.answer(_named("resp_1"))

    fetched = [_fetch(lanes, "resp_1"), _fetch(lanes, "resp_1")]

    assert fetched == [first, first]
    assert _ask(lanes, user("a"), said("one"), user("b")) is first
    assert _fetch(lanes, "resp_1") is not first


def test_an_answer_of_another_run_that_is_fetched_can_be_gone_on_from() -> None:
    lanes = Lanes()
    first = _fetch(lanes, "resp_1")
    first.answer(_named("resp_1"))

    assert _fetch(lanes, "resp_1") is first
    assert _ask(lanes, "b", previous_response_id="resp_1") is first


def test_a_named_lane_keeps_its_place_when_its_last_answer_is_fetched() -> None:
    lanes = Lanes()
    named = _fetch(lanes, "resp_0", lane="planner")
    named.answer(_named("resp_1"))
    tip = named.tip

    assert _fetch(lanes, "resp_1", lane="planner") is named
    assert (named.answered, named.tip) == (True, tip)


def test_a_request_that_cannot_be_read_as_one_text_or_items_has_a_lane_by_its_base() -> None:
    lanes = Lanes()
    prompt = [post({"prompt": {"id": "pmpt_1"}}, url="https://api.openai.com/v1/responses") for _ in range(2)]
    failed = _place_request(lanes, prompt[0])
    failed.answer(None)

    retried = _place_request(lanes, prompt[1])

    assert retried is failed


def _cost_of(count: int) -> float:
    """Return the seconds of work that placing so many conversations that opened alike takes, some of them retried."""
    lanes = Lanes()
    opening = READER.read(chat(user("a")))
    started = time.thread_time()
    opened = [_label_free(lanes, opening) for _ in range(count)]
    for number, lane in enumerate(opened):
        lane.answer(_answers(f"answer {number}"))
    for lane in opened[:20]:
        lane.answer(None)
        assert _label_free(lanes, opening) is lane
    return time.thread_time() - started


def _label_free(lanes: Lanes, asked: Asked) -> Lane:
    return lanes.place(asked, label=lambda opening, ordinal: str(ordinal))


def test_many_conversations_that_opened_alike_are_placed_in_time_that_grows_with_their_number() -> None:
    _cost_of(100)

    small, large = min(_cost_of(1_000) for _ in range(3)), _cost_of(10_000)

    assert large < 40 * small + 1


def test_answers_are_read_only_when_a_request_may_continue_them_and_once() -> None:
    reads: list[int] = []

    def read() -> Reply:
        reads.append(1)
        return Reply(messages=(Message("assistant", json.dumps(len(reads))),))

    lanes = Lanes()
    first = _place(lanes, user("a"))
    first.answer(read)
    _place(lanes, user("b"))
    before = len(reads)
    for number in range(5):
        _place(lanes, user("a"), said(f"x{number}"))

    assert (before, len(reads)) == (0, 1)
