"""One run of a test, as the hooks and fixtures that take part in it know it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_agentreplay.errors import ReplayStop
    from pytest_agentreplay.session import Session

__all__ = ["ATTEMPT", "INTERRUPTIONS", "Attempt"]

INTERRUPTIONS = (KeyboardInterrupt, pytest.exit.Exception)  # end the whole session, whatever a test has met


class Attempt:
    """One run of a test; a marked one has a session from its first fixture on."""

    def __init__(self) -> None:
        self.session: Session | None = None
        self.passed = False
        self.told: ReplayStop | None = None  # what a phase has failed with
        self.reported: str | None = None
        self._has_doubted = False

    @property
    def has_told(self) -> bool:
        """Whether what has stopped the run, if anything has, is what a phase has failed with."""
        stopped = self.session.player.stopped if self.session is not None else None
        return stopped is not None and self.told is stopped

    def doubt(self, report: pytest.TestReport) -> None:
        """Say in the first report of a failure that a failing run recorded the cassette, if one did."""
        doubt = self.session.doubt() if self.session is not None and not self._has_doubted else None
        if doubt is not None:
            self._has_doubted = True
            report.sections.append(("agent cassette", doubt))


ATTEMPT: pytest.StashKey[Attempt] = pytest.StashKey()
