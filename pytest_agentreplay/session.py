"""The composition root: settings, tape, player and reader of one test or one block of code.

A session opens with what is on disk and what the settings say, takes requests while it is open, and closes by putting
a recording in place or leaving what is worth keeping.
"""

from __future__ import annotations

import datetime
import importlib.metadata
import sys
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pytest_agentreplay.cassette import Cassette, Recording, load_cassette
from pytest_agentreplay.dialects import Dialects
from pytest_agentreplay.player import Player
from pytest_agentreplay.reader import Reader, rule_set_for
from pytest_agentreplay.records import ModelStep, RunEnd, RunStart, Usage
from pytest_agentreplay.settings import Settings

__all__ = ["AgentRun", "Outcome", "Session", "open_session", "shown_path"]

Action = Literal["replayed", "recorded", "kept", "nothing"]
_RECORDED_WITH = ("openai", "anthropic", "httpx", "httpx2")


@dataclass(frozen=True)
class Outcome:
    """What a session did with its cassette: the action, the file, and how many exchanges were served or recorded."""

    action: Action
    path: Path
    exchanges: int
    partial: Path | None = None


class Session:
    """One run: its player, and the cassette behind it."""

    def __init__(
        self,
        *,
        name: str,
        path: Path,
        settings: Settings,
        reader: Reader,
        tape: Cassette | None,
        recording: Recording | None,
    ) -> None:
        self.name = name
        self.path = path
        self.settings = settings
        self.reader = reader
        self.tape = tape
        self.recording = recording
        self.is_open = True
        self.player = Player(
            reader=reader,
            settings=settings,
            test=name,
            cassette=shown_path(path),
            tape=tape,
            recording=recording,
        )

    def close(self, *, passed: bool) -> Outcome:
        """Stop taking requests; put a recording in place, or keep what there is of it."""
        self.is_open = False
        if self.recording is None:
            played = sum(self.player.recorded.played) if self.player.recorded else 0
            return Outcome("replayed" if played else "nothing", self.path, played)
        count = len(self.recording.exchanges)
        if not count:
            return Outcome("nothing", self.path, 0)
        if self._is_worth_closing(passed=passed):
            self.recording.close(RunEnd(outcome="ok" if passed else "failed", turns=self._turns()))
            return Outcome("recorded", self.path, count)
        self.recording.leave()
        return Outcome("kept", self.path, count, partial=self.recording.partial)

    def _is_worth_closing(self, *, passed: bool) -> bool:
        """Return whether a recording becomes the cassette; one of a failing test never replaces a good cassette."""
        if self.player.in_flight:
            return False
        if passed:
            return True
        completed = self.player.completed
        return not self.path.exists() and bool(completed) and completed[-1].error is None

    def _turns(self) -> int:
        return sum(step.kind == "model" for step in self.recording.exchanges) if self.recording else 0


class AgentRun:
    """What a test can ask about its own run, as far as it has come."""

    def __init__(self, session: Session) -> None:
        self._session = session

    @property
    def cassette(self) -> Path:
        """The cassette's path, whether it exists yet or not."""
        return self._session.path

    @property
    def settings(self) -> Settings:
        """The settings of this test, resolved."""
        return self._session.settings

    @property
    def is_recording(self) -> bool:
        """Whether requests go live and are recorded."""
        return self._session.recording is not None

    @property
    def hash_chain(self) -> dict[str, tuple[str, ...]]:
        """The request hashes of each lane, in order; a strict replay of an unchanged agent gives the same."""
        chain: dict[str, tuple[str, ...]] = {}
        for lane, request_hash in self._session.player.trail:
            chain[lane] = (*chain.get(lane, ()), request_hash)
        return chain

    @property
    def turns(self) -> int:
        """How many model calls have been answered."""
        return sum(step.kind == "model" for step in self._session.player.completed)

    @property
    def usage(self) -> Usage:
        """The tokens of all model calls so far, summed; what no answer named is ``None``."""
        found = [step.usage for step in self._session.player.completed if isinstance(step, ModelStep) and step.usage]
        totals: dict[str, int] = {}
        for usage in found:
            for name, count in usage.model_dump(exclude_none=True).items():
                totals[name] = totals.get(name, 0) + count
        return Usage(**totals)


def open_session(*, name: str, path: Path, settings: Settings, dialects: Dialects) -> Session:
    """Open a session on the cassette at ``path``.

    Raises :class:`CassetteError` for a damaged cassette, unless it is about to be replaced, and
    :class:`ConfigurationError` for rules that are not understood.
    """
    rules = rule_set_for(
        dialects,
        ignore=settings.ignore,
        match_headers=settings.match_headers,
        redact_patterns=settings.redact_patterns,
    )
    policy = settings.recording
    exists = path.exists()
    tape = load_cassette(path) if exists and policy.serves_known else None
    recording = None
    if tape is None and policy.records_missing:
        recording = Recording(path, _start_of(name, rules=rules.digest))
    return Session(name=name, path=path, settings=settings, reader=Reader(rules), tape=tape, recording=recording)


def shown_path(path: Path) -> str:
    """Return a path as reports show it: relative to the working directory where it lies inside."""
    try:
        return path.resolve().relative_to(Path.cwd()).as_posix()
    except ValueError:
        return str(path)


def _start_of(name: str, *, rules: str) -> RunStart:
    return RunStart(
        rules=rules,
        run_id=uuid.uuid4().hex,
        name=name,
        recorded_at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        versions=_versions(),
    )


def _versions() -> dict[str, str]:
    found = {"pytest-agent-cassette": importlib.metadata.version("pytest-agent-cassette")}
    for name in _RECORDED_WITH:
        if name in sys.modules:
            found[name] = importlib.metadata.version(name)
    return found
