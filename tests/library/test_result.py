"""What a replay or a resumed run returns: each field, and what the run cost."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_agentreplay import Result, costs, load_cassette, replay, resume, use_cassette
from pytest_agentreplay.projections import prices
from tests.support.agent import Desk
from tests.support.openai import completion
from tests.support.server import Answer, Seen, answer_events, answer_json
from tests.support.suite import Provider

MODEL = "gpt-5-mini"


def priced(seen: Seen) -> Answer:
    """Answer as a model that has a price; 1000 tokens in, 500 out; streamed without naming tokens."""
    asked = seen.json()
    answer = completion(f"echo: {asked['messages'][-1]['content']}")
    answer |= {"model": asked["model"], "usage": {"prompt_tokens": 1000, "completion_tokens": 500}}
    if not asked.get("stream"):
        return answer_json(answer)
    delta = {"role": "assistant", "content": "streamed"}
    return answer_events([{"model": asked["model"], "choices": [{"index": 0, "delta": delta}]}, "[DONE]"])


@pytest.fixture(autouse=True)
def prices_of_today() -> Iterator[None]:
    """What is known of prices is looked up anew."""
    prices._is_installed.cache_clear()
    yield
    prices._is_installed.cache_clear()


@pytest.fixture
def tape(path: Path, desk: Desk, provider: Provider) -> Path:
    """One call of a model that has a price."""
    provider.respond = priced
    with use_cassette(path, record_mode="once"):
        desk.ask("one", model=MODEL)
    return path


def without_prices(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "genai_prices" else real(name))


def price(calls: int) -> Any:
    """Return what so many calls cost: 0.25 dollars a million tokens in, 2 dollars out."""
    return pytest.approx(calls * (1000 * 0.25 + 500 * 2) / 1e6)


def asking(desk: Desk, *texts: str) -> Callable[[], str]:
    return lambda: [desk.ask(text, model=MODEL) for text in texts][-1]


def test_a_replay_has_no_live_turn_and_no_live_cost(tape: Path, desk: Desk) -> None:
    before = time.perf_counter()

    result = replay(tape, lambda plan: asking(desk, "one"))

    assert isinstance(result, Result)
    assert result.message is not None
    assert (result.message.role, result.message.text, result.output) == ("assistant", "echo: one", "echo: one")
    assert (result.usage.input_tokens, result.usage.output_tokens) == (1000, 500)
    assert (result.turns, result.cost_usd) == (0, 0.0)
    assert result.recorded_cost_usd == price(1)
    assert 0 < result.duration <= time.perf_counter() - before
    assert result.tape is not None
    assert result.run_id == load_cassette(result.tape).start.run_id
    assert result.torn is None


def test_a_resumed_run_counts_live_and_recorded_apart(tape: Path, desk: Desk) -> None:
    result = resume(tape, asking(desk, "one", "two", "three"))

    assert result.turns == 2
    assert result.usage.input_tokens == 3000
    assert result.cost_usd == price(2)
    assert result.recorded_cost_usd == price(1)
    assert result.tape is not None
    assert costs(load_cassette(result.tape)).total.cost_usd == price(3)


def test_a_run_of_a_block_knows_what_it_spent_live(tape: Path, desk: Desk) -> None:
    with use_cassette(tape) as replayed:
        desk.ask("one", model=MODEL)
    with use_cassette(tape, record_mode="rewrite") as recorded:
        desk.ask("one", model=MODEL)

    assert replayed.cost_usd == 0.0
    assert recorded.cost_usd == price(1)


def test_without_prices_a_cost_is_unknown_and_a_replay_free(
    tape: Path, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_prices(monkeypatch)

    replayed = replay(tape, lambda plan: asking(desk, "one"))
    resumed = resume(tape, asking(desk, "one", "two"))

    assert (replayed.cost_usd, replayed.recorded_cost_usd) == (0.0, None)
    assert (resumed.cost_usd, resumed.recorded_cost_usd) == (None, None)


def test_the_price_of_an_unknown_model_is_unknown(path: Path, desk: Desk) -> None:
    with use_cassette(path, record_mode="once") as run:
        desk.ask("one")

    assert run.cost_usd is None
    assert replay(path, lambda plan: lambda: desk.ask("one")).recorded_cost_usd is None


def test_a_stream_that_names_no_tokens_has_no_known_price(path: Path, desk: Desk, provider: Provider) -> None:
    provider.respond = priced
    with use_cassette(path, record_mode="once") as run:
        desk.pieces("one")

    assert run.cost_usd is None
    assert run.usage.input_tokens is None


def test_an_attempt_that_failed_cost_nothing(path: Path, desk: Desk, provider: Provider) -> None:
    provider.respond = lambda seen: Answer(status=503, body=b"{}")

    with use_cassette(path, record_mode="once") as run, pytest.raises(KeyError):
        desk.ask("one", model=MODEL)

    assert run.cost_usd == 0.0


def test_a_run_without_a_model_has_no_message_and_no_cost(tape: Path) -> None:
    result = replay(tape, lambda plan: lambda: 7, unplayed="ignore")

    assert (result.message, result.output, result.tape) == (None, 7, None)
    assert (result.cost_usd, result.recorded_cost_usd) == (0.0, 0.0)
    assert result.usage.model_dump(exclude_none=True) == {}
