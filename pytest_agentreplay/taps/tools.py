"""Catch the calls of tools: in replay a recorded tool's body does not run, its recorded result is returned.

:func:`recorded_tool` decorates functions, methods and async functions; the adapters beside this module wrap the tools
of frameworks.  Outside a recorded test a decorated tool is the function that it decorates.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn, ParamSpec, TypeVar, get_type_hints, overload

from pydantic_core import PydanticSerializationError, to_jsonable_python

from pytest_agentreplay.divergence import find_call_site
from pytest_agentreplay.errors import (
    ConfigurationError,
    RecordedToolError,
    StrayRequestError,
    ToolDeniedError,
    UnrecordableError,
)
from pytest_agentreplay.player import Decision, Player, ServeTool, ToolTicket
from pytest_agentreplay.records import PermissionStep, Timing, ToolFailure, ToolStep
from pytest_agentreplay.taps.owners import Registry, Scope, installed_registry
from pytest_agentreplay.values import Codec, TypedJson, codec_for, import_type, name_of_type

__all__ = ["RECORDED_PROCESS", "ToolCall", "open_call", "recorded_tool"]

# Set while a recorded test runs, so that a child process that was started anew knows what it is in.
RECORDED_PROCESS = "AGENT_REPLAY_TEST"

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
    result is written by the return annotation.  Raises :class:`ConfigurationError` for generators.
    """
    if function is None:
        return functools.partial(_decorate, name=name, subagent=subagent, ignored=ignore_arguments)
    return _decorate(function, name=name, subagent=subagent, ignored=ignore_arguments)


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
    def codec(self) -> Codec:
        try:
            return codec_for(get_type_hints(self.function, include_extras=True).get("return", Any))
        except (NameError, TypeError):
            return codec_for(Any)

    def arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments of a call by name, as JSON; defaults that were not given are left out."""
        bound = self.signature.bind(*args, **kwargs).arguments
        kept: dict[str, Any] = {}
        for position, (name, value) in enumerate(bound.items()):
            kind = self.signature.parameters[name].kind
            if name in self.ignored or (position == 0 and name in ("self", "cls")):
                continue
            if kind is inspect.Parameter.VAR_KEYWORD:
                kept |= {key: _as_json(entry, tool=self.name, parameter=key) for key, entry in value.items()}
            else:
                kept[name] = _as_json(value, tool=self.name, parameter=name)
        return kept


def _decorate(
    function: Callable[..., Any], *, name: str | None, subagent: bool, ignored: tuple[str, ...]
) -> Callable[..., Any]:
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ConfigurationError(
            f"{function!r} is a generator: a recorded tool returns one result; return a list instead"
        )
    shown = name or str(getattr(function, "__name__", type(function).__name__))
    tool = _Tool(function=function, name=shown, subagent=subagent, ignored=frozenset(ignored))
    if inspect.iscoroutinefunction(function):
        return _decorated_async(function, tool)

    @functools.wraps(function)
    def recorded(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        call = _begin(tool, args, kwargs)
        if call is None:
            return function(*args, **kwargs)
        if call.is_served:
            return call.recorded_result()
        with call.running():
            return call.returned(function(*args, **kwargs))

    return recorded


def _decorated_async(function: Callable[..., Awaitable[Any]], tool: _Tool) -> Callable[..., Awaitable[Any]]:
    @functools.wraps(function)
    async def recorded(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        call = _begin(tool, args, kwargs)
        if call is None:
            return await function(*args, **kwargs)
        if call.is_served:
            return call.recorded_result()
        with call.running():
            return call.returned(await function(*args, **kwargs))

    return recorded


def _begin(tool: _Tool, args: tuple[Any, ...], kwargs: dict[str, Any]) -> ToolCall | None:
    __tracebackhide__ = True
    registry = installed_registry()
    if registry is None:
        _refuse_child_of_recorded_test(tool.name)
        return None
    if registry.concerns_no_one():
        return None
    return open_call(
        tool.name, lambda: tool.arguments(args, kwargs), codec=tool.codec, runs_inside=tool.subagent, registry=registry
    )


def open_call(
    name: str,
    arguments: Callable[[], Mapping[str, Any]],
    *,
    codec: Codec,
    registry: Registry,
    runs_inside: bool = False,
    tool_use_id: str | None = None,
) -> ToolCall | None:
    """Return one call of a tool, decided about, or ``None`` where it concerns no test.

    Raises what :meth:`Player.call_tool` raises.
    """
    __tracebackhide__ = True
    owner = registry.of_tool(name)
    if owner is None:
        return None
    try:
        called = owner.reader.read_tool_call(name, arguments())
    except UnrecordableError as error:
        owner.player.stop(error)
    scope = registry.scope()
    decision = owner.player.call_tool(
        called,
        call_site=find_call_site,
        runs_inside=runs_inside,
        lane_name=scope.lane,
        parent=scope.parent,
        tool_use_id=tool_use_id,
    )
    return ToolCall(owner.player, decision, codec=codec, registry=registry, scope=scope)


class ToolCall:
    """One call of a tool: to be answered from the tape, or run and recorded."""

    def __init__(
        self, player: Player, decision: ServeTool | ToolTicket, *, codec: Codec, registry: Registry, scope: Scope
    ) -> None:
        self._player = player
        self._decision = decision
        self._codec = codec
        self._registry = registry
        self._scope = scope

    @property
    def is_served(self) -> bool:
        """Whether the recording answers this call."""
        return isinstance(self._decision, ServeTool)

    def recorded_result(self) -> Any:
        """Return what the tool returned when this was recorded, or raise what it raised."""
        __tracebackhide__ = True
        assert isinstance(self._decision, ServeTool)
        step = self._decision.step
        if step.error is not None:
            raise _exception_of(step)
        return self._codec.read(TypedJson(json=step.result, type=step.result_type))

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run the tool's body in this block: its steps are inside this call, and what it raises is recorded."""
        __tracebackhide__ = True
        ticket = self._decision
        assert isinstance(ticket, ToolTicket)
        self._ask_policy(ticket)
        try:
            with self._registry.inside(Scope(lane=self._scope.lane, parent=ticket.id)):
                yield
        except Exception as error:
            self._player.complete_tool(ticket, failure=_failure_of(error))
            raise

    def returned(self, result: Any) -> Any:
        """Record what the body returned, and return it."""
        __tracebackhide__ = True
        ticket = self._decision
        assert isinstance(ticket, ToolTicket)
        try:
            typed = self._codec.write(result)
        except ConfigurationError as error:
            self._player.stop(
                UnrecordableError(f"The result of tool {ticket.called.name!r} cannot be recorded: {error}.")
            )
        self._player.complete_tool(ticket, result=typed.json, result_type=typed.type)
        return result

    def _ask_policy(self, ticket: ToolTicket) -> None:
        policy = self._player.policy
        if policy is None or ticket.expected is not None:
            return
        called = ticket.called
        decision: Decision = policy.decide(called.name, called.arguments)
        approve = self._player.approve
        allowed = decision.action == "allow"
        if decision.action == "ask":
            allowed = approve is not None and approve(called.name, called.arguments)
        ticket.decision = PermissionStep(
            lane=ticket.lane,
            phase=ticket.phase,
            parent=ticket.parent,
            rank=ticket.rank,
            timing=Timing(began=ticket.began, took=0.0),
            tool_use_id=ticket.tool_use_id,
            decision=decision.action,
            resolution=("allow" if allowed else "deny") if decision.action == "ask" else None,
            policy=type(policy).__name__,
            reason=decision.reason or None,
        )
        if not allowed:
            denied = ToolDeniedError(f"The call of {called.name} was denied: {decision.reason or 'by policy'}")
            self._player.complete_tool(ticket, failure=_failure_of(denied))
            raise denied


