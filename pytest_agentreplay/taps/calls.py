"""One call of a tool, decided about: answered by the recording, or run and recorded."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Any, NoReturn, ParamSpec, Protocol, TypeVar

from pytest_agentreplay.divergence import find_call_site
from pytest_agentreplay.errors import (
    ConfigurationError,
    ToolDeniedError,
    UnrecordableError,
)
from pytest_agentreplay.player import Decision, Player, ServeTool, ToolTicket
from pytest_agentreplay.taps.owners import Registry, Scope
from pytest_agentreplay.taps.raised import exception_of, failure_of
from pytest_agentreplay.values import (
    Codec,
    TypedJson,
    name_of_type,
)

__all__ = ["Call", "ToolCall", "answer", "answer_async", "open_call"]

_CANCELLED = name_of_type(asyncio.CancelledError)
_LONGEST_WAIT_TO_BE_CANCELLED = 60.0  # seconds
_P = ParamSpec("_P")
_R = TypeVar("_R")


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
            raise exception_of(step)
        try:
            return self._codec.read(TypedJson(json=step.result, type=step.result_type))
        except ConfigurationError as error:
            again = self._player.words.record(self._player.test, "rewrite")
            self._player.stop(
                UnrecordableError(
                    f"The recorded result of tool {step.name!r} cannot be given: {error}.\n  Record it again: {again}"
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
                    self._player.complete_tool(ticket, failure=failure_of(error))
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
        decision: object = policy.decide(called.name, called.arguments)
        if not isinstance(decision, Decision):
            self._player.stop(
                UnrecordableError(
                    f"What policy {type(policy).__name__} decided about tool {called.name!r} cannot be recorded: "
                    f"{decision!r} is no Decision; return one, as Decision('allow')."
                )
            )
        approve = self._player.approve
        allowed = decision.action == "allow"
        if decision.action == "ask":
            allowed = approve is not None and approve(called.name, called.arguments)
        ticket.decide(decision, policy=type(policy).__name__, allowed=allowed)
        if not allowed:
            raise ToolDeniedError(f"The call of {called.name} was denied: {decision.reason or 'by policy'}")
