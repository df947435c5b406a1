"""What the terminal says at the end: one line when all is well, each problem with its next command."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from typing import Any, TypedDict

import pytest

from pytest_agentreplay.counts import say_count

__all__ = ["ATTRIBUTE", "ReportedOutcome", "Summary"]

ATTRIBUTE = "agent_cassette_outcomes"  # what a test report carries: a list of outcomes


class ReportedOutcome(TypedDict):
    """What became of one cassette, as plain values that cross the borders of processes."""

    action: str
    path: str  # as reports show it
    absolute: str
    exists: bool
    test: str  # what selects the test on a command line
    passed: bool
    exchanges: int
    tools: int
    failed: int
    resumed: int
    resumed_tools: int
    torn: str | None
    partial: str | None
    dropped: list[str]
    unplayed: list[int]
    tape: str | None
    made: int
    answered: bool  # a recording that is kept lacks no answer: the test failed by itself


class Summary:
    """Gathers the outcomes that test reports carry, also from the workers of pytest-xdist.

    A test that is run again records the same cassette: the last word on a path counts.
    """

    def __init__(self) -> None:
        self.replayed: list[ReportedOutcome] = []
        self.continued: dict[str, ReportedOutcome] = {}
        self.recorded: dict[str, ReportedOutcome] = {}
        self.kept: dict[str, ReportedOutcome] = {}

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        outcomes: list[ReportedOutcome] = getattr(report, ATTRIBUTE, [])
        for outcome in outcomes:
            if outcome["action"] == "replayed":
                self.replayed.append(outcome)
            elif outcome["action"] == "continued":
                self.continued[outcome["path"]] = outcome
            elif outcome["action"] == "recorded":
                self.recorded[outcome["path"]] = outcome
                self.kept.pop(outcome["path"], None)
            elif outcome["action"] == "kept":
                self.kept[outcome["path"]] = outcome

    @pytest.hookimpl
    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        parts = [
            f"{len(outcomes)} {action} ({_counted(outcomes)})"
            for action, outcomes in (
                ("replayed", self.replayed),
                ("continued", self.continued.values()),
                ("recorded", self.recorded.values()),
            )
            if outcomes
        ]
        if parts:
            terminalreporter.write_line(f"agent cassettes: {', '.join(parts)}")
        for outcome in self.recorded.values():
            terminalreporter.write_line(f"  recorded {outcome['path']}{_notes(outcome)}")
        for outcome in self.continued.values():
            terminalreporter.write_line(
                f"  went on live from {outcome['path']}: {outcome['tape']} ({outcome['made']} made)"
            )
        for outcome in self.kept.values():
            terminalreporter.write_line(
                f"  {_what_is_kept(outcome)} kept: {outcome['partial']} ({_kept(outcome)}); "
                f"to go on from it: pytest {shlex.quote(outcome['test'])} --record-mode={_resuming(outcome)}"
            )


def _counted(outcomes: Iterable[ReportedOutcome]) -> str:
    found = list(outcomes)
    counts = {
        "request": sum(outcome["exchanges"] for outcome in found),
        "tool call": sum(outcome["tools"] for outcome in found),
    }
    named = [say_count(count, noun) for noun, count in counts.items() if count]
    return ", ".join(named) or "0 requests"


def _what_is_kept(outcome: ReportedOutcome) -> str:
    return "recording of a failing test" if outcome["answered"] else "unfinished recording"


def _kept(outcome: ReportedOutcome) -> str:
    failed = f"; {say_count(outcome['failed'], 'failed one')} will be asked again" if outcome["failed"] else ""
    return _steps(outcome["exchanges"], outcome["tools"]) + failed


def _steps(exchanges: int, tools: int) -> str:
    return say_count(exchanges, "exchange") + (f", {say_count(tools, 'tool call')}" if tools else "")


def _notes(outcome: ReportedOutcome) -> str:
    notes = []
    if outcome["resumed"] or outcome["resumed_tools"]:
        held = _steps(outcome["resumed"], outcome["resumed_tools"])
        notes.append(f"resumed from an unfinished recording of {held}")
    if outcome["torn"]:
        notes.append(f"its {outcome['torn']}")
    if outcome["dropped"]:
        notes.append(f"dropped what was not played: {', '.join(outcome['dropped'])}")
    if not outcome["passed"]:
        notes.append("by a failing test: check it before you commit it")
    return f" ({'; '.join(notes)})" if notes else ""


def _resuming(outcome: ReportedOutcome) -> str:
    return "new_episodes" if outcome["exists"] else "once"
