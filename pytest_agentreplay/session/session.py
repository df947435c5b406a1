"""One run: its player and the tape behind it, from the first request to what becomes of the recording.

A session takes requests while it is open, and closes by putting a recording in place or leaving what is worth keeping.
"""

from __future__ import annotations

import re
from collections import ChainMap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pytest_agentreplay.cassette import (
    Cassette,
    Recording,
    canonical_order,
    lock_cassette,
    partial_path,
)
from pytest_agentreplay.divergence import Unfinished, Words
from pytest_agentreplay.errors import ReplayStop
from pytest_agentreplay.player import (
    Approve,
    Beginning,
    MemoryTape,
    Player,
    Policy,
    Unobserved,
    describe,
    in_order_of_tape,
)
from pytest_agentreplay.reader import Reader
from pytest_agentreplay.records import Entry, ExchangeStep, Phase, RunEnd, RunStart, ToolStep
from pytest_agentreplay.session.endings import doubt_about, failed_end, unfinished_at
from pytest_agentreplay.session.tapes import Tapes
from pytest_agentreplay.settings import Settings

if TYPE_CHECKING:  # the store comes with its fixtures
    from pytest_agentreplay.run_log import RunLog

__all__ = ["Outcome", "Session", "shown_path"]

Action = Literal["replayed", "recorded", "continued", "kept", "nothing"]
_USER_AGENT = re.compile(r"([A-Za-z][\w.-]*(?:/Python)?)[/ ]v?(\d[\w.+-]*)")


@dataclass(frozen=True)
class Outcome:
    """What a session did with its cassette.

    ``exchanges`` and ``tools`` count what was served or recorded; of a recording that is kept, what a run that goes on
    from it takes over, and ``failed`` what it asks for again.  ``resumed`` and ``resumed_tools`` count what was taken
    over from an unfinished recording at ``partial``, which is named when it is still there, and ``torn`` says what
    could not be; ``dropped``
    are recorded steps that a new recording left out, ``unplayed`` the positions of those that a replay did not ask for.
    A run that ``continued`` its cassette left ``tape``, with as many steps ``made`` live.  ``given_up`` says of each
    request that the agent gave up that it is not recorded; a run that goes on from a recording that is kept asks again.
    One that is kept ``is_answered`` where all that was asked for is, and only the test failed.
    """

    action: Action
    path: Path
    exchanges: int
    tools: int = 0
    failed: int = 0
    resumed: int = 0
    resumed_tools: int = 0
    torn: str | None = None
    partial: Path | None = None
    dropped: tuple[str, ...] = ()
    unplayed: tuple[int, ...] = ()
    tape: Path | None = None
    made: int = 0
    given_up: tuple[str, ...] = ()
    is_answered: bool = False


