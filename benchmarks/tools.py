"""What a replayed tool call costs.

A tool with a 1 KB result is recorded and called again in replay: its arguments are bound, redacted and hashed, the
recorded call is found, and the result is read back by the return annotation.  The bare function stands beside it; the
number that counts is the time itself, for a result that is text, a dict of 20 records, and a pydantic model.  ``async``
is the dict, awaited; ``asked for`` is the dict in turns of eight calls that a model asked for, each of which is found
among them by its arguments (the requests of the turns are not timed).

Timed is each call alone, on the wall clock; a sample is the median of its calls.  Reach: <= 60 us more than the bare
function.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
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

_CALLS = 1_000
_CALLS_A_TURN = 8
_TEXT = "The order was shipped on Monday. " * 31  # 1,023 bytes
_JSON = (("content-type", "application/json"),)
_URL = "https://provider.test/v1/chat/completions"


class Line(BaseModel):
    sku: str
    quantity: int
    price: float


class Order(BaseModel):
    id: str
    lines: list[Line]


def look_up_text(order: str) -> str:
    return f"{order}: {_TEXT}"


def look_up_dict(order: str) -> dict[str, Any]:
    return {f"record {index}": {"id": order, "page": index, "note": "packed"} for index in range(20)}


def look_up_model(order: str) -> Order:
    return Order(id=order, lines=[Line(sku=f"teapot-{index:04}", quantity=2, price=59.9) for index in range(20)])


async def look_up_async(order: str) -> dict[str, Any]:
    return look_up_dict(order)


@dataclass
class Contender:
    """A tool, bare or recorded in a cassette."""

    function: Callable[..., Any]
    cassette: Path
    is_asked_for: bool = False

    def bare(self) -> float:
        """Return the median time of a call, in microseconds."""
        return _time_calls(self.function)

    def record(self) -> None:
        with self._session("once") as session:
            _time_calls(recorded_tool(self.function), self._turns(session))

    def replay(self) -> float:
        with self._session("none") as session:
            return _time_calls(recorded_tool(self.function), self._turns(session))

    @contextmanager
    def _session(self, mode: RecordMode) -> Iterator[Session]:
        registry = Registry()
        settings = Settings(record_mode=mode)
        session = open_session(name="benchmark", path=self.cassette, settings=settings, dialects=load_dialects())
        with installed(registry):
            registry.enter(session)
            yield session
        outcome = session.close(passed=True)
        if outcome.tools != _CALLS:
            raise SystemExit(f"{outcome.tools} of {_CALLS} calls were {outcome.action}")

    def _turns(self, session: Session) -> Callable[[int], None] | None:
        """Return what makes the request that asks for the next calls, where a model asks for them."""
        messages: list[dict[str, Any]] = []

        def begin(number: int) -> None:
            if number % _CALLS_A_TURN == 0:
                messages.append({"role": "user", "content": f"turn {number}"})
                messages.append(_ask(session, messages, name=self.function.__name__, first=number))

        return begin if self.is_asked_for else None


def _ask(session: Session, messages: list[dict[str, Any]], *, name: str, first: int) -> dict[str, Any]:
    calls = [
        {
            "id": f"call_{number}",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps({"order": _order(number)})},
        }
        for number in range(first, first + _CALLS_A_TURN)
    ]
    message = {"role": "assistant", "content": None, "tool_calls": calls}
    content = json.dumps({"model": "m", "messages": messages}).encode()
    request = HttpRequest(method="POST", url=_URL, headers=_JSON, content=content)
    decision = session.player.ask(session.reader.read(request), call_site=lambda: None)
    if isinstance(decision, Ticket):
        answer = json.dumps({"choices": [{"index": 0, "message": message}]}).encode()
        session.player.complete(decision, response=Response(status=200, headers=_JSON, content=answer))
    return message


def _order(number: int) -> str:
    return f"A-{number}"


def _time_calls(tool: Callable[..., Any], begin: Callable[[int], None] | None = None) -> float:
    if asyncio.iscoroutinefunction(tool):
        return asyncio.run(_time_awaited(tool))
    times = []
    for number in range(_CALLS):
        if begin is not None:
            begin(number)
        order = _order(number)
        started = time.perf_counter_ns()
        tool(order)
        times.append(time.perf_counter_ns() - started)
    return median(times) / 1e3


async def _time_awaited(tool: Callable[..., Any]) -> float:
    times = []
    for number in range(_CALLS):
        order = _order(number)
        started = time.perf_counter_ns()
        await tool(order)
        times.append(time.perf_counter_ns() - started)
    return median(times) / 1e3


def compare(*, folder: Path, rounds: int) -> list[Row]:
    """Record every tool, measure it bare and replayed, and return the rows."""
    contenders = {
        "text": Contender(look_up_text, folder / "text.jsonl"),
        "dict": Contender(look_up_dict, folder / "dict.jsonl"),
        "dict, async": Contender(look_up_async, folder / "async.jsonl"),
        "dict, asked for": Contender(look_up_dict, folder / "asked.jsonl", is_asked_for=True),
        "model": Contender(look_up_model, folder / "model.jsonl"),
    }
    turns: dict[str, Callable[[], float]] = {}
    for name, contender in contenders.items():
        contender.record()
        turns |= {f"bare, {name}": contender.bare, f"replayed, {name}": contender.replay}
    samples = measure(turns, rounds=rounds)
    rows = []
    for name in contenders:
        bare, replayed = samples[f"bare, {name}"], samples[f"replayed, {name}"]
        more = median(found - base for found, base in zip(replayed, bare, strict=True))
        rows += [
            Row(f"bare function, {name}", _CALLS, median(bare), "us"),
            Row(f"tool call, replayed, p50, {name}", _CALLS, median(replayed), "us", median(bare)),
            Row(f"overhead, p50, {name}", _CALLS, more, "us", reach=60),
        ]
    return rows


def main() -> None:
    arguments = read_arguments(__doc__, rounds=7)
    with tempfile.TemporaryDirectory() as folder:
        rows = compare(folder=Path(folder), rounds=arguments.rounds)
    print_rows(rows, as_json=arguments.json)


if __name__ == "__main__":
    main()
