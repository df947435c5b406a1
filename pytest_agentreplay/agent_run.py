"""What a test can ask about its own run, and tell it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from pytest_agentreplay.errors import ConfigurationError
from pytest_agentreplay.player import Approve, Policy
from pytest_agentreplay.projections.costs import spent
from pytest_agentreplay.projections.events import Event, event_stream
from pytest_agentreplay.projections.mermaid import Style, render_mermaid
from pytest_agentreplay.projections.tools import read_tool_steps
from pytest_agentreplay.projections.usage import sum_usage
from pytest_agentreplay.records import CompactionStep, ModelStep, ToolStep, Usage
from pytest_agentreplay.session import Session
from pytest_agentreplay.settings import Settings
from pytest_agentreplay.taps.owners import Scope, installed_registry
from pytest_agentreplay.taps.tools import recorded_tool

if TYPE_CHECKING:  # the store comes with its fixtures
    from pytest_agentreplay.state import Event as StoredEvent
    from pytest_agentreplay.state import View

__all__ = ["AgentRun"]

_P = ParamSpec("_P")
_R = TypeVar("_R")


class AgentRun:
    """What a test can ask about its own run, as far as it has come."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._dialects = session.reader.rules.dialects

    @property
    def cassette(self) -> Path:
        """The cassette's path, whether it exists yet or not."""
        return self._session.path

    @property
    def settings(self) -> Settings:
        """The settings of this test, resolved."""
        return self._session.settings

    @property
    def is_recording(self) -> bool:
        """Whether requests go live and are recorded."""
        return self._session.player.is_recording

    @property
    def hash_chain(self) -> dict[str, tuple[str, ...]]:
        """The request hashes of each lane, in order; a strict replay of an unchanged agent gives the same."""
        chain: dict[str, tuple[str, ...]] = {}
        for lane, request_hash in self._session.player.trail:
            chain[lane] = (*chain.get(lane, ()), request_hash)
        return chain

    @property
    def turns(self) -> int:
        """How many model calls have been answered."""
        return sum(step.kind == "model" for step in self._session.player.completed)

    @property
    def tool_steps(self) -> list[ToolStep]:
        """Every tool call so far, recorded or told by the conversation (``source`` says which)."""
        return read_tool_steps(self._session.tape(), self._dialects)

    @property
    def events(self) -> list[Event]:
        """The events of the run so far, in the order of its tape: what ``event_snapshot`` compares with a golden."""
        return event_stream(self._session.tape(), dialects=self._dialects)

    def mermaid(self, *, style: Style = "flowchart") -> str:
        """Return the diagram of the run so far: a ``flowchart`` of its steps, or a ``sequence`` of its agents.

        Raises :class:`ConfigurationError` for any other style.
        """
        return render_mermaid(self._session.tape(), style=style, dialects=self._dialects)

    @property
    def tools_called(self) -> list[str]:
        """The names of the tools called so far, in order."""
        return [step.name for step in self.tool_steps]

    @property
    def is_stopped(self) -> bool:
        """Whether a divergence, or another reason, has ended the replay."""
        return self._session.player.stopped is not None

    def state_at(self, moment: Event | StoredEvent | ToolStep) -> View:
        """Return the test's state as it was when a step began: one of :attr:`events`, an event of ``agent_state``, or a
        recorded call of a tool.

        Raises :class:`ConfigurationError` where the test does not use ``agent_state``,
        :class:`HistoryUnavailableError` for a moment of another run.
        """
        if self._session.log is None:
            raise ConfigurationError("state_at needs the fixture agent_state: without it the run has no branch")
        step = moment.step if isinstance(moment, Event) else moment
        if step is None:
            raise ConfigurationError("state_at takes what happened in the run; this event tells of the run itself")
        return self._session.log.state_at(step)

    def tool_calls(self, name: str) -> list[ToolStep]:
        """Return the calls of one tool so far, in order."""
        return [step for step in self.tool_steps if step.name == name]

    def wrap(self, function: Callable[_P, _R], *, name: str | None = None, subagent: bool = False) -> Callable[_P, _R]:
        """Return a tool that is recorded and replayed, as :func:`recorded_tool` decorates it."""
        return recorded_tool(name=name, subagent=subagent)(function)

    def lane(self, name: str) -> AbstractContextManager[None]:
        """Keep the requests made in this block in a conversation of that name, whoever makes them."""
        registry = installed_registry()
        if not name or name != str(name).strip():
            raise ConfigurationError(f"agent_run.lane({name!r}): give a name, a string that no space begins or ends")
        if registry is None:
            return nullcontext()
        return registry.inside(replace(registry.scope(), lane=name))

    def use_policy(self, policy: Policy, *, approve: Approve | None = None) -> None:
        """Let a policy decide about calls of tools that are not recorded; ``approve`` answers where it says ``ask``.

        Raises :class:`ConfigurationError` for what cannot decide or answer.
        """
        if not callable(getattr(policy, "decide", None)):
            raise ConfigurationError(f"the policy {policy!r} has no method decide(tool, arguments)")
        if approve is not None and not callable(approve):
            raise ConfigurationError(f"approve={approve!r} cannot be called with a tool's name and its arguments")
        self._session.use_policy(policy, approve=approve)

    def compaction(
        self,
        *,
        tokens_before: int | None = None,
        tokens_after: int | None = None,
        summary: str | None = None,
        dropped_messages: int | None = None,
    ) -> None:
        """Note on the tape that the agent shortened its conversation: beside the request that was answered last.

        Raises :class:`ConfigurationError` for a count that is none, and for a summary that is no text.
        """
        registry = installed_registry()
        scope = registry.scope() if registry else Scope()
        counts = {"tokens_before": tokens_before, "tokens_after": tokens_after, "dropped_messages": dropped_messages}
        for name, count in counts.items():
            if count is not None and (type(count) is not int or count < 0):
                raise ConfigurationError(f"agent_run.compaction: {name}={count!r} must be a count")
        if not isinstance(summary, str | None):
            raise ConfigurationError(f"agent_run.compaction: summary={summary!r} must be a text")
        step = CompactionStep(
            tokens_before=tokens_before,
            tokens_after=tokens_after,
            summary=self._session.reader.redact_value(summary),
            dropped_messages=dropped_messages,
        )
        self._session.player.note(step, lane_name=scope.lane, parent=scope.parent)

    @property
    def usage(self) -> Usage:
        """The tokens of all model calls so far, summed; what no answer named is ``None``."""
        return sum_usage(getattr(step, "usage", None) for step in tuple(self._session.player.completed))

    @property
    def cost_usd(self) -> float | None:
        """What the run has spent live so far, in dollars: 0.0 in a replay, ``None`` where a price is unknown.

        Prices need the extra ``prices``.
        """
        models = [step for step in self._session.player.completed if isinstance(step, ModelStep)]
        return spent([step for step in models if self._session.made(step)], self._dialects)
