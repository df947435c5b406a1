"""How a recording ends: failures that nothing came after are asked for again by a run that goes on from it.

Served instead, they would make that run fail as the one before it did, and the next as well.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import takewhile

from pytest_agentreplay.cassette import Cassette
from pytest_agentreplay.records import Entry, ExchangeStep

__all__ = ["failed_end", "without_failed_end"]

# Answers about the key, the account or the moment: nothing was paid for them, and the same request may be answered the
# next time.  Any other refusal, 400 say, is about the request itself, which would be refused again: it is taken over.
_NOT_NOW = frozenset({401, 402, 403, 407, 408, 409, 425, 429})


def failed_end(steps: Iterable[Entry]) -> list[ExchangeStep]:
    """Return the failed exchanges that steps, in the order in which they were completed, end in; the last stands first.

    A failure that an answer came after is none of them: the client tried again, or the agent turned to another model,
    and does so again when it is served.  A tool's call is no such answer, what the agent did in need, say: it stays,
    and is left out of the recording where the agent does not need it any more.
    """
    exchanges = [step for step in steps if isinstance(step, ExchangeStep)]
    return list(takewhile(_has_failed, reversed(exchanges)))


def without_failed_end(tape: Cassette) -> Cassette:
    """Return an unfinished recording without the failures that it ends in."""
    left_out = set(map(id, failed_end(tape.entries)))
    return replace(tape, entries=tuple(step for step in tape.entries if id(step) not in left_out))


def _has_failed(step: ExchangeStep) -> bool:
    response = step.response
    return step.error is not None or response is None or response.status in _NOT_NOW or response.status >= 500
