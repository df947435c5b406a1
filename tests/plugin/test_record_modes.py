"""What each record mode does, and the modes that are not there yet."""

from __future__ import annotations

import pytest

from tests.support.openai import chat_answer
from tests.support.suite import Provider, Suite, failure

ONE = """
import pytest
from agent import ask

@pytest.mark.agent_cassette
def test_it():
    assert ask("hello").startswith("echo: ")
"""


def test_none_without_a_cassette_fails_with_the_command_that_records_it(suite: Suite, provider: Provider) -> None:
    suite.write(ONE)

    result = suite.run()

    result.assert_outcomes(failed=1)
    assert failure(result).startswith("ReplayDivergenceError: No cassette")
    assert failure(result).endswith("Record it: pytest test_it.py::test_it --record-mode=once")
    assert provider.seen == []
    assert suite.cassettes() == []


def test_none_serves_the_cassette_without_a_connection(suite: Suite, provider: Provider) -> None:
    suite.write(ONE)
    suite.record()

    result = suite.run()

    result.assert_outcomes(passed=1)
    assert len(provider.seen) == 1


def test_once_records_a_missing_cassette(suite: Suite, provider: Provider) -> None:
    suite.write(ONE)

    result = suite.run("--record-mode=once")

    result.assert_outcomes(passed=1)
    assert len(provider.seen) == 1
    assert suite.cassettes() == ["cassettes/test_it/test_it.jsonl"]


@pytest.mark.parametrize("mode", ["once", "new_episodes", "all", "rewrite"])
def test_a_recording_leaves_nothing_but_the_cassette(suite: Suite, mode: str) -> None:
    suite.write(ONE)

    suite.run(f"--record-mode={mode}")
    suite.run(f"--record-mode={mode}")

    left = [path.relative_to(suite.path).as_posix() for path in (suite.path / "cassettes").rglob("*")]
    assert sorted(left) == ["cassettes/test_it", "cassettes/test_it/test_it.jsonl"]


def test_once_serves_a_cassette_that_is_there_and_leaves_it_alone(suite: Suite, provider: Provider) -> None:
    suite.write(ONE)
    suite.record()
    before = suite.cassette().read_bytes()
    provider.stop()

    result = suite.run("--record-mode=once")

    result.assert_outcomes(passed=1)
    assert suite.cassette().read_bytes() == before


def test_once_with_a_cassette_stops_at_an_unknown_request(suite: Suite, provider: Provider) -> None:
    suite.write(ONE)
    suite.record()
    suite.write(ONE.replace("hello", "goodbye"))

    result = suite.run("--record-mode=once")

    assert failure(result).startswith("ReplayDivergenceError: Request changed")
    assert len(provider.seen) == 1


@pytest.mark.parametrize("mode", ["all", "rewrite"])
def test_all_and_rewrite_record_anew(suite: Suite, provider: Provider, mode: str) -> None:
    suite.write(ONE)
    suite.record()
    provider.respond = lambda seen: chat_answer("echo: another answer")

    result = suite.run(f"--record-mode={mode}")

    result.assert_outcomes(passed=1)
    assert len(provider.seen) == 2
    assert b"another answer" in suite.cassette().read_bytes()
    suite.run().assert_outcomes(passed=1)
    assert len(provider.seen) == 2


@pytest.mark.parametrize("mode", ["all", "rewrite"])
def test_all_and_rewrite_record_a_missing_cassette(suite: Suite, mode: str) -> None:
    suite.write(ONE)

    result = suite.run(f"--record-mode={mode}")

    result.assert_outcomes(passed=1)
    assert suite.cassettes() == ["cassettes/test_it/test_it.jsonl"]


TWO = """
import pytest
from agent import ask

@pytest.mark.agent_cassette
def test_it():
    for text in TEXTS:
        ask(text)
"""


def test_new_episodes_serves_what_is_known_and_adds_what_is_not(suite: Suite, provider: Provider) -> None:
    suite.write(TWO.replace("TEXTS", "['one']"))
    suite.record()
    suite.write(TWO.replace("TEXTS", "['one', 'two']"))

    result = suite.run("--record-mode=new_episodes")
    provider.stop()

    result.assert_outcomes(passed=1)
    assert [seen.json()["messages"][0]["content"] for seen in provider.seen] == ["one", "two"]
    suite.run().assert_outcomes(passed=1)


def test_new_episodes_drops_what_a_passing_run_no_longer_plays_and_lists_it(suite: Suite, provider: Provider) -> None:
    suite.write(TWO.replace("TEXTS", "['one', 'old']"))
    suite.record()
    suite.write(TWO.replace("TEXTS", "['one', 'new']"))

    result = suite.run("--record-mode=new_episodes")
    provider.stop()

    result.assert_outcomes(passed=1)
    assert b'"old"' not in suite.cassette().read_bytes()
    result.stdout.fnmatch_lines(["agent cassettes: *", "*dropped*"])
    suite.run().assert_outcomes(passed=1)


def test_new_episodes_drops_nothing_where_the_test_fails(suite: Suite) -> None:
    suite.write(TWO.replace("TEXTS", "['one', 'old']"))
    suite.record()
    before = suite.cassette().read_bytes()
    suite.write(TWO.replace("TEXTS", "['one', 'new']") + "    assert False\n")

    result = suite.run("--record-mode=new_episodes")

    result.assert_outcomes(failed=1)
    assert suite.cassette().read_bytes() == before


def test_new_episodes_records_a_missing_cassette(suite: Suite) -> None:
    suite.write(ONE)

    result = suite.run("--record-mode=new_episodes")

    result.assert_outcomes(passed=1)
    suite.run().assert_outcomes(passed=1)


def test_new_episodes_leaves_a_cassette_that_needs_nothing_as_it_is(suite: Suite, provider: Provider) -> None:
    suite.write(ONE)
    suite.record()
    before = suite.cassette().read_bytes()
    provider.stop()

    result = suite.run("--record-mode=new_episodes")

    result.assert_outcomes(passed=1)
    assert suite.cassette().read_bytes() == before
    result.stdout.fnmatch_lines(["agent cassettes: 1 replayed (1 request)"])


def test_new_episodes_leaves_no_unfinished_recording_where_a_failing_test_asked_nothing_new(suite: Suite) -> None:
    suite.write(ONE)
    suite.record()
    suite.write(ONE + "    assert False\n")

    result = suite.run("--record-mode=new_episodes")

    result.assert_outcomes(failed=1)
    assert suite.cassettes() == ["cassettes/test_it/test_it.jsonl"]


def test_rewrite_replaces_a_cassette_that_cannot_be_read(suite: Suite) -> None:
    suite.write(ONE)
    suite.record()
    suite.cassette().write_text("<<<<<<< HEAD\n")

    result = suite.run("--record-mode=rewrite")

    result.assert_outcomes(passed=1)
    suite.run().assert_outcomes(passed=1)


def test_an_unknown_mode_on_the_command_line_is_refused_by_the_option(suite: Suite) -> None:
    suite.write(ONE)

    result = suite.run("--record-mode=sometimes")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--record-mode*invalid choice: 'sometimes'*"])
