"""No network in replay: a connection that the recorder does not answer is stopped, and the rule that did it is named.

The places where Python code reaches the network are wrapped for the length of a session: ``connect``, ``connect_ex``,
``sendto`` and ``sendmsg`` of sockets, ``getaddrinfo``, and uvloop's own versions of them.  What concerns no test, and
what a recording test does, passes through.  Other plugins that guard sockets (pytest-socket, pytest-recording) put back
what they found when they were imported, so the wrapping is renewed test by test.
"""

from __future__ import annotations

import fnmatch
import functools
import importlib
import importlib.util
import ipaddress
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple
from unittest import mock

from pytest_agentreplay.divergence import find_call_site
from pytest_agentreplay.errors import NetworkBlockedError
from pytest_agentreplay.taps.owners import Owner, Registry

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
    """Decides about one connection at a time."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._resolved: dict[str, str] = {}  # addresses that allowed names were resolved to

    def method(self, real: Callable[..., Any], *, name: str, place: int) -> Callable[..., Any]:
        """Return what stands in for a method of sockets; ``place`` is that of the address among its arguments."""

        @functools.wraps(real)
        def guarded(sock: socket.socket, *args: Any) -> Any:
            __tracebackhide__ = True
            if sock.family in _INTERNET and len(args) > max(place, 0) and not self._registry.concerns_no_one():
                address = args[place]
                if isinstance(address, tuple) and len(address) >= 2:
                    self.check(str(address[0]), port=address[1], by=f"socket.{name}")
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
            self.check(shown, port=args[0] if args else None, by=f"socket.{name}")
            found = real(host, *args, **kwargs)
            if name == "getaddrinfo":
                self._resolved |= {str(row[4][0]): shown for row in found}
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
                    self.check(host, port=port, by=f"uvloop.{name}")
            return await real(loop, *args, **kwargs)

        return guarded

    def check(self, host: str, *, port: Any, by: str) -> None:
        """Return when a connection may be made.

        Raises :class:`NetworkBlockedError` when it may not, :class:`StrayRequestError` when the test that makes it is
        over, and ``ConnectionRefusedError`` for background traffic, which libraries expect to fail.
        """
        __tracebackhide__ = True
        owner = self._registry.answerable(f"{host}:{port}")
        if owner is None or owner.player.is_recording:
            return
        settings = owner.player.settings
        name = self._resolved.get(host, host)
        if _is_loopback(host) and settings.loopback:
            return
        if any(fnmatch.fnmatchcase(name.lower(), allowed.lower()) for allowed in settings.hosts):
            return
        if any(known.partition("/")[0] == name for known in settings.background):
            raise ConnectionRefusedError(f"background traffic is not sent in replay: {name}")
        owner.player.stop(NetworkBlockedError(_explain(owner, name, port=port, by=by)))


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


def _is_loopback(host: str) -> bool:
    if host in ("", "localhost", socket.gethostname()) or host.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None) or address
    return bool(mapped.is_loopback or mapped.is_unspecified)


def _explain(owner: Owner, host: str, *, port: Any, by: str) -> str:
    settings = owner.player.settings
    rule = "only loopback" if settings.loopback else "nothing, not even loopback,"
    allowed = f" and {', '.join(settings.hosts)}" if settings.hosts else ""
    shown = f"{host}:{port}" if port is not None else host
    called = find_call_site()
    return "\n".join(
        [
            f"Network blocked: {by} to {shown} in replay.",
            "",
            f"  test      {owner.name}",
            *([f"  called    {called}"] if called else []),
            f"  rule      in replay {rule}{allowed} may be reached; httpx and httpx2 are answered from the cassette",
            "",
            f"  To let it through: {owner.player.words.set(f'hosts=[{host!r}]')}",
        ]
    )
