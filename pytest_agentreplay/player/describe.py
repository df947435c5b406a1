"""A divergence put into words: what the report needs, gathered from requests and recorded steps."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

from pytest_agentreplay.canonical import content_hash
from pytest_agentreplay.dialects import text_in
from pytest_agentreplay.divergence import (
    ABSENT,
    NO_MEANING,
    Change,
    Scene,
    Unfinished,
    Words,
    alike,
    find_changes,
    report_changed,
    report_missing,
    report_order,
    report_unplayed,
)
from pytest_agentreplay.reader import Asked, Reader, ToolCalled
from pytest_agentreplay.records import Entry, ExchangeStep, JsonBody, ModelStep, Request, ToolStep

__all__ = [
    "Comparison",
    "Scene",
    "Surprise",
    "Unfinished",
    "Words",
    "changed",
    "compare",
    "exhausted",
    "fingerprint",
    "form_of",
    "given_up",
    "missing",
    "order",
    "short_name",
    "stood_in",
    "unplayed",
]

_MOST_COMPARED = 40
_TOOL_CALL = "tool call"
_SERVED = "this recorded answer, in its place"


@dataclass(frozen=True, slots=True)
class Surprise:
    """A tool that ran live and did something else than was recorded: the cause of what differs after it."""

    name: str
    recorded: Any
    now: Any


def short_name(call: Asked | ExchangeStep | ToolStep) -> str:
    """Return what a call sequence shows of a call: the operation and model, or the method and path."""
    if isinstance(call, Asked):
        if call.call is not None:
            return f"{call.operation} {call.call.model}".rstrip()
        return f"{call.method} {urlsplit(call.url).path}"
    if isinstance(call, ToolStep):
        return f"tool {call.name}"
    if isinstance(call, ModelStep) and isinstance(call.request.body, JsonBody):
        return f"{call.operation} {call.request.body.fields.get('model') or ''}".rstrip()
    return f"{call.request.method} {urlsplit(call.request.url).path}"


def missing(scene: Scene, asked: Asked, *, partial: Unfinished | None) -> str:
    """Return the report of a request made without a cassette; ``partial`` is an unfinished recording of it."""
    return report_missing(scene, asked=_request_line(asked.request), says=_says(asked), partial=partial)


def exhausted(scene: Scene, asked: Asked, *, times: int) -> str:
    """Return the report of a request whose recorded answers have all been given."""
    line = _request_line(asked.request)
    return report_changed(scene, asked=line, says=_says(asked), changes=(), nearest=None, alike=1.0, exhausted=times)


def order(scene: Scene, asked: Asked, expected: ExchangeStep | None) -> str:
    """Return the report of a known request at the wrong time."""
    described = f"{_request_line(expected.request)} ({_last_words(expected)})" if expected else None
    return report_order(scene, asked=_request_line(asked.request), expected=described)


def given_up(asked: Asked, *, test: str) -> str:
    """Return what is said of a request that the agent gave up while it was recorded."""
    line = _request_line(asked.request)
    named = f"{short_name(asked)} ({line})" if asked.call is not None else line
    return (
        f"{named} was given up before it was answered, so it is not recorded, "
        f"and the replay of {test} will be stopped there"
    )


def calls_in(steps: Iterable[Entry]) -> list[ExchangeStep | ToolStep]:
    """Return the requests and tool calls among steps in the order of time: what a report's sequences are made of."""
    calls = [step for step in steps if isinstance(step, ExchangeStep | ToolStep)]
    return sorted(calls, key=lambda step: step.timing.began if step.timing else 0.0)


def unplayed(
    scene: Scene,
    left: Mapping[int, ExchangeStep | ToolStep],
    *,
    reader: Reader,
    messages: Mapping[str, Any],
    phase: str,
    is_allowed: bool = False,
) -> str:
    """Return the report of recorded steps, by position, that nothing asked for; ``messages`` are those of their tape.

    ``is_allowed`` says that they may be left.
    """
    shown = (
        f"step {position + 1}: {short_name(step)} ({step.phase}) {_gist(step, reader=reader, messages=messages)}"
        for position, step in left.items()
    )
    return report_unplayed(scene, unplayed=shown, count=len(left), phase=phase, is_allowed=is_allowed)


def _gist(step: ExchangeStep | ToolStep, *, reader: Reader, messages: Mapping[str, Any]) -> str:
    """Return what tells a recorded step from others of its name: its last words, its arguments, its body or address."""
    if isinstance(step, ToolStep):
        return f"with {json.dumps(step.arguments, ensure_ascii=False)}"
    says = _says(reader.reread(step.request, messages))
    if says:
        return f"says {says}"
    body = reader.normal_form(step.request, messages)["body"]
    return f"with {json.dumps(body, ensure_ascii=False)}" if body else f"to {step.request.url}"


def missing_tool(scene: Scene, called: ToolCalled, *, partial: Unfinished | None) -> str:
    """Return the report of a tool's call made without a cassette."""
    return report_missing(scene, asked=_call_line(called), partial=partial, noun=_TOOL_CALL)


def exhausted_tool(scene: Scene, called: ToolCalled, *, times: int) -> str:
    """Return the report of a tool's call whose recorded results have all been given."""
    line = _call_line(called)
    return report_changed(scene, asked=line, changes=(), nearest=None, alike=1.0, exhausted=times, noun=_TOOL_CALL)


