"""One process at a time at a file: locks that are named after files, and leave none behind.

Beside the file a lock would be committed one day, so it stands in a folder of the user's own among the temporary files.
Whoever holds it removes it before letting go, and whoever gets hold of one that was removed looks again: two that wait
for one file never hold two locks.  The operating system lets go when the process dies; a forked child holds nothing.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import tempfile
import time
import weakref
from hashlib import sha256
from pathlib import Path

from pytest_agentreplay.errors import ConfigurationError

if sys.platform == "win32":
    from filelock import FileLock, Timeout
else:
    import fcntl

__all__ = ["Lock", "lock_file"]

_PAUSE = 0.02  # seconds, between two tries
_IN_THIS_PROCESS: weakref.WeakSet[Lock] = weakref.WeakSet()


class Lock:
    """A lock that is held until it is released, or nobody knows it any more."""

    def __init__(self, place: Path, held: _Held) -> None:
        self._place = place
        self._held: _Held | None = held
        _IN_THIS_PROCESS.add(self)

    def release(self) -> None:
        """Let go of the lock, once."""
        held = self.forget()
        if held is not None:
            _let_go(self._place, held)

    def forget(self) -> _Held | None:
        """Return what is held, if it still is, and hold it no more."""
        held, self._held = self._held, None
        return held

    def __enter__(self) -> Lock:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def __del__(self) -> None:
        self.release()


def lock_file(path: Path, *, wait: float | None = None) -> Lock:
    """Return the lock of a file, which need not exist, once nobody else holds it, by whatever path.

    ``wait`` is in seconds, ``None`` for as long as it takes.  Raises :class:`TimeoutError` when somebody still holds it
    then, :class:`ConfigurationError` where the folder of locks is not the user's own, or cannot be used.
    """
    name = sha256(os.path.realpath(path).encode("utf-8", "surrogatepass")).hexdigest()[:24]
    deadline = None if wait is None else time.monotonic() + wait
    while True:
        lock = _try(f"{name}.lock")
        if lock is not None:
            return lock
        if deadline is not None and time.monotonic() >= deadline:
            raise TimeoutError(f"{path} is locked")
        time.sleep(_PAUSE)


def _try(name: str) -> Lock | None:
    """Return the lock of this name, or ``None`` where somebody else holds it."""
    try:
        place = _own_folder() / name  # each time: what cleans temporary files up may have taken the folder away
        held = _take(place)
    except OSError as error:
        raise ConfigurationError(
            f"no lock can be kept among the temporary files: {error}; set TMPDIR to a folder that can be written to"
        ) from error
    return None if held is None else Lock(place, held)


def _own_folder() -> Path:
    """Return the folder of this user's locks, made where it is missing."""
    user = getattr(os, "getuid", int)()  # on Windows, temporary files are each user's own
    folder = Path(tempfile.gettempdir()) / f"agent-replay-{user}"
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != user:
        raise ConfigurationError(
            f"{folder}, where locks are kept, is not a folder of user {user}; set TMPDIR to a folder that is"
        )
    return folder


if sys.platform == "win32":
    _Held = FileLock

    def _take(place: Path) -> FileLock | None:
        lock = FileLock(place, is_singleton=False)
        with contextlib.suppress(Timeout):
            lock.acquire(timeout=0)
        return lock if lock.is_locked else None

    def _let_go(place: Path, lock: FileLock) -> None:  # noqa: ARG001 - it knows its place
        lock.release()  # and removes the file, which Windows refuses while somebody else has it open

else:
    # Not filelock's: it leaves the file, or in some versions removes it without a look at whose it is.
    _Held = int

    def _take(place: Path) -> int | None:
        """Return the descriptor of the lock file, locked, or ``None`` where somebody else holds it."""
        descriptor = os.open(place, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_at(place, descriptor):
                taken, descriptor = descriptor, -1
                return taken
        except BlockingIOError:
            pass
        finally:
            if descriptor >= 0:
                os.close(descriptor)
        return None

    def _let_go(place: Path, descriptor: int) -> None:
        with contextlib.suppress(OSError):  # a file that cannot be removed any more stays, and keeps nobody out
            if _is_at(place, descriptor):
                place.unlink()
        fcntl.flock(descriptor, fcntl.LOCK_UN)  # closing is not enough where a forked child has a copy
        os.close(descriptor)

    def _is_at(place: Path, descriptor: int) -> bool:
        """Return whether the file that is open is still the one that others find."""
        try:
            return os.path.samestat(place.lstat(), os.fstat(descriptor))
        except FileNotFoundError:
            return False

    def _leave_all_to_parent() -> None:
        """Close a forked child's copies, without letting go for both."""
        for lock in list(_IN_THIS_PROCESS):
            descriptor = lock.forget()
            if descriptor is not None:
                os.close(descriptor)

    os.register_at_fork(after_in_child=_leave_all_to_parent)
