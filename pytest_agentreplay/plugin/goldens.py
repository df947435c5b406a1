"""The golden fixtures: event streams and diagrams, compared and kept by syrupy."""

from __future__ import annotations

import sys
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from syrupy.assertion import SnapshotAssertion

__all__ = ["Goldens", "event_snapshot", "mermaid_snapshot"]

_FIXTURES = frozenset({"event_snapshot", "mermaid_snapshot"})


@pytest.fixture
def event_snapshot(request: pytest.FixtureRequest) -> SnapshotAssertion:
    """A golden event stream: ``assert agent_run.events == event_snapshot``."""
    snapshot = _snapshot(request, "event_snapshot")
    from pytest_agentreplay.snapshots import AgentEventsExtension

    return snapshot.use_extension(AgentEventsExtension)


@pytest.fixture
def mermaid_snapshot(request: pytest.FixtureRequest) -> SnapshotAssertion:
    """A golden diagram: ``assert agent_run.mermaid() == mermaid_snapshot``."""
    snapshot = _snapshot(request, "mermaid_snapshot")
    from pytest_agentreplay.snapshots import MermaidExtension

    return snapshot.use_extension(MermaidExtension)


def _snapshot(request: pytest.FixtureRequest, fixture: str) -> SnapshotAssertion:
    if not request.config.pluginmanager.has_plugin("syrupy"):
        pytest.fail(f"{fixture} needs syrupy's pytest plugin, which -p no:syrupy turns off", pytrace=False)
    from syrupy.assertion import SnapshotAssertion

    snapshot = request.getfixturevalue("snapshot")
    if not isinstance(snapshot, SnapshotAssertion):
        pytest.fail(
            f"{fixture} needs syrupy's fixture `snapshot`; here another plugin or conftest gives"
            f" a {type(snapshot).__name__} under that name",
            pytrace=False,
        )
    return snapshot


class Goldens:
    """Says what differs from a golden, and keeps those of tests that failed, maybe before they came to compare them."""

    def __init__(self) -> None:
        self._failed: dict[str, bool] = {}
        self._explained: list[str] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_assertrepr_compare(
        self, config: pytest.Config, op: str, left: object, right: object
    ) -> list[str] | None:
        if "pytest_agentreplay.snapshots" not in sys.modules:
            return None
        from pytest_agentreplay.plugin.paths import node_from_here
        from pytest_agentreplay.snapshots import explain_failure, is_golden

        golden = left if is_golden(left) else right
        if not is_golden(golden):
            return None
        # pytest would cut the assertion's own text after some lines, so what there is to say has a section of its own.
        test = node_from_here(config, golden.test_location.nodeid)
        self._explained += explain_failure(golden, test=test, folder=config.invocation_params.dir)
        return [f"the run {op} its golden; see 'golden' below"]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if _FIXTURES & set(getattr(item, "fixturenames", ())):
            was_failed = self._failed.get(item.nodeid, False) and report.when != "setup"
            self._failed[item.nodeid] = report.failed or was_failed  # a test that is run again is judged anew
        if report.failed and self._explained:
            report.sections.append(("golden", "\n".join(self._explained)))
        self._explained = []
        return report

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, Any, Any]:
        syrupy = getattr(session.config, "_syrupy", None)
        for nodeid, failed in self._failed.items():
            if failed and syrupy is not None:
                syrupy.ran_item(nodeid, "skipped")  # the goldens of a skipped test are never unused
        return (yield)
