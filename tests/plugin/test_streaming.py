"""Streams: they reach the agent as they come while recording, and are cut alike in replay."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace

import pytest

from tests.support.openai import chat_stream
from tests.support.server import Answer, Seen
from tests.support.suite import Provider, Suite, held_back
from tests.support.timing import SendLog, sooner_or_later

GAP = 0.02
PIECES = ["one", "two", "three", "four", "five", "six"]  # and [DONE]: seven chunks

SYNC = """
import time
import pytest
import CLIENT as client
from agent import URL, body

@pytest.mark.agent_cassette
def test_it(record_property):
    times, chunks = [], []
    with client.Client(verify=False) as http:
        times.append(time.monotonic())
        with http.stream("POST", URL, json=body("hello", stream=True)) as response:
            for chunk in response.iter_bytes():
                times.append(time.monotonic())
                chunks.append(chunk.decode())
    record_property("times", times)
    record_property("chunks", chunks)
"""

ASYNC = """
import asyncio, time
import pytest
import CLIENT as client
from agent import URL, body

@pytest.mark.agent_cassette
def test_it(record_property):
    times, chunks = [], []
    async def main():
        async with client.AsyncClient(verify=False) as http:
            times.append(time.monotonic())
            async with http.stream("POST", URL, json=body("hello", stream=True)) as response:
                async for chunk in response.aiter_bytes():
                    times.append(time.monotonic())
                    chunks.append(chunk.decode())
    asyncio.run(main())
    record_property("times", times)
    record_property("chunks", chunks)
