"""A damaged cassette is one clear error: no silent pass, no traceback from the depths, no changed file."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_agentreplay.cassette.lines import seal
from pytest_agentreplay.cli import main
from pytest_agentreplay.dialects import load_dialects
from pytest_agentreplay.errors import CassetteError
from pytest_agentreplay.player import Serve
from pytest_agentreplay.reader import HttpRequest
from pytest_agentreplay.session import open_session
from pytest_agentreplay.settings import RecordMode, Settings
from tests.support.openai import completion
from tests.support.suite import Provider, Suite
from tests.support.tapes import EVENTS, JSON, Told, chat, write_cassette

DIALECTS = load_dialects()
STREAM = b'data: {"choices":[{"delta":{"content":"six"}}]}\n\ndata: [DONE]\n\n'


def six_exchanges() -> list[Told]:
    """Return a conversation of four turns, a stream, and a request that no dialect reads."""
    messages: list[dict[str, str]] = []
    told = []
    for turn in range(4):
        messages = [*messages, {"role": "user", "content": f"question {turn}"}]
        told.append(Told(chat(*messages), completion(f"answer {turn}")))
        messages = [*messages, {"role": "assistant", "content": f"answer {turn}"}]
    streamed = chat({"role": "user", "content": "streamed"}, stream=True)
    return [*told, Told(streamed, STREAM, headers=EVENTS), Told(b"", b"\x00\xff", url="https://example.invalid/file")]


def replay(path: Path, *, mode: RecordMode = "none") -> None:
    """Replay the six exchanges from a cassette as a strict test would; an error is raised as it is."""
    settings = Settings(record_mode=mode)
    session = open_session(name="test_it.py::test_it", path=path, settings=settings, dialects=DIALECTS)
    try:
        for told in six_exchanges():
            content = told.body if isinstance(told.body, bytes) else json.dumps(told.body).encode()
            request = HttpRequest(method="POST", url=told.url, headers=JSON if content else (), content=content)
            served = session.player.ask(session.reader.read(request), call_site=lambda: None)
            assert isinstance(served, Serve), "a request went live"
            expected = told.answer if isinstance(told.answer, bytes) else json.dumps(told.answer).encode()
            assert served.step.response is not None
            assert served.step.response.content == expected, "a wrong answer was served"
        unplayed = session.player.unplayed_error(("setup", "call"))
        if unplayed is not None:
            raise unplayed
    finally:
        session.close(passed=False)


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A cassette of six exchanges."""
    return write_cassette(tmp_path_factory.mktemp("good") / "test_it.jsonl", six_exchanges()).read_bytes()


@pytest.fixture
def refused(tmp_path: Path) -> Callable[..., CassetteError]:
    """Replay from the given bytes, see them refused and left alone, and return the error."""

    def replay_damaged(data: bytes, *, mode: RecordMode = "none") -> CassetteError:
        path = tmp_path / "test_it.jsonl"
        path.write_bytes(data)
        with pytest.raises(CassetteError) as caught:
            replay(path, mode=mode)
        assert path.read_bytes() == data
        assert [entry.name for entry in tmp_path.iterdir()] == ["test_it.jsonl"]
        assert str(caught.value).startswith(f"{path}:{caught.value.line}: ")
        assert caught.value.remedy
        return caught.value

    return replay_damaged


def flipped(data: bytes, mask: int, *, every: int) -> Iterator[bytes]:
    """Yield some bytes with one of them changed, each so-many-th in turn."""
    for at in range(mask % every, len(data), every):
        yield data[:at] + bytes([data[at] ^ mask]) + data[at + 1 :]


def test_the_good_cassette_replays(good: bytes, tmp_path: Path) -> None:
    path = tmp_path / "test_it.jsonl"
    path.write_bytes(good)

    replay(path)

    assert path.read_bytes() == good


def test_line_ends_of_another_system_do_no_harm(good: bytes, tmp_path: Path) -> None:
    path = tmp_path / "test_it.jsonl"
    path.write_bytes(good.replace(b"\n", b"\r\n"))

    replay(path)

    assert main(["verify", str(path)]) == 0


def test_a_cassette_cut_off_at_any_byte_never_passes(good: bytes, refused: Callable[..., CassetteError]) -> None:
    for length in range(len(good)):
        refused(good[:length])


