"""Catch the tools of LangChain and LangGraph: what ``BaseTool.run`` and ``arun`` come down to.

Every way to call a tool leads through these two: ``invoke``, ``ainvoke``, a ``ToolNode``, another tool.  They run on a
stand-in, a shallow copy whose ``_run`` answers from the tape; so callbacks, the checks of arguments and the handling
of errors are the framework's own in replay too, and what is on the tape is what the tool itself returned or raised.
"""

from __future__ import annotations

import copy
import functools
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn
from unittest import mock

from pytest_agentreplay.taps.calls import Call, answer, answer_async
from pytest_agentreplay.taps.owners import Registry
from pytest_agentreplay.taps.tools import open_adapted

__all__ = ["record_langchain_tools"]


@contextmanager
def record_langchain_tools(module: Any, registry: Registry) -> Iterator[None]:
    """Record the tools of LangChain while this block runs; ``module`` is ``langchain_core.tools.base``."""
    base = module.BaseTool
    with (
        mock.patch.object(base, "run", _running(base.run, registry)),
        mock.patch.object(base, "arun", _running_async(base.arun, registry)),
    ):
        yield


def _running(real: Any, registry: Registry) -> Any:
    @functools.wraps(real)
    def run(tool: Any, tool_input: Any, *args: Any, **kwargs: Any) -> Any:
        if registry.concerns_no_one():
            return real(tool, tool_input, *args, **kwargs)

        @functools.wraps(tool._run)
        def _run(*inner: Any, **named: Any) -> Any:
            call = _open(tool, tool_input, kwargs.get("tool_call_id"), registry=registry)
            if call is None:
                return tool._run(*inner, **named)
            try:
                return answer(call, tool._run, *inner, **named)
            except Exception as error:
                _interrupt_again(call, error)
                raise

        return real(_stand_in(tool, _run=_run), tool_input, *args, **kwargs)

    return run


def _running_async(real: Any, registry: Registry) -> Any:
    @functools.wraps(real)
    async def arun(tool: Any, tool_input: Any, *args: Any, **kwargs: Any) -> Any:
        if registry.concerns_no_one():
            return await real(tool, tool_input, *args, **kwargs)

        @functools.wraps(tool._arun)
        async def _arun(*inner: Any, **named: Any) -> Any:
            call = _open(tool, tool_input, kwargs.get("tool_call_id"), registry=registry)
            if call is None:
                return await tool._arun(*inner, **named)
            try:
                return await answer_async(call, tool._arun, *inner, **named)
            except Exception as error:
                _interrupt_again(call, error)
                raise

        return await real(_stand_in(tool, _arun=_arun), tool_input, *args, **kwargs)

    return arun


def _open(tool: Any, tool_input: Any, tool_call_id: str | None, *, registry: Registry) -> Call | None:
    def arguments() -> dict[str, Any]:
        # What a graph injects (its state, a store) is no part of the call that the model made.
        given: dict[str, Any] = (
            tool._filter_injected_args(tool_input) if isinstance(tool_input, dict) else {"tool_input": tool_input}
        )
        return given

    function = getattr(tool, "coroutine", None) or getattr(tool, "func", None) or type(tool)._run
    return open_adapted(tool.name, arguments, function=function, registry=registry, tool_use_id=tool_call_id)


def _stand_in(tool: Any, **methods: Any) -> Any:
    stand_in = copy.copy(tool)
    for name, method in methods.items():
        object.__setattr__(stand_in, name, method)
    return stand_in


def _interrupt_again(call: Call, error: Exception) -> None:
    """Interrupt the graph as the tool did when this was recorded: an interrupt is known by the run it happens in."""
    langgraph = sys.modules.get("langgraph.types")
    interrupts = error.args[0] if error.args else None
    if langgraph is None or not call.is_served or type(error).__name__ != "GraphInterrupt" or not interrupts:
        return
    _interrupt(langgraph, interrupts[0].value)


def _interrupt(langgraph: Any, value: Any) -> NoReturn:
    while True:  # each answer that the graph has by now is given to one call; the first without one interrupts
        langgraph.interrupt(value)
