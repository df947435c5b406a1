"""The tape that a caller names by its path: finished, or what a crash has left of one."""

from __future__ import annotations

from pathlib import Path

from pytest_agentreplay.cassette import Cassette, load_cassette, partial_path
from pytest_agentreplay.errors import CassetteError

__all__ = ["load_tape"]

_UNFINISHED = ".partial.jsonl"


def load_tape(path: Path) -> Cassette:
    """Return the tape in a file.

    Raises :class:`CassetteError` where there is none, naming the unfinished recording of it if that is there, or none
    that can be read.
    """
    if path.name.endswith(_UNFINISHED):
        return load_cassette(path, partial=True)
    partial = partial_path(path)
    if not path.exists() and partial.exists():
        raise CassetteError("was never finished", path=path, remedy=f"What there is of it is in {partial}.")
    return load_cassette(path)
