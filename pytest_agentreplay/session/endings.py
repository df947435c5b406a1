"""How a recording ends: failures that nothing came after are asked for again by a run that goes on from it.

Served instead, they would make that run fail as the one before it did, and the next as well.  Of a finished cassette
they are served, as all of it is; a run that fails on one that a failing run made is told how to get another.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from itertools import takewhile
from pathlib import Path

from pytest_agentreplay.cassette import Cassette, load_cassette
from pytest_agentreplay.divergence import Unfinished, Words
from pytest_agentreplay.errors import CassetteError
from pytest_agentreplay.records import Entry, ExchangeStep, ToolStep

__all__ = ["doubt_about", "failed_end", "has_failed", "holds_something", "unfinished_at", "without_failed_end"]

# Answers about the key, the account or the moment: nothing was paid for them, and the same request may be answered the
# next time.  Any other refusal, 400 say, is about the request itself, which would be refused again: it is taken over.
_NOT_NOW = frozenset({401, 402, 403, 407, 408, 409, 425, 429})


def failed_end(steps: Iterable[Entry]) -> list[ExchangeStep]:
    """Return the failed exchanges that steps, in the order in which they were completed, end in; the last stands first.

    A failure that an answer came after is none of them: the client tried again, or the agent turned to another model,
    and does so again when it is served.  A tool's call is no such answer: one that was made for want of an answer stays
    on the tape, and is dropped with what is not played where the run does without it.
    """
    exchanges = [step for step in steps if isinstance(step, ExchangeStep)]
    return list(takewhile(_is_failure, reversed(exchanges)))


def without_failed_end(tape: Cassette) -> Cassette:
    """Return an unfinished recording without the failures that it ends in."""
    left_out = set(map(id, failed_end(tape.entries)))
    return replace(tape, entries=tuple(step for step in tape.entries if id(step) not in left_out))


def unfinished_at(path: Path, *, shown: str) -> Unfinished:
    """Return what reports say of the unfinished recording at ``path``, which they call ``shown``."""
    try:
        entries = load_cassette(path, partial=True).entries
    except CassetteError as error:  # said in full to a run that would go on from it
        fault = f"line {error.line}: {error.fault}" if error.line else error.fault
        return Unfinished(shown, fault=fault if holds_something(path) else None)
    failed = len(failed_end(entries))
    return Unfinished(
        shown, held=sum(isinstance(step, ExchangeStep | ToolStep) for step in entries) - failed, failed=failed
    )


def holds_something(path: Path) -> bool:
    """Return whether an unfinished recording came as far as the end of its first line: before that it holds nothing.

    One that the system does not give may.
    """
    with suppress(OSError):
        return b"\n" in path.read_bytes()
    return True


def has_failed(tape: Cassette) -> bool:
    """Return whether the run that made a cassette failed."""
    return tape.end is not None and tape.end.outcome == "failed"


def doubt_about(tape: Cassette, *, test: str, words: Words, goes_on: bool) -> str:
    """Return what a failing run is told of a cassette that a failing run made: where it ends, and what mends it.

    ``goes_on`` says that the run would have gone on from it live.
    """
    made = "The recording was made by a failing test"
    failed = failed_end(sorted(tape.entries, key=_completed))
    if failed:
        made += f", and ends in {_told(failed[0])}"
    anew = words.record(test, "rewrite")
    if failed or goes_on:
        return f"{made}.\nTo record it anew: {anew}"
    return f"{made}; to go on from it: {words.record(test, 'new_episodes')}\nOr to record it anew: {anew}"


def _completed(step: Entry) -> float:
    return step.timing.began + step.timing.took if step.timing else 0.0


def _told(step: ExchangeStep) -> str:
    if step.error is not None or step.response is None:
        return f"a failed request ({step.error.class_name if step.error else 'no answer'})"
    return f"an answer of {step.response.status}"


def _is_failure(step: ExchangeStep) -> bool:
    response = step.response
    return step.error is not None or response is None or response.status in _NOT_NOW or response.status >= 500
