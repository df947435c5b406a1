"""A cassette that a failing test has recorded: a replay that fails on it says so, and how to mend it."""

from __future__ import annotations

import pytest

from tests.support.server import answer_json
from tests.support.suite import Provider, Suite, echo, failure

LOOP = """
import pytest
from agent import ask

@pytest.mark.agent_cassette
def test_it():
    for text in TEXTS:
        ask(text)
    THEN
"""
HEADING = "agent cassette"
GO_ON = [
    "The recording was made by a failing test; to go on from it: pytest test_it.py::test_it --record-mode=new_episodes",
    "Or to record it anew: pytest test_it.py::test_it --record-mode=rewrite",
]


def write(suite: Suite, *texts: str, then: str = "pass") -> None:
    suite.write(LOOP.replace("TEXTS", repr(texts)).replace("THEN", then))


def told(result: pytest.RunResult) -> list[str]:
    """Return the lines of the sections that are ours, of all failures of a run."""
    reports = result.reprec.getreports("pytest_runtest_logreport")  # type: ignore[attr-defined]
    texts = [text for report in reports for name, text in report.sections if name == HEADING]
    return [line for text in texts for line in text.splitlines()]


@pytest.fixture
def with_wrong_key(suite: Suite, provider: Provider) -> Suite:
    """A suite whose cassette was recorded with a wrong key; the provider takes the one it has now."""
    provider.respond = lambda seen: answer_json({"error": "invalid key"}, status=401)
    write(suite, "one")
    suite.run("--record-mode=once").assert_outcomes(failed=1)
    provider.respond = echo
    return suite


@pytest.fixture
def with_a_fault(suite: Suite) -> Suite:
    """A suite whose cassette was recorded by an agent that failed after its first request."""
    write(suite, "one", then="raise RuntimeError('mine')")
    suite.run("--record-mode=once").assert_outcomes(failed=1)
    return suite


@pytest.mark.parametrize("mode", ["none", "once", "new_episodes"])
def test_a_refusal_that_is_replayed_is_told_with_the_command_that_records_anew(
    with_wrong_key: Suite, provider: Provider, mode: str
) -> None:
    result = with_wrong_key.run(f"--record-mode={mode}")

    assert told(result) == [
        "The recording was made by a failing test, and ends in an answer of 401.",
        "To record it anew: pytest test_it.py::test_it --record-mode=rewrite",
    ]
    assert f"- {HEADING} -" in result.stdout.str()
    assert len(provider.seen) == 1
    with_wrong_key.run("--record-mode=rewrite").assert_outcomes(passed=1)
    assert told(with_wrong_key.run()) == []


def test_a_divergence_from_it_is_told_with_the_command_that_goes_on(with_a_fault: Suite, provider: Provider) -> None:
    write(with_a_fault, "one", "two")

    result = with_a_fault.run("--record-mode=once")

    assert failure(result).startswith("ReplayDivergenceError: Additional request: call 2 ")
    assert told(result) == GO_ON
    with_a_fault.run("--record-mode=new_episodes").assert_outcomes(passed=1)
    assert provider.questions == ["one", "two"]
    assert with_a_fault.lines()[-1]["outcome"] == "ok"


def test_it_is_told_once_where_the_teardown_fails_too(with_a_fault: Suite) -> None:
    fixture = "@pytest.fixture(autouse=True)\ndef broken():\n    yield\n    raise OSError\n\n@pytest.mark"
    source = LOOP.replace("TEXTS", "['one']").replace("THEN", "assert False")
    with_a_fault.write(source.replace("@pytest.mark", fixture))

    result = with_a_fault.run()

    result.assert_outcomes(failed=1, errors=1)
    assert told(result) == GO_ON


def test_a_replay_that_passes_says_nothing_of_it(with_a_fault: Suite) -> None:
    write(with_a_fault, "one")

    result = with_a_fault.run()

    result.assert_outcomes(passed=1)
    assert "failing test" not in result.stdout.str()


def test_a_run_that_goes_on_from_it_does_not_advise_itself(with_a_fault: Suite) -> None:
    write(with_a_fault, "one", "two", then="assert False")

    live = with_a_fault.run("--record-mode=new_episodes")
    rewritten = with_a_fault.run("--record-mode=rewrite")

    assert told(live) == told(rewritten) == []


def test_a_failure_on_the_recording_of_a_passing_test_says_nothing(suite: Suite) -> None:
    write(suite, "one")
    suite.record()
    write(suite, "one", then="assert False")

    assert told(suite.run()) == []
