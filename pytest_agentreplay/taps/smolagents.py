"""Catch the tools of smolagents: what ``Tool.__call__`` comes down to.

It runs on a stand-in, a shallow copy whose ``forward`` answers from the tape, so that inputs and outputs are converted
by the framework in replay too.  A tool is set up only where its body runs.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from pytest_agentreplay.taps.calls import answer
from pytest_agentreplay.taps.owners import Registry
from pytest_agentreplay.taps.tools import open_adapted

__all__ = ["record_smolagents_tools"]

# It gives back what it is given, any object at all, and nothing asks for its result.
_FINAL_ANSWER = ("smolagents.default_tools", "FinalAnswerTool")


@contextmanager
def record_smolagents_tools(module: Any, registry: Registry) -> Iterator[None]:
    """Record the tools of smolagents while this block runs; ``module`` is ``smolagents.tools``."""
    with mock.patch.object(module.Tool, "__call__", _calling(module.Tool.__call__, registry)):
        yield


def _calling(real: Any, registry: Registry) -> Any:
    @functools.wraps(real)
    def call_tool(tool: Any, *args: Any, **kwargs: Any) -> Any:
        if registry.concerns_no_one() or (type(tool).__module__, type(tool).__qualname__) == _FINAL_ANSWER:
            return real(tool, *args, **kwargs)
        stand_in = copy.copy(tool)
        stand_in.is_initialized = True
        stand_in.forward = _forward(tool, registry)
        return real(stand_in, *args, **kwargs)

    return call_tool


def _forward(tool: Any, registry: Registry) -> Any:
    def body(*args: Any, **kwargs: Any) -> Any:
        if not tool.is_initialized:
            tool.setup()
        return tool.forward(*args, **kwargs)

    @functools.wraps(tool.forward)
    def forward(*args: Any, **kwargs: Any) -> Any:
        call = open_adapted(
            tool.name,
            lambda: dict(zip(tool.inputs, args, strict=False)) | kwargs,
            function=tool.forward,
            registry=registry,
        )
        return body(*args, **kwargs) if call is None else answer(call, body, *args, **kwargs)

    return forward
