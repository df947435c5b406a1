"""The faults of stock patching, measured once, each with what vcrpy does and what this package does.

vcrpy is used here as its users use it: one cassette around the code.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import aiohttp
import httpx
import pytest
import requests
import vcr

from tests.support.server import Answer, Seen, Server, serving
from tests.support.taps import Taps, lines_of, patched

EVENTS = [b"data: %d\n\n" % number for number in range(5)]
GAP = 0.03


def respond(seen: Seen) -> Answer:
    if seen.path == "/stream":
        return Answer(headers=(("content-type", "text/event-stream"),), chunks=EVENTS, gap=GAP)
    if seen.path == "/moved":
        return Answer(status=307, headers=(("location", "/landed"),), body=b"")
    said = {"method": seen.method, "body": seen.body.decode()}
    return Answer(body=json.dumps(said).encode())


@pytest.fixture
def server() -> Iterator[Server]:
    with serving(respond) as running:
        yield running


@pytest.fixture
def taps() -> Iterator[Taps]:
    with patched() as installed:
        yield installed


def stock(path: Path, mode: str) -> Any:
    """Return vcrpy's cassette, as it comes."""
    return vcr.VCR(record_mode=mode).use_cassette(str(path.with_suffix(".yaml")))


def first_piece_after(url: str) -> float:
    """Return how long the first piece of a stream takes to reach the agent, in seconds."""
    with httpx.Client(verify=False) as client:
        started = time.monotonic()
        with client.stream("POST", f"{url}/stream") as response:
            next(response.iter_bytes())
            return time.monotonic() - started


def test_vcrpy_holds_a_stream_back_until_its_end_while_recording(server: Server, tmp_path: Path) -> None:
    with stock(tmp_path / "stock", "once"):
        took = first_piece_after(server.url)

    assert took > GAP * 4


def test_we_hand_a_stream_out_as_it_comes_while_recording(server: Server, tmp_path: Path, taps: Taps) -> None:
    took = min(taps.record(tmp_path / "ours.jsonl", lambda: first_piece_after(server.url)) for _ in range(2))

    assert took < GAP * 2


def ask_in_threads(url: str) -> int:
    """Ask 64 requests in 8 threads, and return how many were answered."""

    def ask(number: int) -> bool:
        with contextlib.suppress(Exception):
            return requests.post(f"{url}/{number}", json={"number": number}).ok
        return False

    with ThreadPoolExecutor(8) as pool:
        return sum(pool.map(ask, range(64)))


def test_vcrpy_lets_threads_of_requests_out_in_mode_none(server: Server, tmp_path: Path) -> None:
    with stock(tmp_path / "stock", "once"):
        requests.get(f"{server.url}/something else")
    reached = len(server.seen)

    with stock(tmp_path / "stock", "none"):
        ask_in_threads(server.url)

    assert len(server.seen) > reached


def test_we_let_no_thread_of_requests_out(server: Server, tmp_path: Path, taps: Taps) -> None:
    path = tmp_path / "ours.jsonl"
    taps.record(path, lambda: ask_in_threads(server.url))
    reached = server.connections

    answered = taps.replay(path, lambda: ask_in_threads(server.url))

    assert len(lines_of(path)) == answered == 64
    assert server.connections == reached


def test_vcrpy_loses_recordings_of_threads_of_requests(server: Server, tmp_path: Path) -> None:
    with stock(tmp_path / "stock", "once") as cassette:
        answered = ask_in_threads(server.url)

    assert answered == 64
    assert len(cassette) < 64


def follow_a_redirect(url: str) -> list[str]:
    """Return the methods that reach the place which a POST is sent on to, and which is asked for by GET after it."""

    async def main() -> list[str]:
        async with aiohttp.ClientSession() as session:
            async with session.post(f"{url}/moved", data=b"body") as response:
                moved = await response.json()
            async with session.get(f"{url}/landed") as response:
                landed = await response.json()
        return [moved["method"], landed["method"]]

    return asyncio.run(main())


def test_vcrpy_looks_the_target_of_a_redirect_up_by_get(server: Server, tmp_path: Path) -> None:
    with stock(tmp_path / "stock", "once"):
        live = follow_a_redirect(server.url)

    with stock(tmp_path / "stock", "none"), contextlib.suppress(Exception):
        assert follow_a_redirect(server.url) != live

    assert live == ["POST", "GET"]


def test_we_follow_a_redirect_by_its_method(server: Server, tmp_path: Path, taps: Taps) -> None:
    path = tmp_path / "ours.jsonl"

    live = taps.record(path, lambda: follow_a_redirect(server.url))
    replayed = taps.replay(path, lambda: follow_a_redirect(server.url))

    assert replayed == live == ["POST", "GET"]


def late(act: Callable[[], object]) -> tuple[threading.Event, threading.Thread, list[BaseException]]:
    """Return a thread that acts when it is told to, and what it ran into."""
    go, errors = threading.Event(), []

    def run() -> None:
        go.wait(5)
        try:
            act()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return go, thread, errors


def test_vcrpy_lets_a_late_thread_out_when_its_cassette_is_closed(server: Server, tmp_path: Path) -> None:
    with stock(tmp_path / "stock", "once"):
        httpx.get(f"{server.url}/something else")
    reached = len(server.seen)

    with stock(tmp_path / "stock", "none"):
        go, thread, errors = late(lambda: httpx.get(f"{server.url}/late"))
    go.set()
    thread.join()

    assert (len(server.seen) - reached, errors) == (1, [])


def test_we_stop_a_late_thread_when_its_test_is_over(server: Server, tmp_path: Path, taps: Taps) -> None:
    path = tmp_path / "ours.jsonl"
    taps.record(path, lambda: httpx.get(f"{server.url}/something else"))
    reached = server.connections

    with taps.session(path, record_mode="none"):
        go, thread, errors = late(lambda: httpx.get(f"{server.url}/late"))
    go.set()
    thread.join()

    assert [type(error).__name__ for error in errors] == ["StrayRequestError"]
    assert server.connections == reached


def test_vcrpy_crosses_two_cassettes_in_two_threads(server: Server, tmp_path: Path) -> None:
    inside, done = threading.Barrier(2, timeout=5), threading.Barrier(2, timeout=5)
    counts: dict[str, int] = {}

    def record(name: str) -> None:
        with stock(tmp_path / name, "once") as cassette:
            inside.wait()
            httpx.get(f"{server.url}/{name}")
            done.wait()
        counts[name] = len(cassette)

    threads = [threading.Thread(target=record, args=(name,)) for name in ("one", "two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(counts.values()) != [1, 1]


def test_we_keep_two_recordings_in_two_threads_apart(server: Server, tmp_path: Path, taps: Taps) -> None:
    with (
        taps.session(tmp_path / "one.jsonl", record_mode="rewrite") as one,
        taps.session(tmp_path / "two.jsonl", record_mode="rewrite") as two,
    ):

        def ask(owner: Any, name: str) -> None:
            taps.registry.enter(owner)
            httpx.get(f"{server.url}/{name}")

        threads = [threading.Thread(target=ask, args=args) for args in ((one, "one"), (two, "two"))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    for name in ("one", "two"):
        urls = [line["request"]["url"] for line in lines_of(tmp_path / f"{name}.jsonl")]
        assert [url.rpartition("/")[2] for url in urls] == [name]
