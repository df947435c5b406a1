"""The golden fixtures: event streams and diagrams, compared and kept by syrupy."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Generator
from typing import TYPE_CHECKING

import pytest

from pytest_agentreplay.counts import say_count
from pytest_agentreplay.plugin.attempts import ATTEMPT
from pytest_agentreplay.settings import DEFAULT_REPLAY_MODE, Settings

if TYPE_CHECKING:
    from syrupy.assertion import SnapshotAssertion

    from pytest_agentreplay.session import Session

__all__ = ["Goldens", "event_snapshot", "mermaid_snapshot"]


@pytest.fixture
def event_snapshot(request: pytest.FixtureRequest) -> SnapshotAssertion:
    """A golden event stream: ``assert agent_run.events == event_snapshot``."""
    _require_syrupy(request)
    from pytest_agentreplay.snapshots import AgentEventsExtension, golden_of

    return golden_of(request.node, AgentEventsExtension)


@pytest.fixture
def mermaid_snapshot(request: pytest.FixtureRequest) -> SnapshotAssertion:
    """A golden diagram: ``assert agent_run.mermaid() == mermaid_snapshot``."""
    _require_syrupy(request)
    from pytest_agentreplay.snapshots import MermaidExtension, golden_of

    return golden_of(request.node, MermaidExtension)


def _require_syrupy(request: pytest.FixtureRequest) -> None:
    if not request.config.pluginmanager.has_plugin("syrupy"):
        said = (
            "which is not loaded: leave out -p no:syrupy, or add -p syrupy where plugins are not loaded by themselves"
        )
        pytest.fail(f"{request.fixturename} needs syrupy's pytest plugin, {said}", pytrace=False)


def _session_of(item: pytest.Item) -> Session | None:
    attempt = item.stash.get(ATTEMPT, None)
    return attempt.session if attempt is not None else None


def _update_command(session: Session | None, test: str) -> str:
    """Return the command that writes a golden anew, and the recording that it is of.

    A failing test does not replace a cassette: what it recorded is gone on from, and nobody pays for it twice.  A run
    that the recording did not answer alone is recorded anew, or the next one would differ from recording and golden.
    """
    settings = session.settings if session is not None else Settings()
    mode = []
    if settings.replay != DEFAULT_REPLAY_MODE:
        mode = ["--record-mode=rewrite"]
    elif settings.recording.records_unknown:
        mode = ["--record-mode=new_episodes"]
    return _pytest(test, *mode, "--snapshot-update")


def _advice_on_less(session: Session | None, test: str) -> list[str]:
    """Return what else to do where a run has not asked for all that was recorded: it would fail with its new golden."""
    if session is None or session.player.is_recording or session.settings.replay != DEFAULT_REPLAY_MODE:
        return []
    count = len(session.player.unplayed(("setup", "call"))) if session.settings.unplayed == "fail" else 0
    if not count:
        return []
    steps = say_count(count, "recorded step")
    return [
        "",
        f"When it was compared, {steps} had not been asked for. If the run is to ask for less,",
        "record it again as well:",
        f"  {_pytest(test, '--record-mode=rewrite', '--snapshot-update')}",
    ]


def _pytest(*arguments: str) -> str:
    return shlex.join(["pytest", *arguments])


class Goldens:
    """Says what differs from a golden."""

    def __init__(self) -> None:
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
        item = golden.test_location.item
        session, test = _session_of(item), node_from_here(config, item.nodeid)
        command = _update_command(session, test)
        self._explained += explain_failure(golden, command=command, folder=config.invocation_params.dir)
        self._explained += _advice_on_less(session, test)
        return [f"the run {op} its golden; see 'golden' below"]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if report.failed and self._explained:
            report.sections.append(("golden", "\n".join(self._explained)))
        self._explained = []
        return report
