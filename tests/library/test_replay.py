"""``replay``: an agent driven against a tape, offline, and the tape it writes."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from pytest_agentreplay import (
    Cassette,
    CassetteError,
    ConfigurationError,
    RecordingFailedError,
    ReplayDivergenceError,
    ReplayDivergenceWarning,
    RunPlan,
    areplay,
    event_stream,
    load_cassette,
    recorded_tool,
    replay,
    use_cassette,
)
from pytest_agentreplay.cassette import partial_path
from pytest_agentreplay.cli import main
from tests.support.agent import Desk, asking_for
from tests.support.server import Answer
from tests.support.suite import Provider
from tests.support.tapes import Told, write_partial

TASK = "How are Rome and Oslo?"
RAN: list[str] = []


@recorded_tool
def weather(city: str) -> str:
    RAN.append(city)
    return f"sun in {city}"


TOOLS = {"weather": weather}


@pytest.fixture
def tape(path: Path, desk: Desk, provider: Provider) -> Path:
    """A recorded run of three turns and two tools; the provider is gone."""
    provider.respond = asking_for(("weather", {"city": "Rome"}), ("weather", {"city": "Oslo"}))
    with use_cassette(path, record_mode="once", task=TASK):
        desk.run(TASK, TOOLS)
    RAN.clear()
    return path


def chain(tape: Cassette) -> dict[str, list[str]]:
    """Return the hashes of each lane of a tape."""
    lanes: dict[str, list[str]] = {}
    for step in tape.exchanges:
        lanes.setdefault(step.lane, []).append(step.hash)
    return lanes


def builder(desk: Desk, **changed: Any) -> Any:
    return lambda plan: lambda: desk.run(plan.task, TOOLS, **changed)


def test_a_replay_drives_the_agent_that_is_built_and_connects_to_nothing(
    tape: Path, desk: Desk, provider: Provider
) -> None:
    asked = provider.server.connections

    result = replay(tape, builder(desk))

    assert result.output == 'done: "sun in Rome", "sun in Oslo"'
    assert result.message is not None
    assert result.message.text == result.output
    assert RAN == []
    assert provider.server.connections == asked


def test_the_tape_of_a_replay_names_its_origin_and_has_its_hash_chain_and_events(tape: Path, desk: Desk) -> None:
    result = replay(tape, builder(desk))

    assert result.tape == tape.with_name("run.replay.jsonl")
    first, second = load_cassette(tape), load_cassette(result.tape)
    assert second.start.replay_of == first.start.run_id
    assert second.start.run_id == result.run_id
    assert second.start.task == TASK
    assert chain(second) == chain(first)
    assert event_stream(second) == event_stream(first)
    assert main(["verify", str(result.tape)]) == 0


def test_a_tape_replayed_twice_gives_equal_tapes_but_for_the_last_line(tape: Path, desk: Desk, tmp_path: Path) -> None:
    paths = [replay(tape, builder(desk), to=tmp_path / f"{number}.jsonl").tape for number in range(2)]

    first, second = (path.read_bytes().splitlines() for path in paths if path)
    assert first[:-1] == second[:-1]
    assert first[-1] != second[-1]
    assert len(first) == len(tape.read_bytes().splitlines())
    assert first[1:-1] == tape.read_bytes().splitlines()[1:-1]


def test_a_replay_of_a_replay_gives_the_same_again(tape: Path, desk: Desk) -> None:
    first = replay(tape, builder(desk))
    assert first.tape is not None

    second = replay(first.tape, builder(desk))

    assert second.tape == tape.with_name("run.replay.replay.jsonl")
    assert load_cassette(second.tape).start.replay_of == first.run_id
    assert event_stream(load_cassette(second.tape)) == event_stream(load_cassette(tape))


def test_an_async_agent_is_driven_to_its_end(path: Path, desk: Desk, provider: Provider) -> None:
    with use_cassette(path, record_mode="once"):
        desk.ask("one")
    provider.stop()

    def build(plan: RunPlan) -> Any:
        async def agent() -> str:
            return await desk.ask_async(plan.task)

        return agent

    async def on_a_loop() -> Any:
        return await areplay(path, build)

    assert replay(path, build).output == "echo: one"
    assert asyncio.run(on_a_loop()).output == "echo: one"


def test_areplay_drives_a_sync_agent_too(tape: Path, desk: Desk) -> None:
    result = asyncio.run(areplay(tape, builder(desk)))

    assert result.turns == 0
    assert result.output.startswith("done")


def test_an_async_agent_on_a_running_loop_is_sent_to_areplay(path: Path, desk: Desk) -> None:
    with use_cassette(path, record_mode="once"):
        desk.ask("one")

    async def on_a_loop() -> Any:
        return replay(path, lambda plan: lambda: desk.ask_async("one"))

    with pytest.raises(ConfigurationError, match="areplay"):
        asyncio.run(on_a_loop())


def test_a_build_that_returns_no_agent_is_told_what_to_return(tape: Path) -> None:
    with pytest.raises(ConfigurationError, match="a callable without arguments, not 'nothing'"):
        replay(tape, lambda plan: "nothing")  # type: ignore[arg-type,return-value]


def test_the_first_difference_stops_a_replay(tape: Path, desk: Desk, provider: Provider) -> None:
    asked = provider.server.connections

    with pytest.raises(ReplayDivergenceError, match="Be kind"):
        replay(tape, builder(desk, system="Be kind."))

    assert provider.server.connections == asked


def test_a_replay_that_asks_for_less_fails(tape: Path, desk: Desk) -> None:
    with pytest.raises(ReplayDivergenceError, match="4 recorded steps were not asked for"):
        replay(tape, lambda plan: lambda: desk.message({"role": "system", "content": "Be brief."}, plan.task))


def test_a_replay_may_warn_instead(tape: Path, desk: Desk) -> None:
    with pytest.warns(ReplayDivergenceWarning, match="Be kind") as told:
        result = replay(tape, builder(desk, system="Be kind."), replay="warn")

    assert result.output.startswith("done")
    assert {warning.filename for warning in told} == {__file__}


def test_what_the_agent_raises_comes_out_and_its_tape_says_it_failed(tape: Path, desk: Desk) -> None:
    def build(plan: RunPlan) -> Any:
        def agent() -> None:
            desk.run(TASK, TOOLS)
            raise OSError("no disk")

        return agent

    with pytest.raises(OSError, match="no disk"):
        replay(tape, build)

    end = load_cassette(tape.with_name("run.replay.jsonl")).end
    assert end is not None
    assert end.outcome == "failed"


def test_a_live_tool_runs_in_a_replay_and_its_result_is_the_cause_of_what_differs(tape: Path, desk: Desk) -> None:
    @recorded_tool(name="weather")
    def other(city: str) -> str:
        RAN.append(city)
        return f"rain in {city}"

    with pytest.raises(ReplayDivergenceError, match="the live tool weather gave another result"):
        replay(tape, lambda plan: lambda: desk.run(TASK, {"weather": other}), tools="live")

    assert RAN == ["Rome"]


def test_background_traffic_of_a_replay_is_not_sent_and_stops_nothing(tape: Path, desk: Desk) -> None:
    def build(plan: RunPlan) -> Any:
        def agent() -> str:
            with pytest.raises(Exception, match="background traffic is not sent"):
                Desk(desk.url.replace("127.0.0.1", "localhost")).ask("telemetry")
            return desk.run(TASK, TOOLS)

        return agent

    result = replay(tape, build, background=["localhost"])

    assert result.tape is not None
    assert chain(load_cassette(result.tape)) == chain(load_cassette(tape))


def test_repeats_may_be_allowed_for_requests_and_tools(path: Path, desk: Desk) -> None:
    with use_cassette(path, record_mode="once"):
        desk.ask("one")
        weather("Rome")
    RAN.clear()

    def agent() -> list[Any]:
        return [desk.ask("one"), weather("Rome"), desk.ask("one"), weather("Rome")]

    result = replay(path, lambda plan: agent, allow_repeats=True)

    assert result.output == ["echo: one", "sun in Rome"] * 2
    assert RAN == []


def test_a_tape_recorded_under_other_rules_is_replayed_under_these(path: Path, desk: Desk) -> None:
    with use_cassette(path, record_mode="once"):
        desk.ask("It is 2026-01-01.")
    rule = r"$.messages[0].content =~ \d{4}-\d{2}-\d{2}"

    first = replay(path, lambda plan: lambda: desk.ask("It is 2026-02-03."), ignore=[rule])

    assert first.output == "echo: It is 2026-01-01."
    assert first.tape is not None
    assert replay(first.tape, lambda plan: lambda: desk.ask("It is 2026-03-04."), ignore=[rule]).turns == 0


def test_two_threads_replay_one_tape_to_one_place_at_once(tape: Path, desk: Desk) -> None:
    def work(_: int) -> Any:
        return replay(tape, builder(desk))

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(work, range(12)))

    assert {result.output for result in results} == {'done: "sun in Rome", "sun in Oslo"'}
    assert chain(load_cassette(tape.with_name("run.replay.jsonl"))) == chain(load_cassette(tape))
    assert sorted(found.name for found in tape.parent.iterdir()) == ["run.jsonl", "run.replay.jsonl"]


PROGRAM = """
import json, sys
from pathlib import Path
from pytest_agentreplay import event_stream, load_cassette, recorded_tool, replay
from tests.support.agent import Desk

