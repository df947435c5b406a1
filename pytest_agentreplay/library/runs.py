"""Replay a whole run, or go on with one that was cut short; each writes a tape of its own, linked to the first.

The agent is the caller's: a callable, sync or async, that runs it to its end.  ``areplay`` and ``aresume`` are for
callers in an event loop.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from pytest_agentreplay.library.drive import Agent, Drive, TapeOrPath, beginning_of, from_plan, from_start
from pytest_agentreplay.library.plan import RunPlan
from pytest_agentreplay.library.result import Result
from pytest_agentreplay.player import Approve, Policy

__all__ = ["areplay", "aresume", "replay", "resume"]


def replay(
    tape: TapeOrPath,
    build: Callable[[RunPlan], Agent],
    *,
    to: str | os.PathLike[str] | None = None,
    **settings: Any,
) -> Result:
    """Run an agent against a tape, offline, and write a tape of its own that names the first as ``replay_of``.

    ``build`` gets what the tape says of the agent that made it (:class:`RunPlan`) and returns the agent to drive: a
    callable without arguments, sync or async.  ``to`` is where the run's own tape goes, by default
    ``NAME.replay.jsonl`` beside the first; ``settings`` are those of :func:`use_cassette`.

    Raises what the agent raises, :class:`ReplayDivergenceError` at the first difference, :class:`CassetteError` for
    a tape that cannot be read or is torn, and :class:`ConfigurationError` for a setting that cannot be meant.
    """
    return Drive(tape, to, settings).run(from_plan(build))


async def areplay(
    tape: TapeOrPath,
    build: Callable[[RunPlan], Agent],
    *,
    to: str | os.PathLike[str] | None = None,
    **settings: Any,
) -> Result:
    """Do what :func:`replay` does, inside an event loop."""
    return await Drive(tape, to, settings).arun(from_plan(build))


def resume(
    tape: TapeOrPath,
    run: Callable[..., Any],
    *,
    to: str | os.PathLike[str] | None = None,
    allow_restart: bool = False,
    policy: Policy | None = None,
    approve: Approve | None = None,
    **settings: Any,
) -> Result:
    """Go on with a run that was cut short: what its tape holds is free, the rest is made live, on a new tape.

    ``tape`` is finished or, after a crash, the partial that was left.  ``run`` runs the agent from its start, sync or
    async, and gets the tape's :class:`RunPlan` where it takes an argument.  Each request is answered from the tape as
    long as its hash is the recorded one; from the first that the tape cannot answer the conversation goes live.
    Recorded tool calls do not run again and ask no ``policy``; a call that was cut short runs again, and new calls face
    the policy.  The new tape is ``to``, by default ``NAME.replay.jsonl``, tagged ``replay_of``.

    Raises :class:`ReplayDivergenceError` where the first request already differs, unless ``allow_restart`` lets the run
    begin anew, which a :class:`ReplayDivergenceWarning` says.  Raises what the agent raises, :class:`CassetteError` for
    a tape that cannot be read, and :class:`ConfigurationError` for a setting that cannot be meant.
    """
    drive = Drive(
        tape, to, settings, beginning=beginning_of(allow_restart=allow_restart), policy=policy, approve=approve
    )
    return drive.run(from_start(run))


async def aresume(
    tape: TapeOrPath,
    run: Callable[..., Any],
    *,
    to: str | os.PathLike[str] | None = None,
    allow_restart: bool = False,
    policy: Policy | None = None,
    approve: Approve | None = None,
    **settings: Any,
) -> Result:
    """Do what :func:`resume` does, inside an event loop."""
    drive = Drive(
        tape, to, settings, beginning=beginning_of(allow_restart=allow_restart), policy=policy, approve=approve
    )
    return await drive.arun(from_start(run))
