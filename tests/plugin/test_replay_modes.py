"""``warn`` and ``hybrid``: what replay does with what the recording does not have, conversation by conversation."""

from __future__ import annotations

import pytest

from tests.support.suite import Provider, Suite

# Two turns of one conversation, then one of another.
TALK = """
import agent
import pytest

PROMPT = "be brief"


@pytest.mark.agent_cassette
def test_it(agent_run):
    system = {"role": "system", "content": PROMPT}
    first = agent.ask(system, "one")
    second = agent.ask(system, "one", {"role": "assistant", "content": first}, "two")
    other = agent.ask("elsewhere")
    print("SAID", first, second, other)
"""
CHANGED = TALK.replace("be brief", "be polite")


def warnings_of(result: pytest.RunResult) -> str:
    """Return what stands in the summary of warnings."""
    return result.stdout.str().partition("= warnings summary =")[2]


def test_warn_serves_what_was_recorded_and_never_connects(suite: Suite, provider: Provider) -> None:
    suite.write(TALK)
    suite.record()
    suite.write(CHANGED)
    before, asked = suite.cassette().read_bytes(), provider.server.connections

    result = suite.run("--agent-replay=warn", "-s")

    result.assert_outcomes(passed=1, warnings=1)
    result.stdout.fnmatch_lines(["*SAID echo: one echo: two echo: elsewhere*"])
    assert provider.server.connections == asked
    assert suite.cassette().read_bytes() == before


def test_warn_tells_each_change_once_and_what_was_served(suite: Suite) -> None:
    suite.write(TALK)
    suite.record()
    suite.write(CHANGED)

    told = warnings_of(suite.run("--agent-replay=warn"))

    assert told.count("ReplayDivergenceWarning") == 1
    assert "$.messages[0].content" in told
    assert 'recorded: "be brief"' in told
    assert 'now:      "be polite"' in told
    assert "served    this recorded answer, in its place" in told


def test_warn_tells_of_a_second_change_too(suite: Suite) -> None:
    suite.write(TALK)
    suite.record()
    suite.write(CHANGED.replace('"two")', '"zwei")'))

    told = warnings_of(suite.run("--agent-replay=warn"))

    assert told.count("ReplayDivergenceWarning") == 2
    assert told.count("be polite") == 1
    assert "zwei" in told


def test_warn_fails_where_nothing_recorded_is_left_of_the_conversation(suite: Suite, provider: Provider) -> None:
    suite.write(TALK)
    suite.record()
    suite.write(
        CHANGED + '    agent.ask(system, "one", {"role": "assistant", "content": first}, "two",\n'
        '              {"role": "assistant", "content": second}, "three")\n'
    )
    asked = provider.server.connections

    result = suite.run("--agent-replay=warn")

    result.assert_outcomes(failed=1, warnings=1)
    result.stdout.fnmatch_lines(["*ReplayDivergenceError: Additional request: call 4 is not in the recording.*"])
    assert provider.server.connections == asked


def test_warn_warns_of_steps_that_were_left(suite: Suite) -> None:
    suite.write(TALK)
    suite.record()
    suite.write(TALK.replace('agent.ask("elsewhere")', "None"))

    result = suite.run("--agent-replay=warn")

    result.assert_outcomes(passed=1, warnings=1)
    assert "1 recorded step was not asked for" in warnings_of(result)


def test_warnings_of_a_test_that_fails_anyway_are_shown(suite: Suite) -> None:
    suite.write(TALK)
    suite.record()
    suite.write(CHANGED + "    assert not first\n")

    result = suite.run("--agent-replay=warn")

    result.assert_outcomes(failed=1, warnings=1)


TOOLS = """
import pytest
from pytest_agentreplay import recorded_tool

RAN = []


@recorded_tool
def weather(city):
    RAN.append(city)
    return f"sun in {city}"


@pytest.mark.agent_cassette
def test_it(agent_run):
    print("SAID", weather("Rome"), weather("Oslo"), "RAN", RAN)
"""


def test_warn_gives_the_next_result_of_a_tool_that_is_called_with_other_arguments(suite: Suite) -> None:
    suite.write(TOOLS)
    suite.record()
    suite.write(TOOLS.replace('weather("Rome")', 'weather("Roma")'))

    result = suite.run("--agent-replay=warn", "-s")

    result.assert_outcomes(passed=1, warnings=1)
    result.stdout.fnmatch_lines(["*SAID sun in Rome sun in Oslo RAN [[][]]*"])
    assert 'now:      "Roma"' in warnings_of(result)


