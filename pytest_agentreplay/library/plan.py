"""What a tape says of the agent that made it: enough to build that agent again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pytest_agentreplay.cassette import Cassette
from pytest_agentreplay.dialects import Dialects, installed_dialects
from pytest_agentreplay.projections.timeline import Moment, read_timeline
from pytest_agentreplay.records import JsonBody

__all__ = ["RunPlan", "read_plan"]

_INSTRUCTIONS = ("system", "developer")  # the roles that a conversation gives them by
_BESIDE = ("system", "instructions")  # the fields that give them beside a conversation


@dataclass(frozen=True)
class RunPlan:
    """The task and the configuration of a recorded run.

    ``instructions`` is the system prompt, ``tools`` the schemas as the provider got them, ``params`` what else the
    request says (``model``, ``temperature`` …), ``config`` all that the caller gave when it recorded.  What the caller
    did not give is read from the first recorded request.
    """

    task: str | None = None
    instructions: str | None = None
    tools: tuple[Any, ...] = ()
    params: Mapping[str, Any] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)


def read_plan(tape: Cassette, *, dialects: Dialects | None = None) -> RunPlan:
    """Return what a tape says of its agent."""
    given = tape.start.config or {}
    moments = read_timeline(tape, dialects or installed_dialects())
    first = next((told for told in moments if told.call is not None), None)
    asked = _asked(first, tape.messages) if first is not None else RunPlan()
    return RunPlan(
        task=tape.start.task or asked.task,
        instructions=given.get("instructions", asked.instructions),
        tools=tuple(given.get("tools", asked.tools)),
        params=given.get("params", asked.params),
        config=given,
    )


def _asked(first: Moment, messages: Mapping[str, Any]) -> RunPlan:
    body, call = first.step.request.body, first.call
    if not isinstance(body, JsonBody) or call is None:
        return RunPlan()
    said = {role: text for role, text in ((message.role, message.text) for message in first.heard) if text}
    told = next((value for key in _BESIDE if isinstance(value := body.fields.get(key), str)), None)
    return RunPlan(
        task=said.get("user"),
        instructions=next((said[role] for role in _INSTRUCTIONS if role in said), told),
        tools=tuple(messages[address] for address in body.lists.get("tools", ())),
        params={name: value for name, value in body.fields.items() if name not in (*_BESIDE, "stream")},
    )
