"""What kinds of failure a transport has, whatever client names them, and how a live one is told.

A failure is recorded with its client, its class and its kind.  The same client raises the same class again in replay;
another raises its own class for that kind.
"""

from __future__ import annotations

import errno
import http.client
import os
import re
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

from pytest_agentreplay.records import TransportError

__all__ = ["BEFORE_SENDING", "Kind", "describe_failure", "os_error"]

Kind: TypeAlias = Literal[
    "refused",
    "dns",
    "tls",
    "certificate",
    "connect",
    "connect-timeout",
    "read-timeout",
    "write-timeout",
    "pool-timeout",
    "timeout",
    "reset",
    "disconnected",
    "cut",
    "short",
    "proxy",
    "protocol",
    "other",
]

# Failures of reaching the provider, before it could see the request.
BEFORE_SENDING = frozenset({"refused", "dns", "tls", "certificate", "connect", "connect-timeout", "proxy"})

# What the operating system and the standard library raise, wherever a client has put it.
_ROOTS: Sequence[tuple[type[BaseException], Kind]] = (
    (ssl.SSLCertVerificationError, "certificate"),
    (ssl.SSLError, "tls"),
    (socket.gaierror, "dns"),
    (ConnectionRefusedError, "refused"),
    (http.client.RemoteDisconnected, "disconnected"),
    (http.client.IncompleteRead, "cut"),
    (ConnectionResetError, "reset"),
    (ConnectionAbortedError, "reset"),
    (BrokenPipeError, "reset"),
)
_LONGEST_CHAIN = 12


def describe_failure(
    error: BaseException,
    *,
    client: str,
    phase: Literal["connect", "body"],
    kinds: Mapping[str, Kind],
    words: str | None = None,
) -> TransportError:
    """Return the record of what a client raised; ``kinds`` says what its own classes mean, by name.

    ``words`` take the place of the text of the error.
    """
    return TransportError(
        client=client,
        class_name=type(error).__name__,
        kind=_kind_of(error, kinds),
        phase=phase,
        text=str(error) if words is None else words,
    )


def os_error(kind: str, text: str) -> Exception:
    """Return the exception of the operating system or the standard library that stands for a kind."""
    make = _STANDARD.get(kind, OSError)
    return make(text)


def _kind_of(error: BaseException, kinds: Mapping[str, Kind]) -> Kind:
    named = next((kinds[base.__name__] for base in type(error).__mro__ if base.__name__ in kinds), None)
    if named is not None and named.endswith(("timeout", "proxy")):
        return named
    for link in _chain(error):
        if isinstance(link, http.client.IncompleteRead) and link.expected:
            return "short"
        for root, kind in _ROOTS:
            if isinstance(link, root):
                return kind
    if named is None and any(isinstance(link, TimeoutError) for link in _chain(error)):
        return "read-timeout"
    return named or "other"


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, what it was raised from, and what it carries: clients keep the cause in different places."""
    pending, seen = [error], 0
    while pending and seen < _LONGEST_CHAIN:
        link = pending.pop(0)
        seen += 1
        yield link
        carried = (link.__cause__, link.__context__, getattr(link, "os_error", None), getattr(link, "reason", None))
        inner = getattr(link, "exceptions", ())
        pending += [found for found in (*carried, *link.args, *inner) if isinstance(found, BaseException)]


def _numbered(kind: type[OSError], number: int, words: str) -> Callable[[str], Exception]:
    return lambda _: kind(number, words)


def _tls_error(kind: type[ssl.SSLError]) -> Callable[[str], Exception]:
    def make(text: str) -> Exception:
        found = _TLS_WORDS.search(text)
        return kind(1, found.group() if found else text)

    return make


_TLS_WORDS = re.compile(r"\[SSL: [^']*")  # in whatever a client has wrapped it
_STANDARD: Mapping[str, Callable[[str], Exception]] = {
    "refused": _numbered(ConnectionRefusedError, errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED)),
    "dns": _numbered(socket.gaierror, socket.EAI_NONAME, "Name or service not known"),
    "certificate": _tls_error(ssl.SSLCertVerificationError),
    "tls": _tls_error(ssl.SSLError),
    "connect-timeout": lambda _: TimeoutError("timed out"),
    "read-timeout": lambda _: TimeoutError("timed out"),
    "write-timeout": lambda _: TimeoutError("timed out"),
    "pool-timeout": lambda _: TimeoutError("timed out"),
    "timeout": lambda _: TimeoutError("timed out"),
    "reset": _numbered(ConnectionResetError, errno.ECONNRESET, os.strerror(errno.ECONNRESET)),
    "disconnected": lambda _: http.client.RemoteDisconnected("Remote end closed connection without response"),
    "cut": lambda _: http.client.IncompleteRead(b""),
    "short": lambda _: http.client.IncompleteRead(b""),
    "protocol": http.client.HTTPException,
}
