"""Catch the requests of httpx and httpx2, sync and async, for the length of a session.

vcrpy puts the patches in and takes them out (its stock patchers stay off: they buffer whole responses).  A request
that no test owns passes through untouched.  While recording, chunks reach the agent as they come and are kept beside;
in replay the recorded answer is delivered in the recorded cuts, and no connection is made.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from types import ModuleType
from typing import Any, Literal

import vcr
from vcr.patch import PATCHER_NAMES
from vcr.persisters.filesystem import CassetteNotFoundError

from pytest_agentreplay.dialects import StreamEnd
from pytest_agentreplay.divergence import find_call_site
from pytest_agentreplay.payloads import cut
from pytest_agentreplay.player import Player, Serve, Ticket
from pytest_agentreplay.reader import HttpRequest
from pytest_agentreplay.records import ExchangeStep, Response, TransportError
from pytest_agentreplay.taps.owners import Owner, Registry

__all__ = ["patch_http_clients"]

_CLIENTS = ("httpx", "httpx2")

# What belongs to one connection or one moment, not to the answer; encoding and length, because content is kept decoded.
_DROPPED_HEADERS = frozenset(
    {
        "age",
        "alt-svc",
        "cf-cache-status",
        "cf-ray",
        "connection",
        "content-encoding",
        "content-length",
        "date",
        "expect-ct",
        "keep-alive",
        "nel",
        "proxy-connection",
        "report-to",
        "server-timing",
        "strict-transport-security",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "via",
        "x-envoy-upstream-service-time",
    }
)


class _NoFile:
    """A persister for vcrpy's own cassette, which holds nothing."""

    @staticmethod
    def load_cassette(cassette_path: Any, serializer: Any) -> Any:
        raise CassetteNotFoundError(f"{cassette_path} is never read with {serializer}")

    @staticmethod
    def save_cassette(cassette_path: Any, cassette_dict: Any, serializer: Any) -> None:
        raise AssertionError(f"nothing is recorded to {cassette_path}: {cassette_dict!r} {serializer!r}")


def patch_http_clients(registry: Registry) -> AbstractContextManager[Any]:
    """Return the patch of every installed client, to be entered once a session."""
    patcher = vcr.VCR(custom_patches=tuple(_patches(registry)), skip_patchers=PATCHER_NAMES, record_mode="none")
    patcher.register_persister(_NoFile)
    patch: AbstractContextManager[Any] = patcher.use_cassette("agent-replay")
    return patch


def _patches(registry: Registry) -> Iterator[tuple[type, str, Callable[..., Any]]]:
    for name in _CLIENTS:
        if importlib.util.find_spec(name) is not None:
            client = importlib.import_module(name)
            tap = _HttpxTap(client, registry)
            sync, asynchronous = client.HTTPTransport, client.AsyncHTTPTransport
            yield sync, "handle_request", tap.wrap(sync.handle_request)
            yield asynchronous, "handle_async_request", tap.wrap_async(asynchronous.handle_async_request)


