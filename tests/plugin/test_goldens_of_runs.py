"""Goldens of every kind of run: the same while recording and in replay, and when it is recorded anew."""

from __future__ import annotations

import random
import uuid
from dataclasses import replace
from typing import Any

import pytest

from tests.support import anthropic
from tests.support.openai import chat_answer, chat_stream, completion
from tests.support.server import Answer, Seen, answer_json
from tests.support.suite import Provider, Suite

RUNS = """
import asyncio
import json
import pytest
from agent import CLIENT, URL, ask, body, said, user
from pytest_agentreplay import Decision, recorded_tool

@pytest.fixture(autouse=True)
def goldens(agent_run, event_snapshot, mermaid_snapshot):
    yield
    assert agent_run.events == event_snapshot
    assert agent_run.mermaid() == mermaid_snapshot
    assert agent_run.mermaid(style="sequence") == mermaid_snapshot(name="sequence")

pytestmark = pytest.mark.agent_cassette

@recorded_tool
def add(a, b):
    return a + b

@recorded_tool
def charge(cents):
    if cents > 100:
        raise ValueError(f"{cents} is too much")
    return {"charged": cents}

def subtract(a, b):
    return a - b

TOOLS = {"add": add, "charge": charge, "subtract": subtract}

def run_tool(call):
    function = call["function"]
    try:
        result = TOOLS[function["name"]](**json.loads(function["arguments"]))
    except Exception as error:
        result = f"{type(error).__name__}: {error}"
    return {"role": "tool", "tool_call_id": call["id"], "content": json.dumps(result)}

def loop(text):
    messages = [user(text)]
    while True:
        message = CLIENT.post(URL, json=body(*messages)).json()["choices"][0]["message"]
        messages.append(message)
        if not message.get("tool_calls"):
            return message["content"]
        messages += map(run_tool, message["tool_calls"])

def test_plain():
    ask("one")
    ask("one", {"role": "assistant", "content": "echo: one"}, "two\\nlines")

def test_streamed():
    with CLIENT.stream("POST", URL, json=body("one", stream=True)) as response:
        response.read()

@pytest.mark.parametrize("stream", [False, True])
def test_anthropic(stream):
    asked = {"model": "claude", "max_tokens": 9, "messages": [user("one")], "stream": stream}
    CLIENT.post(URL.replace("chat/completions", "messages"), json=asked)

def test_wrapped_tools():
    loop('call add {"a": 1, "b": 2} and add {"a": 3, "b": 4} and add {"a": 1, "b": 2}')

def test_unwrapped_tools():
    loop('call subtract {"a": 1, "b": 2} and add {"a": 3, "b": 4}')

def test_tool_errors():
    loop('call charge {"cents": 101} and charge {"cents": 100} and nothing {}')
    with pytest.raises(ValueError):
        charge(1000)

class Careful:
    def decide(self, tool, arguments):
        return Decision(("allow", "ask", "deny")[min(arguments["cents"] // 10, 2)], "money")

def test_policies(agent_run):
    agent_run.use_policy(Careful(), approve=lambda tool, arguments: arguments["cents"] == 10)
    loop('call charge {"cents": 1} and charge {"cents": 10} and charge {"cents": 11} and charge {"cents": 99}')

def test_named_lanes(agent_run):
    with agent_run.lane("writer"):
        ask("write")
    with agent_run.lane("critic"):
        loop('call add {"a": 1, "b": 2}')
    ask("sum up")

@recorded_tool(subagent=True)
async def research(topic):
    return await asyncio.to_thread(loop, f'look at {topic}, call add {{"a": 1, "b": 1}}')

def test_sub_agents():
    async def both():
        return await asyncio.gather(research("tea"), research("pots"))
    ask("plan")
    asyncio.run(both())

@recorded_tool
def consult(topic):
    return ask(f"what of {topic}?")

def test_a_tool_that_asks():
    ask("plan")
    consult("tea")

def test_compaction(agent_run):
    ask("one")
    agent_run.compaction(tokens_before=9000, tokens_after=40, summary=ask("sum up"), dropped_messages=2)
    ask("on")

@pytest.mark.agent_cassette(tools={"add": "live"})
def test_live_tools():
    loop('call add {"a": 1, "b": 2} and charge {"cents": 1}')

def test_provider_errors():
    CLIENT.post(URL, json=body("fail"))
    ask("again")
"""


def respond(seen: Seen) -> Answer:
    """Answer as the last message of the user wants: with calls of tools, whose ids are never the same, or an echo."""
    asked = seen.json()
    if seen.path.endswith("/messages"):
        return anthropic.echo(seen)
    last = asked["messages"][-1]
    _, is_asked, calls = str(last["content"]).partition("call ")
    if last["role"] == "user" and is_asked:
        return answer_json(completion(None, tool_calls=[_call(text) for text in calls.split(" and ")]))
    if last["content"] == "fail":
        return answer_json({"error": {"message": "too busy"}, "request_id": uuid.uuid4().hex}, status=429)
    text = f"echo: {last['content']}"
    return chat_stream([text[:3], text[3:]]) if asked.get("stream") else chat_answer(text)


def _call(text: str) -> dict[str, Any]:
    name, _, arguments = text.partition(" ")
    return {"id": f"call_{uuid.uuid4().hex}", "type": "function", "function": {"name": name, "arguments": arguments}}


def goldens(suite: Suite) -> dict[str, str]:
    """Return the goldens of the suite by their file names."""
    return {path.name: path.read_text() for path in sorted((suite.path / "__snapshots__" / "test_it").glob("*"))}


