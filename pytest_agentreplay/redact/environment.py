"""The secrets of an environment, also those that are set while a test runs."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import Any

from pytest_agentreplay.redact.shapes import environment_secrets

__all__ = ["EnvironmentSecrets"]


class EnvironmentSecrets:
    """Names and values of the variables that hold secrets; ``named`` and ``by_look`` as for ``environment_secrets``.

    Fixtures and agents load keys as they go, and take them away again: what has been seen once stays a secret.
    Thread-safe; ``pairs`` is another object once there are more.
    """

    def __init__(self, environment: Mapping[str, str], *, named: Iterable[str] = (), by_look: bool = True) -> None:
        self._environment = environment
        self._named = tuple(named)
        self._by_look = by_look
        self._lock = threading.Lock()
        self._seen: dict[Any, Any] = {}
        self.pairs: tuple[tuple[str, str], ...] = ()
        self.look()

    def look(self) -> None:
        """Take in what has been set since the last look.  Takes about a microsecond where nothing was."""
        if self._snapshot() == self._seen:
            return
        with self._lock:  # who comes second waits for what the first has found
            seen = self._snapshot()
            found = environment_secrets(self._decoded(seen), named=self._named, by_look=self._by_look)
            if not set(found) <= set(self.pairs):
                self.pairs = tuple(sorted({*self.pairs, *found}, key=lambda pair: (-len(pair[1]), *pair)))
            self._seen = seen

    def _snapshot(self) -> dict[Any, Any]:
        # To read os.environ itself decodes each variable, and fails where a thread takes one away meanwhile; of the
        # mapping under it a copy is made at once.
        return dict(getattr(self._environment, "_data", self._environment))

    def _decoded(self, snapshot: Mapping[Any, Any]) -> dict[str, str]:
        """Return what was read, as the environment gives it out."""
        key = getattr(self._environment, "decodekey", str)
        value = getattr(self._environment, "decodevalue", str)
        return {key(name): value(held) for name, held in snapshot.items()}
