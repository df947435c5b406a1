"""A local HTTP/2 server, and a proxy."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import RequestReceived, StreamEnded


@contextmanager
def accepting(serve: Callable[[socket.socket], None]) -> Iterator[int]:
    """Give each connection to ``serve`` in a thread of its own; yields the port."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def accept() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                threading.Thread(target=_served, args=(serve, connection), daemon=True).start()

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)
        thread.join()


def _served(serve: Callable[[socket.socket], None], connection: socket.socket) -> None:
    with contextlib.suppress(OSError), connection:
        serve(connection)


@contextmanager
def serving_http2(tls: ssl.SSLContext, body: bytes) -> Iterator[str]:
    """Answer every HTTP/2 request with ``body``; yields the URL."""

    def serve(plain: socket.socket) -> None:
        with tls.wrap_socket(plain, server_side=True) as connection:
            state = H2Connection(H2Configuration(client_side=False))
            state.initiate_connection()
            connection.sendall(state.data_to_send())
            while data := connection.recv(65536):
                for event in state.receive_data(data):
                    if isinstance(event, RequestReceived | StreamEnded):
                        _answer(state, event, body)
                connection.sendall(state.data_to_send())

    tls.set_alpn_protocols(["h2"])
    try:
        with accepting(serve) as port:
            yield f"https://127.0.0.1:{port}"
    finally:
        tls.set_alpn_protocols(["http/1.1"])


def _answer(state: H2Connection, event: RequestReceived | StreamEnded, body: bytes) -> None:
    if isinstance(event, StreamEnded) and event.stream_id is not None:
        state.send_headers(event.stream_id, [(":status", "200"), ("content-type", "application/json")])
        state.send_data(event.stream_id, body, end_stream=True)


@dataclass
class Proxy:
    """A running proxy: where it is, and where it was asked to tunnel to."""

    url: str = ""
    tunnels: list[str] = field(default_factory=list)


@contextmanager
def tunnelling() -> Iterator[Proxy]:
    """Be a proxy that makes tunnels."""
    proxy = Proxy()

    def serve(client: socket.socket) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            head += client.recv(4096)
        target = head.split(b" ")[1].decode()
        proxy.tunnels.append(target)
        where = urlsplit(f"//{target}")
        assert where.hostname is not None
        assert where.port is not None
        with socket.create_connection((where.hostname, where.port)) as server:
            client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            back = threading.Thread(target=_pump, args=(server, client), daemon=True)
            back.start()
            _pump(client, server)
            back.join()

    with accepting(serve) as port:
        proxy.url = f"http://127.0.0.1:{port}"
        yield proxy


def _pump(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)
