"""Replay a whole run, or go on with one that was cut short; each writes a tape of its own, linked to the first.

The agent is the caller's: a callable, sync or async, that runs it to its end.  ``areplay`` and ``aresume`` are for
callers in an event loop.
"""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from pytest_agentreplay.agent_run import AgentRun
from pytest_agentreplay.cassette import Cassette, continuation_path
from pytest_agentreplay.dialects import installed_dialects
from pytest_agentreplay.errors import CassetteError, ConfigurationError
from pytest_agentreplay.library.block import CassetteBlock, settings_of
from pytest_agentreplay.library.plan import RunPlan, read_plan
from pytest_agentreplay.library.result import Result, Stopwatch, result_of
from pytest_agentreplay.library.tapes import load_tape, words_for
from pytest_agentreplay.player import Approve, Beginning, Policy
from pytest_agentreplay.session import open_replay, shown_path
from pytest_agentreplay.settings import Settings

__all__ = ["areplay", "aresume", "replay", "resume"]

Agent: TypeAlias = Callable[[], Any]
TapeOrPath: TypeAlias = Cassette | str | os.PathLike[str]


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
    return _Drive(tape, to, settings).run(lambda plan: _built(build(plan))())


async def areplay(
    tape: TapeOrPath,
    build: Callable[[RunPlan], Agent],
    *,
    to: str | os.PathLike[str] | None = None,
    **settings: Any,
) -> Result:
    """Do what :func:`replay` does, inside an event loop."""
    return await _Drive(tape, to, settings).arun(lambda plan: _built(build(plan))())


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
    beginning: Beginning = "told" if allow_restart else "required"
    drive = _Drive(tape, to, settings, beginning=beginning, policy=policy, approve=approve)
    return drive.run(lambda plan: _called(run, plan))


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
    beginning: Beginning = "told" if allow_restart else "required"
    drive = _Drive(tape, to, settings, beginning=beginning, policy=policy, approve=approve)
    return await drive.arun(lambda plan: _called(run, plan))


_LIVE: dict[str, Any] = {"replay": "hybrid", "hosts": ["*"]}


class _Drive:
    """One run of an agent over a tape."""

    def __init__(
        self,
        tape: TapeOrPath,
        to: str | os.PathLike[str] | None,
        settings: dict[str, Any],
        *,
        beginning: Beginning = "free",
        policy: Policy | None = None,
        approve: Approve | None = None,
    ) -> None:
        self._tape = tape if isinstance(tape, Cassette) else load_tape(Path(tape))
        self._onto = Path(to) if to is not None else continuation_path(self._tape.path)
        self._settings = _settings_of(settings, goes_on=beginning != "free")
        self._beginning = beginning
        _check(self._tape, self._onto, self._settings)
        self._policy = policy
        self._approve = approve
        self._block = CassetteBlock(self._open)

    def run(self, agent: Callable[[RunPlan], Any]) -> Result:
        """Run the agent to its end, with an event loop of its own where it is async."""
        watch = Stopwatch()
        with self._block as run:
            self._prepare(run)
            output = agent(read_plan(self._tape))
            if inspect.isawaitable(output):
                output = _run_to_end(output)
            seconds = watch.seconds
        return self._result(output, seconds)

    async def arun(self, agent: Callable[[RunPlan], Any]) -> Result:
        """Run the agent to its end in this event loop."""
        watch = Stopwatch()
        async with self._block as run:
            self._prepare(run)
            output = agent(read_plan(self._tape))
            if inspect.isawaitable(output):
                output = await output
            seconds = watch.seconds
        return self._result(output, seconds)

    def _open(self) -> Any:
        shown = shown_path(self._tape.path)
        return open_replay(
            self._tape,
            onto=self._onto,
            name=self._tape.start.name or shown,
            settings=self._settings,
            dialects=installed_dialects(),
            environment=os.environ,
            beginning=self._beginning,
            words=words_for(self._tape.path),
        )

    def _prepare(self, run: AgentRun) -> None:
        if self._policy is not None:
            run.use_policy(self._policy, approve=self._approve)

    def _result(self, output: Any, seconds: float) -> Result:
        session, outcome = self._block.session, self._block.outcome
        assert session is not None
        tape = outcome.tape if outcome else None
        return result_of(session, output=output, duration=seconds, tape=tape, torn=self._tape.torn)


def _settings_of(given: Mapping[str, Any], *, goes_on: bool) -> Settings:
    """Return the settings of a run, without those that cannot be meant: a resumed run has one mode."""
    for name in ("record_mode", "replay") if goes_on else ("record_mode",):
        if name in given:
            operation = "resumed, and goes on live" if goes_on else "replayed, and stays as it is"
            raise ConfigurationError(f"{name}= has no meaning here: a tape is {operation}")
    return settings_of({**_LIVE, **given} if goes_on else given)


def _check(tape: Cassette, onto: Path, settings: Settings) -> None:
    """Refuse what a replay cannot be meant to do."""
    if onto.resolve() == tape.path.resolve():
        raise ConfigurationError(f"to={str(onto)!r} is the tape itself, which stays as it is")
    if tape.torn is not None and not settings.replaying.goes_live:
        raise CassetteError(
            f"is torn: {tape.torn}", path=tape.path, remedy="Go on from it with resume(), which uses the rest."
        )


def _built(agent: Any) -> Agent:
    if not callable(agent):
        raise ConfigurationError(f"build must return the agent to drive, a callable without arguments, not {agent!r}")
    return agent  # type: ignore[no-any-return]


def _run_to_end(output: Awaitable[Any]) -> Any:
    """Await what an agent returned, in an event loop of its own."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(_awaited(output))
    if inspect.iscoroutine(output):
        output.close()
    raise ConfigurationError("an async agent is driven by areplay() or aresume() where an event loop is running")


def _called(run: Callable[..., Any], plan: RunPlan) -> Any:
    """Call what runs an agent, with the plan where it takes an argument."""
    taken = [parameter for parameter in inspect.signature(run).parameters.values() if parameter.kind in _POSITIONAL]
    return run(plan) if any(parameter.default is parameter.empty for parameter in taken) else run()


_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


async def _awaited(output: Awaitable[Any]) -> Any:
    return await output
