"""A run as a stream of events that a person likes to read: what goldens are made of.

An event is a mapping of plain values, in the order in which they are read, and says nothing that chance decides: ids
are renamed in the order in which they come up, and times, costs and hashes are left out unless they are asked for.
What the events of a kind hold:

``run``         name, task
``user``        text: what the agent told the model on somebody's behalf
``turn``        text; calls, each with id and name, and with arguments where no tool event tells them; hosted_calls,
                which the provider ran itself; choices; stop_reason
``tool``        name, id, arguments, result; or error (type and message), or is_error beside the result
``permission``  call, decision, resolution, policy, reason
``approval``    name, approved, approver, reason
``value``       name, value
``compaction``  tokens_before, tokens_after, summary, dropped_messages
``error``       what went wrong with a model call (status, type, message) or with the run (during, type, message)

Each may say which ``lane`` it is of, where it is not the first, the call it was made ``inside``, and the ``phase`` of
the test where that is not the call.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any, TypeAlias

from pydantic import BaseModel

from pytest_agentreplay.canonical import parse_json
from pytest_agentreplay.dialects import Dialects, Message, ToolCall, installed_dialects
from pytest_agentreplay.projections.history import Done, read_history
from pytest_agentreplay.projections.names import Names, name_of_call
from pytest_agentreplay.projections.prices import price_of
from pytest_agentreplay.projections.tape import Tape
from pytest_agentreplay.projections.timeline import Moment
from pytest_agentreplay.projections.transcript import ToldCall
from pytest_agentreplay.records import Entry, ModelStep, RunStart, ToolStep

__all__ = ["Event", "event_stream"]

_Plain: TypeAlias = dict[str, Any]

# How an answer ends when nothing is the matter, in the words of each provider.
_USUAL_ENDS = frozenset({None, "", "stop", "tool_calls", "function_call", "end_turn", "tool_use", "completed", "STOP"})
_NESTED = frozenset({dict, list})
_PLACE = {"kind", "lane", "phase", "parent", "timing", "rank", "tool_use_id"}


class Event(dict[str, Any]):
    """One event as plain values."""

    __slots__ = ("told_by",)
    told_by: Entry | ToldCall  # what of the tape says so; an event of the run itself has none

    @property
    def step(self) -> Entry | None:
        """The step of the tape that it tells of, ``None`` for the run itself."""
        told_by = getattr(self, "told_by", None)
        return told_by.as_step() if isinstance(told_by, ToldCall) else told_by


def event_stream(
    tape: Tape, *, times: bool = False, costs: bool = False, hashes: bool = False, dialects: Dialects | None = None
) -> list[Event]:
    """Return the events of a tape, in its order.

    ``times`` adds when each began and how long it took, in seconds; ``costs`` the tokens, and dollars where they are
    known, of each turn; ``hashes`` the request hash of each turn and tool call.  ``dialects`` reads the provider's
    formats, by default all that are installed.  Raises nothing for a tape that could be loaded.
    """
    wanted = {"timing": times, "usage": costs, "cost_usd": costs, "hash": hashes}
    more = [name for name, is_wanted in wanted.items() if is_wanted]
    dialects = dialects or installed_dialects()
    events = list(_Stream(tape, dialects).events())
    return [_with_more(event, more, dialects) for event in events] if more else events


class _Stream:
    """The fold: tells each step of a history in its turn."""

    def __init__(self, tape: Tape, dialects: Dialects) -> None:
        self._start: RunStart | None = getattr(tape, "start", None)
        self._history = list(read_history(tape, dialects))
        self._names = Names(self._history)

    def events(self) -> Iterator[Event]:
        if self._start is not None:
            yield Event(_told({"event": "run", "name": _name_of_run(self._start), "task": self._start.task}))
        for happened in self._history:
            told = self._of_moment(happened) if isinstance(happened, Moment) else self._of_deed(happened)
            place = self._place(happened.step) if told else {}
            for kind, values in told:
                event = Event({"event": kind, **place, **values})
                event.told_by = happened.step
                yield event

    def _place(self, told_by: Entry | ToldCall) -> _Plain:
        step = told_by.brought_by if isinstance(told_by, ToldCall) else told_by
        place = {}
        lane = self._names.lane(step.lane)
        if lane is not None:
            place["lane"] = lane
        inside = self._names.tool(step.parent) if step.parent else None
        if inside is not None:
            place["inside"] = inside
        if step.phase != "call":
            place["phase"] = step.phase
        return place

    def _of_moment(self, moment: Moment) -> list[tuple[str, _Plain]]:
        if moment.step.kind == "http" and not moment.reply.messages:
            return []
        told: list[tuple[str, _Plain]] = []
        for message in moment.heard:
            is_result = message.tool_results and message.is_spelled_out
            if message.role == "user" and message.text and not is_result:
                told.append(("user", {"text": message.text}))
        failure = _failure_of(moment)
        told.append(("error", failure) if failure else ("turn", self._turn(moment)))
        if moment.reply.error is not None:
            told.append(("error", {"message": moment.reply.error}))
        return told

    def _turn(self, moment: Moment) -> _Plain:
        numbers = count(moment.asked + 1)
        said = [self._said(message, numbers) for message in moment.reply.messages]
        turn: _Plain = said[0] if len(said) == 1 else {"choices": said} if said else {}
        ending, response = moment.reply.finish_reason, moment.step.response
        if ending not in _USUAL_ENDS:
            turn["stop_reason"] = ending
        if response is not None and response.truncated:
            turn["truncated"] = True
        return turn

    def _said(self, message: Message, numbers: Iterator[int]) -> _Plain:
        said: _Plain = {}
        if message.text or not (message.tool_calls or message.hosted_calls):
            said["text"] = message.text
        if message.hosted_calls:
            said["hosted_calls"] = [{"name": call.name, "arguments": call.value} for call in message.hosted_calls]
        if message.tool_calls:
            said["calls"] = [self._called(call, next(numbers)) for call in message.tool_calls]
        return said

    def _called(self, call: ToolCall, number: int) -> _Plain:
        called = {"id": name_of_call(number), "name": call.name}
        tool = self._names.answering(number)
        is_told = isinstance(tool, ToldCall)  # then the arguments are the call's own
        if not is_told and (tool is None or tool.arguments != call.value):
            called["arguments"] = call.value
        return called

    def _of_deed(self, deed: Done) -> list[tuple[str, _Plain]]:
        step = deed.step
        if step.kind == "tool":
            name = self._names.of(deed)
            called = {"name": step.name} if name is None else {"name": step.name, "id": name}
            return [("tool", called | _came_of(step))]
        if step.kind == "permission":
            return [("permission", {**_told({"call": self._names.of(deed)}), **_fields(step)})]
        if step.kind == "value":
            return [("value", {"name": step.name, "value": _own(step.value)})]
        if step.kind == "error":
            return [("error", {**_told({"during": step.error_phase}), "type": step.type, "message": step.message})]
        return [(step.kind, _fields(step))] if step.kind == "approval" or step.kind == "compaction" else []


def _name_of_run(start: RunStart) -> str | None:
    """Return the name of a test without the path to it."""
    test, bracket, parameters = (start.name or "").partition("[")
    return test.rpartition("::")[2] + bracket + parameters or None


def _came_of(step: ToolStep | ToldCall) -> _Plain:
    if step.error is not None:
        error = {"type": step.error.type.rpartition(":")[2], "message": step.error.message}
        return {"arguments": _own(step.arguments), "error": error}
    outcome = {"arguments": _own(step.arguments), "result": _own(step.result)}
    return {**outcome, "is_error": True} if step.is_error else outcome


def _own(value: Any) -> Any:
    """Return a value that can be changed, as to normalise a golden, and the tape's stays what it is."""
    if type(value) is dict:
        return {key: _own(item) if type(item) in _NESTED else item for key, item in value.items()}
    return [_own(item) for item in value] if type(value) is list else value


