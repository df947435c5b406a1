"""What a replayed tool call costs, against calling the bare function.

A tool returns about 1 KB: as text, as a dict of 20 fields, or as a pydantic model by its annotation.  It is recorded
once, with other arguments in each call, and replayed from the cassette: the decorator, the registry of owners, the
hash of name and arguments, redaction, the look-up and the typed result included; opening the session is not.  ``asked``
is the dict tool in turns of eight calls that a model asked for, so that each call is also found among those; the
requests of the turns are not timed.  ``async`` is the same tool awaited.

Each call is timed by itself, and a round says the median of its calls.  ``overhead`` is the difference to the bare
function in the same round.

Reach: overhead <= 60 us for each of them.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from _harness import Row, measure, median, print_rows, read_arguments
from pydantic import BaseModel

from pytest_agentreplay import recorded_tool
from pytest_agentreplay.dialects import load_dialects
from pytest_agentreplay.player import Ticket
from pytest_agentreplay.reader import HttpRequest
from pytest_agentreplay.records import Response
from pytest_agentreplay.session import Session, open_session
from pytest_agentreplay.settings import RecordMode, Settings
from pytest_agentreplay.taps.owners import Registry, installed

_CALLS = 1000
_CALLS_A_TURN = 8
_JSON = (("content-type", "application/json"),)
_URL = "https://provider.test/v1/chat/completions"


class Line(BaseModel):
    sku: str
    quantity: int
    price: float


class Order(BaseModel):
    id: str
    customer: str
    lines: list[Line]


def text_tool(order_id: str, page: int) -> str:
    return f"order {order_id}, page {page}: " + "paid, packed and sent; " * 44


def dict_tool(order_id: str, page: int) -> dict[str, Any]:
    return {f"field_{index}": {"id": order_id, "page": page, "note": "packed"} for index in range(20)}


def model_tool(order_id: str, page: int) -> Order:
    lines = [Line(sku=f"teapot-{index:04}", quantity=page % 9, price=59.9) for index in range(19)]
    return Order(id=order_id, customer="somebody", lines=lines)


async def async_tool(order_id: str, page: int) -> dict[str, Any]:
    return dict_tool(order_id, page)


_TOOLS: dict[str, Callable[..., Any]] = {
    "text": text_tool,
    "dict": dict_tool,
    "dict, asked": dict_tool,
    "dict, async": async_tool,
    "model": model_tool,
}


class Bare:
    """The function itself."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def median_call(self) -> float:
        """Return the seconds that half of the calls take at most."""
        return _median_call(self._function, lambda _: None)


class Replayed:
    """The function as a recorded tool, in replay."""

    def __init__(self, function: Callable[..., Any], path: Path, *, is_asked: bool) -> None:
        self._tool = recorded_tool(function)
        self._path = path
        self._is_asked = is_asked
        self._dialects = load_dialects()
        with self._session("once") as session:
            _median_call(self._tool, self._turns(session))

    def median_call(self) -> float:
        with self._session("none") as session:
            return _median_call(self._tool, self._turns(session))

    @contextmanager
    def _session(self, mode: RecordMode) -> Iterator[Session]:
        settings = Settings(record_mode=mode)
        session = open_session(name="benchmark", path=self._path, settings=settings, dialects=self._dialects)
        registry = Registry()
        with installed(registry):
            registry.enter(session)
            yield session
        outcome = session.close(passed=True)
        if outcome.tools != _CALLS:
            raise SystemExit(f"{outcome.tools} of {_CALLS} calls were {outcome.action}")

    def _turns(self, session: Session) -> Callable[[int], None]:
        messages: list[dict[str, Any]] = []
        if not self._is_asked:
            return lambda _: None

        def begin(call: int) -> None:
            if call % _CALLS_A_TURN == 0:
                messages.append({"role": "user", "content": f"turn {call}"})
                messages.append(_ask(session, messages, first=call))

        return begin


def _ask(session: Session, messages: Sequence[dict[str, Any]], *, first: int) -> dict[str, Any]:
    """Make one turn's request, and return the answer that asks for its calls."""
    calls = [
        {
            "id": f"call_{number}",
            "type": "function",
            "function": {"name": "dict_tool", "arguments": json.dumps(_arguments(number))},
        }
        for number in range(first, first + _CALLS_A_TURN)
    ]
    message = {"role": "assistant", "content": None, "tool_calls": calls}
    content = json.dumps({"model": "m", "messages": list(messages)}).encode()
    request = HttpRequest(method="POST", url=_URL, headers=_JSON, content=content)
    decision = session.player.ask(session.reader.read(request), call_site=lambda: None)
    if isinstance(decision, Ticket):
        body = json.dumps({"choices": [{"index": 0, "message": message}]}).encode()
        session.player.complete(decision, response=Response(status=200, headers=_JSON, content=body))
    return message


def _arguments(number: int) -> dict[str, Any]:
    return {"order_id": f"A-{number}", "page": number}


def _median_call(function: Callable[..., Any], begin: Callable[[int], None]) -> float:
    if not asyncio.iscoroutinefunction(function):
        times = []
        for number in range(_CALLS):
            begin(number)
            arguments = _arguments(number)
            started = time.perf_counter_ns()
            function(**arguments)
            times.append(time.perf_counter_ns() - started)
        return median(times) / 1e9
    return asyncio.run(_median_awaited(function))


async def _median_awaited(function: Callable[..., Any]) -> float:
    times = []
    for number in range(_CALLS):
        arguments = _arguments(number)
        started = time.perf_counter_ns()
        await function(**arguments)
        times.append(time.perf_counter_ns() - started)
    return median(times) / 1e9


def compare(*, folder: Path, rounds: int) -> list[Row]:
    """Record every tool, measure it replayed and bare, and return the rows."""
    contenders: dict[str, Callable[[], float]] = {}
    for name, function in _TOOLS.items():
        path = folder / f"{name.replace(', ', '-')}.jsonl"
        contenders[f"bare, {name}"] = Bare(function).median_call
        contenders[f"replayed, {name}"] = Replayed(function, path, is_asked=name.endswith("asked")).median_call
    samples = measure(contenders, rounds=rounds)
    rows = []
    for name in _TOOLS:
        bare, replayed = samples[f"bare, {name}"], samples[f"replayed, {name}"]
        overhead = median(found - base for found, base in zip(replayed, bare, strict=True))
        rows += [
            Row(f"bare, {name}", _CALLS, median(bare) * 1e6, "us"),
            Row(f"replayed, {name}", _CALLS, median(replayed) * 1e6, "us", median(bare) * 1e6),
            Row(f"overhead, {name}", _CALLS, overhead * 1e6, "us", reach=60),
        ]
    return rows


def main() -> None:
    arguments = read_arguments(__doc__, rounds=9)
    with tempfile.TemporaryDirectory() as folder:
        rows = compare(folder=Path(folder), rounds=arguments.rounds)
    print_rows(rows, as_json=arguments.json)


if __name__ == "__main__":
    main()
