"""What becomes of tool calls: replayed, live or refused, known or unknown, in every record mode."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.openai import call, completion
from tests.support.server import Answer, Seen, answer_json
from tests.support.suite import Provider, Suite, effects, failure, said

TOOLS = """
from pathlib import Path
from pytest_agentreplay import recorded_tool

EFFECTS = Path(__file__).with_name("effects.txt")
DEGREES = Path(__file__).with_name("degrees.txt")


def effect(what):
    with EFFECTS.open("a") as file:
        file.write(f"{what}\\n")


@recorded_tool
def weather(city, days=1):
    effect(f"weather {city}")
    return {"city": city, "degrees": int(DEGREES.read_text())}


@recorded_tool
def book(city):
    effect(f"book {city}")
    if DEGREES.read_text() == "99":
        raise ValueError("too hot")
    return "booked"
"""


@pytest.fixture
def tools(suite: Suite) -> Suite:
    """A suite beside a module of two recorded tools, whose weather a file tells."""
    suite.pytester.makepyfile(tools=TOOLS)
    degrees(suite, 20)
    return suite


def degrees(suite: Suite, count: int) -> None:
    (suite.path / "degrees.txt").write_text(str(count))


# An agent that looks the weather up, and asks the model with what it got.
AGENT = """
import pytest
from agent import ask
from tools import book, weather

@pytest.mark.agent_cassette(MARKER)
def test_it(agent_run):
    found = weather("Oslo")
    ask(f"It has {found['degrees']} degrees in Oslo.")
    book("Oslo")
"""


@pytest.mark.parametrize(
    ("marker", "done"),
    [
        ("", []),
        ("tools='replay'", []),
        ("tools='live'", ["weather Oslo", "book Oslo"]),
        ("tools={'weather': 'live'}", ["weather Oslo"]),
        ("tools={'*': 'live', 'weather': 'replay'}", ["book Oslo"]),
        ("tools={'weather': 'replay', 'other': 'live'}", []),
    ],
)
def test_a_tool_runs_in_replay_only_where_the_test_says_so(
    tools: Suite, provider: Provider, marker: str, done: list[str]
) -> None:
    tools.write(AGENT.replace("(MARKER)", ""))
    tools.record()
    provider.stop()
    before = len(effects(tools))
    tools.write(AGENT.replace("MARKER", marker))

    result = tools.run()

    result.assert_outcomes(passed=1)
    assert effects(tools)[before:] == done


def test_the_mode_may_come_from_the_fixture_of_settings(tools: Suite) -> None:
    tools.write(AGENT.replace("(MARKER)", ""))
    tools.record()
    tools.pytester.makeconftest(
        """
        import pytest

        @pytest.fixture(scope="session")
        def agent_config():
            return {"tools": "refuse"}
        """
    )

    result = tools.run()

    result.assert_outcomes(failed=1)
    assert failure(result).startswith("ToolRefusedError: Tool refused: weather was called")


@pytest.mark.parametrize("mode", ["once", "none"])
@pytest.mark.parametrize("marker", ["tools='refuse'", "tools={'weather': 'refuse'}"])
def test_a_refused_tool_fails_the_test_even_when_the_agent_swallows_it(tools: Suite, marker: str, mode: str) -> None:
    tools.write(AGENT.replace("(MARKER)", ""))
    if mode == "none":
        tools.record()
    before = effects(tools)
    swallowing = """\
    try:
        weather("Oslo")
    except BaseException:
        found = {"degrees": 20}
