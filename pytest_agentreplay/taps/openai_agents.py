"""Catch the function tools of the OpenAI Agents SDK where its runner calls them.

A tool object holds its callable, and the SDK compares callables by identity, so neither is touched: the function that
invokes a tool is patched in the two modules that call it, the runner's and the realtime session's.  What it returns is
recorded: after the time limit and the handling of errors, whose text is what the model sees.
"""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from pytest_agentreplay.taps.calls import Call
from pytest_agentreplay.taps.owners import Registry
from pytest_agentreplay.taps.tools import open_adapted

__all__ = ["record_openai_agents_tools"]

_INVOKE = "_invoke_function_tool_with_metadata"


@contextmanager
def record_openai_agents_tools(module: Any, registry: Registry) -> Iterator[None]:
    """Record function tools while this block runs; ``module`` is ``agents.run_internal.tool_execution``."""
    real = getattr(module, _INVOKE)
    tools = sys.modules[real.__module__]
    invoking = _invoking(real, tools, registry)
    with mock.patch.object(module, _INVOKE, invoking), mock.patch.object(tools, _INVOKE, invoking):
        yield


def _invoking(real: Any, tools: Any, registry: Registry) -> Any:
    @functools.wraps(real)
    async def invoke(*, function_tool: Any, context: Any, arguments: str) -> Any:
        call = _open(function_tool, context, arguments, registry=registry)
        if call is None:
            return await real(function_tool=function_tool, context=context, arguments=arguments)
        if call.is_served:
            result = call.recorded_result()
            return tools._FunctionToolInvocationResult(result, is_sdk_generated_error=call.is_error)
        with call.running():
            invoked = await real(function_tool=function_tool, context=context, arguments=arguments)
            call.returned(invoked.output, is_error=invoked.is_sdk_generated_error)
            return invoked

    return invoke


def _open(function_tool: Any, context: Any, arguments: str, *, registry: Registry) -> Call | None:
    return open_adapted(
        function_tool.name,
        lambda: _parsed(arguments),
        function=getattr(function_tool, "__wrapped__", None),
        registry=registry,
        runs_inside=function_tool._is_agent_tool,
        tool_use_id=context.tool_call_id,
    )


def _parsed(arguments: str) -> Any:
    try:
        return json.loads(arguments) if arguments else {}
    except ValueError:
        return arguments
