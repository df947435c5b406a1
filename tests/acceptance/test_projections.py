"""What is told of a real run: the same while it is recorded, in replay, from its file, and after a crash."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from pytest_agentreplay.cassette import Cassette, load_cassette, partial_path
from pytest_agentreplay.projections.event_text import write_events
from pytest_agentreplay.projections.events import event_stream
from pytest_agentreplay.projections.mermaid import render_mermaid
from pytest_agentreplay.projections.replayed import replay_events
from tests.support.openai import completion
from tests.support.server import Answer, Seen, answer_json
from tests.support.stories import SPECIFIED
from tests.support.suite import Provider, Suite

# The tools that a model asks for, by how many messages it has been sent.
CHARGE = {1: [("charge", {"amount": 5})]}
ORDERS = {1: [("look_up", {"order": 1}), ("look_up", {"order": 2})], 4: [("charge", {"amount": 5})]}

TEST = """
import json
import os
import signal
from pathlib import Path

import pytest
from agent import CLIENT, URL, body, user
from pytest_agentreplay import recorded_tool


def die_at(place):
    if os.environ.get("DIE_AT") == place:
        os.kill(os.getpid(), signal.SIGKILL)


@recorded_tool
def look_up(order):
    die_at(f"order {order}")
    return {"order": order, "paid": 5}


@recorded_tool
def charge(amount):
    return "charged"


def answer(messages):
    while True:
        message = CLIENT.post(URL, json=body(*messages)).json()["choices"][0]["message"]
        die_at(f"message {len(messages)}")
        messages.append(message)
        if not message.get("tool_calls"):
            return message["content"]
        for call in message["tool_calls"]:
            tool = {"look_up": look_up, "charge": charge}[call["function"]["name"]]
            found = tool(**json.loads(call["function"]["arguments"]))
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": json.dumps(found)})


@pytest.mark.agent_cassette
def test_it(agent_run):
    assert answer([user("go")]) == "Done."
    told = {"events": agent_run.events, "mermaid": agent_run.mermaid(), "sequence": agent_run.mermaid(style="sequence")}
    Path("told.json").write_text(json.dumps(told))
"""


def asking_for(tools: dict[int, list[tuple[str, Any]]]) -> Any:
    """Return a provider that asks for tools, and then is done."""

    def respond(seen: Seen) -> Answer:
        sent = len(seen.json()["messages"])
        calls = [
            {"id": f"c{sent}_{at}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
            for at, (name, arguments) in enumerate(tools.get(sent, ()))
        ]
        return answer_json(completion(None if calls else "Done.", tool_calls=calls))

    return respond


def told_by(run: Path) -> dict[str, Any]:
    told: dict[str, Any] = json.loads((run / "told.json").read_text())
    return told


def told_of(tape: Cassette) -> dict[str, Any]:
    return {
        "events": event_stream(tape),
        "mermaid": render_mermaid(tape),
        "sequence": render_mermaid(tape, style="sequence"),
    }


def test_the_specified_diagram_is_drawn_of_a_recorded_run(suite: Suite, provider: Provider) -> None:
    provider.respond = asking_for(CHARGE)
    suite.write(TEST)

    suite.record()
    recorded = told_by(suite.path)
    provider.stop()
    suite.run().assert_outcomes(passed=1)
    replayed = told_by(suite.path)

    assert recorded["mermaid"] == SPECIFIED
    assert recorded == replayed == told_of(load_cassette(suite.cassette()))


def without_open_arguments(events: list[Any]) -> list[Any]:
    """Return events without the arguments of calls, which a turn tells of as long as no tool's event does."""
    return [
        {**event, "calls": [{"id": call["id"], "name": call["name"]} for call in event.get("calls", ())]}
        for event in events
    ]


@pytest.mark.parametrize(
    ("place", "told"),
    [("message 1", ["turn"]), ("order 2", ["turn", "tool"])],
)
def test_a_run_that_is_killed_and_resumed_is_told_as_one_that_was_not(
    suite: Suite, provider: Provider, monkeypatch: pytest.MonkeyPatch, place: str, told: list[str]
) -> None:
    provider.respond = asking_for(ORDERS)
    suite.write(TEST)
    suite.record()
    whole = load_cassette(suite.cassette())
    suite.cassette().unlink()
    monkeypatch.setenv("DIE_AT", place)

    killed = suite.run_apart("--record-mode=once")
    part = load_cassette(partial_path(suite.cassette()), partial=True)
    monkeypatch.delenv("DIE_AT")
    suite.record()
    resumed = load_cassette(suite.cassette())

    assert killed.ret == -signal.SIGKILL
    assert replay_events(part) == replay_events(whole)[: len(told)]
    assert [event["event"] for event in event_stream(part)] == ["run", "user", *told]
    assert without_open_arguments(event_stream(part)) == without_open_arguments(event_stream(whole))[: len(told) + 2]
    assert replay_events(resumed) == replay_events(whole)
    assert told_of(resumed) == told_of(whole) == told_by(suite.path)
    assert write_events(event_stream(resumed)) == write_events(event_stream(whole))
