"""Policies: asked about new calls, never about recorded ones; what they deny is an error that replays the same."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.openai import completion
from tests.support.server import Answer, Seen, answer_json
from tests.support.suite import Provider, Suite, failure

AGENT = """
import json
import pytest
from pathlib import Path
from agent import CLIENT, URL, body
from pytest_agentreplay import Decision, ToolDeniedError, recorded_tool

EFFECTS = Path(__file__).with_name("effects.txt")
ASKED = Path(__file__).with_name("asked.txt")

def note(path, what):
    with path.open("a") as file:
        file.write(f"{what}\\n")

@recorded_tool(MARK)
def refund(order, cents):
    note(EFFECTS, f"refund {order}")
    return {"refunded": cents}

class Limit:
    def decide(self, tool, arguments):
        note(ASKED, f"{tool} {json.dumps(arguments)}")
        if arguments["cents"] > 1000:
            return Decision("deny", "more than 10.00")
        if arguments["cents"] > 100:
            return Decision("ask", "more than 1.00")
        return Decision("allow")

class Raise:
    def decide(self, tool, arguments):
        raise AssertionError(f"the policy was asked about {tool}")

def approve(tool, arguments):
    note(ASKED, f"approve {tool} {arguments['order']}")
    return arguments["order"] != "C"

def loop():
    messages = [{"role": "user", "content": "Pay them back."}]
    while True:
        message = CLIENT.post(URL, json=body(*messages)).json()["choices"][0]["message"]
        messages.append(message)
        if not message.get("tool_calls"):
            return messages
        for call in message["tool_calls"]:
            try:
                said = json.dumps(refund(**json.loads(call["function"]["arguments"])))
            except Exception as error:
                said = f"{type(error).__name__}: {error}"
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": said})

@pytest.mark.agent_cassette
def test_it(agent_run, record_property):
    agent_run.use_policy(POLICY(), approve=APPROVE)
    record_property("messages", loop())
    record_property("chain", list(agent_run.hash_chain.values()))
    record_property("errors", [step.is_error for step in agent_run.tool_calls("refund")])
"""
CALLS = [
    {"id": f"call_{order}", "type": "function", "function": {"name": "refund", "arguments": json.dumps(arguments)}}
    for order, arguments in (
        (order, {"order": order, "cents": cents}) for order, cents in (("A", 50), ("B", 500), ("C", 600), ("D", 5000))
    )
]
RESULTS = [
    '{"refunded": 50}',
    '{"refunded": 500}',
    "ToolDeniedError: The call of refund was denied: more than 1.00",
    "ToolDeniedError: The call of refund was denied: more than 10.00",
]


@pytest.fixture
def provider_of_refunds(provider: Provider) -> Provider:
    """A provider that asks for four refunds, and is done."""

    def respond(seen: Seen) -> Answer:
        is_first = len(seen.json()["messages"]) == 1
        return answer_json(completion(None, tool_calls=CALLS) if is_first else completion("done"))

    provider.respond = respond
    return provider


def agent(policy: str = "Limit", approve: str = "approve", mark: str = "") -> str:
    return AGENT.replace("POLICY", policy).replace("APPROVE", approve).replace("MARK", mark)


def lines_of(suite: Suite, name: str) -> list[str]:
    path = suite.path / name
    return path.read_text().splitlines() if path.exists() else []


def properties(result: pytest.RunResult) -> dict[str, Any]:
    [report] = [report for report in result.reprec.getreports("pytest_runtest_logreport") if report.when == "call"]  # type: ignore[attr-defined]
    return dict(report.user_properties)


def results_in(result: pytest.RunResult) -> list[str]:
    return [message["content"] for message in properties(result)["messages"] if message["role"] == "tool"]


def test_a_policy_decides_about_each_new_call_and_an_approver_where_it_says_ask(
    suite: Suite, provider_of_refunds: Provider
) -> None:
    suite.write(agent())

    result = suite.record()

    assert results_in(result) == RESULTS
    assert properties(result)["errors"] == [False, False, True, True]
    assert lines_of(suite, "effects.txt") == ["refund A", "refund B"]
    assert lines_of(suite, "asked.txt") == [
        'refund {"order": "A", "cents": 50}',
        'refund {"order": "B", "cents": 500}',
        "approve refund B",
        'refund {"order": "C", "cents": 600}',
        "approve refund C",
        'refund {"order": "D", "cents": 5000}',
    ]


def test_each_decision_stands_before_its_call(suite: Suite, provider_of_refunds: Provider) -> None:
    suite.write(agent())
    suite.record()

    steps = [line for line in suite.lines() if line["kind"] in ("permission", "tool")]

    assert [line["kind"] for line in steps] == ["permission", "tool"] * 4
    decisions, calls = steps[::2], steps[1::2]
    assert [line["tool_use_id"] for line in decisions] == [line["tool_use_id"] for line in calls]
    shown = [{key: line.get(key) for key in ("decision", "resolution", "policy", "reason")} for line in decisions]
    assert shown == [
        {"decision": "allow", "resolution": None, "policy": "Limit", "reason": None},
        {"decision": "ask", "resolution": "allow", "policy": "Limit", "reason": "more than 1.00"},
        {"decision": "ask", "resolution": "deny", "policy": "Limit", "reason": "more than 1.00"},
        {"decision": "deny", "resolution": None, "policy": "Limit", "reason": "more than 10.00"},
    ]
    assert calls[3]["error"] == {
        "type": "pytest_agentreplay.errors:ToolDeniedError",
        "message": "The call of refund was denied: more than 10.00",
        "args": ["The call of refund was denied: more than 10.00"],
    }


@pytest.mark.parametrize("policy", ["Raise", "Limit"])
def test_a_denied_call_replays_the_same_bytes_and_the_policy_is_not_asked(
    suite: Suite, provider_of_refunds: Provider, policy: str
) -> None:
    suite.write(agent())
    recorded = suite.record()
    asked = lines_of(suite, "asked.txt")
    requests = [seen.body for seen in provider_of_refunds.seen]
    provider_of_refunds.stop()
    suite.write(agent(policy, approve="None"))

    replayed = suite.run()

    replayed.assert_outcomes(passed=1)
    assert properties(replayed) == properties(recorded)
    assert len(properties(replayed)["chain"][0]) == len(requests) == 2
    assert lines_of(suite, "asked.txt") == asked
    assert lines_of(suite, "effects.txt") == ["refund A", "refund B"]


def test_where_the_policy_says_ask_and_nobody_can_be_asked_the_call_is_denied(
    suite: Suite, provider_of_refunds: Provider
) -> None:
    suite.write(agent(approve="None"))

    result = suite.record()

    assert results_in(result)[1] == "ToolDeniedError: The call of refund was denied: more than 1.00"
    assert lines_of(suite, "effects.txt") == ["refund A"]


@pytest.mark.parametrize(("marker", "mark"), [("(tools='live')", ""), ("", "subagent=True")])
def test_a_denied_call_does_not_run_in_replay_though_its_tool_does(
    suite: Suite, provider_of_refunds: Provider, marker: str, mark: str
) -> None:
    suite.write(agent(mark=mark))
    recorded = suite.record()
    suite.write(agent("Raise", mark=mark).replace("agent_cassette", f"agent_cassette{marker}"))

    replayed = suite.run()

    replayed.assert_outcomes(passed=1)
    assert properties(replayed) == properties(recorded)
    assert lines_of(suite, "effects.txt") == ["refund A", "refund B"] * 2


def test_a_new_call_in_new_episodes_is_decided_about(suite: Suite, provider_of_refunds: Provider) -> None:
    source = agent()
    suite.write(source)
    suite.record()
    asked = len(lines_of(suite, "asked.txt"))
    suite.write(
        source
        + """
    with pytest.raises(ToolDeniedError, match="more than 10.00"):
        refund("E", 9999)
