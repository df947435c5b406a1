"""``ReplayTransport``: a tape as the transport of a client, of httpx or httpx2, sync or async."""

from __future__ import annotations

import asyncio
import warnings
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any

import anthropic
import httpx
import httpx2
import openai
import pytest

from pytest_agentreplay import (
    CassetteError,
    ConfigurationError,
    ReplayDivergenceError,
    ReplayDivergenceException,
    ReplayDivergenceWarning,
    ReplayTransport,
    load_cassette,
    use_cassette,
)
from tests.support.agent import Desk, body
from tests.support.anthropic import message
from tests.support.server import answer_json
from tests.support.suite import Provider

CLIENTS = pytest.mark.parametrize("library", [httpx, httpx2], ids=["httpx", "httpx2"])


@pytest.fixture
def tape(path: Path, desk: Desk, provider: Provider) -> Path:
    """Two conversations, the second streamed; the provider is gone."""
    with use_cassette(path, record_mode="once"):
        desk.ask("one")
        desk.pieces("two")
    provider.stop()
    return path


@CLIENTS
def test_a_sync_client_is_answered_from_the_tape(tape: Path, desk: Desk, library: Any) -> None:
    with library.Client(transport=ReplayTransport(tape)) as client:
        response = client.post(desk.place, json=body("one"))

    assert isinstance(response, library.Response)
    assert response.json()["choices"][0]["message"]["content"] == "echo: one"


@CLIENTS
def test_an_async_client_is_answered_from_the_tape(tape: Path, desk: Desk, library: Any) -> None:
    async def ask() -> Any:
        async with library.AsyncClient(transport=ReplayTransport(tape)) as client:
            return await client.post(desk.place, json=body("one"))

    response = asyncio.run(ask())

    assert response.json()["choices"][0]["message"]["content"] == "echo: one"


@CLIENTS
def test_a_stream_comes_in_the_recorded_cuts(tape: Path, desk: Desk, library: Any) -> None:
    recorded = load_cassette(tape).exchanges[-1].response
    assert recorded is not None

    with (
        library.Client(transport=ReplayTransport(tape)) as client,
        client.stream("POST", desk.place, json=body("two", stream=True)) as response,
    ):
        pieces = list(response.iter_raw())

    assert tuple(map(len, pieces)) == recorded.cuts


def test_an_sdk_gets_the_divergence_and_does_not_try_again(tape: Path, desk: Desk) -> None:
    transport = ReplayTransport(tape)
    client = openai.OpenAI(
        base_url=f"{desk.url}/v1", api_key="none", http_client=httpx2.Client(transport=transport), max_retries=5
    )

    with client, pytest.raises(ReplayDivergenceError, match="Request changed: call 1"):
        client.chat.completions.create(model="m", messages=[{"role": "user", "content": "three"}])

    assert transport.unplayed == ("chat m", "chat m")


def test_an_sdk_of_another_provider_is_answered_too(path: Path, provider: Provider) -> None:
    provider.respond = lambda seen: answer_json(message("Paris"))
    asked: dict[str, Any] = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Which?"}]}
    with use_cassette(path, record_mode="once"), anthropic.Anthropic(base_url=provider.url, api_key="none") as client:
        client.messages.create(**asked)
    provider.stop()

    transport = httpx2.Client(transport=ReplayTransport(path))
    with anthropic.Anthropic(base_url=provider.url, api_key="none", http_client=transport) as client:
        answer = client.messages.create(**asked)

    assert answer.content[0].text == "Paris"


def test_what_has_been_replayed_and_what_has_not_can_be_asked(tape: Path, desk: Desk) -> None:
    transport = ReplayTransport(tape)

    with httpx.Client(transport=transport) as client:
        client.post(desk.place, json=body("one"))

    assert transport.run.turns == 1
    assert transport.run.events[-1]["text"] == "echo: one"
    assert transport.unplayed == ("chat m",)


def test_warn_lets_the_next_answer_stand_in(tape: Path, desk: Desk) -> None:
    with (
        httpx.Client(transport=ReplayTransport(tape, replay="warn")) as client,
        pytest.warns(ReplayDivergenceWarning, match="Request changed"),
    ):
        response = client.post(desk.place, json=body("uno"))

    assert response.json()["choices"][0]["message"]["content"] == "echo: one"


def test_nothing_is_patched_and_another_client_goes_where_it_goes(path: Path, desk: Desk, provider: Provider) -> None:
    with use_cassette(path, record_mode="once"):
        desk.ask("one")
    asked = len(provider.seen)

    with httpx.Client(transport=ReplayTransport(path)) as client:
        client.post(desk.place, json=body("one"))
        desk.ask("live")

    assert [seen.json()["messages"][0]["content"] for seen in provider.seen[asked:]] == ["live"]


def test_threads_share_a_transport(path: Path, desk: Desk, provider: Provider) -> None:
    with use_cassette(path, record_mode="once"):
        for number in range(40):
            desk.ask(f"question {number}")
    provider.stop()

    with httpx.Client(transport=ReplayTransport(path)) as client, ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda n: client.post(desk.place, json=body(f"question {n}")).text, range(40)))

    assert all(f"echo: question {number}" in answer for number, answer in enumerate(answers))


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_in_a_multiprocessing_pool_the_twin_is_raised_and_the_pool_comes_back(
    tape: Path, desk: Desk, is_async: bool
) -> None:
    transport = ReplayTransport(tape)

    async def ask_async(text: str) -> None:
        async with httpx.AsyncClient(transport=transport) as client:
            await client.post(desk.place, json=body(text))

    def ask(text: str) -> None:
        if is_async:
            asyncio.run(ask_async(text))
        else:
            httpx.Client(transport=transport).post(desk.place, json=body(text))

    with ThreadPool(2) as pool, pytest.raises(ReplayDivergenceException, match="Request changed"):
        pool.map_async(ask, ["changed", "one"]).get(timeout=10)

    with pytest.raises(ReplayDivergenceError, match="Request changed"):
        ask("one")


def test_a_transport_in_a_block_with_another_cassette_keeps_to_its_own(tape: Path, desk: Desk, tmp_path: Path) -> None:
    other = tmp_path / "other.jsonl"

    with use_cassette(other, record_mode="once"), httpx.Client(transport=ReplayTransport(tape)) as client:
        client.post(desk.place, json=body("one"))

    assert not other.exists()


def test_a_mode_that_goes_live_is_refused(tape: Path) -> None:
    with pytest.raises(ConfigurationError, match="connects to nothing"):
        ReplayTransport(tape, replay="hybrid")


def test_a_tape_that_is_not_there_is_an_error_of_the_constructor(tmp_path: Path) -> None:
    with pytest.raises(CassetteError, match=r"none\.jsonl"):
        ReplayTransport(tmp_path / "none.jsonl")


def test_a_strict_replay_warns_of_nothing(tape: Path, desk: Desk) -> None:
    with warnings.catch_warnings(), httpx.Client(transport=ReplayTransport(tape)) as client:
        warnings.simplefilter("error")
        response = client.post(desk.place, json=body("one"))

    assert response.status_code == 200
