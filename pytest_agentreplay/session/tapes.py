"""The tapes behind a run: the recordings that it is served from, and the one that it writes."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_agentreplay.cassette import Cassette, Recording, continuation_path, load_cassette, partial_path
from pytest_agentreplay.errors import CassetteError
from pytest_agentreplay.locks import Lock
from pytest_agentreplay.player import Recorded, recorded_for
from pytest_agentreplay.reader import Reader
from pytest_agentreplay.session.endings import has_failed, holds_something, without_failed_end
from pytest_agentreplay.session.start import About, start_of
from pytest_agentreplay.settings import Settings

__all__ = ["Tapes", "tapes_to_continue", "tapes_to_record", "tapes_to_replay"]


@dataclass(frozen=True)
class Tapes:
    """What a run is served from, the first that knows a request first, and what it writes, if it writes anything.

    A recording that ``continues`` the sources leaves the cassette as it is; it is put in place if something went live,
    or if the run ``keeps`` it anyway.  ``resumed`` is what is taken over from an unfinished recording, ``torn`` says
    what of it could not be; ``failed_before`` is what the cassette says: a recording that passes puts it right.
    """

    sources: Sequence[Recorded] = ()
    recording: Recording | None = None
    continues: bool = False
    keeps: bool = False
    resumed: Recorded | None = None
    torn: str | None = None
    failed_before: bool = False


def tapes_to_replay(path: Path, *, name: str, settings: Settings, reader: Reader) -> Tapes:
    """Return the tapes of a run that does not record its cassette; it may go on from it where the settings say so."""
    tape = _known(path, settings)
    if tape is None:
        return Tapes()
    onto = continuation_path(path) if settings.replaying.goes_live else None
    tapes = tapes_to_continue(tape, onto=onto, name=name, reader=reader)
    if settings.recording.records_missing:
        _remove_leftover(tape)
    return tapes


def tapes_to_continue(tape: Cassette, *, onto: Path | None, name: str, reader: Reader, keeps: bool = False) -> Tapes:
    """Return the tapes of a run that replays another and, with ``onto``, may go on from it."""
    return Tapes(
        sources=[_source(tape, reader)],
        recording=_continuation(tape, onto, reader=reader, name=name) if onto is not None else None,
        continues=onto is not None,
        keeps=keeps,
        failed_before=has_failed(tape),
    )


def tapes_to_record(
    path: Path, *, name: str, settings: Settings, reader: Reader, lock: Lock, about: About | None
) -> Tapes:
    """Return the tapes of a run that records its cassette, on from what an interrupted recording left of it."""
    tape = _known(path, settings)
    sources = [_source(tape, reader)] if tape is not None else []
    start = start_of(name, rules=reader.rules, about=about)
    recording = Recording(path, start, redactor=reader.rules.redactor, lock=lock)
    if tape is not None:
        recording.know(tape.messages)
    resumed, torn = _resume(recording, reader) if settings.recording.serves_known else (None, None)
    return Tapes(
        sources=[resumed, *sources] if resumed else sources,
        recording=recording,
        resumed=resumed if resumed and resumed.steps else None,
        torn=torn,
        failed_before=tape is not None and has_failed(tape),
    )


def _known(path: Path, settings: Settings) -> Cassette | None:
    return load_cassette(path) if settings.recording.serves_known and path.exists() else None


def _source(tape: Cassette, reader: Reader) -> Recorded:
    return recorded_for(tape, reader, digest=tape.start.rules)


def _continuation(tape: Cassette, path: Path, *, reader: Reader, name: str) -> Recording:
    start = start_of(name, rules=reader.rules)
    start = start.model_copy(
        update={"replay_of": tape.start.run_id, "task": tape.start.task, "config": tape.start.config}
    )
    partial = partial_path(path, run=start.run_id)
    recording = Recording(path, start, redactor=reader.rules.redactor, partial=partial)
    recording.know(tape.messages)
    return recording


def _resume(recording: Recording, reader: Reader) -> tuple[Recorded | None, str | None]:
    """Return what an interrupted recording holds, and what of it cannot be used; go on from it."""
    if not recording.partial.exists() or not holds_something(recording.partial):
        return None, None
    tape = without_failed_end(load_cassette(recording.partial, partial=True))
    source = _source(tape, reader)
    recording.resume(source.steps, tape.messages)
    return source, tape.torn


def _remove_leftover(tape: Cassette) -> None:
    """Remove the partial file of a recording that was put in place whole, and killed before it had cleaned up."""
    partial = partial_path(tape.path)
    if not partial.exists():
        return
    with contextlib.suppress(CassetteError):  # a partial that cannot be read may be all that is left of something else
        if load_cassette(partial, partial=True).start.run_id == tape.start.run_id:
            partial.unlink(missing_ok=True)
