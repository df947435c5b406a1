"""Recordings that did not come to their end: what is kept, and how they go on."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.server import Answer, Seen, answer_json
from tests.support.suite import Provider, Suite, echo, failure, said

LOOP = """
import os
import pytest
from agent import CLIENT, URL, ask, body

@pytest.mark.agent_cassette
def test_it():
    for text in TEXTS:
        ask(text)
    THEN
"""
KILLED = "os._exit(3)"


def write(suite: Suite, *texts: str, then: str = "pass") -> None:
    suite.write(LOOP.replace("TEXTS", repr(texts)).replace("THEN", then))


@pytest.fixture
def unfinished(suite: Suite, provider: Provider) -> Suite:
    """A suite whose recording came as far as two requests."""
    write(suite, "one", "two")
    suite.record()
    write(suite, "one", "two", then="assert False")
    suite.run("--record-mode=rewrite")
    suite.cassette().unlink()
    assert suite.cassettes() == ["cassettes/test_it/test_it.partial.jsonl"]
    provider.seen.clear()
    return suite


def test_a_process_that_dies_leaves_what_was_answered(suite: Suite) -> None:
    write(suite, "one", "two", then=KILLED)

    suite.run_apart("--record-mode=once")

    assert suite.cassettes() == ["cassettes/test_it/test_it.partial.jsonl"]
    lines = suite.lines("test_it/test_it.partial.jsonl")
    assert [line["kind"] for line in lines] == ["run.start", "message", "model", "message", "model"]


def test_none_fails_naming_the_unfinished_recording(unfinished: Suite, provider: Provider) -> None:
    write(unfinished, "one", "two")

    result = unfinished.run()

    report = failure(result)
    assert report.startswith("ReplayDivergenceError: No cassette: ")
    assert "  partial   cassettes/test_it/test_it.partial.jsonl" in report.splitlines()
    again = "pytest test_it.py::test_it --record-mode=once"
    assert report.endswith(f"  Resume it (what it holds is not asked again): {again}")
    assert provider.questions == []


def test_once_goes_on_from_it_and_says_so(unfinished: Suite, provider: Provider) -> None:
    write(unfinished, "one", "two", "three")

    result = unfinished.run("--record-mode=once")
    provider.stop()

    result.assert_outcomes(passed=1)
    assert provider.questions == ["three"]
    assert unfinished.cassettes() == ["cassettes/test_it/test_it.jsonl"]
    shown = [line for line in result.outlines if "cassettes/test_it/test_it.jsonl" in line]
    assert any("2" in line and ("unfinished" in line or "resumed" in line) for line in shown)
    unfinished.run().assert_outcomes(passed=1)


def test_rewrite_starts_over(unfinished: Suite, provider: Provider) -> None:
    write(unfinished, "one", "two", "three")

    result = unfinished.run("--record-mode=rewrite")

    result.assert_outcomes(passed=1)
    assert provider.questions == ["one", "two", "three"]
    assert unfinished.cassettes() == ["cassettes/test_it/test_it.jsonl"]


def test_a_torn_last_line_costs_that_exchange_alone(unfinished: Suite, provider: Provider) -> None:
    partial = unfinished.cassette("test_it/test_it.partial.jsonl")
    partial.write_bytes(partial.read_bytes()[:-20])
    write(unfinished, "one", "two")

    result = unfinished.run("--record-mode=once")

    result.assert_outcomes(passed=1)
    assert provider.questions == ["two"]


def test_a_test_that_fails_after_its_last_answer_still_writes_its_cassette(suite: Suite, provider: Provider) -> None:
    write(suite, "one", "two", then="assert False, 'mine'")

    result = suite.run("--record-mode=once")
    provider.stop()

    assert "AssertionError: mine" in failure(result)
    assert suite.cassettes() == ["cassettes/test_it/test_it.jsonl"]
    assert suite.lines()[-1]["outcome"] == "failed"
    write(suite, "one", "two")
    suite.run().assert_outcomes(passed=1)


def test_a_failing_rewrite_leaves_the_good_cassette(suite: Suite) -> None:
    write(suite, "one")
    suite.record()
    before = suite.cassette().read_bytes()
    write(suite, "two", then="assert False, 'mine'")

    result = suite.run("--record-mode=rewrite")

    assert "AssertionError: mine" in failure(result)
    assert suite.cassette().read_bytes() == before
    [kept] = said(result)
    again = "pytest test_it.py::test_it --record-mode=new_episodes"
    assert kept == f"  recording of a failing test kept: {PARTIAL} (1 exchange); to go on from it: {again}"


@pytest.mark.parametrize("ending", ["self.fail('mine')", "self.skipTest('mine')"])
def test_a_failing_unittest_case_leaves_the_good_cassette_too(suite: Suite, ending: str) -> None:
    source = """
    import unittest
    import pytest
    from agent import ask

    @pytest.mark.agent_cassette
    class Case(unittest.TestCase):
        def test_it(self):
            ask("WORD")
            ENDING
    """
    suite.write(source.replace("WORD", "one").replace("ENDING", ""))
    suite.record()
    before = suite.cassette("test_it/Case.test_it.jsonl").read_bytes()
    suite.write(source.replace("WORD", "two").replace("ENDING", ending))

    suite.run("--record-mode=rewrite")

    assert suite.cassette("test_it/Case.test_it.jsonl").read_bytes() == before


def test_a_connection_that_breaks_before_the_test_fails_keeps_the_partial(suite: Suite, provider: Provider) -> None:
    def respond(seen: Seen) -> Answer:
        if b"broken" in seen.body:
            return Answer(headers=(("content-type", "text/plain"),), chunks=[b"a", b"b"], cut_after=1)
        return echo(seen)

    provider.respond = respond
    write(suite, "one", "broken")

    result = suite.run("--record-mode=once")

    result.assert_outcomes(failed=1)
    assert suite.cassettes() == ["cassettes/test_it/test_it.partial.jsonl"]


def test_a_keyboard_interrupt_keeps_what_was_answered(suite: Suite) -> None:
    write(suite, "one", then="raise KeyboardInterrupt")

    suite.run_apart("--record-mode=once")

    [kept] = suite.cassettes()
    assert b'"one"' in (suite.path / kept).read_bytes()


ASKS = """
import pytest
from agent import ask
from pytest_agentreplay import recorded_tool

