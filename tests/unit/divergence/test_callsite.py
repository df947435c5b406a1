"""Where in the user's own code a request was made."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pytest_agentreplay.divergence import find_call_site

WIDTH = 88


def ask() -> str:
    return find_call_site() or ""


def ask_deep(calls: int) -> str:
    return ask_deep(calls - 1) if calls else ask()


def function_in(path: Path) -> Callable[..., Any]:
    """Return a function that stands in a file, and on its second line calls what it is given."""
    names: dict[str, Callable[..., Any]] = {}
    exec(compile("def run(call):\n    return call()\n", str(path), "exec"), names)
    return names["run"]


@pytest.fixture
def called_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """What is said of a call that functions in these files have led to, and nothing else."""
    monkeypatch.chdir(tmp_path)

    def called(*names: str) -> str:
        call: Callable[[], Any] = find_call_site
        for name in reversed(names):
            call = partial(function_in(tmp_path / name), call)
        with ThreadPoolExecutor(1) as pool:
            return str(pool.submit(call).result())

    return called


def test_two_calls_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parent)
    start = test_two_calls_are_told_apart.__code__.co_firstlineno

    first = ask()
    second = ask()

    helper = f"test_callsite.py:{ask.__code__.co_firstlineno + 1} in ask"
    assert [first, second] == [
        f"test_callsite.py:{start + offset} in test_two_calls_are_told_apart > {helper}" for offset in (4, 5)
    ]


def test_the_calls_that_led_to_one_are_shown_the_innermost_last(called_through: Callable[..., str]) -> None:
    assert called_through("test_a.py", "src/agent.py") == "test_a.py:2 in run > src/agent.py:2 in run"


def test_of_many_calls_the_outermost_and_as_many_of_the_innermost_as_fit_are_shown(
    called_through: Callable[..., str],
) -> None:
    called = called_through("test_a.py", *(f"agent_{number}.py" for number in range(10)))

    inner = " > ".join(f"agent_{number}.py:2 in run" for number in (7, 8, 9))
    assert called == f"test_a.py:2 in run > … > {inner}"


def test_a_function_that_calls_itself_again_and_again_is_shown_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parent)

    called = ask_deep(300)

    assert " > … > " in called
    assert called.endswith(" in ask")
    assert len(called) <= WIDTH


def test_each_file_is_looked_up_once_however_often_it_was_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parent)
    looked_up = list[Path]()
    real = Path.cwd
    monkeypatch.setattr(Path, "cwd", lambda: looked_up.append(real()) or real())

    ask_deep(0)
    few = len(looked_up)
    ask_deep(300)

    assert few > 0
    assert len(looked_up) == 2 * few


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["tests/{long}/test_a.py", "src/{long}/agent.py"], "test_a.py:2 > src/{long}/agent.py:2 in run"),
        (
            ["tests/{long}/test_a.py", "between.py", "src/{long}/agent.py"],
            "test_a.py:2 > … > src/{long}/agent.py:2 in run",
        ),
        (["{long}/{long}/{long}/agent.py"], "{long}/{long}/{long}/agent.py:2 in run"),
        (["test_a.py", "{long}/{long}/{long}/agent.py"], "{long}/{long}/{long}/agent.py:2 in run"),
    ],
)
def test_of_calls_in_files_with_long_names_the_innermost_is_shown_whole(
    called_through: Callable[..., str], names: list[str], expected: str
) -> None:
    long = "a_folder_with_a_long_name_and_more"

    assert called_through(*(name.format(long=long) for name in names)) == expected.format(long=long)
