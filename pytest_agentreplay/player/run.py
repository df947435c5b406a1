"""One run: how it is set, what it has asked for and done so far, the tape it writes, and what has ended it.

The player decides, and so do the toolbox and the stand-ins; what they have in common is here, and knows none of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

from pytest_agentreplay.errors import DivergenceKind, RecordingFailedError, ReplayDivergenceError, ReplayStop
from pytest_agentreplay.player import describe
from pytest_agentreplay.player.lanes import Lane
from pytest_agentreplay.player.observer import Observer, Unobserved
from pytest_agentreplay.player.recorded import Recorded
from pytest_agentreplay.player.tape import WritableTape
from pytest_agentreplay.reader import Reader
from pytest_agentreplay.records import Entry, Phase, RunStart
from pytest_agentreplay.settings import Settings

__all__ = ["Run"]


@dataclass
class Run:
    """A run that is going on.  Not thread-safe: the player's lock guards it.

    ``sources`` are the recordings to serve from, the first that knows a request first; ``recording`` is the tape to
    write to, or ``None`` where nothing may go live; ``continues`` says that it goes on from a recording that stays as
    it is, conversation by conversation.  ``partial`` is an unfinished recording that nothing is served from,
    ``words`` what reports tell their readers to write.  ``clock`` gives seconds from any start.
    """

    reader: Reader
    settings: Settings
    test: str
    cassette: str
    sources: Sequence[Recorded] = ()
    recording: WritableTape | None = None
    partial: describe.Unfinished | None = None
    continues: bool = False
    words: describe.Words = field(default_factory=describe.Words)
    clock: Callable[[], float] = time.monotonic
    phase: Phase = "setup"
    stopped: ReplayStop | None = None
    calls: list[str] = field(default_factory=list)
    trail: list[tuple[str, str]] = field(default_factory=list)  # lane and hash of each request, in order
    completed: list[Entry] = field(default_factory=list)
    warned: list[str] = field(default_factory=list)  # reports of what differed where that is allowed
    surprises: list[describe.Surprise] = field(default_factory=list)
    observer: Observer = field(default_factory=Unobserved)

    def __post_init__(self) -> None:
        self.started = self.clock()

    @property
    def goes_live(self) -> bool:
        """Whether what no recording has is made, and recorded."""
        return self.recording is not None and (not self.continues or self.settings.replaying.goes_live)

    @property
    def is_recording(self) -> bool:
        """Whether all that the run asks for is being recorded, and may go anywhere."""
        return self.recording is not None and not self.continues

    @property
    def recorded(self) -> Recorded | None:
        """The recording that a report compares with."""
        return self.sources[-1] if self.sources else None

    def now(self) -> float:
        """Return the seconds since the start of the run."""
        return self.clock() - self.started

    def is_background(self, url: str) -> bool:
        """Return whether a request is background traffic, which may stay, repeat, and is never sent in replay."""
        address = url.partition("://")[2]
        known = (place.rstrip("/") for place in self.settings.background)
        return any(address.startswith(place) and address[len(place) :][:1] in ("", "/", ":", "?") for place in known)

    def begin(self, call: str) -> Any:
        """Count a request or a call among those of this run; return the observer's mark."""
        self.calls.append(call)
        return self.observer.began(call)

    def record(self, step: Entry, messages: Mapping[str, Any], *, mark: Any = None) -> None:
        """Write a step; one that must not be written ends the run."""
        with self._writing() as recording:
            if recording is not None:
                recording.append(step, messages)
        self.finish(step, mark=mark)

    def carry(self, step: Entry, *, began: float, rank: int | None = None) -> None:
        """Take a served step over to the tape that is written."""
        with self._writing() as recording:
            if recording is not None:
                recording.carry(step, began=began, rank=rank)

    def finish(self, step: Entry, *, mark: Any = None) -> None:
        """Count a step among those of this run."""
        self.completed.append(step)
        self.observer.completed(step, mark)

    def scene(self, call_site: str | None, lane: Lane | None = None) -> describe.Scene:
        """Return what a report says of where the run stands."""
        recorded = [] if self.recorded is None else describe.calls_in(self.recorded.own_steps())
        return describe.Scene(
            test=self.test,
            cassette=self.cassette,
            recorded_by=self._other_test(),
            words=self.words,
            call_site=call_site,
            lane=lane.label if lane else "",
            recorded=tuple(describe.short_name(step) for step in recorded),
            now=tuple(self.calls),
            place=max(0, len(self.calls) - 1),
        )

    def last_scene(self, left: Collection[Entry]) -> describe.Scene:
        """Return what a report says of the end of the run, which ``left`` some recorded steps unasked for."""
        ids = set(map(id, left))
        recorded = [] if self.recorded is None else describe.calls_in(self.recorded.own_steps())
        place = next((index for index, step in enumerate(recorded) if id(step) in ids), 0)
        return replace(self.scene(None), place=place, is_over=True)

    def _other_test(self) -> str | None:
        """Return the test that recorded the cassette, where that is another than this one."""
        start: RunStart | None = getattr(self.recorded.tape, "start", None) if self.recorded else None
        recorder = start.name if start else None
        _, is_test, name = (recorder or "").partition("::")
        _, is_here, own = self.test.partition("::")
        return recorder if is_test and is_here and name != own else None

    def diverge(self, kind: DivergenceKind, report: str, *, change: str | None = None) -> NoReturn:
        """End the run with a divergence; a live tool's other result that came before it is named as its cause."""
        if self.surprises:
            report = describe.with_cause(report, self.surprises[0])
        self.halt(ReplayDivergenceError(report, kind=kind, change=change))

    def halt(self, stop: ReplayStop) -> NoReturn:
        """Remember what ends the run, unless something has ended it before, and raise it."""
        self.stopped = self.stopped or stop
        raise stop.with_traceback(None)

    @contextmanager
    def _writing(self) -> Iterator[WritableTape | None]:
        try:
            yield self.recording
        except ReplayStop as stop:
            self.halt(stop)
        except OSError as error:  # a later answer on a tape without this one would replay as another conversation
            self.halt(RecordingFailedError(f"An answer could not be recorded: {error}.\n  Those before it are kept."))
