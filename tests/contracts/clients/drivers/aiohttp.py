"""aiohttp."""

from __future__ import annotations

import asyncio
import io
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from tests.contracts.clients.drivers.driver import NO_TLS, Ask, Driver, Got, async_blocks, async_pieces

__all__ = ["DRIVERS"]


class Aiohttp(Driver):
    """aiohttp."""

    name = "aiohttp"
    is_sync = False
    cannot: Mapping[str, str] = {"HTTP/2": "aiohttp has none"}

    @asynccontextmanager
    async def _session(self, ask: Ask) -> AsyncIterator[aiohttp.ClientSession]:
        context = ssl.create_default_context(cafile=self.ca) if self.ca else NO_TLS
        timeout = aiohttp.ClientTimeout(total=None, sock_read=ask.timeout, sock_connect=ask.timeout)
        jar = aiohttp.CookieJar(unsafe=True)  # which keeps cookies of addresses
        connector = aiohttp.TCPConnector(ssl=context)
        async with aiohttp.ClientSession(
            connector=connector, timeout=timeout, cookie_jar=jar, trust_env=True
        ) as session:
            yield session

    def _options(self, ask: Ask) -> dict[str, Any]:
        data: Any = ask.form or ask.content
        if ask.files is not None:
            data = aiohttp.FormData()
            for key, (name, content) in ask.files.items():
                data.add_field(key, io.BytesIO(content), filename=name)
        if ask.blocks is not None:
            data = async_blocks(ask.blocks)
        if ask.file is not None:
            data = io.BytesIO(ask.file)
        return {"headers": dict(ask.headers), "json": ask.json, "data": data}

    def ask(self, *asks: Ask) -> list[Got]:
        async def main() -> list[Got]:
            got = []
            async with self._session(asks[0]) as session:
                for ask in asks:
                    async with session.request(ask.method, ask.url, **self._options(ask)) as response:
                        body = await response.read()
                        cookies = {cookie.key: cookie.value for cookie in session.cookie_jar}
                        headers = {key.lower(): value for key, value in response.headers.items()}
                        got.append(Got(response.status, headers, body, str(response.url), cookies))
            return got

        return asyncio.run(main())

    def stream(self, ask: Ask, *, most: int | None = None, way: str = "iter_any") -> list[tuple[float, bytes]]:
        async def main() -> list[tuple[float, bytes]]:
            async with (
                self._session(ask) as session,
                session.request(ask.method, ask.url, **self._options(ask)) as response,
            ):
                return await async_pieces(_AIOHTTP_WAYS[way](response.content), most)

        return asyncio.run(main())


async def _until_empty(read: Callable[[], Any]) -> AsyncIterator[bytes]:
    while data := await read():
        yield data


async def _until_at_eof(content: Any) -> AsyncIterator[bytes]:
    while not content.at_eof():
        yield await content.readline()


async def _chunks(content: Any) -> AsyncIterator[bytes]:
    async for chunk, _ in content.iter_chunks():
        yield chunk


_AIOHTTP_WAYS: Mapping[str, Callable[[Any], AsyncIterator[bytes]]] = {
    "iter_any": lambda content: content.iter_any(),
    "iter_chunks": _chunks,
    "iter_chunked": lambda content: content.iter_chunked(16),
    "readline": lambda content: _until_empty(content.readline),
    "readline until at_eof": _until_at_eof,
    "readuntil": lambda content: _until_empty(lambda: content.readuntil(b"\n\n")),
    "readany": lambda content: _until_empty(content.readany),
}


DRIVERS: tuple[Driver, ...] = (Aiohttp(),)
