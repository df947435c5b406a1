"""No waiting in replay: what a client waits before it tries again is skipped, and nothing else is."""

from __future__ import annotations

import asyncio
import binascii
import io
import json
import struct
import time
from collections.abc import Callable, Iterator
from typing import Any

import anyio
import boto3
import botocore.config
import openai
import pytest
import requests
import requests.adapters
import urllib3

from tests.contracts.clients.conftest import Case
from tests.support.openai import chat_answer
from tests.support.server import Answer, Seen, answer_json
from tests.support.taps import lines_of
from tests.support.timing import sooner_or_later, timed

MESSAGES = [{"role": "user", "content": "hello"}]


def failing_once(status: int, *, after: str, then: Answer) -> Callable[[Seen], Answer]:
    """Fail the first time, with the time to wait in a header."""
    answers: Iterator[Answer] = iter([Answer(status=status, headers=(("retry-after", after),), body=b"{}")])
    return lambda seen: next(answers, then)


@pytest.fixture(scope="module")
def clients() -> Iterator[tuple[openai.OpenAI, openai.AsyncOpenAI]]:
    """The clients of openai, which take longer to make than a request to replay."""
    options = {"base_url": "http://127.0.0.1:1/v1", "api_key": "none"}
    with openai.OpenAI(**options) as client:  # type: ignore[arg-type]
        yield client, openai.AsyncOpenAI(**options)  # type: ignore[arg-type]


def ask_openai(client: openai.OpenAI) -> str | None:
    answer = client.chat.completions.create(model="m", messages=MESSAGES)  # type: ignore[arg-type]
    return answer.choices[0].message.content


def ask_openai_async(client: openai.AsyncOpenAI) -> str | None:
    async def main() -> str | None:
        answer = await client.chat.completions.create(model="m", messages=MESSAGES)  # type: ignore[arg-type]
        return answer.choices[0].message.content

    return asyncio.run(main())


def test_openai_does_not_wait_for_a_recorded_retry_after(
    case: Case, clients: tuple[openai.OpenAI, openai.AsyncOpenAI]
) -> None:
    client, async_client = (found.with_options(base_url=f"{case.url}/v1") for found in clients)
    case.answer(failing_once(429, after="2", then=chat_answer("at last")))

    live_took, live = timed(lambda: case.record(lambda: ask_openai(client)))
    replayed = case.replay(lambda: ask_openai(client))
    replayed_async = case.replay(lambda: ask_openai_async(async_client))

    assert live_took > 2
    assert live == replayed == replayed_async == "at last"
    assert sooner_or_later(lambda: timed(lambda: case.replay(lambda: ask_openai(client)))[0] < 0.1)
    assert sooner_or_later(lambda: timed(lambda: case.replay(lambda: ask_openai_async(async_client)))[0] < 0.1)
    assert [line["response"]["status"] for line in lines_of(case.path)] == [429, 200]
    assert ["retry-after", "2"] in lines_of(case.path)[0]["response"]["headers"]


def test_a_read_timeout_is_replayed_as_openais_own_error(
    case: Case, clients: tuple[openai.OpenAI, openai.AsyncOpenAI]
) -> None:
    client = clients[0].with_options(base_url=f"{case.url}/v1", timeout=0.05, max_retries=1)
    case.answer(Answer(delay=0.15))

    def ask() -> type:
        with pytest.raises(openai.APITimeoutError) as caught:
            ask_openai(client)
        return caught.type

    case.record(ask)

    assert case.replay(ask) is openai.APITimeoutError
    assert [line["error"]["kind"] for line in lines_of(case.path)] == ["read-timeout", "read-timeout"]
    assert sooner_or_later(lambda: timed(lambda: case.replay(ask))[0] < 0.1)  # the client's own pause is half a second


def test_urllib3s_retries_run_in_replay_and_do_not_wait(case: Case) -> None:
    retry = urllib3.Retry(2, status_forcelist=[503], allowed_methods=None)

    def ask() -> str:
        with requests.Session() as session:
            session.mount("http://", requests.adapters.HTTPAdapter(max_retries=retry))
            response = session.post(case.url, json={"a": 1})
        return response.text

    case.answer(failing_once(503, after="1", then=Answer(body=b'"at last"')))

    live = case.record(ask)
    replayed = case.replay(ask)

    assert live == replayed == '"at last"'
    assert [line["response"]["status"] for line in lines_of(case.path)] == [503, 200]
    assert sooner_or_later(lambda: timed(lambda: case.replay(ask))[0] < 0.5)


