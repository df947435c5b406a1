"""What a fold needs of a tape: a cassette, a recording under way or a journal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from pytest_agentreplay.records import Entry, ExchangeStep

__all__ = ["Tape"]


class Tape(Protocol):
    """An ordered record of one run's steps."""

    @property
    def entries(self) -> Sequence[Entry]:
        """The recorded steps between head and end, in order."""

    @property
    def exchanges(self) -> Sequence[ExchangeStep]:
        """Those of them that are exchanges."""

    @property
    def messages(self) -> Mapping[str, Any]:
        """The elements that requests refer to, by address."""
