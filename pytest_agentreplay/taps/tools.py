"""Catch the calls of tools: in replay a recorded tool's body does not run, its recorded result is returned.

:func:`recorded_tool` decorates functions, methods and async functions; the adapters beside this module wrap the tools
of frameworks.  Outside a recorded test a decorated tool is the function that it decorates.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar, get_type_hints, overload

from pytest_agentreplay.errors import ConfigurationError
from pytest_agentreplay.settings import check_switch
from pytest_agentreplay.taps.arguments import SCALARS, as_json, check_ignored
from pytest_agentreplay.taps.calls import Call, answer, answer_async, open_call
from pytest_agentreplay.taps.owners import Registry, installed_registry, refuse_in_child
from pytest_agentreplay.values import (
    Codec,
    DeepCodec,
    codec_for,
)

__all__ = ["open_adapted", "recorded_tool"]

_MARK = "__agent_replay_tool__"

_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)

_P = ParamSpec("_P")
_R = TypeVar("_R")


@overload
def recorded_tool(function: Callable[_P, _R], /) -> Callable[_P, _R]: ...
@overload
def recorded_tool(
    *, name: str | None = None, subagent: bool = False, ignore_arguments: tuple[str, ...] = ()
) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]: ...
def recorded_tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    subagent: bool = False,
    ignore_arguments: tuple[str, ...] = (),
) -> Any:
    """Record a tool's results, and return them in replay without running it.

    A call is known by ``name`` (the function's, unless given) and its arguments, except those in ``ignore_arguments``
    (contexts, handles).  With ``subagent`` the body runs in replay too, its requests answered from the tape.  The
    result is written by the return annotation.  Raises :class:`ConfigurationError` for generators, for what cannot be
    called, and for an argument to leave out that the function does not have.
    """
    if function is None:
        return functools.partial(_decorate, name=name, subagent=subagent, ignored=ignore_arguments)
    return _decorate(function, name=name, subagent=subagent, ignored=ignore_arguments)


@dataclass(frozen=True)
class _Parameters:
    """The names of a function's parameters.

    ``needed`` have no default, ``receiver`` is that of a method, ``rest`` takes all keywords that are left, and
    ``by_place`` counts those that may be given by their place, -1 where some cannot be given by their name.
    """

    names: tuple[str, ...]
    needed: tuple[str, ...]
    receiver: str | None
    rest: str | None
    by_place: int


@dataclass(frozen=True)
class _Tool:
    """What is known of a decorated function."""

    function: Callable[..., Any]
    name: str
    subagent: bool
    ignored: frozenset[str]

    @functools.cached_property
    def signature(self) -> inspect.Signature:
        return inspect.signature(self.function)

    @functools.cached_property
    def names(self) -> tuple[str, ...]:
        """Its name, and where it decorates a recorded tool, that one's."""
        inner = _recorded_tool_in(self.function)
        return (self.name, inner.name) if inner else (self.name,)

    @functools.cached_property
    def codec(self) -> Codec:
        return codec_for(_return_type(self.function))

    @functools.cached_property
    def parameters(self) -> _Parameters:
        """What its signature says of its arguments."""
        found = self.signature.parameters
        names = tuple(found)
        rest = next((name for name in names if found[name].kind is inspect.Parameter.VAR_KEYWORD), None)
        by_place = sum(found[name].kind is inspect.Parameter.POSITIONAL_OR_KEYWORD for name in names)
        return _Parameters(
            names=names,
            needed=tuple(name for name in names if found[name].default is inspect.Parameter.empty),
            receiver=names[0] if names and names[0] in ("self", "cls") else None,
            rest=rest,
            by_place=by_place if all(found[name].kind in _BY_NAME for name in names) else -1,
        )

    def arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments of a call by name, as JSON; defaults that were not given are left out."""
        bound = self._bound(args, kwargs)
        parameters, ignored = self.parameters, self.ignored
        if parameters.rest in bound:
            bound = {**bound, **bound[parameters.rest]}
            del bound[parameters.rest]
        return {
            name: value if type(value) in SCALARS else as_json(value, tool=self.name, parameter=name)
            for name, value in bound.items()
            if name not in ignored and name != parameters.receiver
        }

    def _bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        parameters = self.parameters
        if len(args) <= parameters.by_place:  # the signature's own way takes its time
            given = {**dict(zip(parameters.names, args, strict=False)), **kwargs}
            bound = {name: given[name] for name in parameters.names if name in given}
            if len(bound) == len(args) + len(kwargs) and all(map(bound.__contains__, parameters.needed)):
                return bound
        try:
            return self.signature.bind(*args, **kwargs).arguments
        except TypeError:
            if _is_plain_function(self.function):
                self.function(*args, **kwargs)  # in its own words, which an agent may tell its model; no body runs
            raise


def _is_plain_function(function: Any) -> bool:
    function = getattr(function, "__func__", function)
    return inspect.isfunction(function) and not {"__wrapped__", "__signature__"} & vars(function).keys()


def _decorate(
    function: Callable[..., Any], *, name: str | None, subagent: bool, ignored: tuple[str, ...]
) -> Callable[..., Any]:
    if isinstance(function, staticmethod | classmethod):
        inner: Any = _decorate(function.__func__, name=name, subagent=subagent, ignored=ignored)
        return type(function)(inner)
    if not callable(function):
        raise ConfigurationError(f"{function!r} cannot be called, so it is no tool to record")
    if _is_any(function, inspect.isgeneratorfunction, inspect.isasyncgenfunction):
        raise ConfigurationError(
            f"{function!r} is a generator: a recorded tool returns one result; return a list instead"
        )
    shown = name or str(getattr(function, "__name__", type(function).__name__))
    if not isinstance(shown, str):
        raise ConfigurationError(f"recorded_tool: name={shown!r} must be a string")
    check_switch(subagent, told="recorded_tool: subagent")
    check_ignored(function, ignored, tool=shown)
    tool = _Tool(function=function, name=shown, subagent=subagent, ignored=frozenset(ignored))
    is_async = _is_any(function, inspect.iscoroutinefunction)
    recorded = _decorated_async(function, tool) if is_async else _decorated(function, tool)
    setattr(recorded, _MARK, tool)
    return recorded


def _is_any(function: Any, *claims: Callable[[Any], bool]) -> bool:
    """Return whether a claim holds for a function, or for the method that calls an object."""
    called = None if inspect.isroutine(function) else getattr(type(function), "__call__", None)  # noqa: B004
    return any(claim(function) or claim(called) for claim in claims)


def _decorated(function: Callable[..., Any], tool: _Tool) -> Callable[..., Any]:
    @functools.wraps(function)
    def recorded(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        call = _begin(tool, args, kwargs)
        return function(*args, **kwargs) if call is None else answer(call, function, *args, **kwargs)

    return recorded


def _decorated_async(function: Callable[..., Awaitable[Any]], tool: _Tool) -> Callable[..., Awaitable[Any]]:
    @functools.wraps(function)
    async def recorded(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        call = _begin(tool, args, kwargs)
        if call is None:
            return await function(*args, **kwargs)
        return await answer_async(call, function, *args, **kwargs)

    return recorded


def _begin(tool: _Tool, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call | None:
    __tracebackhide__ = True
    registry = installed_registry()
    if registry is None or registry.concerns_no_one():
        refuse_in_child(f"A call of the tool {tool.name!r}", registry)
        return None
    return open_call(
        tool.name,
        lambda: tool.arguments(args, kwargs),
        codec=tool.codec,
        runs_inside=tool.subagent,
        registry=registry,
        calling=tool.names,
        by_adapter=len(tool.names) > 1,
    )


def open_adapted(
    name: str,
    arguments: Callable[[], Any],
    *,
    function: Any,
    registry: Registry,
    runs_inside: bool = False,
    tool_use_id: str | None = None,
) -> Call | None:
    """Return one call that a framework makes of a tool, ``None`` where it concerns no test.

    ``function`` is the user's own, as far as it is known: what it says as a recorded tool holds here too.
    Raises what :meth:`Player.call_tool` raises.
    """
    __tracebackhide__ = True
    if registry.concerns_no_one():
        refuse_in_child(f"A call of the tool {name!r}", registry)
        return None
    tool = _recorded_tool_in(function)

    def kept() -> Any:
        given = arguments()
        if isinstance(given, dict):
            ignored = tool.ignored if tool else ()
            return {key: as_json(value, tool=name, parameter=key) for key, value in given.items() if key not in ignored}
        return given

    return open_call(
        name,
        kept,
        codec=_deep_codec_of(function),
        registry=registry,
        runs_inside=runs_inside or (tool is not None and tool.subagent),
        tool_use_id=tool_use_id,
        calling=(name, tool.name if tool else name),
        by_adapter=True,
    )


def _deep_codec_of(function: Any) -> DeepCodec:
    try:
        return _cached_deep_codec(function)
    except TypeError:  # a callable that cannot be hashed
        return DeepCodec(_return_type(function))


@functools.lru_cache(maxsize=1024)
def _cached_deep_codec(function: Any) -> DeepCodec:
    return DeepCodec(_return_type(function))


def _return_type(function: Any) -> Any:
    try:
        return get_type_hints(function, include_extras=True).get("return", Any)
    except (AttributeError, NameError, SyntaxError, TypeError):
        return Any


def _recorded_tool_in(function: Any) -> _Tool | None:
    """Return what a function is as a recorded tool, also under other decorators."""
    while function is not None:
        tool = getattr(function, _MARK, None)
        if isinstance(tool, _Tool):
            return tool
        function = getattr(function, "__wrapped__", None)
    return None
