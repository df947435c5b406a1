"""What a listener of the live run would have heard, told again from a tape: answers and tool results, nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pytest_agentreplay.dialects import Dialects, Message, installed_dialects
from pytest_agentreplay.projections.history import read_history
from pytest_agentreplay.projections.tape import Tape
from pytest_agentreplay.projections.timeline import Moment
from pytest_agentreplay.projections.transcript import ToldCall
from pytest_agentreplay.records import ToolStep

__all__ = ["AssistantTurn", "ToolCompleted", "replay_events"]


@dataclass(frozen=True)
class AssistantTurn:
    """One answer of a model.  ``replayed`` says that nobody was asked for it."""

    message: Message
    replayed: bool = True


@dataclass(frozen=True)
class ToolCompleted:
    """One call of a tool that ended: with ``result``, or with the error's message as the result."""

    tool_use_id: str | None
    name: str
    result: Any
    is_error: bool = False


def replay_events(tape: Tape, *, dialects: Dialects | None = None) -> list[AssistantTurn | ToolCompleted]:
    """Return the answers and the tool results of a tape, in its order.

    No model, tool or provider runs.  A model step whose answer holds no message (a failure, a stream cut off before
    it said anything) gives no event; of several choices the first counts, as it does for SDKs and agents.  ``dialects``
    reads the provider's formats, by default all that are installed.  Raises nothing for a tape that could be loaded.
    """
    return list(_events(tape, dialects or installed_dialects()))


def _events(tape: Tape, dialects: Dialects) -> Iterator[AssistantTurn | ToolCompleted]:
    for happened in read_history(tape, dialects):
        step = happened.step
        if isinstance(happened, Moment):
            yield from (AssistantTurn(message) for message in happened.reply.messages[:1])
        elif isinstance(step, ToolStep | ToldCall):
            yield ToolCompleted(
                tool_use_id=step.tool_use_id,
                name=step.name,
                result=step.error.message if step.error else step.result,
                is_error=step.is_error or step.error is not None,
            )
