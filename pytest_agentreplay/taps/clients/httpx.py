"""httpx, and httpx2, its interoperable successor: caught at the transport, sync and async.

While recording, chunks reach the agent as they come and are kept beside; in replay the recorded answer is delivered in
the recorded cuts.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from types import ModuleType
from typing import Any, NamedTuple

from pytest_agentreplay.records import TransportError
from pytest_agentreplay.taps.exchange import Answered, Exchanges, Fail, Recorder, Sent
from pytest_agentreplay.taps.failures import Kind

__all__ = ["Answers", "answers_of", "tap_httpx"]

_KINDS: Mapping[str, Kind] = {
    "ConnectError": "connect",
    "ConnectTimeout": "connect-timeout",
    "ReadTimeout": "read-timeout",
    "WriteTimeout": "write-timeout",
    "PoolTimeout": "pool-timeout",
    "TimeoutException": "timeout",
    "NetworkError": "reset",
    "ProxyError": "proxy",
    "ProtocolError": "protocol",
}
# The same class says that no answer came, and that one broke off.
_KINDS_BY_PHASE: Mapping[str, Mapping[str, Kind]] = {
    "connect": {**_KINDS, "RemoteProtocolError": "disconnected"},
    "body": {**_KINDS, "RemoteProtocolError": "cut"},
}
_CLASSES: Mapping[str, str] = {
    "refused": "ConnectError",
    "dns": "ConnectError",
    "tls": "ConnectError",
    "certificate": "ConnectError",
    "connect": "ConnectError",
    "connect-timeout": "ConnectTimeout",
    "read-timeout": "ReadTimeout",
    "write-timeout": "WriteTimeout",
    "pool-timeout": "PoolTimeout",
    "timeout": "ReadTimeout",
    "reset": "ReadError",
    "disconnected": "RemoteProtocolError",
    "cut": "RemoteProtocolError",
    "short": "RemoteProtocolError",
    "proxy": "ProxyError",
    "protocol": "RemoteProtocolError",
}


def tap_httpx(client: ModuleType, exchanges: Exchanges) -> Iterator[tuple[type, str, Callable[..., Any]]]:
    """Yield what stands in for the transports of httpx or httpx2."""
    tap = _Tap(client, exchanges)
    sync, asynchronous = client.HTTPTransport, client.AsyncHTTPTransport
    yield sync, "handle_request", tap.wrap(sync.handle_request)
    yield asynchronous, "handle_async_request", tap.wrap_async(asynchronous.handle_async_request)


class Answers(NamedTuple):
    """A transport's two methods, as functions of the transport and the request."""

    handle_request: Callable[[Any, Any], Any]
    handle_async_request: Callable[[Any, Any], Awaitable[Any]]


def answers_of(client: ModuleType, exchanges: Exchanges) -> Answers:
    """Return the methods of a transport of httpx or httpx2 that answers from recordings alone."""
    tap = _Tap(client, exchanges)
    return Answers(tap.wrap(_refuse), tap.wrap_async(_refuse_async))


def _refuse(transport: Any, request: Any) -> Any:
    raise AssertionError(f"{request.method} {request.url} would be made live by {transport!r}")


async def _refuse_async(transport: Any, request: Any) -> Any:
    _refuse(transport, request)