"""
    tools.write(AGENT.replace("MARKER", marker).replace('    found = weather("Oslo")\n', swallowing))

    result = tools.run(f"--record-mode={mode}")

    result.assert_outcomes(failed=1)
    text = failure(result)
    assert "Tool refused: weather was called, and this test lets none be called (tools='refuse')." in text
    assert "  test      test_it.py::test_it" in text
    assert "  called    test_it.py:8 in test_it" in text
    assert effects(tools) == before


@pytest.mark.parametrize("value", ["'never'", "{'weather': 'sometimes'}", "3", "['replay']"])
def test_a_mode_that_there_is_not_is_refused_at_collection(tools: Suite, value: str) -> None:
    tools.write(AGENT.replace("MARKER", f"tools={value}"))

    result = tools.run()

    assert result.ret in (pytest.ExitCode.INTERRUPTED, pytest.ExitCode.USAGE_ERROR)
    assert "is not one of replay, live, refuse" in result.stdout.str() + result.stderr.str()


def test_a_live_tool_that_says_something_else_is_named_as_the_cause_of_the_divergence(tools: Suite) -> None:
    tools.write(AGENT.replace("(MARKER)", ""))
    tools.record()
    tools.write(AGENT.replace("MARKER", "tools='live'"))
    degrees(tools, -3)

    result = tools.run()

    result.assert_outcomes(failed=1)
    lines = failure(result).splitlines()
    assert lines[0].startswith("ReplayDivergenceError: Request changed: ")
    cause = lines.index("  cause     the live tool weather gave another result than was recorded")
    assert lines[cause + 1 : cause + 3] == [
        '            recorded: {"city": "Oslo", "degrees": 20}',
        '            now:      {"city": "Oslo", "degrees": -3}',
    ]
    assert '        recorded: "It has 20 degrees in Oslo."' in lines


def test_a_live_tool_that_fails_now_is_a_cause_too(tools: Suite) -> None:
    test = """
    import pytest
    from agent import ask
    from tools import book

    @pytest.mark.agent_cassette(tools="live")
    def test_it():
        try:
            said = book("Oslo")
        except ValueError as error:
            said = str(error)
        ask(said)
    """
    tools.write(test)
    tools.record()
    degrees(tools, 99)

    result = tools.run()

    result.assert_outcomes(failed=1)
    text = failure(result)
    assert "cause     the live tool book gave another result than was recorded" in text
    assert 'recorded: "booked"' in text
    assert 'now:      {"error": "builtins:ValueError: too hot"}' in text


def test_a_live_tool_that_says_something_else_that_nobody_heeds_is_no_failure(tools: Suite) -> None:
    test = AGENT.replace("{found['degrees']}", "some")
    tools.write(test.replace("(MARKER)", ""))
    tools.record()
    tools.write(test.replace("MARKER", "tools='live'"))
    degrees(tools, -3)

    result = tools.run()

    result.assert_outcomes(passed=1)


def test_a_live_tool_may_be_called_otherwise_than_recorded_or_not_at_all(tools: Suite) -> None:
    tools.write(AGENT.replace("(MARKER)", ""))
    tools.record()
    source = AGENT.replace("MARKER", "tools='live'").replace('weather("Oslo")', 'weather("Oslo", days=3)')
    tools.write(source.replace('    book("Oslo")\n', ""))

    result = tools.run()

    result.assert_outcomes(passed=1)


def test_what_a_live_tool_requests_is_answered_from_the_tape(tools: Suite, provider: Provider) -> None:
    tools.write(
        """
        import pytest
        from agent import get
        from pytest_agentreplay import recorded_tool
        from tools import effect

        @recorded_tool
        def rate():
            effect("rate")
            return get("/rates/EUR")

        @pytest.mark.agent_cassette(tools="live")
        def test_it():
            assert rate() == "/rates/EUR"
        """
    )
    tools.record()
    provider.stop()

    result = tools.run()

    result.assert_outcomes(passed=1)
    assert effects(tools) == ["rate", "rate"]


CALLS = """
import pytest
from tools import book, weather

@pytest.mark.agent_cassette
def test_it():
    weather("Oslo")
    weather("Rome", days=3)
    CHANGE
    weather("Lima")
