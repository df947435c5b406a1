"""urllib3, and with it requests and botocore: caught where a pool makes one request on one connection.

Above that stand urllib3's own retries and redirects, which so run live in replay too, each attempt an exchange of its
own.  ``urlopen`` itself would not do: it calls itself for each of them.
"""

from __future__ import annotations

import http.client
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any

from pytest_agentreplay.records import TransportError
from pytest_agentreplay.taps.clients.wire import full_url, recorded_response, tee_response
from pytest_agentreplay.taps.exchange import Answered, Exchanges, Recorder, Sent
from pytest_agentreplay.taps.failures import Kind, os_error

__all__ = ["tap_urllib3"]

_NAME = "urllib3"
_KINDS: Mapping[str, Kind] = {
    "ConnectTimeoutError": "connect-timeout",
    "ReadTimeoutError": "read-timeout",
    "NameResolutionError": "dns",
    "NewConnectionError": "connect",
    "SSLError": "tls",
    "ProxyError": "proxy",
    "ProtocolError": "protocol",
    "HTTPException": "protocol",
}


def tap_urllib3(client: ModuleType, exchanges: Exchanges) -> Iterator[tuple[type, str, Callable[..., Any]]]:
    """Yield what stands in for the methods of connection pools; none for urllib3 1, which http.client's tap catches."""
    pool = client.HTTPConnectionPool
    if not hasattr(client, "BaseHTTPResponse"):
        return
    tap = _Tap(client, exchanges)
    yield pool, "_make_request", tap.wrap(pool._make_request)
    for kind in (pool, client.HTTPSConnectionPool):
        yield kind, "_prepare_proxy", tap.wrap_prepare(kind._prepare_proxy)


