"""The calls of tools that models have asked for, and nobody has made yet.

A call that is made belongs to the conversation whose last answer asked for it, by the provider's id of the call or by
name and arguments; equal calls are answered first in, first out.
"""

from __future__ import annotations

from dataclasses import dataclass

from pytest_agentreplay.canonical import canonical_json
from pytest_agentreplay.dialects import ToolCall
from pytest_agentreplay.player.lanes import Lane
from pytest_agentreplay.reader import ToolCalled

__all__ = ["PendingCall", "PendingCalls"]


@dataclass(slots=True)
class PendingCall:
    """A call that a model has asked for: in which conversation, and at which place among those of its turn."""

    lane: Lane
    call: ToolCall
    rank: int

    def is_akin(self, called: ToolCalled) -> bool:
        """Return whether a call is this one, with arguments that the agent added or left out."""
        if self.call.name != called.name or not isinstance(called.arguments, dict):
            return False
        asked = self.call.value
        if not isinstance(asked, dict):  # the call of a tool that takes one text
            return list(called.arguments.values()) in ([self.call.written], [self.call.arguments])
        shared = asked.keys() & called.arguments.keys()
        is_part = len(shared) == min(len(asked), len(called.arguments))
        return is_part and all(canonical_json(asked[key]) == canonical_json(called.arguments[key]) for key in shared)


class PendingCalls:
    """The pending calls of one run.  Guarded by the player's lock."""

    def __init__(self) -> None:
        self._unread: dict[Lane, None] = {}
        self._calls: list[PendingCall] = []

    def expect_from(self, lane: Lane) -> None:
        """Note that a conversation has been answered; the answer is read when a tool is called."""
        self._unread[lane] = None

    def take(self, called: ToolCalled, *, tool_use_id: str | None, parent: str | None) -> PendingCall | None:
        """Return the pending call that is made, which is pending no longer, or ``None`` where no model asked for it."""
        self._read_answers()
        # A framework may call a tool by another name than the model knows, and with arguments it has filled in: where
        # the id is known it decides.  Ids can be equal across conversations.
        named = [item for item in self._calls if tool_use_id and item.call.id == tool_use_id]
        # What a tool calls in its body, no conversation outside has asked for.
        beside = [item for item in self._calls if item.lane.parent == parent]
        alike = _alike(named or beside, called)
        akin = alike or named or [item for item in beside if item.is_akin(called)]
        chosen = next(iter(akin), None)
        if chosen is not None:
            self._calls.remove(chosen)
        return chosen

    def _read_answers(self) -> None:
        if not self._unread:
            return
        # A conversation that has gone on waits for no call of an earlier turn.
        self._calls = [item for item in self._calls if item.lane not in self._unread]
        for lane in self._unread:
            for answer in lane.answers():
                self._calls += [PendingCall(lane, call, rank) for rank, call in enumerate(answer.tool_calls)]
        self._unread.clear()


def _alike(pending: list[PendingCall], called: ToolCalled) -> list[PendingCall]:
    if not pending:
        return []
    arguments = canonical_json(called.arguments).decode("utf-8")
    return [item for item in pending if item.call.name == called.name and item.call.arguments == arguments]