"""


def replayed_with(tools: Suite, change: str) -> str:
    """Record the calls, change them, and return the report of the replay."""
    tools.write(CALLS.replace("CHANGE", "pass"))
    tools.record()
    before = effects(tools)
    tools.write(CALLS.replace("CHANGE", change))
    result = tools.run()
    result.assert_outcomes(failed=1)
    assert effects(tools) == before
    return failure(result)


def test_a_call_with_other_arguments_is_reported_with_what_changed(tools: Suite) -> None:
    report = replayed_with(tools, "weather('Lisbon')")

    assert report.splitlines() == [
        "ReplayDivergenceError: Tool call changed: call 3 is not in the recording.",
        "",
        "  test      test_it.py::test_it",
        "  cassette  cassettes/test_it/test_it.jsonl",
        "  called    test_it.py:8 in test_it",
        '  asked     tool weather({"city": "Lisbon"})',
        "  nearest   tool weather, 95% alike",
        "",
        "  what changed, recorded → now:",
        "    tool arguments",
        "      $.city",
        '        recorded: "Lima"',
        '        now:      "Lisbon"',
        "",
        "  recorded  1 tool weather, 2 tool weather, ▶ 3 tool weather",
        "  now       1 tool weather, 2 tool weather, ▶ 3 tool weather",
        "",
        "  If the change is meant, record again: pytest test_it.py::test_it --record-mode=rewrite",
    ]


def test_a_tool_that_was_never_recorded_is_reported_as_such(tools: Suite) -> None:
    report = replayed_with(tools, "book('Oslo')")

    assert "Additional tool call: call 3 is not in the recording." in report
    assert '  asked     tool book({"city": "Oslo"})' in report
    assert "  nearest   none: no recorded call of book is left" in report


def test_a_call_more_than_recorded_is_reported_as_exhausted(tools: Suite) -> None:
    report = replayed_with(tools, "weather('Oslo')")

    assert report.startswith(
        "ReplayDivergenceError: Recording exhausted: wants call 2 of a tool call, only 1 was recorded."
    )


def test_a_call_that_is_not_made_any_more_is_reported_as_unplayed(tools: Suite) -> None:
    report = replayed_with(tools, "return")

    assert "Unplayed: 1 recorded step was not asked for by the end of the call." in report
    assert "    step 3: tool weather (call)" in report


def test_an_unknown_call_fails_the_test_even_when_the_agent_swallows_it(tools: Suite) -> None:
    report = replayed_with(tools, "\n    try: weather('Bonn')\n    except BaseException: pass")

    assert "Tool call changed" in report


def test_a_call_without_a_cassette_names_the_command_that_records_it(tools: Suite) -> None:
    tools.write(CALLS.replace("CHANGE", "pass"))

    result = tools.run()

    result.assert_outcomes(failed=1)
    text = failure(result)
    assert "No cassette: the run made a tool call, and nothing is recorded for this test." in text
    assert '  asked     tool weather({"city": "Oslo"})' in text
    assert "  Record it: pytest test_it.py::test_it --record-mode=once" in text
    assert effects(tools) == []


def test_tools_may_be_called_in_another_order_than_recorded(tools: Suite) -> None:
    tools.write(CALLS.replace("CHANGE", "pass"))
    tools.record()
    lines = CALLS.replace("CHANGE", "pass").splitlines()
    tools.write("\n".join([*lines[:6], *reversed(lines[6:])]))

    result = tools.run()

    result.assert_outcomes(passed=1)


def test_a_cassette_of_tools_alone_is_written_and_named_in_the_summary(tools: Suite) -> None:
    tools.write(CALLS.replace("CHANGE", "pass"))

    recorded = tools.record()
    replayed = tools.run()

    assert said(recorded) == [
        "agent cassettes: 1 recorded (3 tool calls)",
        "  recorded cassettes/test_it/test_it.jsonl",
    ]
    assert said(replayed) == ["agent cassettes: 1 replayed (3 tool calls)"]
    assert tools.cassettes() == ["cassettes/test_it/test_it.jsonl"]


def test_the_summary_counts_requests_and_tool_calls(tools: Suite) -> None:
    tools.write(AGENT.replace("(MARKER)", ""))

    recorded = tools.record()
    replayed = tools.run()

    assert said(recorded)[0] == "agent cassettes: 1 recorded (1 request, 2 tool calls)"
    assert said(replayed) == ["agent cassettes: 1 replayed (1 request, 2 tool calls)"]


def test_a_failing_test_of_tools_alone_leaves_its_cassette(tools: Suite) -> None:
    tools.write(CALLS.replace("CHANGE", "assert False"))

    result = tools.run("--record-mode=once")

    result.assert_outcomes(failed=1)
    assert said(result)[0] == "agent cassettes: 1 recorded (2 tool calls)"
    assert tools.lines()[-1]["outcome"] == "failed"


POLICY = """
class Allow:
    def decide(self, tool, arguments):
        from pytest_agentreplay import Decision
        return Decision("allow", "because")
