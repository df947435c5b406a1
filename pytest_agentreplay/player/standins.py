"""Warn mode: what answers a request or a call that the recording does not have, and what is said of it.

The next recorded answer of the same conversation and operation stands in, so that a changed prompt can be stepped
through to its end.  Each change is told once: a later turn repeats the conversation before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from urllib.parse import urlsplit

from pytest_agentreplay.canonical import canonical_json
from pytest_agentreplay.divergence import Change
from pytest_agentreplay.player import describe
from pytest_agentreplay.player.lanes import Lane
from pytest_agentreplay.player.run import Run
from pytest_agentreplay.reader import Asked, ToolCalled
from pytest_agentreplay.records import Entry, ExchangeStep, HttpStep, JsonBody, ModelStep, Request, ToolStep

__all__ = ["StandIns"]


class StandIns:
    """The stand-ins of one run.  Guarded by the player's lock."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._told: set[bytes] = set()

    def for_request(
        self, asked: Asked, lane: Lane, *, parent: str | None, call_site: Callable[[], str | None]
    ) -> ExchangeStep | None:
        """Return the step that answers a request in its place, played, or ``None`` where none is left."""
        recorded = self._run.recorded
        if recorded is None:
            return None
        places = recorded.stand_ins(lambda step: _is_like(step, asked), lane, parent=parent)
        if not places:
            return None
        compared = describe.compare(
            asked, [recorded.exchange(at) for at in places], reader=self._run.reader, messages=recorded.tape.messages
        )
        assert compared is not None
        step = recorded.play(places[compared.index], lane)
        news = self._news(compared.changes)
        if news:
            scene = self._run.scene(call_site(), lane)
            self._run.warned.append(describe.stood_in(scene, asked, replace(compared, changes=news)))
        return step

    def for_tool(
        self, called: ToolCalled, *, lane: str, parent: str | None, call_site: Callable[[], str | None]
    ) -> int | None:
        """Return the position of the call whose result is given in its place, or ``None`` where none is left."""
        recorded = self._run.recorded
        place = recorded.next_tool(called.name, lane=lane, parent=parent) if recorded is not None else None
        if recorded is None or place is None:
            return None
        step = recorded.steps[place]
        assert isinstance(step, ToolStep)
        self._run.warned.append(describe.changed_tool(self._run.scene(call_site()), called, [step], stood_in=True))
        return place

    def _news(self, changes: Iterable[Change]) -> list[Change]:
        news = {
            form: change for change in changes if (form := canonical_json(describe.form_of(change))) not in self._told
        }
        self._told |= news.keys()
        return list(news.values())


def _is_like(step: Entry, asked: Asked) -> bool:
    """Return whether a step is of the same operation as a request; of unread traffic, the same method and path."""
    if isinstance(step, ModelStep):
        same = (step.provider, step.operation) == (asked.provider, asked.operation)
        return same and _is_streamed(step.request) == _is_streamed(asked.request)
    if not isinstance(step, HttpStep) or asked.kind != "http":
        return False
    request = step.request
    return request.method == asked.method and urlsplit(request.url).path == urlsplit(asked.url).path


def _is_streamed(request: Request) -> bool:
    """Return whether a stream is asked for: who reads one cannot read a plain answer."""
    return isinstance(request.body, JsonBody) and bool(request.body.fields.get("stream"))
