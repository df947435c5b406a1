"""Errors that the user's own call raises: the report says which call, and nothing of the way through the plugin."""

from __future__ import annotations

import base64

import pytest

from tests.support.suite import Suite, failure

HELPERS = """
def remember(state, key, value):
    state.kv.put(key, value)
"""


def test_a_value_that_a_store_cannot_keep_is_told_with_the_calls_that_led_to_it(suite: Suite) -> None:
    suite.pytester.makepyfile(helpers=HELPERS)
    suite.write(
        """
        from helpers import remember

        def test_it(agent_state):
            remember(agent_state, "broken", {"when": (1, 2)})
        """
    )

    told = failure(suite.run())

    assert told.startswith("InvalidInputError: $.when: a tuple is not kept")
    assert told.endswith(
        """

  called helpers.py:2 in remember
           state.kv.put(key, value)
  from   test_it.py:4 in test_it
           remember(agent_state, "broken", {"when": (1, 2)})"""
    )


@pytest.mark.parametrize(
    ("error", "call"),
    [
        ("InvalidInputError", 'agent_state.kv.put("", 1)'),
        ("InvalidInputError", 'agent_state.json.set("plan", "steps", 1)'),
        ("HistoryUnavailableError", 'agent_state.kv.get("a", as_of=10**6)'),
        ("BranchNotFoundError", 'agent_store.at(branch="gone").kv.get("a")'),
    ],
)
def test_what_a_store_cannot_do_is_told_with_the_line_that_asked_for_it(suite: Suite, error: str, call: str) -> None:
    suite.write(f"def test_it(agent_state, agent_store):\n    {call}\n")

    lines = failure(suite.run()).splitlines()

    assert lines[0].startswith(f"{error}: ")
    assert lines[-2:] == ["  called test_it.py:2 in test_it", f"           {call}"]


def test_a_question_that_a_run_cannot_answer_is_told_with_the_line_that_asked(suite: Suite) -> None:
    suite.write(
        """
        import pytest
        from agent import ask

        @pytest.mark.agent_cassette
        def test_it(agent_run):
            ask("hello")
            agent_run.state_at(agent_run.events[0])
        """
    )

    lines = failure(suite.run("--record-mode=once")).splitlines()

    assert lines[0].startswith("ConfigurationError: state_at needs the fixture agent_state")
    assert lines[-2:] == ["  called test_it.py:7 in test_it", "           agent_run.state_at(agent_run.events[0])"]


def test_a_tool_that_cannot_be_recorded_is_told_with_the_line_that_called_it(suite: Suite) -> None:
    suite.write(
        """
        import pytest
        from pytest_agentreplay import recorded_tool

        @recorded_tool
        def look(thing):
            return "seen"

        @pytest.mark.agent_cassette
        def test_it():
            look(object())
        """
    )

    lines = failure(suite.run("--record-mode=once")).splitlines()

    assert lines[0].startswith("UnrecordableError: ")
    assert lines[-2:] == ["  called test_it.py:10 in test_it", "           look(object())"]


def test_a_secret_that_would_be_written_is_told_with_the_place_that_sent_it_and_without_its_code(suite: Suite) -> None:
    hidden = base64.b64encode(b"gsk_" + b"4f0b5e7d91c2a8f3" * 2).decode()
    suite.write(
        f"""
        import pytest
        from agent import ask

        @pytest.mark.agent_cassette
        def test_it():
            ask("{hidden}")
        """
    )

    told = failure(suite.run("--record-mode=once"))

    assert told.startswith("SecretLeakError: ")
    assert told.endswith("\n\n  called agent.py:26 in ask\n  from   test_it.py:6 in test_it")
    assert hidden not in told


def test_of_a_helper_that_calls_itself_the_innermost_calls_are_told(suite: Suite) -> None:
    suite.write(
        """
        def remember(state, depth):
            if depth:
                remember(state, depth - 1)
            state.kv.put("", 1)

        def test_it(agent_state):
            remember(agent_state, 30)
        """
    )

    told = failure(suite.run())

    assert "  called test_it.py:4 in remember\n           state.kv.put" in told
    assert told.count("  from   test_it.py:3 in remember") == 7


def test_an_error_of_a_fixture_and_of_its_teardown_is_told_twice_with_its_own_line_each(suite: Suite) -> None:
    suite.write(
        """
        import pytest

        @pytest.fixture
        def notes(agent_state):
            yield
            agent_state.kv.put("", 1)

        def test_it(agent_state, notes):
            agent_state.kv.put("", 1)
        """
    )

    result = suite.run()

    result.assert_outcomes(failed=1, errors=1)
    reports = result.reprec.getreports("pytest_runtest_logreport")  # type: ignore[attr-defined]
    called, torn_down = (report.longreprtext for report in reports if report.failed)
    assert "  called test_it.py:9 in test_it" in called
    assert "  called test_it.py:6 in notes" in torn_down
    assert "The same divergence" not in torn_down


def test_a_setting_that_no_call_of_the_users_raised_names_no_line(suite: Suite) -> None:
    suite.write(
        """
        import pytest

        @pytest.fixture(scope="session")
        def agent_config():
            return {"replay": "nonsense"}

        @pytest.mark.agent_cassette
        def test_it():
            pass
        """
    )

    told = failure(suite.run())

    assert told.startswith("ConfigurationError: ")
    assert "called" not in told
