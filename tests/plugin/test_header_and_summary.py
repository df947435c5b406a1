"""What the terminal says at the start and at the end of a session."""

from __future__ import annotations

from tests.support.server import Answer, Seen
from tests.support.suite import Provider, Suite, echo, said

TWO = """
import pytest
from agent import ask

@pytest.mark.agent_cassette
def test_one():
    ask("one")

@pytest.mark.agent_cassette
def test_two():
    ask("two")
    ask("three")
"""


def test_the_header_names_the_default_modes(suite: Suite) -> None:
    suite.write("def test_it(): pass")

    result = suite.run()

    result.stdout.fnmatch_lines(["agent cassettes: record mode none, replay strict"])


def test_the_header_names_the_source_of_a_mode_that_is_not_the_default(suite: Suite) -> None:
    suite.write("def test_it(): pass")
    suite.ini("agent_record_mode = once", "agent_replay = strict")

    from_ini = suite.run()
    from_command_line = suite.run("--record-mode=rewrite")

    from_ini.stdout.fnmatch_lines(["agent cassettes: record mode once (ini file), replay strict (ini file)"])
    from_command_line.stdout.fnmatch_lines(
        ["agent cassettes: record mode rewrite (command line), replay strict (ini file)"]
    )


def test_the_summary_of_a_replay_is_one_line(suite: Suite) -> None:
    suite.write(TWO)
    suite.record()

    result = suite.run()

    assert said(result) == ["agent cassettes: 2 replayed (3 requests)"]


def test_the_summary_of_a_recording_names_the_files_to_commit(suite: Suite) -> None:
    suite.write(TWO)

    result = suite.record()

    assert said(result) == [
        "agent cassettes: 2 recorded (3 requests)",
        "  recorded cassettes/test_it/test_one.jsonl",
        "  recorded cassettes/test_it/test_two.jsonl",
    ]


def test_the_summary_counts_replayed_and_recorded_apart(suite: Suite) -> None:
    suite.write(TWO)
    suite.record("-k", "one")

    result = suite.record()

    assert said(result) == [
        "agent cassettes: 1 replayed (1 request), 1 recorded (2 requests)",
        "  recorded cassettes/test_it/test_two.jsonl",
    ]


def test_a_session_without_marked_tests_says_nothing_at_the_end(suite: Suite) -> None:
    suite.write("def test_it(): pass")

    result = suite.run()

    assert said(result) == []


def test_the_recording_of_a_failing_test_is_named_as_such(suite: Suite) -> None:
    suite.write(TWO.replace('ask("one")', 'ask("one"); assert False'))

    result = suite.run("--record-mode=once", "-k", "one")

    [count, named] = said(result)
    assert count == "agent cassettes: 1 recorded (1 request)"
    assert named.startswith("  recorded cassettes/test_it/test_one.jsonl")
    assert "by a failing test" in named


def test_an_unfinished_recording_is_named_with_the_next_command(suite: Suite, provider: Provider) -> None:
    def respond(seen: Seen) -> Answer:
        if b"slow" not in seen.body:
            return echo(seen)
        return Answer(headers=(("content-type", "text/plain"),), chunks=[b"x"] * 20, gap=0.05)

    provider.respond = respond
    suite.write(
        """
        import threading, pytest
        from agent import CLIENT, URL, ask, body

        @pytest.mark.agent_cassette
        def test_it():
            ask("hello")
            with CLIENT.stream("POST", URL, json=body("slow")) as response:
                next(response.iter_raw())
                response.close = lambda: None  # still in flight when the test is over
                raise AssertionError
        """
    )

    result = suite.run_apart("--record-mode=once")

    [named] = said(result)
    assert "unfinished recording kept: cassettes/test_it/test_it.partial.jsonl (1 exchange)" in named
    assert "pytest test_it.py::test_it --record-mode=" in named
    assert suite.cassettes() == ["cassettes/test_it/test_it.partial.jsonl"]


def test_a_quiet_session_still_says_what_was_recorded(suite: Suite) -> None:
    suite.write(TWO)

    result = suite.record("-q")

    assert "agent cassettes: 2 recorded (3 requests)" in result.outlines