"""


def test_new_episodes_keeps_what_is_known_and_adds_what_is_not(tools: Suite, provider: Provider) -> None:
    test = AGENT.replace("(MARKER)", "").replace(
        "    found = weather", "    agent_run.use_policy(Allow())\n    found = weather"
    )
    tools.write(POLICY + test)
    tools.record()
    first = tools.lines()
    tools.write(POLICY + test + "    book('Rome')\n")

    result = tools.run("--record-mode=new_episodes")

    result.assert_outcomes(passed=1)
    assert effects(tools) == ["weather Oslo", "book Oslo", "book Rome"]
    assert len(provider.seen) == 1
    again = tools.lines()
    known = [json.dumps(line) for line in again]
    assert all(json.dumps(line) in known for line in first if line["kind"] in ("tool", "permission", "model"))
    assert [line["kind"] for line in again].count("permission") == 3
    assert tools.run().ret == pytest.ExitCode.OK


def test_new_episodes_that_finds_nothing_new_leaves_the_file_as_it_is(tools: Suite, provider: Provider) -> None:
    tools.write(
        """
        import pytest
        from agent import get
        from pytest_agentreplay import recorded_tool
        from tools import weather

        @recorded_tool
        def rate():
            return get("/rates/EUR")

        @recorded_tool(subagent=True)
        def plan():
            return get("/plan")

        @pytest.mark.agent_cassette
        def test_it(agent_run):
            weather("Oslo")
            rate()
            plan()
        """
    )
    tools.record()
    before = tools.cassette().read_bytes()
    provider.stop()

    result = tools.run("--record-mode=new_episodes")

    assert said(result) == ["agent cassettes: 1 replayed (2 requests, 3 tool calls)"]
    assert tools.cassette().read_bytes() == before


def test_new_episodes_drops_a_call_that_is_not_made_any_more_and_says_so(tools: Suite) -> None:
    tools.write(CALLS.replace("CHANGE", "pass"))
    tools.record()
    tools.write(CALLS.replace("CHANGE", "return"))

    result = tools.run("--record-mode=new_episodes")

    result.assert_outcomes(passed=1)
    assert "dropped what was not played: tool weather" in said(result)[1]
    assert [line["arguments"]["city"] for line in tools.lines() if line["kind"] == "tool"] == ["Oslo", "Rome"]


def test_rewrite_runs_every_tool_again(tools: Suite) -> None:
    tools.write(CALLS.replace("CHANGE", "pass"))
    tools.record()

    result = tools.run("--record-mode=rewrite")

    result.assert_outcomes(passed=1)
    assert effects(tools) == ["weather Oslo", "weather Rome", "weather Lima"] * 2


KILLED = """
import os
import pytest
from agent import ask, get
from pytest_agentreplay import recorded_tool
from tools import effect, weather

@recorded_tool
def rate():
    effect("rate")
    found = get("/rates/EUR")
    if os.environ.get("DIE") == "inside":
        os._exit(9)
    return found

@recorded_tool(subagent=True)
def plan():
    effect("plan")
    return get("/plan")

@pytest.mark.agent_cassette
def test_it(agent_run):
    weather("Oslo")
    ask("one")
    weather("Oslo")
    plan()
    rate()
    if os.environ.get("DIE") == "after":
        os._exit(9)
    weather("Oslo")
    ask("two")
    assert agent_run.tools_called == ["weather", "weather", "plan", "rate", "weather"]
