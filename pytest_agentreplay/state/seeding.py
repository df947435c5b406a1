"""Filling the first branch of a store, once, whoever comes first."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from pytest_agentreplay.errors import StateError
from pytest_agentreplay.locks import lock_file
from pytest_agentreplay.state.connection import MEMORY
from pytest_agentreplay.state.lineage import FIRST_HEAD
from pytest_agentreplay.state.store import Store, View

__all__ = ["fill_once"]

_BEGUN, _DONE = "begun", "done"


def fill_once(store: Store, fill: Callable[[View], object]) -> None:
    """Let a function fill the branch ``default`` of a store, unless something has been written on it.

    Of several processes that try at once one does it, and the others wait for it.  Raises :class:`StateError` where an
    earlier attempt failed half way.
    """
    with _alone(store):
        state = store.note("seed")
        if state == _BEGUN:
            raise StateError(f"{store.path}: filling branch 'default' failed before it was done; begin with a new file")
        if state is None and store.at().head == FIRST_HEAD:
            store.set_note("seed", _BEGUN)
            fill(store.at())
            store.set_note("seed", _DONE)


def _alone(store: Store) -> AbstractContextManager[object]:
    return contextlib.nullcontext() if store.path == MEMORY else lock_file(Path(store.path))