@recorded_tool
def weather(city: str) -> str:
    return f"sun in {city}"

def ask_again_and_again(text):
    for _ in range(ATTEMPTS):
        try:
            return ask(text)
        except Exception as error:
            failure = error
    raise failure

@pytest.mark.agent_cassette
def test_it():
    weather("Oslo")
    for text in TEXTS:
        ask_again_and_again(text)
    THEN
"""
BROKEN = Answer(reset=True)
CASSETTE, PARTIAL = (f"cassettes/test_it/test_it{ending}.jsonl" for ending in ("", ".partial"))


def write_asking(suite: Suite, *texts: str, attempts: int, then: str = "pass") -> None:
    """Write a test that calls a tool, then asks each question, so many times at most."""
    source = ASKS.replace("TEXTS", repr(texts)).replace("ATTEMPTS", str(attempts))
    suite.write(source.replace("THEN", then))


def failing_at(text: str, answer: Answer, *, times: int = 99) -> Callable[[Seen], Answer]:
    """Return a provider that fails at a question, so many times, and answers all else."""
    left = iter([answer] * times)
    return lambda seen: next(left, echo(seen)) if text in seen.json()["messages"][-1]["content"] else echo(seen)


@pytest.mark.parametrize(
    ("first", "remedy"),
    [
        ("two", "Resume it (what it holds is not asked again, but for the failures that it ends in): pytest "),
        ("one", "Record it (all that this holds has failed, and is asked again): pytest "),
    ],
)
def test_none_says_which_part_of_an_unfinished_recording_is_asked_again(
    suite: Suite, provider: Provider, first: str, remedy: str
) -> None:
    provider.respond = failing_at(first, BROKEN)
    write(suite, "one", "two")
    suite.run("--record-mode=once").assert_outcomes(failed=1)
    provider.stop()

    report = failure(suite.run())

    assert report.splitlines()[-1].startswith(f"  {remedy}")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('{"kind":"run.start"}\n{}\n{}\n', "this is not an agent cassette, or its first line was changed"),
        ("<<<<<<< ours\n", "a git conflict marker"),
    ],
)
def test_none_fails_on_an_unfinished_recording_that_cannot_be_read_with_what_records_it_anew(
    unfinished: Suite, text: str, fault: str
) -> None:
    write(unfinished, "one", "two")
    unfinished.cassette("test_it/test_it.partial.jsonl").write_text(text, encoding="utf-8")

    report = failure(unfinished.run())
    *_, remedy, command = report.splitlines()[-1].split(": ")
    unfinished.run(*command.split()[1:]).assert_outcomes(passed=1)

    assert f"            line 1: {fault}" in report.splitlines()
    assert (remedy, command) == (
        "  Record it anew (what this holds cannot be read, and is replaced)",
        "pytest test_it.py::test_it --record-mode=rewrite",
    )
    assert unfinished.cassettes() == [CASSETTE]


@pytest.mark.parametrize("text", ["", '{"kind":"run.st'])
def test_none_fails_on_an_unfinished_recording_of_nothing_with_what_records(unfinished: Suite, text: str) -> None:
    write(unfinished, "one", "two")
    unfinished.cassette("test_it/test_it.partial.jsonl").write_text(text, encoding="utf-8")

    report = failure(unfinished.run())
    unfinished.run("--record-mode=once").assert_outcomes(passed=1)

    assert report.endswith("  Record it: pytest test_it.py::test_it --record-mode=once")


def test_what_failed_at_the_end_of_an_unfinished_recording_is_asked_again(suite: Suite, provider: Provider) -> None:
    provider.respond = failing_at("two", BROKEN)
    write_asking(suite, "one", "two", attempts=2)
    failing = suite.run("--record-mode=once")
    failing_again = suite.run("--record-mode=once")
    provider.respond = echo
    provider.seen.clear()

    resumed = suite.run("--record-mode=once")

    kept = f"  unfinished recording kept: {PARTIAL} (1 exchange, 1 tool call; 2 failed ones will be asked again)"
    for result in (failing, failing_again):
        result.assert_outcomes(failed=1)
        assert said(result)[-1].startswith(kept)
    resumed.assert_outcomes(passed=1)
    assert provider.questions == ["two"]
    taken = "resumed from an unfinished recording of 1 exchange, 1 tool call"
    assert said(resumed)[-1] == f"  recorded {CASSETTE} ({taken})"
    assert [line["kind"] for line in suite.lines()].count("model") == 2
    provider.stop()
    suite.run().assert_outcomes(passed=1)


def test_a_failure_is_asked_again_also_where_the_agent_called_a_tool_in_its_need(
    suite: Suite, provider: Provider
) -> None:
    provider.respond = failing_at("one", BROKEN)
    suite.write(
        """
        import pytest
        from agent import ask
        from pytest_agentreplay import recorded_tool

        @recorded_tool
        def escalate() -> str:
            return "a ticket"

        @pytest.mark.agent_cassette
        def test_it():
            try:
                answer = ask("one")
            except Exception:
                answer = escalate()
            assert answer == "echo: one"
        """
    )
    failing = suite.run("--record-mode=once")
    provider.respond = echo

    result = suite.run("--record-mode=once")

    assert f"kept: {PARTIAL} (0 exchanges, 1 tool call; 1 failed one will be asked again)" in said(failing)[-1]
    result.assert_outcomes(passed=1)
    assert "dropped what was not played: tool escalate" in said(result)[-1]
    suite.run().assert_outcomes(passed=1)


def test_a_recording_that_met_nothing_but_failures_is_begun_again(suite: Suite, provider: Provider) -> None:
    provider.respond = failing_at("one", BROKEN)
    write(suite, "one")
    failing = suite.run("--record-mode=once")
    provider.respond = echo

    result = suite.run("--record-mode=once")

    assert f"kept: {PARTIAL} (0 exchanges; 1 failed one will be asked again)" in said(failing)[-1]
    result.assert_outcomes(passed=1)
    assert said(result)[-1] == f"  recorded {CASSETTE}"
    assert suite.cassettes() == [CASSETTE]


def test_a_failure_that_an_answer_came_after_is_gone_on_from(suite: Suite, provider: Provider) -> None:
    provider.respond = failing_at("one", BROKEN, times=1)
    write_asking(suite, "one", attempts=2, then="__import__('os')._exit(3)")
    suite.run_apart("--record-mode=once")
    provider.seen.clear()
    write_asking(suite, "one", "two", attempts=2)

    result = suite.run("--record-mode=once")

    result.assert_outcomes(passed=1)
    assert "of 2 exchanges, 1 tool call" in said(result)[-1]
    assert provider.questions == ["two"]


@pytest.mark.parametrize(("status", "is_asked_again"), [(401, True), (429, True), (503, True), (400, False)])
def test_an_answer_of_a_failing_end_is_asked_for_again_unless_it_is_about_the_request(
    suite: Suite, provider: Provider, status: int, is_asked_again: bool
) -> None:
    write(suite, "one")
    suite.record()
    provider.respond = failing_at("two", answer_json({"error": {}}, status=status))
    write(suite, "one", "two")
    failing = suite.run("--record-mode=new_episodes")
    provider.respond = echo
    provider.seen.clear()

    result = suite.run("--record-mode=new_episodes")

    assert f"kept: {PARTIAL}" in said(failing)[-1]
    assert provider.questions == (["two"] if is_asked_again else [])
    result.assert_outcomes(passed=is_asked_again, failed=not is_asked_again)
