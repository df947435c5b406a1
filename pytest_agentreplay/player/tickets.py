"""What a decision is made of: the recorded step that answers, or a ticket for one live request or call of a tool.

A ticket is handed back with what came of it, and makes the step of that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pytest_agentreplay.canonical import canonical_json
from pytest_agentreplay.dialects import Reply
from pytest_agentreplay.player.lanes import Lane
from pytest_agentreplay.player.permissions import Decision
from pytest_agentreplay.reader import Asked, ToolCalled
from pytest_agentreplay.records import (
    ExchangeStep,
    HttpStep,
    ModelStep,
    PermissionStep,
    Phase,
    Response,
    Timing,
    ToolFailure,
    ToolStep,
    TransportError,
)

__all__ = ["Serve", "ServeTool", "Ticket", "ToolOutcome", "ToolTicket", "outcome_of"]


@dataclass(frozen=True, slots=True)
class Serve:
    """The recorded step that answers a request."""

    step: ExchangeStep


@dataclass(frozen=True, slots=True)
class Ticket:
    """Leave to make a request live; hand it back with what came of it."""

    asked: Asked
    lane: Lane
    phase: Phase
    began: float
    parent: str | None = None
    mark: Any = None  # the observer's

    def step(
        self, *, timing: Timing, response: Response | None, error: TransportError | None, reply: Reply | None
    ) -> ExchangeStep:
        """Return the step of what came of it; ``reply`` is the model's answer in the response."""
        asked = self.asked
        common: dict[str, Any] = {
            "lane": self.lane.label,
            "phase": self.phase,
            "parent": self.parent,
            "timing": timing,
            "hash": asked.hash,
            "provider": asked.provider,
            "operation": asked.operation,
            "request": asked.request,
            "response": response,
            "error": error,
        }
        usage = reply.usage if reply else None
        if asked.kind == "model":
            return ModelStep(**common, usage=usage)
        is_end = reply is not None and reply.finish_reason is not None
        return HttpStep(**common, usage=usage if is_end and self.lane.awaits(asked.retrieves) else None)


@dataclass(frozen=True, slots=True)
class ServeTool:
    """The recorded step that answers a tool's call."""

    step: ToolStep


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOutcome:
    """What came of a tool's call: a result, as JSON with its type, or a failure; ``is_error`` says that it is one."""

    result: Any = None
    result_type: str | None = None
    failure: ToolFailure | None = None
    is_error: bool = False

    def redacted(self, redact: Callable[[Any], Any]) -> dict[str, Any]:
        """Return the fields of a step that tell of it."""
        failure = self.failure
        if failure is not None:
            told = {name: redact(getattr(failure, name)) for name in ("message", "args", "state")}
            failure = failure.model_copy(update=told)
        return {
            "result": redact(self.result),
            "result_type": self.result_type,
            "error": failure,
            "is_error": self.is_error or failure is not None,
        }


@dataclass(slots=True)
class ToolTicket:
    """Leave to run a tool; hand it back with what came of it.

    ``expected`` is the recorded step of a tool that runs live in replay, for comparison; ``decision`` is what a policy
    said of the call, if one was asked.
    """

    called: ToolCalled
    id: str
    lane: str
    parent: str | None
    tool_use_id: str | None
    rank: int | None
    phase: Phase
    began: float
    expected: ToolStep | None = None
    decision: PermissionStep | None = None
    mark: Any = None  # the observer's

    def decide(self, decision: Decision, *, policy: str, allowed: bool) -> None:
        """Keep a policy's decision; ``allowed`` says what it came to, where the approver was asked as well."""
        self.decision = PermissionStep(
            **self._place(took=0.0),
            decision=decision.action,
            resolution=("allow" if allowed else "deny") if decision.action == "ask" else None,
            policy=policy,
            reason=decision.reason or None,
        )

    def step(self, outcome: ToolOutcome, *, took: float, redact: Callable[[Any], Any]) -> ToolStep:
        """Return the step of what came of it, redacted; ``took`` is in seconds."""
        return ToolStep(
            **self._place(took=took),
            hash=self.called.hash,
            id=self.id,
            name=self.called.name,
            arguments=self.called.arguments,
            **outcome.redacted(redact),
        )

    def meets(self, step: ToolStep) -> bool:
        """Return whether what came of the call is what was recorded of it."""
        expected = self.expected
        return expected is not None and canonical_json(outcome_of(step)) == canonical_json(outcome_of(expected))

    def _place(self, *, took: float) -> dict[str, Any]:
        return {
            "lane": self.lane,
            "phase": self.phase,
            "parent": self.parent,
            "timing": Timing(began=self.began, took=took),
            "rank": self.rank,
            "tool_use_id": self.tool_use_id,
        }


def outcome_of(step: ToolStep) -> Any:
    """Return what came of a call, as it is compared and told: its result, or its failure in words."""
    return {"error": f"{step.error.type}: {step.error.message}"} if step.error else step.result
