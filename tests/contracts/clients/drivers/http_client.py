"""http.client, and urllib.request, which sits on it."""

from __future__ import annotations

import http.client
import http.cookiejar
import io
import json
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tests.contracts.clients.drivers.driver import NO_TLS, Ask, Driver, Got, pieces

__all__ = ["DRIVERS"]


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
            return pieces(_FILE_WAYS[way](response), most)


class UrllibRequest(Driver):
    """urllib.request, which sits on http.client."""

    name = "urllib.request"
    decodes = False
    cannot: Mapping[str, str] = {"HTTP/2": "urllib.request has none", "multipart": "urllib.request builds none"}

    def _opener(self) -> tuple[urllib.request.OpenerDirector, http.cookiejar.CookieJar]:
        jar = http.cookiejar.CookieJar()
        context = ssl.create_default_context(cafile=self.ca) if self.ca else NO_TLS
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
            return pieces(_FILE_WAYS[way](response), most)


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


DRIVERS: tuple[Driver, ...] = (HttpClient(), UrllibRequest())
