"""Tool calls in what ``agentreplay show``, ``verify``, ``stats`` and ``prune`` say and do."""

from __future__ import annotations

import json

import pytest

from pytest_agentreplay.cassette import load_cassette
from pytest_agentreplay.cassette.lines import seal, sum_of, unseal
from pytest_agentreplay.cassette.loading import digest_of_sums
from pytest_agentreplay.cli import main
from tests.support.suite import Suite

CASSETTE = "cassettes/test_it/test_it.jsonl"
RUN = """
import os
import pytest
from agent import ask, get
from pytest_agentreplay import Decision, recorded_tool

@recorded_tool
def price(item, *, currency="EUR"):
    return {"price": 59.9, "rate": get(f"/rates/{currency}")}

@recorded_tool
def refund(order):
    raise AssertionError("denied before")

@recorded_tool
def broken(order):
    raise KeyError(order)

class Policy:
    def decide(self, tool, arguments):
        return Decision("deny", "not today") if tool == "refund" else Decision("allow")

@pytest.mark.agent_cassette
def test_it(agent_run):
    ask("What is it worth?")
    agent_run.use_policy(Policy())
    for call in (lambda: price("tea\\x1b[31m pot", currency="USD"), lambda: refund("A-1"), lambda: broken("A-1")):
        if os.environ.get("LESS") and call().get("rate"):
            break
        try:
            call() if not os.environ.get("LESS") else None
        except Exception:
            pass
    else:
        agent_run.compaction(tokens_before=1200, summary="They asked for a price.")
"""


@pytest.fixture
def recorded(suite: Suite, monkeypatch: pytest.MonkeyPatch) -> Suite:
    """A suite with one cassette: a request, three tool calls with decisions on them, and a note."""
    monkeypatch.setenv("COLUMNS", "100")
    suite.write(RUN)
    suite.record()
    return suite


def said(capsys: pytest.CaptureFixture[str], *command: str) -> str:
    """Return what a command prints; it must succeed and print no error."""
    capsys.readouterr()
    status = main(list(command))
    out, err = capsys.readouterr()
    assert (status, err) == (0, "")
    return out


def test_the_timeline_shows_calls_decisions_and_notes(recorded: Suite, capsys: pytest.CaptureFixture[str]) -> None:
    lines = said(capsys, "show", CASSETTE).splitlines()

    steps = [line.split() for line in lines if line[:1].isdigit()]
    assert [step[1] for step in steps] == [
        "model", "compaction", "permission", "tool", "permission", "tool", "permission", "tool", "http"
    ]  # fmt: skip
    text = "\n".join(line.rstrip() for line in lines)
    assert r'call       price(item="tea\u001b[31m pot", currency="USD")' in text
    assert 'result     {"price": 59.9, "rate": "/rates/USD"}' in text
    assert "error      The call of refund was denied: not today" in text
    assert "error      'A-1'" in text
    assert "reason     not today" in text
    assert "tokens_before  1200" in text
    assert "summary    They asked for a price." in text
    assert "\x1b" not in text
    [request] = [line for line in lines if " http " in line]
    assert "/rates/USD (inside price)" in request
    assert {step[2]: step[3] for step in steps if step[1] == "tool" and step[2] != "price"} == {
        "refund": "ToolDeniedError",
        "broken": "KeyError",
    }
    assert [step[2:4] for step in steps if step[1] == "permission"].count(["Policy", "deny"]) == 1
    assert ", 2 requests, 3 tool calls, 2 conversations, " in lines[-1]


def test_the_timeline_as_json_holds_all_of_each_step(recorded: Suite, capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(said(capsys, "show", CASSETTE, "--json"))

    steps = document["steps"]
    assert [step["number"] for step in steps] == list(range(1, 10))
    [price] = [step for step in steps if step.get("name") == "price"]
    assert {key: price[key] for key in ("kind", "arguments", "result", "is_error", "source", "parent", "lane")} == {
        "kind": "tool",
        "arguments": {"item": "tea\x1b[31m pot", "currency": "USD"},
        "result": {"price": 59.9, "rate": "/rates/USD"},
        "is_error": False,
        "source": "wrapped",
        "parent": None,
        "lane": "",
    }
    assert price["timing"]["took"] >= 0
    [broken] = [step for step in steps if step.get("name") == "broken"]
    assert broken["error"] == {"type": "builtins:KeyError", "message": "'A-1'", "args": ["A-1"], "state": None}
    [request] = [step for step in steps if step["kind"] == "http"]
    assert request["parent"] == price["id"]
    assert document["end"]["tools"] == 3
    assert document["end"]["requests"] == 2


def test_verify_counts_tool_calls_and_derives_their_hashes(recorded: Suite, capsys: pytest.CaptureFixture[str]) -> None:
    assert f"ok     {CASSETTE}: 2 exchanges, 3 tool calls" in said(capsys, "verify", CASSETTE)

    path = recorded.path / CASSETTE
    rows = path.read_bytes().splitlines()
    [at] = [at for at, row in enumerate(rows) if b'"name":"broken"' in row]
    fields, end = unseal(rows[at]), unseal(rows[-1])
    assert fields is not None
    assert end is not None
    rows[at] = seal({**fields, "arguments": {"order": "A-2"}})
    sums = [sum_of(row) for row in rows[1:-1] if not row.startswith(b'{"kind":"message"')]
    rows[-1] = seal({**end, "steps": digest_of_sums(sums)})
    path.write_bytes(b"".join(row + b"\n" for row in rows))

    status = main(["verify", CASSETTE])

    assert status == 1
    assert "is not that of its call" in capsys.readouterr().out


def test_stats_count_tool_calls(recorded: Suite, capsys: pytest.CaptureFixture[str]) -> None:
    assert "tool calls  3" in said(capsys, "stats", CASSETTE).splitlines()
    assert json.loads(said(capsys, "stats", CASSETTE, "--json"))["tools"] == 3


PRUNED = """
import os
import pytest
from agent import get
from pytest_agentreplay import Decision, recorded_tool

@recorded_tool
def price(item):
    return get(f"/prices/{item}")

class Policy:
    def decide(self, tool, arguments):
        return Decision("allow", f"for {arguments['item']}")

@pytest.mark.agent_cassette(unplayed="ignore")
def test_it(agent_run):
    agent_run.use_policy(Policy())
    for item in os.environ["ITEMS"].split():
        price(item)
"""


def test_prune_drops_a_call_with_its_decision_and_what_is_inside_it_and_leaves_the_rest_as_it_is(
    suite: Suite, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    suite.write(PRUNED)
    monkeypatch.setenv("ITEMS", "tea pot cup")
    suite.record()
    before = load_cassette(suite.path / CASSETTE)
    monkeypatch.setenv("ITEMS", "cup tea")

    status = main(["prune", "test_it.py"])

    assert status == 1, capfd.readouterr()
    after = load_cassette(suite.path / CASSETTE)
    left = [step for step in before.entries if "pot" not in step.model_dump_json()]
    assert len(after.entries) == len(before.entries) - 3 == 6
    assert [step.model_dump(exclude={"timing"}) for step in after.entries] == [
        step.model_dump(exclude={"timing"}) for step in left
    ]
    assert suite.run().ret == pytest.ExitCode.OK
