"""One set of patches, one server and one recording at a time for every client."""

from __future__ import annotations

import base64
import json
import ssl
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest
import trustme

from tests.contracts.clients.drivers import DRIVERS
from tests.contracts.clients.features import write_table
from tests.support.server import Answer, Seen, Server, serving
from tests.support.taps import Taps, patched

T = TypeVar("T")


_RESULTS: pytest.StashKey[dict[tuple[str, str], bool]] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--clients-table", metavar="PAGE", help="write what this suite found into the table of a page")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_RESULTS] = {}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Function, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    mark = item.get_closest_marker("client_feature")
    if mark is not None and (report.when == "call" or report.failed):
        params = item.callspec.params
        cell = (params["name"] if "name" in params else params["driver"].name, mark.args[0])
        results = item.config.stash[_RESULTS]
        results[cell] = report.passed and results.get(cell, True)
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    page = session.config.getoption("--clients-table", default=None)
    if page:
        write_table(Path(page), session.config.stash[_RESULTS])


def echo(seen: Seen) -> Answer:
    """Say what has come, so that what a client got shows what was sent."""
    said = {
        "method": seen.method,
        "path": seen.path,
        "type": seen.headers.get("content-type", ""),
        "cookie": seen.headers.get("cookie", ""),
        "body": base64.b64encode(seen.body).decode(),
    }
    return Answer(body=json.dumps(said).encode())


class Speaker:
    """Answers as it was told last."""

    def __init__(self) -> None:
        self.respond: Callable[[Seen], Answer] = echo

    def __call__(self, seen: Seen) -> Answer:
        return self.respond(seen)


@dataclass
class Case:
    """A server that answers as told, and a recording of what a client asks it."""

    server: Server
    speaker: Speaker
    taps: Taps
    path: Path

    @property
    def url(self) -> str:
        """Where the server is."""
        return self.server.url

    def answer(self, respond: Callable[[Seen], Answer] | Answer) -> None:
        """Answer from here on by a function, or always alike."""
        self.speaker.respond = respond if callable(respond) else lambda seen: respond

    def record(self, act: Callable[[], T]) -> T:
        """Return what comes of ``act`` while it is recorded."""
        self.server.seen.clear()
        return self.taps.record(self.path, act)

    def replay(self, act: Callable[[], T], **settings: Any) -> T:
        """Return what comes of ``act`` in replay, which must not reach the server."""
        before = self.server.connections, len(self.server.seen)
        replayed = self.taps.replay(self.path, act, **settings)
        assert (self.server.connections, len(self.server.seen)) == before
        return replayed

    def both(self, act: Callable[[], T]) -> tuple[T, T]:
        """Return what comes of ``act`` while it is recorded, and in replay."""
        return self.record(act), self.replay(act)


@pytest.fixture(scope="module")
def taps() -> Iterator[Taps]:
    with patched() as installed:
        yield installed


@pytest.fixture(scope="module")
def plain() -> Iterator[tuple[Server, Speaker]]:
    speaker = Speaker()
    with serving(speaker) as server:
        yield server, speaker


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="session")
def tls(authority: trustme.CA) -> ssl.SSLContext:
    """A context with a certificate for this machine."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1", "localhost").configure_cert(context)
    return context


@pytest.fixture(scope="module")
def secure(tls: ssl.SSLContext) -> Iterator[tuple[Server, Speaker]]:
    speaker = Speaker()
    with serving(speaker, tls=tls) as server:
        yield server, speaker


@pytest.fixture
def trust(authority: trustme.CA, tmp_path: Path) -> Iterator[None]:
    """Make every client trust the authority."""
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    for driver in DRIVERS.values():
        driver.ca = str(tmp_path / "ca.pem")
    yield
    for driver in DRIVERS.values():
        driver.ca = None


@pytest.fixture(autouse=True)
def no_surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the proxies and the certificates of the machine out."""
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture
def case(taps: Taps, plain: tuple[Server, Speaker], tmp_path: Path) -> Case:
    server, speaker = plain
    speaker.respond = echo
    return Case(server, speaker, taps, tmp_path / "recorded.jsonl")


@pytest.fixture
def https(taps: Taps, secure: tuple[Server, Speaker], tmp_path: Path, trust: None) -> Case:
    server, speaker = secure
    speaker.respond = echo
    return Case(server, speaker, taps, tmp_path / "recorded.jsonl")