def _failure_of(moment: Moment) -> _Plain:
    """Return what went wrong with a model call, empty where it was answered."""
    step, response = moment.step, moment.step.response
    if step.error is not None:
        return {"type": step.error.class_name, "message": step.error.text}
    if response is None or response.status < 400:
        return {}
    return {"status": response.status, **_told({"message": _message_in(response.content)})}


def _message_in(content: bytes) -> str | None:
    """Return what a provider's error says, without the ids of the request that stand beside it."""
    try:
        value = parse_json(content)
    except ValueError:
        return None
    error = value.get("error", value) if isinstance(value, dict) else None
    message = error.get("message") if isinstance(error, dict) else error
    return message if isinstance(message, str) else None


def _fields(step: Entry) -> _Plain:
    return step.model_dump(mode="json", exclude=_PLACE, exclude_none=True)


def _told(values: _Plain) -> _Plain:
    return {name: value for name, value in values.items() if value is not None}


def _with_more(event: Event, names: list[str], dialects: Dialects) -> Event:
    step = event.step
    if step is None or event["event"] == "user":
        return event
    found = {name: _more(event, step, name, dialects) for name in names}
    event.update(_told(found))
    return event


def _more(event: Event, step: Entry, name: str, dialects: Dialects) -> Any:
    if name == "cost_usd":  # what went wrong beside a turn has the turn's step, and costs nothing more
        return price_of(step, dialects) if event["event"] == "turn" and isinstance(step, ModelStep) else None
    value = getattr(step, name, None)
    return value.model_dump(exclude_none=True) if isinstance(value, BaseModel) else value
