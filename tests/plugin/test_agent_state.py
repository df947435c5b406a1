"""The state store in pytest: a branch for each test, filled once, with the run's steps logged on it."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

import pytest

from pytest_agentreplay.state import open_store
from tests.support.suite import Suite, failure

SEED = """
import pytest

@pytest.fixture(scope="session")
def agent_state_seed():
    def seed(state):
        state.json.set("portfolio", "$", {"stocks": 60, "bonds": 40})
        with open("seeded.txt", "a") as file:
            file.write("x")
    return seed
"""


def kept_store(result: str) -> Path:
    """Return the path of the store that a failure report names."""
    found = re.search(r"kept in (\S+)", result)
    assert found is not None, result
    return Path(found.group(1))


def test_each_test_has_a_branch_of_its_own_forked_from_what_the_seed_wrote(suite: Suite) -> None:
    suite.pytester.makeconftest(SEED)
    suite.write(
        """
        import pytest

        @pytest.mark.parametrize("stocks", [20, 50])
        def test_it(agent_state, agent_store, stocks):
            assert agent_state.json.get("portfolio") == {"stocks": 60, "bonds": 40}
            agent_state.json.set("portfolio", "$.stocks", stocks)
            assert agent_store.json.get("portfolio", "$.stocks") == 60
            assert agent_store.branches.get(agent_state.branch).parent == "default"

        def test_a_passing_tests_branch_is_dropped(agent_store):
            assert [branch.name for branch in agent_store.branches.list()] == ["default"]
        """
    )

    result = suite.run()

    result.assert_outcomes(passed=3)
    assert (suite.path / "seeded.txt").read_text() == "x"


def test_a_failing_tests_branch_is_kept_and_its_place_printed(suite: Suite) -> None:
    suite.write(
        """
        def test_it(agent_state):
            agent_state.kv.put("plan", "buy")
            agent_state.kv.put("draft", "x")
            agent_state.kv.delete("draft")
            assert agent_state.kv.get("plan") == "sell"
        """
    )

    result = suite.run()

    result.assert_outcomes(failed=1)
    output = result.stdout.str()
    path = kept_store(output)
    [branch] = re.findall(r"branch '(test_it~[0-9a-f]{8}~1)', kept in", output)
    assert f"open_store('{path}').at(branch='{branch}')" in output
    assert "keys changed by this test, as of version 5:" in output
    assert "kv 'plan' written at version 3 by the test's code" in output
    assert "kv 'draft' deleted at version 5 by the test's code" in output
    with open_store(path) as store:
        assert store.at(branch).kv.get("plan") == "buy"


def test_branches_are_kept_when_asked_in_the_store_that_is_named(suite: Suite) -> None:
    suite.write("def test_it(agent_state): agent_state.kv.put('plan', 'buy')")

    for _ in range(2):
        suite.run("--agent-keep-branches", "--agent-store=kept.db").assert_outcomes(passed=1)

    with open_store(suite.path / "kept.db") as store:
        names = [branch.name for branch in store.branches.list()[1:]]
        assert [re.sub(r"~\w{8}~", "~", name) for name in names] == ["test_it~1", "test_it~2"]
        assert [store.at(name).kv.get("plan") for name in names] == ["buy", "buy"]


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"no database\n", "the file is no SQLite database"),
        ("CREATE TABLE users (name TEXT)", "this SQLite database is no state store"),
    ],
    ids=["text", "foreign"],
)
@pytest.mark.parametrize("option", [True, False], ids=["option", "ini"])
def test_a_file_that_is_no_store_is_told_by_what_names_it(
    suite: Suite, content: bytes | str, fault: str, option: bool
) -> None:
    path = suite.path / "other.db"
    if isinstance(content, str):
        connection = sqlite3.connect(path)
        connection.execute(content)
        connection.close()
    else:
        path.write_bytes(content)
    before = path.read_bytes()
    suite.write("def test_it(agent_state): pass")
    suite.ini(*([] if option else ["agent_store = other.db"]))

    result = suite.run(*(["--agent-store=other.db"] if option else []))

    named_by = "--agent-store" if option else f"{suite.path / 'tox.ini'}: agent_store"
    told = failure(result)
    assert told.startswith(f"StoreFileError: {path}: {fault}")
    assert told.endswith(f" It is named by {named_by}.")
    assert path.read_bytes() == before


def test_a_store_named_in_the_ini_file_is_filled_once_and_shared_by_all_workers(suite: Suite) -> None:
    suite.ini("agent_store = shared.db")
    suite.pytester.makeconftest(SEED)
    suite.write(
        """
        import pytest

        @pytest.mark.parametrize("number", range(6))
        def test_it(agent_state, number):
            assert agent_state.json.get("portfolio", "$.stocks") == 60
            agent_state.kv.put("number", number)
        """
    )

    first = suite.run_spread("--agent-keep-branches")

    first.assert_outcomes(passed=6)
    assert (suite.path / "seeded.txt").read_text() == "x"
    with open_store(suite.path / "shared.db") as store:
        kept = [branch.name for branch in store.branches.list()[1:]]
        assert sorted(store.at(name).kv.get("number") for name in kept) == list(range(6))


def test_a_seed_that_fails_fails_every_test_and_not_only_the_first(suite: Suite) -> None:
    suite.pytester.makeconftest(SEED.replace("with open", "raise OSError('no quotes today')\n        with open"))
    suite.write("def test_a(agent_state): pass\ndef test_b(agent_state): pass")

    result = suite.run()

    result.assert_outcomes(errors=2)
    assert "no quotes today" in failure(result, "test_a")
    assert "filling branch 'default' failed before it was done" in failure(result, "test_b")


def test_a_seed_that_is_no_function_is_refused(suite: Suite) -> None:
    suite.pytester.makeconftest(SEED.replace("return seed", "return {'stocks': 60}"))
    suite.write("def test_it(agent_state): pass")

    result = suite.run()

    result.assert_outcomes(errors=1)
    assert "agent_state_seed must return a function that takes the state" in failure(result)


AGENT_AND_STATE = """
import pytest
from agent import ask
from pytest_agentreplay import recorded_tool

