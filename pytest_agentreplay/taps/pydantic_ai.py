"""Catch the function tools of pydantic-ai: what ``FunctionToolset.call_tool`` returns or raises.

An agent's own tools and every function toolset lead there, whatever wraps them.  The arguments are the validated ones.
``ModelRetry`` and the exceptions that defer a call are recorded as what the tool raised, and raised again.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from pytest_agentreplay.taps.calls import answer_async
from pytest_agentreplay.taps.owners import Registry
from pytest_agentreplay.taps.tools import open_adapted

__all__ = ["record_pydantic_ai_tools"]


@contextmanager
def record_pydantic_ai_tools(module: Any, registry: Registry) -> Iterator[None]:
    """Record function tools while this block runs; ``module`` is ``pydantic_ai.toolsets.function``."""
    toolset = module.FunctionToolset
    with mock.patch.object(toolset, "call_tool", _calling(toolset.call_tool, registry)):
        yield


def _calling(real: Any, registry: Registry) -> Any:
    @functools.wraps(real)
    async def call_tool(toolset: Any, name: str, tool_args: dict[str, Any], ctx: Any, tool: Any) -> Any:
        schema = getattr(tool.call_func, "__self__", None)
        call = open_adapted(
            name,
            lambda: tool_args,
            function=getattr(schema, "function", None),
            registry=registry,
            tool_use_id=ctx.tool_call_id,
        )
        if call is None:
            return await real(toolset, name, tool_args, ctx, tool)
        return await answer_async(call, real, toolset, name, tool_args, ctx, tool)

    return call_tool
