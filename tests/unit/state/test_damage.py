"""Files that are not what a store wrote, and places where it cannot write: one error, and nothing lost."""

from __future__ import annotations

import errno
import json
import os
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_agentreplay.errors import StoreFileError
from pytest_agentreplay.state import Store, open_store
from pytest_agentreplay.state.connection import NO_DATABASE
from pytest_agentreplay.state.engine import Engine

EXPECTED_KEYS = 30


def fill(path: Path) -> dict[str, Any]:
    """Make a store of some pages; return all that can be read from it."""
    with open_store(path) as store:
        for number in range(EXPECTED_KEYS):
            store.kv.put(f"key {number}", f"value {number} " * 20)
            store.json.set("plan", f"$.step{number}", number)
            store.events.append("tool.call", {"number": number})
        store.branches.fork("default", "run", version=40)
        store.at("run").kv.put("key 1", "of the run")
        return read_all(store)


def read_all(store: Store) -> dict[str, Any]:
    found: dict[str, Any] = {"branches": [(branch.name, int(branch.head)) for branch in store.branches.list()]}
    for name in ("default", "run"):
        view = store.at(name)
        found[name] = {
            "kv": {key: view.kv.get(key) for key in (f"key {number}" for number in range(EXPECTED_KEYS))},
            "past": [view.kv.get("key 3", as_of=version) for version in (3, 20, 40)],
            "plan": view.json.get("plan"),
            "history": [(int(entry.version), entry.value) for entry in view.json.history("plan")],
            "events": [(event.sequence, event.type, event.payload, event.hash) for event in view.events.list()],
        }
    return found


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, dict[str, Any]]:
    path = tmp_path_factory.mktemp("whole") / "state.db"
    expected = fill(path)
    return path.read_bytes(), expected


def test_a_flipped_byte_is_one_error_or_hurts_nothing(whole: tuple[bytes, dict[str, Any]], tmp_path: Path) -> None:
    data, expected = whole
    path = tmp_path / "state.db"
    found = {"refused": 0, "verified": 0, "harmless": 0}
    places = [*range(100), *range(100, len(data), 331)]
    for at in places:
        damaged = bytearray(data)
        damaged[at] ^= 0x41
        path.write_bytes(damaged)
        try:
            with open_store(path) as store:
                is_same = read_all(store) == expected
                try:
                    store.verify()
                    found["harmless"] += 1
                    assert is_same, f"byte {at}: another answer, and nothing said"
                except StoreFileError:
                    found["verified"] += 1
        except StoreFileError as error:
            found["refused"] += error.path == str(path)

    assert found["refused"] > 50
    assert found["verified"] > 0
    assert sum(found.values()) == len(places)


@pytest.mark.parametrize("length", [1, 60, 100, 4096, 5000, 3 * 4096, -4096, -1])
def test_a_file_that_was_cut_is_refused_and_left_as_it_is(
    whole: tuple[bytes, dict[str, Any]], tmp_path: Path, length: int
) -> None:
    path = tmp_path / "state.db"
    path.write_bytes(whole[0][:length])

    with pytest.raises(StoreFileError, match=r"state\.db: the file"):
        open_store(path)

    assert path.read_bytes() == whole[0][:length]


def test_a_file_of_something_else_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    text, other = tmp_path / "text.db", tmp_path / "other.db"
    text.write_text("plan: buy\n" * 1_000)
    connection = sqlite3.connect(other)
    connection.execute("CREATE TABLE users (name TEXT)")
    connection.commit()
    connection.close()
    before = text.read_bytes(), other.read_bytes()

    with pytest.raises(StoreFileError) as of_text:
        open_store(text)
    with pytest.raises(StoreFileError) as of_other:
        open_store(other)

    assert (text.read_bytes(), other.read_bytes()) == before
    assert str(of_text.value).splitlines() == [
        f"{text}: {NO_DATABASE} (file is not a database)",
        "  Name another file; one that is not there yet is made. Of a store, take a copy from before.",
    ]
    assert str(of_other.value).splitlines() == [
        f"{other}: this SQLite database is no state store: another program has made it",
        "  Name another file; one that is not there yet is made.",
    ]


