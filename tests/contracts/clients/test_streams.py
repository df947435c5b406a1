"""Streams: they reach the agent as they come while recording, and in the recorded pieces in replay."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import pytest

from tests.contracts.clients.conftest import Case
from tests.contracts.clients.drivers import DRIVERS, Ask, Driver
from tests.contracts.clients.features import every_client
from tests.support.server import Answer, Seen
from tests.support.taps import lines_of
from tests.support.timing import SendLog, sooner_or_later, timed

GAP = 0.02
EVENTS = [b"data: %d\n\n" % number for number in range(7)]
TYPE = (("content-type", "text/event-stream"),)

# Every way to read that a client has, beside the one that the other tests use.
WAYS: Mapping[str, Sequence[str]] = {
    "httpx": ("iter_bytes", "iter_raw", "iter_lines"),
    "httpx2": ("iter_bytes", "iter_raw", "iter_lines"),
    "httpx, async": ("aiter_bytes", "aiter_raw", "aiter_lines"),
    "httpx2, async": ("aiter_bytes", "aiter_raw", "aiter_lines"),
    "httpx-aiohttp": ("aiter_bytes", "aiter_raw", "aiter_lines"),
    "requests": ("iter_content", "iter_content by 16", "iter_lines", "raw.stream", "raw.read1"),
    "urllib3": ("stream", "read_chunked", "read1", "readline", "read by 16"),
    "boto3": ("raw.stream",),
    "aiohttp": (
        "iter_any",
        "iter_chunks",
        "iter_chunked",
        "readline",
        "readline until at_eof",
        "readuntil",
        "readany",
    ),
    "http.client": ("read1", "readline", "read by 16", "readinto", "peek"),
    "urllib.request": ("read1", "readline", "read by 16", "readinto", "peek"),
}


def ask(case: Case) -> Ask:
    return Ask(case.url, "POST", json={"stream": True})


@every_client("streams")
def test_each_piece_reaches_the_agent_as_it_comes_while_recording(driver: Driver, case: Case) -> None:
    found: list[tuple[float, list[float]]] = []

    def measure() -> bool:
        log = SendLog(EVENTS)
        asked = []

        def respond(seen: Seen) -> Answer:
            asked.append(time.monotonic())
            return Answer(headers=TYPE, chunks=log, gap=GAP)

        case.answer(respond)
        pieces = case.record(lambda: driver.stream(ask(case)))
        assert [piece for _, piece in pieces] == EVENTS
        times = [at for at, _ in pieces]
        found.append((times[0] - asked[0], log.delays(times)))
        return times[0] - asked[0] < 0.06 and max(log.delays(times)) < 0.04

    assert sooner_or_later(measure), found


@every_client("streams")
def test_a_replay_has_the_recorded_pieces_and_waits_for_none(driver: Driver, case: Case) -> None:
    cuts = [b'data: {"a": "gr\xc3', b'\xbcn"}\n', b"\ndata: b\n\nda", b"ta: c\n\n"]
    case.answer(Answer(headers=TYPE, chunks=cuts, gap=GAP))

    live = case.record(lambda: driver.stream(ask(case)))

    def replay() -> bool:
        replayed = case.replay(lambda: driver.stream(ask(case)))
        assert [piece for _, piece in replayed] == [piece for _, piece in live] == cuts
        return replayed[-1][0] - replayed[0][0] < GAP

    assert sooner_or_later(replay)


WAYS_OF_EACH = [
    pytest.param(name, way, id=f"{name}: {way}", marks=pytest.mark.client_feature("streams"))
    for name, ways in WAYS.items()
    for way in ways
]


@pytest.mark.parametrize(("name", "way"), WAYS_OF_EACH)
def test_every_way_to_read_gives_the_same_as_live(name: str, way: str, case: Case) -> None:
    driver = DRIVERS[name]
    case.answer(
        Answer(headers=TYPE, chunks=[b"data: one\n\n", b"data: two, and longer\n\n", b"data: 3\n\n"], gap=0.005)
    )

    live, replayed = case.both(lambda: driver.stream(ask(case), way=way))

    assert [piece for _, piece in replayed] == [piece for _, piece in live]
    [line] = lines_of(case.path)
    assert "".join(line["response"]["events"]) == "data: one\n\ndata: two, and longer\n\ndata: 3\n\n"
    assert "truncated" not in line["response"]


@every_client("early close")
def test_closing_after_3_of_200_pieces_returns_soon_and_is_kept(driver: Driver, case: Case) -> None:
    events = [b"data: %d\n\n" % number for number in range(200)]
    case.answer(Answer(headers=TYPE, chunks=events, gap=GAP))

    def record() -> bool:
        took, live = timed(lambda: case.record(lambda: driver.stream(ask(case), most=3)))
        assert [piece for _, piece in live] == events[:3]
        return took < 3 * GAP + 0.3

    assert sooner_or_later(record)
    replayed = case.replay(lambda: driver.stream(ask(case), most=3))

    assert [piece for _, piece in replayed] == events[:3]
    [line] = lines_of(case.path)
    assert line["response"]["truncated"] is True
    assert len(line["response"]["events"]) < 10


@every_client("pace")
def test_the_recorded_timing_is_kept_where_it_is_asked_for(driver: Driver, case: Case) -> None:
    case.answer(Answer(headers=TYPE, chunks=EVENTS[:4], gap=0.03))

    def measure() -> bool:
        live = case.record(lambda: driver.stream(ask(case)))
        paced = case.replay(lambda: driver.stream(ask(case)), pace=True)
        assert [piece for _, piece in paced] == [piece for _, piece in live]
        return paced[-1][0] - paced[0][0] > 0.06

    assert sooner_or_later(measure)
