"""``agentreplay replay`` and ``agentreplay resume``: drive the agent that a module builds, over a tape."""

from __future__ import annotations

import contextlib
import importlib
import json
import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

from pytest_agentreplay.cassette import continuation_path
from pytest_agentreplay.cli.exit_codes import ExitCode
from pytest_agentreplay.cli.tapes import load_tape
from pytest_agentreplay.counts import say_count
from pytest_agentreplay.errors import ConfigurationError, ReplayStop
from pytest_agentreplay.library import Result, replay, resume

__all__ = ["drive_replay", "drive_resume"]


def drive_replay(target: str, tape: str, *, to: Path | None, as_json: bool) -> ExitCode:
    """Replay a tape with the agent that ``MODULE:FUNCTION`` builds; return the exit code."""
    return _drive(lambda build, loaded, path: replay(loaded, build, to=path), target, tape, to=to, as_json=as_json)


def drive_resume(target: str, tape: str, *, to: Path | None, allow_restart: bool, as_json: bool) -> ExitCode:
    """Go on from a tape with what ``MODULE:FUNCTION`` runs; return the exit code."""
    return _drive(
        lambda run, loaded, path: resume(loaded, run, to=path, allow_restart=allow_restart),
        target,
        tape,
        to=to,
        as_json=as_json,
    )


def _drive(
    operation: Callable[[Callable[..., Any], Any, Path], Result],
    target: str,
    tape: str,
    *,
    to: Path | None,
    as_json: bool,
) -> ExitCode:
    function, loaded = _find(target), load_tape(tape)
    if to is None and not loaded.path.exists():
        raise ConfigurationError(f"{tape!r} is no file that a new tape could go beside: say where with --to")
    try:
        with contextlib.redirect_stdout(sys.stderr):  # what the agent prints is no part of the result
            result = operation(function, loaded, to or continuation_path(loaded.path))
    except ReplayStop as stop:
        sys.stderr.write(f"{stop}\n")
        return ExitCode.FOUND
    sys.stdout.write(_as_json(result) if as_json else _as_text(result))
    return ExitCode.FINE


def _find(target: str) -> Callable[..., Any]:
    """Return the function that ``MODULE:FUNCTION`` names, looked for from the working directory first."""
    module, colon, name = target.partition(":")
    if not colon or not module or not name:
        raise ConfigurationError(f"{target!r} names no function: expected MODULE:FUNCTION")
    sys.path.insert(0, str(Path.cwd()))
    try:
        found = importlib.import_module(module)
    except Exception as error:
        raise ConfigurationError(f"{target!r} cannot be imported: {type(error).__name__}: {error}") from error
    function = getattr(found, name, None)
    if not callable(function):
        raise ConfigurationError(f"{target!r} names no function: {module} has no callable {name!r}")
    return function  # type: ignore[no-any-return]


def _as_text(result: Result) -> str:
    said = result.message.text if result.message else ""
    spent = "unknown" if result.cost_usd is None else f"${result.cost_usd:.6f}"
    torn = f"torn   {result.torn}\n" if result.torn else ""
    tape = result.tape or "none: the agent asked for nothing"
    return f"{said}\n\n{torn}tape   {tape}\nlive   {say_count(result.turns, 'live turn')}, cost {spent}\n"


def _as_json(result: Result) -> str:
    document = {entry.name: getattr(result, entry.name) for entry in fields(result)}
    document |= {
        "message": result.message.as_json() if result.message else None,
        "usage": result.usage.model_dump(exclude_none=True),
        "tape": str(result.tape) if result.tape else None,
    }
    return json.dumps(document, indent=2, default=repr) + "\n"
