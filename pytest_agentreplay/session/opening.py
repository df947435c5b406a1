"""Open a session with what is on disk and what the settings say."""

from __future__ import annotations

import contextlib
import datetime
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pydantic_core import PydanticSerializationError, to_jsonable_python

from pytest_agentreplay.cassette import (
    Cassette,
    Recording,
    continuation_path,
    load_cassette,
    lock_cassette,
    partial_path,
)
from pytest_agentreplay.dialects import Dialects
from pytest_agentreplay.divergence import Words
from pytest_agentreplay.errors import CassetteError, ConfigurationError
from pytest_agentreplay.locks import Lock
from pytest_agentreplay.player import Beginning, Recorded, recorded_for
from pytest_agentreplay.reader import Reader, RuleSet, rule_set_for
from pytest_agentreplay.records import RunStart
from pytest_agentreplay.redact import redactor_for
from pytest_agentreplay.session.session import Session
from pytest_agentreplay.settings import RecordPolicy, Settings
from pytest_agentreplay.version import __version__

__all__ = ["About", "open_replay", "open_session"]


class About(NamedTuple):
    """What a caller says of a run: its task, and the configuration of its agent, plain values by name."""

    task: str | None = None
    config: Mapping[str, Any] | None = None


def open_session(
    *,
    name: str,
    path: Path,
    settings: Settings,
    dialects: Dialects,
    environment: Mapping[str, str] | None = None,
    about: About | None = None,
    words: Words | None = None,
    test: str | None = None,
) -> Session:
    """Open a session on the cassette at ``path``; secrets among the values of ``environment`` are redacted.

    A recording keeps what it is told ``about`` the run.  ``test`` is what reports call the run, by default its name.

    Raises :class:`CassetteError` for a damaged cassette, unless it is about to be replaced, and for one that another
    process is recording; :class:`ConfigurationError` for rules that are not understood.
    """
    rules = _rules_of(settings, dialects, environment)
    lock = _lock_to_record(path, settings.recording)
    try:
        return _assemble(
            name=name,
            path=path,
            settings=settings,
            reader=Reader(rules),
            lock=lock,
            about=about or About(),
            words=words,
            test=test,
        )
    except BaseException:
        if lock is not None:
            lock.release()
        raise


def _assemble(
    *,
    name: str,
    path: Path,
    settings: Settings,
    reader: Reader,
    lock: Lock | None,
    about: About | None,
    words: Words | None,
    test: str | None,
) -> Session:
    tape = load_cassette(path) if settings.recording.serves_known and path.exists() else None
    sources = [_source(tape, reader)] if tape is not None else []
    if lock is None:
        if tape is not None and settings.recording.records_missing:
            _remove_leftover(tape)
        onto = continuation_path(path) if tape is not None and settings.replaying.goes_live else None
        continuation = _continuation(tape, onto, reader=reader, name=name) if tape is not None and onto else None
        return Session(
            name=name,
            path=path,
            settings=settings,
            reader=reader,
            sources=sources,
            recording=continuation,
            continues=continuation is not None,
            words=words,
            test=test,
        )
    redactor = reader.rules.redactor
    start = _start_of(redactor.text(name), rules=reader.rules, about=about)
    recording = Recording(path, start, redactor=redactor, lock=lock)
    if tape is not None:
        recording.know(tape.messages)
    resumed, torn = _resume(recording, reader) if settings.recording.serves_known else (None, None)
    return Session(
        name=name,
        path=path,
        settings=settings,
        reader=reader,
        sources=[resumed, *sources] if resumed else sources,
        recording=recording,
        words=words,
        test=test,
        resumed=len(resumed.steps) if resumed else 0,
        torn=torn,
        failed_before=bool(tape and tape.end and tape.end.outcome == "failed"),
    )


def open_replay(
    tape: Cassette,
    *,
    onto: Path | None,
    name: str,
    settings: Settings,
    dialects: Dialects,
    environment: Mapping[str, str] | None = None,
    beginning: Beginning = "free",
    words: Words | None = None,
) -> Session:
    """Open a session that replays a tape, finished or not, and writes its own to ``onto``, tagged ``replay_of``.

    Without ``onto`` it writes none, and nothing can go live.
    """
    reader = Reader(_rules_of(settings, dialects, environment))
    return Session(
        name=name,
        path=tape.path,
        settings=settings,
        reader=reader,
        sources=[_source(tape, reader)],
        recording=_continuation(tape, onto, reader=reader, name=name) if onto is not None else None,
        continues=onto is not None,
        keeps=True,
        beginning=beginning,
        words=words,
    )


def _rules_of(settings: Settings, dialects: Dialects, environment: Mapping[str, str] | None) -> RuleSet:
    redactor = redactor_for(
        patterns=settings.redact_patterns,
        headers=settings.redact_headers,
        json_names=settings.redact_json,
        variables=settings.redact_env,
        environment=environment,
    )
    return rule_set_for(dialects, redactor=redactor, ignore=settings.ignore, match_headers=settings.match_headers)


def _continuation(tape: Cassette, path: Path, *, reader: Reader, name: str) -> Recording:
    """Return the tape of a run that replays another and may go on from it."""
    redactor = reader.rules.redactor
    start = _start_of(redactor.text(name), rules=reader.rules)
    start = start.model_copy(
        update={"replay_of": tape.start.run_id, "task": tape.start.task, "config": tape.start.config}
    )
    recording = Recording(path, start, redactor=redactor, partial=partial_path(path, run=start.run_id))
    recording.know(tape.messages)
    return recording


def _lock_to_record(path: Path, policy: RecordPolicy) -> Lock | None:
    """Return the lock of a cassette that is to be recorded, ``None`` where nothing is recorded.

    While this waits, the process that held the lock may have recorded the cassette.
    """
    if not policy.records_missing or (path.exists() and not policy.records_unknown):
        return None
    lock = lock_cassette(path)
    if path.exists() and not policy.records_unknown:
        lock.release()
        return None
    return lock


def _source(tape: Cassette, reader: Reader) -> Recorded:
    return recorded_for(tape, reader, digest=tape.start.rules)


def _resume(recording: Recording, reader: Reader) -> tuple[Recorded | None, str | None]:
    """Return what an interrupted recording holds, and what of it cannot be used; go on from it."""
    if not recording.partial.exists() or b"\n" not in recording.partial.read_bytes():
        return None, None  # one that ended before its first line did holds nothing
    tape = load_cassette(recording.partial, partial=True)
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


def _start_of(name: str, *, rules: RuleSet, about: About | None = None) -> RunStart:
    task, config = _checked(about or About())
    return RunStart(
        task=rules.redactor.value(task),
        config=rules.redactor.value(config),
        rules=rules.digest,
        run_id=uuid.uuid4().hex,
        name=name,
        recorded_at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        versions={"pytest-agent-cassette": __version__},
    )


def _checked(about: About) -> About:
    """Return what a caller says of a run, as the tape will say it.  Raises :class:`ConfigurationError` otherwise."""
    if about.task is not None and not isinstance(about.task, str):
        raise ConfigurationError(f"task={about.task!r} must be a string")
    try:
        plain = to_jsonable_python(about.config)
    except PydanticSerializationError as error:
        raise ConfigurationError(f"config must hold plain values, which a tape can keep: {error}") from error
    if not isinstance(plain, dict | None):
        raise ConfigurationError(f"config={about.config!r} must hold plain values by name, as {{'model': 'm'}}")
    return about._replace(config=plain)
