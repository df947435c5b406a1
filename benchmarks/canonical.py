"""Why orjson: what a growing conversation costs to parse and to write canonically, with three libraries.

A request hash needs the body parsed, and each element of its arrays written with sorted keys.  Timed is that work for
all N requests of a conversation that grows by about 1 KB a turn and has a tool call in every other turn: by orjson, by
msgspec and by the standard library, one after the other in each round.

Then what care costs in this package: ``canonical_json`` of one element where the fast writer's output stands, and where
it does not (a float, a ``null``, a key beyond the basic plane); and ``parse_json`` of the longest body where the fast
parser is exact, and where an integer of 20 digits makes it take the exact path.

Reach at N = 200: orjson takes no longer than the faster of the two others.
"""

from __future__ import annotations

import importlib.util
import json
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import orjson
from _harness import Row, measure, median, print_rows, read_arguments

from pytest_agentreplay.canonical import canonical_json, parse_json

_TURNS = (10, 50, 200)
_REPEATS = 200  # of what takes microseconds
_SENTENCE = (
    "The order was late, so the customer asks for a refund of the whole amount; see the policy on late parcels. "
)

Work = Callable[[Sequence[bytes]], None]


def with_orjson(bodies: Iterable[bytes]) -> None:
    for body in bodies:
        for element in orjson.loads(body)["messages"]:
            orjson.dumps(element, option=orjson.OPT_SORT_KEYS)


def with_msgspec(bodies: Iterable[bytes]) -> None:
    import msgspec

    for body in bodies:
        for element in msgspec.json.decode(body)["messages"]:
            msgspec.json.encode(element, order="sorted")


def with_standard_library(bodies: Iterable[bytes]) -> None:
    for body in bodies:
        for element in json.loads(body)["messages"]:
            json.dumps(element, ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode()


def growing_bodies(turns: int) -> list[bytes]:
    """Return the request bodies of a conversation, each with all messages before it."""
    messages: list[dict[str, Any]] = []
    bodies = []
    for turn in range(turns):
        messages.append({"role": "user", "content": f"{turn}: {_SENTENCE * 4}"})
        bodies.append(_body(messages))
        messages.append(_called(turn) if turn % 2 else {"role": "assistant", "content": f"{turn}: {_SENTENCE * 4}"})
    return bodies


def compare_libraries(turns: int, *, rounds: int) -> list[Row]:
    bodies = growing_bodies(turns)
    works: dict[str, Work] = {"orjson": with_orjson, "standard library": with_standard_library}
    if importlib.util.find_spec("msgspec") is not None:
        works["msgspec"] = with_msgspec
    samples = measure({name: _timer(work, bodies) for name, work in works.items()}, rounds=rounds)
    times = {name: median(found) for name, found in samples.items()}
    best_other = min(took for name, took in times.items() if name != "orjson")
    rows = [Row("parse and write, orjson", turns, times["orjson"], "ms", best_other, 1.0 if turns == 200 else None)]
    return rows + [
        Row(f"parse and write, {name}", turns, took, "ms", times["orjson"])
        for name, took in times.items()
        if name != "orjson"
    ]


def compare_care(turns: int, *, rounds: int) -> list[Row]:
    plain = {"role": "user", "content": _SENTENCE * 4}
    elements = {
        "plain": plain,
        "a float": plain | {"score": 0.5},
        "a null": plain | {"name": None},
        "a late key": plain | {"\U0001f600": 1},
    }
    body = growing_bodies(turns)[-1]
    exact = body[:-1] + b',"seed":12345678901234567890}'
    writers = {f"write, {name}": _repeated(canonical_json, value) for name, value in elements.items()}
    parsers = {"parse, plain": _repeated(parse_json, body), "parse, a long integer": _repeated(parse_json, exact)}
    samples = measure(writers | parsers, rounds=rounds)
    times = {name: median(found) for name, found in samples.items()}
    bases = {name: times[name.partition(",")[0] + ", plain"] for name in times}
    return [
        Row(name, 1 if name in writers else turns, took, "us", None if name.endswith("plain") else bases[name])
        for name, took in times.items()
    ]


def _body(messages: Sequence[dict[str, Any]]) -> bytes:
    return json.dumps({"model": "gpt-4o", "messages": messages}, ensure_ascii=False, separators=(",", ":")).encode()


def _called(turn: int) -> dict[str, Any]:
    arguments = json.dumps({"order": turn, "amount": 12.5, "reason": _SENTENCE * 3})
    call = {"id": f"call_{turn}", "type": "function", "function": {"name": "refund", "arguments": arguments}}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def _timer(work: Work, bodies: Sequence[bytes]) -> Callable[[], float]:
    def milliseconds() -> float:
        started = time.perf_counter()
        work(bodies)
        return (time.perf_counter() - started) * 1e3

    return milliseconds


def _repeated(work: Callable[[Any], Any], value: Any) -> Callable[[], float]:
    def microseconds() -> float:
        started = time.perf_counter()
        for _ in range(_REPEATS):
            work(value)
        return (time.perf_counter() - started) / _REPEATS * 1e6

    return microseconds


def main() -> None:
    arguments = read_arguments(__doc__, rounds=5)
    rows = [row for turns in _TURNS for row in compare_libraries(turns, rounds=arguments.rounds)]
    rows += compare_care(_TURNS[-1], rounds=arguments.rounds)
    print_rows(rows, as_json=arguments.json)


if __name__ == "__main__":
    main()