class _Tap:
    def __init__(self, client: ModuleType, exchanges: Exchanges) -> None:
        self._client = client
        self._exchanges = exchanges

    def wrap(self, real: Callable[..., Any]) -> Callable[..., Any]:
        """Return what stands in for ``_make_request``."""

        def _make_request(
            pool: Any, conn: Any, method: str, url: str, body: Any = None, headers: Any = None, **options: Any
        ) -> Any:
            __tracebackhide__ = True
            if self._exchanges.passes():
                return real(pool, conn, method, url, body=body, headers=headers, **options)
            blocks, body = _hold(body, conn=conn)
            sent = Sent(
                method=method,
                url=full_url(url, scheme=pool.scheme, host=pool.host, port=pool.port),
                headers=_pairs(headers or pool.headers),
                content=b"".join(blocks),
            )
            decision = self._exchanges.decide(sent)
            if isinstance(decision, Answered):
                return self._answer(decision, pool, conn, sent=sent, url=url, options=options)
            with self._exchanges.recorded_by(decision, self._fail):
                self._prepare_held_back(pool, conn)
                response = real(
                    pool, conn, method, url, body=body, headers=headers, **{**options, "preload_content": False}
                )
            self._tee(response, decision)
            return _preloaded(response, options)

        return _make_request

    def wrap_prepare(self, real: Callable[..., Any]) -> Callable[..., Any]:
        """Return what stands in for ``_prepare_proxy``: the tunnel waits until it is known that a request goes live."""

        def _prepare_proxy(pool: Any, conn: Any) -> Any:
            if self._exchanges.passes():
                return real(pool, conn)
            conn._agent_replay_tunnel = real
            return None

        return _prepare_proxy

    def _prepare_held_back(self, pool: Any, conn: Any) -> None:
        prepare = conn.__dict__.pop("_agent_replay_tunnel", None)
        if prepare is None:
            return
        try:
            prepare(pool, conn)
        except OSError as error:
            pool._raise_timeout(err=error, url=pool.proxy.url, timeout_value=conn.timeout)
            raise

    def _answer(
        self, answered: Answered, pool: Any, conn: Any, *, sent: Sent, url: str, options: Mapping[str, Any]
    ) -> Any:
        pool.num_requests += 1
        conn.__dict__.pop("_agent_replay_tunnel", None)
        if answered.response is None:
            assert answered.error is not None
            raise self._exception(answered.error, pool=pool, conn=conn, url=url)
        found = recorded_response(answered, method=sent.method)
        response = self._client.HTTPResponse(
            body=found,
            headers=self._client.HTTPHeaderDict(found.headers.items()),
            status=found.status,
            version=found.version,
            reason=found.reason,
            preload_content=False,
            decode_content=options.get("decode_content", True),
            original_response=found,
            enforce_content_length=options.get("enforce_content_length", True),
            request_method=sent.method,
            request_url=url,
        )
        response.retries = options.get("retries")
        response._connection = options.get("response_conn")
        response._pool = pool
        return _preloaded(response, options)

    def _tee(self, response: Any, recorder: Recorder) -> None:
        original = getattr(response, "_original_response", None)
        if original is not None:
            tee_response(original, recorder, self._fail)
            return
        recorder.head(response.status, response.headers.items())  # HTTP/2: urllib3 has read all of it
        recorder.chunk(response.data)
        recorder.finish()

    def _fail(self, recorder: Recorder, error: BaseException) -> None:
        failures = OSError | http.client.HTTPException | self._client.exceptions.HTTPError
        recorder.fail(error, failures=failures, client=_NAME, kinds=_KINDS)

    def _exception(self, error: TransportError, *, pool: Any, conn: Any, url: str) -> Exception:
        """Return the exception that this was recorded from, or its nearest kin here."""
        kinds = self._client.exceptions
        root = os_error(error.kind, error.text)
        failed = f"Failed to establish a new connection: {root}"
        made: Mapping[str, Callable[[], Exception]] = {
            "refused": lambda: kinds.NewConnectionError(conn, failed),
            "connect": lambda: kinds.NewConnectionError(conn, failed),
            "dns": lambda: kinds.NameResolutionError(pool.host, conn, root),
            "tls": lambda: kinds.SSLError(root),
            "certificate": lambda: kinds.SSLError(root),
            "connect-timeout": lambda: kinds.ConnectTimeoutError(conn, error.text.partition(": ")[2] or error.text),
            "proxy": lambda: kinds.ProxyError(error.text, root),
        }
        if error.kind in made:
            return made[error.kind]()
        if error.kind.endswith("timeout"):
            return self._read_timeout(error, pool=pool, url=url)
        return root

    def _read_timeout(self, error: TransportError, *, pool: Any, url: str) -> Exception:
        text = error.text.partition(": ")[2] if error.client == _NAME else "Read timed out."
        raised: Exception = self._client.exceptions.ReadTimeoutError(pool, url, text)
        return raised


def _hold(body: Any, *, conn: Any) -> tuple[list[bytes], Any]:
    """Return the blocks of a body, and what to send in its place: one that is read but once is read here."""
    if body is None:
        return [], None
    if isinstance(body, bytes):
        return [body], body
    if isinstance(body, str):
        return [body.encode("utf-8")], body
    blocks = list(_read_blocks(body, size=conn.blocksize))
    return blocks, body if isinstance(body, bytearray | memoryview) else blocks


def _read_blocks(body: Any, *, size: int) -> Iterator[bytes]:
    if hasattr(body, "read"):
        while block := body.read(size):
            yield block.encode("utf-8") if isinstance(block, str) else block
        return
    try:
        yield bytes(memoryview(body))
    except TypeError:
        for block in body:
            if block:
                yield block.encode("utf-8") if isinstance(block, str) else bytes(block)


def _pairs(headers: Mapping[Any, Any]) -> list[tuple[str, str]]:
    return [(_text(name), _text(value)) for name, value in headers.items()]


def _text(value: Any) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def _preloaded(response: Any, options: Mapping[str, Any]) -> Any:
    """Read an answer as urllib3 does where it is told to before it hands it out."""
    if options.get("preload_content", True):
        response.read(decode_content=options.get("decode_content", True), cache_content=True)
    return response
