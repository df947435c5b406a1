"""Replay time of a request, for each HTTP client, over that client's own floor.

A conversation with a window of ten messages of 1 KB: each request has nine messages of the one before it and a new one,
10 KB in all, sent as JSON; each answer is 10 KB of JSON, which is read and parsed.  Timed are 40 requests of one
session of the client, in processor time, which does not count what else the machine is doing.

The floor is the least that the same client needs for the same work without this package: its mock, where it has one
(``MockTransport`` of httpx and httpx2, an adapter of requests that answers from memory), else a server in another
process on loopback, of which only the client's own share of the time counts.

Reach: at most 2.0 times the floor.
"""

from __future__ import annotations

import asyncio
import http.client
import io
import json
import multiprocessing
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import httpx
import httpx2
import requests
import requests.adapters
import urllib3
from _harness import Row, measure, median, print_rows, read_arguments
from botocore.awsrequest import AWSRequest
from botocore.httpsession import URLLib3Session

from pytest_agentreplay.dialects import load_dialects
from pytest_agentreplay.session import open_session
from pytest_agentreplay.settings import Settings
from pytest_agentreplay.taps.http import patch_http_clients
from pytest_agentreplay.taps.owners import Registry

_REQUESTS = 40
_WINDOW = 10
_KB = 1000
_TEXT = "What the customer wrote about the order that came late, and what the policy says. " * 13
_HEADERS = {"content-type": "application/json"}


def bodies() -> list[dict[str, Any]]:
    messages = [{"role": "user", "content": f"{number}: {_TEXT}"[:_KB]} for number in range(_REQUESTS + _WINDOW)]
    return [{"model": "m", "messages": messages[at : at + _WINDOW]} for at in range(_REQUESTS)]


def answer() -> bytes:
    message = {"role": "assistant", "content": (_TEXT * 10)[: 10 * _KB]}
    choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
    return json.dumps({"id": "chatcmpl-1", "object": "chat.completion", "model": "m", "choices": choices}).encode()


BODIES, ANSWER = bodies(), answer()

Hold = Callable[[str], float]  # make all requests of a session, and return the seconds that they took


def timed(ask: Callable[[dict[str, Any]], Any]) -> float:
    started = time.process_time()
    for body in BODIES:
        ask(body)
    return time.process_time() - started


async def timed_async(ask: Callable[[dict[str, Any]], Any]) -> float:
    started = time.process_time()
    for body in BODIES:
        await ask(body)
    return time.process_time() - started


def hold_httpx(library: Any, *, mock: bool = False) -> Hold:
    def respond(_: Any) -> Any:
        return library.Response(200, headers=_HEADERS, content=ANSWER)

    def hold(url: str) -> float:
        with library.Client(verify=False, transport=library.MockTransport(respond) if mock else None) as client:
            return timed(lambda body: client.post(url, json=body).json())

    return hold


def hold_httpx_async(library: Any, *, mock: bool = False) -> Hold:
    def respond(_: Any) -> Any:
        return library.Response(200, headers=_HEADERS, content=ANSWER)

    async def main(url: str) -> float:
        transport = library.MockTransport(respond) if mock else None
        async with library.AsyncClient(verify=False, transport=transport) as client:

            async def ask(body: dict[str, Any]) -> Any:
                return (await client.post(url, json=body)).json()

            return await timed_async(ask)

    return lambda url: asyncio.run(main(url))


class Canned(requests.adapters.HTTPAdapter):
    """An adapter that answers from memory."""

    def send(self, request: Any, **_: Any) -> Any:  # type: ignore[override]
        raw = urllib3.HTTPResponse(io.BytesIO(ANSWER), headers=_HEADERS, status=200, preload_content=False)
        return self.build_response(request, raw)


def hold_requests(*, mock: bool = False) -> Hold:
    def hold(url: str) -> float:
        with requests.Session() as session:
            if mock:
                session.mount("http://", Canned())
            return timed(lambda body: session.post(url, json=body).json())

    return hold


def hold_urllib3(url: str) -> float:
    with urllib3.PoolManager() as pool:
        return timed(lambda body: pool.request("POST", url, json=body).json())


