"""Nesting: sub-agents whose bodies run in replay, named lanes, runs inside runs, and conversations made shorter."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import pytest

from pytest_agentreplay.cassette import Cassette, load_cassette, write_cassette
from pytest_agentreplay.dialects import load_dialects
from pytest_agentreplay.player import Player, Serve, ServeTool, recorded_for
from pytest_agentreplay.reader import Reader, rule_set_for
from pytest_agentreplay.records import ExchangeStep, RunEnd, ToolStep
from pytest_agentreplay.redact import redactor_for
from pytest_agentreplay.settings import Settings
from tests.support.openai import chat_answer
from tests.support.server import Answer, Seen
from tests.support.suite import Provider, Suite, effects, failure

TOOLS = """
from pathlib import Path
from pytest_agentreplay import recorded_tool
from agent import ask

EFFECTS = Path(__file__).with_name("effects.txt")


def effect(what):
    with EFFECTS.open("a") as file:
        file.write(f"{what}\\n")


@recorded_tool
def search(topic):
    effect(f"search {topic}")
    return f"pages on {topic}"


@recorded_tool(subagent=True)
def research(topic):
    effect(f"research {topic}")
    plan = ask(f"plan {topic}")
    found = search(topic)
    return ask(f"plan {topic}", {"role": "assistant", "content": plan}, found)
"""


@pytest.fixture
def tools(suite: Suite) -> Suite:
    """A suite beside a sub-agent and its tool."""
    suite.pytester.makepyfile(tools=TOOLS)
    return suite


def steps_of(suite: Suite) -> list[dict[str, Any]]:
    """Return the steps of the cassette."""
    return [line for line in suite.lines() if line["kind"] not in ("message", "run.start", "run.end")]


PLANNER = """
import pytest
from agent import ask
from tools import research

@pytest.mark.agent_cassette
def test_it(agent_run):
    topics = ask("what to look at?")
    found = [research(topic) for topic in ("tea", "cups")]
    assert found == ["echo: pages on tea", "echo: pages on cups"]
    ask("what to look at?", {"role": "assistant", "content": topics}, *found)
    assert agent_run.tools_called == ["research", "search", "research", "search"]
    assert agent_run.turns == TURNS
"""


def test_a_sub_agent_runs_in_replay_and_its_requests_and_tools_are_answered_from_the_tape(
    tools: Suite, provider: Provider
) -> None:
    tools.write(PLANNER.replace("TURNS", "6"))
    tools.record()
    provider.stop()

    result = tools.run()

    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["agent cassettes: 1 replayed (6 requests, 4 tool calls)"])
    assert effects(tools) == [
        "research tea", "search tea", "research cups", "search cups", "research tea", "research cups"
    ]  # fmt: skip


def test_the_steps_of_a_sub_agent_stand_after_the_lane_that_called_it_and_name_it(tools: Suite) -> None:
    tools.write(PLANNER.replace("TURNS", "6"))
    tools.record()

    steps = steps_of(tools)

    ids = {step["id"]: step["arguments"]["topic"] for step in steps if step.get("name") == "research"}
    inside = [ids.get(step.get("parent", "")) for step in steps]
    kinds = [step["kind"] for step in steps]
    lanes = {
        topic: {step["lane"] for step, name in zip(steps, inside, strict=True) if name == topic and "lane" in step}
        for topic in ("tea", "cups")
    }
    assert sorted(set(ids.values())) == ["cups", "tea"]
    assert [inside.count(topic) for topic in ("tea", "cups")] == [3, 3]  # two requests and a search
    assert len(lanes["tea"]) == len(lanes["cups"]) == 1
    assert lanes["tea"] != lanes["cups"]
    assert kinds.count("tool") == 4


def test_a_sub_agent_whose_result_differs_though_its_tape_is_the_same_is_named_as_the_cause(tools: Suite) -> None:
    test = PLANNER.replace("    assert found == ", "    found == ").replace("TURNS", "6")
    tools.write(test)
    tools.record()
    source = TOOLS.replace("return ask(", 'return "in short: " + ask(')
    tools.pytester.makepyfile(tools=source)

    result = tools.run()

    result.assert_outcomes(failed=1)
    text = failure(result)
    assert "cause     the live tool research gave another result than was recorded" in text
    assert 'recorded: "echo: pages on tea"' in text
    assert 'now:      "in short: echo: pages on tea"' in text


def test_sub_agents_in_sub_agents_are_nested_on_the_tape(tools: Suite, provider: Provider) -> None:
    tools.write(
        """
        import pytest
        from agent import ask
        from pytest_agentreplay import recorded_tool
        from tools import effect, research

        @recorded_tool(subagent=True)
        def team(topics):
            effect("team")
            return [research(topic) for topic in topics] + [ask("sum it up")]

        @pytest.mark.agent_cassette
        def test_it():
            assert team(["tea", "cups"])[-1] == "echo: sum it up"
        """
    )
    tools.record()
    provider.stop()

    result = tools.run()

    result.assert_outcomes(passed=1)
    assert effects(tools).count("team") == 2
    tools_by_id = {step["id"]: step for step in steps_of(tools) if step["kind"] == "tool"}

    def depth(step: dict[str, Any]) -> int:
        return 0 if "parent" not in step else 1 + depth(tools_by_id[step["parent"]])

    depths = sorted((depth(step), step.get("name", "")) for step in steps_of(tools))
    assert depths == [(0, "team"), (1, ""), *[(1, "research")] * 2, *[(2, "")] * 4, *[(2, "search")] * 2]


def test_a_sub_agent_that_is_not_declared_as_one_is_served_whole_and_counts_all_the_same(
    tools: Suite, provider: Provider
) -> None:
    tools.pytester.makepyfile(tools=TOOLS.replace("(subagent=True)", ""))
    told = """
    record_property("usage", agent_run.usage.model_dump())
    record_property("chain", {lane: list(hashes) for lane, hashes in sorted(agent_run.hash_chain.items())})
