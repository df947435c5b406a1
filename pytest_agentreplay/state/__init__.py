"""A branching, versioned store: every write is a commit, every read takes ``as_of``, a fork copies nothing."""

from __future__ import annotations

from pytest_agentreplay.state.branches import DEFAULT, Branch, Branches
from pytest_agentreplay.state.connection import Durability
from pytest_agentreplay.state.documents import Documents
from pytest_agentreplay.state.events import ChainCheck, Event, Events
from pytest_agentreplay.state.kv import KeyValues, Revision
from pytest_agentreplay.state.seeding import fill_once
from pytest_agentreplay.state.store import Change, Store, View, open_store
from pytest_agentreplay.state.versions import AsOf, Version

__all__ = [
    "DEFAULT",
    "AsOf",
    "Branch",
    "Branches",
    "ChainCheck",
    "Change",
    "Documents",
    "Durability",
    "Event",
    "Events",
    "KeyValues",
    "Revision",
    "Store",
    "Version",
    "View",
    "fill_once",
    "open_store",
]