def changed_tool(scene: Scene, called: ToolCalled, left: Sequence[ToolStep], *, stood_in: bool = False) -> str:
    """Return the report of an unknown call, compared with the recorded call of that tool that is most like it.

    ``stood_in`` says that this one's result is given in its place.
    """
    now = _call_form(called.name, called.arguments)
    forms = [(alike(form, now), step, form) for step in left if (form := _call_form(step.name, step.arguments))]
    same_tool = [found for found in forms if found[1].name == called.name]
    if not same_tool:
        return report_changed(
            scene,
            asked=_call_line(called),
            changes=(),
            nearest=None,
            alike=0.0,
            noun=_TOOL_CALL,
            compared_with=f"call of {called.name}",
        )
    likeness, step, form = max(same_tool, key=lambda found: found[0])
    return report_changed(
        scene,
        asked=_call_line(called),
        changes=[replace(change, group="tool arguments") for change in find_changes(form, now)],
        nearest=f"tool {step.name}" + (f", recorded in lane {step.lane}" if step.lane else ""),
        alike=likeness,
        noun=_TOOL_CALL,
        served=_SERVED if stood_in else None,
    )


def with_cause(report: str, surprise: Surprise) -> str:
    """Return a report that names the live tool whose different result came first."""
    recorded, now = (json.dumps(value, ensure_ascii=False, default=str) for value in (surprise.recorded, surprise.now))
    cause = [
        f"  cause     the live tool {surprise.name} gave another result than was recorded",
        f"            recorded: {recorded[:70]}",
        f"            now:      {now[:70]}",
    ]
    title, rest = report.split("\n", 1)
    return "\n".join([title, "", *cause, rest])


def no_beginning(report: str, *, words: Words) -> str:
    """Return the report of a resumed run whose first request is not the recorded one."""
    rest = report.split("\n", 1)[1]
    return (
        f"Nothing to resume: the run begins with another request than the recorded one.\n{rest}\n"
        f"  To begin anew, live and from the start: {words.restart}"
    )


def begun_anew(report: str) -> str:
    """Return the report of a resumed run that begins anew, live."""
    rest = report.split("\n", 1)[1]
    return f"Begun anew: the first request is not the recorded one, so the run goes live from its start.\n{rest}"


def changed(scene: Scene, asked: Asked, compared: Comparison | None) -> str:
    """Return the report of an unknown request, compared with the recorded one that is most like it."""
    if compared is None:
        line = _request_line(asked.request)
        return report_changed(scene, asked=line, says=_says(asked), changes=(), nearest=None, alike=0.0)
    return _report(scene, asked, compared)


def fingerprint(compared: Comparison | None) -> str | None:
    """Return what is the same for all requests that differ from their recordings in the same way."""
    if compared is None or not compared.changes:
        return None
    return content_hash([form_of(change) for change in compared.changes])


def form_of(change: Change) -> list[Any]:
    """Return a change as plain values: its path, and what stood and stands there, each in a list unless absent.

    Of elements that moved it is what they are, and from where to where.
    """
    if change.moved:
        return [change.path, *([change.recorded[old], old, new] for old, new in change.moved)]
    return [change.path, *(None if value is ABSENT else [value] for value in (change.recorded, change.now))]


def stood_in(scene: Scene, asked: Asked, compared: Comparison) -> str:
    """Return the report of an unknown request that the recorded one it was compared with was served to."""
    return _report(scene, asked, compared, served=_SERVED)


@dataclass(frozen=True)
class Comparison:
    """The recorded request most like a live one: its place among those compared, how alike, and what differs."""

    index: int
    step: ExchangeStep
    likeness: float
    changes: Sequence[Change]


def compare(
    asked: Asked, candidates: Sequence[ExchangeStep], *, reader: Reader, messages: Mapping[str, Any]
) -> Comparison | None:
    """Return how a request differs from the most alike of the first of some recorded ones; ``None`` without any."""
    now = reader.normal_form(asked.request, asked.messages)
    forms = [reader.normal_form(step.request, messages) for step in candidates[:_MOST_COMPARED]]
    if not forms:
        return None
    ratings = [alike(form, now) for form in forms]
    best = ratings.index(max(ratings))
    changes = find_changes(forms[best], now, meaning=asked.dialect or NO_MEANING)
    return Comparison(best, candidates[best], ratings[best], changes)


def _report(scene: Scene, asked: Asked, compared: Comparison, *, served: str | None = None) -> str:
    return report_changed(
        scene,
        asked=_request_line(asked.request),
        changes=compared.changes,
        nearest=f"{short_name(compared.step)}, recorded in lane {compared.step.lane}",
        alike=compared.likeness,
        served=served,
    )


def _call_line(called: ToolCalled) -> str:
    return f"tool {called.name}({json.dumps(called.arguments, ensure_ascii=False)})"


def _call_form(name: str, arguments: Any) -> dict[str, Any]:
    return {"method": name, "url": "", "headers": {}, "body": arguments}


def _request_line(request: Request) -> str:
    return f"{request.method} {request.url}"


def _says(asked: Asked) -> str | None:
    """Return who says what in the last message of a request, ``None`` where that is nothing to be read."""
    message = asked.message_at(-1)
    if message is None:
        return None
    results = ", ".join(filter(None, (text_in(result.content) for result in message.tool_results)))
    calls = ", ".join(f"{call.name}({call.arguments})" for call in message.tool_calls)
    speaker = "tool" if results and not message.text else message.role
    said = " ".join((message.text or results or calls).split())
    return f"{speaker}: {said}" if said else None


def _last_words(step: ExchangeStep) -> str:
    body = step.request.body
    count = max((len(found) for found in body.lists.values()), default=0) if isinstance(body, JsonBody) else 0
    return f"{count} messages" if count else short_name(step)