"""
    tools.write(PLANNER.replace("TURNS", "6").replace("(agent_run)", "(agent_run, record_property)") + told)
    recorded = tools.record()
    provider.stop()
    done = effects(tools)

    result = tools.run()

    result.assert_outcomes(passed=1)
    reports = [run.reprec.getreports("pytest_runtest_logreport")[1] for run in (recorded, result)]  # type: ignore[attr-defined]
    assert reports[0].user_properties == reports[1].user_properties
    result.stdout.fnmatch_lines(["agent cassettes: 1 replayed (2 requests, 2 tool calls)"])
    assert effects(tools) == done


# Two researchers hold word-for-word equal conversations with a model that answers each as it pleases.
LANES = """
import asyncio, random, time
from concurrent.futures import ThreadPoolExecutor
import threading
import httpx
import pytest
from agent import CLIENT, URL, body, said

def converse(agent_run, name, heard):
    with agent_run.lane(name):
        for turn in range(3):
            time.sleep(random.random() / 100)
            heard.append(said(CLIENT.post(URL, json=body("go on"), headers={"x-who": name})))

async def converse_async(agent_run, http, name, heard):
    with agent_run.lane(name):
        for turn in range(3):
            await asyncio.sleep(random.random() / 100)
            heard.append(said(await http.post(URL, json=body("go on"), headers={"x-who": name})))

def in_threads(agent_run, heard):
    threads = [threading.Thread(target=converse, args=(agent_run, name, heard[name])) for name in heard]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

def in_threads_started_inside(agent_run, heard):
    def start(name):
        with agent_run.lane(name), ThreadPoolExecutor(1) as pool:
            for turn in range(3):
                time.sleep(random.random() / 100)
                pool.submit(lambda: heard[name].append(
                    said(CLIENT.post(URL, json=body("go on"), headers={"x-who": name})))).result()
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(start, heard))

def in_tasks(agent_run, heard):
    async def main():
        async with httpx.AsyncClient(verify=False) as http:
            await asyncio.gather(*(converse_async(agent_run, http, name, heard[name]) for name in heard))
    asyncio.run(main())

@pytest.mark.parametrize("way", [in_threads, in_threads_started_inside, in_tasks])
@pytest.mark.agent_cassette
def test_it(agent_run, way):
    heard = {"red": [], "blue": []}
    way(agent_run, heard)
    assert heard == {name: [f"{name} {turn}" for turn in range(3)] for name in heard}
    assert {lane: len(hashes) for lane, hashes in agent_run.hash_chain.items()} == {"@red": 3, "@blue": 3}
    assert len({request for hashes in agent_run.hash_chain.values() for request in hashes}) == 1
