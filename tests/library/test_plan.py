"""What a tape says of its agent: as the caller said it, else as the first recorded request does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_agentreplay import RunPlan, load_cassette, replay, use_cassette
from pytest_agentreplay.library.plan import read_plan
from tests.support.agent import Desk
from tests.support.anthropic import message
from tests.support.openai import completion
from tests.support.tapes import ANTHROPIC, OPENAI, Told, write_cassette

TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}


def plan_of(path: Path, url: str, **body: Any) -> RunPlan:
    """Return the plan of a tape with one request."""
    answer = completion("yes") if url == OPENAI else message("yes")
    return read_plan(load_cassette(write_cassette(path, [Told(body, answer=answer, url=url)])))


def test_a_chat_request_says_the_task_the_instructions_the_tools_and_the_parameters(path: Path) -> None:
    plan = plan_of(
        path,
        OPENAI,
        model="m",
        temperature=0.5,
        stop=["END"],
        stream=True,
        stream_options={"include_usage": True},
        response_format={"type": "json_object"},
        tools=[TOOL],
        messages=[
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "an example"},
            {"role": "assistant", "content": "its answer"},
            {"role": "user", "content": [{"type": "text", "text": "the task"}]},
        ],
    )

    assert plan == RunPlan(
        task="the task",
        instructions="Be brief.",
        tools=(TOOL,),
        params={"model": "m", "temperature": 0.5, "stop": ["END"], "response_format": {"type": "json_object"}},
    )


def test_the_instructions_of_a_developer_are_instructions(path: Path) -> None:
    messages = [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "go"}]

    assert plan_of(path, OPENAI, messages=messages).instructions == "Be brief."


@pytest.mark.parametrize(
    "system",
    ["Be brief.\n\nBe kind.", [{"type": "text", "text": "Be brief."}, {"type": "text", "text": "Be kind."}]],
    ids=["text", "blocks"],
)
def test_an_anthropic_request_says_them_too(path: Path, system: Any) -> None:
    tool = {"name": "look", "input_schema": {"type": "object"}}

    plan = plan_of(
        path,
        ANTHROPIC,
        model="claude",
        max_tokens=5,
        stop_sequences=["END"],
        system=system,
        tools=[tool],
        messages=[{"role": "user", "content": "the task"}],
    )

    assert plan == RunPlan(
        task="the task",
        instructions="Be brief.\n\nBe kind.",
        tools=(tool,),
        params={"model": "claude", "max_tokens": 5, "stop_sequences": ["END"]},
    )


def test_what_the_caller_gave_goes_before_what_the_request_says(path: Path, desk: Desk) -> None:
    config = {"instructions": "given", "tools": [{"name": "given"}], "params": {"top": 1}, "more": [1, 2]}
    with use_cassette(path, record_mode="once", task="given too", config=config):
        desk.ask({"role": "system", "content": "asked"}, "asked too")
    plans: list[RunPlan] = []

    def build(plan: RunPlan) -> Any:
        plans.append(plan)
        return lambda: desk.ask({"role": "system", "content": "asked"}, "asked too")

    result = replay(path, build)

    [plan] = plans
    assert plan == RunPlan("given too", "given", ({"name": "given"},), {"top": 1}, config)
    assert result.tape is not None
    assert read_plan(load_cassette(result.tape)) == plan


def test_a_part_that_the_caller_did_not_give_is_read_from_the_request(path: Path, desk: Desk) -> None:
    with use_cassette(path, record_mode="once", config={"params": {"model": "given"}, "tools": None}):
        desk.ask({"role": "system", "content": "Be brief."}, "the task", tools=[TOOL])

    plan = read_plan(load_cassette(path))

    assert (plan.task, plan.instructions, plan.tools) == ("the task", "Be brief.", (TOOL,))
    assert plan.params == {"model": "given"}


def test_a_tape_without_a_model_call_says_nothing(path: Path) -> None:
    tape = write_cassette(path, [Told(b"", answer=b"x", url="https://example.com/", method="GET")])

    assert read_plan(load_cassette(tape)) == RunPlan()


def test_a_plan_is_that_of_the_first_conversation(path: Path, desk: Desk) -> None:
    with use_cassette(path, record_mode="once"):
        desk.ask("first")
        desk.ask("second")

    assert read_plan(load_cassette(path)).task == "first"
