"""A cassette is read whole, or refused with the file, the line and what to do."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_agentreplay.cassette import Cassette, load_cassette
from pytest_agentreplay.cassette.lines import seal, sum_of, unseal
from pytest_agentreplay.cassette.loading import digest_of_sums
from pytest_agentreplay.errors import CassetteError
from pytest_agentreplay.records import FORMAT_VERSION, ExchangeStep, Response
from tests.unit.documents import places
from tests.unit.making import answer, conversation, make_reader, post, record, step_for

CONFLICTS = ["<<<<<<< HEAD", "=======", ">>>>>>> feature", "||||||| 0a1b2c3"]


def _steps() -> list[tuple[ExchangeStep, dict[str, Any]]]:
    """Return a conversation of three turns and two exchanges beside it."""
    reader = make_reader()
    made = []
    for turn, request in enumerate(conversation(3)):
        asked = reader.read(request)
        response = answer(f"answer {turn}").model_copy(update={"cuts": (10, 20, 1000)})
        made.append((step_for(asked, lane="talk", response=response, began=float(turn), took=0.5), asked.messages))
    for number in range(2):
        asked = reader.read(post(b"", url=f"https://example.com/{number}", method="GET", headers=()))
        made.append((step_for(asked, response=Response(status=200, content=b"\xff\x00"), began=9.0 + number), {}))
    return made


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = record(tmp_path_factory.mktemp("good") / "good.jsonl", _steps(), name="test_it", config={"model": "m"})
    return path.read_bytes()


@pytest.fixture
def load(tmp_path: Path) -> Callable[..., Cassette]:
    """Load the given bytes as a cassette, and see to it that the file stays as it is."""

    def load(data: bytes, *, partial: bool = False) -> Cassette:
        path = tmp_path / "test_it.jsonl"
        path.write_bytes(data)
        before = path.stat().st_mtime_ns
        try:
            return load_cassette(path, partial=partial)
        finally:
            assert path.read_bytes() == data
            assert path.stat().st_mtime_ns == before
            assert [entry.name for entry in tmp_path.iterdir()] == ["test_it.jsonl"]

    return load


def _refusal(load: Callable[..., Cassette], data: bytes, *, partial: bool = False) -> CassetteError:
    """Return the error that the bytes are refused with; its form is checked here for all of them."""
    with pytest.raises(CassetteError) as caught:
        load(data, partial=partial)
    error = caught.value
    first, *rest = str(error).splitlines()
    assert error.line is not None
    assert 1 <= error.line <= data.count(b"\n") + 1
    assert first == f"{error.path}:{error.line}: {error.fault}"
    assert str(error.path).endswith("test_it.jsonl")
    assert rest == [f"  {error.remedy}"]
    return error


def _rows(data: bytes) -> list[bytes]:
    return data.split(b"\n")[:-1]


def _joined(rows: list[bytes], end: bytes = b"\n") -> bytes:
    return b"".join(row + end for row in rows)


def _resealed(rows: list[bytes]) -> bytes:
    """Return a file whose sums fit, as one that was edited by someone who knows how they are made."""
    kinds = (b'{"kind":"model"', b'{"kind":"http"')
    sums = [sum_of(row) for row in rows if row.startswith(kinds)]
    end = unseal(rows[-1])
    assert end is not None
    return _joined([*rows[:-1], seal({**end, "steps": digest_of_sums(sums)})])


# A good file


def test_a_good_cassette_has_its_steps_and_messages(load: Callable[..., Cassette], good: bytes) -> None:
    cassette = load(good)

    written = {step.hash: step for step, _ in _steps()}
    assert [step.hash for step in cassette.exchanges] == list(written)
    assert [step.kind for step in cassette.steps()] == ["run.start", *["model"] * 3, "http", "http", "run.end"]
    assert all(step.response == written[step.hash].response for step in cassette.exchanges)
    assert all(step.timing == written[step.hash].timing for step in cassette.exchanges)
    assert cassette.messages == {key: value for _, messages in _steps() for key, value in messages.items()}
    assert cassette.torn is None
    assert (cassette.start.name, cassette.start.config) == ("test_it", {"model": "m"})
    assert cassette.by_hash(cassette.exchanges[1].hash) == [1]


def test_line_ends_of_windows_are_accepted(load: Callable[..., Cassette], good: bytes) -> None:
    windows = load(_joined(_rows(good), b"\r\n"))

    assert windows == load(good)


def test_a_message_may_be_spelled_differently_and_is_the_same(load: Callable[..., Cassette], good: bytes) -> None:
    spaced = [json.dumps(json.loads(row), separators=(",", ": ")).encode() for row in _rows(good)]
    rows = [
        spaced[at].replace(b'{"kind": "message",', b'{"kind":"message",') if b'"kind":"message"' in row else row
        for at, row in enumerate(_rows(good))
    ]

    assert load(_joined(rows)) == load(good)


# Damage


def test_a_cassette_cut_off_anywhere_is_refused(load: Callable[..., Cassette], good: bytes) -> None:
    for length in range(len(good)):
        error = _refusal(load, good[:length])
        assert error.fault in (
            "the file is empty",
            "the last line is cut off",
            "the recording has no end: the file was cut off",
            "the message was changed after it was recorded, or a line is missing below it: no step refers to it",
        )


def test_a_cassette_with_a_byte_changed_is_refused(load: Callable[..., Cassette], good: bytes) -> None:
    for mask in (0x01, 0x20, 0x80):
        for at in range(mask % 7, len(good), 50):
            _refusal(load, good[:at] + bytes([good[at] ^ mask]) + good[at + 1 :])


def test_a_cassette_with_a_byte_put_in_or_taken_out_is_refused(load: Callable[..., Cassette], good: bytes) -> None:
    for at in range(0, len(good), 50):
        _refusal(load, good[:at] + good[at + 1 :])
        _refusal(load, good[:at] + b"\x00" + good[at:])


@pytest.mark.parametrize("marker", CONFLICTS)
@pytest.mark.parametrize("partial", [False, True])
def test_a_conflict_marker_at_any_line_is_named(
    load: Callable[..., Cassette], good: bytes, marker: str, partial: bool
) -> None:
    rows = _rows(good)
    for at in range(len(rows) + 1):
        error = _refusal(load, _joined([*rows[:at], marker.encode(), *rows[at:]]), partial=partial)
        assert (error.line, error.fault) == (at + 1, "a git conflict marker")
        assert error.remedy.startswith("Resolve the conflict")


def test_a_conflict_marker_at_the_end_without_a_line_end_is_named(load: Callable[..., Cassette], good: bytes) -> None:
    assert _refusal(load, good + b">>>>>>> feature").fault == "a git conflict marker"


def test_a_line_that_stands_twice_is_refused(load: Callable[..., Cassette], good: bytes) -> None:
    rows = _rows(good)
    for at in range(len(rows)):
        error = _refusal(load, _joined([*rows[: at + 1], *rows[at:]]))
        assert error.line in (at + 1, at + 2, len(rows) + 1)
        _refusal(load, _joined([*rows, rows[at]]))


def test_a_line_that_is_missing_is_refused(load: Callable[..., Cassette], good: bytes) -> None:
    rows = _rows(good)
    for at in range(len(rows)):
        _refusal(load, _joined([*rows[:at], *rows[at + 1 :]]))


def test_lines_that_were_swapped_are_refused(load: Callable[..., Cassette], good: bytes) -> None:
    rows = _rows(good)
    for first in range(len(rows)):
        for second in range(first + 1, len(rows)):
            swapped = [*rows]
            swapped[first], swapped[second] = rows[second], rows[first]
            _refusal(load, _joined(swapped))


def test_a_line_put_in_anywhere_is_refused(load: Callable[..., Cassette], good: bytes) -> None:
    rows = _rows(good)
    extra = [
        b"",
        b"{}",
        b"null",
        b"# a comment",
        b"\xff",
        seal({"kind": "value", "name": "x"}),
        seal({"kind": "unknown"}),
        b'{"kind":"message","value":"new"}',
        b'{"kind":"message","value":',
        b'{"kind":"message","other":1}',
    ]
    for line in extra:
        for at in range(len(rows) + 1):
            _refusal(load, _joined([*rows[:at], line, *rows[at:]]))


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (b"", "the file is empty"),
        (b"\n", "this is not an agent cassette, or its first line was changed"),
        (b"interactions:\n- request: {}\n", "this is not an agent cassette, or its first line was changed"),
        (b'{"log":{}}\n', "this is not an agent cassette, or its first line was changed"),
        (b"\x89PNG\r\n\x1a\n\x00", "this is not an agent cassette, or its first line was changed"),
        (b"SQLite format 3\0" * 9, "this is not an agent cassette, or its first line was changed"),
        (b"hello", "this is not an agent cassette, or its first line was changed"),
        (b'{"log":{}}', "this is not an agent cassette, or its first line was changed"),
        (b'\xef\xbb\xbf{"kind":"run.start"}\n', "this is not an agent cassette, or its first line was changed"),
        (b'{"kind":"run.start","for', "the last line is cut off"),
        (b'{"ki', "the last line is cut off"),
        (seal({"kind": "model"}) + b"\n", "the first line is of kind 'model', not 'run.start'"),
        (b'{"kind":"message","value":1}\n', "this is not an agent cassette, or its first line was changed"),
    ],
)
def test_what_is_no_cassette_is_refused(load: Callable[..., Cassette], data: bytes, fault: str) -> None:
    assert _refusal(load, data).fault == fault


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (b"", "the file is empty"),
        (b'{"kind":"run.st', "its first line is cut off"),
        (b"SQLite format 3\0", "this is not an agent cassette, or its first line was changed"),
        (b"<<<<<<< ours", "a git conflict marker"),
    ],
)
def test_what_is_no_interrupted_recording_is_refused(load: Callable[..., Cassette], data: bytes, fault: str) -> None:
    assert _refusal(load, data, partial=True).fault == fault


def test_a_file_of_something_else_is_told_what_to_do_in_either_case(load: Callable[..., Cassette]) -> None:
    remedy = _refusal(load, b"hello").remedy

    assert remedy.startswith("If it never was one, name another file. Restore the file from version control, or record")
    assert remedy.endswith("it again: pytest TEST --record-mode=rewrite, in code record_mode='rewrite'")


@pytest.mark.parametrize("version", [FORMAT_VERSION + 1, 99, "2", None, 1.5])
def test_a_cassette_of_a_newer_format_says_to_upgrade(load: Callable[..., Cassette], good: bytes, version: Any) -> None:
    rows = _rows(good)
    head = unseal(rows[0])
    assert head is not None

    error = _refusal(load, _joined([seal({**head, "format": version}), *rows[1:]]))

    assert error.line == 1
    assert error.fault == f"the cassette has format {version}; this version reads up to {FORMAT_VERSION}"
    assert error.remedy == "Upgrade: pip install --upgrade pytest-agent-cassette"


def test_a_message_without_a_value_is_told_from_a_line_that_is_no_json(
    load: Callable[..., Cassette], good: bytes
) -> None:
    rows = _rows(good)
    at = next(index for index, row in enumerate(rows) if b'"kind":"message"' in row)

    faults = [
        _refusal(load, _joined([*rows[:at], row, *rows[at + 1 :]])).fault
        for row in (b'{"kind":"message","text":"hi"}', b'{"kind":"message","value":')
    ]

    assert faults == ["the message has no value", "the line is not JSON"]


@pytest.mark.parametrize("name", ["absent.jsonl", "."])
def test_a_file_that_cannot_be_read_is_one_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(CassetteError, match="cannot be read"):
        load_cassette(tmp_path / name)


def test_a_file_that_is_not_there_yet_names_its_unfinished_recording(tmp_path: Path) -> None:
    (tmp_path / "it.partial.jsonl").write_bytes(b"")

    with pytest.raises(CassetteError, match="was never finished") as caught:
        load_cassette(tmp_path / "it.jsonl")

    assert caught.value.remedy.endswith(f"load_cassette('{tmp_path / 'it.partial.jsonl'}', partial=True)")


# Lines whose sums fit and that were never written all the same

ODD = [None, 5, True, "x", [], {}, [1], {"a": 1}, [[1]], [[None, None]], [[0, 0, 5]], 2**70, {"content-type": 5}]


def _damaged(line: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for place in list(places(line))[1:]:
        for odd in [*ODD, places]:
            changed = copy.deepcopy(line)
            parent: Any = changed
            for step in place[:-1]:
                parent = parent[step]
            if odd is places:
                del parent[place[-1]]
            else:
                parent[place[-1]] = odd
            yield changed


def test_a_line_that_was_never_written_is_refused_or_read_and_never_another_error(
    load: Callable[..., Cassette], good: bytes
) -> None:
    rows = _rows(good)
    numbers = [0, rows.index(next(row for row in rows if b'"after"' in row)), len(rows) - 2, len(rows) - 1]
    errors = []
    for number in numbers:
        line = unseal(rows[number])
        assert line is not None
        for damaged in _damaged(line):
            changed = [*rows[:number], seal(damaged), *rows[number + 1 :]]
            data = _joined(changed) if number == len(rows) - 1 else _resealed(changed)
            try:
                load(data)
            except CassetteError as error:
                errors.append(str(error))
    assert len(errors) > 200
    assert all(len(error.splitlines()) == 2 for error in errors)


# An interrupted recording


@pytest.fixture(scope="module")
def partial(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    from pytest_agentreplay.cassette import Recording
    from pytest_agentreplay.records import RunStart
    from tests.unit.making import REDACTOR

    recording = Recording(tmp_path_factory.mktemp("partial") / "test_it.jsonl", RunStart(), redactor=REDACTOR)
    for step, messages in _steps():
        recording.append(step, messages)
    recording.leave()
    return recording.partial.read_bytes()


def test_an_interrupted_recording_is_read_up_to_where_it_was_cut(load: Callable[..., Cassette], partial: bytes) -> None:
    whole = load(partial, partial=True)
    assert [step.hash for step in whole.exchanges] == [step.hash for step, _ in _steps()]
    assert [step.timing for step in whole.exchanges] == [step.timing for step, _ in _steps()]
    assert [step.response for step in whole.exchanges] == [step.response for step, _ in _steps()]

    head = partial.index(b"\n") + 1
    for length in range(head, len(partial), 7):
        cassette = load(partial[:length], partial=True)
        complete = partial[:length].count(b'"timing":[')
        assert cassette.exchanges == whole.exchanges[: len(cassette.exchanges)]
        assert len(cassette.exchanges) in (complete, complete - 1)
        assert (cassette.torn is None) == (partial[length - 1 : length] == b"\n")
        assert cassette.end is None


def test_a_torn_last_line_is_named(load: Callable[..., Cassette], partial: bytes) -> None:
    rows = _rows(partial)

    cassette = load(_joined(rows) + b'{"kind":"mod', partial=True)

    assert cassette.torn == f"line {len(rows) + 1} is cut off and was left out"


def test_an_interrupted_recording_is_no_cassette(load: Callable[..., Cassette], partial: bytes) -> None:
    assert _refusal(load, partial).fault == "the recording has no end: the file was cut off"


def test_an_interrupted_recording_with_a_changed_line_is_refused(load: Callable[..., Cassette], partial: bytes) -> None:
    last = partial.rindex(b"\n", 0, -1)
    for at in range(0, last, 50):
        _refusal(load, partial[:at] + bytes([partial[at] ^ 0x01]) + partial[at + 1 :], partial=True)
