"""``agentreplay replay`` and ``agentreplay resume``: drive the agent that a module builds, over a tape."""

from __future__ import annotations

import contextlib
import importlib
import json
import shlex
import sys
import traceback
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from types import TracebackType
from typing import Any

from pytest_agentreplay.cassette import Cassette, continuation_path
from pytest_agentreplay.cli.exit_codes import ExitCode
from pytest_agentreplay.cli.tapes import load_finished_tape
from pytest_agentreplay.counts import say_count
from pytest_agentreplay.divergence import Words
from pytest_agentreplay.errors import CassetteError, ConfigurationError, ReplayStop
from pytest_agentreplay.library import Result, RunPlan
from pytest_agentreplay.library.drive import Door, Drive, beginning_of, from_plan, from_start

__all__ = ["drive_replay", "drive_resume"]

_PACKAGE = "pytest_agentreplay."
_DRIVER = Drive.__module__


def drive_replay(target: str, tape: str, *, to: Path | None, as_json: bool) -> ExitCode:
    """Replay a tape with the agent that ``MODULE:FUNCTION`` builds; return the exit code."""
    build, loaded, onto = _prepare("replay", target, tape, to)
    words = _words_of(loaded, setting=f"replay({str(loaded.path)!r}, build, {{setting}}) from Python")
    drive = Drive(loaded, onto, {}, door=_door_of(words))
    return _drive(drive, from_plan(build, called=target), as_json=as_json)


def drive_resume(target: str, tape: str, *, to: Path | None, allow_restart: bool, as_json: bool) -> ExitCode:
    """Go on from a tape with what ``MODULE:FUNCTION`` runs; return the exit code."""
    run, loaded, onto = _prepare("resume", target, tape, to)
    words = _words_of(loaded, setting=f"resume({str(loaded.path)!r}, run, {{setting}}) from Python")
    again = ["agentreplay", "resume", target, tape, *_to(to), "--allow-restart"]
    door = _door_of(replace(words, restart=shlex.join(again)))
    drive = Drive(loaded, onto, {}, beginning=beginning_of(allow_restart=allow_restart), door=door)
    return _drive(drive, from_start(run), as_json=as_json)


def _prepare(command: str, target: str, tape: str, to: Path | None) -> tuple[Callable[..., Any], Cassette, Path]:
    """Return the function, the tape, and where the new one goes."""
    function = _find(target)
    loaded = load_finished_tape(tape, by=["agentreplay", command, target, *_to(to)])
    if to is None and not loaded.path.exists():
        raise ConfigurationError(f"{tape!r} is no file that a new tape could go beside: say where with --to")
    return function, loaded, to or continuation_path(loaded.path)


def _to(path: Path | None) -> list[str]:
    """Return the option that says where the new tape goes, as it was given."""
    return ["--to", str(path)] if path else []


def _door_of(words: Words) -> Door:
    return Door(words, to="--to {path}", resume="agentreplay resume")


def _words_of(loaded: Cassette, *, setting: str) -> Words:
    """Return what reports say: of the test that a tape is of, or of the code; no option here records or allows."""
    if "::" in (loaded.start.name or ""):
        return Words(prune=None, setting=setting, rule=setting)
    return Words(
        again=f"use_cassette({str(loaded.path)!r}, record_mode='{{mode}}') in the code that recorded it",
        prune=None,
        setting=setting,
        rule=setting,
    )


def _drive(drive: Drive, agent: Callable[[RunPlan], Any], *, as_json: bool) -> ExitCode:
    try:
        with contextlib.redirect_stdout(sys.stderr):  # what the agent prints is no part of the result
            result = drive.run(agent)
    except ReplayStop as stop:
        sys.stderr.write(f"{stop}\n")
        return ExitCode.FOUND
    except SystemExit as ended:  # no result came of it, whatever its code says
        sys.stderr.write(f"the agent ended by itself: sys.exit({ended.code!r})\n")
        return ExitCode.CRASHED
    except (ConfigurationError, CassetteError):
        raise
    except Exception as error:
        calls = _calls_of_agent(error.__traceback__)
        if calls is not None and _module_of(calls).startswith(_PACKAGE):
            raise  # it is ours
        sys.stderr.writelines(traceback.format_exception(error.with_traceback(calls)))
        return ExitCode.CRASHED
    sys.stdout.write(_as_json(result) if as_json else _as_text(result))
    return ExitCode.FINE


def _calls_of_agent(calls: TracebackType | None) -> TracebackType | None:
    """Return the calls that led to an error from the agent's first on: without those of the command that drives it."""
    while calls is not None and _module_of(calls) != _DRIVER:
        calls = calls.tb_next
    while calls is not None and (_module_of(calls) == _DRIVER or _module_of(calls).startswith("asyncio.")):
        calls = calls.tb_next
    return calls


def _module_of(call: TracebackType) -> str:
    return str(call.tb_frame.f_globals.get("__name__", ""))


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
