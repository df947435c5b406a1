"""One store, many threads and processes, some of them killed."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from pytest_agentreplay.state import Store, open_store

PROCESSES = 4
WRITES = 500

# The store is opened before the processes fork: each must go on with a connection of its own.
WRITERS = f"""
import json, os, sys
from pytest_agentreplay.state import open_store

store = open_store(sys.argv[1])
children = []
for process in range({PROCESSES}):
    read, write = os.pipe()
    child = os.fork()
    if not child:
        acknowledged = []
        for number in range({WRITES}):
            event = store.events.append("tool.call", {{"process": process, "number": number}})
            version = store.kv.put(f"{{process}} {{number}}", number)
            acknowledged.append([event.sequence, int(event.version), int(version)])
        with os.fdopen(write, "w") as pipe:
            json.dump(acknowledged, pipe)
        store.close()
        os._exit(0)
    os.close(write)
    children.append((child, read))
answers = [json.load(os.fdopen(read)) for _, read in children]
assert [os.waitpid(child, 0)[1] for child, _ in children] == [0] * {PROCESSES}
assert store.events.count() == {PROCESSES * WRITES}
store.close()
print(json.dumps(answers))
"""


def run(code: str, *args: object) -> Any:
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, args)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_four_processes_lose_nothing_and_leave_one_log_without_gaps(tmp_path: Path) -> None:
    answers = run(WRITERS, tmp_path / "state.db")

    with open_store(tmp_path / "state.db") as store:
        events = store.events.list()
        assert [event.sequence for event in events] == list(range(PROCESSES * WRITES))
        assert store.events.verify_chain()
        assert store.at().head == 2 + 2 * PROCESSES * WRITES
        for process, acknowledged in enumerate(answers):
            for number, (sequence, event_version, version) in enumerate(acknowledged):
                event = events[sequence]
                assert event.payload == {"process": process, "number": number}
                assert event.version == event_version
                assert store.kv.get(f"{process} {number}", as_of=version) == number
                assert store.kv.get(f"{process} {number}", as_of=version - 1) is None
        store.verify()


# Four processes open the same new store at once.
OPENERS = """
import json, os, sys
from pytest_agentreplay.state import open_store

read, write = os.pipe()
children = []
for process in range(4):
    child = os.fork()
    if not child:
        os.close(write)
        os.read(read, 1)
        with open_store(sys.argv[1]) as store:
            store.kv.put(f"key {process}", process)
        os._exit(0)
    children.append(child)
os.close(write)
print(json.dumps([os.waitpid(child, 0)[1] for child in children]))
"""


def test_processes_that_open_a_new_store_at_once_share_it(tmp_path: Path) -> None:
    for attempt in range(5):
        path = tmp_path / f"{attempt}.db"

        exits = run(OPENERS, path)

        with open_store(path) as store:
            assert exits == [0, 0, 0, 0]
            assert store.kv.keys() == [f"key {process}" for process in range(4)]
            store.verify()


def test_threads_of_one_process_write_and_read_one_branch(tmp_path: Path) -> None:
    acknowledged: dict[str, int] = {}
    torn: list[Any] = []

    def work(store: Store, name: int) -> None:
        view = store.at()
        for number in range(50):
            view.events.append("tool.call", {"thread": name})
            version = view.json.set("pair", "$", {"left": [name, number], "right": [name, number]})
            acknowledged[f"{name} {number}"] = version
            pair = view.json.get("pair")
            if pair["left"] != pair["right"]:
                torn.append(pair)

    with open_store(tmp_path / "state.db") as store:
        threads = [threading.Thread(target=work, args=(store, name)) for name in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert torn == []
        assert len(set(acknowledged.values())) == 400
        assert [event.sequence for event in store.events.list()] == list(range(400))
        assert store.at().head == 2 + 800
        store.verify()


# Forks a writer, kills it at some moment, and says what it had acknowledged by then; thirty times.
KILLED_WRITERS = """
import json, os, random, signal, sys, time
from pytest_agentreplay.state import open_store

