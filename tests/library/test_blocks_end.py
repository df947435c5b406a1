"""How a block with a cassette ends: what it raises, warns of and leaves, whatever the code in it did."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from pathlib import Path

import pytest

from pytest_agentreplay import (
    RecordingFailedError,
    ReplayDivergenceError,
    ReplayDivergenceWarning,
    ReplayStop,
    StrayRequestError,
    load_cassette,
    use_cassette,
)
from pytest_agentreplay.cassette import partial_path
from pytest_agentreplay.taps.reach import UnrecordedTrafficWarning
from tests.support.agent import Desk
from tests.support.server import Answer
from tests.support.suite import Provider


class AgentFaultError(Exception):
    """What the code in a block raises."""


def record(path: Path, desk: Desk, *asked: str) -> None:
    with use_cassette(path, record_mode="once"):
        for text in asked:
            desk.ask(text)


def fail_after(desk: Desk, text: str) -> None:
    desk.ask(text)
    raise AgentFaultError


def swallow(desk: Desk, *asked: str) -> list[str]:
    """Ask, and take whatever comes of it for no answer."""
    said = []
    for text in asked:
        with contextlib.suppress(BaseException):
            said.append(desk.ask(text))
    return said


def raise_instead(error: type[BaseException], desk: Desk, text: str) -> None:
    """Ask, and make another error of a stop, as SDKs do."""
    try:
        desk.ask(text)
    except ReplayStop as stop:
        raise error from stop


def test_what_a_block_raises_comes_through_and_the_answers_are_kept(path: Path, desk: Desk) -> None:
    block = use_cassette(path, record_mode="once")

    with pytest.raises(AgentFaultError), block:
        fail_after(desk, "one")

    end = load_cassette(path).end
    assert end is not None
    assert end.outcome == "failed"
    assert block.outcome is not None
    assert block.outcome.action == "recorded"


def test_a_failing_block_leaves_a_good_cassette_as_it_was(path: Path, desk: Desk) -> None:
    record(path, desk, "one")
    before = path.read_bytes()
    block = use_cassette(path, record_mode="rewrite")

    with pytest.raises(AgentFaultError), block:
        fail_after(desk, "two")

    assert path.read_bytes() == before
    assert block.outcome is not None
    assert block.outcome.action == "kept"
    assert block.outcome.partial == partial_path(path)


def test_a_stop_that_the_agent_swallows_is_raised_at_the_end(path: Path, desk: Desk) -> None:
    record(path, desk, "one")

    with pytest.raises(ReplayDivergenceError, match="is not in the recording"), use_cassette(path):
        swallow(desk, "other")

    assert load_cassette(path).exchanges


def test_a_stop_is_raised_whatever_the_agent_made_of_it(path: Path, desk: Desk) -> None:
    record(path, desk, "one")

    with pytest.raises(ReplayDivergenceError) as caught, use_cassette(path):
        raise_instead(AgentFaultError, desk, "other")

    assert isinstance(caught.value.__cause__, AgentFaultError)


def test_a_stop_in_a_group_of_tasks_comes_out_by_itself(path: Path, desk: Desk) -> None:
    record(path, desk, "one")

    async def work() -> None:
        async with use_cassette(path), asyncio.TaskGroup() as group:
            group.create_task(desk.ask_async("one"))
            group.create_task(desk.ask_async("other"))

    with pytest.raises(ReplayDivergenceError):
        asyncio.run(work())


def test_a_swallowed_stop_lets_nothing_more_be_served_or_sent(path: Path, desk: Desk, provider: Provider) -> None:
    record(path, desk, "one")
    seen = len(provider.seen)

    with pytest.raises(ReplayDivergenceError), use_cassette(path):
        said = swallow(desk, "other", "one")

    assert said == []
    assert len(provider.seen) == seen


def test_an_interrupt_stays_an_interrupt(path: Path, desk: Desk) -> None:
    record(path, desk, "one")

    with pytest.raises(KeyboardInterrupt), use_cassette(path):
        raise_instead(KeyboardInterrupt, desk, "other")


def test_steps_that_were_not_asked_for_fail_a_block(path: Path, desk: Desk) -> None:
    record(path, desk, "one", "two")

    with pytest.raises(ReplayDivergenceError, match="1 recorded step was not asked for") as caught, use_cassette(path):
        desk.ask("one")

    assert caught.value.kind == "unplayed"
    assert "agentreplay" not in str(caught.value)  # the command runs tests, and here is none


def test_steps_that_were_not_asked_for_are_warned_of_where_that_is_set(path: Path, desk: Desk) -> None:
    record(path, desk, "one", "two")

    with pytest.warns(ReplayDivergenceWarning, match="1 recorded step was not asked for"):  # noqa: SIM117
        with use_cassette(path, unplayed="warn"):
            desk.ask("one")


def test_steps_that_were_not_asked_for_may_be_ignored(path: Path, desk: Desk) -> None:
    record(path, desk, "one", "two")

    with use_cassette(path, unplayed="ignore") as run:
        desk.ask("one")

    assert run.turns == 1


def test_the_error_of_a_block_is_not_hidden_by_what_it_did_not_come_to(path: Path, desk: Desk) -> None:
    record(path, desk, "one", "two")

    with pytest.raises(AgentFaultError), use_cassette(path):
        fail_after(desk, "one")


def test_a_block_is_closed_before_its_warnings_are_raised(path: Path, desk: Desk) -> None:
    record(path, desk, "one")
    block = use_cassette(path, replay="warn")

    with pytest.raises(ReplayDivergenceWarning), block:  # a warning is an error in these tests
        desk.ask("other")

    assert block.outcome is not None
    assert block.session is not None
    assert not block.session.is_open


def test_a_warning_points_at_the_async_block_too(path: Path, desk: Desk) -> None:
    record(path, desk, "one")

    async def work() -> None:
        async with use_cassette(path, replay="warn"):
            await desk.ask_async("other")

    with pytest.warns(ReplayDivergenceWarning) as told:
        asyncio.run(work())

    assert [warning.filename for warning in told] == [__file__]


def test_a_block_may_be_left_in_another_context_than_it_was_entered_in(path: Path, desk: Desk) -> None:
    block = use_cassette(path, record_mode="once")

    contextvars.copy_context().run(block.__enter__)
    block.__exit__(None, None, None)

    assert block.session is not None
    assert not block.session.is_open
    record(path, desk, "one")


def test_a_thread_that_outlives_its_block_is_told_so(path: Path, desk: Desk, tmp_path: Path) -> None:
    with use_cassette(tmp_path / "around.jsonl", record_mode="once"):
        with use_cassette(path, record_mode="once"):
            desk.ask("one")
            late = contextvars.copy_context()

        with pytest.raises(StrayRequestError, match=r"which is over"):
            late.run(desk.ask, "late")


def test_a_tape_that_cannot_be_written_stops_the_run_at_its_first_step(path: Path, desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(RecordingFailedError, match="could not be recorded"):  # noqa: SIM117
        with use_cassette(tmp_path / "file" / "run.jsonl", record_mode="once"):
            desk.ask("one")


def test_a_request_that_the_block_gave_up_is_warned_of(path: Path, desk: Desk, provider: Provider) -> None:
    provider.respond = lambda seen: Answer(delay=5.0)

    async def hurried() -> None:
        async with use_cassette(path, record_mode="once", name="oslo"):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(desk.ask_async("slow"), 0.5)

    with pytest.warns(UnrecordedTrafficWarning, match="was given up .* the replay of oslo will be stopped") as told:
        asyncio.run(hurried())

    assert [warning.filename for warning in told] == [__file__]
