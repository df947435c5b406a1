"""What a test report says of one of our own errors: its words, and where in the user's code it was met."""

from __future__ import annotations

import linecache
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pytest_agentreplay.errors import (
    AgentReplayError,
    ReplayDivergenceError,
    ReplayDivergenceException,
    ReplayStop,
    SecretLeakError,
)

if TYPE_CHECKING:
    from pytest_agentreplay.plugin.attempts import Attempt

__all__ = ["repeated_error", "stop_behind", "words_of"]

_MOST_CALLS = 8  # a helper may call itself


def stop_behind(error: BaseException | None) -> ReplayStop | None:
    """Return the stop whose ``Exception`` twin an error is."""
    cause = error.__cause__ if isinstance(error, ReplayDivergenceException) else None
    return cause if isinstance(cause, ReplayStop) else None


def repeated_error(error: BaseException) -> BaseException:
    """Return the error that a group holds again and again, as where a fixture's teardown ends with what it met."""
    if not isinstance(error, BaseExceptionGroup):
        return error
    first, *others = (stop_behind(one) or one for one in error.exceptions)
    return first if all(other is first for other in others) else error


def words_of(error: AgentReplayError | ReplayStop, attempt: Attempt | None) -> str:
    """Return what a report says of one of our errors, with the user's calls that met it; of a stop all of it once."""
    raised = stop_behind(error) or error
    text = str(error)
    words = f"{type(raised).__name__}: {text}"
    if isinstance(raised, ReplayStop) and attempt is not None:
        if attempt.reported == text:
            first, *_ = words.splitlines()
            return f"{first}\n\n  The same divergence again; it is reported in full once."
        attempt.reported = text
    names_its_call = isinstance(raised, ReplayDivergenceError) or "\n  called " in text
    return words if names_its_call else words + _calls_of(raised)


def _calls_of(error: BaseException) -> str:
    """Return the user's calls that led to an error, the innermost first, each with its line of code."""
    lines = list(_lines_of(error))
    return "\n\n" + "\n".join(lines) if lines else ""


def _lines_of(error: BaseException) -> Iterator[str]:
    from pytest_agentreplay.divergence import find_places  # brings in more than an unmarked suite needs

    word = "called"
    for place in list(find_places(error.__traceback__))[: -_MOST_CALLS - 1 : -1]:
        yield f"  {word:<6} {place.shown}"
        code = linecache.getline(place.filename, place.line).strip()
        if code and not isinstance(error, SecretLeakError):  # the line may hold the secret
            yield f"           {code}"
        word = "from"
