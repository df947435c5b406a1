"""What a golden of 1,000 events costs, against syrupy's own single-file extension given the same finished text.

``in pytest`` is one test in a process of its own, from its setup to the end of the session: ours projects the tape,
writes the text and compares it with the golden file; syrupy's has the finished text and compares.  Start-up, the load
of the tape and the imports stand before it in both.  Most of syrupy's time there is what pytest itself does at the end
of a session.  Reach: at most twice syrupy's.

``calls`` are the same steps alone, in this process.  Syrupy's share there is to read a file and compare its bytes,
which no projection can come near; those rows say where the time goes and have no reach.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from _harness import Row, measure, median, print_rows, read_arguments

from pytest_agentreplay.cassette import write_cassette
from pytest_agentreplay.dialects import load_dialects
from pytest_agentreplay.player import MemoryTape
from pytest_agentreplay.projections.event_text import parse_events, write_events
from pytest_agentreplay.projections.events import event_stream
from pytest_agentreplay.reader import HttpRequest, Reader, rule_set_for
from pytest_agentreplay.records import ModelStep, Response, RunEnd, RunStart
from pytest_agentreplay.redact import redactor_for

_EVENTS = 1_000
_JSON = (("content-type", "application/json"),)
_CONFTEST = """
import time
from pathlib import Path

import pytest
from syrupy.extensions.single_file import SingleFileSnapshotExtension

import pytest_agentreplay.snapshots
from pytest_agentreplay import event_stream, load_cassette
from pytest_agentreplay.dialects import installed_dialects

TAPE = load_cassette("run.jsonl")
TEXT = Path("run.txt").read_bytes() if Path("run.txt").exists() else b""
installed_dialects()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item):
    item.config.began = time.perf_counter()
    return (yield)


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config):
    print("TOOK", time.perf_counter() - config.began)
"""
_TESTS = {
    "ours": "from conftest import TAPE, event_stream\n\n"
    "def test_it(event_snapshot):\n    assert event_stream(TAPE) == event_snapshot\n",
    "syrupy": "from conftest import TEXT, SingleFileSnapshotExtension\n\n"
    "def test_it(snapshot):\n    assert TEXT == snapshot.use_extension(SingleFileSnapshotExtension)\n",
}


def main() -> None:
    arguments = read_arguments(__doc__, rounds=15)
    tape = _tape()
    events = event_stream(tape)
    with tempfile.TemporaryDirectory() as name:
        folders = {who: _suite(Path(name) / who, test, tape) for who, test in _TESTS.items()}
        contenders: dict[str, Callable[[], float]] = {
            who: (lambda folder=folder: _session(folder)) for who, folder in folders.items()
        }
        golden = Path(name) / "golden"
        golden.write_bytes(write_events(events).encode())
        contenders |= {
            "project": lambda: _timed(lambda: event_stream(tape)),
            "write": lambda: _timed(lambda: write_events(events)),
            "compare": lambda: _timed(lambda: golden.read_bytes() == write_events(events).encode()),
            "parse": lambda: _timed(lambda: parse_events(golden.read_text(encoding="utf-8"))),
        }
        samples = measure(contenders, rounds=arguments.rounds)
    values = {who: median(found) for who, found in samples.items()}
    count = len(events)
    rows = [
        Row("a golden in pytest, against syrupy's single file", count, values["ours"], "ms", values["syrupy"], reach=2),
        Row("calls: project the tape", count, values["project"], "ms"),
        Row("calls: write the text", count, values["write"], "ms"),
        Row("calls: write and compare with a file", count, values["compare"], "ms"),
        Row("calls: parse the file, after a failure only", count, values["parse"], "ms"),
    ]
    print_rows(rows, as_json=arguments.json)


def _timed(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return (time.perf_counter() - started) * 1e3


def _suite(folder: Path, test: str, tape: MemoryTape) -> Path:
    """Return a folder with one test, its tape and its golden."""
    folder.mkdir()
    assert tape.start is not None
    write_cassette(folder / "run.jsonl", start=tape.start, end=RunEnd(), entries=tape.entries, messages=tape.messages)
    (folder / "run.txt").write_text(write_events(event_stream(tape)), encoding="utf-8")
    (folder / "conftest.py").write_text(_CONFTEST, encoding="utf-8")
    (folder / "test_it.py").write_text(test, encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    _session(folder, "--snapshot-update")
    return folder


def _session(folder: Path, *options: str) -> float:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-s", "-p", "syrupy", "-p", "agent_cassette", *options],
        cwd=folder,
        env=os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    if done.returncode:
        raise RuntimeError(done.stdout)
    return float(done.stdout.rpartition("TOOK ")[2].split()[0]) * 1e3


def _tape() -> MemoryTape:
    """Return a run of as many events: a task, then turns that each call one tool, whose result the next one brings."""
    dialects = load_dialects()
    reader = Reader(rule_set_for(dialects, redactor=redactor_for()))
    tape = MemoryTape(start=RunStart(name="tests/test_it.py::test_it"))
    said = [{"role": "user", "content": "Keep the greenhouse between 18 and 24 degrees."}]
    while True:
        number = len(said) // 2
        call = {"name": "read_sensor", "arguments": json.dumps({"sensor": number, "unit": "C"})}
        message = {"role": "assistant", "content": f"Reading sensor {number}, then I decide: open or close?"}
        message |= {"tool_calls": [{"id": f"call_{number}", "type": "function", "function": call}]}
        content = json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}).encode()
        body = json.dumps({"model": "gpt-5-mini", "messages": said}).encode()
        asked = reader.read(
            HttpRequest(method="POST", url="https://api.openai.com/v1/chat/completions", headers=_JSON, content=body)
        )
        step = ModelStep(
            hash=asked.hash,
            lane="0",
            provider=asked.provider,
            operation=asked.operation,
            request=asked.request,
            response=Response(status=200, headers=_JSON, content=content),
        )
        tape.append(step, asked.messages)
        if 2 + 2 * number + 1 >= _EVENTS:
            return tape
        result = f"{18 + number % 7} degrees\nat {number % 24:02}:00, humidity {40 + number % 30} %"
        said += [message, {"role": "tool", "tool_call_id": f"call_{number}", "content": result}]


if __name__ == "__main__":
    main()
