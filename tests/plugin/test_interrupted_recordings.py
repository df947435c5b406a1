"""Recordings that did not come to their end: what is kept, and how they go on."""

from __future__ import annotations

import pytest

from tests.support.server import Answer, Seen
from tests.support.suite import Provider, Suite, echo, failure

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
    assert "cassettes/test_it/test_it.partial.jsonl" in report
    assert "pytest test_it.py::test_it --record-mode=once" in report
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
    result.stdout.fnmatch_lines(["*unfinished recording kept: cassettes/test_it/test_it.partial.jsonl (1 exchange)*"])


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
