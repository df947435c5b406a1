"""Tests that fail with the same change share one report."""

from __future__ import annotations

import pytest

from tests.support.suite import Suite

THREE = """
import agent
import pytest

PROMPT = {"role": "system", "content": "be brief"}


@pytest.mark.agent_cassette
@pytest.mark.parametrize("city", ["Rome", "Oslo", "Bern"])
def test_it(city):
    agent.ask(PROMPT, city)
"""
CHANGED = THREE.replace("be brief", "be polite")


def test_a_change_that_stops_several_tests_is_told_in_full_once(suite: Suite) -> None:
    suite.write(THREE)
    suite.record()
    suite.write(CHANGED)

    result = suite.run()

    shown = result.stdout.str()
    result.assert_outcomes(failed=3)
    assert shown.count("what changed, recorded") == 1
    assert shown.count("The same change as in test_it.py::test_it[Rome], where it is told in full.") == 2


def test_the_summary_counts_the_tests_and_gives_the_command_for_all(suite: Suite) -> None:
    suite.write(THREE)
    suite.record()
    suite.write(CHANGED)

    result = suite.run()

    tests = " ".join(f"'test_it.py::test_it[[]{city}[]]'" for city in ("Rome", "Oslo", "Bern"))
    result.stdout.fnmatch_lines(
        [
            "agent cassettes: one change stops 3 tests, told at test_it.py::test_it[[]Rome[]]",
            f"  if it is meant, record them again: pytest {tests} --record-mode=rewrite",
        ]
    )


def test_a_shortened_report_still_says_which_test_and_how_to_record_it(suite: Suite) -> None:
    suite.write(THREE)
    suite.record()
    suite.write(CHANGED)

    result = suite.run()

    result.stdout.fnmatch_lines(
        [
            "*The same change as in*",
            "*record again: pytest 'test_it.py::test_it[[]Oslo[]]' --record-mode=rewrite",
            "*The same change as in*",
            "*record again: pytest 'test_it.py::test_it[[]Bern[]]' --record-mode=rewrite",
        ]
    )


def test_different_changes_are_each_told_in_full(suite: Suite) -> None:
    suite.write(THREE)
    suite.record()
    suite.write(THREE.replace("agent.ask(PROMPT, city)", "agent.ask(PROMPT, city + city)"))

    result = suite.run()

    assert result.stdout.str().count("what changed, recorded") == 3
    assert "one change stops" not in result.stdout.str()


def test_workers_of_xdist_share_a_report_too(suite: Suite) -> None:
    suite.write(THREE)
    suite.record()
    suite.write(CHANGED)

    result = suite.run_spread()

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert result.stdout.str().count("what changed, recorded") == 1
    result.stdout.fnmatch_lines(["agent cassettes: one change stops 3 tests, told at *"])
