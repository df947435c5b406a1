"""What every client is held to, feature by feature, and the table that the documentation shows of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pytest

from tests.contracts.clients.drivers import DRIVERS, Driver

__all__ = ["FEATURES", "every_client", "render_table"]

# What a cell of the table stands for, in the words of the page.
FEATURES: Mapping[str, str] = {
    "bodies": "JSON, form, bytes, an open file, none",
    "iterators": "a body that an iterator gives, an async one where the client is async",
    "multipart": "files in a multipart body",
    "encodings": "answers in gzip, deflate, br and zstd; a request in gzip",
    "statuses": "204, 304, 4xx, 5xx, HEAD",
    "redirects": "301, 302, 303, 307, 308",
    "cookies": "cookies of an answer, kept by name",
    "HTTPS": "HTTPS with a certificate of one's own",
    "HTTP/2": "HTTP/2",
    "proxies": "a proxy named by the environment, for HTTP and HTTPS",
    "streams": "pieces as they come while recording, the recorded pieces in replay, by every way to read",
    "early close": "closing a stream early, kept as `truncated`",
    "pace": "the recorded timing on request",
    "failures": "refused, DNS, TLS, connect and read timeout, reset, a cut answer: the same class again",
    "threads": "right answers in 8 threads, no connection in replay",
    "other clients": "a recording of any other client answers it, a failure too",
}


def every_client(feature: str, *, sync: bool = False) -> pytest.MarkDecorator:
    """Run a test with each client that has a feature; with ``sync`` only those that threads can share."""
    assert feature in FEATURES, feature
    having = [driver for driver in DRIVERS.values() if feature not in driver.cannot and (driver.is_sync or not sync)]
    params = [pytest.param(driver, id=driver.name, marks=pytest.mark.client_feature(feature)) for driver in having]
    return pytest.mark.parametrize("driver", params)


def render_table(failed: Iterable[tuple[str, str]] = ()) -> str:
    """Return the table of clients and features in Markdown; ``failed`` are the cells in which a test has failed."""
    faulty = set(failed)
    notes: list[str] = []
    rows = [["client", *FEATURES], ["---"] * (len(FEATURES) + 1)]
    rows += [
        [f"**{driver.name}**", *(_cell(driver, feature, faulty, notes) for feature in FEATURES)]
        for driver in DRIVERS.values()
    ]
    table = "\n".join("| " + " | ".join(row) + " |" for row in rows)
    reasons = "\n".join(f"{number}. {note}" for number, note in enumerate(notes, 1))
    return f"{table}\n\n{reasons}\n"


def _cell(driver: Driver, feature: str, faulty: set[tuple[str, str]], notes: list[str]) -> str:
    if (driver.name, feature) in faulty:
        return "**fails**"
    reason: Any = driver.cannot.get(feature)
    if reason is None:
        return "yes"
    if reason not in notes:
        notes.append(reason)
    return f"no ({notes.index(reason) + 1})"


def explain_features() -> Sequence[str]:
    """Return a line of the page for each feature."""
    return [f"| {name} | {words} |" for name, words in FEATURES.items()]
