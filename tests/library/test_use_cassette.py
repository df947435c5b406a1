"""``use_cassette``: a block of code recorded and replayed, sync and async, in every mode."""

from __future__ import annotations

import asyncio
import re
import socket
from pathlib import Path
from typing import Any

import pytest

from pytest_agentreplay import (
    CassetteError,
    ConfigurationError,
    NetworkBlockedError,
    ReplayDivergenceError,
    ReplayDivergenceWarning,
    event_stream,
    load_cassette,
    recorded_tool,
    use_cassette,
)
from pytest_agentreplay.cli import main
from tests.support.agent import Desk, asking_for, body
from tests.support.openai import completion
from tests.support.server import Answer
from tests.support.suite import Provider
from tests.support.tapes import Told as Exchange
from tests.support.tapes import write_partial


def recorded(path: Path, desk: Desk, *asked: str) -> Path:
    """Record one request for each text."""
    with use_cassette(path, record_mode="once"):
        for text in asked:
            desk.ask(text)
    return path


def test_a_block_is_recorded_and_then_replayed_without_a_connection(path: Path, desk: Desk, provider: Provider) -> None:
    with use_cassette(path, record_mode="once") as run:
        live = desk.ask("one")
        assert run.is_recording
    asked = provider.server.connections

    with use_cassette(path) as run:
        replayed = desk.ask("one")

    assert live == replayed == "echo: one"
    assert provider.server.connections == asked == 1
    assert run.turns == 1
    assert not run.is_recording


def test_a_block_on_an_event_loop_is_recorded_and_replayed_too(path: Path, desk: Desk, provider: Provider) -> None:
    async def work(mode: str) -> tuple[list[str], Any]:
        async with use_cassette(path, record_mode=mode) as run:
            said = await asyncio.gather(desk.ask_async("one"), desk.ask_async("two"))
        return said, run.hash_chain

    live = asyncio.run(work("once"))
    provider.stop()
    replayed = asyncio.run(work("none"))

    assert live[0] == replayed[0] == ["echo: one", "echo: two"]
    assert sorted(live[1].values()) == sorted(replayed[1].values())


def test_a_recording_gives_the_run_its_events_tokens_and_diagram(path: Path, desk: Desk) -> None:
    with use_cassette(path, record_mode="once") as run:
        desk.ask("one")

    assert run.usage.input_tokens == 10
    assert run.events == event_stream(load_cassette(path))
    assert run.mermaid().startswith("flowchart TD\n")


def test_a_stream_is_replayed_in_the_pieces_it_came_in(path: Path, desk: Desk, provider: Provider) -> None:
    with use_cassette(path, record_mode="once"):
        live = desk.pieces("one")
    provider.stop()

    with use_cassette(path):
        replayed = desk.pieces("one")

    assert live == replayed == ["echo", ": one"]


def test_a_recorded_tool_does_not_run_in_a_replayed_block(path: Path, desk: Desk, provider: Provider) -> None:
    ran: list[str] = []

    @recorded_tool
    def weather(city: str) -> str:
        ran.append(city)
        return f"sun in {city}"

    provider.respond = asking_for(("weather", {"city": "Rome"}))
    for mode in ("once", "none"):
        with use_cassette(path, record_mode=mode) as run:
            said = desk.run("How is Rome?", {"weather": weather})

        assert said == 'done: "sun in Rome"'
        assert run.tools_called == ["weather"]
    assert ran == ["Rome"]


def test_a_tool_is_wrapped_by_the_run_of_a_block(path: Path) -> None:
    ran: list[int] = []

    def roll(sides: int) -> int:
        ran.append(sides)
        return 4

    for mode in ("once", "none"):
        with use_cassette(path, record_mode=mode) as run:
            assert run.wrap(roll)(6) == 4
    assert ran == [6]


