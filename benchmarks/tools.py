"""What a replayed tool call costs.

A tool with a 1 KB result is recorded and called again in replay: its arguments are bound, redacted and hashed, the
recorded call is found, and the result is read back by the return annotation.  The bare function, which only returns the
same text, stands beside it; the number that counts is the time itself.

Timed is each call alone, on the wall clock; a sample is the median of its calls.  Reach: <= 60 us.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from _harness import Row, measure, median, print_rows, read_arguments

from pytest_agentreplay import recorded_tool
from pytest_agentreplay.dialects import load_dialects
from pytest_agentreplay.session import Session, open_session
from pytest_agentreplay.settings import RecordMode, Settings
from pytest_agentreplay.taps.owners import Registry, installed

_CALLS = 2_000
_RESULT = "The order was shipped on Monday. " * 31  # 1,023 bytes


def look_up(order: str) -> str:
    return f"{order}: {_RESULT}"


_recorded = recorded_tool(look_up)


def main() -> None:
    arguments = read_arguments(__doc__, rounds=5)
    with tempfile.TemporaryDirectory() as folder:
        cassette = Path(folder) / "tools.jsonl"
        _call_all(_recorded, cassette=cassette, mode="once")
        samples = measure(
            {
                "bare": lambda: _call_all(look_up),
                "replayed": lambda: _call_all(_recorded, cassette=cassette, mode="none"),
            },
            rounds=arguments.rounds,
        )
    bare = median(samples["bare"])
    rows = [
        Row(name="tool call, bare function", n=_CALLS, value=bare, unit="us"),
        Row(name="tool call, replayed, p50", n=_CALLS, value=median(samples["replayed"]), unit="us", reach=60),
    ]
    print_rows(rows, as_json=arguments.json)


def _call_all(tool: Callable[[str], str], *, cassette: Path | None = None, mode: RecordMode = "none") -> float:
    """Return the median time of a call, in microseconds."""
    if cassette is None:
        return _time_calls(tool)
    registry = Registry()
    session = _open(cassette, mode)
    registry.running = session
    registry.enter(session)
    with installed(registry):
        spent = _time_calls(tool)
    session.close(passed=True)
    return spent


def _open(cassette: Path, mode: RecordMode) -> Session:
    return open_session(name="benchmark", path=cassette, settings=Settings(record_mode=mode), dialects=load_dialects())


def _time_calls(tool: Callable[[str], str]) -> float:
    spent = []
    for number in range(_CALLS):
        order = f"order {number}"
        started = time.perf_counter()
        result = tool(order)
        spent.append(time.perf_counter() - started)
        assert result.startswith(order)
    return median(spent) * 1e6


if __name__ == "__main__":
    main()
