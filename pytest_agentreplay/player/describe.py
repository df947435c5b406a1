"""A divergence put into words: what the report needs, gathered from requests and recorded steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from pytest_agentreplay.divergence import (
    Scene,
    alike,
    find_changes,
    report_changed,
    report_missing,
    report_order,
    report_unplayed,
)
from pytest_agentreplay.reader import Asked, Reader
from pytest_agentreplay.records import ExchangeStep, JsonBody, ModelStep, Request

__all__ = ["Scene", "changed", "exhausted", "missing", "order", "short_name", "unplayed"]

_MOST_COMPARED = 40


def short_name(call: Asked | ExchangeStep) -> str:
    """Return what a call sequence shows of a call: the operation and model, or the method and path."""
    if isinstance(call, Asked):
        if call.call is not None:
            return f"{call.operation} {call.call.model}".rstrip()
        return f"{call.method} {urlsplit(call.url).path}"
    if isinstance(call, ModelStep) and isinstance(call.request.body, JsonBody):
        return f"{call.operation} {call.request.body.fields.get('model') or ''}".rstrip()
    return f"{call.request.method} {urlsplit(call.request.url).path}"


def missing(scene: Scene, asked: Asked, *, partial: str | None) -> str:
    """Return the report of a request made without a cassette; ``partial`` is an unfinished recording of it."""
    return report_missing(scene, asked=_request_line(asked.request), partial=partial)


def exhausted(scene: Scene, asked: Asked, *, times: int) -> str:
    """Return the report of a request whose recorded answers have all been given."""
    line = _request_line(asked.request)
    return report_changed(scene, asked=line, changes=(), nearest=None, alike=1.0, exhausted=times)


def order(scene: Scene, asked: Asked, expected: ExchangeStep | None) -> str:
    """Return the report of a known request at the wrong time."""
    described = f"{_request_line(expected.request)} ({_last_words(expected)})" if expected else None
    return report_order(scene, asked=_request_line(asked.request), expected=described)


def unplayed(scene: Scene, steps: Sequence[ExchangeStep], left: Sequence[int], *, phase: str) -> str:
    """Return the report of recorded steps that nothing asked for."""
    shown = [f"step {position + 1}: {short_name(steps[position])} ({steps[position].phase})" for position in left]
    return report_unplayed(scene, unplayed=shown, phase=phase)


def changed(
    scene: Scene, asked: Asked, candidates: Sequence[ExchangeStep], *, reader: Reader, messages: Mapping[str, Any]
) -> str:
    """Return the report of an unknown request, compared with the recorded one that is most like it."""
    now = reader.normal_form(asked.request, asked.messages)
    best: tuple[float, ExchangeStep, dict[str, Any]] | None = None
    for step in candidates[:_MOST_COMPARED]:
        form = reader.normal_form(step.request, messages)
        likeness = alike(form, now)
        if best is None or likeness > best[0]:
            best = (likeness, step, form)
    line = _request_line(asked.request)
    if best is None:
        return report_changed(scene, asked=line, changes=(), nearest=None, alike=0.0)
    likeness, step, form = best
    return report_changed(
        scene,
        asked=line,
        changes=find_changes(form, now),
        nearest=f"{short_name(step)}, recorded in lane {step.lane}",
        alike=likeness,
    )


def _request_line(request: Request) -> str:
    return f"{request.method} {request.url}"


def _last_words(step: ExchangeStep) -> str:
    body = step.request.body
    count = max((len(found) for found in body.lists.values()), default=0) if isinstance(body, JsonBody) else 0
    return f"{count} messages" if count else short_name(step)
