"""aiohttp: caught where its connector hands out a connection for one request.

Above that stand aiohttp's own redirects, cookies, middlewares and ``raise_for_status``, which so run live in replay
too.  An answer's ``content`` is a reader that pulls: from the live reader, keeping each piece, or from the recording.
"""

from __future__ import annotations

import asyncio
import functools
import http.client
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from types import ModuleType
from typing import Any

from pytest_agentreplay.records import TransportError
from pytest_agentreplay.taps.clients.aiohttp_objects import (
    STATE,
    Pulled,
    PullRecorded,
    connection_class,
    read_body,
    reader_class,
)
from pytest_agentreplay.taps.exchange import Answered, Exchanges, Fail, Recorder, Sent
from pytest_agentreplay.taps.failures import Kind, os_error

__all__ = ["tap_aiohttp"]

_NAME = "aiohttp"
_DECODES = "_agent_replay_decodes"
_KINDS: Mapping[str, Kind] = {
    "ClientConnectorDNSError": "dns",
    "ClientConnectorCertificateError": "certificate",
    "ClientConnectorSSLError": "tls",
    "ClientProxyConnectionError": "proxy",
    "ClientHttpProxyError": "proxy",
    "ClientConnectorError": "connect",
    "ConnectionTimeoutError": "connect-timeout",
    "SocketTimeoutError": "read-timeout",
    "ServerTimeoutError": "read-timeout",
    "TimeoutError": "timeout",
    "ServerDisconnectedError": "disconnected",
    "ClientPayloadError": "cut",
    "ClientOSError": "reset",
    "ClientError": "protocol",
}
_KINDS_OF_CONNECTING: Mapping[str, Kind] = {**_KINDS, "TimeoutError": "connect-timeout"}


def tap_aiohttp(client: ModuleType, exchanges: Exchanges) -> Iterator[tuple[type, str, Callable[..., Any]]]:
    """Yield what stands in for the methods of connectors, protocols and responses; nothing before aiohttp 3.12."""
    if not hasattr(client.ClientRequest, "update_body"):
        return
    connector, protocol, response = client.BaseConnector, client.client_proto.ResponseHandler, client.ClientResponse
    tap = _Tap(client, exchanges)
    yield connector, "connect", tap.wrap_connect(connector.connect)
    yield protocol, "set_response_params", _noting_decoding(protocol.set_response_params)
    yield response, "start", tap.wrap_start(response.start)


class _Teed:
    """What a reader pulls of a live answer, each piece kept; no generator, as :class:`PullRecorded` is none."""

    def __init__(self, live: Any, recorder: Recorder, fail: Fail) -> None:
        self._live = live
        self._recorder = recorder
        self._fail = fail

    def __aiter__(self) -> AsyncIterator[Pulled]:
        return self

    async def __anext__(self) -> Pulled:
        try:
            data, ends_chunk = await self._live.readchunk()
        except BaseException as error:
            self._fail(self._recorder, error)
            raise
        self._recorder.chunk(data)
        is_last = self._live.at_eof()
        if is_last:
            self._recorder.finish()
        return data, ends_chunk, is_last