def hold_botocore(url: str) -> float:
    session = URLLib3Session()

    def ask(body: dict[str, Any]) -> Any:
        prepared = AWSRequest("POST", url, headers=_HEADERS, data=json.dumps(body).encode()).prepare()
        return json.loads(session.send(prepared).content)

    try:
        return timed(ask)
    finally:
        session.close()


def hold_http_client(url: str) -> float:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port)

    def ask(body: dict[str, Any]) -> Any:
        connection.request("POST", parts.path, json.dumps(body).encode(), _HEADERS)
        return json.loads(connection.getresponse().read())

    try:
        return timed(ask)
    finally:
        connection.close()


def hold_aiohttp(url: str) -> float:
    async def main() -> float:
        async with aiohttp.ClientSession() as session:

            async def ask(body: dict[str, Any]) -> Any:
                async with session.post(url, json=body) as response:
                    return await response.json()

            return await timed_async(ask)

    return asyncio.run(main())


# Of each client: how it holds a session in replay, and its floor.
CLIENTS: Mapping[str, tuple[Hold, Hold]] = {
    "httpx": (hold_httpx(httpx), hold_httpx(httpx, mock=True)),
    "httpx, async": (hold_httpx_async(httpx), hold_httpx_async(httpx, mock=True)),
    "httpx2": (hold_httpx(httpx2), hold_httpx(httpx2, mock=True)),
    "httpx2, async": (hold_httpx_async(httpx2), hold_httpx_async(httpx2, mock=True)),
    "requests": (hold_requests(), hold_requests(mock=True)),
    "urllib3": (hold_urllib3, hold_urllib3),
    "boto3": (hold_botocore, hold_botocore),
    "aiohttp": (hold_aiohttp, hold_aiohttp),
    "http.client": (hold_http_client, hold_http_client),
}


def _serve(ready: Connection) -> None:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def log_message(self, *_: object) -> None:
            pass

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response_only(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(ANSWER)))
            self.end_headers()
            self.wfile.write(ANSWER)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    ready.send(server.server_port)
    server.serve_forever()


@contextmanager
def serving() -> Iterator[str]:
    """Serve from another process, and give the URL to post to."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs,), daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{ours.recv()}/v1/chat/completions"
    finally:
        process.terminate()
        process.join()


class Replay:
    """A client on a cassette that it recorded."""

    def __init__(self, name: str, hold: Hold, *, url: str, folder: Path) -> None:
        self._path = folder / f"{name}.jsonl"
        self._hold, self._url = hold, url
        self._registry = Registry()
        self._dialects = load_dialects()
        self._in_session("rewrite")

    def __call__(self) -> float:
        return self._in_session("none")

    def _in_session(self, mode: Any) -> float:
        settings = Settings(record_mode=mode)
        session = open_session(name="benchmark", path=self._path, settings=settings, dialects=self._dialects)
        token = self._registry.enter(session)
        try:
            with patch_http_clients(self._registry):
                took = self._hold(self._url)
        finally:
            self._registry.leave(token)
        if session.close(passed=True).exchanges != _REQUESTS:
            raise SystemExit("not every request was recorded or replayed")
        return took


def compare(name: str, *, url: str, folder: Path, rounds: int) -> list[Row]:
    hold, floor = CLIENTS[name]
    contenders = {"replay": Replay(name, hold, url=url, folder=folder), "floor": lambda: floor(url)}
    samples = measure(contenders, rounds=rounds)
    times = {kind: median(found) / _REQUESTS * 1e6 for kind, found in samples.items()}
    return [
        Row(f"replay, {name}", _REQUESTS, times["replay"], "us", times["floor"], 2.0),
        Row(f"floor, {name}", _REQUESTS, times["floor"], "us"),
    ]


def main() -> None:
    arguments = read_arguments(__doc__, rounds=7)
    with serving() as url, tempfile.TemporaryDirectory() as folder:
        rows = [row for name in CLIENTS for row in compare(name, url=url, folder=Path(folder), rounds=arguments.rounds)]
    print_rows(rows, as_json=arguments.json)


if __name__ == "__main__":
    main()
