"""``ReplayModel``: a tape's model outputs for a loop of one's own, whose tools run."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pytest_agentreplay import CassetteError, NoRecordedOutputError, ReplayModel, load_cassette, use_cassette
from pytest_agentreplay.cassette import partial_path
from pytest_agentreplay.session import shown_path
from tests.support.agent import Desk, asking_for
from tests.support.anthropic import message, message_stream
from tests.support.server import Answer, answer_json
from tests.support.suite import Provider
from tests.support.tapes import ANTHROPIC, EVENTS, Told, write_cassette, write_partial

TASK = "How are Rome and Oslo?"


@pytest.fixture
def tape(path: Path, desk: Desk, provider: Provider) -> Path:
    """Three turns: two that ask for a tool, and an answer."""
    provider.respond = asking_for(("weather", {"city": "Rome"}), ("weather", {"city": "Oslo"}))
    with use_cassette(path, record_mode="once"):
        desk.run(TASK, {"weather": lambda city: f"sun in {city}"})
    provider.stop()
    return path


def test_a_loop_of_ones_own_is_driven_by_the_tape_and_its_tools_run(tape: Path) -> None:
    model, ran = ReplayModel(tape), []
    tools = {"weather": lambda city: ran.append(f"weather in {city}")}

    answer = model(TASK)
    while answer.tool_calls:
        for call in answer.tool_calls:
            tools[call.name](**json.loads(call.arguments))
        answer = model("whatever it is asked", temperature=2)

    assert ran == ["weather in Rome", "weather in Oslo"]
    assert answer.text == 'done: "sun in Rome", "sun in Oslo"'
    assert model.leftover == ()


def test_more_than_was_recorded_is_an_error_and_stays_one(tape: Path) -> None:
    model = ReplayModel(tape)
    for _ in range(3):
        model()

    for _ in range(2):
        with pytest.raises(NoRecordedOutputError, match="output 4 was asked for, and 3 were recorded in ") as caught:
            model()
        assert f"{shown_path(tape)}\n  Let the loop end sooner, or record " in str(caught.value)


def test_what_nothing_asked_for_yet_can_be_read(tape: Path) -> None:
    model = ReplayModel(load_cassette(tape))
    before = [output.text for output in model.leftover]

    model()

    assert len(before) == 3
    assert [output.text for output in model.leftover] == before[1:]


def test_two_models_of_one_tape_count_for_themselves(tape: Path) -> None:
    first, second = ReplayModel(tape), ReplayModel(tape)
    first()

    assert len(first.leftover) == 2
    assert len(second.leftover) == 3


def test_it_is_awaited_in_a_loop_that_is_async(tape: Path) -> None:
    model = ReplayModel(tape)

    async def work() -> list[str]:
        return [(await model.ask(TASK, stream=True)).role for _ in range(3)]

    assert asyncio.run(work()) == ["assistant"] * 3
    with pytest.raises(NoRecordedOutputError):
        asyncio.run(model.ask())


def test_threads_get_each_output_once(tmp_path: Path) -> None:
    path = write_cassette(
        tmp_path / "run.jsonl",
        [
            Told({"messages": [{"role": "user", "content": str(number)}]}, answer=message(str(number)), url=ANTHROPIC)
            for number in range(200)
        ],
    )
    model = ReplayModel(path)

    with ThreadPoolExecutor(8) as pool:
        given = list(pool.map(lambda _: model().text, range(200)))

    assert sorted(given, key=int) == [str(number) for number in range(200)]
    assert model.leftover == ()


def test_it_keeps_to_one_conversation_where_one_is_named(path: Path, desk: Desk) -> None:
    with use_cassette(path, record_mode="once") as run:
        for name in ("planner", "writer"):
            with run.lane(name):
                desk.ask(f"be a {name}")
        desk.ask("nobody's")
    [unnamed] = [lane for lane in run.hash_chain if not lane.startswith("@")]

    said = {lane: [output.text for output in ReplayModel(path, lane=lane).leftover] for lane in ("writer", unnamed)}

    assert said == {"writer": ["echo: be a writer"], unnamed: ["echo: nobody's"]}
    assert ReplayModel(path, lane="@planner")().text == "echo: be a planner"
    with pytest.raises(NoRecordedOutputError) as caught:
        ReplayModel(path, lane="unknown")()
    lanes = f"'@planner', '@writer', {unnamed!r}"
    assert f"0 were recorded in {shown_path(path)} in lane 'unknown' (lanes with outputs: {lanes})" in str(caught.value)


def test_streams_and_other_formats_are_outputs_and_failed_attempts_are_none(tmp_path: Path) -> None:
    stream = b"".join(message_stream(["Hel", "lo"]).chunks or ())
    ask = {"messages": [{"role": "user", "content": "hi"}]}
    exchanges = [
        Told(ask, answer={"error": "busy"}, url=ANTHROPIC, status=529),
        Told(ask | {"stream": True}, answer=stream, headers=EVENTS, url=ANTHROPIC),
    ]

    model = ReplayModel(write_cassette(tmp_path / "run.jsonl", exchanges))

    assert [output.text for output in model.leftover] == ["Hello"]


def test_an_unfinished_recording_is_a_tape_too(tmp_path: Path) -> None:
    ask = {"messages": [{"role": "user", "content": "hi"}]}
    write_partial(tmp_path / "run.jsonl", [Told(ask, answer=message("Hello"), url=ANTHROPIC)])

    assert ReplayModel(partial_path(tmp_path / "run.jsonl"))().text == "Hello"
    with pytest.raises(CassetteError, match="was never finished"):
        ReplayModel(tmp_path / "run.jsonl")


def test_a_tape_that_cannot_be_read_is_refused(path: Path) -> None:
    path.write_text("<<<<<<< ours\n")

    with pytest.raises(CassetteError, match="conflict"):
        ReplayModel(path)


def test_a_tape_without_answers_has_no_output(path: Path, desk: Desk, provider: Provider) -> None:
    provider.respond = lambda seen: Answer(status=500, headers=answer_json({}).headers, body=b"{}")
    with use_cassette(path, record_mode="once"), pytest.raises(KeyError):
        desk.ask("one")

    assert ReplayModel(path).leftover == ()
