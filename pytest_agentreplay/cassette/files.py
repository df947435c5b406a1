"""What the files beside a cassette are called.

::

    NAME.jsonl                        a cassette
    NAME.partial.jsonl                its recording: while it goes on, and what an interrupted one has left
    NAME.replay.jsonl                 the tape of a run that replayed it and went on from it
    NAME.replay.RUN.partial.jsonl     that tape while its run goes on: several runs may
"""

from __future__ import annotations

from pathlib import Path, PurePath

from pytest_agentreplay.filenames import SUFFIX

__all__ = ["continuation_path", "is_continuation", "is_partial", "partial_path"]

_PARTIAL = ".partial"
_REPLAY = ".replay"


def partial_path(path: Path, *, run: str | None = None) -> Path:
    """Return where an unfinished recording of a cassette is kept; with the id of its run, that of no other run."""
    own = f".{run[:8]}" if run is not None else ""
    return path.with_name(path.name.removesuffix(SUFFIX) + own + _PARTIAL + SUFFIX)


def is_partial(path: PurePath) -> bool:
    """Return whether a file is called as an unfinished recording is."""
    return path.name.endswith(_PARTIAL + SUFFIX)


def continuation_path(path: Path) -> Path:
    """Return where the tape of a run is kept that replayed a cassette and went on from it."""
    return path.with_name(path.name.removesuffix(SUFFIX).removesuffix(_PARTIAL) + _REPLAY + SUFFIX)


def is_continuation(path: PurePath) -> bool:
    """Return whether a file is called as the tape of a run that went on from a cassette is."""
    return path.name.endswith(_REPLAY + SUFFIX)
