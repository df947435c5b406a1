"""Clients recorded and replayed in this process: the patches of a session, without a pytest around them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from pytest_agentreplay.dialects import Dialects, load_dialects
from pytest_agentreplay.session import Session, open_session
from pytest_agentreplay.settings import Settings
from pytest_agentreplay.taps.http import patch_http_clients
from pytest_agentreplay.taps.network import guard_network
from pytest_agentreplay.taps.owners import Registry
from pytest_agentreplay.taps.threads import carry_owner_into_threads
from pytest_agentreplay.taps.unrecordable import guard_grpc
from pytest_agentreplay.taps.waits import skip_retry_pauses

T = TypeVar("T")


@dataclass
class Taps:
    """The patches, and what they ask."""

    registry: Registry = field(default_factory=Registry)
    dialects: Dialects = field(default_factory=load_dialects)

    @contextmanager
    def session(self, path: Path, **settings: Any) -> Iterator[Session]:
        """Own what is asked in this block: recorded to ``path``, or answered from it, as the settings say."""
        opened = open_session(name="the test", path=path, settings=Settings(**settings), dialects=self.dialects)
        before = self.registry.run(opened)
        passed = False
        try:
            yield opened
            passed = True
        finally:
            self.registry.run(before)
            opened.close(passed=passed)

    def record(self, path: Path, act: Callable[[], T]) -> T:
        """Return what comes of ``act`` while it is recorded; all of it must be on the tape in the end."""
        with self.session(path, record_mode="rewrite") as session:
            live = act()
            assert session.player.in_flight == 0
        assert path.exists()
        return live

    def replay(self, path: Path, act: Callable[[], T], **settings: Any) -> T:
        """Return what comes of ``act`` in replay; it must ask for all that was recorded, and reach no network."""
        with self.session(path, record_mode="none", loopback=False, **settings) as session:
            replayed = act()
            assert session.player.stopped is None
            assert session.player.unplayed(("setup", "call", "teardown")) == []
        return replayed


@contextmanager
def patched() -> Iterator[Taps]:
    """Patch all clients until the block ends."""
    taps = Taps()
    with ExitStack() as stack:
        for patch in (
            patch_http_clients,
            skip_retry_pauses,
            carry_owner_into_threads,
            guard_grpc,
            guard_network,
        ):
            stack.enter_context(patch(taps.registry))
        yield taps


def lines_of(path: Path) -> list[dict[str, Any]]:
    """Return the steps of a cassette as they stand in the file."""
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    return [line for line in lines if line["kind"] in ("model", "http")]
