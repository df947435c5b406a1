"""What a test's branch costs: 200 tests with ten writes each to ``agent_state``, against the same tests without it.

Both suites run in processes of their own, with nothing but pytest and this plugin.  Timed is what pytest takes
from its first test to its last, without start-up; what a session pays once, the import and the file, is in it.
Reach: the fixture and its ten writes cost at most 3 ms a test.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from _harness import Row, measure, median, print_rows, read_arguments

_TESTS = 200
_CONFTEST = """
import time

def pytest_collection_finish(session):
    session.began = time.perf_counter()

def pytest_sessionfinish(session):
    print("TOOK", time.perf_counter() - session.began)
"""
_PLAIN = f"""
import pytest

@pytest.mark.parametrize("number", range({_TESTS}))
def test_it(number):
    state = {{}}
    for step in range(10):
        state["step"] = step
"""
_FORKED = f"""
import pytest

@pytest.mark.parametrize("number", range({_TESTS}))
def test_it(number, agent_state):
    for step in range(10):
        agent_state.kv.put("step", step)
"""


def main() -> None:
    arguments = read_arguments(__doc__, rounds=5)
    with tempfile.TemporaryDirectory() as folder:
        suites = {}
        for name, tests in (("plain", _PLAIN), ("with a branch each", _FORKED)):
            path = Path(folder) / name.replace(" ", "_")
            path.mkdir()
            (path / "conftest.py").write_text(_CONFTEST, encoding="utf-8")
            (path / "test_it.py").write_text(tests, encoding="utf-8")
            suites[name] = path
        samples = measure(
            {name: (lambda path=path: _run(path)) for name, path in suites.items()}, rounds=arguments.rounds
        )
    plain, forked = samples["plain"], samples["with a branch each"]
    more = median(found - base for found, base in zip(forked, plain, strict=True))
    rows = [
        Row("a test, plain", _TESTS, median(plain), "ms"),
        Row("a test, with a branch and ten writes", _TESTS, median(forked), "ms", median(plain)),
        Row("the branch and ten writes", _TESTS, more, "ms", reach=3),
    ]
    print_rows(rows, as_json=arguments.json)


def _run(folder: Path) -> float:
    """Return the milliseconds a test."""
    command = [sys.executable, "-m", "pytest", "-q", "-s", "-p", "pytest_agentreplay.plugin", "-p", "no:cacheprovider"]
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    [took] = [line.split()[-1] for line in done.stdout.splitlines() if "TOOK" in line]
    return float(took) * 1e3 / _TESTS


if __name__ == "__main__":
    main()