def bedrock(case: Case, **options: Any) -> Any:
    """Return a client of boto3 that talks to the server of the case."""
    keys = {"aws_access_key_id": "none", "aws_secret_access_key": "none"}
    return boto3.client("bedrock-runtime", region_name="eu-central-1", endpoint_url=case.url, **keys, **options)


def test_botocore_retries_in_replay_and_does_not_wait(case: Case) -> None:
    client = bedrock(case, config=botocore.config.Config(retries={"mode": "standard", "max_attempts": 3}))

    def ask() -> object:
        answer = client.converse(modelId="m", messages=[{"role": "user", "content": [{"text": "hello"}]}])
        return answer["output"]["message"]["content"]

    content = {"role": "assistant", "content": [{"text": "hi"}]}
    usage = {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2}
    done = {"output": {"message": content}, "stopReason": "end_turn", "usage": usage, "metrics": {"latencyMs": 1}}
    case.answer(failing_once(503, after="1", then=answer_json(done)))

    live = case.record(ask)
    replayed = case.replay(ask)

    assert live == replayed == [{"text": "hi"}]
    assert [line["response"]["status"] for line in lines_of(case.path)] == [503, 200]
    # each time the client would wait for some part of a second
    assert sooner_or_later(lambda: timed(lambda: [case.replay(ask) for _ in range(5)])[0] < 0.5)


@pytest.mark.parametrize(
    "pause",
    [
        lambda: time.sleep(0.1),
        lambda: asyncio.run(asyncio.sleep(0.1)),
        lambda: anyio.run(anyio.sleep, 0.1),
    ],
    ids=["time", "asyncio", "anyio"],
)
def test_only_the_first_pause_after_a_failure_is_skipped(case: Case, pause: Callable[[], None]) -> None:
    def ask() -> tuple[float, float, float]:
        before, _ = timed(pause)
        requests.get(case.url)
        first, _ = timed(pause)
        second, _ = timed(pause)
        return before, first, second

    case.answer(Answer(status=500))
    case.record(lambda: requests.get(case.url))

    def first_is_skipped() -> bool:
        before, first, second = case.replay(ask)
        assert before > 0.09
        assert second > 0.09
        return first < 0.09

    assert sooner_or_later(first_is_skipped)


def test_an_answer_that_is_no_failure_skips_no_pause(case: Case) -> None:
    case.answer(Answer(status=404))
    case.record(lambda: requests.get(case.url))

    took, _ = timed(lambda: case.replay(lambda: (requests.get(case.url), time.sleep(0.05))))

    assert took > 0.05


def test_a_stream_of_boto3_is_read_event_by_event(case: Case) -> None:
    client = bedrock(case)

    def ask() -> list[object]:
        answer = client.converse_stream(modelId="m", messages=[{"role": "user", "content": [{"text": "hello"}]}])
        return [event["contentBlockDelta"]["delta"]["text"] for event in answer["stream"]]

    events = [
        eventstream("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": text}}) for text in ("one", "two")
    ]
    case.answer(Answer(headers=(("content-type", "application/vnd.amazon.eventstream"),), chunks=events, gap=0.01))

    live, replayed = case.both(ask)

    assert live == replayed == ["one", "two"]


def eventstream(kind: str, payload: object) -> bytes:
    """Return one message in Amazon's binary framing."""
    head = io.BytesIO()
    for name, value in ((":message-type", "event"), (":event-type", kind), (":content-type", "application/json")):
        head.write(struct.pack("!B", len(name)) + name.encode() + struct.pack("!BH", 7, len(value)) + value.encode())
    body = json.dumps(payload).encode()
    prelude = struct.pack("!II", 16 + len(head.getvalue()) + len(body), len(head.getvalue()))
    message = prelude + struct.pack("!I", binascii.crc32(prelude)) + head.getvalue() + body
    return message + struct.pack("!I", binascii.crc32(message))
