"""HTTP/1 on the wire, below http.client and everything that is built on it.

A live answer is teed where http.client reads its socket, so that every way to read it is caught in one place, and
nothing is read sooner or later than it was.  A recorded answer is written as the bytes of a socket and read by
http.client's own code, so that every way to read it works.
"""

from __future__ import annotations

import http.client
import io
import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

from pytest_agentreplay.records import TransportError
from pytest_agentreplay.taps.exchange import Answered, Fail, Recorder
from pytest_agentreplay.taps.failures import os_error

__all__ = ["Dechunker", "RecordedSocket", "full_url", "recorded_response", "recorded_socket", "tee_response"]

_NO_BODY = frozenset({204, 304})
_CHUNKED = ("transfer-encoding", "chunked")
_CLOSED_BY_END = frozenset({"cut", "short", "disconnected"})  # the connection ends, and the client sees what is missing


class Dechunker:
    """Takes a chunked body apart as its bytes come, cut anywhere."""

    def __init__(self) -> None:
        self._line = b""
        self._left = 0  # of the chunk that is being read
        self._in_trailer = False
        self.is_done = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the content in some bytes of the body."""
        while data and not self.is_done:
            if self._left:
                piece, data = data[: self._left], data[self._left :]
                self._left -= len(piece)
                yield piece
                continue
            head, end, data = data.partition(b"\n")
            self._line += head + end
            if end:
                self._read_line(self._line.strip())
                self._line = b""

    def _read_line(self, line: bytes) -> None:
        if self._in_trailer:
            self.is_done = not line
        elif line:  # an empty one ends the chunk before it
            try:
                self._left = int(line.split(b";")[0], 16)
            except ValueError:  # no chunked body: whoever reads it will say so
                self.is_done = True
            self._in_trailer = not self._left


def full_url(target: str, *, scheme: str, host: str, port: int | None) -> str:
    """Return the URL that a request line asks for; a proxy is given all of it."""
    if target.startswith(("http://", "https://")):
        return target
    shown = f"[{host}]" if ":" in host and not host.startswith("[") else host
    return f"{scheme}://{shown}" + (f":{port}" if port else "") + target


def tee_response(response: Any, recorder: Recorder, fail: Fail) -> None:
    """Tell ``recorder`` of a live answer whose head http.client has read, and of its body as it is read."""
    recorder.head(response.status, response.msg.items())
    if response.fp is None or response.length == 0:
        recorder.finish()
    else:
        length = None if response.chunked else response.length
        response.fp = _Tee(response.fp, recorder, fail, chunked=bool(response.chunked), length=length)


class _Tee:
    """A file of a socket that tells a recorder what is read from it."""

    def __init__(self, file: Any, recorder: Recorder, fail: Fail, *, chunked: bool, length: int | None) -> None:
        self._file = file
        self._recorder = recorder
        self._fail = fail
        self._dechunker = Dechunker() if chunked else None
        self._left = length

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def read(self, amount: int | None = -1) -> bytes:
        wanted = -1 if amount is None else amount
        data = self._seen(self._file.read, wanted, wants=wanted != 0)
        if data and len(data) != wanted:  # which is what the end of a connection looks like here
            self._end()
        return data

    def read1(self, amount: int = -1) -> bytes:
        return self._seen(self._file.read1, amount, wants=amount != 0)

    def readline(self, limit: int = -1) -> bytes:
        return self._seen(self._file.readline, limit, wants=limit != 0)

    def readinto(self, buffer: Any) -> int:
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._file.close()
        self._recorder.finish(truncated=True)

    def _seen(self, read: Callable[[Any], bytes], argument: Any, *, wants: bool) -> bytes:
        try:
            data = read(argument)
        except BaseException as error:
            self._fail(self._recorder, error)
            raise
        if data:
            self._keep(data)
        elif wants:
            self._end()
        return data

    def _keep(self, data: bytes) -> None:
        if self._dechunker is not None:
            for piece in self._dechunker.feed(data):
                self._recorder.chunk(piece)
            if self._dechunker.is_done:
                self._recorder.finish()
            return
        self._recorder.chunk(data)
        if self._left is not None:
            self._left -= len(data)
            if self._left <= 0:
                self._recorder.finish()

    def _end(self) -> None:
        """Take note that the connection was closed: the end of an answer that has no length, and cuts any other."""
        if self._dechunker is None and self._left is None:
            self._recorder.finish()
        else:
            self._fail(self._recorder, http.client.IncompleteRead(b"", self._left))


class RecordedSocket:
    """What http.client reads a recorded answer from, in the place of a socket."""

    def __init__(self, file: io.BufferedReader) -> None:
        self._file = file

    def makefile(self, *_: Any, **__: Any) -> io.BufferedReader:
        return self._file

    def close(self) -> None:
        pass

    def sendall(self, data: Any) -> None:
        pass

    def settimeout(self, timeout: float | None) -> None:
        pass

    def setsockopt(self, *args: Any) -> None:
        pass

    def shutdown(self, how: int) -> None:
        pass

    def fileno(self) -> int:
        return -1


def recorded_socket(answered: Answered, *, method: str) -> RecordedSocket:
    """Return a socket that a recorded answer can be read from, head and body."""
    assert answered.response is not None
    status = answered.response.status
    headers, body = _framed(answered, method=method)
    lines = [f"HTTP/1.1 {status} {_reason(status)}", *(f"{name}: {value}" for name, value in headers), "", ""]
    head = "\r\n".join(lines).encode("latin-1", "replace")
    return RecordedSocket(_open([head, *body], answered, pauses=itertools.chain([0.0], answered.pauses())))


def recorded_response(answered: Answered, *, method: str) -> http.client.HTTPResponse:
    """Return a recorded answer as http.client has one when it has read the head: the body is still to be read."""
    assert answered.response is not None
    headers, body = _framed(answered, method=method)
    socket: Any = RecordedSocket(_open(body, answered, pauses=answered.pauses()))
    found: Any = http.client.HTTPResponse(socket, method=method)
    found.headers = found.msg = http.client.HTTPMessage()
    for name, value in headers:
        found.headers[name] = value
    found.version, found.status, found.code = 11, answered.response.status, answered.response.status
    found.reason = _reason(found.status)
    found.chunked = headers[-1:] == [_CHUNKED]
    found.chunk_left = None
    found.length = None if found.chunked else int(headers[-1][1]) if body else 0
    found.will_close = False
    return cast("http.client.HTTPResponse", found)


def _reason(status: int) -> str:
    return http.client.responses.get(status, "")


def _framed(answered: Answered, *, method: str) -> tuple[list[tuple[str, str]], list[bytes]]:
    """Return headers and body of an answer on the wire, its pieces as chunks; what says where it ends comes last."""
    response, error = answered.response, answered.error
    assert response is not None
    headers, pieces = list(response.headers), list(answered.pieces())
    if method == "HEAD" or response.status in _NO_BODY:
        return headers, []
    is_short = error is not None and error.kind == "short"
    if is_short or (len(pieces) < 2 and error is None):
        return [*headers, ("content-length", str(len(response.content) + is_short))], pieces or [b""]
    end = [] if error is not None else [b"0\r\n\r\n"]
    return [*headers, _CHUNKED], [*(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces), *end]


def _open(pieces: Sequence[bytes], answered: Answered, *, pauses: Iterator[float]) -> io.BufferedReader:
    error = answered.error
    if answered.is_paced or (error is not None and error.kind not in _CLOSED_BY_END):
        return io.BufferedReader(_Pieces(pieces, pauses, error))
    return io.BufferedReader(io.BytesIO(b"".join(pieces)))


class _Pieces(io.RawIOBase):
    """The pieces of a recorded answer, each when it is due, and then the failure that it ended in."""

    def __init__(self, pieces: Sequence[bytes], pauses: Iterator[float], error: TransportError | None) -> None:
        self._pending = zip(filter(None, pieces), pauses, strict=False)
        self._error = error
        self._piece = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._piece:
            self._piece, pause = next(self._pending, (b"", 0.0))
            if pause:
                time.sleep(pause)
        if not self._piece and self._error is not None:
            raise os_error(self._error.kind, self._error.text)
        taken = self._piece[: len(buffer)]
        self._piece = self._piece[len(taken) :]
        buffer[: len(taken)] = taken
        return len(taken)
