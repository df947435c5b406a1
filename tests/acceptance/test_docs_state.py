"""The code in docs/state.md does what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pytest_agentreplay import HistoryUnavailableError, open_store
from pytest_agentreplay.errors import AlreadyExistsError, StateError

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "state.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


def test_the_first_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    exec(compile(BLOCKS[0], "docs/state.md", "exec"), {})

    with open_store(tmp_path / "run.db") as store:
        assert store.at("retry").json.get("plan") == {"stocks": 30, "bonds": 40}


def test_the_first_example_meets_its_own_branch_when_it_runs_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    again = compile(BLOCKS[0], "docs/state.md", "exec")
    exec(again, {})

    with pytest.raises(AlreadyExistsError, match="'retry'"):
        exec(again, {})


def test_the_test_example_passes(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(BLOCKS[1])
    pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function\n")

    pytester.runpytest_inprocess("-p", "no:xdist").assert_outcomes(passed=1)


def test_the_message_that_the_page_shows_is_the_real_one() -> None:
    [message] = re.findall(r"^```text\n(.*?)\n```$", PAGE, re.DOTALL | re.MULTILINE)
    with open_store(":memory:") as store:
        store.kv.put("plan", "buy")
        for name in ("run-1", "run-2"):
            store.branches.fork("default", name)
            store.at(name).kv.put("plan", name)
        event = store.at("run-1").events.append("tool.call")

        with pytest.raises(HistoryUnavailableError) as refused:
            store.at("run-2").json.get("plan", as_of=event)

    assert str(refused.value) == message


def test_each_code_of_an_error_is_named() -> None:
    codes = {error.code for error in StateError.__subclasses__()}

    assert {code for code in codes if f"`{code}`" not in PAGE} == set()
    assert len(codes) == 7