random.seed(5)
rounds = []
for round_ in range(30):
    read, write = os.pipe()
    child = os.fork()
    if not child:
        store = open_store(sys.argv[1], durability="durable")
        number = 0
        while True:
            store.kv.put(f"{round_} {number}", number)
            store.events.append("written", number)
            os.write(write, b"%d\\n" % number)
            number += 1
    os.close(write)
    os.read(read, 1)
    time.sleep(random.uniform(0, 0.02))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with os.fdopen(read, "rb") as pipe:
        rounds.append(pipe.read().count(b"\\n"))
print(json.dumps(rounds))
"""


def test_a_writer_killed_thirty_times_loses_nothing_that_it_acknowledged(tmp_path: Path) -> None:
    acknowledged = run(KILLED_WRITERS, tmp_path / "state.db")

    with open_store(tmp_path / "state.db") as store:
        store.verify()
        written = [event.payload for event in store.events.list("written")]
        for round_, count in enumerate(acknowledged):
            assert [store.kv.get(f"{round_} {number}") for number in range(count)] == list(range(count))
        assert len(acknowledged) == 30
        assert len(written) >= sum(acknowledged) >= 30


ANOTHER_PROCESS = """
import sys
from pytest_agentreplay.state import open_store

with open_store(sys.argv[1]) as store:
    for number in range(300):
        store.kv.put(f"other {number}", "x" * 200)
    print(store.kv.get("own"))
"""


def test_a_store_that_is_opened_twice_keeps_what_other_processes_must_not_take_away(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with open_store(path) as store:
        store.kv.put("own", 1)
        with open_store(path):  # nothing that is opened and closed by hand, or the locks of the first are gone
            pass
        seen = []
        for number in (2, 3):
            store.kv.put("own", number)
            seen.append(run(ANOTHER_PROCESS, path))

    with open_store(path) as store:
        assert (seen, store.kv.get("own"), store.kv.get("other 299")) == ([2, 3], 3, "x" * 200)
        store.verify()


ACKNOWLEDGING = """
import os, sys
from pytest_agentreplay.state import open_store

store = open_store(sys.argv[1], durability=sys.argv[2])
for number in range(20):
    if number % 2:
        store.kv.put(f"key {number}", number)
    else:
        store.events.append("written", number)
    os.write(1, b"acknowledged\\n")
store.branches.fork("default", "run")
os.write(1, b"acknowledged\\n")
os._exit(0)
"""


def unsynced_acknowledgements(path: Path, durability: str) -> list[bool]:
    """Return, for each acknowledgement in a trace of system calls, whether a write before it had not been synced."""
    trace = path.with_suffix(".trace")
    calls = ["strace", "-f", "-y", "-o", str(trace), "-e", "trace=pwrite64,write,writev,fsync,fdatasync"]
    subprocess.run(
        [*calls, sys.executable, "-c", ACKNOWLEDGING, str(path), durability], check=True, capture_output=True
    )
    found, unsynced = [], set[str]()
    for line in trace.read_text(encoding="utf-8", errors="replace").splitlines():
        match = re.search(r"\b(pwrite64|write|fsync|fdatasync)\(\d+<([^>]*)>(.*)", line)
        if match is None:
            continue
        call, file, rest = match.groups()
        if rest.startswith(', "acknowledged'):
            found.append(bool(unsynced))
        elif call in ("fsync", "fdatasync"):
            assert rest.endswith("= 0")
            unsynced.discard(file)
        elif file.startswith(str(path)) and not file.endswith("-shm"):
            unsynced.add(file)
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="system calls are traced with strace, which is Linux's")
def test_a_durable_store_syncs_the_disk_before_each_acknowledgement(tmp_path: Path) -> None:
    assert shutil.which("strace"), "strace is missing: scripts/test installs it as root; or: apt-get install strace"

    durable = unsynced_acknowledgements(tmp_path / "durable.db", "durable")
    fast = unsynced_acknowledgements(tmp_path / "fast.db", "fast")

    assert durable == [False] * 21
    assert fast == [True] * 21  # so the trace does tell the two apart
