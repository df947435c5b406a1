"""Which of command line, marker, fixture and ini file decides."""

from __future__ import annotations

import pytest

from tests.support.suite import Provider, Suite, failure

TEST = """
import pytest
from agent import ask

@pytest.mark.agent_cassette(MARKER)
def test_it(agent_run):
    print("record mode", agent_run.settings.record_mode, "from", agent_run.settings.sources.get("record_mode"))
    ask("hello")
"""

FIXTURE = """
import pytest

@pytest.fixture(scope="session")
def agent_config():
    return {"record_mode": "once"}
"""


def test_the_command_line_wins_over_the_marker(suite: Suite) -> None:
    suite.write(TEST.replace("MARKER", "record_mode='none'"))

    result = suite.run("--record-mode=once", "-s")

    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*record mode once from command line*"])


def test_a_pinned_marker_wins_over_the_command_line(suite: Suite, provider: Provider) -> None:
    suite.write(TEST.replace("MARKER", "record_mode='none', pin=True"))

    result = suite.run("--record-mode=once")

    assert failure(result).startswith("ReplayDivergenceError: No cassette")
    assert provider.seen == []


def test_a_pinned_class_wins_over_the_command_line_and_not_over_the_tests_own_marker(suite: Suite) -> None:
    suite.write(
        """
        import pytest
        from agent import ask

        @pytest.mark.agent_cassette(record_mode="none", pin=True)
        class TestPinned:
            def test_held(self, agent_run):
                assert agent_run.settings.record_mode == "none"

            @pytest.mark.agent_cassette(record_mode="all", pin=True)
            def test_nearer(self, agent_run):
                assert agent_run.settings.record_mode == "all"
        """
    )

    result = suite.run("--record-mode=once")

    result.assert_outcomes(passed=2)


def test_a_pin_without_a_mode_holds_nothing(suite: Suite) -> None:
    suite.write(TEST.replace("MARKER", "pin=True"))

    result = suite.run("--record-mode=once")

    result.assert_outcomes(passed=1)


def test_the_nearest_marker_wins_over_one_further_out(suite: Suite) -> None:
    suite.write(
        """
        import pytest
        from agent import ask

        pytestmark = pytest.mark.agent_cassette(record_mode="none", unplayed="warn")

        @pytest.mark.agent_cassette(record_mode="once")
        class TestIt:
            def test_it(self, agent_run):
                assert agent_run.settings.record_mode == "once"
                assert agent_run.settings.unplayed == "warn"

            @pytest.mark.agent_cassette(record_mode="rewrite")
            def test_nearest(self, agent_run):
                assert agent_run.settings.record_mode == "rewrite"
        """
    )

    result = suite.run()

    result.assert_outcomes(passed=2)


def test_a_marker_wins_over_the_fixture(suite: Suite) -> None:
    suite.write(TEST.replace("MARKER", "record_mode='none'"), conftest=FIXTURE)

    result = suite.run()

    assert failure(result).startswith("ReplayDivergenceError: No cassette")


def test_the_fixture_wins_over_the_ini_file(suite: Suite) -> None:
    suite.write(TEST.replace("MARKER", ""), conftest=FIXTURE)
    suite.ini("agent_record_mode = none")

    result = suite.run("-s")

    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*record mode once from agent_config fixture*"])


def test_the_ini_file_wins_over_the_default(suite: Suite) -> None:
    suite.write(TEST.replace("MARKER", ""))
    suite.ini("agent_record_mode = once")

    result = suite.run("-s")

    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*record mode once from ini file*"])


def test_lists_gather_what_every_place_says(suite: Suite) -> None:
    suite.write(
        """
        import pytest

        pytestmark = pytest.mark.agent_cassette(ignore="$.outer")

        @pytest.mark.agent_cassette(ignore=["$.inner", "$.shared"])
        def test_it(agent_run):
            assert set(agent_run.settings.ignore) == {"$.inner", "$.outer", "$.shared", "$.fixture", "$.ini"}
        """,
        conftest=FIXTURE.replace('{"record_mode": "once"}', '{"ignore": ["$.fixture", "$.shared"]}'),
    )
    suite.ini("agent_ignore =", "    $.ini", "    $.shared")

    result = suite.run()

    result.assert_outcomes(passed=1)


def test_a_fixture_with_an_unknown_setting_fails_its_tests_naming_it(suite: Suite) -> None:
    suite.write(TEST.replace("MARKER", ""), conftest=FIXTURE.replace("record_mode", "recordmode"))

    result = suite.run()

    result.assert_outcomes(errors=1)
    assert failure(result).startswith("ConfigurationError: agent_config fixture: unknown setting 'recordmode'")


def test_ci_changes_nothing(suite: Suite, provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    suite.write(TEST.replace("MARKER", ""))

    suite.record()
    result = suite.run()

    result.assert_outcomes(passed=1)
    assert len(provider.seen) == 1
