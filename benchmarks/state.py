"""What the state store costs, against the installed stratadb on the same work.

Both keep a database in a folder, in the durability they come with: ours is ``fast``, theirs ``standard``; neither syncs
the disk before a commit returns.  Timed is each call alone, on the wall clock; a sample is the median of its calls.

* ``forks and writes``: in an opened store, ten forks of ``default`` and two writes on each; the whole of it (ours: the
  median of nine times, since it is over within one time slice of a busy machine).
* ``fork``: of the head of a branch that has 10, 1,000 or 100,000 commits (stratadb: 1,000; it takes long).
* ``put``, ``append``, ``get``, ``get as_of``: 50 keys with short text; events with a small payload.
* ``json get as_of``: a plan that an agent has extended by one path at a time, 4,000 versions of it.  As of 80 versions
  spread over the whole history, five paths of it are read, which costs us one parse; then, in a row without a reach,
  all of it, where both mostly make Python objects.
* ``open``: a store with 100,000 commits and 1,000 branches.
* ``bytes per fork``: by how much 1,000 forks make the closed file larger.
* ``fork depth 100``: a branch forked a hundred times, ten keys written at each level and 200 at the lowest.  ``fresh``
  is a process that has just opened the store and reads each of the 200 once, by the level they are read through;
  ``warm`` is one of them read again, against the same through one fork.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import stratadb
from _harness import Row, measure, median, print_rows, read_arguments

from pytest_agentreplay.state import Store, open_store

_CALLS = 1_000
_KEYS = 50
_VERSIONS = 4_000
_HISTORIES = (10, 1_000, 100_000)
_DEPTH = 100
_KEYS_A_LEVEL = 10
_KEYS_AT_ROOT = 200
_FORKS = 1_000


def main() -> None:
    arguments = read_arguments(__doc__, rounds=5)
    with tempfile.TemporaryDirectory() as folder:
        rows = compare(folder=Path(folder), rounds=arguments.rounds)
    print_rows(rows, as_json=arguments.json)


def compare(*, folder: Path, rounds: int) -> list[Row]:
    """Measure everything, the contenders in turn, and return the rows."""
    with opened(folder) as (store, strata, plans, strata_plans):
        histories = {count: _with_history(folder, count) for count in _HISTORIES}
        deep = _deep_store(folder)
        contenders: dict[str, Callable[[], float]] = {
            "forks and writes": lambda: median(_forks_and_writes(store, _next_name()) for _ in range(9)),
            "forks and writes, stratadb": lambda: _forks_and_writes(strata, _next_name()),
            **{f"fork after {count:,}": _forking(histories[count]) for count in _HISTORIES},
            "fork, stratadb": lambda: _time(lambda _: strata.branches.fork("default", _next_name()), calls=10),
            "open": lambda: _opening(folder / f"history-{_HISTORIES[-1]}.db"),
            "fresh": lambda: median(_fresh(deep) for _ in range(3)),
            **_calls_of(store, ""),
            **_calls_of(strata, ", stratadb"),
            **_plan_reads(plans, ""),
            **_plan_reads(strata_plans, ", stratadb"),
        }
        samples = measure(contenders, rounds=rounds)
        samples |= measure(_warm(deep), rounds=rounds)
        for opened_store in histories.values():
            opened_store.close()
    values = {name: median(found) for name, found in samples.items()}
    return [*_rows(values), *_growth(folder)]


@contextmanager
def opened(folder: Path) -> Iterator[tuple[Store, Any, Store, Any]]:
    """Open the four databases, with what is read from them."""
    with (
        open_store(folder / "ours.db") as store,
        stratadb.open(str(folder / "strata")) as strata,
        open_store(folder / "plans.db") as plans,
        stratadb.open(str(folder / "strata-plans")) as strata_plans,
    ):
        for database in (store, strata):
            for number in range(_CALLS):
                database.kv.put(f"key {number % _KEYS}", f"value {number}")
        for database in (plans, strata_plans):
            database.json.set("plan", "$", {"steps": {}})
            for number in range(_VERSIONS - 1):
                database.json.set("plan", f"$.steps.step{number}", {"number": number})
        yield store, strata, plans, strata_plans


def _rows(values: dict[str, float]) -> list[Row]:
    def against(name: str, reach: float | None, *, n: int = _CALLS, unit: str = "us") -> Row:
        return Row(f"{name}, against stratadb", n, values[name], unit, values[f"{name}, stratadb"], reach=reach)

    forks = [values[f"fork after {count:,}"] for count in _HISTORIES]
    return [
        against("forks and writes", 0.5, n=30, unit="ms"),
        Row("forks and writes", 30, values["forks and writes"], "ms", reach=2),
        *(Row("fork p50", count, taken, "us", reach=60) for count, taken in zip(_HISTORIES, forks, strict=True)),
        Row("fork p50, largest against smallest", _HISTORIES[-1], max(forks), "us", min(forks), reach=1.5),
        Row("fork p50, stratadb", _CALLS, values["fork, stratadb"], "us"),
        against("put", 2),
        against("append", 2),
        against("get", 1),
        against("get as_of", 1),
        against("json get as_of, a path", 0.1, n=_VERSIONS),
        against("json get as_of, the whole", None, n=_VERSIONS),
        Row("open, 100,000 commits, 1,000 branches", _HISTORIES[-1], values["open"], "ms", reach=30),
        Row("get through fork depth 100, fresh, a level", _DEPTH, values["fresh"], "us", reach=1),
        Row("get through fork depth 100, warm", _DEPTH, values["warm 100"], "us", values["warm 1"], reach=2),
    ]


_names = (f"fork {number}" for number in range(10**9))


def _next_name() -> str:
    return next(_names)


def _forks_and_writes(database: Any, prefix: str) -> float:
    started = time.perf_counter_ns()
    for number in range(10):
        name = f"{prefix} {number}"
        database.branches.fork("default", name)
        view = database.at(branch=name)
        view.kv.put("plan", "buy")
        view.kv.put("plan", "sell")
    return (time.perf_counter_ns() - started) / 1e6


def _calls_of(database: Any, contender: str) -> dict[str, Callable[[], float]]:
    kv, events = database.kv, database.events
    return {
        f"put{contender}": lambda: _time(lambda number: kv.put(f"key {number % _KEYS}", f"value {number}")),
        f"append{contender}": lambda: _time(lambda number: events.append("tool.call", {"number": number})),
        f"get{contender}": lambda: _time(lambda number: kv.get(f"key {number % _KEYS}")),
        f"get as_of{contender}": lambda: _time(lambda number: kv.get(f"key {number % _KEYS}", as_of=900)),
    }


def _plan_reads(database: Any, contender: str) -> dict[str, Callable[[], float]]:
    documents = database.json
    versions = [100 + (number * 1_597) % (_VERSIONS - 100) for number in range(80)]  # spread, no two alike
    paths = [f"$.steps.step{number}.number" for number in (0, 20, 40, 60, 80)]
    reads = [(path, version) for version in versions for path in paths]
    return {
        f"json get as_of, a path{contender}": lambda: _time(
            lambda at: documents.get("plan", reads[at][0], as_of=reads[at][1]), calls=len(reads)
        ),
        f"json get as_of, the whole{contender}": lambda: _time(
            lambda at: documents.get("plan", as_of=versions[at]), calls=len(versions)
        ),
    }


def _with_history(folder: Path, commits: int) -> Store:
    """Return a store with so many commits, and in the largest with a thousand branches."""
    store = open_store(folder / f"history-{commits}.db")
    for number in range(commits):
        store.kv.put(f"key {number % _KEYS}", number)
    for number in range(1_000 if commits == _HISTORIES[-1] else 0):
        store.branches.fork("default", f"branch {number}")
    return store


def _forking(store: Store) -> Callable[[], float]:
    return lambda: _time(lambda _: store.branches.fork("default", _next_name()), calls=200)


def _opening(path: Path) -> float:
    started = time.perf_counter_ns()
    with open_store(path) as store:
        taken = time.perf_counter_ns() - started
        assert store.kv.get("key 1") is not None
    return taken / 1e6


def _deep_store(folder: Path) -> Path:
    path = folder / "deep.db"
    with open_store(path) as store:
        name = "default"
        for level in range(_DEPTH + 1):
            for number in range(_KEYS_A_LEVEL if level else _KEYS_AT_ROOT):
                store.at(name).kv.put(f"level {level} key {number}", number)
            if level < _DEPTH:
                store.branches.fork(name, f"depth {level + 1}")
                name = f"depth {level + 1}"
    return path


_FRESH = f"""
import json, sys, time
from pytest_agentreplay.state import open_store