"""
    )

    result = suite.run("--record-mode=new_episodes")

    result.assert_outcomes(passed=1)
    assert lines_of(suite, "asked.txt")[asked:] == ['refund {"order": "E", "cents": 9999}']
    assert [line["kind"] for line in suite.lines() if line["kind"] in ("permission", "tool")] == [
        "permission",
        "tool",
    ] * 5


def test_without_a_policy_nothing_is_noted(suite: Suite, provider_of_refunds: Provider) -> None:
    suite.write(agent().replace("    agent_run.use_policy(Limit(), approve=approve)\n", ""))

    suite.record()

    assert "permission" not in [line["kind"] for line in suite.lines()]
    assert lines_of(suite, "effects.txt") == ["refund A", "refund B", "refund C", "refund D"]


def test_what_a_policy_raises_is_what_came_of_the_call(suite: Suite, provider_of_refunds: Provider) -> None:
    suite.write(agent("Raise"))
    recorded = suite.record()
    suite.write(agent("Limit"))

    replayed = suite.run()

    assert results_in(recorded) == ["AssertionError: the policy was asked about refund"] * 4
    assert results_in(replayed) == results_in(recorded)
    assert lines_of(suite, "effects.txt") == lines_of(suite, "asked.txt") == []


def test_what_is_no_decision_stops_the_test_and_is_not_recorded_as_what_the_tool_did(
    suite: Suite, provider_of_refunds: Provider
) -> None:
    suite.write(agent().replace('return Decision("allow")', 'return "allow"'))

    result = suite.run("--record-mode=once")

    result.assert_outcomes(failed=1)
    assert failure(result).startswith(
        "UnrecordableError: What policy Limit decided about tool 'refund' cannot be recorded: "
        "'allow' is no Decision; return one, as Decision('allow')."
    )
    assert lines_of(suite, "effects.txt") == []


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("5", "the policy 5 has no method decide(tool, arguments)"),
        ("Limit(), approve=True", "approve=True cannot be called with a tool's name and its arguments"),
    ],
)
def test_what_cannot_decide_is_refused_where_it_is_given(
    suite: Suite, provider_of_refunds: Provider, argument: str, message: str
) -> None:
    suite.write(agent().replace("use_policy(Limit(), approve=approve)", f"use_policy({argument})"))

    result = suite.run("--record-mode=once")

    result.assert_outcomes(failed=1)
    assert failure(result).startswith(f"ConfigurationError: {message}")


def test_a_decision_can_only_be_one_of_three() -> None:
    from pytest_agentreplay import ConfigurationError, Decision

    with pytest.raises(ConfigurationError, match="'maybe' is not one of allow, deny, ask"):
        Decision("maybe")  # type: ignore[arg-type]


def test_in_replay_an_unknown_call_is_a_divergence_and_the_policy_is_not_asked(
    suite: Suite, provider_of_refunds: Provider
) -> None:
    suite.write(agent())
    suite.record()
    suite.write(agent("Raise") + '    refund("E", 1)\n')

    result = suite.run()

    result.assert_outcomes(failed=1)
    assert 'asked     tool refund({"order": "E", "cents": 1})' in failure(result)
