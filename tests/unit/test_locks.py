from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from pytest_agentreplay.errors import ConfigurationError
from pytest_agentreplay.locks import lock_file

COUNT = """
import sys
from pathlib import Path
from pytest_agentreplay.locks import lock_file

counter, rounds = Path(sys.argv[1]), int(sys.argv[2])
for _ in range(rounds):
    with lock_file(counter, wait=60):
        counter.write_text(str(int(counter.read_text()) + 1))
"""
DIE = """
import os, sys
from pathlib import Path
from pytest_agentreplay.locks import lock_file

lock = lock_file(Path(sys.argv[1]))
os._exit(0)
"""

needs_posix = pytest.mark.skipif(os.name == "nt", reason="on Windows temporary files are each user's own")


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "run.jsonl"


def locks_in(temporary: Path) -> list[Path]:
    return [path for path in temporary.rglob("*") if path.is_file()]


def where_locked(target: Path, temporary: Path) -> Path:
    with lock_file(target):
        [place] = locks_in(temporary)
    return place


def refuse(path: Path, **_: object) -> None:
    raise PermissionError(13, "Permission denied", str(path))


def test_processes_that_take_turns_lose_no_count_and_leave_no_lock_file(target: Path, temporary: Path) -> None:
    target.write_text("0")

    running = [subprocess.Popen([sys.executable, "-c", COUNT, str(target), "300"]) for _ in range(3)]
    codes = [process.wait(timeout=120) for process in running]

    assert codes == [0, 0, 0]
    assert target.read_text() == "900"
    assert locks_in(temporary) == []


def test_a_lock_that_is_held_is_waited_for_and_then_given_up(target: Path, temporary: Path) -> None:
    with lock_file(target), pytest.raises(TimeoutError, match=r"run\.jsonl is locked"):
        lock_file(target, wait=0.05)

    assert locks_in(temporary) == []
    lock_file(target, wait=0).release()


def test_one_file_has_one_lock_by_whatever_path(target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "link").symlink_to(tmp_path, target_is_directory=True)
    monkeypatch.chdir(tmp_path)

    with lock_file(target):
        for path in (Path("run.jsonl"), tmp_path / "link" / "run.jsonl"):
            with pytest.raises(TimeoutError):
                lock_file(path, wait=0)


def test_two_files_have_two_locks(target: Path) -> None:
    with lock_file(target), lock_file(target.with_name("other.jsonl"), wait=0):
        pass


def test_a_lock_whose_file_somebody_has_removed_takes_no_other_lock_along(target: Path, temporary: Path) -> None:
    first = lock_file(target)
    [place] = locks_in(temporary)
    place.unlink()
    second = lock_file(target, wait=0)

    first.release()

    assert locks_in(temporary) == [place]
    with pytest.raises(TimeoutError):
        lock_file(target, wait=0)
    second.release()


def test_a_lock_is_released_once(target: Path) -> None:
    first = lock_file(target)
    first.release()
    with lock_file(target, wait=0):
        first.release()

        with pytest.raises(TimeoutError):
            lock_file(target, wait=0)


def test_a_lock_that_nobody_knows_any_more_is_released(target: Path) -> None:
    lock_file(target)

    lock_file(target, wait=0).release()


def test_the_lock_of_a_process_that_died_is_free_and_its_file_is_removed_by_the_next(
    target: Path, temporary: Path
) -> None:
    subprocess.run([sys.executable, "-c", DIE, str(target)], check=True)
    assert len(locks_in(temporary)) == 1

    lock_file(target, wait=0).release()

    assert locks_in(temporary) == []


@needs_posix
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_holds_nothing_and_releases_nothing(target: Path) -> None:
    lock = lock_file(target)
    ready, tell_ready = os.pipe()
    done, tell_done = os.pipe()
    child = os.fork()
    if child == 0:
        lock.release()
        os.write(tell_ready, b"x")
        os.read(done, 1)  # lives on, until it is told
        os._exit(0)
    os.read(ready, 1)

    with pytest.raises(TimeoutError):
        lock_file(target, wait=0)
    lock.release()
    lock_file(target, wait=0).release()

    os.write(tell_done, b"x")
    os.waitpid(child, 0)
    for end in (ready, tell_ready, done, tell_done):
        os.close(end)


@needs_posix
def test_the_folder_of_locks_is_closed_to_others(target: Path, temporary: Path) -> None:
    lock_file(target).release()

    [folder] = temporary.iterdir()
    assert folder.name == f"agent-replay-{os.getuid()}"
    assert folder.stat().st_mode & 0o777 == 0o700


@needs_posix
@pytest.mark.parametrize("squat", ["folder", "file", "link"])
def test_a_folder_of_locks_that_is_somebody_elses_is_refused_and_left_alone(
    squat: str, target: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: user + (squat == "folder"))
    place = temporary / f"agent-replay-{os.getuid()}"
    elsewhere = temporary / "elsewhere"
    elsewhere.mkdir()
    {"folder": place.mkdir, "file": place.touch, "link": lambda: place.symlink_to(elsewhere)}[squat]()
    before = place.lstat()

    with pytest.raises(ConfigurationError, match=r"is not a folder of user \d+; set TMPDIR"):
        lock_file(target)

    assert place.lstat() == before
    assert list(elsewhere.iterdir()) == []
    if squat == "folder":
        assert list(place.iterdir()) == []


@pytest.mark.parametrize("fault", ["no folder", "no place", "a folder in its place"])
def test_a_lock_that_cannot_be_kept_is_a_matter_of_settings(
    fault: str, target: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = where_locked(target, temporary)
    if fault == "no folder":
        monkeypatch.setattr(tempfile, "tempdir", str(temporary / "gone"))
    elif fault == "no place":
        monkeypatch.setattr(tempfile, "tempdir", None)
        monkeypatch.setattr(tempfile, "_candidate_tempdir_list", list)
    else:
        place.mkdir()

    with pytest.raises(ConfigurationError, match=r"no lock can be kept among the temporary files: .*; set TMPDIR"):
        lock_file(target)


@needs_posix
def test_who_waits_goes_on_where_the_folder_of_locks_is_cleaned_up(target: Path, temporary: Path) -> None:
    lock = lock_file(target)
    cleaner = threading.Timer(0.1, shutil.rmtree, [temporary / f"agent-replay-{os.getuid()}"])
    cleaner.start()

    lock_file(target, wait=30).release()

    lock.release()
    cleaner.join()


@needs_posix
def test_a_lock_whose_file_cannot_be_removed_is_released(
    target: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = lock_file(target)
    with monkeypatch.context() as read_only:
        read_only.setattr(Path, "unlink", refuse)

        lock.release()

    assert len(locks_in(temporary)) == 1
    lock_file(target, wait=0).release()


@needs_posix
def test_two_users_of_one_machine_share_no_folder(
    target: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = temporary / f"agent-replay-{os.getuid() + 1}"
    theirs.mkdir(mode=0o755)
    before = theirs.stat()

    with lock_file(target):
        assert list(theirs.iterdir()) == []

    assert theirs.stat() == before
