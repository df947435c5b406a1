"""What stands in for aiohttp's own objects: the body of a request, a connection, and the reader of an answer."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Iterator
from typing import Any, TypeAlias

from pytest_agentreplay.taps.exchange import Answered, Recorder

__all__ = ["STATE", "PullRecorded", "Pulled", "connection_class", "read_body", "reader_class"]

STATE = "_agent_replay"  # where a connection keeps the recorder or the answer of its exchange

# What a reader pulls: the next piece, whether an HTTP chunk ends with it, and whether the answer does.
Pulled: TypeAlias = tuple[bytes, bool, bool]


async def read_body(client: Any, request: Any) -> bytes:
    """Return the body of a request, and make the request send what was read: some bodies can be read but once."""
    payload = request._body
    if payload is None:
        return b""
    content: bytes = await payload.as_bytes()
    if not isinstance(payload, client.payload.BytesPayload | client.payload.AsyncIterablePayload):
        request._body = _read_payload(client, payload, content=content)
    return content


def _read_payload(client: Any, payload: Any, *, content: bytes) -> Any:
    class Read(client.payload.BytesIOPayload):
        """A body that was read from another, which is closed with it."""

        async def close(self) -> None:
            await super().close()
            await payload.close()

    return Read(io.BytesIO(content))


class PullRecorded:
    """What a reader pulls of a recorded answer, and at its end the failure that it was cut off by.

    No generator: of one that is left before its end, as most are, an event loop makes a task to close it, and where the
    loop is closed first Python warns of that.
    """

    def __init__(self, answered: Answered, raised: Exception | None) -> None:
        self._pulled = _pull(answered, raised)

    def __aiter__(self) -> AsyncIterator[Pulled]:
        return self

    async def __anext__(self) -> Pulled:
        for pause, pulled in self._pulled:
            if pause:
                await asyncio.sleep(pause)
            return pulled
        raise StopAsyncIteration


def _pull(answered: Answered, raised: Exception | None) -> Iterator[tuple[float, Pulled]]:
    pieces = answered.pieces()
    for index, (pause, piece) in enumerate(answered.paced()):
        yield pause, (piece, len(pieces) > 1, raised is None and index == len(pieces) - 1)
    if raised is not None:
        raise raised
    yield 0.0, (b"", False, True)


class _NoFlow:
    """What a reader asks to slow down or to go on: there is nothing behind it that could."""

    connected = True
    _reading_paused = False

    def pause_reading(self) -> None:
        pass

    def resume_reading(self, resume_parser: bool = True) -> None:  # noqa: FBT001, FBT002 - aiohttp's signature
        pass


def reader_class(client: Any) -> type[Any]:
    """Return the class of the readers of answers, recorded ones and live ones."""

    class Reader(client.StreamReader):
        """A reader that has nothing until it is asked, and then pulls one piece."""

        def __init__(self, pieces: AsyncIterator[Pulled], live: Any = None, recorder: Recorder | None = None) -> None:
            super().__init__(_NoFlow(), 2**16, loop=asyncio.get_running_loop())
            self._pieces = pieces
            self._live = live
            self._recorder = recorder

        async def _wait(self, *_: Any) -> None:
            data, ends_chunk, is_last = await anext(self._pieces)
            if ends_chunk:
                self.begin_http_chunk_receiving()
            self.feed_data(data)
            if ends_chunk:
                self.end_http_chunk_receiving()
            if is_last:
                self.feed_eof()

        async def wait_eof(self) -> None:
            while not self._eof:
                await self._wait()

        def set_exception(self, exc: BaseException, *args: Any) -> None:
            """Take it that the answer is closed: early, unless it has ended."""
            super().set_exception(exc, *args)
            if self._recorder is not None:
                self._recorder.finish(truncated=True)
                self._live.set_exception(exc, *args)

        def __del__(self) -> None:
            if self._recorder is not None:
                self._recorder.finish(truncated=True)

    return Reader


class _Nowhere(asyncio.Transport):
    """The transport of a request that is not sent."""

    def write(self, data: Any) -> None:
        pass

    def is_closing(self) -> bool:
        return False

    def close(self) -> None:
        pass

    abort = close


def connection_class(client: Any) -> type[Any]:
    """Return the class of the connections that lead nowhere, and bring a recorded answer."""

    class Protocol(client.client_proto.ResponseHandler):
        """A protocol that has the recorded message, and no parser."""

        message: Any = None

        def set_response_params(self, **params: Any) -> None:
            pass

        def start_timeout(self) -> None:
            pass

        async def read(self) -> Any:
            return self.message

    class Connection(client.connector.Connection):
        """A connection that no pool knows."""

        def __init__(self, connector: Any, request: Any, answered: Answered) -> None:
            loop = asyncio.get_running_loop()
            protocol = Protocol(loop)
            protocol.connection_made(_Nowhere())
            super().__init__(connector, request.connection_key, protocol, loop)
            self.__dict__[STATE] = answered

        def __del__(self, _warnings: Any = None) -> None:
            pass

        def close(self) -> None:
            self._notify_release()
            self._protocol = None

        release = close

    return Connection