"""


def test_named_lanes_keep_equal_conversations_apart_in_threads_and_tasks(tools: Suite, provider: Provider) -> None:
    turns = {"red": count(), "blue": count()}

    def respond(seen: Seen) -> Answer:
        name = seen.headers["x-who"]
        return chat_answer(f"{name} {next(turns[name]) % 3}")

    provider.respond = respond
    tools.write(LANES)
    tools.record()
    provider.stop()

    for _ in range(4):
        result = tools.run()

        result.assert_outcomes(passed=3)


def test_a_named_lane_stands_in_the_file_under_its_name_and_in_one_order(tools: Suite) -> None:
    source = LANES.replace('heard == {name: [f"{name} {turn}" for turn in range(3)] for name in heard}', "heard")
    tools.write(source)
    files = []
    for _ in range(3):
        tools.run("--record-mode=rewrite").assert_outcomes(passed=3)
        files.append(tools.cassette("test_it/test_it[in_tasks].jsonl").read_bytes().splitlines()[:-1])

    lanes = [line["lane"] for line in tools.lines("test_it/test_it[in_tasks].jsonl") if line["kind"] == "model"]

    assert files[0] == files[1] == files[2]
    assert lanes == ["@blue"] * 3 + ["@red"] * 3


def test_a_tool_called_in_a_named_lane_belongs_to_it(tools: Suite) -> None:
    tools.write(
        """
        import pytest
        from tools import search

        @pytest.mark.agent_cassette
        def test_it(agent_run):
            with agent_run.lane("researcher"):
                search("tea")
            search("cups")
        """
    )
    tools.record()

    result = tools.run()

    result.assert_outcomes(passed=1)
    assert {step["arguments"]["topic"]: step.get("lane") for step in steps_of(tools)} == {
        "tea": "@researcher",
        "cups": None,
    }


@pytest.mark.parametrize("name", ["", " ", "researcher ", None, 5])
def test_a_lane_without_a_name_is_refused(tools: Suite, name: object) -> None:
    tools.write(
        f"""
        import pytest

        @pytest.mark.agent_cassette
        def test_it(agent_run):
            with agent_run.lane({name!r}):
                pass
        """
    )

    result = tools.run()

    result.assert_outcomes(failed=1)
    told = f"ConfigurationError: agent_run.lane({name!r}): give a name, a string that no space begins or ends"
    assert told in failure(result)


def test_a_lane_in_another_order_than_recorded_fails_as_order(tools: Suite, provider: Provider) -> None:
    test = """
    import pytest
    from agent import ask

    @pytest.mark.agent_cassette
    def test_it(agent_run):
        with agent_run.lane("researcher"):
            ask(FIRST)
            ask(SECOND)
    """
    tools.write(test.replace("FIRST", "'one'").replace("SECOND", "'two'"))
    tools.record()
    tools.write(test.replace("FIRST", "'two'").replace("SECOND", "'one'"))

    result = tools.run()

    result.assert_outcomes(failed=1)
    assert "Order changed: call 1 is recorded, but not next in its conversation." in failure(result)


def replay_alone(tape: Cassette) -> Player:
    """Play every request and call of a tape's own to a player of its own, as the sub-agent alone would."""
    reader = Reader(rule_set_for(load_dialects(), redactor=redactor_for()))
    player = Player(
        reader=reader,
        settings=Settings(),
        test="alone",
        cassette=str(tape.path),
        sources=[recorded_for(tape, reader, digest=tape.start.rules)],
    )
    for step in tape.entries:
        name = step.lane.removeprefix("@") if step.lane.startswith("@") else None
        if isinstance(step, ExchangeStep) and step.parent is None:
            asked = reader.reread(step.request, tape.messages)
            decision = player.ask(asked, call_site=lambda: None, lane_name=name)
            assert isinstance(decision, Serve)
            assert decision.step.response == step.response
        elif isinstance(step, ToolStep) and step.parent is None:
            served = player.call_tool(
                reader.read_tool_call(step.name, step.arguments), call_site=lambda: None, lane_name=name
            )
            assert isinstance(served, ServeTool)
            assert served.step.result == step.result
    return player


