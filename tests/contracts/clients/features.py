"""What every client is held to, feature by feature, and the table that the documentation shows of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from tests.contracts.clients.drivers import DRIVERS, Driver

__all__ = ["FEATURES", "all_passed", "every_client", "render_table", "write_table"]

BEGIN = "<!-- written by scripts/clients-table -->"
END = "<!-- end -->"

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


def every_client(feature: str) -> pytest.MarkDecorator:
    """Run a test with each client that has a feature."""
    assert feature in FEATURES, feature
    having = [driver for driver in DRIVERS.values() if has(driver, feature)]
    params = [pytest.param(driver, id=driver.name, marks=pytest.mark.client_feature(feature)) for driver in having]
    return pytest.mark.parametrize("driver", params)


def render_table(results: Mapping[tuple[str, str], bool]) -> str:
    """Return the tables of the page in Markdown: of each client and feature whether its tests passed."""
    reasons: list[str] = []
    rows = [["client", *FEATURES], ["---"] * (len(FEATURES) + 1)]
    rows += [
        [f"**{driver.name}**", *(_cell(driver, feature, results, reasons) for feature in FEATURES)]
        for driver in DRIVERS.values()
    ]
    notes = [f"{number}. {reason}" for number, reason in enumerate(reasons, 1)]
    words = [["feature", "what is tested"], ["---", "---"], *([name, text] for name, text in FEATURES.items())]
    return "\n\n".join([_as_markdown(rows), "\n".join(notes), _as_markdown(words)])


def all_passed() -> Mapping[tuple[str, str], bool]:
    """Return the results of a run in which every test passed."""
    cells = ((driver, feature) for driver in DRIVERS.values() for feature in FEATURES)
    return {(driver.name, feature): True for driver, feature in cells if has(driver, feature)}


def write_table(page: Path, results: Mapping[tuple[str, str], bool]) -> None:
    """Put the tables of some results in their place on the page."""
    before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text(f"{before}{BEGIN}\n\n{render_table(results)}\n\n{END}{after}", encoding="utf-8")


def has(driver: Driver, feature: str) -> bool:
    """Return whether a client has a feature."""
    return feature not in driver.cannot


def _cell(driver: Driver, feature: str, results: Mapping[tuple[str, str], bool], reasons: list[str]) -> str:
    reason = driver.cannot.get(feature)
    if reason is not None:
        reasons += [] if reason in reasons else [reason]
        return f"no ({reasons.index(reason) + 1})"
    return {True: "yes", False: "**fails**", None: "untested"}[results.get((driver.name, feature))]


def _as_markdown(rows: Iterable[Iterable[str]]) -> str:
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)