keys = [f"level 0 key {{number}}" for number in range({_KEYS_AT_ROOT})]
with open_store(sys.argv[1]) as store:
    view = store.at("depth {_DEPTH}")
    started = time.perf_counter_ns()
    found = [view.kv.get(key) for key in keys]
    taken = time.perf_counter_ns() - started
assert None not in found
print(json.dumps(taken))
"""


def _fresh(path: Path) -> float:
    """Return the microseconds a level of a read through all of them, the first look at the branch's past included."""
    done = subprocess.run([sys.executable, "-c", _FRESH, str(path)], capture_output=True, check=True)
    return json.loads(done.stdout) / 1e3 / _KEYS_AT_ROOT / _DEPTH


def _warm(path: Path) -> dict[str, Callable[[], float]]:
    store = open_store(path)
    contenders = {}
    for depth in (1, _DEPTH):
        kv = store.at(f"depth {depth}").kv
        contenders[f"warm {depth}"] = lambda kv=kv: _time(lambda _: kv.get("level 0 key 0"))
    return contenders


def _growth(folder: Path) -> list[Row]:
    path = folder / "growth.db"
    with open_store(path) as store:
        store.kv.put("plan", "buy")
    before = path.stat().st_size
    with open_store(path) as store:
        for number in range(_FORKS):
            store.branches.fork("default", f"test_a_claim~3f2a91c0~{number}")
    return [Row("bytes per fork", _FORKS, (path.stat().st_size - before) / _FORKS, "bytes", reach=300)]


def _time(call: Callable[[int], object], *, calls: int = _CALLS) -> float:
    times = []
    for number in range(calls):
        started = time.perf_counter_ns()
        call(number)
        times.append(time.perf_counter_ns() - started)
    return median(times) / 1e3


if __name__ == "__main__":
    main()
