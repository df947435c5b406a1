"""A local HTTP server that answers as a function tells it, and counts what reaches it."""

from __future__ import annotations

import json
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Seen:
    """One request that reached the server."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Answer:
    """What the server sends back.  With ``chunks`` the body is streamed, ``gap`` seconds between two of them."""

    status: int = 200
    headers: tuple[tuple[str, str], ...] = (("content-type", "application/json"),)
    body: bytes = b""
    chunks: Iterable[bytes] | None = None
    gap: float = 0.0
    delay: float = 0.0
    cut_after: int | None = None  # close the connection after so many chunks
    reset: bool = False  # where it closes, do so without a word, as a machine that went away
    length: int | None = None  # the length to announce, where it is another than the body's


@dataclass
class Server:
    """The running server: where it is, and what has reached it."""

    url: str
    seen: list[Seen] = field(default_factory=list)
    connections: int = 0


def answer_json(value: Any, *, status: int = 200, delay: float = 0.0) -> Answer:
    """Return a JSON answer."""
    return Answer(status=status, body=json.dumps(value).encode(), delay=delay)


def answer_events(events: Sequence[str | dict[str, Any]], *, gap: float = 0.0) -> Answer:
    """Return a server-sent stream, one event a chunk."""
    texts = [event if isinstance(event, str) else json.dumps(event) for event in events]
    chunks = [f"data: {text}\n\n".encode() for text in texts]
    return Answer(headers=(("content-type", "text/event-stream"),), chunks=chunks, gap=gap)


@contextmanager
def serving(respond: Callable[[Seen], Answer], *, tls: ssl.SSLContext | None = None) -> Iterator[Server]:
    """Serve on a free loopback port until the block ends, over HTTPS where there is a context for it."""
    lock = threading.Lock()
    state = Server(url="")

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def setup(self) -> None:
            with lock:
                state.connections += 1
            if tls is not None:
                self.request = tls.wrap_socket(self.request, server_side=True)
            super().setup()

        def finish(self) -> None:
            super().finish()
            if tls is not None:
                self.request.close()

        def log_message(self, *args: Any) -> None:
            pass

        def _body(self) -> bytes:
            if (self.headers.get("transfer-encoding") or "").lower() == "chunked":
                parts = []
                while size := int(self.rfile.readline().split(b";")[0], 16):
                    parts.append(self.rfile.read(size))
                    self.rfile.readline()
                self.rfile.readline()
                return b"".join(parts)
            return self.rfile.read(int(self.headers.get("content-length") or 0))

        def _handle(self) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            seen = Seen(method=self.command, path=self.path, headers=headers, body=self._body())
            with lock:
                state.seen.append(seen)
            answer = respond(seen)
            time.sleep(answer.delay)
            if answer.reset and not answer.chunks:
                self._reset()
                return
            self.send_response(answer.status)
            for name, value in answer.headers:
                self.send_header(name, value)
            if answer.chunks is None:
                has_body = seen.method != "HEAD" and answer.status not in (204, 304)
                if has_body or seen.method == "HEAD":
                    self.send_header(
                        "content-length", str(len(answer.body) if answer.length is None else answer.length)
                    )
                self.end_headers()
                self.wfile.write(answer.body if has_body else b"")
                self.close_connection = self.close_connection or answer.length is not None
                return
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            self._stream(answer)

        def _close(self) -> None:
            self.close_connection = True
            self.connection.close()

        def _reset(self) -> None:
            self.close_connection = True
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.rfile.close()
            self.wfile.close()
            self.connection.close()

        def _stream(self, answer: Answer) -> None:
            try:
                for index, chunk in enumerate(answer.chunks or ()):
                    if answer.cut_after is not None and index >= answer.cut_after:
                        self._reset() if answer.reset else self._close()
                        return
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
                    self.wfile.flush()
                    time.sleep(answer.gap)
                self.wfile.write(b"0\r\n\r\n")
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True

        do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = _handle  # noqa: N815 - the base class's names

    class Quiet(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 256

        def handle_error(self, request: Any, client_address: Any) -> None:
            pass

    server = Quiet(("127.0.0.1", 0), Handler)
    state.url = f"{'https' if tls else 'http'}://127.0.0.1:{server.server_address[1]}"
    # A plain thread: a server belongs to no test, whatever test starts it.
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
