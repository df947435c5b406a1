"""Goldens that look unused and are not: a test that did not pass may not have come to compare its own.

syrupy takes for unused what no test of the run has compared, and deletes it with ``--snapshot-update``: also where a
test failed before its assertion, was deselected or never run because the run was stopped, and where a module could not
be imported.  It is told that all those were skipped, since what belongs to a skipped test is never unused.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any

import pytest

__all__ = ["UnusedGoldens"]

_FIXTURES = frozenset({"event_snapshot", "mermaid_snapshot"})
_ENDINGS = frozenset({".agent-events", ".mermaid"})
_OUTPUT = "agent_golden_tests"


class UnusedGoldens:
    """Keeps the goldens of tests that did not pass."""

    def __init__(self) -> None:
        self._tests: dict[str, pytest.Item] = {}  # those that compare goldens, of all that were collected
        self._passed: dict[str, bool] = {}
        self._of_workers: set[str] = set()

    def pytest_itemcollected(self, item: pytest.Item) -> None:
        if not _FIXTURES.isdisjoint(getattr(item, "fixturenames", ())):
            self._tests[item.nodeid] = item

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        report = yield
        syrupy = getattr(collector.config, "_syrupy", None)
        if syrupy is not None and isinstance(collector, pytest.Module) and not report.passed:
            _forget_module(syrupy, collector)
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
        syrupy = getattr(session.config, "_syrupy", None)
        if syrupy is not None:
            self._keep(session, syrupy)
        return (yield)

    def _keep(self, session: pytest.Session, syrupy: Any) -> None:
        output = getattr(session.config, "workeroutput", None)
        at_others: set[str] = set()
        if output is not None:
            output[_OUTPUT] = sorted(self._tests)
            at_others = {item.nodeid for item in session.items} - set(self._passed)
        items = [
            item
            for nodeid, item in self._tests.items()
            if not self._passed.get(nodeid, False) and nodeid not in at_others
        ]
        _claim(syrupy, items)
        syrupy.collect_items(items)
        syrupy.select_items(items)
        for item in items:
            syrupy.ran_item(item.nodeid, "skipped")
        _keep_of_lost_workers(syrupy, self._of_workers)


def _claim(syrupy: Any, tests: Iterable[pytest.Item]) -> None:
    """Say whose goldens are, where no test came to compare any: other extensions take such files for leftovers."""
    from pytest_agentreplay.snapshots import find_goldens

    for test in {test.path.parent: test for test in tests}.values():
        for path, extension in find_goldens(test).items():
            syrupy._extensions.setdefault(path, extension)


def _keep_of_lost_workers(syrupy: Any, tests: set[str]) -> None:
    """Keep the goldens of tests that no worker of pytest-xdist tells of, because it died or was stopped."""
    reports = syrupy._worker_reports
    run = {nodeid for report in reports for nodeid, outcome in report["selected"].items() if outcome}
    for report in reports[-1:]:
        report["selected"].update(dict.fromkeys(tests - run, "skipped"))


def _forget_module(syrupy: Any, module: pytest.Module) -> None:
    """Let a module that could not be collected, and has goldens, be none that lost its tests."""
    goldens = module.path.parent / module.config.option.snapshot_dirname / module.path.stem
    if any(path.suffix in _ENDINGS for path in goldens.glob("*")):
        from pytest_agentreplay.snapshots import key_of_module

        syrupy._collected_modules.discard(key_of_module(module.path))
