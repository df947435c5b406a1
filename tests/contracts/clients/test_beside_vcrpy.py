"""The faults of stock patching, each with what vcrpy does and what this package does."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.contracts.clients.stock_vcrpy import ask_in_threads, first_piece_after, follow_a_redirect, start_late
from tests.support.server import Answer, Seen, Server, serving
from tests.support.taps import Taps, lines_of

EVENTS = [b"data: %d\n\n" % number for number in range(5)]
GAP = 0.03


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    def respond(seen: Seen) -> Answer:
        if seen.path == "/stream":
            return Answer(headers=(("content-type", "text/event-stream"),), chunks=EVENTS, gap=GAP)
        if seen.path == "/moved":
            return Answer(status=307, headers=(("location", "/landed"),), body=b"")
        if seen.path == "/count":
            return Answer(body=b"%d" % sum(other.path != "/count" for other in running.seen))
        return Answer(body=json.dumps({"method": seen.method}).encode())

    with serving(respond) as running:
        yield running


@pytest.fixture(scope="module")
def stock(server: Server, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What vcrpy does."""
    folder = tmp_path_factory.mktemp("stock")
    command = [sys.executable, "-m", "tests.contracts.clients.stock_vcrpy", server.url, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[3], timeout=60)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_stream_is_handed_out_as_it_comes_while_recording(
    server: Server, tmp_path: Path, taps: Taps, stock: dict[str, Any]
) -> None:
    path = tmp_path / "ours.jsonl"

    ours = min(taps.record(path, lambda: first_piece_after(server.url)) for _ in range(2))

    assert stock["streams"]["first piece after"] > GAP * 4
    assert ours < GAP * 2


def test_no_thread_of_requests_is_let_out_and_none_is_lost(
    server: Server, tmp_path: Path, taps: Taps, stock: dict[str, Any]
) -> None:
    path = tmp_path / "ours.jsonl"
    taps.record(path, lambda: ask_in_threads(server.url))
    reached = server.connections

    answered = taps.replay(path, lambda: ask_in_threads(server.url))

    assert stock["threads"]["answered"] == 64
    assert stock["threads"]["recorded"] < 64
    assert stock["threads"]["escaped"] > 0
    assert len(lines_of(path)) == answered == 64
    assert server.connections == reached


def test_a_redirect_of_aiohttp_is_followed_by_its_method(
    server: Server, tmp_path: Path, taps: Taps, stock: dict[str, Any]
) -> None:
    path = tmp_path / "ours.jsonl"

    live = taps.record(path, lambda: follow_a_redirect(server.url))
    replayed = taps.replay(path, lambda: follow_a_redirect(server.url))

    assert stock["redirects"]["live"] == ["POST", "GET"]
    assert stock["redirects"]["replayed"] != ["POST", "GET"]
    assert replayed == live == ["POST", "GET"]


def test_a_late_thread_is_stopped_when_its_test_is_over(
    server: Server, tmp_path: Path, taps: Taps, stock: dict[str, Any]
) -> None:
    path = tmp_path / "ours.jsonl"
    taps.record(path, lambda: httpx.get(f"{server.url}/something else"))
    reached = server.connections

    with taps.session(path, record_mode="none"):
        go, thread, errors = start_late(lambda: httpx.get(f"{server.url}/late"))
    go.set()
    thread.join()

    assert stock["late_thread"] == {"escaped": 1, "errors": []}
    assert [type(error).__name__ for error in errors] == ["StrayRequestError"]
    assert server.connections == reached


def test_two_recordings_in_two_threads_do_not_cross(
    server: Server, tmp_path: Path, taps: Taps, stock: dict[str, Any]
) -> None:
    paths = {name: tmp_path / f"{name}.jsonl" for name in ("one", "two")}

    def ask(owner: Any, name: str) -> None:
        taps.registry.enter(owner)
        httpx.get(f"{server.url}/{name}")

    with (
        taps.session(paths["one"], record_mode="rewrite") as one,
        taps.session(paths["two"], record_mode="rewrite") as two,
    ):
        threads = [threading.Thread(target=ask, args=args) for args in ((one, "one"), (two, "two"))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert stock["two_cassettes"]["recorded"] != [1, 1]
    for name, path in paths.items():
        assert [line["request"]["url"].rpartition("/")[2] for line in lines_of(path)] == [name]