@recorded_tool
def look_up(what):
    return f"price of {what}"

def run(state, second="two"):
    state.kv.put("step", 1)
    ask("one")
    state.kv.put("step", 2)
    look_up("tea")
    state.kv.put("step", 3)
    ask(second)
    state.kv.put("step", 4)

@pytest.mark.agent_cassette
def test_it(agent_run, agent_state, request):
    run(agent_state, second=request.config.getoption("second"))
    events = agent_state.events.list()
    assert [event.type for event in events] == ["run.start", "model", "tool", "model"]
    assert [event.payload["began"] for event in events] == [2, 4, 6, 8]
    assert [agent_run.state_at(event).kv.get("step") for event in events] == [None, 1, 2, 3]
    assert [agent_state.kv.get("step", as_of=event) for event in events] == [None, 1, 2, 3]
    [call] = agent_run.tool_calls("look_up")
    assert agent_run.state_at(call).kv.get("step") == 2
    assert events[2].payload["arguments"] == {"what": "tea"}
    assert events[2].payload["result"] == "price of tea"
    assert agent_state.events.verify_chain()
"""
OPTION = "def pytest_addoption(parser): parser.addoption('--second', default='two')"


def test_the_runs_steps_are_on_the_branch_alike_when_recorded_and_when_replayed(suite: Suite) -> None:
    suite.pytester.makeconftest(OPTION)
    suite.write(AGENT_AND_STATE)

    recorded = suite.run("--record-mode=once")
    replayed = suite.run()

    recorded.assert_outcomes(passed=1)
    replayed.assert_outcomes(passed=1)


def test_a_divergence_lists_the_keys_changed_before_it_and_who_wrote_them(suite: Suite) -> None:
    suite.pytester.makeconftest(OPTION)
    suite.write(AGENT_AND_STATE)
    suite.record()

    result = suite.run("--second=three")

    result.assert_outcomes(failed=1)
    output = result.stdout.str()
    assert "keys changed before the diverging step, chat m, as of version 8:" in output
    assert "kv 'step' written at version 8 by the test's code, after tool look_up" in output


def test_what_a_live_tool_writes_is_said_to_be_its(suite: Suite) -> None:
    suite.write(
        """
        import pytest
        from agent import ask
        from pytest_agentreplay import recorded_tool

        @pytest.mark.agent_cassette(tools="live")
        def test_it(agent_run, agent_state):
            @recorded_tool
            def buy(what):
                agent_state.json.set("plan", "$.bought", what)

            ask("one")
            buy("tea")
            ask("two")
            assert not agent_run.is_recording
        """
    )

    result = suite.run("--record-mode=once")

    result.assert_outcomes(failed=1)
    assert "json 'plan' written at version 5 by tool buy (from 4 to 6)" in result.stdout.str()


def test_a_run_without_the_fixture_says_what_state_at_needs(suite: Suite) -> None:
    suite.write(
        """
        import pytest
        from agent import ask

        @pytest.mark.agent_cassette
        def test_it(agent_run):
            ask("one")
            agent_run.state_at(None)
        """
    )

    result = suite.run("--record-mode=once")

    assert "state_at needs the fixture agent_state" in failure(result)


def test_an_event_of_another_tests_branch_is_refused(suite: Suite) -> None:
    suite.write(
        """
        import pytest
        from agent import ask
        from pytest_agentreplay.errors import HistoryUnavailableError

        EVENTS = []

        @pytest.mark.agent_cassette
        @pytest.mark.parametrize("number", [1, 2])
        def test_it(agent_run, agent_state, number):
            ask("one")
            EVENTS.append(agent_state.events.list()[1])
            for event in EVENTS[:-1]:
                with pytest.raises(HistoryUnavailableError, match="was deleted at"):
                    agent_run.state_at(event)
            assert agent_run.state_at(EVENTS[-1]).head == 3
        """
    )

    result = suite.run("--record-mode=once")

    result.assert_outcomes(passed=2)


def test_each_attempt_at_a_test_has_a_branch_of_its_own(suite: Suite) -> None:
    suite.write(
        """
        def test_it(agent_state, agent_store):
            assert agent_state.kv.get("seen") is None
            agent_state.kv.put("seen", 1)
            assert len(agent_store.branches.list()) == 3, agent_state.branch
            assert agent_state.branch.endswith("~2")
        """
    )

    result = suite.run("--reruns=1")

    result.assert_outcomes(passed=1)
    assert "1 rerun" in result.stdout.str()


def test_what_a_passing_test_forked_from_its_branch_is_dropped_with_it(suite: Suite) -> None:
    suite.write(
        """
        def test_a(agent_state, agent_store):
            agent_store.branches.fork(agent_state.branch, "retry")
            agent_store.branches.fork("retry", "again")

        def test_b(agent_state, agent_store):
            assert [branch.name for branch in agent_store.branches.list()] == ["default", agent_state.branch]
            agent_store.branches.delete(agent_state.branch)
        """
    )

    suite.run().assert_outcomes(passed=2)


def test_a_kept_run_ends_with_its_outcome(suite: Suite) -> None:
    suite.write(
        """
        import pytest
        from agent import ask

        @pytest.mark.agent_cassette
        @pytest.mark.parametrize("passes", [True, False])
        def test_it(agent_state, passes):
            ask("one")
            assert passes
        """
    )

    suite.run("--record-mode=once", "--agent-keep-branches", "--agent-store=kept.db")

    with open_store(suite.path / "kept.db") as store:
        ends = [store.at(branch.name).events.list()[-1] for branch in store.branches.list()[1:]]
    assert [(event.type, event.payload["outcome"]) for event in ends] == [("run.end", "ok"), ("run.end", "failed")]


def test_long_and_odd_test_names_have_branches_too(suite: Suite) -> None:
    suite.write(
        """
        import pytest

        @pytest.mark.parametrize("value", ["x" * 400, "a\\nb", "\\x7f", "\\u00e9"])
        def test_it(agent_state, value):
            assert 1 <= len(agent_state.branch) <= 255
        """
    )

    suite.run().assert_outcomes(passed=4)


def test_a_store_that_cannot_be_read_any_more_does_not_hide_the_failure(suite: Suite) -> None:
    suite.write(
        """
        def test_it(agent_state, agent_store):
            agent_store.branches.delete(agent_state.branch)
            agent_store.branches.fork("default", agent_state.branch)
            assert "what failed" == "something else"
        """
    )

    result = suite.run()

    assert "what failed" in result.stdout.str()
    assert "the state cannot be read: branch 'test_it~" in result.stdout.str()


def test_an_unmarked_test_with_a_branch_loads_no_recorder(suite: Suite) -> None:
    suite.write(
        """
        import sys

        def test_it(agent_state):
            agent_state.kv.put("key", 1)
            assert {"vcr", "pydantic"}.isdisjoint(sys.modules)
        """
    )

    suite.run_apart().assert_outcomes(passed=1)
