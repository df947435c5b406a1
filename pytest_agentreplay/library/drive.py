"""One run of an agent over a tape, onto a tape of its own.

What it tells its caller to write is in the words of the door that the caller came through: Python, or a command.
"""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from pytest_agentreplay.agent_run import AgentRun
from pytest_agentreplay.cassette import Cassette, continuation_path
from pytest_agentreplay.dialects import installed_dialects
from pytest_agentreplay.divergence import Words
from pytest_agentreplay.errors import CassetteError, ConfigurationError
from pytest_agentreplay.library.block import CassetteBlock, settings_of
from pytest_agentreplay.library.plan import RunPlan, read_plan
from pytest_agentreplay.library.result import Result, Stopwatch, result_of
from pytest_agentreplay.library.tapes import load_tape, words_for
from pytest_agentreplay.player import Approve, Beginning, Policy
from pytest_agentreplay.session import open_replay, shown_path
from pytest_agentreplay.settings import Settings, check_switch

__all__ = ["Agent", "Door", "Drive", "TapeOrPath", "beginning_of", "from_plan", "from_start"]

Agent: TypeAlias = Callable[[], Any]
TapeOrPath: TypeAlias = Cassette | str | os.PathLike[str]

_LIVE: dict[str, Any] = {"replay": "hybrid", "hosts": ["*"]}
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class Door(NamedTuple):
    """What the caller of a run knows things by: those of its reports, where its tape goes, and what goes on live."""

    words: Words
    to: str = "to={path!r}"
    resume: str = "resume()"


def from_plan(build: Callable[[RunPlan], Agent], *, called: str = "build") -> Callable[[RunPlan], Any]:
    """Return what runs the agent that ``build``, which errors name as ``called``, makes of a tape's plan."""
    return lambda plan: _built(build(plan), by=called)()


def from_start(run: Callable[..., Any]) -> Callable[[RunPlan], Any]:
    """Return what calls ``run``, with the tape's plan where it takes an argument."""
    return lambda plan: _called(run, plan)


def beginning_of(*, allow_restart: bool) -> Beginning:
    """Return what a resumed run may begin with.  Raises :class:`ConfigurationError` where it is neither on nor off."""
    check_switch(allow_restart, told="allow_restart")
    return "told" if allow_restart else "required"


class Drive:
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
        door: Door | None = None,
    ) -> None:
        self._tape = tape if isinstance(tape, Cassette) else load_tape(Path(tape))
        self._door = door or Door(words_for(self._tape.path))
        self._onto = Path(to) if to is not None else continuation_path(self._tape.path)
        self._settings = _settings_of(settings, goes_on=beginning != "free")
        self._beginning = beginning
        _check(self._tape, self._onto, self._settings, door=self._door)
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
            words=self._door.words,
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


def _check(tape: Cassette, onto: Path, settings: Settings, *, door: Door) -> None:
    """Refuse what a replay cannot be meant to do."""
    if onto.resolve() == tape.path.resolve():
        raise ConfigurationError(
            f"{door.to.format(path=str(onto))} is the tape itself, which stays as it is; name another file"
        )
    if tape.torn is not None and not settings.replaying.goes_live:
        remedy = f"Go on from it with {door.resume}, which uses the rest."
        raise CassetteError(f"is torn: {tape.torn}", path=tape.path, remedy=remedy)


def _built(agent: Any, *, by: str) -> Agent:
    if not callable(agent):
        raise ConfigurationError(f"{by} must return the agent to drive, a callable without arguments, not {agent!r}")
    return agent  # type: ignore[no-any-return]


def _run_to_end(output: Awaitable[Any]) -> Any:
    """Await what an agent returned, in an event loop of its own."""
    if not _is_loop_running():
        return asyncio.run(_awaited(output))
    if inspect.iscoroutine(output):
        output.close()
    raise ConfigurationError("an async agent is driven by areplay() or aresume() where an event loop is running")


def _is_loop_running() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _called(run: Callable[..., Any], plan: RunPlan) -> Any:
    """Call what runs an agent, with the plan where it takes an argument."""
    taken = [parameter for parameter in inspect.signature(run).parameters.values() if parameter.kind in _POSITIONAL]
    return run(plan) if any(parameter.default is parameter.empty for parameter in taken) else run()


async def _awaited(output: Awaitable[Any]) -> Any:
    return await output