def test_each_run_inside_a_run_can_be_replayed_alone(tools: Suite, tmp_path: Path) -> None:
    tools.write(PLANNER.replace("TURNS", "6"))
    tools.record()
    tape = load_cassette(tools.cassette())
    lanes = list(dict.fromkeys(step.lane for step in tape.entries if step.parent is not None and step.lane))

    for lane in lanes:
        alone = tape.sub_run(lane)
        path = tmp_path / f"{lane}.jsonl"
        write_cassette(path, start=alone.start, end=RunEnd(), entries=alone.entries, messages=alone.messages)
        again = load_cassette(path)
        for run in (alone, again):
            player = replay_alone(run)

            assert player.unplayed(("setup", "call", "teardown")) == []
            assert (player.served, player.tools.played) == (2, 1)
        assert again.start.parent_run == tape.start.run_id is not None
        assert again.start.name == f"test_it.py::test_it#{lane}"
    assert len(lanes) == 2


def test_a_run_alone_takes_what_was_recorded_inside_its_tools_along(tools: Suite) -> None:
    tools.write(
        """
        import pytest
        from agent import ask, get
        from pytest_agentreplay import recorded_tool

        @recorded_tool
        def fetch(page):
            return get(f"/{page}")

        @pytest.mark.agent_cassette
        def test_it(agent_run):
            with agent_run.lane("reader"):
                ask("what to read?")
                fetch("one")
            with agent_run.lane("other"):
                ask("what else?")
                fetch("two")
        """
    )
    tools.record()

    alone = load_cassette(tools.cassette()).sub_run("@reader")

    assert [(step.kind, step.lane == "@reader", step.parent is None) for step in alone.entries] == [
        ("model", True, True),
        ("tool", True, True),
        ("http", False, False),
    ]
    player = replay_alone(alone)
    assert player.unplayed(("setup", "call", "teardown")) == []


SHORTER = """
import pytest
from agent import ask

@pytest.mark.agent_cassette
def test_it(agent_run):
    messages = ["one"]
    messages += [{"role": "assistant", "content": ask(*messages)}, "two"]
    messages += [{"role": "assistant", "content": ask(*messages)}]
    summary = ask("sum this up", *messages)
    agent_run.compaction(tokens_before=1200, tokens_after=90, summary=summary, dropped_messages=len(messages))
    ask(summary, "three")
"""


def test_a_compaction_stands_beside_the_request_that_made_the_summary(tools: Suite, provider: Provider) -> None:
    tools.write(SHORTER)
    tools.record()
    provider.stop()

    result = tools.run()

    result.assert_outcomes(passed=1)
    steps = steps_of(tools)
    [at] = [index for index, step in enumerate(steps) if step["kind"] == "compaction"]
    assert {key: value for key, value in steps[at].items() if key not in ("lane", "sum")} == {
        "kind": "compaction",
        "tokens_before": 1200,
        "tokens_after": 90,
        "summary": "echo: echo: two",
        "dropped_messages": 4,
    }
    assert steps[at]["lane"] == steps[at - 1]["lane"]
    assert steps[at - 1]["kind"] == "model"
    assert len([step for step in steps if step["lane"] == steps[at]["lane"] and step["kind"] == "model"]) == 1


def test_a_compaction_in_a_named_lane_stands_beside_that_lanes_last_request(tools: Suite) -> None:
    tools.write(
        """
        import pytest
        from agent import ask

        @pytest.mark.agent_cassette
        def test_it(agent_run):
            with agent_run.lane("a"):
                ask("one")
            with agent_run.lane("b"):
                ask("two")
            with agent_run.lane("a"):
                agent_run.compaction(summary="the key is sk-proj-Ab3dEf6hIj9kLm2nOp5qRs8tUv1wXy4z")
        """
    )
    tools.record()

    result = tools.run()

    result.assert_outcomes(passed=1)
    [compaction] = [step for step in steps_of(tools) if step["kind"] == "compaction"]
    assert compaction["lane"] == "@a"
    assert compaction["summary"] == "the key is [redacted:openai-key]"


def test_a_note_in_a_run_that_asks_nothing_leaves_no_file(tools: Suite) -> None:
    tools.write(
        """
        import pytest

        @pytest.mark.agent_cassette
        def test_it(agent_run):
            agent_run.compaction(summary="nothing happened")
        """
    )

    result = tools.run("--record-mode=once")

    result.assert_outcomes(passed=1)
    assert tools.cassettes() == []
