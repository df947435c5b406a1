"""All taps, put in once a process and taken out with the last who needs them.

Tests, and blocks of code in any thread, share them: which run a call belongs to is the registry's business.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from pytest_agentreplay.taps.frameworks import record_framework_tools
from pytest_agentreplay.taps.http import patch_http_clients
from pytest_agentreplay.taps.network import guard_network
from pytest_agentreplay.taps.owners import Registry, installed
from pytest_agentreplay.taps.processes import tell_child_processes
from pytest_agentreplay.taps.threads import carry_owner_into_threads
from pytest_agentreplay.taps.unrecordable import guard_grpc
from pytest_agentreplay.taps.waits import skip_retry_pauses

__all__ = ["Taps", "installed_taps"]


class Taps:
    """What is installed: the registry that is asked, and ``renew_guard``, which wraps again what others unwrapped."""

    def __init__(self) -> None:
        self.registry = Registry()
        self.renew_guard: Callable[[], None] = lambda: None
        self._users = 0
        self._stack = ExitStack()

    @property
    def is_in_use(self) -> bool:
        """Whether they are in place."""
        return self._users > 0

    def take(self) -> None:
        """Put the taps in, unless they are."""
        self._users += 1
        if self._users > 1:
            return
        self._stack.enter_context(installed(self.registry))
        self._stack.enter_context(patch_http_clients(self.registry))
        self._stack.enter_context(skip_retry_pauses(self.registry))
        self._stack.enter_context(carry_owner_into_threads(self.registry))
        self._stack.enter_context(tell_child_processes(self.registry))
        self._stack.enter_context(record_framework_tools(self.registry))
        self._stack.enter_context(guard_grpc(self.registry))
        self.renew_guard = self._stack.enter_context(guard_network(self.registry))

    def give_back(self) -> None:
        """Take the taps out, unless somebody still needs them."""
        self._users -= 1
        if not self._users:
            self._stack.close()


# The patches are the process's, and so is this.
_lock = threading.RLock()
_shared: list[Taps] = []


@contextmanager
def installed_taps() -> Iterator[Taps]:
    """Give the taps of this process, in place for the length of the block."""
    with _lock:
        if not _shared:
            _shared.append(Taps())
        taps = _shared[0]
        taps.take()
    try:
        yield taps
    finally:
        with _lock:
            taps.give_back()
            if not taps.is_in_use:
                _shared.remove(taps)
