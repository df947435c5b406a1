"""Which dialects there are, and which one a request speaks."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from urllib.parse import urlsplit

import pluggy

from pytest_agentreplay.dialects import anthropic_messages, openai_chat, openai_responses
from pytest_agentreplay.dialects.vocabulary import Call, Dialect

__all__ = ["Dialects", "hookimpl", "installed_dialects", "load_dialects"]

_PROJECT = "agentreplay"
hookspec = pluggy.HookspecMarker(_PROJECT)
hookimpl = pluggy.HookimplMarker(_PROJECT)


class _Specification:
    @hookspec
    def agentreplay_dialects(self) -> Iterable[Dialect]:  # type: ignore[empty-body]
        """Return the dialects that a plugin adds."""


class _BuiltIn:
    @hookimpl
    def agentreplay_dialects(self) -> Iterable[Dialect]:
        return (openai_chat.DIALECT, *openai_responses.DIALECTS, anthropic_messages.DIALECT)


@dataclass(frozen=True)
class Dialects:
    """The dialects of a session, those registered last first, so that a plugin can refine a built-in one."""

    known: tuple[Dialect, ...]

    def recognise(self, *, method: str, url: str) -> tuple[Dialect, ...]:
        """Return the dialects whose method and path a request has."""
        path = urlsplit(url).path
        return tuple(dialect for dialect in self.known if dialect.method == method and re.search(dialect.path, path))

    def read_call(self, candidates: Iterable[Dialect], body: Mapping[str, Any]) -> tuple[Dialect, Call] | None:
        """Return the first candidate that reads the body as a call, with the call."""
        for dialect in candidates:
            call = dialect.call_in(body)
            if call is not None:
                return dialect, call
        return None

    def named(self, name: str, operation: str) -> Dialect | None:
        """Return the dialect of a recorded step, or ``None`` when its plugin is not installed."""
        return self._by_name.get((operation, name))

    @cached_property
    def _by_name(self) -> Mapping[tuple[str, str], Dialect]:
        return {
            (dialect.operation, name): dialect
            for dialect in reversed(self.known)
            for name in (dialect.name, *dialect.providers.values())
        }


def load_dialects(*plugins: object) -> Dialects:
    """Return the built-in dialects, those of installed plugins, and those of the given plugin objects."""
    manager = pluggy.PluginManager(_PROJECT)
    manager.add_hookspecs(_Specification)
    manager.register(_BuiltIn())
    manager.load_setuptools_entrypoints(_PROJECT)
    for plugin in plugins:
        manager.register(plugin)
    return Dialects(tuple(dialect for found in manager.hook.agentreplay_dialects() for dialect in found))


@functools.cache
def installed_dialects() -> Dialects:
    """Return the built-in dialects and those of installed plugins, looked up once."""
    return load_dialects()
