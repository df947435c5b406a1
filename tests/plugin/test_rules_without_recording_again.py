"""Rules that are added to an existing cassette: it still plays, and is not touched."""

from __future__ import annotations

import pytest

from tests.support.suite import Provider, Suite, failure

TEST = """
import pytest
from agent import ask

@pytest.mark.agent_cassette({marker})
def test_it():
    system = {{"role": "system", "content": "Today is {day}. Ticket T-{ticket}."}}
    answer = ask(system, "hello", user="{user}", run="{run}")
    ask("hello", {{"role": "assistant", "content": answer}}, "go on", run="{run}")
"""
FIRST = {"marker": "", "day": "2024-05-01", "ticket": "4711", "user": "u1", "run": "a"}


@pytest.fixture
def before(suite: Suite, provider: Provider) -> bytes:
    """A cassette recorded without any rule, and the provider gone."""
    suite.write(TEST.format(**FIRST))
    suite.record()
    provider.stop()
    return suite.cassette().read_bytes()


def test_without_a_rule_each_change_is_a_divergence(suite: Suite, before: bytes) -> None:
    for change in ({"day": "2025-01-01"}, {"ticket": "4712"}, {"run": "b"}):
        suite.write(TEST.format(**FIRST | change))

        result = suite.run()

        assert failure(result).startswith("ReplayDivergenceError: Request changed: call 1 ")


@pytest.mark.parametrize(
    ("rule", "change"),
    [
        ("ignore='$.run'", {"run": "b"}),
        ("ignore='$.messages[0].content'", {"day": "2025-01-01", "ticket": "4712"}),
        ("ignore='$.messages[*].content =~ Today is [0-9-]+'", {"day": "2025-01-01"}),
        ("ignore=['$.run', '$.messages[0].content =~ T-[0-9]+']", {"run": "b", "ticket": "4712"}),
    ],
)
def test_an_ignore_rule_of_the_marker_needs_no_new_recording(
    suite: Suite, before: bytes, rule: str, change: dict[str, str]
) -> None:
    suite.write(TEST.format(**FIRST | change | {"marker": rule}))

    result = suite.run()

    result.assert_outcomes(passed=1)
    assert suite.cassette().read_bytes() == before


def test_an_ignore_rule_of_the_ini_file_needs_no_new_recording(suite: Suite, before: bytes) -> None:
    suite.ini("agent_ignore =", r"    $.messages[0].content =~ \d{4}-\d{2}-\d{2}")
    suite.write(TEST.format(**FIRST | {"day": "2025-01-01"}))

    result = suite.run()

    result.assert_outcomes(passed=1)
    assert suite.cassette().read_bytes() == before


def test_a_redaction_rule_needs_no_new_recording(suite: Suite, before: bytes) -> None:
    suite.ini("agent_redact_patterns =", r"    ticket=T-\d+")
    suite.write(TEST.format(**FIRST | {"ticket": "4712"}))

    result = suite.run()

    result.assert_outcomes(passed=1)
    assert suite.cassette().read_bytes() == before


def test_a_header_to_match_needs_no_new_recording_where_the_recording_had_none(suite: Suite, before: bytes) -> None:
    suite.write(TEST.format(**FIRST | {"marker": "match_headers='x-tenant'"}))

    result = suite.run()

    result.assert_outcomes(passed=1)


def test_a_rule_that_is_taken_away_again_holds_the_run_to_the_recording(suite: Suite, provider: Provider) -> None:
    suite.write(TEST.format(**FIRST | {"marker": "ignore='$.run'"}))
    suite.record()
    provider.stop()
    suite.write(TEST.format(**FIRST))
    same = suite.run()
    suite.write(TEST.format(**FIRST | {"run": "b"}))
    other = suite.run()

    same.assert_outcomes(passed=1)
    assert failure(other).startswith("ReplayDivergenceError: Request changed: call 1 ")


def test_a_changed_request_under_new_rules_is_still_found_and_compared_by_them(suite: Suite, before: bytes) -> None:
    suite.write(TEST.format(**FIRST | {"run": "b", "day": "2025-01-01", "marker": "ignore='$.run'"}))

    result = suite.run()

    report = failure(result)
    assert "$.messages[0].content" in report
    assert "$.run" not in report
