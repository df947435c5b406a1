"""urllib3, and what sits on it: requests, and the HTTP session of boto3."""

from __future__ import annotations

import io
import json
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import botocore.utils
import requests
import urllib3
from botocore.awsrequest import AWSRequest
from botocore.httpsession import URLLib3Session

from tests.contracts.clients.drivers.driver import Ask, Driver, Got, pieces

__all__ = ["DRIVERS"]


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
            return pieces(_REQUESTS_WAYS[way](response), most)


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
                return pieces(_URLLIB3_WAYS[way](response), most)
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
            return pieces(response.raw.stream(), most)
        finally:
            response.raw.close()
            session.close()


DRIVERS: tuple[Driver, ...] = (Requests(), Urllib3(), Botocore())
