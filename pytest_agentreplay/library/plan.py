"""What a tape says of the agent that made it: enough to build that agent again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pytest_agentreplay.cassette import Cassette
from pytest_agentreplay.dialects import Dialects, installed_dialects
from pytest_agentreplay.projections.instructions import INSTRUCTIONS, instructions_of
from pytest_agentreplay.projections.timeline import Moment, read_timeline
from pytest_agentreplay.records import JsonBody

__all__ = ["RunPlan", "read_plan"]

_ROLES = ("system", "developer")  # those that a conversation gives instructions by
_OF_THE_WIRE = ("stream", "stream_options")  # how an answer is sent is the agent's business


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
    given = {name: value for name, value in (tape.start.config or {}).items() if value is not None}
    moments = read_timeline(tape, dialects or installed_dialects())
    first = next((told for told in moments if told.call is not None), None)
    asked = _asked(first, tape.messages) if first is not None else RunPlan()
    return RunPlan(
        task=tape.start.task or asked.task,
        instructions=given.get("instructions", asked.instructions),
        tools=tuple(given.get("tools", asked.tools)),
        params=given.get("params", asked.params),
        config=tape.start.config or {},
    )


def _asked(first: Moment, messages: Mapping[str, Any]) -> RunPlan:
    body, call = first.step.request.body, first.call
    if not isinstance(body, JsonBody) or call is None:
        return RunPlan()
    lists = {key: [messages[address] for address in found] for key, found in body.lists.items()}
    whole = {**body.fields, **lists}
    said = {message.role: message.text for message in reversed(first.heard) if message.text}
    named = (*INSTRUCTIONS, *_OF_THE_WIRE, call.conversation, "tools")
    return RunPlan(
        task=next((message.text for message in reversed(first.heard) if message.role == "user"), None),
        instructions=next((said[role] for role in _ROLES if role in said), instructions_of(first, messages) or None),
        tools=tuple(lists.get("tools", ())),
        params={name: value for name, value in whole.items() if name not in named},
    )
