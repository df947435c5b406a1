"""A connection to the file behind a store: refused where the file is none, made ready, brought to the newest schema."""

from __future__ import annotations

import sqlite3
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, TypeAlias

from pytest_agentreplay.errors import StoreFileError
from pytest_agentreplay.state.statements import SCHEMA, SQL, migrations

__all__ = [
    "APPLICATION_ID",
    "DAMAGED",
    "FROM_ANOTHER",
    "FROM_A_COPY",
    "MEMORY",
    "NO_DATABASE",
    "Durability",
    "connect",
    "damage",
    "upgrade",
]

Durability: TypeAlias = Literal["fast", "durable"]

MEMORY = ":memory:"
APPLICATION_ID = 0x41475354  # "AGST", where SQLite keeps what a file is for
DAMAGED = "the file is damaged"
NO_DATABASE = "the file is no SQLite database: it is no state store, or its beginning is damaged"
FROM_A_COPY = "Take a copy from before; what is left can be read with sqlite3's .recover."

# In WAL mode NORMAL syncs at checkpoints alone: a power cut can lose the last commits, never the order or the file.
# FULL syncs the log before a commit returns.
_SYNCHRONOUS: Mapping[Durability, str] = {"fast": "NORMAL", "durable": "FULL"}

_PAUSE = 0.005  # seconds, between two tries to open a file that is busy
_SMALLEST = 512  # bytes, of an SQLite file with anything in it
_MAGIC = b"SQLite format 3\0"  # what each begins with
_ANOTHER = "Name another file; one that is not there yet is made."
FROM_ANOTHER = f"{_ANOTHER} Of a store, take a copy from before."


def connect(path: str, *, durability: Durability, timeout: float) -> sqlite3.Connection:
    """Return a connection to the store in a file, or to a new one there; ``timeout`` is in seconds.

    Raises :class:`StoreFileError` for a file that is no store or not whole, and what sqlite3 raises.
    """
    _refuse_place(path)
    connection = sqlite3.connect(path, timeout=timeout, isolation_level=None, check_same_thread=False)
    try:
        _prepare(connection, path, durability=durability, timeout=timeout)
    except BaseException:
        connection.close()
        raise
    return connection


def damage(path: str, what: str = "") -> StoreFileError:
    """Return the error of a file whose content is not what was written."""
    return StoreFileError(f"{DAMAGED}: {what}" if what else DAMAGED, path=path, remedy=FROM_A_COPY)


def upgrade(connection: sqlite3.Connection, scripts: list[str], *, schema: str = SCHEMA) -> None:
    """Bring a file to the newest schema, in one transaction; a new file gets it at once."""
    connection.execute("BEGIN IMMEDIATE")  # also where nothing is to do: a file that cannot be written fails here
    try:
        [version] = connection.execute("PRAGMA user_version").fetchone()
        if version < len(scripts):
            for script in scripts[version:] if version else [schema]:
                for statement in script.split(";"):
                    connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {len(scripts)}")
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        if not version:
            connection.execute(SQL["add_about"].text, ("store", uuid.uuid4().hex))
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def _refuse_place(path: str) -> None:
    place = Path(path)
    if path == MEMORY:
        return
    if not place.parent.is_dir():
        raise StoreFileError(f"there is no folder {str(place.parent)!r}", path=path, remedy="Make it first.")
    if place.is_dir():
        raise StoreFileError("this is a folder", path=path, remedy="Name a file; one that is not there yet is made.")
    if place.exists() and 0 < place.stat().st_size < _SMALLEST:  # SQLite would begin anew in it
        if not _MAGIC.startswith(_first_bytes(place)):
            raise StoreFileError(NO_DATABASE, path=path, remedy=FROM_ANOTHER)
        raise damage(path, f"{place.stat().st_size} bytes are left")


def _first_bytes(place: Path) -> bytes:
    """Return how a file begins that is too small for a store; nothing where SQLite will say why it cannot be read.

    A store's file is never opened by hand: closing it would take the locks away that this process's connections hold.
    """
    try:
        with place.open("rb") as file:
            return file.read(len(_MAGIC))
    except OSError:
        return b""


def _prepare(connection: sqlite3.Connection, path: str, *, durability: Durability, timeout: float) -> None:
    """Make a connection ready; SQLite itself waits for no process that is making or closing the file."""
    deadline = time.monotonic() + timeout
    while True:
        try:
            return _prepare_once(connection, path, durability=durability)
        except sqlite3.OperationalError as error:
            if not error.sqlite_errorname.startswith("SQLITE_BUSY") or time.monotonic() >= deadline:
                raise
            time.sleep(_PAUSE)


def _prepare_once(connection: sqlite3.Connection, path: str, *, durability: Durability) -> None:
    execute = connection.execute
    application, version, is_empty = _look_into(connection)
    scripts = migrations()
    if application != APPLICATION_ID and not (is_empty and application == version == 0):
        fault = "this SQLite database is no state store: another program has made it"
        raise StoreFileError(fault, path=path, remedy=_ANOTHER)
    if version > len(scripts):
        fault = f"it has schema version {version}, and this version of pytest-agent-cassette knows {len(scripts)}"
        raise StoreFileError(fault, path=path, remedy="Upgrade pytest-agent-cassette.")
    _refuse_cut(connection, path)
    execute("PRAGMA journal_mode = WAL")
    execute(f"PRAGMA synchronous = {_SYNCHRONOUS[durability]}")
    execute("PRAGMA wal_autocheckpoint = 4000")  # pages: a checkpoint syncs, and 1,000 come often in a test suite
    execute("PRAGMA fullfsync = ON")  # where a plain fsync leaves data in the drive: macOS
    upgrade(connection, scripts)


def _refuse_cut(connection: sqlite3.Connection, path: str) -> None:
    """Refuse a file that is shorter than its first page says, with no log that holds the rest."""
    if path == MEMORY:
        return
    [pages] = connection.execute("PRAGMA page_count").fetchone()
    [size] = connection.execute("PRAGMA page_size").fetchone()
    # Looked at twice: in between another process may have moved its log into the file.
    if _is_short(path, pages * size) and _is_short(path, pages * size):
        raise damage(path, f"{Path(path).stat().st_size:,} of {pages * size:,} bytes are left")


def _is_short(path: str, length: int) -> bool:
    log = Path(f"{path}-wal")
    return Path(path).stat().st_size < length and not (log.exists() and log.stat().st_size)


def _look_into(connection: sqlite3.Connection) -> tuple[int, int, bool]:
    """Return what a file says it is, its schema version and whether it is empty, all at one moment."""
    connection.execute("BEGIN")
    try:
        [tables] = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        [application] = connection.execute("PRAGMA application_id").fetchone()
        [version] = connection.execute("PRAGMA user_version").fetchone()
    finally:
        connection.execute("COMMIT")
    return application, version, not tables