@recorded_tool
def weather(city):
    raise AssertionError("a body ran in replay")

tape, url = Path(sys.argv[1]), sys.argv[2]
build = lambda plan: lambda: Desk(url).run(plan.task, {"weather": weather})
sys.stdin.readline()
for _ in range(10):
    result = replay(tape, build)
print(json.dumps([result.output, result.turns, event_stream(load_cassette(result.tape))]))
"""


def test_two_processes_replay_one_tape_to_one_place_at_once(tape: Path, desk: Desk) -> None:
    root = Path(__file__).resolve().parents[2]
    command = [sys.executable, "-c", PROGRAM, str(tape), desk.url]
    programs = [
        subprocess.Popen(command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]

    said = [program.communicate("go\n", timeout=60)[0] for program in programs]

    assert [program.returncode for program in programs] == [0, 0]
    assert said[0] == said[1]
    assert json.loads(said[0])[:2] == ['done: "sun in Rome", "sun in Oslo"', 0]
    assert sorted(found.name for found in tape.parent.iterdir()) == ["run.jsonl", "run.replay.jsonl"]


def test_the_tape_itself_is_never_written_to(tape: Path, desk: Desk) -> None:
    before = tape.read_bytes()

    with pytest.raises(ConfigurationError, match="is the tape itself"):
        replay(tape, builder(desk), to=tape.parent / "." / "run.jsonl")

    assert tape.read_bytes() == before


def test_a_record_mode_has_no_meaning_in_a_replay(tape: Path, desk: Desk) -> None:
    with pytest.raises(ConfigurationError, match="record_mode= has no meaning here"):
        replay(tape, builder(desk), record_mode="rewrite")


def test_a_place_that_cannot_be_written_to_stops_a_replay_at_its_first_step(tape: Path, desk: Desk) -> None:
    tape.with_name("file").write_text("")

    with pytest.raises(RecordingFailedError, match="could not be recorded"):
        replay(tape, builder(desk), to=tape.with_name("file") / "run.jsonl")


@pytest.mark.parametrize(
    ("text", "message"),
    [("", "empty"), ("<<<<<<< ours\n", "conflict"), ('{"kind":"run.start"}\n', "not an agent cassette")],
)
def test_a_tape_that_cannot_be_read_is_refused(path: Path, desk: Desk, text: str, message: str) -> None:
    path.write_text(text)

    with pytest.raises(CassetteError, match=message):
        replay(path, builder(desk))


def test_a_tape_that_is_not_there_is_refused(path: Path, desk: Desk) -> None:
    with pytest.raises(CassetteError, match="No such file"):
        replay(path, builder(desk))


def test_a_tape_that_was_never_finished_is_named(path: Path, desk: Desk) -> None:
    partial = write_partial(path, [Told({"messages": []}, answer={})])

    with pytest.raises(CassetteError, match=f"(?s)was never finished.*{partial.name}"):
        replay(path, builder(desk))


def test_a_torn_tape_is_refused_in_a_replay(tape: Path, desk: Desk) -> None:
    partial = partial_path(tape)
    whole = write_partial(tape.with_name("other.jsonl"), [Told({"messages": []}, answer={})]).read_bytes()
    partial.write_bytes(whole[:-20])

    with pytest.raises(CassetteError, match=r"(?s)is torn: .*resume\(\)"):
        replay(partial, builder(desk))


def test_an_agent_that_asks_for_nothing_leaves_no_tape(path: Path, desk: Desk, tape: Path) -> None:
    result = replay(tape, lambda plan: lambda: None, unplayed="ignore")

    assert (result.message, result.output, result.tape, result.turns) == (None, None, None, 0)
    assert not tape.with_name("run.replay.jsonl").exists()


def test_a_tape_without_requests_replays_its_tools(path: Path) -> None:
    with use_cassette(path, record_mode="once"):
        weather("Rome")
    RAN.clear()

    result = replay(path, lambda plan: lambda: weather("Rome"))

    assert (result.output, result.message, RAN) == ("sun in Rome", None, [])
    assert result.tape is not None
    assert event_stream(load_cassette(result.tape)) == event_stream(load_cassette(path))


def test_failed_attempts_are_replayed_too(path: Path, desk: Desk, provider: Provider) -> None:
    normal = provider.respond
    failures = iter([Answer(status=503, body=b"{}")])
    provider.respond = lambda seen: next(failures, None) or normal(seen)

    def agent() -> str:
        try:
            return desk.ask("one")
        except KeyError:
            return desk.ask("one")

    with use_cassette(path, record_mode="once"):
        agent()

    result = replay(path, lambda plan: agent)

    assert result.output == "echo: one"
    assert result.tape is not None
    assert chain(load_cassette(result.tape)) == chain(load_cassette(path))
