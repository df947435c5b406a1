"""Catch the tools that frameworks call, so that an agent needs no change: a table of adapters, by module.

A module that is imported already is patched at once, any other right after its import.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from types import ModuleType
from typing import Any, TypeAlias

from wrapt.importer import ImportHookFinder, register_post_import_hook

from pytest_agentreplay.taps.langchain import record_langchain_tools
from pytest_agentreplay.taps.openai_agents import record_openai_agents_tools
from pytest_agentreplay.taps.owners import Registry
from pytest_agentreplay.taps.pydantic_ai import record_pydantic_ai_tools
from pytest_agentreplay.taps.smolagents import record_smolagents_tools

__all__ = ["ADAPTERS", "UnrecordedToolsWarning", "record_framework_tools"]

Adapter: TypeAlias = Callable[[Any, Registry], AbstractContextManager[None]]

# By the module that defines what is patched.  An adapter imports nothing of its framework: it is given the module.
ADAPTERS: Mapping[str, Adapter] = {
    "agents.run_internal.tool_execution": record_openai_agents_tools,
    "langchain_core.tools.base": record_langchain_tools,
    "pydantic_ai.toolsets.function": record_pydantic_ai_tools,
    "smolagents.tools": record_smolagents_tools,
}

# Import hooks cannot be taken back, so those that are left look here for whom they still serve.
_installed: list[_Patches] = []


class UnrecordedToolsWarning(UserWarning):
    """The tools of a framework are not recorded, so that in replay they run."""


class _Patches:
    """The frameworks that one registry has patched."""

    def __init__(self, registry: Registry, stack: ExitStack) -> None:
        self._registry = registry
        self._stack = stack
        self._patched: list[ModuleType] = []

    def apply(self, module: ModuleType) -> None:
        """Patch a framework's module, once."""
        if any(module is patched for patched in self._patched):
            return
        self._patched.append(module)
        try:
            self._stack.enter_context(ADAPTERS[module.__name__](module, self._registry))
        except AttributeError as error:
            package = module.__name__.partition(".")[0]
            warnings.warn(
                UnrecordedToolsWarning(
                    f"the tools of this version of {package!r} cannot be recorded, so that in replay they run: {error}"
                ),
                stacklevel=2,
            )


@contextmanager
def record_framework_tools(registry: Registry) -> Iterator[None]:
    """Record the tools of every framework in the table, imported before or in this block."""
    with ExitStack() as stack:
        patches = _Patches(registry, stack)
        _installed.append(patches)
        stack.callback(_installed.remove, patches)
        for name in ADAPTERS:
            module = sys.modules.get(name)
            if module is not None:
                patches.apply(module)
            else:
                register_post_import_hook(_patch_imported, name)
        _see_imports()
        yield


def _see_imports() -> None:
    """Put wrapt's finder back where it is gone: it is put there once, and pytester for one takes it out again."""
    if not any(isinstance(finder, ImportHookFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, ImportHookFinder())


def _patch_imported(module: ModuleType) -> None:
    for patches in tuple(_installed):
        patches.apply(module)
