"""Goldens that look unused and are not: a test that did not pass may not have come to compare its own.

syrupy takes for unused what no test of the run has compared, and deletes it with ``--snapshot-update``: also where a
test failed before its assertion, was deselected or never run because the run was stopped, and where a module could not
be imported.  It is told that all those were skipped, since what belongs to a skipped test is never unused.
"""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

__all__ = ["UnusedGoldens"]

_FIXTURES = frozenset({"event_snapshot", "mermaid_snapshot"})
_OUTPUT = "agent_golden_tests"


class UnusedGoldens:
    """Keeps the goldens of tests that did not pass."""

    def __init__(self) -> None:
        self._tests: dict[str, pytest.Item] = {}  # those that compare goldens, of all that were collected
        self._passed: dict[str, bool] = {}
        self._of_workers: set[str] = set()
        self._broken: list[Path] = []

    def pytest_itemcollected(self, item: pytest.Item) -> None:
        if not _FIXTURES.isdisjoint(getattr(item, "fixturenames", ())):
            self._tests[item.nodeid] = item

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        report = yield
        if isinstance(collector, pytest.Module) and not report.passed:
            self._broken.append(collector.path)
        return report

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if item.nodeid in self._tests:
            # A test that is run again is judged anew, and an interrupted one has no report of its call.
            is_call = report.when == "call"
            self._passed[item.nodeid] = report.passed and (is_call or self._passed.get(item.nodeid, False))
            if report.when == "setup":
                self._passed[item.nodeid] = False
        return report

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self._of_workers |= set(getattr(node, "workeroutput", {}).get(_OUTPUT, ()))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, Any, Any]:
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            output[_OUTPUT] = sorted(self._tests)
        # A worker of pytest-xdist does not know of what the others ran.
        at_others = {item.nodeid for item in session.items} - set(self._passed) if output is not None else set()
        left = [
            item
            for nodeid, item in self._tests.items()
            if not self._passed.get(nodeid, False) and nodeid not in at_others
        ]
        if (left or self._broken or self._of_workers) and session.config.pluginmanager.has_plugin("syrupy"):
            from pytest_agentreplay.snapshots import keep_goldens

            keep_goldens(session.config, left, broken=self._broken, of_workers=self._of_workers)
        return (yield)
