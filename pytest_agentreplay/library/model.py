"""A tape's model outputs, one after the other, for a loop of any kind; its tools run."""

from __future__ import annotations

import os
import threading
from collections.abc import Collection
from pathlib import Path
from typing import Any

from pytest_agentreplay.dialects import Dialects, Message, installed_dialects
from pytest_agentreplay.errors import NoRecordedOutputError
from pytest_agentreplay.library.tapes import load_tape
from pytest_agentreplay.projections.tape import Tape
from pytest_agentreplay.projections.timeline import read_timeline
from pytest_agentreplay.session import shown_path

__all__ = ["ReplayModel"]


class ReplayModel:
    """Serves the recorded outputs of a run's model in their order, whatever it is asked.  Thread-safe.

    ``tape`` is a tape or the path of a cassette; ``lane`` keeps to one conversation, a named one by its name.
    Call it with anything, or await :meth:`ask`; either gives a :class:`Message` (role, text, tool_calls), and raises
    :class:`NoRecordedOutputError` when all that was recorded has been given.

    The idea is that of a fake model with a script, whose script is a run that took place.
    """

    def __init__(
        self, tape: Tape | str | os.PathLike[str], *, lane: str | None = None, dialects: Dialects | None = None
    ) -> None:
        read = load_tape(Path(tape)) if isinstance(tape, str | os.PathLike) else tape
        moments = read_timeline(read, dialects or installed_dialects())
        outputs = [(told.step.lane, told.reply.messages[0]) for told in moments if told.reply.messages]
        self._outputs = [output for known, output in outputs if lane is None or known in (lane, f"@{lane}")]
        self._origin = _told_origin(getattr(read, "path", None), lane, known=dict(outputs))
        self._given = 0
        self._lock = threading.Lock()

    def __call__(self, *_: Any, **__: Any) -> Message:
        """Return the next recorded output; what is asked does not matter."""
        with self._lock:
            if self._given == len(self._outputs):
                count = len(self._outputs)
                raise NoRecordedOutputError(
                    f"output {count + 1} was asked for, and {count} {'was' if count == 1 else 'were'} recorded"
                    f"{self._origin}\n  Let the loop end sooner, or record a run that goes on for as long."
                )
            self._given += 1
            return self._outputs[self._given - 1]

    async def ask(self, *asked: Any, **more: Any) -> Message:
        """Return the next recorded output, as a coroutine."""
        return self(*asked, **more)

    @property
    def leftover(self) -> tuple[Message, ...]:
        """The outputs that nothing has asked for yet, in their order."""
        return tuple(self._outputs[self._given :])


def _told_origin(path: Path | None, lane: str | None, *, known: Collection[str]) -> str:
    """Return what an error says of where outputs come from: the file, and the lane among those there are."""
    place = "" if path is None else f" in {shown_path(path)}"
    lanes = ", ".join(map(repr, known)) or "none"
    return place if lane is None else f"{place} in lane {lane!r} (lanes with outputs: {lanes})"
