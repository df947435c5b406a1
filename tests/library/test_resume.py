"""``resume``: what is recorded is free, what is not goes live, and a run that begins otherwise is refused."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from pytest_agentreplay import (
    Cassette,
    ConfigurationError,
    Decision,
    NetworkBlockedError,
    ReplayDivergenceError,
    ReplayDivergenceWarning,
    RunPlan,
    ToolDeniedError,
    aresume,
    event_stream,
    load_cassette,
    recorded_tool,
    resume,
    use_cassette,
)
from pytest_agentreplay.cassette import partial_path
from pytest_agentreplay.records import PermissionStep, ToolStep
from tests.support.agent import Desk, asking_for, echo_or_stream
from tests.support.server import Answer, Seen
from tests.support.suite import Provider

TASK = "How are Rome and Oslo?"
CITIES = (("weather", {"city": "Rome"}), ("weather", {"city": "Oslo"}))
RAN: list[str] = []


@recorded_tool
def weather(city: str) -> str:
    RAN.append(city)
    return f"sun in {city}"


class FatalError(BaseException):
    """What no agent catches."""


def run_of(desk: Desk, **fields: Any) -> Callable[[], str]:
    """Return a run that asks for the weather."""
    return lambda: desk.run(TASK, {"weather": weather}, **fields)


def failing(desk: Desk) -> Callable[[], str]:
    """Return a run that ends before its time, with the second tool."""

    def looked_up(city: str) -> str:
        if city == "Oslo":
            raise FatalError
        return weather(city)

    return lambda: desk.run(TASK, {"weather": looked_up})


@pytest.fixture
def asked(provider: Provider) -> Callable[[], int]:
    """How many requests have reached the provider, which asks for two tools."""
    provider.respond = asking_for(*CITIES)
    RAN.clear()
    return lambda: len(provider.seen)


@pytest.fixture
def begun(path: Path, desk: Desk, asked: Callable[[], int]) -> Path:
    """What is left of a run that ended after its first turn and its first tool."""
    with use_cassette(path, record_mode="once", task=TASK):
        desk.message({"role": "system", "content": "Be brief."}, TASK)
        weather("Rome")
        kept = partial_path(path).read_bytes()
    path.unlink()
    partial_path(path).write_bytes(kept)
    return partial_path(path)


def tools_on(tape: Path | None) -> list[ToolStep]:
    assert tape is not None
    return [step for step in load_cassette(tape).entries if isinstance(step, ToolStep)]


def test_what_is_recorded_is_free_and_the_rest_goes_live(begun: Path, desk: Desk, asked: Callable[[], int]) -> None:
    before = asked()

    result = resume(begun, run_of(desk))

    assert result.output == 'done: "sun in Rome", "sun in Oslo"'
    assert asked() - before == result.turns == 2
    assert RAN == ["Rome", "Oslo"]
    assert result.tape == begun.with_name("run.replay.jsonl")
    assert load_cassette(result.tape).start.replay_of == load_cassette(begun, partial=True).start.run_id


def test_the_run_gets_the_plan_where_it_takes_an_argument(begun: Path, desk: Desk) -> None:
    plans: list[RunPlan] = []

    def run(plan: RunPlan, *, again: bool = False) -> str:
        plans.append(plan)
        return run_of(desk)()

    resume(begun, run)

    assert [(plan.task, plan.instructions) for plan in plans] == [(TASK, "Be brief.")]


def test_a_finished_tape_is_resumed_without_going_live(path: Path, desk: Desk, asked: Callable[[], int]) -> None:
    with use_cassette(path, record_mode="once"):
        run_of(desk)()
    before = asked()

    result = resume(path, run_of(desk))

    assert (result.turns, asked()) == (0, before)
    assert result.tape is not None
    assert event_stream(load_cassette(result.tape)) == event_stream(load_cassette(path))


def test_what_failed_at_the_end_of_an_unfinished_run_is_asked_again(path: Path, desk: Desk, provider: Provider) -> None:
    provider.respond = lambda seen: Answer(reset=True) if b"two" in seen.body else echo_or_stream(seen)
    with suppress(httpx.TransportError), use_cassette(path, record_mode="once"):
        desk.ask("one")
        desk.ask("two")
    provider.respond = echo_or_stream
    provider.seen.clear()

    result = resume(partial_path(path), lambda: [desk.ask("one"), desk.ask("two")])

    assert result.output == ["echo: one", "echo: two"]
    assert provider.questions == ["two"]


def test_a_run_is_resumed_on_an_event_loop(path: Path, desk: Desk, provider: Provider) -> None:
    with use_cassette(path, record_mode="once"):
        desk.ask("one")

    async def run() -> list[str]:
        return [await desk.ask_async("one"), await desk.ask_async("two")]

    async def on_a_loop() -> Any:
        return await aresume(path, run)

    result = asyncio.run(on_a_loop())

    assert result.output == ["echo: one", "echo: two"]
    assert result.turns == 1
    assert resume(path, run).output == result.output


def test_another_system_prompt_is_refused_with_the_difference(
    begun: Path, desk: Desk, asked: Callable[[], int]
) -> None:
    before = asked()

    with pytest.raises(ReplayDivergenceError) as caught:
        resume(begun, run_of(desk, system="Be kind."))

    assert str(caught.value).startswith("Nothing to resume: the run begins with another request")
    assert 'recorded: "Be brief."' in str(caught.value)
    assert 'now:      "Be kind."' in str(caught.value)
    assert "allow_restart=True" in str(caught.value)
    assert asked() == before


def test_the_refusal_stays_whatever_the_agent_makes_of_it(begun: Path, desk: Desk, asked: Callable[[], int]) -> None:
    before = asked()

    def run() -> str:
        try:
            return run_of(desk, system="Be kind.")()
        except BaseException:
            return run_of(desk)()

    with pytest.raises(ReplayDivergenceError, match="Nothing to resume"):
        resume(begun, run)
    assert asked() == before


@pytest.mark.parametrize("value", ["no", 1, None])
def test_whether_a_run_may_begin_anew_is_said_with_true_or_false(
    begun: Path, desk: Desk, asked: Callable[[], int], value: Any
) -> None:
    before = asked()

    with pytest.raises(ConfigurationError, match=f"allow_restart={value!r} must be True or False"):
        resume(begun, run_of(desk, system="Be kind."), allow_restart=value)

    assert asked() == before


def test_a_run_may_begin_anew_and_says_so(begun: Path, desk: Desk, asked: Callable[[], int]) -> None:
    before = asked()

    with pytest.warns(ReplayDivergenceWarning, match=r"(?s)Begun anew: .*Be kind") as told:
        result = resume(begun, run_of(desk, system="Be kind."), allow_restart=True)

    assert len(told) == 1
    assert asked() - before == result.turns == 3
    assert result.tape is not None
    assert load_cassette(result.tape).start.replay_of is not None


def test_a_recorded_call_is_not_made_again_by_a_run_that_begins_anew_and_is_told_once(begun: Path, desk: Desk) -> None:
    with pytest.warns(ReplayDivergenceWarning):
        result = resume(begun, run_of(desk, system="Be kind."), allow_restart=True)

    assert RAN == ["Rome", "Oslo"]
    steps = tools_on(result.tape)
    assert [step.arguments["city"] for step in steps] == ["Rome", "Oslo"]
    assert result.tape is not None
    assert {step.lane for step in steps} == {step.lane for step in load_cassette(result.tape).exchanges}


def test_a_call_that_a_live_model_asks_for_by_another_id_is_part_of_its_conversation(
    begun: Path, desk: Desk, provider: Provider
) -> None:
    normal = provider.respond

    def other_ids(seen: Seen) -> Answer:
        answer = normal(seen)
        return Answer(headers=answer.headers, body=answer.body.replace(b"call_", b"fresh_"))

    provider.respond = other_ids
    with pytest.warns(ReplayDivergenceWarning):
        result = resume(begun, run_of(desk, system="Be kind."), allow_restart=True)

    steps = tools_on(result.tape)
    assert [(step.arguments["city"], step.tool_use_id) for step in steps] == [("Rome", "fresh_0"), ("Oslo", "fresh_1")]
    assert RAN == ["Rome", "Oslo"]
    assert result.tape is not None
    called = [event for event in event_stream(load_cassette(result.tape)) if "weather" in json.dumps(event)]
    assert len([event for event in called if "result" in event]) == 2


def test_a_later_request_that_differs_goes_live(begun: Path, desk: Desk, asked: Callable[[], int]) -> None:
    before = asked()

    def run() -> str:
        desk.message({"role": "system", "content": "Be brief."}, TASK)
        return desk.ask("something else")

    result = resume(begun, run)

    assert asked() - before == result.turns == 1


class Careful:
    """Lets nobody ask for Oslo, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def decide(self, tool: str, arguments: dict[str, Any]) -> Decision:
        self.asked.append(arguments["city"])
        return Decision("deny", "too cold") if arguments["city"] == "Oslo" else Decision("allow")


