"""A tape's model outputs, one after the other, for a loop of any kind; its tools run."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

from pytest_agentreplay.dialects import Dialects, Message, installed_dialects
from pytest_agentreplay.errors import NoRecordedOutputError
from pytest_agentreplay.library.tapes import load_tape
from pytest_agentreplay.projections.tape import Tape
from pytest_agentreplay.projections.timeline import read_timeline

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
        lanes = (None if lane is None else lane, f"@{lane}")
        self._outputs = [
            told.reply.messages[0]
            for told in moments
            if told.reply.messages and (lane is None or told.step.lane in lanes)
        ]
        self._given = 0
        self._lock = threading.Lock()

    def __call__(self, *_: Any, **__: Any) -> Message:
        """Return the next recorded output; what is asked does not matter."""
        with self._lock:
            if self._given == len(self._outputs):
                raise NoRecordedOutputError(
                    f"output {self._given + 1} was asked for, and {len(self._outputs)} were recorded"
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