class _Tap:
    def __init__(self, client: ModuleType, exchanges: Exchanges) -> None:
        self._client = client
        self._exchanges = exchanges
        self._reader = reader_class(client)
        self._connection = connection_class(client)

    def wrap_connect(self, real: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        """Return what stands in for ``BaseConnector.connect``."""

        async def connect(connector: Any, request: Any, *args: Any, **options: Any) -> Any:
            __tracebackhide__ = True
            if self._exchanges.passes():
                return await real(connector, request, *args, **options)
            if request.headers.get("Upgrade", "").lower() == "websocket":
                self._exchanges.reach.check(request.url.host, port=request.url.port, by="aiohttp websocket")
                with self._exchanges.live():
                    return await real(connector, request, *args, **options)
            decision = self._exchanges.decide(await self._sent(request))
            if isinstance(decision, Answered):
                if decision.error is not None and decision.failed_before_sending:
                    raise self._exception(decision.error, request)
                return self._connection(connector, request, decision)
            fail = functools.partial(self._fail, kinds=_KINDS_OF_CONNECTING, timer=request._timer)
            with self._exchanges.recorded_by(decision, fail):
                connection = await real(connector, request, *args, **options)
            connection.__dict__[STATE] = decision
            return connection

        return connect

    async def _sent(self, request: Any) -> Sent:
        content = await read_body(self._client, request)
        return Sent(method=request.method, url=str(request.url), headers=list(request.headers.items()), content=content)

    def wrap_start(self, real: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        """Return what stands in for ``ClientResponse.start``."""

        async def start(response: Any, connection: Any) -> Any:
            __tracebackhide__ = True
            state = connection.__dict__.pop(STATE, None)
            if isinstance(state, Recorder):
                await self._start_live(real, response, connection, recorder=state)
            elif isinstance(state, Answered):
                await self._start_recorded(real, response, connection, answered=state)
            else:
                await real(response, connection)
            return response

        return start

    async def _start_live(
        self, real: Callable[..., Awaitable[Any]], response: Any, connection: Any, *, recorder: Recorder
    ) -> None:
        is_decoded = getattr(connection.protocol, _DECODES, True)
        fail = functools.partial(self._fail, kinds=_KINDS, timer=response._timer)
        try:
            await real(response, connection)
        except BaseException as error:
            fail(recorder, error)
            raise
        recorder.head(response.status, response.headers.items(), is_decoded=is_decoded)
        live = response.content
        if live.at_eof() and not live.total_bytes:
            recorder.finish()
        else:
            response.content = self._reader(_Teed(live, recorder, fail), live, recorder)

    async def _start_recorded(
        self, real: Callable[..., Awaitable[Any]], response: Any, connection: Any, *, answered: Answered
    ) -> None:
        protocol = connection.protocol
        if answered.response is None:
            assert answered.error is not None
            raise self._exception(answered.error, response)
        raised = self._exception(answered.error, response) if answered.error is not None else None
        protocol.message = self._message(answered), self._reader(PullRecorded(answered, raised))
        await real(response, connection)

    def _message(self, answered: Answered) -> Any:
        recorded = answered.response
        assert recorded is not None
        multidict = self._client.client_reqrep
        headers = multidict.CIMultiDictProxy(multidict.CIMultiDict(recorded.headers))
        return self._client.http_parser.RawResponseMessage(
            version=self._client.HttpVersion11,
            code=recorded.status,
            reason=http.client.responses.get(recorded.status, ""),
            headers=headers,
            raw_headers=tuple((name.encode(), value.encode()) for name, value in recorded.headers),
            should_close=False,
            compression=None,
            upgrade=False,
            chunked=len(recorded.cuts) > 1,
        )

    def _fail(self, recorder: Recorder, error: BaseException, *, kinds: Mapping[str, Kind], timer: Any) -> None:
        if isinstance(error, asyncio.CancelledError) and getattr(timer, "_cancelled", False):
            error, kinds = TimeoutError(), _KINDS  # aiohttp's own total timeout, which it tells so from here on
        recorder.fail(error, failures=self._client.ClientError | OSError, client=_NAME, kinds=kinds)

    def _exception(self, error: TransportError, asked: Any) -> Exception:
        """Return the exception that this was recorded from, or its nearest kin here; ``asked`` is what failed."""
        client = self._client
        root = os_error(error.kind, error.text)
        key = getattr(asked, "connection_key", None)
        made: Mapping[str, Callable[[], Exception]] = {
            "refused": lambda: client.ClientConnectorError(key, root),
            "connect": lambda: client.ClientConnectorError(key, root),
            "dns": lambda: client.ClientConnectorDNSError(key, root),
            "tls": lambda: client.ClientConnectorSSLError(key, root),
            "certificate": lambda: client.ClientConnectorCertificateError(key, root),
            "proxy": lambda: client.ClientProxyConnectionError(key, OSError(error.text)),
            "connect-timeout": TimeoutError,  # aiohttp itself makes a ConnectionTimeoutError of it
            "timeout": TimeoutError,
            "read-timeout": lambda: client.SocketTimeoutError("Timeout on reading data from socket"),
            "write-timeout": lambda: client.SocketTimeoutError("Timeout on reading data from socket"),
            "pool-timeout": lambda: client.SocketTimeoutError("Timeout on reading data from socket"),
            "reset": lambda: client.ClientOSError(*root.args),
            "disconnected": client.ServerDisconnectedError,
            "cut": lambda: client.ClientPayloadError(error.text),
            "short": lambda: client.ClientPayloadError(error.text),
        }
        make = made.get(error.kind)
        return make() if make is not None else client.ClientConnectionError(error.text)


def _noting_decoding(real: Callable[..., Any]) -> Callable[..., Any]:
    """Return what stands in for ``set_response_params``: it notes whether answers reach the reader decoded."""

    def set_response_params(protocol: Any, **params: Any) -> Any:
        protocol.__dict__[_DECODES] = params.get("auto_decompress", True)
        return real(protocol, **params)

    return set_response_params
