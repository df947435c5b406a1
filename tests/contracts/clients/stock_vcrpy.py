"""What vcrpy does as it comes, in a process of its own: some of what it patches it does not put back.

``python -m tests.contracts.clients.stock_vcrpy URL FOLDER`` asks the server at URL, one fault after the other, and
prints what was found as JSON.  The ways to ask are those that the tests of this package use too.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import threading
import time
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import aiohttp
import httpx
import requests
import vcr


def first_piece_after(url: str) -> float:
    """Return how long the first piece of a stream takes to reach the agent, in seconds."""
    with httpx.Client(verify=False) as client:
        started = time.monotonic()
        with client.stream("POST", f"{url}/stream") as response:
            next(response.iter_bytes())
            return time.monotonic() - started


def ask_in_threads(url: str) -> int:
    """Ask 64 requests in 8 threads, and return how many were answered."""

    def ask(number: int) -> bool:
        with contextlib.suppress(Exception):
            return requests.post(f"{url}/{number}", json={"number": number}).ok
        return False

    with ThreadPoolExecutor(8) as pool:
        return sum(pool.map(ask, range(64)))


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


def start_late(act: Callable[[], object]) -> tuple[threading.Event, threading.Thread, list[BaseException]]:
    """Return a thread that acts when it is told to, and what it ran into."""
    go, errors = threading.Event(), list[BaseException]()

    def run() -> None:
        go.wait(5)
        try:
            act()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return go, thread, errors


class Stock:
    """vcrpy with one cassette around the code, as its users use it."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.folder = folder

    def cassette(self, name: str, mode: str) -> Any:
        return vcr.VCR(record_mode=mode).use_cassette(str(self.folder / f"{name}.yaml"))

    def reached(self) -> int:
        """Return how many requests have reached the server, this one left out; vcrpy's patches are out here."""
        with urllib.request.urlopen(f"{self.url}/count") as response:
            return int(response.read())

    def streams(self) -> dict[str, Any]:
        with self.cassette("stream", "once"):
            return {"first piece after": first_piece_after(self.url)}

    def redirects(self) -> dict[str, Any]:
        with self.cassette("redirect", "once"):
            live = follow_a_redirect(self.url)
        replayed = None
        with self.cassette("redirect", "none"), contextlib.suppress(Exception):
            replayed = follow_a_redirect(self.url)
        return {"live": live, "replayed": replayed}

    def late_thread(self) -> dict[str, Any]:
        with self.cassette("late", "once"):
            httpx.get(f"{self.url}/something else")
        before = self.reached()
        with self.cassette("late", "none"):
            go, thread, errors = start_late(lambda: httpx.get(f"{self.url}/late"))
        go.set()
        thread.join()
        return {"escaped": self.reached() - before, "errors": list(map(repr, errors))}

    def two_cassettes(self) -> dict[str, Any]:
        inside, done = threading.Barrier(2, timeout=5), threading.Barrier(2, timeout=5)
        counts = {}

        def record(name: str) -> None:
            with self.cassette(name, "once") as cassette:
                inside.wait()
                httpx.get(f"{self.url}/{name}")
                done.wait()
            counts[name] = len(cassette)

        with ThreadPoolExecutor(2) as pool:
            list(pool.map(record, ["one", "two"]))
        return {"recorded": sorted(counts.values())}

    def threads(self) -> dict[str, Any]:
        with self.cassette("threads", "once") as cassette:
            answered = ask_in_threads(self.url)
        before = self.reached()
        with self.cassette("threads", "none"):
            ask_in_threads(self.url)
        return {"answered": answered, "recorded": len(cassette), "escaped": self.reached() - before}


def main() -> None:
    url, folder = sys.argv[1:]
    stock = Stock(url, Path(folder))
    found = (stock.streams, stock.redirects, stock.late_thread, stock.two_cassettes, stock.threads)
    print(json.dumps({find.__name__: find() for find in found}))


if __name__ == "__main__":
    main()
