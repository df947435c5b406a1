"""What a child process is told of the recorded test it works for.

Standard library only, because each child that is told imports it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

__all__ = ["RECORDED_PROCESS", "Job", "Note"]

# Set while a recorded test runs, so that a child process that was started anew knows what it is in.
RECORDED_PROCESS = "AGENT_REPLAY_TEST"


class Note:
    """Sets, where it is read, what the environment says of the recorded test."""

    def __init__(self, test: str | None) -> None:
        self._test = test

    def __reduce__(self) -> tuple[Callable[..., None], tuple[str | None]]:
        return _note, (self._test,)


class Job:
    """A job that knows the test it works for, in whichever process it runs."""

    def __init__(self, function: Callable[..., Any], test: str) -> None:
        self._function = function
        self._test = test

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        before = os.environ.get(RECORDED_PROCESS)
        _note(self._test)
        try:
            return self._function(*args, **kwargs)
        finally:
            _note(before)


def _note(test: str | None) -> None:
    if test is None:
        os.environ.pop(RECORDED_PROCESS, None)
    else:
        os.environ[RECORDED_PROCESS] = test
