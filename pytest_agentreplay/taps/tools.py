"""Catch the calls of tools: in replay a recorded tool's body does not run, its recorded result is returned.

:func:`recorded_tool` decorates functions, methods and async functions; the adapters beside this module wrap the tools
of frameworks.  Outside a recorded test a decorated tool is the function that it decorates.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, NoReturn, ParamSpec, Protocol, TypeVar, get_type_hints, overload

from pydantic_core import PydanticSerializationError, to_jsonable_python

from pytest_agentreplay.canonical import canonical_json
from pytest_agentreplay.divergence import find_call_site
from pytest_agentreplay.errors import (
    ConfigurationError,
    RecordedToolError,
    ToolDeniedError,
    UnrecordableError,
)
from pytest_agentreplay.player import Decision, Player, ServeTool, ToolTicket
from pytest_agentreplay.records import PermissionStep, Timing, ToolFailure, ToolStep
from pytest_agentreplay.taps.owners import Registry, Scope, installed_registry, refuse_in_child
from pytest_agentreplay.values import (
    Codec,
    DeepCodec,
    TypedJson,
    codec_for,
    import_type,
    name_of_type,
    spell,
    unspell,
)

__all__ = [
    "Call",
    "ToolCall",
    "answer",
    "answer_async",
    "open_adapted",
    "open_call",
    "recorded_tool",
]

_MARK = "__agent_replay_tool__"

_SCALARS = frozenset({bool, float, int, str, type(None)})
_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_CANCELLED = name_of_type(asyncio.CancelledError)
_LONGEST_WAIT_TO_BE_CANCELLED = 60.0  # seconds

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
    result is written by the return annotation.  Raises :class:`ConfigurationError` for generators, and for what cannot
    be called.
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
            name: value if type(value) in _SCALARS else _as_json(value, tool=self.name, parameter=name)
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


def answer(call: Call, body: Callable[_P, _R], /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
    """Return what the recording says of a call, or run the tool's body and record it."""
    __tracebackhide__ = True
    if call.is_served:
        recorded: _R = call.recorded_result()
        return recorded
    with call.running():
        result = body(*args, **kwargs)
        call.returned(result)
        return result


