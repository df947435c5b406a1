"""What a run is told whose request or call no recording answers, or that leaves recorded steps unasked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from pytest_agentreplay.errors import ReplayDivergenceError, ToolRefusedError
from pytest_agentreplay.player import describe
from pytest_agentreplay.player.lanes import Lane
from pytest_agentreplay.player.run import Run
from pytest_agentreplay.reader import Asked, ToolCalled
from pytest_agentreplay.records import Entry, ExchangeStep, Phase, ToolStep

__all__ = [
    "compare_beginning",
    "find_unplayed",
    "refuse_any_call",
    "refuse_call",
    "refuse_request",
    "unplayed_error",
]


def refuse_request(run: Run, asked: Asked, lane: Lane, *, call_site: str | None) -> NoReturn:
    """End a run with the report of a request that nothing answers."""
    scene = run.scene(call_site, lane)
    recorded = run.recorded
    if recorded is None:
        run.diverge("missing-cassette", describe.missing(scene, asked, partial=run.partial))
    known = recorded.positions(asked.hash)
    following = recorded.next_for(lane)
    waiting = next((position for position in known if not recorded.played[position]), None)
    if waiting is not None:
        first = following if following is not None else recorded.next_in(recorded.steps[waiting].lane)
        run.diverge("order", describe.order(scene, asked, None if first is None else recorded.exchange(first)))
    if known:
        run.diverge("exhausted", describe.exhausted(scene, asked, times=len(known)))
    candidates = [following] if following is not None else recorded.unplayed()
    steps = [step for at in candidates if isinstance(step := recorded.steps[at], ExchangeStep)]
    compared = describe.compare(asked, steps, reader=run.reader, messages=recorded.tape.messages)
    run.diverge("changed", describe.changed(scene, asked, compared), change=describe.fingerprint(compared))


def refuse_call(run: Run, called: ToolCalled, *, call_site: str | None) -> NoReturn:
    """End a run with the report of a tool's call that nothing answers."""
    scene = run.scene(call_site)
    if run.recorded is None:
        run.diverge("missing-cassette", describe.missing_tool(scene, called, partial=run.partial))
    steps = run.recorded.steps
    times = sum(isinstance(step, ToolStep) and step.hash == called.hash for step in steps)
    if times:
        run.diverge("exhausted", describe.exhausted_tool(scene, called, times=times))
    left = [step for position in run.recorded.unplayed() if isinstance(step := steps[position], ToolStep)]
    run.diverge("changed", describe.changed_tool(scene, called, left))


def refuse_any_call(run: Run, called: ToolCalled, *, call_site: str | None) -> NoReturn:
    """End a run that calls a tool where none may be called."""
    lines = [
        f"Tool refused: {called.name} was called, and this test lets none be called (tools='refuse').",
        "",
        f"  test      {run.test}",
        *([f"  called    {call_site}"] if call_site else []),
    ]
    run.halt(ToolRefusedError("\n".join(lines)))


def compare_beginning(run: Run, asked: Asked, lane: Lane, *, is_required: bool, call_site: str | None) -> None:
    """Say that a run which should go on from another begins with another request; where that is required, end it."""
    recorded = run.recorded
    steps = [step for step in recorded.steps if isinstance(step, ExchangeStep)] if recorded else []
    if recorded is None or not steps:
        return
    scene = run.scene(call_site, lane)
    compared = describe.compare(asked, steps[:1], reader=run.reader, messages=recorded.tape.messages)
    report = describe.changed(scene, asked, compared)
    if is_required:
        run.diverge("changed", describe.no_beginning(report, words=scene.words))
    run.warned.append(describe.begun_anew(report))


def find_unplayed(run: Run, phases: Sequence[Phase]) -> list[int]:
    """Return the positions of these phases' steps that nothing asked for; background traffic may stay."""
    if run.recorded is None:
        return []
    steps = run.recorded.steps
    return [
        position
        for position in run.recorded.unplayed()
        if steps[position].phase in phases and not _may_stay(run, steps[position])
    ]


def unplayed_error(run: Run, phases: Sequence[Phase]) -> ReplayDivergenceError | None:
    """Return the divergence that unplayed steps of these phases are, or ``None``; none while recording."""
    positions = find_unplayed(run, phases)
    if not positions or run.recorded is None or run.is_recording or _went_on(run):
        return None
    steps = run.recorded.steps
    left = {at: step for at in positions if isinstance(step := steps[at], ExchangeStep | ToolStep)}
    report = describe.unplayed(
        run.last_scene(left.values()),
        left,
        reader=run.reader,
        messages=run.recorded.tape.messages,
        phase=phases[-1],
        is_allowed=run.settings.warns_of_unplayed,
    )
    return ReplayDivergenceError(report, kind="unplayed")


def _may_stay(run: Run, step: Entry) -> bool:
    if isinstance(step, ExchangeStep) and run.is_background(step.request.url):
        return True
    assert run.recorded is not None
    # Of a live tool the recording is only there to compare with.
    return any(run.settings.tool_mode(tool.name) == "live" for tool in run.recorded.tools_around(step))


def _went_on(run: Run) -> bool:
    """Return whether something went live that its recording did not have: what it has left nobody must ask for."""
    return run.goes_live and run.recording is not None and run.recording.added > 0