class _Tap:
    """The tap of one of the two libraries."""

    def __init__(self, client: ModuleType, exchanges: Exchanges) -> None:
        self._client = client
        self._exchanges = exchanges
        self._streams = _Streams(client)

    def wrap(self, real: Callable[..., Any]) -> Callable[..., Any]:
        """Return what stands in for the sync transport's method."""

        def handle_request(transport: Any, request: Any) -> Any:
            __tracebackhide__ = True
            if self._exchanges.passes():
                return real(transport, request)
            request.read()
            decision = self._exchanges.decide(_sent(request))
            if isinstance(decision, Answered):
                return self._answer(decision, request)
            with self._exchanges.recorded_by(decision, self._fail):
                response = real(transport, request)
            decision.head(response.status_code, response.headers.multi_items())
            response.stream = self._streams.tee(response.stream, decision, self._fail)
            return response

        return handle_request

    def wrap_async(self, real: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        """Return what stands in for the async transport's method."""

        async def handle_async_request(transport: Any, request: Any) -> Any:
            __tracebackhide__ = True
            if self._exchanges.passes():
                return await real(transport, request)
            await request.aread()
            decision = self._exchanges.decide(_sent(request))
            if isinstance(decision, Answered):
                return self._answer(decision, request)
            with self._exchanges.recorded_by(decision, self._fail):
                response = await real(transport, request)
            decision.head(response.status_code, response.headers.multi_items())
            response.stream = self._streams.async_tee(response.stream, decision, self._fail)
            return response

        return handle_async_request

    def _answer(self, answered: Answered, request: Any) -> Any:
        response = answered.response
        raised = self._exception(answered.error, request) if answered.error is not None else None
        if response is None:
            raise raised or AssertionError(f"a step without an answer: {answered.step.hash}")
        headers = list(response.headers)
        if raised is None and answered.is_whole:
            return self._whole(response.status, headers, content=response.content, request=request)
        stream = self._streams.replayed(answered, raised)
        return self._client.Response(response.status, headers=headers, stream=stream, request=request)

    def _whole(self, status: int, headers: list[tuple[str, str]], *, content: bytes, request: Any) -> Any:
        """Return an answer that has its content already, and whose stream can be read all the same."""
        response = self._client.Response(status, headers=headers, content=content, request=request)
        response.is_closed = response.is_stream_consumed = False
        return response

    def _fail(self, recorder: Recorder, error: BaseException) -> None:
        kinds = _KINDS_BY_PHASE[recorder.phase]
        recorder.fail(error, failures=self._client.TransportError, client=self._client.__name__, kinds=kinds)

    def _exception(self, error: TransportError, request: Any) -> Exception:
        """Return the exception that this was recorded from, or its nearest kin in this library."""
        named = getattr(self._client, error.class_name, None) if error.client.startswith("httpx") else None
        kind = named or getattr(self._client, _CLASSES.get(error.kind, "TransportError"))
        raised: Exception = kind(error.text, request=request)
        return raised


def _sent(request: Any) -> Sent:
    headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in request.headers.raw]
    return Sent(method=request.method, url=str(request.url), headers=headers, content=request.content)


async def _sleep(seconds: float) -> None:
    """Sleep in whichever event loop this is: anyio comes with httpx."""
    await importlib.import_module("anyio").sleep(seconds)


class _Streams:
    """The streams of one library: recorded pieces, and the tees of a live response, sync and async."""

    def __init__(self, client: ModuleType) -> None:
        self.replayed = _replayed_class(client)
        self.tee = _tee_class(client)
        self.async_tee = _async_tee_class(client)


def _replayed_class(client: Any) -> type[Any]:
    class Replayed(client.SyncByteStream, client.AsyncByteStream):
        def __init__(self, answered: Answered, error: Exception | None) -> None:
            self._answered = answered
            self._error = error

        def __iter__(self) -> Iterator[bytes]:
            for pause, piece in self._answered.paced():
                if pause:
                    time.sleep(pause)
                yield piece
            if self._error is not None:
                raise self._error

        async def __aiter__(self) -> AsyncIterator[bytes]:
            for pause, piece in self._answered.paced():
                if pause:
                    await _sleep(pause)
                yield piece
            if self._error is not None:
                raise self._error

    return Replayed


def _tee_class(client: Any) -> type[Any]:
    class Tee(client.SyncByteStream):
        def __init__(self, live: Any, recorder: Recorder, fail: Fail) -> None:
            self._live = live
            self._recorder = recorder
            self._fail = fail

        def __iter__(self) -> Iterator[bytes]:
            try:
                for chunk in self._live:
                    self._recorder.chunk(chunk)
                    yield chunk
            except GeneratorExit:
                raise
            except BaseException as error:
                self._fail(self._recorder, error)
                raise
            self._recorder.finish()

        def close(self) -> None:
            self._live.close()
            self._recorder.finish(truncated=True)

    return Tee


def _async_tee_class(client: Any) -> type[Any]:
    class AsyncTee(client.AsyncByteStream):
        def __init__(self, live: Any, recorder: Recorder, fail: Fail) -> None:
            self._live = live
            self._recorder = recorder
            self._fail = fail

        async def __aiter__(self) -> AsyncIterator[bytes]:
            try:
                async for chunk in self._live:
                    self._recorder.chunk(chunk)
                    yield chunk
            except GeneratorExit:
                raise
            except BaseException as error:
                self._fail(self._recorder, error)
                raise
            self._recorder.finish()

        async def aclose(self) -> None:
            await self._live.aclose()
            self._recorder.finish(truncated=True)

    return AsyncTee
