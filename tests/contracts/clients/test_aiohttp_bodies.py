"""Bodies that aiohttp alone can send: they arrive whole, though the recorder has read them first."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import os
from collections.abc import AsyncIterator, Callable
from typing import IO, Any

import aiohttp
import pytest

from tests.contracts.clients.conftest import Case, echo
from tests.support.server import Answer
from tests.support.taps import lines_of


def pipe() -> IO[bytes]:
    """Return a file that can be read once."""
    read, write = os.pipe()
    os.write(write, b"one two")
    os.close(write)
    return os.fdopen(read, "rb")


async def generated() -> AsyncIterator[bytes]:
    for piece in (b"one ", b"two"):
        yield piece


def form_of(value: Any) -> aiohttp.FormData:
    form = aiohttp.FormData()
    form.add_field("words", value, filename="words.txt")
    form.add_field("more", "text")
    return form


BODIES: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "a generator in a multipart body": (generated, form_of),
    "a pipe in a multipart body": (pipe, form_of),
    "a file in a multipart body": (lambda: io.BytesIO(b"one two"), form_of),
    "a pipe": (pipe, lambda opened: opened),
    "a text file": (lambda: io.StringIO("one two"), lambda opened: opened),
    "a generator": (generated, lambda opened: opened),
}


@pytest.mark.parametrize("body", BODIES)
def test_a_body_that_is_read_once_arrives_whole_and_is_known_again(case: Case, body: str) -> None:
    make, wrap = BODIES[body]

    def ask() -> Any:
        async def main() -> Any:
            opened = make()
            async with aiohttp.ClientSession() as session, session.post(case.url, data=wrap(opened)) as response:
                said = await response.json()
            if hasattr(opened, "close"):
                opened.close()
            return said

        return asyncio.run(main())

    live, replayed = case.both(ask)

    assert b"one two" in base64.b64decode(live["body"])
    assert replayed == live
    assert len(lines_of(case.path)) == 1


def test_a_body_that_is_sent_on_by_a_redirect_arrives_whole_again(case: Case) -> None:
    case.answer(
        lambda seen: echo(seen) if seen.path == "/landed" else Answer(status=307, headers=(("location", "/landed"),))
    )

    def ask() -> Any:
        async def main() -> Any:
            async with (
                aiohttp.ClientSession() as session,
                session.post(case.url, data=io.BytesIO(b"one two")) as response,
            ):
                return await response.json()

        return asyncio.run(main())

    live, replayed = case.both(ask)

    assert base64.b64decode(live["body"]) == b"one two"
    assert json.dumps(replayed) == json.dumps(live)


def test_a_request_that_aiohttp_compresses_is_known_by_what_is_in_it(case: Case) -> None:
    def ask() -> Any:
        async def main() -> Any:
            async with (
                aiohttp.ClientSession() as session,
                session.post(case.url, json={"a": 1}, compress="deflate") as response,
            ):
                return await response.json()

        return asyncio.run(main())

    live, replayed = case.both(ask)

    assert replayed == live
    [line] = lines_of(case.path)
    assert line["request"]["fields"] == {"a": 1}
