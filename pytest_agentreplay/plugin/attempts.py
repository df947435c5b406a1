"""One run of a test, as the hooks and fixtures that take part in it know it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_agentreplay.session import Session

__all__ = ["ATTEMPT", "INTERRUPTIONS", "Attempt"]

INTERRUPTIONS = (KeyboardInterrupt, pytest.exit.Exception)  # end the whole session, whatever a test has met


class Attempt:
    """One run of a test; a marked one has a session from its first fixture on."""

    def __init__(self) -> None:
        self.session: Session | None = None
        self.passed = False
        self.reported: str | None = None


ATTEMPT: pytest.StashKey[Attempt] = pytest.StashKey()