async def answer_async(call: Call, body: Callable[_P, Awaitable[_R]], /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
    """Do the same for a tool that is awaited."""
    __tracebackhide__ = True
    if call.is_served:
        await _wait_where_cancelled(call)
        recorded: _R = call.recorded_result()
        return recorded
    with call.running():
        result = await body(*args, **kwargs)
        call.returned(result)
        return result


async def _wait_where_cancelled(call: Call) -> None:
    """Wait for what cancels this call, as it did when this was recorded: a timeout, or another call that failed."""
    if isinstance(call, ToolCall) and call.was_cancelled:
        await asyncio.sleep(_LONGEST_WAIT_TO_BE_CANCELLED)


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
            return {
                key: _as_json(value, tool=name, parameter=key) for key, value in given.items() if key not in ignored
            }
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


def open_call(
    name: str,
    arguments: Callable[[], Any],
    *,
    codec: Codec,
    registry: Registry,
    runs_inside: bool = False,
    tool_use_id: str | None = None,
    calling: tuple[str, ...] = (),
    by_adapter: bool = False,
) -> Call | None:
    """Return one call of a tool, decided about, or ``None`` where it concerns no test.

    A call that is caught twice on its way to the tool's body, by an adapter and by another or a decorator, is one call:
    the outer.  ``calling`` are the names by which it may be caught again.  Raises what :meth:`Player.call_tool` raises.
    """
    __tracebackhide__ = True
    owner = registry.of_tool(name)
    if owner is None:
        return None
    scope = registry.scope()
    if name in scope.calling and (by_adapter or scope.by_adapter):
        return _SameCall(registry, replace(scope, calling=()))
    try:
        called = owner.reader.read_tool_call(name, arguments())
    except UnrecordableError as error:
        owner.player.stop(error)
    decision = owner.player.call_tool(
        called,
        call_site=find_call_site,
        runs_inside=runs_inside,
        lane_name=scope.lane,
        parent=scope.parent,
        tool_use_id=tool_use_id,
    )
    if isinstance(decision, ToolTicket):
        # A sub-agent keeps the lane it was given; what any other tool requests is no part of that conversation.
        lane = scope.lane if runs_inside else None
        scope = Scope(lane=lane, parent=decision.id, calling=calling or (name,), by_adapter=by_adapter)
    return ToolCall(owner.player, decision, codec=codec, registry=registry, scope=scope)


class Call(Protocol):
    """One call of a tool, decided about."""

    @property
    def is_served(self) -> bool:
        """Whether the recording answers this call."""

    @property
    def is_error(self) -> bool:
        """Whether that answer is an error."""

    def recorded_result(self) -> Any:
        """Return what the tool returned when this was recorded, or raise what it raised."""

    def running(self) -> AbstractContextManager[None]:
        """Run the tool's body in this block."""

    def returned(self, result: Any, *, is_error: bool = False) -> None:
        """Record what the body returned."""


@dataclass(frozen=True)
class _SameCall:
    """A call that was caught further out already: it runs, and what it calls are calls of its own."""

    registry: Registry
    scope: Scope
    is_served: bool = False
    is_error: bool = False

    def recorded_result(self) -> NoReturn:
        raise AssertionError("a call that was caught already is answered where it was caught")

    def running(self) -> AbstractContextManager[None]:
        return self.registry.inside(self.scope)

    def returned(self, result: Any, *, is_error: bool = False) -> None:
        """Leave it to the outer call."""


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

    @property
    def is_error(self) -> bool:
        """Whether that answer is an error."""
        return isinstance(self._decision, ServeTool) and self._decision.step.is_error

    @property
    def was_cancelled(self) -> bool:
        """Whether it never returned when this was recorded, because it was cancelled."""
        failure = self._decision.step.error if isinstance(self._decision, ServeTool) else None
        return failure is not None and failure.type == _CANCELLED

    def recorded_result(self) -> Any:
        """Return what the tool returned when this was recorded, or raise what it raised."""
        __tracebackhide__ = True
        assert isinstance(self._decision, ServeTool)
        step = self._decision.step
        if step.error is not None:
            raise _exception_of(step)
        try:
            return self._codec.read(TypedJson(json=step.result, type=step.result_type))
        except ConfigurationError as error:
            self._player.stop(
                UnrecordableError(
                    f"The recorded result of tool {step.name!r} cannot be given: {error}.\n"
                    "  Record it again with --record-mode=rewrite."
                )
            )

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run the tool's body in this block: its steps are inside this call, and what it raises is recorded."""
        __tracebackhide__ = True
        ticket = self._decision
        assert isinstance(ticket, ToolTicket)
        with self._player.tool_in_flight():
            try:
                self._ask_policy(ticket)
                with self._registry.inside(self._scope):
                    yield
            except (Exception, asyncio.CancelledError) as error:
                if self._player.stopped is None:
                    self._player.complete_tool(ticket, failure=_failure_of(error))
                raise

    def returned(self, result: Any, *, is_error: bool = False) -> None:
        """Record what the body returned; ``is_error`` says that it tells of one."""
        __tracebackhide__ = True
        ticket = self._decision
        assert isinstance(ticket, ToolTicket)
        try:
            typed = self._codec.write(result)
        except ConfigurationError as error:
            self._player.stop(
                UnrecordableError(f"The result of tool {ticket.called.name!r} cannot be recorded: {error}.")
            )
        self._player.complete_tool(ticket, result=typed.json, result_type=typed.type, is_error=is_error)

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
            raise ToolDeniedError(f"The call of {called.name} was denied: {decision.reason or 'by policy'}")


def _as_json(value: Any, *, tool: str, parameter: str) -> Any:
    try:
        return _jsonable(value)
    except (PydanticSerializationError, RecursionError, ValueError) as error:
        raise UnrecordableError(
            f"A call of tool {tool!r} cannot be recorded: its argument {parameter!r} of type "
            f"{name_of_type(type(value))} is not JSON; leave it out: recorded_tool(ignore_arguments=({parameter!r},))."
        ) from error


def _jsonable(value: Any) -> Any:
    """Return a value as JSON that is the same in every process.  Raises ``ValueError`` where that cannot be."""
    kind = type(value)
    if kind in _SCALARS:
        return value
    if kind is dict:
        return {_key_of(key): _jsonable(entry) for key, entry in value.items()}
    if kind is list or kind is tuple:
        return [_jsonable(entry) for entry in value]
    if kind is set or kind is frozenset:
        return sorted(map(_jsonable, value), key=canonical_json)
    if is_dataclass(kind) and not hasattr(kind, "__pydantic_serializer__"):
        return {field.name: _jsonable(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Iterator):
        raise ValueError(f"{value!r} would be used up")  # noqa: TRY004 - of the wrong kind, not of the wrong type
    return to_jsonable_python(value, bytes_mode="base64", inf_nan_mode="constants")


def _key_of(key: Any) -> str:
    return key if type(key) is str else str(next(iter(to_jsonable_python({key: None}, bytes_mode="base64"))))


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


def _failure_of(error: BaseException) -> ToolFailure:
    # As pickle would: OSError keeps its file name there, and classes that know better than their args say so.
    reduced = error.__reduce__()
    made, given, *rest = reduced if isinstance(reduced, tuple) else (type(error), error.args)
    args = list(given if made is type(error) else error.args)
    found = rest[0] if rest and isinstance(rest[0], dict) else {}
    state = {name: spelled for name, value in found.items() if (spelled := _spelled(value)) is not None}
    return ToolFailure(type=name_of_type(type(error)), message=str(error), args=_spelled(args), state=state or None)


def _spelled(value: Any) -> Any:
    try:
        return spell(value)
    except (ConfigurationError, RecursionError):
        return None


def _exception_of(step: ToolStep) -> Exception:
    """Return the exception that a tool raised: of its class, where that can still be made and says the same."""
    failure = step.error
    assert failure is not None
    for make in (_construct, _restore):  # what a constructor takes is not always what it leaves in ``args``
        try:
            made = make(import_type(failure.type), failure)
            if str(made) == failure.message:
                return made
        except Exception:  # noqa: BLE001 - the class is the user's, and so is what it raises when it is made
            continue
    return RecordedToolError(f"{failure.type}: {failure.message}")


def _construct(kind: type, failure: ToolFailure) -> Exception:
    made = kind(*_args_of(failure))
    return _with_state(made, failure)


def _restore(kind: type, failure: ToolFailure) -> Exception:
    args = _args_of(failure)
    made = kind.__new__(kind, *args)
    made.args = tuple(args)
    return _with_state(made, failure)


def _args_of(failure: ToolFailure) -> list[Any]:
    args: list[Any] = unspell(failure.args) if failure.args is not None else [failure.message]
    return args


def _with_state(made: Any, failure: ToolFailure) -> Exception:
    if not isinstance(made, Exception):
        raise TypeError(f"{made!r} is no exception that a tool can raise")
    vars(made).update({name: unspell(value) for name, value in (failure.state or {}).items()})
    return made
