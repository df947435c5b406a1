"""Every client that is caught, driven in one way: what to ask, and what came of it."""

from __future__ import annotations

import asyncio
import http.client
import http.cookiejar
import io
import json
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import botocore.utils
import httpx
import httpx2
import httpx_aiohttp
import requests
import urllib3
from botocore.awsrequest import AWSRequest
from botocore.httpsession import URLLib3Session

__all__ = ["DRIVERS", "Ask", "Driver", "Got"]


@dataclass(frozen=True)
class Ask:
    """One request.  At most one of the bodies is given; ``blocks`` are sent by the client's own kind of iterator."""

    url: str
    method: str = "GET"
    json: Any = None
    form: Mapping[str, str] | None = None
    files: Mapping[str, tuple[str, bytes]] | None = None
    content: bytes | None = None
    blocks: Sequence[bytes] | None = None
    file: bytes | None = None  # sent as an open file
    headers: Mapping[str, str] = field(default_factory=dict)
    timeout: float = 5.0
    http2: bool = False


@dataclass(frozen=True)
class Got:
    """One answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    url: str = ""
    cookies: Mapping[str, str] = field(default_factory=dict)


class Driver:
    """One client.  A subclass asks in one session of its client, and reads streams piece by piece."""

    name = ""
    decodes = True  # whether answers are decoded for whoever asks
    is_sync = True
    cannot: Mapping[str, str] = {}  # features that the client itself does not have, and why

    def __init__(self) -> None:
        self.ca: str | None = None

    def ask(self, *asks: Ask) -> list[Got]:
        """Ask one after the other, in one session."""
        raise NotImplementedError

    def stream(self, ask: Ask, *, most: int | None = None, way: str = "") -> list[tuple[float, bytes]]:
        """Return the pieces of an answer with their times, and close it after so many."""
        raise NotImplementedError

    def failure(self, ask: Ask) -> Exception:
        """Return what a request fails with."""
        try:
            got = self.ask(ask)
        except AssertionError:
            raise
        except Exception as error:
            return error
        raise AssertionError(f"no failure: {got}")

    def __repr__(self) -> str:
        return self.name


def _pieces(found: Iterator[bytes], most: int | None) -> list[tuple[float, bytes]]:
    kept: list[tuple[float, bytes]] = []
    for piece in found:
        if piece:
            kept.append((time.monotonic(), piece))
        if len(kept) == most:
            break
    return kept


async def _async_pieces(found: AsyncIterator[bytes], most: int | None) -> list[tuple[float, bytes]]:
    kept: list[tuple[float, bytes]] = []
    async for piece in found:
        if piece:
            kept.append((time.monotonic(), piece))
        if len(kept) == most:
            break
    return kept


async def _async_blocks(blocks: Sequence[bytes]) -> AsyncIterator[bytes]:
    for block in blocks:
        yield block


class Httpx(Driver):
    """httpx, or httpx2."""

    def __init__(self, library: Any) -> None:
        super().__init__()
        self.library = library
        self.name = library.__name__

    def _verify(self) -> Any:
        return ssl.create_default_context(cafile=self.ca) if self.ca else _NO_TLS

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
            return _pieces(getattr(response, way)(), most)


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
            options["content"] = _async_blocks([ask.file])
        return options

    def ask(self, *asks: Ask) -> list[Got]:
        async def main() -> list[Got]:
            async with self._client(follow_redirects=True, timeout=asks[0].timeout, http2=asks[0].http2) as client:
                got = []
                for ask in asks:
                    blocks = _async_blocks(ask.blocks) if ask.blocks is not None else None
                    got.append(self._got(await client.request(ask.method, ask.url, **self._options(ask, blocks))))
                return got

        return asyncio.run(main())

    def stream(self, ask: Ask, *, most: int | None = None, way: str = "aiter_bytes") -> list[tuple[float, bytes]]:
        async def main() -> list[tuple[float, bytes]]:
            async with (
                self._client() as client,
                client.stream(ask.method, ask.url, **self._options(ask, None)) as response,
            ):
                return await _async_pieces(getattr(response, way)(), most)

        return asyncio.run(main())


class HttpxAiohttp(HttpxAsync):
    """httpx over aiohttp, as litellm uses it."""

    cannot: Mapping[str, str] = {"HTTP/2": "aiohttp has none"}

    def __init__(self) -> None:
        super().__init__(httpx)
        self.name = "httpx-aiohttp"

    def _client(self, *, http2: bool = False, **options: Any) -> Any:
        return httpx_aiohttp.HttpxAiohttpClient(verify=self._verify(), http2=http2, **options)


class Requests(Driver):
    """requests."""

    name = "requests"
    cannot: Mapping[str, str] = {"HTTP/2": "requests has none"}

    @contextmanager
    def _session(self) -> Iterator[requests.Session]:
        with requests.Session() as session:
            if self.ca:
                session.verify = self.ca
            yield session

    def _options(self, ask: Ask) -> dict[str, Any]:
        files = {key: (name, io.BytesIO(data)) for key, (name, data) in (ask.files or {}).items()}
        data: Any = ask.form or ask.content
        if ask.blocks is not None:
            data = iter(ask.blocks)
        elif ask.file is not None:
            data = io.BytesIO(ask.file)
        return {
            "headers": dict(ask.headers),
            "json": ask.json,
            "data": data,
            "files": files or None,
            "timeout": ask.timeout,
        }

    def ask(self, *asks: Ask) -> list[Got]:
        got = []
        with self._session() as session:
            for ask in asks:
                response = session.request(ask.method, ask.url, **self._options(ask))
                cookies = session.cookies.get_dict()
                headers = {key.lower(): value for key, value in response.headers.items()}
                got.append(Got(response.status_code, headers, response.content, response.url, cookies))
        return got

    def stream(self, ask: Ask, *, most: int | None = None, way: str = "iter_content") -> list[tuple[float, bytes]]:
        with (
            self._session() as session,
            session.request(ask.method, ask.url, stream=True, **self._options(ask)) as response,
        ):
            return _pieces(_REQUESTS_WAYS[way](response), most)


_REQUESTS_WAYS: Mapping[str, Callable[[Any], Iterator[bytes]]] = {
    "iter_content": lambda response: response.iter_content(None),
    "iter_content by 16": lambda response: response.iter_content(16),
    "iter_lines": lambda response: response.iter_lines(),
    "raw.stream": lambda response: response.raw.stream(),
    "raw.read1": lambda response: iter(response.raw.read1, b""),
}


class Urllib3(Driver):
    """urllib3."""

    name = "urllib3"
    cannot: Mapping[str, str] = {
        "HTTP/2": "an experiment of urllib3's",
        "cookies": "urllib3 keeps none",
        "proxies": "urllib3 takes none from the environment; requests, above it, does",
    }

    def _pool(self) -> Any:
        return urllib3.PoolManager(ca_certs=self.ca, retries=urllib3.Retry(connect=0, read=0, other=0, redirect=5))

    def _options(self, ask: Ask) -> dict[str, Any]:
        options: dict[str, Any] = {"headers": dict(ask.headers), "timeout": ask.timeout}
        if ask.json is not None:
            return options | {"json": ask.json}
        if ask.form is not None:
            return options | {"fields": dict(ask.form), "encode_multipart": False}
        if ask.files is not None:
            return options | {"fields": dict(ask.files)}
        body = iter(ask.blocks) if ask.blocks is not None else io.BytesIO(ask.file) if ask.file is not None else None
        return options | {"body": ask.content if body is None else body}

    def ask(self, *asks: Ask) -> list[Got]:
        got = []
        with self._pool() as pool:
            for ask in asks:
                response = pool.request(ask.method, ask.url, **self._options(ask))
                headers = {key.lower(): value for key, value in response.headers.items()}
                got.append(Got(response.status, headers, response.data, response.geturl() or ask.url))
        return got

    def stream(self, ask: Ask, *, most: int | None = None, way: str = "stream") -> list[tuple[float, bytes]]:
        with self._pool() as pool:
            response = pool.request(ask.method, ask.url, preload_content=False, **self._options(ask))
            try:
                return _pieces(_URLLIB3_WAYS[way](response), most)
            finally:
                response.close()


_URLLIB3_WAYS: Mapping[str, Callable[[Any], Iterator[bytes]]] = {
    "stream": lambda response: response.stream(),
    "read_chunked": lambda response: response.read_chunked(),
    "read1": lambda response: iter(response.read1, b""),
    "readline": lambda response: iter(response.readline, b""),
    "read by 16": lambda response: iter(lambda: response.read(16), b""),
}


class Botocore(Driver):
    """The HTTP session of boto3."""

    name = "boto3"
    decodes = False
    cannot: Mapping[str, str] = {
        "HTTP/2": "botocore has none",
        "cookies": "botocore keeps none",
        "redirects": "botocore follows none",
        "multipart": "botocore builds none",
        "iterators": "botocore takes bytes and files",
    }

    def _session(self, ask: Ask) -> URLLib3Session:
        proxies = botocore.utils.get_environ_proxies(ask.url)
        return URLLib3Session(verify=self.ca or True, proxies=proxies, timeout=ask.timeout)

    def _prepared(self, ask: Ask, *, stream: bool) -> Any:
        headers, data = dict(ask.headers), ask.content
        if ask.json is not None:
            headers["Content-Type"], data = "application/json", json.dumps(ask.json).encode()
        if ask.form is not None:
            headers["Content-Type"] = "application/x-www-form-urlencoded"
            data = urllib.parse.urlencode(ask.form).encode()
        if ask.file is not None:
            data = io.BytesIO(ask.file)  # type: ignore[assignment]
        return AWSRequest(ask.method, ask.url, headers=headers, data=data, stream_output=stream).prepare()

    def ask(self, *asks: Ask) -> list[Got]:
        got = []
        for ask in asks:
            session = self._session(ask)
            response = session.send(self._prepared(ask, stream=False))
            headers = {key.lower(): value for key, value in response.headers.items()}
            got.append(Got(response.status_code, headers, response.content, ask.url))
            session.close()
        return got

    def stream(self, ask: Ask, *, most: int | None = None, way: str = "raw.stream") -> list[tuple[float, bytes]]:
        session = self._session(ask)
        response = session.send(self._prepared(ask, stream=True))
        try:
            return _pieces(response.raw.stream(), most)
        finally:
            response.raw.close()
            session.close()


class Aiohttp(Driver):
    """aiohttp."""

    name = "aiohttp"
    is_sync = False
    cannot: Mapping[str, str] = {"HTTP/2": "aiohttp has none"}

    @asynccontextmanager
    async def _session(self, ask: Ask) -> AsyncIterator[aiohttp.ClientSession]:
        context = ssl.create_default_context(cafile=self.ca) if self.ca else _NO_TLS
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
            data = _async_blocks(ask.blocks)
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
                return await _async_pieces(_AIOHTTP_WAYS[way](response.content), most)

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


class HttpClient(Driver):
    """http.client, as it is."""

    name = "http.client"
    decodes = False
    cannot: Mapping[str, str] = {
        "HTTP/2": "http.client has none",
        "cookies": "http.client keeps none",
        "redirects": "http.client follows none",
        "multipart": "http.client builds none",
        "proxies": "http.client takes none from the environment; urllib.request, above it, does",
    }

    @contextmanager
    def _asked(self, ask: Ask) -> Iterator[Any]:
        parts = urllib.parse.urlsplit(ask.url)
        assert parts.hostname is not None
        if parts.scheme == "https":
            context = ssl.create_default_context(cafile=self.ca)
            connection: Any = http.client.HTTPSConnection(
                parts.hostname, parts.port, timeout=ask.timeout, context=context
            )
        else:
            connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=ask.timeout)
        try:
            body, headers = _by_hand(ask)
            is_chunked = ask.blocks is not None
            if is_chunked:
                headers["Transfer-Encoding"] = "chunked"
            path = parts.path + (f"?{parts.query}" if parts.query else "")
            connection.request(ask.method, path, body, headers, encode_chunked=is_chunked)
            yield connection.getresponse()
        finally:
            connection.close()

    def ask(self, *asks: Ask) -> list[Got]:
        got = []
        for ask in asks:
            with self._asked(ask) as response:
                headers = {key.lower(): value for key, value in response.headers.items()}
                got.append(Got(response.status, headers, response.read(), ask.url))
        return got

    def stream(self, ask: Ask, *, most: int | None = None, way: str = "read1") -> list[tuple[float, bytes]]:
        with self._asked(ask) as response:
            return _pieces(_FILE_WAYS[way](response), most)


class UrllibRequest(Driver):
    """urllib.request, which sits on http.client."""

    name = "urllib.request"
    decodes = False
    cannot: Mapping[str, str] = {"HTTP/2": "urllib.request has none", "multipart": "urllib.request builds none"}

    def _opener(self) -> tuple[urllib.request.OpenerDirector, http.cookiejar.CookieJar]:
        jar = http.cookiejar.CookieJar()
        context = ssl.create_default_context(cafile=self.ca) if self.ca else _NO_TLS
        handlers = (urllib.request.HTTPSHandler(context=context), urllib.request.HTTPCookieProcessor(jar))
        return urllib.request.build_opener(*handlers), jar

    def _open(self, opener: urllib.request.OpenerDirector, ask: Ask) -> Any:
        body, headers = _by_hand(ask)
        request = urllib.request.Request(ask.url, body, headers, method=ask.method)
        try:
            return opener.open(request, timeout=ask.timeout)
        except urllib.error.HTTPError as error:
            return error

    def ask(self, *asks: Ask) -> list[Got]:
        got = []
        opener, jar = self._opener()
        for ask in asks:
            with self._open(opener, ask) as response:
                headers = {key.lower(): value for key, value in response.headers.items()}
                cookies = {cookie.name: cookie.value or "" for cookie in jar}
                got.append(Got(response.status, headers, response.read(), response.url, cookies))
        return got

    def stream(self, ask: Ask, *, most: int | None = None, way: str = "read1") -> list[tuple[float, bytes]]:
        opener, _ = self._opener()
        with self._open(opener, ask) as response:
            return _pieces(_FILE_WAYS[way](response), most)


def _read_into(response: Any) -> Iterator[bytes]:
    buffer = bytearray(16)
    while count := response.readinto(buffer):
        yield bytes(buffer[:count])


_FILE_WAYS: Mapping[str, Callable[[Any], Iterator[bytes]]] = {
    "read1": lambda response: iter(response.read1, b""),
    "readline": lambda response: iter(response.readline, b""),
    "read by 16": lambda response: iter(lambda: response.read(16), b""),
    "readinto": _read_into,
    "peek": lambda response: iter(lambda: response.read1(len(response.peek()) or 1), b""),
}


def _by_hand(ask: Ask) -> tuple[Any, dict[str, str]]:
    """Return body and headers of a request for clients that leave both to whoever calls them."""
    headers = dict(ask.headers)
    if ask.json is not None:
        return json.dumps(ask.json).encode(), headers | {"Content-Type": "application/json"}
    if ask.form is not None:
        form = urllib.parse.urlencode(ask.form).encode()
        return form, headers | {"Content-Type": "application/x-www-form-urlencoded"}
    if ask.blocks is not None:
        return iter(ask.blocks), headers
    if ask.file is not None:
        return io.BytesIO(ask.file), headers | {"Content-Length": str(len(ask.file))}
    return ask.content, headers


_NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # a client's own takes long to load

DRIVERS: Mapping[str, Driver] = {
    driver.name: driver
    for driver in (
        Httpx(httpx),
        HttpxAsync(httpx),
        Httpx(httpx2),
        HttpxAsync(httpx2),
        HttpxAiohttp(),
        Requests(),
        Urllib3(),
        Botocore(),
        Aiohttp(),
        HttpClient(),
        UrllibRequest(),
    )
}
