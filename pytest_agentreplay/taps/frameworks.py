"""Catch the tools that frameworks call, so that an agent needs no change: a table of adapters, by module.

A module that is imported already is patched at once, any other right after its import.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from types import ModuleType
from typing import Any, TypeAlias

from pytest_agentreplay.taps.imports import patched_when_imported
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


class UnrecordedToolsWarning(UserWarning):
    """The tools of a framework are not recorded, so that in replay they run."""


@contextmanager
def record_framework_tools(registry: Registry) -> Iterator[None]:
    """Record the tools of every framework in the table, imported before or in this block."""
    table = {name: partial(_recording, adapter, registry=registry) for name, adapter in ADAPTERS.items()}
    with patched_when_imported(table):
        yield


def _recording(adapter: Adapter, module: ModuleType, *, registry: Registry) -> ExitStack:
    """Return an adapter's patch that is none, with a warning, where this version of the framework is unknown to it."""
    stack = ExitStack()
    try:
        stack.enter_context(adapter(module, registry))
    except AttributeError as error:
        package = module.__name__.partition(".")[0]
        warnings.warn(
            UnrecordedToolsWarning(
                f"the tools of this version of {package!r} cannot be recorded, so that in replay they run: {error}"
            ),
            stacklevel=2,
        )
    return stack
