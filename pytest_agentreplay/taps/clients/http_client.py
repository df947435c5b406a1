"""http.client, and with it urllib.request and whatever else is built on it: caught where a request is complete.

What is sent is held back until it is a whole request, which is still inside the call that sends the last of it: so a
connection fails where it would have.
"""

from __future__ import annotations

import contextlib
import http.client
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import ModuleType
from typing import Any

from pytest_agentreplay.records import TransportError
from pytest_agentreplay.taps.clients.wire import Dechunker, RecordedSocket, full_url, recorded_socket, tee_response
from pytest_agentreplay.taps.exchange import Answered, Exchanges, Recorder, Sent
from pytest_agentreplay.taps.failures import Kind, os_error

__all__ = ["tap_http_client"]

_STATE = "_agent_replay"
_NAME = "http.client"
_KINDS_OF_SENDING: Mapping[str, Kind] = {"TimeoutError": "connect-timeout", "OSError": "connect"}
_KINDS: Mapping[str, Kind] = {"TimeoutError": "read-timeout", "HTTPException": "protocol"}
_FAILURES = OSError | http.client.HTTPException


def tap_http_client(client: ModuleType, exchanges: Exchanges) -> Iterator[tuple[type, str, Callable[..., Any]]]:
    """Yield what stands in for the methods of ``HTTPConnection``."""
    connection = client.HTTPConnection
    tap = _Tap(exchanges, send=connection.send, getresponse=connection.getresponse)
    yield connection, "send", tap.wrap_send()
    yield connection, "getresponse", tap.wrap_getresponse()


class _Tap:
    def __init__(self, exchanges: Exchanges, *, send: Callable[..., Any], getresponse: Callable[..., Any]) -> None:
        self._exchanges = exchanges
        self._send = send
        self._getresponse = getresponse

    def wrap_send(self) -> Callable[..., Any]:
        def send(connection: Any, data: Any) -> Any:
            __tracebackhide__ = True
            if self._exchanges.passes() or _is_tunnel(data):
                return self._send(connection, data)
            outgoing = connection.__dict__.get(_STATE)
            if not isinstance(outgoing, _Outgoing):
                outgoing = connection.__dict__[_STATE] = _Outgoing()
            outgoing.add(_blocks(connection, data))
            if outgoing.is_complete:
                self._settle(connection, outgoing)
            return None

        return send

    def wrap_getresponse(self) -> Callable[..., Any]:
        def getresponse(connection: Any) -> Any:
            __tracebackhide__ = True
            state = connection.__dict__.pop(_STATE, None)
            if isinstance(state, Answered):
                if state.error is not None and state.response is None:
                    connection.close()
                    raise _exception(state.error)
                return self._getresponse(connection)
            if not isinstance(state, Recorder):
                return self._getresponse(connection)
            with self._exchanges.recorded_by(state, _fail):
                response = self._getresponse(connection)
            tee_response(response, state, _fail)
            return response

        return getresponse

    def _settle(self, connection: Any, outgoing: _Outgoing) -> None:
        __tracebackhide__ = True
        del connection.__dict__[_STATE]
        sent = outgoing.read(connection)
        decision = self._exchanges.decide(sent)
        if isinstance(decision, Answered):
            if decision.error is not None and decision.failed_before_sending:
                raise _exception(decision.error)
            if decision.response is not None:
                connection.sock = recorded_socket(decision, method=sent.method)
        else:
            if isinstance(connection.sock, RecordedSocket):
                connection.sock = None
            with self._exchanges.recorded_by(decision, _fail_to_send):
                self._send(connection, outgoing.data)
        connection.__dict__[_STATE] = decision


def _is_tunnel(data: Any) -> bool:
    return isinstance(data, bytes) and data.startswith(b"CONNECT ")


def _blocks(connection: Any, data: Any) -> Iterable[bytes]:
    """Return what http.client would send of what it was given: bytes, a file, or any number of bytes."""
    if hasattr(data, "read"):
        return list(connection._read_readable(data))
    try:
        return [bytes(memoryview(data))]
    except TypeError:
        return [bytes(block) for block in data]


class _Outgoing:
    """A request on its way out, as far as it has come."""

    def __init__(self) -> None:
        self.data = b""
        self._head: http.client.HTTPMessage | None = None
        self._target = ("", "")
        self._body = b""
        self._dechunker: Dechunker | None = None
        self._left = 0
        self.is_complete = False

    def add(self, blocks: Iterable[bytes]) -> None:
        for block in blocks:
            self.data += block
            if self._head is None:
                head, end, block = self.data.partition(b"\r\n\r\n")
                if not end:
                    continue
                self._read_head(head)
            self._read_body(block)

    def read(self, connection: Any) -> Sent:
        """Return the whole request."""
        assert self._head is not None
        method, target = self._target
        return Sent(method=method, url=_url(connection, target), headers=list(self._head.items()), content=self._body)

    def _read_head(self, head: bytes) -> None:
        first, _, fields = head.partition(b"\r\n")
        method, target, *_ = first.decode("latin-1").split(" ")
        self._target = (method, target)
        self._head = http.client.parse_headers(_Lines(fields + b"\r\n\r\n"))
        if "chunked" in (self._head.get("transfer-encoding") or "").lower():
            self._dechunker = Dechunker()
        else:
            with contextlib.suppress(ValueError):
                self._left = int(self._head.get("content-length") or 0)

    def _read_body(self, block: bytes) -> None:
        if self._dechunker is None:
            self._body += block
            self.is_complete = len(self._body) >= self._left
        else:
            self._body += b"".join(self._dechunker.feed(block))
            self.is_complete = self._dechunker.is_done


class _Lines:
    def __init__(self, data: bytes) -> None:
        self._lines = iter(data.splitlines(keepends=True))

    def readline(self, *_: Any) -> bytes:
        return next(self._lines, b"")


def _url(connection: Any, target: str) -> str:
    host, port = connection._tunnel_host, connection._tunnel_port
    if host is None:
        host, port = connection.host, connection.port
    scheme = "https" if isinstance(connection, http.client.HTTPSConnection) else "http"
    return full_url(target, scheme=scheme, host=host, port=port)


def _fail(recorder: Recorder, error: BaseException) -> None:
    recorder.fail(error, failures=_FAILURES, client=_NAME, kinds=_KINDS)


def _fail_to_send(recorder: Recorder, error: BaseException) -> None:
    recorder.fail(error, failures=_FAILURES, client=_NAME, kinds=_KINDS_OF_SENDING)


def _exception(error: TransportError) -> Exception:
    """Return the exception that this was recorded from, or its nearest kin here."""
    return os_error(error.kind, error.text)