def test_without_a_cassette_a_block_stops_with_what_records_it(path: Path, desk: Desk, provider: Provider) -> None:
    with pytest.raises(ReplayDivergenceError) as caught, use_cassette(path):
        desk.ask("one")

    assert caught.value.kind == "missing-cassette"
    assert f"use_cassette({str(path)!r}, record_mode='once')" in str(caught.value)
    assert provider.seen == []
    assert not path.exists()


@pytest.mark.parametrize(("mode", "live"), [("new_episodes", ["two"]), ("rewrite", ["one", "two"])])
def test_a_recording_goes_on_or_over_as_the_mode_says(
    path: Path, desk: Desk, provider: Provider, mode: str, live: list[str]
) -> None:
    recorded(path, desk, "one")
    seen = len(provider.seen)

    with use_cassette(path, record_mode=mode):
        desk.ask("one")
        desk.ask("two")

    asked = [request.json()["messages"][-1]["content"] for request in provider.seen[seen:]]
    assert asked == live
    assert len(load_cassette(path).exchanges) == 2


def test_once_goes_on_from_an_interrupted_recording_and_its_outcome_says_so(
    path: Path, desk: Desk, provider: Provider
) -> None:
    write_partial(path, [Exchange(body("one"), answer=completion("echo: one"), url=desk.place)])
    block = use_cassette(path, record_mode="once")

    with block:
        desk.ask("one")
        desk.ask("two")

    assert [request.json()["messages"][-1]["content"] for request in provider.seen] == ["two"]
    assert block.outcome is not None
    assert (block.outcome.action, block.outcome.resumed) == ("recorded", 1)


def test_a_changed_request_stops_a_block_with_words_for_code(path: Path, desk: Desk, provider: Provider) -> None:
    recorded(path, desk, "one")
    seen = len(provider.seen)

    with pytest.raises(ReplayDivergenceError) as caught, use_cassette(path):
        desk.ask("other")

    assert '"one"' in str(caught.value)
    assert '"other"' in str(caught.value)
    assert str(caught.value).endswith(f"record again: use_cassette({str(path)!r}, record_mode='rewrite')")
    assert len(provider.seen) == seen


def test_warn_serves_the_next_recorded_answer_and_warns_at_the_block(path: Path, desk: Desk) -> None:
    recorded(path, desk, "one")

    with pytest.warns(ReplayDivergenceWarning, match="served    this recorded answer") as told:  # noqa: SIM117
        with use_cassette(path, replay="warn"):
            said = desk.ask("other")

    assert said == "echo: one"
    assert [warning.filename for warning in told] == [__file__]


def test_hybrid_leaves_a_tape_beside_the_cassette(path: Path, desk: Desk) -> None:
    recorded(path, desk, "one")
    before = path.read_bytes()
    block = use_cassette(path, replay="hybrid")

    with block:
        said = desk.ask("other")

    assert said == "echo: other"
    assert path.read_bytes() == before
    assert block.outcome is not None
    assert block.outcome.tape == path.with_name("run.replay.jsonl")
    assert load_cassette(block.outcome.tape).start.replay_of == load_cassette(path).start.run_id


