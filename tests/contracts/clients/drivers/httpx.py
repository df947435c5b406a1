"""httpx and httpx2, sync and async, and httpx over aiohttp."""

from __future__ import annotations

import asyncio
import io
import ssl
from collections.abc import Mapping
from typing import Any

import httpx
import httpx2
import httpx_aiohttp

from tests.contracts.clients.drivers.driver import NO_TLS, Ask, Driver, Got, async_blocks, async_pieces, pieces

__all__ = ["DRIVERS"]


class Httpx(Driver):
    """httpx, or httpx2."""

    def __init__(self, library: Any) -> None:
        super().__init__()
        self.library = library
        self.name = library.__name__

    def _verify(self) -> Any:
        return ssl.create_default_context(cafile=self.ca) if self.ca else NO_TLS

    def _client(self, **options: Any) -> Any:
        return self.library.Client(verify=self._verify(), **options)

    def _options(self, ask: Ask, blocks: Any) -> dict[str, Any]:
        files = {key: (name, io.BytesIO(data)) for key, (name, data) in (ask.files or {}).items()}
        content = io.BytesIO(ask.file) if ask.file is not None else blocks if blocks is not None else ask.content
        bodies = {"json": ask.json, "data": ask.form, "files": files or None, "content": content}
        return {"headers": dict(ask.headers), **{key: body for key, body in bodies.items() if body is not None}}

    def _got(self, response: Any) -> Got:
        cookies = dict(response.cookies.items())
        return Got(response.status_code, dict(response.headers), response.content, str(response.url), cookies)

    def ask(self, *asks: Ask) -> list[Got]:
        with self._client(follow_redirects=True, timeout=asks[0].timeout, http2=asks[0].http2) as client:
            return [
                self._got(client.request(ask.method, ask.url, **self._options(ask, ask.blocks and iter(ask.blocks))))
                for ask in asks
            ]

    def stream(self, ask: Ask, *, most: int | None = None, way: str = "iter_bytes") -> list[tuple[float, bytes]]:
        with self._client() as client, client.stream(ask.method, ask.url, **self._options(ask, None)) as response:
            return pieces(getattr(response, way)(), most)


class HttpxAsync(Httpx):
    """The async client of either."""

    is_sync = False

    def __init__(self, library: Any) -> None:
        super().__init__(library)
        self.name = f"{library.__name__}, async"

    def _client(self, **options: Any) -> Any:
        return self.library.AsyncClient(verify=self._verify(), **options)

    def _options(self, ask: Ask, blocks: Any) -> dict[str, Any]:
        options = super()._options(ask, blocks)
        if ask.file is not None:
            options["content"] = async_blocks([ask.file])
        return options

    def ask(self, *asks: Ask) -> list[Got]:
        async def main() -> list[Got]:
            async with self._client(follow_redirects=True, timeout=asks[0].timeout, http2=asks[0].http2) as client:
                got = []
                for ask in asks:
                    blocks = async_blocks(ask.blocks) if ask.blocks is not None else None
                    got.append(self._got(await client.request(ask.method, ask.url, **self._options(ask, blocks))))
                return got

        return asyncio.run(main())

    def stream(self, ask: Ask, *, most: int | None = None, way: str = "aiter_bytes") -> list[tuple[float, bytes]]:
        async def main() -> list[tuple[float, bytes]]:
            async with (
                self._client() as client,
                client.stream(ask.method, ask.url, **self._options(ask, None)) as response,
            ):
                return await async_pieces(getattr(response, way)(), most)

        return asyncio.run(main())


class HttpxAiohttp(HttpxAsync):
    """httpx over aiohttp, as litellm uses it."""

    cannot: Mapping[str, str] = {"HTTP/2": "aiohttp has none"}

    def __init__(self) -> None:
        super().__init__(httpx)
        self.name = "httpx-aiohttp"

    def _client(self, *, http2: bool = False, **options: Any) -> Any:
        return httpx_aiohttp.HttpxAiohttpClient(verify=self._verify(), http2=http2, **options)


DRIVERS: tuple[Driver, ...] = (Httpx(httpx), HttpxAsync(httpx), Httpx(httpx2), HttpxAsync(httpx2), HttpxAiohttp())