def test_recorded_calls_bypass_the_policy_and_a_new_one_that_is_denied_is_an_error_result(
    begun: Path, desk: Desk
) -> None:
    policy = Careful()

    result = resume(begun, run_of(desk), policy=policy)

    assert policy.asked == ["Oslo"]
    assert RAN == ["Rome"]
    assert "too cold" in result.output
    rome, oslo = tools_on(result.tape)
    assert (rome.is_error, oslo.is_error) == (False, True)
    assert oslo.error is not None
    assert oslo.error.type.endswith("ToolDeniedError")
    assert result.tape is not None
    decided = [step for step in load_cassette(result.tape).entries if isinstance(step, PermissionStep)]
    assert [(step.decision, step.reason) for step in decided] == [("deny", "too cold")]


def test_a_denied_call_is_denied_again_from_the_tape_alone(begun: Path, desk: Desk) -> None:
    first = resume(begun, run_of(desk), policy=Careful())
    assert first.tape is not None
    policy = Careful()

    second = resume(first.tape, run_of(desk), policy=policy)

    assert second.output == first.output
    assert second.turns == 0
    assert policy.asked == []


def test_a_policy_that_asks_is_answered(begun: Path, desk: Desk) -> None:
    class Asking:
        def decide(self, tool: str, arguments: dict[str, Any]) -> Decision:
            return Decision("ask")

    result = resume(begun, run_of(desk), policy=Asking(), approve=lambda tool, arguments: True)

    assert RAN == ["Rome", "Oslo"]
    assert result.output.startswith("done")