def test_a_replayed_block_reaches_no_network_and_says_how_to_let_it(path: Path, desk: Desk) -> None:
    recorded(path, desk, "one")

    with pytest.raises(NetworkBlockedError) as caught, use_cassette(path):
        socket.create_connection(("192.0.2.1", 80), timeout=1)

    assert f"use_cassette({str(path)!r}, hosts=['192.0.2.1'])" in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"record_mode": "always"}, r"argument: record_mode='always' is not one of none, once"),
        ({"replay": "loose"}, r"argument: replay='loose' is not one of strict, warn, hybrid"),
        ({"colour": "blue"}, r"argument: unknown setting 'colour'"),
        ({"tools": "never"}, r"argument: tools='never' is not one of"),
        ({"ignore": 3}, r"argument: ignore=3 must be a string or a list of strings"),
        ({"replay": "hybrid", "loopback": False}, r"needs hosts="),
    ],
)
def test_a_setting_that_cannot_be_meant_is_refused_at_the_call(
    path: Path, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        use_cassette(path, **settings)


@pytest.mark.parametrize(
    ("about", "message"),
    [
        ({"task": 3}, "task=3 must be a string"),
        ({"config": {"tools": [object()]}}, "config must hold plain values"),
        ({"config": ["tools"]}, "must hold plain values by name, as {'model': 'm'}"),
        ({"name": 3}, "name=3 must be a string"),
    ],
)
def test_what_a_tape_cannot_keep_of_a_run_is_refused_as_the_block_is_entered(
    path: Path, desk: Desk, about: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(message)), use_cassette(path, record_mode="once", **about):
        desk.ask("one")

    assert not path.exists()
    recorded(path, desk, "one")  # and no lock is left behind


def test_a_damaged_cassette_is_refused_as_the_block_is_entered(path: Path, desk: Desk) -> None:
    path.write_text("<<<<<<< ours\n")

    with pytest.raises(CassetteError, match="conflict") as caught, use_cassette(path):
        desk.ask("one")

    assert caught.value.remedy.endswith(f"or record it again: use_cassette({str(path)!r}, record_mode='rewrite')")
    assert path.read_text() == "<<<<<<< ours\n"


def test_a_block_is_entered_once(path: Path, desk: Desk) -> None:
    block = use_cassette(path, record_mode="once")
    with block:
        desk.ask("one")
        with pytest.raises(ConfigurationError, match="entered once"):
            block.__enter__()

    with pytest.raises(ConfigurationError, match="entered once"):
        block.__enter__()

    assert len(load_cassette(path).exchanges) == 1


def test_task_and_configuration_stand_in_the_head_without_secrets(path: Path, desk: Desk) -> None:
    key = "sk-proj-" + "aB3dE6gH9jK2mN5pQ8sT1vW4" * 2
    config = {"instructions": "Be brief.", "params": {"model": "m", "key": key}}

    with use_cassette(path, record_mode="once", name="a run", task="one", config=config):
        desk.ask("one")

    start = load_cassette(path).start
    assert (start.name, start.task) == ("a run", "one")
    assert start.config is not None
    assert start.config["instructions"] == "Be brief."
    assert key not in path.read_text()


def test_an_added_rule_needs_no_new_recording(path: Path, desk: Desk, provider: Provider) -> None:
    recorded(path, desk, "It is 2026-01-01.")
    provider.stop()

    with use_cassette(path, ignore=[r"$.messages[0].content =~ \d{4}-\d{2}-\d{2}"]):
        said = desk.ask("It is 2026-02-03.")

    assert said == "echo: It is 2026-01-01."


def test_a_cassette_of_a_block_passes_verify(path: Path, desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    recorded(path, desk, "one", "two")

    code = main(["verify", str(path)])

    assert code == 0
    assert "1 verified, 0 with a fault" in capsys.readouterr().out


def test_an_answer_with_an_error_status_is_recorded_and_served(path: Path, desk: Desk, provider: Provider) -> None:
    provider.respond = lambda seen: Answer(status=503, body=b'{"error":"busy"}')

    for mode in ("once", "none"):
        with use_cassette(path, record_mode=mode), pytest.raises(KeyError):
            desk.ask("one")

    assert len(provider.seen) == 1


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"tokens_before": "many"}, "agent_run.compaction: tokens_before='many' must be a count"),
        ({"tokens_after": -5}, "agent_run.compaction: tokens_after=-5 must be a count"),
        ({"dropped_messages": True}, "agent_run.compaction: dropped_messages=True must be a count"),
        ({"summary": 5}, "agent_run.compaction: summary=5 must be a text"),
    ],
)
def test_a_compaction_that_a_tape_cannot_keep_is_refused_by_what_is_wrong(
    path: Path, told: dict[str, Any], message: str
) -> None:
    with use_cassette(path, record_mode="once") as run, pytest.raises(ConfigurationError, match=message):
        run.compaction(**told)
