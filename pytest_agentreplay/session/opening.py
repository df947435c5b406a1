"""Open a session with what is on disk and what the settings say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from pytest_agentreplay.cassette import Cassette, lock_cassette
from pytest_agentreplay.dialects import Dialects
from pytest_agentreplay.divergence import Words
from pytest_agentreplay.errors import CassetteError
from pytest_agentreplay.locks import Lock
from pytest_agentreplay.player import Beginning
from pytest_agentreplay.reader import Reader, RuleSet, rule_set_for
from pytest_agentreplay.redact import redactor_for
from pytest_agentreplay.session.endings import without_failed_end
from pytest_agentreplay.session.session import Session, shown_path
from pytest_agentreplay.session.start import About
from pytest_agentreplay.session.tapes import tapes_to_continue, tapes_to_record, tapes_to_replay
from pytest_agentreplay.settings import RecordPolicy, Settings

__all__ = ["open_replay", "open_session"]


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
    reader = Reader(_rules_of(settings, dialects, environment))
    with _told_in(words or Words(), test=test or name), ExitStack() as stack:
        lock = _lock_to_record(path, settings.recording)
        if lock is None:
            tapes = tapes_to_replay(path, name=name, settings=settings, reader=reader)
        else:
            stack.callback(lock.release)
            tapes = tapes_to_record(path, name=name, settings=settings, reader=reader, lock=lock, about=about)
        session = Session(name=name, path=path, settings=settings, reader=reader, tapes=tapes, words=words, test=test)
        stack.pop_all()  # the lock is the recording's from here on
        return session


@contextmanager
def _told_in(words: Words, *, test: str) -> Iterator[None]:
    """Tell of a cassette that cannot be used in the words of who opens it."""
    try:
        yield
    except CassetteError as error:
        told = error.told(path=shown_path(Path(str(error.path))), again=words.record(test, "rewrite"))
        raise told from error.__cause__


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
    source = without_failed_end(tape) if tape.end is None and settings.replaying.goes_live else tape
    return Session(
        name=name,
        path=tape.path,
        settings=settings,
        reader=reader,
        tapes=tapes_to_continue(source, onto=onto, name=name, reader=reader, keeps=True),
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