@pytest.mark.parametrize("content", [b"x", b"hello\n", b"\x00" * 600, bytes(range(256)) * 8, b"SQLite format 2\0" * 40])
def test_a_file_of_any_length_that_is_no_database_is_not_called_a_damaged_one(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "other"
    path.write_bytes(content)

    with pytest.raises(StoreFileError, match="the file is no SQLite database"):
        open_store(path)

    assert path.read_bytes() == content


def test_a_store_of_a_newer_version_is_refused_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    fill(path)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.commit()
    connection.close()

    with pytest.raises(StoreFileError, match=r"schema version 99, .* knows 1\n  Upgrade pytest-agent-cassette"):
        open_store(path)


def test_a_folder_and_a_missing_folder_are_named(tmp_path: Path) -> None:
    with pytest.raises(StoreFileError, match="this is a folder"):
        open_store(tmp_path)
    with pytest.raises(StoreFileError, match=r"there is no folder '.*absent'"):
        open_store(tmp_path / "absent" / "state.db")


def test_a_store_that_another_writer_keeps_locked_says_so_after_its_timeout(tmp_path: Path) -> None:
    with open_store(tmp_path / "state.db", timeout=0.05) as store:
        other = sqlite3.connect(tmp_path / "state.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")

        with pytest.raises(StoreFileError, match="another process has kept the file locked"):
            store.kv.put("key", "v")

        assert store.kv.get("key") is None
        other.execute("ROLLBACK")
        other.close()
        assert store.kv.put("key", "v") == 3


def test_the_one_file_copied_after_close_holds_everything(tmp_path: Path) -> None:
    expected = fill(tmp_path / "state.db")
    beside = sorted(path.name for path in tmp_path.iterdir())

    shutil.copy(tmp_path / "state.db", tmp_path / "copy.db")

    assert beside == ["state.db"]
    with open_store(tmp_path / "copy.db") as store:
        store.verify()
        assert read_all(store) == expected


def test_the_last_of_two_to_close_leaves_everything_in_the_one_file(tmp_path: Path) -> None:
    first, second = open_store(tmp_path / "state.db"), open_store(tmp_path / "state.db")
    first.kv.put("key", "of the first")
    second.kv.put("other", "of the second")
    first.close()
    assert (tmp_path / "state.db-wal").exists()

    second.close()

    assert [path.name for path in tmp_path.iterdir()] == ["state.db"]
    with open_store(tmp_path / "state.db") as store:
        assert store.kv.keys() == ["key", "other"]


def fill_up(store: Store) -> tuple[int, StoreFileError]:
    """Write until there is no room; return how many writes were acknowledged, and the error."""
    for number in range(100_000):
        try:
            store.kv.put(f"key {number}", "x" * 1_000)
        except StoreFileError as error:
            return number, error
    raise AssertionError("it never was full")


def survives(store: Store, acknowledged: int) -> bool:
    store.verify()
    return all(store.kv.get(f"key {number}") == "x" * 1_000 for number in range(acknowledged)) and not store.kv.exists(
        f"key {acknowledged}"
    )


def test_a_full_file_is_one_error_and_nothing_is_lost(tmp_path: Path) -> None:
    with open_store(tmp_path / "state.db") as store:
        store._engine._connection.execute("PRAGMA max_page_count = 60")

        acknowledged, error = fill_up(store)

        assert "the disk is full" in str(error)
        assert acknowledged > 10
        assert survives(store, acknowledged)
        store._engine._connection.execute("PRAGMA max_page_count = 1000")
        assert store.kv.put("more", "v") == acknowledged + 3


IN_A_CHILD = """
import json, sys
from pathlib import Path
from tests.unit.state.test_damage import {function}
print(json.dumps({function}(Path(sys.argv[1]))))
"""


def in_a_child(function: Callable[[Path], Any], path: Path) -> Any:
    """Run a function of this module in a process of its own, which it may restrict."""
    code = IN_A_CHILD.format(function=function.__name__)
    root = str(Path(__file__).resolve().parents[3])
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, timeout=60, cwd=root)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def fill_up_to_a_limit(path: Path) -> tuple[int, str, bool]:
    store = open_store(path)
    resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))
    acknowledged, error = fill_up(store)
    return acknowledged, str(error), survives(store, acknowledged)


def test_a_limit_on_the_size_of_files_is_one_error_and_nothing_is_lost(tmp_path: Path) -> None:
    acknowledged, error, is_whole = in_a_child(fill_up_to_a_limit, tmp_path / "state.db")

    assert "the file cannot be read or written" in error
    assert acknowledged > 10
    assert is_whole
    with open_store(tmp_path / "state.db") as store:
        assert survives(store, acknowledged)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system with room for 1 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(folder)], capture_output=True, text=True
    )
    if mounted.returncode:
        pytest.skip(f"a small disk needs root: {mounted.stderr.strip()}; the tests above fill a file in two other ways")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_is_one_error_and_nothing_is_lost(small_disk: Path) -> None:
    (small_disk / "ballast").write_bytes(bytes(100_000))
    with open_store(small_disk / "state.db") as store:
        acknowledged, error = fill_up(store)

        assert "the disk is full" in str(error)
        assert acknowledged > 10
        assert survives(store, acknowledged)
        (small_disk / "ballast").unlink()
        assert store.kv.put(f"key {acknowledged}", "v") == acknowledged + 3
    with open_store(small_disk / "state.db") as store:
        assert len(store.kv.keys()) == acknowledged + 1


def open_where_nothing_may_be_written(folder: Path) -> list[str]:
    if os.geteuid() == 0:  # permissions do not hold root up
        os.setgid(65_534)
        os.setuid(65_534)
    said = []
    for name in ("state.db", "new.db"):
        try:
            open_store(folder / name)
        except StoreFileError as error:
            said.append(str(error))
    return said


def test_a_read_only_folder_is_one_error_and_nothing_is_lost() -> None:
    folder = Path(tempfile.mkdtemp())
    try:
        expected = fill(folder / "state.db")
        (folder / "state.db").chmod(0o444)
        folder.chmod(0o555)

        said = in_a_child(open_where_nothing_may_be_written, folder)

        assert len(said) == 2
        assert all("cannot be opened" in text or "cannot be written" in text for text in said)
        folder.chmod(0o755)
        (folder / "state.db").chmod(0o644)
        with open_store(folder / "state.db") as store:
            assert read_all(store) == expected
    finally:
        folder.chmod(0o755)
        shutil.rmtree(folder)


def test_what_is_no_sqlite_error_is_not_taken_for_one(tmp_path: Path) -> None:
    engine = Engine(str(tmp_path / "state.db"))

    with pytest.raises(OSError, match="broken"), engine.writing():
        raise OSError(errno.EIO, "broken")
    engine.close()