def test_a_resumed_run_goes_only_where_it_is_let(begun: Path, desk: Desk, asked: Callable[[], int]) -> None:
    before = asked()

    with pytest.raises(NetworkBlockedError):
        resume(begun, run_of(desk), hosts=["api.example.com"], loopback=False)

    assert asked() == before


@pytest.mark.parametrize("setting", ["record_mode", "replay"])
def test_a_mode_has_no_meaning_for_a_resumed_run(begun: Path, desk: Desk, setting: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{setting}= has no meaning here"):
        resume(begun, run_of(desk), **{setting: "strict" if setting == "replay" else "once"})


def test_what_was_paid_for_before_a_failure_is_on_the_new_tape(begun: Path, desk: Desk, provider: Provider) -> None:
    with pytest.raises(FatalError):
        resume(begun, failing(desk))

    tape = load_cassette(begun.with_name("run.replay.jsonl"))
    assert tape.end is not None
    assert tape.end.outcome == "failed"
    assert len(tape.exchanges) == 2
    again = resume(tape, run_of(desk))
    assert again.turns == 1
    assert again.tape == begun.with_name("run.replay.replay.jsonl")


def test_background_traffic_before_the_first_request_is_no_other_beginning(
    begun: Path, desk: Desk, provider: Provider
) -> None:
    def run() -> str:
        Desk(desk.url.replace("127.0.0.1", "localhost")).message("telemetry")
        return run_of(desk)()

    result = resume(begun, run, background=["localhost"])

    assert result.output.startswith("done")


def test_a_tape_of_nothing_is_begun(path: Path, desk: Desk) -> None:
    with use_cassette(path, record_mode="once"):
        weather("Rome")

    result = resume(path, lambda: (weather("Rome"), desk.ask("one")))

    assert result.output == ("sun in Rome", "echo: one")
    assert RAN.count("Rome") >= 1


def test_conversations_that_ran_side_by_side_are_resumed_each_where_it_stood(
    path: Path, desk: Desk, provider: Provider
) -> None:
    with use_cassette(path, record_mode="once"):
        desk.ask("a")
        desk.ask("b")
    seen = len(provider.seen)
    more = [{"role": "assistant", "content": "echo: a"}, "more"]

    result = resume(path, lambda: (desk.ask("b"), desk.ask("a"), desk.ask("a", *more), desk.ask("c")))

    assert [request.json()["messages"][-1]["content"] for request in provider.seen[seen:]] == ["more", "c"]
    assert result.turns == 2


def test_a_denial_is_raised_in_the_agent(begun: Path, desk: Desk) -> None:
    raised: list[BaseException] = []

    def looked_up(city: str) -> str:
        try:
            return weather(city)
        except ToolDeniedError as error:
            raised.append(error)
            raise

    resume(begun, lambda: desk.run(TASK, {"weather": looked_up}), policy=Careful())

    assert len(raised) == 1
    assert "too cold" in str(raised[0])


def chain(tape: Cassette) -> list[str]:
    return [step.hash for step in tape.exchanges]


def test_the_recorded_part_keeps_its_hashes(begun: Path, desk: Desk) -> None:
    result = resume(begun, run_of(desk))

    assert result.tape is not None
    assert chain(load_cassette(result.tape))[:1] == chain(load_cassette(begun, partial=True))
