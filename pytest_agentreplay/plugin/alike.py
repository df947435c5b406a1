"""Tests that fail with the same change share one report: a new SDK or a shared prompt is told once."""

from __future__ import annotations

import shlex
from collections.abc import Collection
from typing import Any

import pytest

__all__ = ["CHANGE", "SharedReports"]

_MOST_NAMED = 10

CHANGE = "agent_cassette_change"  # what a test report carries: what names the change, and the test as one would call it


class SharedReports:
    """Gives the report of a change to the first test that fails with it; the others name that test.

    Asked where the terminal is: under pytest-xdist the workers' reports come together there.
    """

    def __init__(self) -> None:
        self._tests: dict[str, dict[str, None]] = {}  # by change, in the order in which they failed

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        change, test = getattr(report, CHANGE, (None, ""))
        if change is None:
            return
        tests = self._tests.setdefault(change, {})
        first = next(iter(tests), test)
        tests[test] = None
        if first != test:
            report.longrepr = _shortened(str(report.longrepr), first)

    @pytest.hookimpl
    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        for tests in self._tests.values():
            if len(tests) > 1:
                again = f"pytest {_named(tests)} --record-mode=rewrite"
                terminalreporter.write_line(
                    f"agent cassettes: one change stops {len(tests)} tests, told at {next(iter(tests))}"
                )
                terminalreporter.write_line(f"  if it is meant, record them again: {again}")


def _named(tests: Collection[str]) -> str:
    """Return what selects tests on a command line that can still be read."""
    return " ".join(map(shlex.quote, tests)) if len(tests) <= _MOST_NAMED else "--last-failed"


def _shortened(report: str, first: str) -> str:
    lines = report.splitlines()
    about = [line for line in lines[1:] if line.startswith(("  test ", "  cassette ", "  called "))]
    return "\n".join(
        [lines[0], "", *about, "", f"  The same change as in {first}, where it is told in full.", lines[-1]]
    )