class _HttpxTap:
    """The tap of one client library; httpx2 is httpx's interoperable successor, so one tap serves either."""

    def __init__(self, client: ModuleType, registry: Registry) -> None:
        self._client = client
        self._registry = registry
        self._replayed, self._tee, self._async_tee = _stream_classes(client)

    def wrap(self, real: Callable[..., Any]) -> Callable[..., Any]:
        """Return what stands in for the sync transport's method."""

        def handle_request(transport: Any, request: Any) -> Any:
            __tracebackhide__ = True
            if self._registry.concerns_no_one():
                return real(transport, request)
            request.read()
            owner, decision = self._decide(request)
            if isinstance(decision, Serve):
                return self._answer(decision.step, request)
            recorder = _Recorder(self._client, owner.player, decision, request=request)
            try:
                response = real(transport, request)
            except BaseException as error:
                recorder.fail(error, phase="connect")
                raise
            recorder.head(response)
            response.stream = self._tee(response.stream, recorder)
            return response

        return handle_request

    def wrap_async(self, real: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        """Return what stands in for the async transport's method."""

        async def handle_async_request(transport: Any, request: Any) -> Any:
            __tracebackhide__ = True
            if self._registry.concerns_no_one():
                return await real(transport, request)
            await request.aread()
            owner, decision = self._decide(request)
            if isinstance(decision, Serve):
                return self._answer(decision.step, request)
            recorder = _Recorder(self._client, owner.player, decision, request=request)
            try:
                response = await real(transport, request)
            except BaseException as error:
                recorder.fail(error, phase="connect")
                raise
            recorder.head(response)
            response.stream = self._async_tee(response.stream, recorder)
            return response

        return handle_async_request

    def _decide(self, request: Any) -> tuple[Owner, Serve | Ticket]:
        __tracebackhide__ = True
        owner, asked = self._registry.settle(lambda owner: owner.reader.read(_read_request(request, owner)))
        scope = self._registry.scope()
        return owner, owner.player.ask(asked, call_site=find_call_site, lane_name=scope.lane, parent=scope.parent)

    def _answer(self, step: ExchangeStep, request: Any) -> Any:
        response, error = step.response, step.error
        raised = _exception_of(self._client, error, request) if error is not None else None
        if response is None:
            raise raised or AssertionError(f"a step without an answer: {step.hash}")
        pieces = cut(response.content, response.cuts)
        return self._client.Response(
            response.status, headers=list(response.headers), stream=self._replayed(pieces, raised), request=request
        )


def _read_request(request: Any, owner: Owner) -> HttpRequest:
    wanted = owner.reader.wanted_headers
    headers = [
        (name.decode("latin-1"), value.decode("latin-1"))
        for name, value in request.headers.raw
        if name.lower() in wanted
    ]
    return HttpRequest(method=request.method, url=str(request.url), headers=tuple(headers), content=request.content)


def _exception_of(client: ModuleType, error: TransportError, request: Any) -> Exception:
    """Return the exception that the client raised when this was recorded, or its nearest kin in another client."""
    kind = getattr(client, error.class_name, client.TransportError)
    raised: Exception = kind(error.text, request=request)
    return raised


class _Recorder:
    """Keeps what comes of one live call, and hands it to the player once."""

    def __init__(self, client: ModuleType, player: Player, ticket: Ticket, *, request: Any) -> None:
        self._client = client
        self._player = player
        player.clients.add(request.headers.get("user-agent", ""))
        self._ticket = ticket
        self._status = 0
        self._headers: list[tuple[str, str]] = []
        self._is_encoded = False
        self._chunks: list[bytes] = []
        dialect = ticket.asked.dialect
        self._end = StreamEnd(dialect.stream_end) if dialect is not None and dialect.stream_end is not None else None
        self._done = False

    def head(self, response: Any) -> None:
        self._status = response.status_code
        self._headers = list(response.headers.multi_items())
        self._is_encoded = "content-encoding" in response.headers

    def chunk(self, chunk: bytes) -> None:
        """Keep a chunk before the agent gets it; with the last of a stream the answer is complete, and recorded."""
        self._chunks.append(chunk)
        if self._end is not None and not self._is_encoded and self._end.is_in(chunk):
            self.finish()

    def finish(self, *, truncated: bool = False) -> None:
        if not self._done:
            self._done = True
            self._player.complete(self._ticket, response=self._response(truncated=truncated))

    def fail(self, error: BaseException, *, phase: Literal["connect", "body"]) -> None:
        if self._done:
            return
        self._done = True
        if not isinstance(error, self._client.TransportError):
            self._player.abandon(self._ticket)
            return
        failure = TransportError(
            client=self._client.__name__, class_name=type(error).__name__, phase=phase, text=str(error)
        )
        response = self._response(truncated=True) if phase == "body" else None
        self._player.complete(self._ticket, response=response, error=failure)

    def _response(self, *, truncated: bool) -> Response:
        pieces = _decoded(self._client, self._status, self._headers, self._chunks)
        kept = tuple((name.lower(), value) for name, value in self._headers if name.lower() not in _DROPPED_HEADERS)
        return Response(
            status=self._status,
            headers=kept,
            content=b"".join(pieces),
            cuts=tuple(len(piece) for piece in pieces if piece),
            truncated=truncated,
        )


def _decoded(
    client: ModuleType, status: int, headers: Sequence[tuple[str, str]], chunks: Sequence[bytes]
) -> Sequence[bytes]:
    """Undo the content encoding chunk by chunk with the client's own decoders."""
    if not any(name.lower() == "content-encoding" for name, _ in headers):
        return chunks
    pieces: list[bytes] = []
    response = client.Response(status, headers=list(headers), stream=client.ByteStream(b""))
    response.stream = _stream_classes(client)[0](chunks, None)
    with contextlib.suppress(client.DecodingError):  # the agent closed early, in the middle of a compressed block
        pieces.extend(response.iter_bytes())
    return pieces


def _stream_classes(client: ModuleType) -> tuple[type[Any], type[Any], type[Any]]:
    """Return the three streams of a client: recorded pieces, and the tees of a live response, sync and async."""

    class Replayed(client.SyncByteStream, client.AsyncByteStream):  # type: ignore[name-defined]
        def __init__(self, pieces: Sequence[bytes], error: Exception | None) -> None:
            self._pieces = pieces
            self._error = error

        def __iter__(self) -> Iterator[bytes]:
            yield from self._pieces
            if self._error is not None:
                raise self._error

        async def __aiter__(self) -> AsyncIterator[bytes]:
            for piece in self:
                yield piece

    class Tee(client.SyncByteStream):  # type: ignore[name-defined]
        def __init__(self, live: Any, recorder: _Recorder) -> None:
            self._live = live
            self._recorder = recorder

        def __iter__(self) -> Iterator[bytes]:
            try:
                for chunk in self._live:
                    self._recorder.chunk(chunk)
                    yield chunk
            except GeneratorExit:
                raise
            except BaseException as error:
                self._recorder.fail(error, phase="body")
                raise
            self._recorder.finish()

        def close(self) -> None:
            self._live.close()
            self._recorder.finish(truncated=True)

    class AsyncTee(client.AsyncByteStream):  # type: ignore[name-defined]
        def __init__(self, live: Any, recorder: _Recorder) -> None:
            self._live = live
            self._recorder = recorder

        async def __aiter__(self) -> AsyncIterator[bytes]:
            try:
                async for chunk in self._live:
                    self._recorder.chunk(chunk)
                    yield chunk
            except GeneratorExit:
                raise
            except BaseException as error:
                self._recorder.fail(error, phase="body")
                raise
            self._recorder.finish()

        async def aclose(self) -> None:
            await self._live.aclose()
            self._recorder.finish(truncated=True)

    return Replayed, Tee, AsyncTee
