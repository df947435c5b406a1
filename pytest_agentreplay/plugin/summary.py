"""What the terminal says at the end: one line when all is well, each problem with its next command."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest

__all__ = ["Summary"]

ATTRIBUTE = "agent_cassette_outcomes"


@dataclass(eq=False)  # pytest puts its plugins into sets, which equality would forbid
class Summary:
    """Gathers the outcomes that test reports carry, also from the workers of pytest-xdist."""

    counts: Counter[str] = field(default_factory=Counter)
    exchanges: Counter[str] = field(default_factory=Counter)
    recorded: list[dict[str, Any]] = field(default_factory=list)
    kept: list[dict[str, Any]] = field(default_factory=list)

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        outcomes: list[dict[str, Any]] = getattr(report, ATTRIBUTE, [])
        for outcome in outcomes:
            self.counts[outcome["action"]] += 1
            self.exchanges[outcome["action"]] += outcome["exchanges"]
            if outcome["action"] == "recorded":
                self.recorded.append(outcome)
            elif outcome["action"] == "kept":
                self.kept.append(outcome)

    @pytest.hookimpl
    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if not any(self.counts[action] for action in ("replayed", "recorded", "kept")):
            return
        parts = [
            f"{self.counts[action]} {action} ({self.exchanges[action]} requests)"
            for action in ("replayed", "recorded")
            if self.counts[action]
        ]
        if parts:
            terminalreporter.write_line(f"agent cassettes: {', '.join(parts)}")
        for outcome in self.recorded:
            terminalreporter.write_line(f"  recorded {outcome['path']}{_notes(outcome)}")
        for outcome in self.kept:
            terminalreporter.write_line(
                f"  unfinished recording kept: {outcome['partial']} ({outcome['exchanges']} exchanges); "
                f"to go on from it: pytest {outcome['test']} --record-mode={_resuming(outcome)}"
            )


def _notes(outcome: dict[str, Any]) -> str:
    notes = []
    if outcome["resumed"]:
        notes.append(f"resumed from an unfinished recording of {outcome['resumed']} exchanges")
    if outcome["dropped"]:
        notes.append(f"dropped what was not played: {', '.join(outcome['dropped'])}")
    if not outcome["passed"]:
        notes.append("by a failing test: check it before you commit it")
    return f" ({'; '.join(notes)})" if notes else ""


def _resuming(outcome: dict[str, Any]) -> str:
    return "new_episodes" if outcome["exists"] else "once"
