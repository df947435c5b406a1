"""What a model call costs, by the tokens and the model that its answer names."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_agentreplay.cassette import load_cassette
from pytest_agentreplay.dialects import load_dialects
from pytest_agentreplay.projections import prices
from pytest_agentreplay.projections.costs import costs
from pytest_agentreplay.projections.events import event_stream
from pytest_agentreplay.projections.prices import price_of
from pytest_agentreplay.records import ModelStep, TransportError
from tests.support.anthropic import message
from tests.support.openai import completion
from tests.support.tapes import ANTHROPIC, OPENAI, Told, write_cassette

DIALECTS = load_dialects()
MILLION = 1_000_000


@pytest.fixture(autouse=True)
def looked_up_anew() -> Iterator[None]:
    """Whether prices are installed is looked up again."""
    prices._is_installed.cache_clear()
    yield
    prices._is_installed.cache_clear()


def step_of(path: Path, answer: dict[str, Any], *, url: str = OPENAI, model: str = "gpt-5-mini", **told: Any) -> Any:
    """Return the step of one call."""
    body = {"model": model, "messages": [{"role": "user", "content": "hi"}]}
    [step] = load_cassette(write_cassette(path / "run.jsonl", [Told(body, answer=answer, url=url, **told)])).exchanges
    assert isinstance(step, ModelStep)
    return step


def openai(**usage: Any) -> dict[str, Any]:
    return completion("yes") | {"model": "gpt-5-mini-2025-08-07", "usage": usage}


def anthropic(**usage: Any) -> dict[str, Any]:
    return message("yes") | {"model": "claude-sonnet-4-5-20250929", "usage": usage}


def test_tokens_in_and_out_have_their_prices(tmp_path: Path) -> None:
    step = step_of(tmp_path, openai(prompt_tokens=MILLION, completion_tokens=MILLION))

    assert price_of(step, DIALECTS) == pytest.approx(0.25 + 2.0)


def test_cached_tokens_are_part_of_openais_count(tmp_path: Path) -> None:
    usage = {"prompt_tokens": MILLION, "completion_tokens": 0, "prompt_tokens_details": {"cached_tokens": MILLION}}

    step = step_of(tmp_path, openai(**usage))

    assert price_of(step, DIALECTS) == pytest.approx(0.025)


def test_cached_tokens_are_counted_beside_anthropics(tmp_path: Path) -> None:
    usage = {
        "input_tokens": 1000,
        "output_tokens": 1000,
        "cache_read_input_tokens": 10_000,
        "cache_creation_input_tokens": 2000,
    }

    step = step_of(tmp_path, anthropic(**usage), url=ANTHROPIC, model="claude-sonnet-4-5")

    assert price_of(step, DIALECTS) == pytest.approx((1000 * 3 + 1000 * 15 + 10_000 * 0.3 + 2000 * 3.75) / MILLION)


def test_the_model_that_was_asked_for_has_the_price_where_that_of_the_answer_is_unknown(tmp_path: Path) -> None:
    answer = openai(prompt_tokens=MILLION, completion_tokens=0) | {"model": "our own name of it"}

    assert price_of(step_of(tmp_path, answer), DIALECTS) == pytest.approx(0.25)


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(completion("yes") | {"model": "no such model"}, id="a model that nobody knows"),
        pytest.param(openai(), id="no tokens"),
        pytest.param(openai(prompt_tokens=None, completion_tokens=None), id="tokens that are null"),
        pytest.param(openai(prompt_tokens=1) | {"usage": None}, id="no usage"),
        pytest.param(
            openai(prompt_tokens=1, completion_tokens=1, prompt_tokens_details={"cached_tokens": 5}), id="nonsense"
        ),
    ],
)
def test_a_price_that_cannot_be_known_is_none_and_never_nothing(tmp_path: Path, answer: dict[str, Any]) -> None:
    step = step_of(tmp_path, answer, model="no such model" if answer["model"] == "no such model" else "gpt-5-mini")

    assert price_of(step, DIALECTS) is None
    assert costs(load_cassette(tmp_path / "run.jsonl")).total.cost_usd is None


def test_a_failed_call_cost_nothing(tmp_path: Path) -> None:
    step = step_of(tmp_path, {"error": "busy"}, status=503)
    unreached = step.model_copy(
        update={
            "response": None,
            "error": TransportError(client="httpx", class_name="ConnectError", phase="connect", text="gone"),
        }
    )

    assert price_of(step, DIALECTS) == 0.0
    assert price_of(unreached, DIALECTS) == 0.0


def test_a_price_that_the_tape_names_is_the_price(tmp_path: Path) -> None:
    step = step_of(tmp_path, openai(prompt_tokens=1, completion_tokens=1)).model_copy(update={"cost_usd": 7.5})

    assert price_of(step, DIALECTS) == 7.5


def test_the_events_of_a_tape_name_the_dollars_that_its_costs_do(tmp_path: Path) -> None:
    answer = openai(prompt_tokens=MILLION, completion_tokens=MILLION)
    bodies = [{"model": "gpt-5-mini", "messages": [{"role": "user", "content": text}]} for text in ("hi", "ho")]
    tape = load_cassette(write_cassette(tmp_path / "it.jsonl", [Told(body, answer=answer) for body in bodies]))

    told = [event["cost_usd"] for event in event_stream(tape, costs=True) if event["event"] == "turn"]

    assert told == [pytest.approx(2.25)] * 2
    assert sum(told) == costs(tape).total.cost_usd
    assert not any("cost_usd" in event for event in event_stream(tape))


def test_a_call_that_failed_is_told_without_dollars(tmp_path: Path) -> None:
    step_of(tmp_path, {"error": "busy"}, status=503)

    *_, failed = event_stream(load_cassette(tmp_path / "run.jsonl"), costs=True)

    assert failed == {"event": "error", "status": 503, "message": "busy"}


def test_no_price_is_looked_up_unless_costs_are_asked_for(tmp_path: Path) -> None:
    step_of(tmp_path, openai(prompt_tokens=MILLION, completion_tokens=MILLION))
    program = (
        "import sys; from pytest_agentreplay import event_stream, load_cassette; tape = load_cassette('run.jsonl');"
        "event_stream(tape, times=True, hashes=True); assert 'genai_prices' not in sys.modules;"
        "event_stream(tape, costs=True); assert 'genai_prices' in sys.modules"
    )

    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=60)

    assert done.stderr == ""


def test_without_the_extra_no_price_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "genai_prices" else real(name))
    step = step_of(tmp_path, openai(prompt_tokens=MILLION, completion_tokens=MILLION))

    assert price_of(step, DIALECTS) is None
    *_, turn = event_stream(load_cassette(tmp_path / "run.jsonl"), costs=True)
    assert set(turn) == {"event", "text", "usage"}