class Session:
    """One run: its player, and the cassette behind it."""

    def __init__(
        self,
        *,
        name: str,
        path: Path,
        settings: Settings,
        reader: Reader,
        tapes: Tapes,
        beginning: Beginning = "free",
        words: Words | None = None,
        test: str | None = None,
    ) -> None:
        self.name = name
        self.path = path
        self.settings = settings
        self.reader = reader
        self.recording = tapes.recording
        self.is_open = True
        self.log: RunLog | None = None
        self._tapes = tapes
        self._recorded: set[int] | None = None  # the steps of the sources, by identity
        partial = partial_path(path)
        self._partial = partial if partial.exists() else None
        self.player = Player(
            reader=reader,
            settings=settings,
            test=test or name,
            cassette=shown_path(path),
            sources=tapes.sources,
            recording=tapes.recording,
            continues=tapes.continues,
            beginning=beginning,
            words=words or Words(),
            partial=self._unfinished(),
        )

    def begin(self, phase: Phase) -> None:
        """Begin a phase of the test: what is recorded from here on is part of it."""
        self.player.phase = phase

    def use_policy(self, policy: Policy, *, approve: Approve | None = None) -> None:
        """Let a policy decide about calls of tools that are not recorded; ``approve`` answers where it says ``ask``."""
        self.player.policy, self.player.approve = policy, approve

    def keep_log(self, log: RunLog) -> None:
        """Have each step of this run logged as it completes, and those that have completed already."""
        for step in self.player.completed:
            log.completed(step, None)
        self.log = self.player.observer = log

    def leave_log(self) -> None:
        """Log no further step."""
        self.player.observer = Unobserved()

    def made(self, step: Entry) -> bool:
        """Return whether a step was made live in this run, and not served."""
        if self._recorded is None:
            self._recorded = {id(known) for source in self.player.sources for known in source.steps}
        return id(step) not in self._recorded

    @property
    def run_id(self) -> str | None:
        """The id of the run that is written, or of the recorded one where nothing is."""
        if self.recording is not None:
            return self.recording.start.run_id
        tape = self.player.recorded.tape if self.player.recorded else None
        return tape.start.run_id if isinstance(tape, Cassette) else None

    def tape(self) -> MemoryTape:
        """Return what this run has done so far, in the order that its cassette has, or will have."""
        player = self.player
        known: list[Mapping[str, Any]] = [source.tape.messages for source in player.sources]
        if self.recording is not None:
            entries = canonical_order(tuple(self.recording.entries))
            known.append(self.recording.messages)
        else:
            entries = in_order_of_tape(tuple(player.completed), player.recorded) if player.recorded else []
        return MemoryTape(entries=entries, messages=dict(ChainMap(*map(dict, known))), start=RunStart(name=self.name))

    def judge(self, phases: Sequence[Phase], *, passed: bool) -> ReplayStop | None:
        """Return what a run must fail with at the end of the last of ``phases``, whatever its code made of it.

        That is what has stopped it; or, where its code ``passed``, recorded steps of these phases that nothing asked
        for.  Where those may stay they are told with the player's warnings, or not at all.
        """
        if self.player.stopped is not None:
            return self.player.stopped
        unplayed = self.player.unplayed_error(phases) if passed and self.settings.unplayed != "ignore" else None
        if unplayed is not None and self.settings.warns_of_unplayed:
            self.player.warn(str(unplayed))
            return None
        return unplayed

    def doubt(self) -> str | None:
        """Return what the report of a failing run says of the cassette it was served from, if a failing run made it."""
        player = self.player
        tape = player.recorded.tape if player.recorded else None
        is_live = self.recording is not None and self.recording.added > 0
        is_served = player.served > 0 or player.tools.played > 0 or player.stopped is not None
        if not isinstance(tape, Cassette) or not self._tapes.failed_before or is_live or not is_served:
            return None
        return doubt_about(tape, test=player.test, words=player.words, goes_on=player.is_recording)

    def close(self, *, passed: bool) -> Outcome:
        """Stop taking requests; put a recording in place, or keep what there is of it."""
        self.is_open = False
        if self.recording is None or self.player.continues:
            done = self._close_replay(self.recording, passed=passed)
        else:
            done = self._close_recording(self.recording, passed=passed)
        if done.action == "kept" or self.player.stopped is not None:  # which ends what is in flight as well
            return done
        given_up = self.player.given_up.values()
        return replace(done, given_up=tuple(describe.given_up(asked, test=self.player.test) for asked in given_up))

    def _close_recording(self, recording: Recording, *, passed: bool) -> Outcome:
        exchanges, tools = _count(recording.entries)
        done = Outcome("nothing", self.path, exchanges, tools=tools)
        holds_something = bool(exchanges or tools)
        if holds_something and self._adds_nothing(passed=passed):
            recording.discard()
            return replace(done, action="replayed")
        resumed = self._tapes.resumed
        if resumed is not None:
            exchanges, tools = _count(resumed.steps)
            done = replace(done, resumed=exchanges, resumed_tools=tools)
        if holds_something and self._is_worth_closing(passed=passed):
            self._put_in_place(recording, passed=passed)
            return replace(done, action="recorded", torn=self._tapes.torn, dropped=self._dropped())
        if holds_something or resumed is not None:
            recording.leave()
        else:
            recording.discard()  # notes without anything to go with
        kept = recording.partial if recording.partial.exists() else None
        return replace(self._as_kept(done), partial=kept) if holds_something else replace(done, partial=kept)

    def _as_kept(self, done: Outcome) -> Outcome:
        """Return the outcome of an unfinished recording: what its file holds, as the next run counts it."""
        assert self.recording is not None
        resumed = self._tapes.resumed
        waiting = [resumed.steps[position] for position in resumed.unplayed()] if resumed is not None else []
        steps = [*waiting, *self.recording.entries]
        exchanges, tools = _count(steps)
        failed = len(failed_end(steps))
        done = replace(done, action="kept", exchanges=exchanges - failed, tools=tools, failed=failed)
        return replace(done, is_answered=not failed and not self.player.given_up and self._is_answered())

    def _close_replay(self, continuation: Recording | None, *, passed: bool) -> Outcome:
        """Close a replay; what it went on to do live is put in place beside the cassette, which stays as it is."""
        served, played = self.player.served, self.player.tools.played
        left = tuple(self.player.recorded.unplayed()) if self.player.recorded else ()
        replayed: Action = "replayed" if served or played else "nothing"
        done = Outcome(replayed, self.path, served, tools=played, partial=self._partial, unplayed=left)
        if continuation is None:
            return done
        if not continuation.added and not (self._tapes.keeps and continuation.entries):
            continuation.discard()
            return done
        with lock_cassette(continuation.path):  # another run may be writing its tape to the same place
            self._put_in_place(continuation, passed=passed)
        return replace(done, action="continued", tape=continuation.path, made=continuation.added)

    def _put_in_place(self, recording: Recording, *, passed: bool) -> None:
        turns = sum(step.kind == "model" for step in recording.exchanges)
        end = RunEnd(outcome="ok" if passed else "failed", turns=turns)
        recording.close(end, versions=_versions_in(self.player.clients))

    def _adds_nothing(self, *, passed: bool) -> bool:
        """Return whether the cassette already says all that this run did, so that it stays as it is."""
        if self._tapes.resumed or self.player.in_flight or self.recording is None or not self.path.exists():
            return False
        return not self.recording.added and not (passed and (self._dropped() or self._tapes.failed_before))

    def _is_worth_closing(self, *, passed: bool) -> bool:
        """Return whether a recording becomes the cassette; one of a failing test never replaces a good cassette."""
        if passed:
            return not self._is_cut_short()
        return self._is_answered() and not self._dropped() and not self.path.exists()

    def _is_cut_short(self) -> bool:
        return bool(self.player.in_flight) or self.player.stopped is not None

    def _is_answered(self) -> bool:
        """Return whether nothing cut the run short, and it did not end in a failed request."""
        exchanges = [step for step in self.player.completed if isinstance(step, ExchangeStep)]
        return not self._is_cut_short() and (not exchanges or exchanges[-1].error is None)

    def _unfinished(self) -> Unfinished | None:
        """Return what is said of an unfinished recording where there is nothing else."""
        if self._partial is None or self._tapes.sources or self.recording is not None:
            return None
        return unfinished_at(self._partial, shown=shown_path(self._partial))

    def _dropped(self) -> tuple[str, ...]:
        return tuple(
            describe.short_name(step)
            for source in self.player.sources
            for position in source.unplayed()
            if isinstance(step := source.steps[position], ExchangeStep | ToolStep)
        )


def _count(steps: Sequence[Entry]) -> tuple[int, int]:
    """Return how many steps are exchanges, and how many the calls of tools."""
    calls = [isinstance(step, ToolStep) for step in steps if isinstance(step, ExchangeStep | ToolStep)]
    return calls.count(False), calls.count(True)


def shown_path(path: Path) -> str:
    """Return a path as reports show it: relative to the working directory where it lies inside."""
    try:
        return path.resolve().relative_to(Path.cwd()).as_posix()
    except ValueError:
        return str(path)


def _versions_in(user_agents: Iterable[str]) -> dict[str, str]:
    """Return the libraries that made the requests, by what they call themselves."""
    found = (_USER_AGENT.match(agent) for agent in sorted(user_agents))
    return {match.group(1): match.group(2) for match in found if match}
