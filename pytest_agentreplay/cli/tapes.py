"""The tape that a command names: by its path, by the test it is of, or as it was at a revision.

Where it was never finished, commands that only read take what there is of it, and say so.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from pytest_agentreplay.cassette import Cassette, is_partial, load_cassette, partial_path, read_cassette
from pytest_agentreplay.errors import CassetteError
from pytest_agentreplay.filenames import cassette_of

__all__ = ["load_finished_tape", "load_tape", "print_as_it_is"]

_AS_GIT_NAMES_IT = "Give REV:path as for git show: from the top of the repository, or as REV:./path from here."


def load_tape(name: str) -> Cassette:
    """Return the tape that a path, a pytest node id or ``REV:path`` (as for ``git show``) names.

    Of one that was never finished it is the unfinished recording beside it, and stderr says so.  Raises
    :class:`CassetteError` where there is none, or none that can be read.
    """
    partial = _unfinished(name)
    if partial is not None:
        sys.stderr.write(f"agentreplay: {name} was never finished. What there is of it is in {partial}.\n")
        return load_cassette(partial, partial=True)
    return _load(name)


def load_finished_tape(name: str, *, by: Sequence[str]) -> Cassette:
    """Return the tape that a command drives an agent over, and that it was told of as it is.

    ``by`` is the command without its tape.  Raises :class:`CassetteError` as :func:`load_tape` does, and for a tape
    that was never finished: with the command that takes what there is of it.
    """
    partial = _unfinished(name)
    if partial is not None:
        remedy = f"An unfinished recording is beside it: {shlex.join([*by, str(partial)])}"
        raise CassetteError("was never finished", path=name, remedy=remedy)
    return _load(name)


def _load(name: str) -> Cassette:
    path = Path(name)
    if path.exists():
        return load_cassette(path, partial=is_partial(path))
    if "::" in name:
        return _load_of_test(name)
    revision, colon, inside = name.partition(":")
    if colon and revision and inside:
        return read_cassette(_show(name), path=Path(name), partial=is_partial(Path(name)))
    return load_cassette(path)


def _unfinished(name: str) -> Path | None:
    """Return the unfinished recording of the tape that is named, where that is all there is of it."""
    path = cassette_of(name) if "::" in name and not Path(name).exists() else Path(name)
    if path.exists():
        return None
    partial = partial_path(path)
    return partial if partial.exists() else None


def print_as_it_is(name: str) -> None:
    """Print a file that no tape can be read from.  Raises :class:`CassetteError` where it cannot be read at all."""
    try:
        sys.stdout.write(Path(name).read_text(encoding="utf-8", errors="backslashreplace"))
    except OSError as error:
        raise CassetteError.unreadable(name, error) from error


def _load_of_test(nodeid: str) -> Cassette:
    path = cassette_of(nodeid)
    if not path.exists():
        remedy = "Where the test names its cassette, or keeps it elsewhere, give the path of the file."
        raise CassetteError("there is no cassette of this test", path=path, remedy=remedy)
    return load_cassette(path)


def _show(name: str) -> bytes:
    try:
        done = subprocess.run(["git", "show", name], capture_output=True, check=False)
    except OSError as error:
        fault = f"git cannot be run: {error.strerror or error}"
        raise CassetteError(fault, path=name, remedy="Install git, or give the path of a file.") from error
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        fault = f"cannot be read from git: {said[0] if said else f'git show ended with exit code {done.returncode}'}"
        raise CassetteError(fault, path=name, remedy=_AS_GIT_NAMES_IT)
    return done.stdout
