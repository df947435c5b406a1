"""The SQLite file behind a store: its statements and transactions on one connection, and its errors as ours.

Statements are called by name.  A write takes the file's write lock before it reads what it builds on, so no two writers
see the same head; a read is one statement, or several in one snapshot.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, TypeAlias, get_args

from pytest_agentreplay.errors import InvalidInputError, StateError, StoreFileError
from pytest_agentreplay.state.connection import (
    DAMAGED,
    FROM_A_COPY,
    FROM_ANOTHER,
    MEMORY,
    NO_DATABASE,
    Durability,
    connect,
    damage,
)
from pytest_agentreplay.state.statements import SQL, Statement, past_statement

__all__ = ["Engine", "Row"]

Row: TypeAlias = tuple[Any, ...]

_FAULTS: tuple[tuple[str, str, str], ...] = (
    ("SQLITE_NOTADB", NO_DATABASE, FROM_ANOTHER),
    ("SQLITE_CORRUPT", DAMAGED, FROM_A_COPY),
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
        if durability not in get_args(Durability):
            raise InvalidInputError(f"durability={durability!r} is not one of {', '.join(get_args(Durability))}")
        self.path = path
        self.durability = durability
        self._timeout = timeout
        self._lock = threading.RLock()
        self._left_to_parent: list[sqlite3.Connection] = []  # closing them would take the parent's locks away
        self._closed = False
        with self._translated():
            self._connection = connect(path, durability=durability, timeout=timeout)
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
        return _Block(self, "BEGIN IMMEDIATE")

    def snapshot(self) -> _Block:
        """Let the statements of the block see one state of the file."""
        return _Block(self, "BEGIN")

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
        return damage(self.path, what)

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
                self._connection = connect(self.path, durability=self.durability, timeout=self._timeout)

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


class _Block:
    """A transaction around a block of code; inside another it is part of that one."""

    __slots__ = ("_begin", "_engine", "_is_outer")

    def __init__(self, engine: Engine, begin: str) -> None:
        self._engine = engine
        self._begin = begin
        self._is_outer = False

    def __enter__(self) -> None:
        self._is_outer = self._engine.begin(self._begin)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        end = "COMMIT" if kind is None else "ROLLBACK"
        self._engine.end(end if self._is_outer else None)


_OPEN: weakref.WeakSet[Engine] = weakref.WeakSet()


def _continue_in_child() -> None:
    for engine in list(_OPEN):
        engine.continue_in_child()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_continue_in_child)