"""


@pytest.mark.parametrize("where", ["inside", "after"])
def test_an_interrupted_recording_with_tools_is_resumed_and_asks_and_does_nothing_twice(
    tools: Suite, provider: Provider, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    tools.write(KILLED)
    monkeypatch.setenv("DIE", where)
    killed = tools.run_apart("--record-mode=once")
    refused = tools.run("-k", "test_it")
    killed_again = tools.run_apart("--record-mode=once")
    monkeypatch.delenv("DIE")

    resumed = tools.run("--record-mode=once")

    assert (killed.ret, killed_again.ret) == (9, 9)
    assert "its recording was never finished" in failure(refused)
    resumed.assert_outcomes(passed=1)
    assert "resumed from an unfinished recording of" in said(resumed)[1]
    assert effects(tools).count("weather Oslo") == 3
    assert effects(tools).count("rate") == (3 if where == "inside" else 1)  # it never came to its end
    paths = [seen.path for seen in provider.seen]
    assert sorted(paths) == ["/plan", "/rates/EUR", *["/v1/chat/completions"] * 2]
    assert tools.cassettes() == ["cassettes/test_it/test_it.jsonl"]
    provider.stop()
    replayed = tools.run()
    assert said(replayed) == ["agent cassettes: 1 replayed (3 requests, 5 tool calls)"]


def test_a_resumed_recording_is_the_one_that_was_never_interrupted(
    tools: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools.write(KILLED)
    tools.record()
    whole = tools.cassette().read_bytes().splitlines()
    tools.cassette().unlink()
    monkeypatch.setenv("DIE", "after")
    tools.run_apart("--record-mode=once")
    monkeypatch.delenv("DIE")

    tools.run("--record-mode=once").assert_outcomes(passed=1)

    assert tools.cassette().read_bytes().splitlines()[1:-1] == whole[1:-1]


def test_rules_that_change_derive_the_hashes_of_calls_anew(tools: Suite) -> None:
    tools.write(CALLS.replace("CHANGE", "pass"))
    tools.record()
    tools.ini("agent_redact_patterns = Rome")

    result = tools.run()

    result.assert_outcomes(passed=1)


PLAIN_LOOP = """
import json
import pytest
from agent import CLIENT, URL, body
from tools import weather

@pytest.mark.agent_cassette
def test_it(agent_run):
    messages = [{"role": "user", "content": "How is it?"}]
    while True:
        message = CLIENT.post(URL, json=body(*messages)).json()["choices"][0]["message"]
        messages.append(message)
        if not message.get("tool_calls"):
            break
        for call in message["tool_calls"]:
            arguments = json.loads(call["function"]["arguments"])
            found = weather(**arguments) if call["function"]["name"] == "weather" else {"twice": arguments["n"] * 2}
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": json.dumps(found)})
    assert agent_run.tools_called == ["double", "weather", "double", "double"]
    assert [step.source for step in agent_run.tool_steps] == ["transcript", "wrapped", "transcript", "transcript"]
    assert [step.tool_use_id for step in agent_run.tool_steps] == ["c1", "c2", "c1", "c3"]
    assert [step.arguments for step in agent_run.tool_calls("double")] == [{"n": 1}, {"n": 2}, {"n": 3}]
    assert [json.loads(step.result) for step in agent_run.tool_calls("double")] == [{"twice": n} for n in (2, 4, 6)]
    assert agent_run.tool_calls("weather")[0].result == {"city": "Oslo", "degrees": 20}
    assert agent_run.tool_calls("nothing") == []
