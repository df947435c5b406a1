"""The SQLite file behind a store: one connection, its transactions, and its errors as ours.

Statements are called by name.  A write takes the file's write lock before it reads what it builds on, so no two writers
see the same head; a read is one statement, or several in one snapshot.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import uuid
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, TypeAlias

from pytest_agentreplay.errors import InvalidInputError, StateError, StoreFileError
from pytest_agentreplay.state.statements import SCHEMA, SQL, Statement, migrations, past_statement

__all__ = ["Durability", "Engine", "Row", "upgrade"]

Durability: TypeAlias = Literal["fast", "durable"]
Row: TypeAlias = tuple[Any, ...]

MEMORY = ":memory:"
APPLICATION_ID = 0x41475354  # "AGST", where SQLite keeps what a file is for

# In WAL mode NORMAL syncs at checkpoints alone: a power cut can lose the last commits, never the order or the file.
# FULL syncs the log before a commit returns.
_SYNCHRONOUS: Mapping[str, str] = {"fast": "NORMAL", "durable": "FULL"}

_PAUSE = 0.005  # seconds, between two tries to open a file that is busy
_SMALLEST = 512  # bytes, of an SQLite file with anything in it

_DAMAGED = "the file is damaged"
_FROM_A_COPY = "Take a copy from before; what is left can be read with sqlite3's .recover."
_FAULTS: tuple[tuple[str, str, str], ...] = (
    ("SQLITE_NOTADB", "the file is no state store, or its beginning is damaged", _FROM_A_COPY),
    ("SQLITE_CORRUPT", _DAMAGED, _FROM_A_COPY),
    ("SQLITE_READONLY", "the file cannot be written", "Give write permission on the file and on its folder."),
    ("SQLITE_CANTOPEN", "the file cannot be opened", "Its folder must exist, and be writable."),
    ("SQLITE_FULL", "the disk is full", "Make room; what was acknowledged is kept."),
    ("SQLITE_IOERR", "the file cannot be read or written", "Check the disk; what was acknowledged is kept."),
    ("SQLITE_BUSY", "another process has kept the file locked", "Let it finish, or raise open_store's timeout."),
)


class Engine:
    """A store's file.  Thread-safe; a forked child goes on with a connection of its own.

    ``created`` says that there was no store before.
    """

    def __init__(self, path: str, *, durability: Durability = "fast", timeout: float = 30.0) -> None:
        if durability not in _SYNCHRONOUS:
            raise InvalidInputError(f"durability={durability!r} is not one of {', '.join(_SYNCHRONOUS)}")
        self.path = path
        self.durability = durability
        self._timeout = timeout
        self._lock = threading.RLock()
        self._left_to_parent: list[sqlite3.Connection] = []  # closing them would take the parent's locks away
        self._closed = False
        with self._translated():
            self._connection = self._connect()
        _OPEN.add(self)

    def one(self, name: str, *parameters: Any) -> Row | None:
        """Return the first row of a statement."""
        return self._fetch(SQL[name], parameters)

    def one_in_past(self, name: str, segments: int, *parameters: Any) -> Row | None:
        """Return the first row of a statement that reads along a lineage of so many segments."""
        return self._fetch(past_statement(name, segments), parameters)

    def all(self, name: str, *parameters: Any) -> list[Row]:
        """Return every row of a statement."""
        statement = SQL[name]
        try:
            with self._lock:
                return self._connection.execute(statement.text, statement.arrange(parameters)).fetchall()
        except sqlite3.Error as error:
            raise self._translate(error) from error

    def run(self, name: str, *parameters: Any) -> None:
        """Execute a statement inside a :meth:`writing` block."""
        statement = SQL[name]
        try:
            self._connection.execute(statement.text, statement.arrange(parameters))
        except sqlite3.Error as error:
            raise self._translate(error) from error

    def writing(self) -> _Block:
        """Make one commit of the block, alone in the file; an error undoes all of it."""
        return _Block(self, "BEGIN IMMEDIATE", "COMMIT")

    def snapshot(self) -> _Block:
        """Let the statements of the block see one state of the file."""
        return _Block(self, "BEGIN", "COMMIT")

    def begin(self, statement: str) -> bool:
        """Take the file for a block; return whether a transaction was begun for it, and not by a block around it."""
        self._lock.acquire()
        try:
            if self._connection.in_transaction:
                return False
            self._connection.execute(statement)
        except sqlite3.Error as error:
            self._lock.release()
            raise self._translate(error) from error
        return True

    def end(self, statement: str | None) -> None:
        """Give the file back, after a statement that ends the transaction where the block had begun one."""
        try:
            if statement is not None and self._connection.in_transaction:  # SQLite may have undone it: a full disk
                self._connection.execute(statement)
        except sqlite3.Error as error:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise self._translate(error) from error
        finally:
            self._lock.release()

    def check(self) -> None:
        """Have SQLite check the whole file.  Raises :class:`StoreFileError` with the first thing that is wrong."""
        with self._lock, self._translated():
            [first, *_] = self._connection.execute("PRAGMA integrity_check(1)").fetchall()
        if first != ("ok",):
            raise self.damaged(str(first[0]))

    def damaged(self, what: str = "") -> StoreFileError:
        """Return the error of a file whose content is not what was written."""
        fault = f"{_DAMAGED}: {what}" if what else _DAMAGED
        return StoreFileError(fault, path=self.path, remedy=_FROM_A_COPY)

    def close(self) -> None:
        """Close the file; the last process to do so leaves everything in the one file."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            _OPEN.discard(self)
            with self._translated():
                self._connection.close()

    def continue_in_child(self) -> None:
        """Go on in a forked process, which must not use its parent's connection."""
        self._lock = threading.RLock()
        if self.path != MEMORY:
            self._left_to_parent.append(self._connection)
            with self._translated():
                self._connection = self._connect()

    def _fetch(self, statement: Statement, parameters: Row) -> Row | None:
        try:
            with self._lock:
                row: Row | None = self._connection.execute(statement.text, statement.arrange(parameters)).fetchone()
                return row
        except sqlite3.Error as error:
            raise self._translate(error) from error

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise self._translate(error) from error

    def _translate(self, error: sqlite3.Error) -> StateError:
        if self._closed:
            return StateError(f"{self.path}: the store is closed")
        name = getattr(error, "sqlite_errorname", None) or ""
        for prefix, fault, remedy in _FAULTS:
            if name.startswith(prefix):
                return StoreFileError(f"{fault} ({error})", path=self.path, remedy=remedy)
        return self.damaged(str(error))

    def _connect(self) -> sqlite3.Connection:
        self._refuse_place()
        connection = sqlite3.connect(self.path, timeout=self._timeout, isolation_level=None, check_same_thread=False)
        try:
            self._prepare(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _refuse_place(self) -> None:
        path = Path(self.path)
        if self.path == MEMORY:
            return
        if not path.parent.is_dir():
            raise StoreFileError(f"there is no folder {str(path.parent)!r}", path=self.path, remedy="Make it first.")
        if path.is_dir():
            raise StoreFileError("this is a folder", path=self.path, remedy="Name a file.")
        if path.exists() and 0 < path.stat().st_size < _SMALLEST:  # SQLite would begin anew in it
            raise self.damaged(f"{path.stat().st_size} bytes are left")

    def _prepare(self, connection: sqlite3.Connection) -> None:
        """Make a connection ready; SQLite itself waits for no process that is making or closing the file."""
        deadline = time.monotonic() + self._timeout
        while True:
            try:
                return self._prepare_once(connection)
            except sqlite3.OperationalError as error:
                if not error.sqlite_errorname.startswith("SQLITE_BUSY") or time.monotonic() >= deadline:
                    raise
                time.sleep(_PAUSE)

    def _prepare_once(self, connection: sqlite3.Connection) -> None:
        execute = connection.execute
        application, version, is_empty = _look_into(connection)
        scripts = migrations()
        if application != APPLICATION_ID and not (is_empty and application == version == 0):
            raise StoreFileError("this SQLite file is no state store", path=self.path, remedy="Name another file.")
        if version > len(scripts):
            fault = f"it has schema version {version}, and this version of pytest-agent-cassette knows {len(scripts)}"
            raise StoreFileError(fault, path=self.path, remedy="Upgrade pytest-agent-cassette.")
        self._refuse_cut(connection)
        execute("PRAGMA journal_mode = WAL")
        execute(f"PRAGMA synchronous = {_SYNCHRONOUS[self.durability]}")
        execute("PRAGMA wal_autocheckpoint = 4000")  # pages: a checkpoint syncs, and 1,000 come often in a test suite
        execute("PRAGMA fullfsync = ON")  # where a plain fsync leaves data in the drive: macOS
        upgrade(connection, scripts)

    def _refuse_cut(self, connection: sqlite3.Connection) -> None:
        """Refuse a file that is shorter than its first page says, with no log that holds the rest."""
        if self.path == MEMORY:
            return
        [pages] = connection.execute("PRAGMA page_count").fetchone()
        [size] = connection.execute("PRAGMA page_size").fetchone()
        # Looked at twice: in between another process may have moved its log into the file.
        if self._is_short(pages * size) and self._is_short(pages * size):
            raise self.damaged(f"{Path(self.path).stat().st_size:,} of {pages * size:,} bytes are left")

    def _is_short(self, length: int) -> bool:
        log = Path(f"{self.path}-wal")
        return Path(self.path).stat().st_size < length and not (log.exists() and log.stat().st_size)


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


class _Block:
    """A transaction around a block of code; inside another it is part of that one."""

    __slots__ = ("_begin", "_end", "_engine", "_is_outer")

    def __init__(self, engine: Engine, begin: str, end: str) -> None:
        self._engine = engine
        self._begin = begin
        self._end = end
        self._is_outer = False

    def __enter__(self) -> None:
        self._is_outer = self._engine.begin(self._begin)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        end = self._end if kind is None else "ROLLBACK"
        self._engine.end(end if self._is_outer else None)


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


_OPEN: weakref.WeakSet[Engine] = weakref.WeakSet()


def _continue_in_child() -> None:
    for engine in list(_OPEN):
        engine.continue_in_child()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_continue_in_child)
