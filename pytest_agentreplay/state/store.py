"""A state store: one SQLite file, its branches, and a view of each."""

from __future__ import annotations

import datetime
import os
from dataclasses import dataclass
from functools import cached_property
from types import TracebackType

from pytest_agentreplay.state.branches import DEFAULT, Branches, add_default
from pytest_agentreplay.state.connection import MEMORY, Durability
from pytest_agentreplay.state.documents import Documents
from pytest_agentreplay.state.encoding import DELETED
from pytest_agentreplay.state.engine import Engine
from pytest_agentreplay.state.events import Clock, Events
from pytest_agentreplay.state.integrity import verify_store
from pytest_agentreplay.state.kv import KeyValues
from pytest_agentreplay.state.line import Line
from pytest_agentreplay.state.lineage import ENDLESS
from pytest_agentreplay.state.versions import AsOf, Version

__all__ = ["Change", "Store", "View", "open_store"]


def _real_clock() -> datetime.datetime:
    return datetime.datetime.now(tz=datetime.UTC)


@dataclass(frozen=True, slots=True)
class Change:
    """One commit of a key: ``shape`` says of what kind, ``kv`` or ``json``."""

    shape: str
    key: str
    version: Version
    is_deleted: bool


class View:
    """One branch of a store: its keys, documents and events, now or as of a version."""

    def __init__(self, line: Line, *, clock: Clock) -> None:
        self._line = line
        self._clock = clock

    @property
    def branch(self) -> str:
        """The name of the branch."""
        return self._line.name

    @property
    def head(self) -> Version:
        """The newest version, or the one that this view is as of."""
        number = min(self._line.head(), self._line.pinned)
        return Version(number, self._line.lineage.origin_at(number))

    @cached_property
    def kv(self) -> KeyValues:
        """Keys and values: text, bytes or JSON."""
        return KeyValues(self._line)

    @cached_property
    def json(self) -> Documents:
        """JSON documents, read and changed at paths."""
        return Documents(self._line)

    @cached_property
    def events(self) -> Events:
        """The log."""
        return Events(self._line, clock=self._clock)

    def changes(self, *, since: AsOf, until: AsOf = None) -> list[Change]:
        """Return the commits of keys after one version up to another, oldest first, across forks."""
        line = self._line

        def right(branch: str, number: int) -> str:
            return f"store.at(branch={branch!r}).changes(since={number})"

        first = line.position(since, right=right)
        found: list[Change] = []
        with line.engine.snapshot():
            last = line.position(until, right=right)
            line.head()
            for part in reversed([part for part in line.lineage.up_to(last) if part.bound > first]):
                for shape, key, number, kind in line.engine.all("list_changes", part.branch, first, part.bound):
                    version = line.version(number, branch=part.branch)
                    found.append(Change(shape, key, version, is_deleted=kind == DELETED))
        return found

    def __repr__(self) -> str:
        pinned = "" if self._line.pinned == ENDLESS else f", as_of={self._line.pinned}"
        return f"<View of branch {self.branch!r}{pinned}>"


class Store:
    """A store that is open.  Use it as a context manager, or close it.

    ``kv``, ``json`` and ``events`` are those of the branch ``default``.
    """

    def __init__(self, engine: Engine, *, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock
        self.id = self.note("store") or ""
        self.branches = Branches(engine, store=self.id, clock=clock)

    @property
    def path(self) -> str:
        """The file, or ``:memory:``."""
        return self._engine.path

    @property
    def kv(self) -> KeyValues:
        """Keys and values of the branch ``default``."""
        return self._default.kv

    @property
    def json(self) -> Documents:
        """JSON documents of the branch ``default``."""
        return self._default.json

    @property
    def events(self) -> Events:
        """The log of the branch ``default``."""
        return self._default.events

    def at(self, branch: str = DEFAULT, *, as_of: AsOf = None) -> View:
        """Return a view of a branch; with ``as_of`` as it was then, to read from.

        Raises :class:`BranchNotFoundError`, :class:`HistoryUnavailableError`.
        """
        line = self.branches.line(branch)
        if as_of is not None:
            line.pinned = line.position(
                as_of, right=lambda branch, number: f"store.at(branch={branch!r}, as_of={number})"
            )
        return View(line, clock=self._clock)

    def note(self, name: str) -> str | None:
        """Return what the store notes about itself under a name."""
        row = self._engine.one("find_about", name)
        if row is None:
            return None
        [value] = row
        return str(value)

    def set_note(self, name: str, value: str) -> None:
        """Note something about the store itself, outside its branches."""
        with self._engine.writing():
            self._engine.run("set_about", name, value)

    def verify(self) -> None:
        """Check the whole file: that every commit is there and what it was.  Raises :class:`StoreFileError`."""
        verify_store(self._engine)

    def close(self) -> None:
        """Close the store; the last process to do so leaves everything in the one file."""
        self._engine.close()

    @cached_property
    def _default(self) -> View:
        return self.at()

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Store {self.path!r}>"


def open_store(
    path: str | os.PathLike[str],
    *,
    durability: Durability = "fast",
    timeout: float = 30.0,
    clock: Clock = _real_clock,
) -> Store:
    """Open the store in a file, or a new one there; ``":memory:"`` is one that is lost when it is closed.

    ``fast`` loses nothing when the process is killed, and the last commits when the power goes; ``durable`` writes each
    commit to the disk before it returns.  ``timeout`` is how many seconds to wait for another writer.  Raises
    :class:`StoreFileError` for a file that is damaged, foreign, from a newer version or cannot be written.
    """
    name = path if path == MEMORY else os.fspath(path)
    engine = Engine(str(name), durability=durability, timeout=timeout)
    try:
        if engine.one("find_branch", 1) is None:
            add_default(engine, clock=clock)
        return Store(engine, clock=clock)
    except BaseException:
        engine.close()
        raise
