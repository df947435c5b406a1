"""No network in replay: a connection that the recorder does not answer is stopped, and the rule that did it is named.

The places where Python code reaches the network are wrapped for the length of a session: ``connect``, ``connect_ex``,
``sendto`` and ``sendmsg`` of sockets, ``getaddrinfo``, and uvloop's own versions of them.  What concerns no test, and
what a recording test does, passes through.  Other plugins that guard sockets (pytest-socket, pytest-recording) put back
what they found when they were imported, so the wrapping is renewed test by test.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple
from unittest import mock

from pytest_agentreplay.taps.owners import Registry
from pytest_agentreplay.taps.reach import Reach

__all__ = ["guard_network"]

_INTERNET = (socket.AF_INET, socket.AF_INET6)


class _Place(NamedTuple):
    """Where a name is looked up, what stood there, and how to wrap it."""

    target: Any
    name: str
    real: Callable[..., Any]
    wrap: Callable[[Callable[..., Any]], Callable[..., Any]]
    over_others: bool = False  # whether another guard may be wrapped, which takes itself out whatever stands there


@contextmanager
def guard_network(registry: Registry) -> Iterator[Callable[[], None]]:
    """Hold every connection made in this block against the rules of the test that makes it.

    Gives a function that wraps again what has been unwrapped since.
    """
    guard = _Guard(registry)
    places = [*_socket_methods(guard), *_lookups(guard)]
    with ExitStack() as stack:
        for place in places:
            stack.enter_context(mock.patch.object(place.target, place.name, _guarded_by(guard, place, place.real)))
        if importlib.util.find_spec("uvloop") is not None:
            loop = importlib.import_module("uvloop").Loop
            for name in ("getaddrinfo", "create_connection", "create_datagram_endpoint", "sock_connect"):
                stack.enter_context(mock.patch.object(loop, name, guard.loop_method(getattr(loop, name), name=name)))
        yield functools.partial(_renew, guard, places)


def _socket_methods(guard: _Guard) -> Iterator[_Place]:
    for name, place in (("connect", 0), ("connect_ex", 0), ("sendto", -1), ("sendmsg", 3)):
        wrap = functools.partial(guard.method, name=name, place=place)
        yield _Place(socket.socket, name, getattr(socket.socket, name), wrap, over_others=True)


def _lookups(guard: _Guard) -> Iterator[_Place]:
    for name in ("getaddrinfo", "gethostbyname", "gethostbyname_ex"):
        yield _Place(socket, name, getattr(socket, name), functools.partial(guard.lookup, name=name))


def _guarded_by(guard: _Guard, place: _Place, found: Callable[..., Any]) -> Callable[..., Any]:
    wrapped = place.wrap(found)
    wrapped.agent_replay_guard = guard  # type: ignore[attr-defined]
    return wrapped


def _renew(guard: _Guard, places: Sequence[_Place]) -> None:
    for place in places:
        found = getattr(place.target, place.name)
        is_ours = getattr(found, "agent_replay_guard", None) is guard
        if found is place.real or (place.over_others and not is_ours):
            setattr(place.target, place.name, _guarded_by(guard, place, found))


class _Guard:
    """Wraps the places, so that each asks before it does what it does."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._reach = Reach(registry)

    def method(self, real: Callable[..., Any], *, name: str, place: int) -> Callable[..., Any]:
        """Return what stands in for a method of sockets; ``place`` is that of the address among its arguments."""

        @functools.wraps(real)
        def guarded(sock: socket.socket, *args: Any) -> Any:
            __tracebackhide__ = True
            if sock.family in _INTERNET and len(args) > max(place, 0) and not self._registry.concerns_no_one():
                address = args[place]
                if isinstance(address, tuple) and len(address) >= 2:
                    self._reach.check(str(address[0]), port=address[1], by=f"socket.{name}")
            return real(sock, *args)

        return guarded

    def lookup(self, real: Callable[..., Any], *, name: str) -> Callable[..., Any]:
        """Return what stands in for a function that resolves names."""

        @functools.wraps(real)
        def guarded(host: Any, *args: Any, **kwargs: Any) -> Any:
            __tracebackhide__ = True
            if self._registry.concerns_no_one():
                return real(host, *args, **kwargs)
            shown = host.decode("ascii", "replace") if isinstance(host, bytes) else str(host or "")
            self._reach.check(shown, port=args[0] if args else None, by=f"socket.{name}", connects=False)
            found = real(host, *args, **kwargs)
            if name == "getaddrinfo":
                self._reach.know(shown, {str(row[4][0]) for row in found})
            return found

        return guarded

    def loop_method(self, real: Callable[..., Any], *, name: str) -> Callable[..., Any]:
        """Return what stands in for a method of uvloop's loop, which reaches the network without Python's sockets."""

        @functools.wraps(real)
        async def guarded(loop: Any, *args: Any, **kwargs: Any) -> Any:
            __tracebackhide__ = True
            if not self._registry.concerns_no_one():
                host, port = _target(name, args, kwargs)
                if host is not None:
                    self._reach.check(host, port=port, by=f"uvloop.{name}", connects=name != "getaddrinfo")
            return await real(loop, *args, **kwargs)

        return guarded


def _target(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str | None, Any]:
    if name == "sock_connect":
        address = args[1] if len(args) > 1 else kwargs.get("address")
        return (str(address[0]), address[1]) if isinstance(address, tuple) else (None, None)
    if name == "create_datagram_endpoint":
        remote = kwargs.get("remote_addr") or (args[2] if len(args) > 2 else None)
        return (str(remote[0]), remote[1]) if remote else (None, None)
    start = 1 if name == "create_connection" else 0
    host = args[start] if len(args) > start else kwargs.get("host")
    port = args[start + 1] if len(args) > start + 1 else kwargs.get("port")
    return (None, None) if host is None else (host.decode() if isinstance(host, bytes) else str(host), port)