def test_hybrid_goes_live_from_the_first_miss_of_a_conversation_and_in_no_other(
    suite: Suite, provider: Provider
) -> None:
    suite.write(TALK)
    suite.record()
    suite.write(
        TALK.replace('"two")', '"zwei")') + '    third = agent.ask("elsewhere", {"role": "assistant", '
        '"content": other}, "more")\n    print("THEN", third)\n'
    )
    before, seen = suite.cassette().read_bytes(), len(provider.seen)

    result = suite.run("--agent-replay=hybrid", "-s")

    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*SAID echo: one echo: zwei echo: elsewhere*", "*THEN echo: more*"])
    asked = [request.json()["messages"][-1]["content"] for request in provider.seen[seen:]]
    assert asked == ["zwei", "more"]
    assert suite.cassette().read_bytes() == before


def test_a_conversation_that_has_gone_live_stays_live(suite: Suite, provider: Provider) -> None:
    suite.write(TALK)
    suite.record()
    suite.write(
        TALK.replace('first = agent.ask(system, "one")', 'first = agent.ask(system, "uno")\n    first = "echo: one"')
    )
    seen = len(provider.seen)

    suite.run("--agent-replay=hybrid")

    asked = [request.json()["messages"][-1]["content"] for request in provider.seen[seen:]]
    assert asked[0] == "uno"
    assert "elsewhere" not in asked


def test_hybrid_leaves_a_tape_of_its_own_that_names_its_origin(suite: Suite) -> None:
    suite.write(TALK)
    suite.record()
    origin = suite.lines()[-1]["run_id"]
    suite.write(TALK.replace('"two")', '"zwei")'))

    result = suite.run("--agent-replay=hybrid")

    result.stdout.fnmatch_lines(
        [
            "agent cassettes: 1 continued (2 requests)",
            "  went on live from cassettes/test_it/test_it.jsonl: cassettes/test_it/test_it.replay.jsonl (1 made)",
        ]
    )
    lines = suite.lines("test_it/test_it.replay.jsonl")
    assert lines[0]["replay_of"] == origin
    assert [line["kind"] for line in lines].count("model") == 3
    assert suite.cassettes() == ["cassettes/test_it/test_it.jsonl", "cassettes/test_it/test_it.replay.jsonl"]


def test_hybrid_without_a_miss_leaves_nothing_behind(suite: Suite) -> None:
    suite.write(TALK)
    suite.record()

    result = suite.run("--agent-replay=hybrid")

    result.stdout.fnmatch_lines(["agent cassettes: 1 replayed (3 requests)"])
    assert suite.cassettes() == ["cassettes/test_it/test_it.jsonl"]


def test_hybrid_without_a_miss_minds_what_is_left_unplayed(suite: Suite) -> None:
    suite.write(TALK)
    suite.record()
    suite.write(TALK.replace('agent.ask("elsewhere")', "None"))

    suite.run("--agent-replay=hybrid").assert_outcomes(failed=1)


def test_hybrid_stops_at_a_host_that_is_not_allowed(suite: Suite, provider: Provider) -> None:
    suite.write(TALK)
    suite.record()
    suite.write(
        CHANGED.replace("@pytest.mark.agent_cassette", "@pytest.mark.agent_cassette(hosts=['api.example.com'])")
        + "\n\n@pytest.fixture(scope='session')\ndef agent_config():\n    return {'loopback': False}\n"
    )
    asked = provider.server.connections

    result = suite.run("--agent-replay=hybrid")

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*NetworkBlockedError*"])
    assert provider.server.connections == asked


def test_hybrid_runs_a_tool_that_is_called_with_other_arguments_and_no_other(suite: Suite) -> None:
    suite.write(TOOLS)
    suite.record()
    suite.write(TOOLS.replace('weather("Rome")', 'weather("Roma")'))

    result = suite.run("--agent-replay=hybrid", "-s")

    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*SAID sun in Roma sun in Oslo RAN [[]'Roma'[]]*"])


def test_the_tape_of_a_hybrid_run_is_no_cassette_that_a_test_must_ask_for(suite: Suite) -> None:
    suite.write(TALK)
    suite.record()
    suite.write(CHANGED)
    suite.run("--agent-replay=hybrid").assert_outcomes(passed=1)
    suite.write(TALK)

    suite.run().assert_outcomes(passed=1)