def test_each_kind_of_run_has_the_golden_in_replay_that_it_had_while_it_was_recorded(
    suite: Suite, provider: Provider
) -> None:
    provider.respond = respond
    suite.write(RUNS)
    written = suite.run("--record-mode=once", "--snapshot-update")
    recorded_anew = suite.run("--record-mode=rewrite")
    provider.stop()

    replayed = suite.run()

    written.assert_outcomes(passed=14)
    recorded_anew.assert_outcomes(passed=14)
    replayed.assert_outcomes(passed=14)
    replayed.stdout.fnmatch_lines(["42 snapshots passed."])


def test_a_recording_that_goes_on_has_the_golden_of_the_whole_run(suite: Suite, provider: Provider) -> None:
    provider.respond = respond
    suite.write(RUNS.partition("def test_streamed")[0])
    suite.record("--snapshot-update")
    suite.write(RUNS.partition("def test_streamed")[0] + '    loop(\'call add {"a": 1, "b": 2}\')\n')
    extended = suite.run("--record-mode=new_episodes", "--snapshot-update")
    provider.stop()

    replayed = suite.run()

    extended.stdout.fnmatch_lines(["3 snapshots updated."])
    replayed.stdout.fnmatch_lines(["3 snapshots passed."])


# A model asks for four tools at once, then for three sub-agents at once, each of which asks for two tools at once.
AT_ONCE = """
import asyncio
import json
import random
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from agent import CLIENT, URL, body, user
from pytest_agentreplay import recorded_tool
from syrupy.filters import paths

PLAN = 'call weigh {"g": 1} and weigh {"g": 2} and drop {"g": 3} and weigh {"g": 2}'
AGENTS = 'call research {"topic": "tea"} and research {"topic": "pots"} and research {"topic": "TOPIC"}'

def pause():
    time.sleep(random.random() / 300)

@recorded_tool
def weigh(g):
    pause()
    return {"g": g}

@recorded_tool
def drop(g):
    pause()
    raise ValueError(f"{g} fell")

@recorded_tool(subagent=True)
def research(topic):
    return loop(f'{topic}: call weigh {{"g": 5}} and weigh {{"g": 6}}')[-1]["content"]

TOOLS = {"weigh": weigh, "drop": drop, "research": research}

def run_tool(call):
    pause()
    try:
        result = TOOLS[call["function"]["name"]](**json.loads(call["function"]["arguments"]))
    except ValueError as error:
        result = str(error)
    pause()
    return {"role": "tool", "tool_call_id": call["id"], "content": json.dumps(result)}

def in_threads(calls):
    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(run_tool, calls))

def in_tasks(calls):
    async def gather():
        return await asyncio.gather(*(asyncio.to_thread(run_tool, call) for call in calls))
    return asyncio.run(gather())

AT_ONCE = in_threads

def loop(text, before=()):
    messages = [*before, user(text)]
    while True:
        pause()
        message = CLIENT.post(URL, json=body(*messages)).json()["choices"][0]["message"]
        messages.append(message)
        if not message.get("tool_calls"):
            return messages
        messages += AT_ONCE(message["tool_calls"])

@pytest.mark.parametrize("number", range(RUNS))
@pytest.mark.parametrize("at_once", [in_threads, in_tasks])
@pytest.mark.agent_cassette
def test_it(agent_run, event_snapshot, mermaid_snapshot, monkeypatch, at_once, number):
    monkeypatch.setitem(globals(), "AT_ONCE", at_once)
    loop(AGENTS, before=loop(PLAN))
    assert len(agent_run.tools_called) == 4 + 3 + 3 * 2
    assert agent_run.events == event_snapshot(exclude=paths("0.name"))
    assert agent_run.mermaid() == mermaid_snapshot
    assert agent_run.mermaid(style="sequence") == mermaid_snapshot(name="sequence")
"""


@pytest.fixture
def late(suite: Suite, provider: Provider) -> Suite:
    """A suite whose provider answers sooner or later."""
    provider.respond = lambda seen: replace(respond(seen), delay=random.random() / 300)
    return suite


def test_fifty_runs_of_tools_and_sub_agents_at_once_have_one_golden(late: Suite, provider: Provider) -> None:
    late.write(AT_ONCE.replace("RUNS", "5").replace("TOPIC", "tea"))  # two sub-agents say the same, word for word
    recorded = late.run("--record-mode=once", "--snapshot-update")
    provider.stop()

    replayed = [late.run() for _ in range(4)]

    recorded.assert_outcomes(passed=10)
    for result in replayed:
        result.assert_outcomes(passed=10)
    assert len(goldens(late)) == 30
    assert len(set(goldens(late).values())) == 3


@pytest.mark.slow
@pytest.mark.parametrize("topic", ["cups", "tea"])
def test_two_hundred_recordings_and_replays_have_one_golden(late: Suite, provider: Provider, topic: str) -> None:
    late.write(AT_ONCE.replace("RUNS", "25").replace("TOPIC", topic))
    recorded = late.run("--record-mode=once", "--snapshot-update")
    recorded_anew = late.run("--record-mode=rewrite")
    provider.stop()

    replayed = [late.run() for _ in range(2)]

    for result in (recorded, recorded_anew, *replayed):
        result.assert_outcomes(passed=50)
    assert len(goldens(late)) == 150
    assert len(set(goldens(late).values())) == 3
