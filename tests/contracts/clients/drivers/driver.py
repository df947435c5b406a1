"""What a client is asked and what came of it, whichever client it is."""

from __future__ import annotations

import ssl
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ["NO_TLS", "Ask", "Driver", "Got", "async_blocks", "async_pieces", "pieces"]

NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # a client's own takes long to load


@dataclass(frozen=True)
class Ask:
    """One request.  At most one of the bodies is given; ``blocks`` are sent by the client's own kind of iterator."""

    url: str
    method: str = "GET"
    json: Any = None
    form: Mapping[str, str] | None = None
    files: Mapping[str, tuple[str, bytes]] | None = None
    content: bytes | None = None
    blocks: Sequence[bytes] | None = None
    file: bytes | None = None  # sent as an open file
    headers: Mapping[str, str] = field(default_factory=dict)
    timeout: float = 5.0
    http2: bool = False


@dataclass(frozen=True)
class Got:
    """One answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    url: str = ""
    cookies: Mapping[str, str] = field(default_factory=dict)


class Driver(ABC):
    """One client.  A subclass asks in one session of its client, and reads streams piece by piece."""

    name = ""
    decodes = True  # whether answers are decoded for whoever asks
    is_sync = True
    cannot: Mapping[str, str] = {}  # features that the client itself does not have, and why

    def __init__(self) -> None:
        self.ca: str | None = None

    @abstractmethod
    def ask(self, *asks: Ask) -> list[Got]:
        """Ask one after the other, in one session."""

    @abstractmethod
    def stream(self, ask: Ask, *, most: int | None = None, way: str = "") -> list[tuple[float, bytes]]:
        """Return the pieces of an answer with their times, and close it after so many."""

    def failure(self, ask: Ask) -> Exception:
        """Return what a request fails with."""
        try:
            got = self.ask(ask)
        except AssertionError:
            raise
        except Exception as error:
            return error
        raise AssertionError(f"no failure: {got}")

    def __repr__(self) -> str:
        return self.name


def pieces(found: Iterator[bytes], most: int | None) -> list[tuple[float, bytes]]:
    kept: list[tuple[float, bytes]] = []
    for piece in found:
        if piece:
            kept.append((time.monotonic(), piece))
        if len(kept) == most:
            break
    return kept


async def async_pieces(found: AsyncIterator[bytes], most: int | None) -> list[tuple[float, bytes]]:
    kept: list[tuple[float, bytes]] = []
    async for piece in found:
        if piece:
            kept.append((time.monotonic(), piece))
        if len(kept) == most:
            break
    return kept


async def async_blocks(blocks: Sequence[bytes]) -> AsyncIterator[bytes]:
    for block in blocks:
        yield block
