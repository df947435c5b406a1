"""What a recorded test may reach beside its recorder: in replay by rule, while recording with a warning."""

from __future__ import annotations

import fnmatch
import ipaddress
import socket
import warnings
from typing import Any

from pytest_agentreplay.divergence import find_call_site
from pytest_agentreplay.errors import NetworkBlockedError
from pytest_agentreplay.settings import Settings
from pytest_agentreplay.taps.owners import Owner, Registry

__all__ = ["Reach", "UnrecordedTrafficWarning"]


class UnrecordedTrafficWarning(UserWarning):
    """A recorded test reached what no recording stands for, so that its replay will be stopped there."""


class Reach:
    """Decides about one connection at a time."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._resolved: dict[str, str] = {}  # addresses that allowed names were resolved to

    def know(self, name: str, addresses: set[str]) -> None:
        """Remember what a name was resolved to: rules are about names, connections about addresses."""
        self._resolved |= dict.fromkeys(addresses, name)

    def check(self, host: str, *, port: Any, by: str, connects: bool = True) -> None:
        """Return when ``host`` may be reached; ``connects`` says that this is more than asking for its address.

        Raises :class:`NetworkBlockedError` when it may not, :class:`StrayRequestError` when the test that makes it is
        over, and ``ConnectionRefusedError`` for background traffic, which libraries expect to fail.
        """
        __tracebackhide__ = True
        owner = self._registry.answerable(f"{host}:{port}")
        if owner is None:
            return
        settings, name = owner.player.settings, self._resolved.get(host, host)
        is_background = any(known.partition("/")[0] == name for known in settings.background)
        if _is_allowed(host, name=name, settings=settings):
            return
        if owner.player.is_recording:
            if connects and not is_background and not self._registry.is_in_live_call():
                warnings.warn(UnrecordedTrafficWarning(_warn(owner, name, port=port, by=by)), stacklevel=3)
            return
        if is_background:
            raise ConnectionRefusedError(f"background traffic is not sent in replay: {name}")
        owner.player.stop(NetworkBlockedError(_explain(owner, name, port=port, by=by)))


def _is_allowed(host: str, *, name: str, settings: Settings) -> bool:
    if _is_loopback(host) and settings.loopback:
        return True
    return any(fnmatch.fnmatchcase(name.lower(), allowed.lower()) for allowed in settings.hosts)


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
    called = find_call_site()
    return "\n".join(
        [
            f"Network blocked: {by} to {_shown(host, port)} in replay.",
            "",
            f"  test      {owner.name}",
            *([f"  called    {called}"] if called else []),
            f"  rule      in replay {rule}{allowed} may be reached; HTTP clients are answered from the cassette",
            "",
            f"  To let it through: {owner.player.words.set(f'hosts=[{host!r}]')}",
        ]
    )


def _warn(owner: Owner, host: str, *, port: Any, by: str) -> str:
    return (
        f"{by} to {_shown(host, port)} is not recorded, so the replay of {owner.name} will be stopped there; "
        f"to let it through: {owner.player.words.set(f'hosts=[{host!r}]')}"
    )


def _shown(host: str, port: Any) -> str:
    return f"{host}:{port}" if port is not None else host