@pytest.mark.parametrize("mask", [0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80])
def test_a_cassette_with_a_flipped_byte_never_passes(
    good: bytes, refused: Callable[..., CassetteError], mask: int
) -> None:
    for data in flipped(good, mask, every=50):
        refused(data)


def test_a_cassette_with_conflict_markers_at_any_line_never_passes(
    good: bytes, refused: Callable[..., CassetteError]
) -> None:
    rows = good.splitlines(keepends=True)
    for at in range(len(rows)):
        ours, theirs = b"".join(rows[at : at + 2]), rows[at]
        conflict = b"<<<<<<< HEAD\n" + ours + b"=======\n" + theirs + b">>>>>>> feature\n"
        error = refused(b"".join([*rows[:at], conflict, *rows[at + 2 :]]))

        assert (error.line, error.fault) == (at + 1, "a git conflict marker")


@pytest.mark.parametrize("mode", ["once", "new_episodes"])
def test_recording_modes_refuse_a_damaged_cassette_too(
    good: bytes, refused: Callable[..., CassetteError], mode: RecordMode
) -> None:
    rows = good.splitlines(keepends=True)
    for at in range(1, len(rows)):
        refused(b"".join(rows[:at]), mode=mode)
    for data in flipped(good, 0x04, every=200):
        refused(data, mode=mode)


# What someone might do to a file by hand, and where the fault is found.
def edit_answer(rows: list[bytes]) -> int:
    return replace_in(rows, b"answer 2", b"answer 9", where=b'"response"')


def edit_question(rows: list[bytes]) -> int:
    return replace_in(rows, b"question 2", b"question 9", where=b'"kind":"message"')


def edit_stream(rows: list[bytes]) -> int:
    return replace_in(rows, b'\\"six\\"', b'\\"sex\\"', where=b'"events"')


def edit_hash(rows: list[bytes]) -> int:
    at = next(at for at, row in enumerate(rows) if b'"hash":"a1:' in row)
    rows[at] = rows[at].replace(b'"hash":"a1:', b'"hash":"a1:0', 1)
    return at + 1


def edit_and_seal_again(rows: list[bytes]) -> int:
    at = edit_answer(rows) - 1
    line = json.loads(rows[at])
    del line["sum"]
    rows[at] = seal(line) + b"\n"
    return len(rows)  # the sum of all sums does not fit


def repeat_a_step(rows: list[bytes]) -> int:
    at = next(at for at, row in enumerate(rows) if row.startswith(b'{"kind":"model"'))
    rows.insert(at, rows[at])
    return at + 2


def swap_two_steps(rows: list[bytes]) -> int:
    steps = [at for at, row in enumerate(rows) if row.startswith(b'{"kind":"model"')]
    rows[steps[1]], rows[steps[2]] = rows[steps[2]], rows[steps[1]]
    return steps[1] + 1


def drop_a_message(rows: list[bytes]) -> int:
    at = next(at for at, row in enumerate(rows) if b"question 0" in row)
    del rows[at]
    return at + 1


def claim_a_newer_format(rows: list[bytes]) -> int:
    line = json.loads(rows[0]) | {"format": 99}
    del line["sum"]
    rows[0] = seal(line) + b"\n"
    return 1


def replace_in(rows: list[bytes], old: bytes, new: bytes, *, where: bytes) -> int:
    at = next(at for at, row in enumerate(rows) if where in row and old in row)
    rows[at] = rows[at].replace(old, new)
    return at + 1