"""


def test_tools_that_nobody_wrapped_are_told_by_the_conversation_in_openais_format(
    tools: Suite, provider: Provider
) -> None:
    answers = [
        completion(None, tool_calls=[call("c1", "double", n=1)]),
        completion(None, tool_calls=[call("c2", "weather", city="Oslo"), call("c1", "double", n=2)]),
        completion(None, tool_calls=[call("c3", "double", n=3)]),
        completion("fine"),
    ]

    def respond(seen: Seen) -> Answer:
        return answer_json(answers[sum(message["role"] == "assistant" for message in seen.json()["messages"])])

    provider.respond = respond
    tools.write(PLAIN_LOOP)
    recorded = tools.record()
    provider.stop()

    replayed = tools.run()

    recorded.assert_outcomes(passed=1)
    replayed.assert_outcomes(passed=1)
    assert [line["kind"] for line in tools.lines()].count("tool") == 1


def test_tools_that_nobody_wrapped_are_told_by_the_conversation_in_anthropics_format(
    tools: Suite, provider: Provider
) -> None:
    def block(**fields: Any) -> dict[str, Any]:
        return {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "claude",
            "content": [fields],
            "stop_reason": "tool_use" if fields["type"] == "tool_use" else "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }

    answers = [
        block(type="tool_use", id="t1", name="double", input={"n": 4}),
        block(type="tool_use", id="t2", name="fail", input={}),
        block(type="text", text="fine"),
    ]
    provider.respond = lambda seen: answer_json(answers[len(seen.json()["messages"]) // 2])
    tools.write(
        """
        import os
        import pytest
        from agent import CLIENT

        @pytest.mark.agent_cassette
        def test_it(agent_run):
            messages = [{"role": "user", "content": "How is it?"}]
            while True:
                body = {"model": "claude", "max_tokens": 10, "messages": messages}
                answer = CLIENT.post(os.environ["PROVIDER_URL"] + "/v1/messages", json=body).json()
                messages.append({"role": "assistant", "content": answer["content"]})
                uses = [block for block in answer["content"] if block["type"] == "tool_use"]
                if not uses:
                    break
                results = [{"type": "tool_result", "tool_use_id": use["id"], "content": "8",
                            "is_error": use["name"] == "fail"} for use in uses]
                messages.append({"role": "user", "content": results})
            found = [(step.name, step.arguments, step.result, step.is_error, step.tool_use_id, step.source)
                     for step in agent_run.tool_steps]
            assert found == [("double", {"n": 4}, "8", False, "t1", "transcript"),
                             ("fail", {}, "8", True, "t2", "transcript")]
            assert agent_run.tools_called == ["double", "fail"]
        """
    )
    tools.record()
    provider.stop()

    result = tools.run()

    result.assert_outcomes(passed=1)


def test_equal_calls_may_be_made_more_often_than_recorded_where_the_test_says_so(tools: Suite) -> None:
    test = """
    import pytest
    from agent import get
    from pytest_agentreplay import recorded_tool
    from tools import effect, weather

    @recorded_tool(subagent=True)
    def plan():
        effect("plan")
        return get("/plan")

    @pytest.mark.agent_cassette(MARKER)
    def test_it(agent_run):
        for _ in range(TIMES):
            assert (weather("Oslo")["degrees"], plan()) == (20, "/plan")
        assert agent_run.tools_called == ["weather", "plan"] * TIMES
    """
    tools.write(test.replace("MARKER", "").replace("TIMES", "1"))
    tools.record()
    tools.write(test.replace("MARKER", "allow_repeats=True").replace("TIMES", "3"))

    result = tools.run()

    result.assert_outcomes(passed=1)
    assert effects(tools) == ["weather Oslo", "plan", "plan", "plan", "plan"]


def test_tools_of_a_fixture_that_outlives_the_test_are_recorded_with_the_fixture(tools: Suite) -> None:
    tools.write(
        """
        import pytest
        from tools import book, weather

        @pytest.fixture(scope="module")
        def oslo():
            yield weather("Oslo")
            book("Oslo")

        @pytest.fixture
        def rome():
            yield weather("Rome")
            book("Rome")

        @pytest.mark.agent_cassette
        @pytest.mark.parametrize("number", [1, 2])
        def test_it(oslo, rome, number):
            assert (oslo["degrees"], rome["degrees"]) == (20, 20)
        """
    )
    recorded = tools.record()
    done = effects(tools)
    degrees(tools, 99)

    replayed = tools.run()

    recorded.assert_outcomes(passed=2)
    replayed.assert_outcomes(passed=2)
    assert effects(tools) == done
    assert len(done) == 6
    assert [line["name"] for line in tools.lines("test_it/fixture.oslo.jsonl") if line["kind"] == "tool"] == ["weather"]
    phases = [line.get("phase") for line in tools.lines("test_it/test_it[1].jsonl") if line["kind"] == "tool"]
    assert phases == ["setup", "teardown"]