def _as_json(value: Any, *, tool: str, parameter: str) -> Any:
    try:
        return to_jsonable_python(value, bytes_mode="base64", inf_nan_mode="constants")
    except (PydanticSerializationError, ValueError) as error:
        raise UnrecordableError(
            f"A call of tool {tool!r} cannot be recorded: its argument {parameter!r} of type "
            f"{name_of_type(type(value))} is not JSON; leave it out: recorded_tool(ignore_arguments=({parameter!r},))."
        ) from error


def _failure_of(error: Exception) -> ToolFailure:
    try:
        args = to_jsonable_python(list(error.args))
        same = args == list(error.args)
    except (PydanticSerializationError, ValueError):
        same = False
    return ToolFailure(type=name_of_type(type(error)), message=str(error), args=list(error.args) if same else None)


def _exception_of(step: ToolStep) -> Exception:
    """Return the exception that a tool raised: of its class, where that can still be made and says the same."""
    failure = step.error
    assert failure is not None
    try:
        kind = import_type(failure.type)
        if isinstance(kind, type) and issubclass(kind, Exception):
            made = kind(*(failure.args if failure.args is not None else [failure.message]))
            if str(made) == failure.message:
                return made
    except (ConfigurationError, TypeError, ValueError):
        pass
    return RecordedToolError(f"{failure.type}: {failure.message}")


def _refuse_child_of_recorded_test(name: str) -> None:
    test = os.environ.get(RECORDED_PROCESS)
    if test is not None:
        _stray_in_child(name, test)


def _stray_in_child(name: str, test: str) -> NoReturn:
    raise StrayRequestError(
        f"The tool {name!r} was called in a child process of {test}, where it can be neither recorded nor answered.\n"
        "  Call it in the test's own process: in a thread, a task, or the main program."
    )
