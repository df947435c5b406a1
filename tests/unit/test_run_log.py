from __future__ import annotations

from collections.abc import Iterator

import pytest

from pytest_agentreplay.errors import ConfigurationError, HistoryUnavailableError
from pytest_agentreplay.records import CompactionStep, ToolStep
from pytest_agentreplay.run_log import RunLog
from pytest_agentreplay.state import Store, open_store


@pytest.fixture
def store() -> Iterator[Store]:
    with open_store(":memory:") as opened:
        opened.branches.fork("default", "run")
        yield opened


def tool(name: str, *, key: str) -> ToolStep:
    return ToolStep(hash=f"a1:{key}", id=key, name=name, arguments={"n": 1}, result="done")


def log_of(store: Store) -> RunLog:
    view = store.at("run")
    return RunLog(store, view, since=view.head)


def test_a_step_is_logged_with_the_version_at_which_it_began(store: Store) -> None:
    log = log_of(store)
    state = store.at("run")
    mark = log.began("tool buy")
    state.kv.put("bought", 1)

    log.completed(tool("buy", key="1"), mark)
    log.completed(CompactionStep(tokens_before=9), None)

    bought, shortened = state.events.list()
    assert (bought.type, bought.payload["began"], bought.version) == ("tool", 2, 4)
    assert bought.payload["arguments"] == {"n": 1}
    assert (shortened.type, shortened.payload["began"], shortened.payload["tokens_before"]) == ("compaction", 4, 9)
    assert log.state_at(bought).kv.get("bought") is None
    assert log.state_at(shortened).kv.get("bought") == 1


def test_a_writer_is_the_innermost_step_that_ran_then(store: Store) -> None:
    log = log_of(store)
    state = store.at("run")
    state.kv.put("before", 1)
    outer = log.began("tool plan")
    state.kv.put("by plan", 1)
    inner = log.began("tool buy")
    state.kv.put("by buy", 1)
    log.completed(tool("buy", key="1"), inner)
    log.completed(tool("plan", key="2"), outer)
    state.kv.put("between", 1)
    log.began("tool sell")
    state.kv.put("by sell", 1)

    lines = log.describe_changes(diverged=False)

    assert lines == [
        "keys changed by this test, as of version 9:",
        "  kv 'before' written at version 3 by the test's code",
        "  kv 'by plan' written at version 4 by tool plan (from 3 to 7)",
        "  kv 'by buy' written at version 5 by tool buy (from 4 to 6)",
        "  kv 'between' written at version 8 by the test's code, after tool plan",
        "  kv 'by sell' written at version 9 by tool sell (from 8 to now)",
    ]


def test_what_was_written_after_the_diverging_step_is_left_out(store: Store) -> None:
    log = log_of(store)
    store.at("run").kv.put("before", 1)
    log.began("chat m")
    store.at("run").kv.put("after", 1)

    lines = log.describe_changes(diverged=True)

    assert lines == [
        "keys changed before the diverging step, chat m, as of version 3:",
        "  kv 'before' written at version 3 by the test's code",
    ]


def test_many_changes_are_cut(store: Store) -> None:
    log = log_of(store)
    for number in range(50):
        store.at("run").kv.put(f"key {number}", number)

    lines = log.describe_changes(diverged=False)

    assert len(lines) == 21
    assert lines[-1] == "  … and 31 more"


def test_a_moment_that_is_not_of_this_run_is_refused(store: Store) -> None:
    log = log_of(store)
    elsewhere = store.events.append("tool")

    with pytest.raises(HistoryUnavailableError, match="'default'"):
        log.state_at(elsewhere)
    with pytest.raises(HistoryUnavailableError, match="the step 'tool buy' is not on branch 'run'"):
        log.state_at(tool("buy", key="1"))
    with pytest.raises(ConfigurationError, match="state_at takes an event"):
        log.state_at("tool")  # type: ignore[arg-type]
