"""A recording knows requests, not clients: what one client recorded answers every other."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.contracts.clients.conftest import Case
from tests.contracts.clients.drivers import DRIVERS, Ask, Driver, Got
from tests.contracts.clients.features import every_client
from tests.support.server import Answer, Seen, Server
from tests.support.taps import Taps

EVENTS = [b"data: one\n\n", b"data: two\n\n", b"data: three\n\n"]


def respond(seen: Seen) -> Answer:
    if seen.path == "/stream":
        return Answer(headers=(("content-type", "text/event-stream"),), chunks=EVENTS, gap=0.005)
    if seen.path == "/absent":
        return Answer(status=404, body=b'{"error":"none"}')
    packed = gzip.compress(json.dumps({"said": seen.method}).encode())
    return Answer(headers=(("content-type", "application/json"), ("content-encoding", "gzip")), body=packed)


def ask_all(driver: Driver, url: str) -> tuple[list[Got], list[bytes]]:
    got = driver.ask(
        Ask(f"{url}/models?limit=2"),
        Ask(f"{url}/chat", "POST", json={"model": "m", "messages": [{"role": "user", "content": "grün"}]}),
        Ask(f"{url}/form", "POST", form={"a": "1 2"}),
        Ask(f"{url}/absent", "DELETE"),
    )
    pieces = driver.stream(Ask(f"{url}/stream", "POST", json={"stream": True}))
    return got, [piece for _, piece in pieces]


@pytest.fixture(scope="module")
def recordings(
    taps: Taps, plain: tuple[Server, object], tmp_path_factory: pytest.TempPathFactory
) -> Mapping[str, Path]:
    """What each client has recorded of the same requests."""
    server, speaker = plain
    speaker.respond = respond  # type: ignore[attr-defined]
    folder = tmp_path_factory.mktemp("recordings")
    paths = {name: folder / f"{number}.jsonl" for number, name in enumerate(DRIVERS)}
    for name, driver in DRIVERS.items():
        taps.record(paths[name], lambda driver=driver: ask_all(driver, server.url))  # type: ignore[misc]
    return paths


@every_client("other clients")
def test_what_any_client_recorded_answers_this_one(driver: Driver, case: Case, recordings: Mapping[str, Path]) -> None:
    wrong = []

    for name, path in recordings.items():
        case.path = path
        got, pieces = case.replay(lambda: ask_all(driver, case.url))
        statuses, bodies = [one.status for one in got], [one.body for one in got]
        said = [b'{"said": "GET"}', b'{"said": "POST"}', b'{"said": "POST"}', b'{"error":"none"}']
        if (statuses, bodies, pieces) != ([200, 200, 200, 404], said, EVENTS):
            wrong.append((name, statuses, bodies, pieces))

    assert wrong == []


def test_clients_write_the_same_hashes(recordings: Mapping[str, Path]) -> None:
    steps = {
        name: [json.loads(line).get("hash") for line in path.read_bytes().splitlines()]
        for name, path in recordings.items()
    }

    assert len({tuple(hashes) for hashes in steps.values()}) == 1
