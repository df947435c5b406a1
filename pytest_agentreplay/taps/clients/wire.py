"""HTTP/1 on the wire, below http.client and everything that is built on it.

A live answer is teed where http.client reads its socket, so that every way to read it is caught in one place, and
nothing is read sooner or later than it was.  A recorded answer is written as the bytes of a socket and read by
http.client's own code, so that every way to read it works.
"""

from __future__ import annotations

import http.client
import io
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pytest_agentreplay.taps.exchange import Answered, Recorder
from pytest_agentreplay.taps.failures import os_error

__all__ = ["Dechunker", "RecordedSocket", "tee_response"]

Fail = Callable[[Recorder, BaseException], None]

_NO_BODY = frozenset({204, 304})
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

    def __init__(self, answered: Answered, *, method: str) -> None:
        self._answered = answered
        self._method = method

    def makefile(self, *_: Any, **__: Any) -> io.BufferedReader:
        pieces = self._wire()
        error = self._answered.error
        if self._answered.is_paced or (error is not None and error.kind not in _CLOSED_BY_END):
            return io.BufferedReader(_Pieces(pieces, self._answered))
        return io.BufferedReader(io.BytesIO(b"".join(pieces)))

    def _wire(self) -> list[bytes]:
        response = self._answered.response
        assert response is not None
        pieces = self._answered.pieces()
        has_body = self._method != "HEAD" and response.status not in _NO_BODY
        error, length = self._answered.error, sum(map(len, pieces))
        is_short = error is not None and error.kind == "short"
        is_chunked = not is_short and (len(pieces) > 1 or error is not None)
        lines = [f"HTTP/1.1 {response.status} {http.client.responses.get(response.status, '')}"]
        lines += [f"{name}: {value}" for name, value in response.headers]
        if has_body:
            lines.append("transfer-encoding: chunked" if is_chunked else f"content-length: {length + is_short}")
        head = "\r\n".join([*lines, "", ""]).encode("latin-1", "replace")
        if not has_body or not is_chunked:
            return [head, *(pieces if has_body else ())]
        end = [] if error is not None else [b"0\r\n\r\n"]
        return [head, *(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces), *end]

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


class _Pieces(io.RawIOBase):
    """The pieces of a recorded answer, each when it is due, and then the failure that it ended in."""

    def __init__(self, wire: Sequence[bytes], answered: Answered) -> None:
        self._pending = iter(wire)
        self._pauses = answered.pauses()
        self._error = answered.error
        self._piece = b""
        self._is_head = True

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._piece:
            self._piece = next(self._pending, b"")
            pause = 0.0 if self._is_head or not self._piece else next(self._pauses)
            self._is_head = False
            if pause:
                time.sleep(pause)
        if not self._piece and self._error is not None:
            raise os_error(self._error.kind, self._error.text)
        taken = self._piece[: len(buffer)]
        self._piece = self._piece[len(taken) :]
        buffer[: len(taken)] = taken
        return len(taken)
