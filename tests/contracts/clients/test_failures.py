"""Failures are recordings: in replay the same client raises the same class, and nothing waits."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.contracts.clients.conftest import Case
from tests.contracts.clients.drivers import DRIVERS, Ask, Driver
from tests.contracts.clients.features import every_client
from tests.support.server import Answer, serving
from tests.support.taps import lines_of

SLOW = 0.08
TYPE = (("content-type", "text/event-stream"),)
EVENTS = [b"data: %d\n\n" % number for number in range(6)]


@pytest.fixture(scope="session")
def closed_port() -> int:
    """A port that nothing listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
    return port


@pytest.fixture(scope="session")
def deaf_port() -> Iterator[int]:
    """A port that takes no more connections: its queue is full, and nobody empties it."""
    waiting = []
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        for _ in range(3):
            caller = socket.socket()
            caller.setblocking(False)
            caller.connect_ex(listening.getsockname())
            waiting.append(caller)
        time.sleep(0.05)
        yield listening.getsockname()[1]
        for caller in waiting:
            caller.close()


@pytest.fixture(scope="module")
def untrusted(tls: ssl.SSLContext) -> Iterator[str]:
    """A server whose certificate nobody here trusts."""
    with serving(lambda seen: Answer(), tls=tls) as server:
        yield server.url


@pytest.fixture
def urls(case: Case, closed_port: int, deaf_port: int, untrusted: str) -> Mapping[str, str]:
    return {
        "refused": f"http://127.0.0.1:{closed_port}/",
        "dns": "http://no-such-host.invalid/",
        "certificate": untrusted,
        "connect timeout": f"http://127.0.0.1:{deaf_port}/",
        "read timeout": case.url,
        "reset": case.url,
        "cut": case.url,
        "reset in the middle": case.url,
        "stalled in the middle": case.url,
    }


@pytest.fixture(scope="module")
def recorded_by(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Return what a client recorded of a failure, once for all tests."""
    folder = tmp_path_factory.mktemp("failures")

    def record(name: str, kind: str, case: Case, ask: Ask) -> Path:
        path = folder / f"{name}, {kind}.jsonl"
        if not path.exists():
            case.taps.record(path, lambda: DRIVERS[name].failure(ask))
        return path

    return record


ANSWERS: Mapping[str, Answer] = {
    "read timeout": Answer(delay=SLOW * 2),
    "reset": Answer(reset=True),
    "cut": Answer(headers=TYPE, chunks=EVENTS, cut_after=3),
    "reset in the middle": Answer(headers=TYPE, chunks=EVENTS, gap=0.01, cut_after=3, reset=True),
    "stalled in the middle": Answer(headers=TYPE, chunks=EVENTS[:2], gap=SLOW * 2),
}
KINDS = (
    "refused",
    "dns",
    "certificate",
    "connect timeout",
    "read timeout",
    "reset",
    "cut",
    "reset in the middle",
    "stalled in the middle",
)


@every_client("failures")
@pytest.mark.parametrize("kind", KINDS)
def test_a_failure_is_raised_again_as_the_same_class(
    driver: Driver, case: Case, kind: str, urls: Mapping[str, str]
) -> None:
    case.answer(ANSWERS.get(kind, Answer()))
    ask = Ask(urls[kind], "POST", json={"a": 1}, timeout=SLOW if "time" in kind or "stalled" in kind else 5)

    live = case.record(lambda: driver.failure(ask))
    replayed = case.replay(lambda: driver.failure(ask))

    assert type(replayed) is type(live)
    assert all(line["error"]["kind"] != "other" for line in lines_of(case.path))


@every_client("failures")
def test_an_answer_that_is_shorter_than_it_says_is_taken_as_it_was(driver: Driver, case: Case) -> None:
    def outcome() -> object:
        try:
            return driver.ask(Ask(case.url, "POST", json={"a": 1}))[0].body
        except Exception as error:
            return type(error)

    case.answer(Answer(body=b"half", length=100))

    live, replayed = case.both(outcome)

    assert replayed == live  # botocore is content with it


@every_client("failures")
def test_what_came_before_a_cut_is_given_again(driver: Driver, case: Case) -> None:
    def read() -> tuple[list[bytes], type]:
        pieces: list[bytes] = []
        try:
            pieces += [piece for _, piece in driver.stream(Ask(case.url, "POST", json={"a": 1}))]
        except Exception as error:
            return pieces, type(error)
        raise AssertionError(f"no failure: {pieces}")

    case.answer(ANSWERS["cut"])

    live, replayed = case.both(read)

    assert replayed == live
    [line] = lines_of(case.path)
    assert line["response"]["events"] == [event.decode() for event in EVENTS[:3]]
    assert line["error"]["kind"] == "cut"


@every_client("other clients")
@pytest.mark.parametrize("kind", ["refused", "certificate", "read timeout", "cut"])
def test_a_failure_that_another_client_recorded_is_raised_as_its_kin(
    driver: Driver, case: Case, kind: str, urls: Mapping[str, str], recorded_by: Callable[..., Path]
) -> None:
    case.answer(ANSWERS.get(kind, Answer()))
    ask = Ask(urls[kind], "POST", json={"a": 1}, timeout=SLOW if "time" in kind else 5)
    own = case.record(lambda: driver.failure(ask))

    kin = []
    for other in ("httpx", "requests", "aiohttp", "http.client"):
        case.path = recorded_by(other, kind, case, ask)
        kin.append(case.replay(lambda: driver.failure(ask)))

    assert [type(error) for error in kin] == [type(own)] * 4