EDITS: dict[Callable[[list[bytes]], int], str] = {
    edit_answer: "the line was changed after it was recorded",
    edit_question: "the message was changed after it was recorded",
    edit_stream: "the line was changed after it was recorded",
    edit_hash: "the line was changed after it was recorded",
    edit_and_seal_again: "steps were added, removed or moved after the recording",
    repeat_a_step: "the order was changed",
    swap_two_steps: "",
    drop_a_message: "",
    claim_a_newer_format: "the cassette has format 99; this version reads up to 1",
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_edited_cassette_is_found_by_verify_and_in_strict_replay(
    good: bytes,
    refused: Callable[..., CassetteError],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    edit: Callable[[list[bytes]], int],
) -> None:
    rows = good.splitlines(keepends=True)
    line = edit(rows)
    damaged = b"".join(rows)
    assert damaged != good

    error = refused(damaged)
    code = main(["verify", str(tmp_path / "test_it.jsonl")])

    assert EDITS[edit] in error.fault
    assert error.line == line
    assert code == 1
    assert f"fault  {tmp_path / 'test_it.jsonl'}:{line}: {error.fault}" in capsys.readouterr().out


CONVERSES = """
import pytest
from agent import ask

@pytest.mark.agent_cassette
def test_it():
    try:
        ask("one")
        ask("one", "two")
    except Exception:
        pass

@pytest.mark.agent_cassette
def test_other():
    ask("three")
"""


AGAIN = "pytest test_it.py::test_it --record-mode=rewrite"
RESOLVE = f"Resolve the conflict: keep one side whole, or record it again: {AGAIN}\n"

# What is done to the file: the line, the words and the remedy that the user is shown.
DAMAGE: dict[str, tuple[Callable[[bytes], bytes], int, str, str]] = {
    "cut off": (lambda data: data[:-1], 6, "the last line is cut off", f"or record it again: {AGAIN}\n"),
    "no end": (lambda data: data[: data.index(b'{"kind":"run.end"')], 5, "the recording has no end", "Restore the"),
    "empty": (lambda data: b"", 1, "the file is empty", "Restore the file from version control"),
    "answer": (lambda data: data.replace(b"echo: two", b"echo: TWO"), 5, "the line was changed", "Restore the file"),
    "message": (lambda data: data.replace(b'"two"', b'"TWO"'), 4, "the message was changed", "Restore the file"),
    "conflict": (lambda data: b"<<<<<<< HEAD\n" + data, 1, "a git conflict marker", RESOLVE),
    "head": (lambda data: data.replace(b'"format":1', b'"format":2'), 1, "its first line was changed", "Restore the"),
    "other JSON": (
        lambda data: b'{"interactions": []}\n',
        1,
        "this is not an agent cassette",
        "If it never was one, name another file.",
    ),
    "bytes": (
        lambda data: b"\x89PNG\n\x00\x00",
        1,
        "this is not an agent cassette",
        "If it never was one, name another file.",
    ),
}
TOLD = [
    *(("none", name) for name in DAMAGE),
    ("once", "answer"),
    ("new_episodes", "answer"),
    ("new_episodes", "no end"),
]


@pytest.mark.parametrize(("mode", "damage"), TOLD)
def test_a_user_is_told_the_file_the_line_the_fault_and_the_remedy(
    suite: Suite, provider: Provider, mode: str, damage: str
) -> None:
    spoil, line, fault, remedy = DAMAGE[damage]
    suite.write(CONVERSES)
    suite.record()
    damaged = spoil(suite.cassette().read_bytes())
    suite.cassette().write_bytes(damaged)
    asked = len(provider.seen)

    result = suite.run(f"--record-mode={mode}")

    result.assert_outcomes(passed=1, errors=1)
    output = result.stdout.str()
    assert f"CassetteError: cassettes/test_it/test_it.jsonl:{line}: " in output
    assert fault in output
    assert remedy in output
    assert "pytest_agentreplay/" not in output
    assert "Traceback" not in output
    assert suite.cassette().read_bytes() == damaged
    assert len(provider.seen) == asked
    assert sorted(path.name for path in suite.cassette().parent.iterdir()) == ["test_it.jsonl", "test_other.jsonl"]


def test_a_cassette_that_is_a_folder_is_one_clear_error(suite: Suite) -> None:
    suite.write(CONVERSES)
    suite.cassette().mkdir(parents=True)

    result = suite.run()

    assert "test_it.jsonl: cannot be read: Is a directory" in result.stdout.str()
    assert "pytest_agentreplay/" not in result.stdout.str()


def test_rewrite_replaces_a_damaged_cassette(suite: Suite) -> None:
    suite.write(CONVERSES)
    suite.record()
    suite.cassette().write_bytes(suite.cassette().read_bytes()[:100])

    suite.run("--record-mode=rewrite").assert_outcomes(passed=2)

    suite.run().assert_outcomes(passed=2)
