"""The tape that a caller names by its path, finished or what a crash has left of one, and what reports say of it."""

from __future__ import annotations

from pathlib import Path

from pytest_agentreplay.cassette import Cassette, is_partial, load_cassette, partial_path
from pytest_agentreplay.divergence import Words
from pytest_agentreplay.errors import CassetteError
from pytest_agentreplay.session import shown_path

__all__ = ["load_tape", "words_for"]


def load_tape(path: Path) -> Cassette:
    """Return the tape in a file.

    Raises :class:`CassetteError` where there is none, naming the unfinished recording of it if that is there, or none
    that can be read.
    """
    if is_partial(path):
        return load_cassette(path, partial=True)
    partial = partial_path(path)
    if not path.exists() and partial.exists():
        raise CassetteError("was never finished", path=path, remedy=f"What there is of it is in {partial}.")
    return load_cassette(path)


def words_for(path: Path, *, setting: str = "{setting}") -> Words:
    """Return what reports about the tape at ``path`` tell their readers to write."""
    again = f"use_cassette({shown_path(path)!r}, record_mode='{{mode}}')"
    return Words(again=again, prune=None, setting=setting)