"""

EACH_CLIENT = pytest.mark.parametrize("client", ["httpx", "httpx2"])
EACH_WAY = pytest.mark.parametrize("source", [pytest.param(SYNC, id="sync"), pytest.param(ASYNC, id="async")])


def seen_by_agent(result: pytest.RunResult) -> tuple[list[float], list[str]]:
    """Return when the agent asked and heard each chunk, and the chunks."""
    result.assert_outcomes(passed=1)
    found = dict(result.reprec.getreports("pytest_runtest_logreport")[-1].user_properties)  # type: ignore[attr-defined]
    return found["times"], found["chunks"]


@EACH_CLIENT
@EACH_WAY
def test_the_first_chunk_reaches_the_agent_before_the_last_is_sent(
    suite: Suite, provider: Provider, client: str, source: str
) -> None:
    def respond(seen: Seen) -> Answer:
        answer = chat_stream(PIECES, gap=GAP)
        chunks = held_back(answer, until=suite.path / "first-chunk")
        return replace(answer, chunks=chunks)

    provider.respond = respond
    at_once = "chunks.append(chunk.decode()); open('first-chunk', 'w').close()"
    suite.write(source.replace("CLIENT", client).replace("chunks.append(chunk.decode())", at_once))

    _, chunks = seen_by_agent(suite.record())

    assert len(chunks) == 7


@EACH_CLIENT
@EACH_WAY
def test_each_chunk_reaches_the_agent_as_it_is_sent(suite: Suite, provider: Provider, client: str, source: str) -> None:
    answer = chat_stream(PIECES, gap=GAP)
    pieces = list(answer.chunks or ())
    suite.write(source.replace("CLIENT", client))
    found: list[tuple[float, list[float]]] = []

    def measure() -> bool:
        log = SendLog(pieces)
        provider.respond = lambda seen: replace(answer, chunks=log)
        (asked, *heard), chunks = seen_by_agent(suite.run("--record-mode=rewrite"))
        assert chunks == [piece.decode() for piece in pieces]
        found.append((heard[0] - asked, log.delays(heard)))
        return heard[0] - asked < 0.06 and max(log.delays(heard)) < 0.04

    assert sooner_or_later(measure), found


@EACH_CLIENT
@EACH_WAY
def test_a_replay_has_the_chunks_that_were_recorded_and_waits_for_none(
    suite: Suite, provider: Provider, client: str, source: str
) -> None:
    provider.respond = lambda seen: chat_stream(PIECES, gap=GAP)
    suite.write(source.replace("CLIENT", client))
    _, recorded = seen_by_agent(suite.record())
    provider.stop()

    def replay() -> bool:
        times, replayed = seen_by_agent(suite.run())
        assert replayed == recorded
        return times[-1] - times[1] < GAP

    assert sooner_or_later(replay)


@EACH_WAY
def test_chunks_that_cut_events_and_characters_stay_as_they_were(suite: Suite, provider: Provider, source: str) -> None:
    whole = b'data: {"text": "gr\xc3\xbcn"}\n\ndata: [DONE]\n\n'
    cuts = [whole[:9], whole[9:19], whole[19:30], whole[30:]]
    provider.respond = lambda seen: Answer(headers=(("content-type", "text/event-stream"),), chunks=cuts, gap=GAP)
    raw = source.replace("CLIENT", "httpx").replace("chunk.decode()", "chunk.hex()")
    suite.write(raw)
    _, recorded = seen_by_agent(suite.record())
    provider.stop()

    _, replayed = seen_by_agent(suite.run())

    assert replayed == recorded == [piece.hex() for piece in cuts]


EARLY = {
    "sync": """
    with http.stream("POST", URL, json=body("hello", stream=True)) as response:
        for chunk in response.iter_bytes():
            break
    """,
    "async": """
    async def main():
        async with client.AsyncClient(verify=False) as http:
            async with http.stream("POST", URL, json=body("hello", stream=True)) as response:
                async for chunk in response.aiter_bytes():
                    break
    asyncio.run(main())
    """,
}


@EACH_CLIENT
@pytest.mark.parametrize("body", [pytest.param(body, id=name) for name, body in EARLY.items()])
def test_a_stream_that_the_agent_closes_early_is_kept_as_truncated(
    suite: Suite, provider: Provider, client: str, body: str
) -> None:
    provider.respond = lambda seen: chat_stream(PIECES, gap=GAP)
    suite.write(
        f"import asyncio, pytest, {client} as client\nfrom agent import URL, body\n\n"
        f"http = client.Client(verify=False)\n\n@pytest.mark.agent_cassette\ndef test_it():{body}"
    )

    suite.record()
    provider.stop()
    result = suite.run()

    result.assert_outcomes(passed=1)
    [step] = [line for line in suite.lines() if line["kind"] == "model"]
    assert step["response"]["truncated"] is True
    assert "".join(step["response"]["events"]).count("data: ") < 7


def test_an_answer_that_breaks_off_breaks_off_again(suite: Suite, provider: Provider) -> None:
    def respond(seen: object) -> Answer:
        answer = chat_stream(PIECES)
        return Answer(headers=answer.headers, chunks=answer.chunks, cut_after=3)

    provider.respond = respond
    suite.write(
        """
        import httpx, pytest
        from agent import CLIENT, URL, body

        @pytest.mark.agent_cassette
        def test_it():
            chunks = []
            with pytest.raises(httpx.RemoteProtocolError, match="peer closed connection"):
                with CLIENT.stream("POST", URL, json=body("hello", stream=True)) as response:
                    for chunk in response.iter_bytes():
                        chunks.append(chunk)
            assert b"".join(chunks).count(b"data: ") == 3
        """
    )

    suite.record()
    provider.stop()
    result = suite.run()

    result.assert_outcomes(passed=1)


def test_a_connection_that_is_refused_is_refused_again(suite: Suite, provider: Provider) -> None:
    provider.stop()
    suite.write(
        """
        import httpx, pytest
        from agent import ask

        @pytest.mark.agent_cassette
        def test_it():
            with pytest.raises(httpx.ConnectError):
                ask("hello")
        """
    )

    suite.record()
    result = suite.run()

    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["agent cassettes: 1 replayed (1 request)"])


@EACH_WAY
def test_a_compressed_stream_is_recorded_decoded(suite: Suite, provider: Provider, source: str) -> None:
    plain = b"".join(chat_stream(PIECES).chunks or ())
    packed = gzip.compress(plain)
    provider.respond = lambda seen: Answer(
        headers=(("content-type", "text/event-stream"), ("content-encoding", "gzip")),
        chunks=[packed[:40], packed[40:]],
        gap=GAP,
    )
    suite.write(source.replace("CLIENT", "httpx"))
    _, recorded = seen_by_agent(suite.record())
    provider.stop()

    _, replayed = seen_by_agent(suite.run())

    assert "".join(replayed) == "".join(recorded) == plain.decode()
    [step] = [line for line in suite.lines() if line["kind"] == "model"]
    assert "content-encoding" not in json.dumps(step["response"]["headers"])


def test_a_paced_replay_takes_as_long_as_the_recording_did(suite: Suite, provider: Provider) -> None:
    provider.respond = lambda seen: chat_stream(PIECES, gap=GAP)
    suite.write(SYNC.replace("CLIENT", "httpx2").replace("agent_cassette", "agent_cassette(pace=True)"))

    def measure() -> bool:
        _, recorded = seen_by_agent(suite.run("--record-mode=rewrite"))
        times, replayed = seen_by_agent(suite.run())
        assert replayed == recorded
        return times[-1] - times[1] > 4 * GAP

    assert sooner_or_later(measure)


def test_a_pace_that_is_neither_on_nor_off_is_refused(suite: Suite) -> None:
    suite.write(SYNC.replace("CLIENT", "httpx").replace("agent_cassette", "agent_cassette(pace='fast')"))

    result = suite.run()

    assert result.ret != 0
    assert "pace='fast' must be True or False" in result.stdout.str() + result.stderr.str()
