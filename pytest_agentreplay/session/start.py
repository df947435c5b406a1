"""The head of the tape that a run writes: which run it is, under which rules, and what its caller says of it."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Mapping
from typing import Any, NamedTuple

from pydantic_core import PydanticSerializationError, to_jsonable_python

from pytest_agentreplay.errors import ConfigurationError
from pytest_agentreplay.reader import RuleSet
from pytest_agentreplay.records import RunStart
from pytest_agentreplay.version import __version__

__all__ = ["About", "start_of"]


class About(NamedTuple):
    """What a caller says of a run: its task, and the configuration of its agent, plain values by name."""

    task: str | None = None
    config: Mapping[str, Any] | None = None


def start_of(name: str, *, rules: RuleSet, about: About | None = None) -> RunStart:
    """Return the head of a new tape, redacted.  Raises :class:`ConfigurationError` for what a tape cannot keep."""
    task, config = _checked(about or About())
    redactor = rules.redactor
    return RunStart(
        task=redactor.value(task),
        config=redactor.value(config),
        rules=rules.digest,
        run_id=uuid.uuid4().hex,
        name=redactor.text(name),
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
