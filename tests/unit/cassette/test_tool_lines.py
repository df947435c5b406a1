"""Lines of tool calls, decisions and notes: written, read back the same, and refused where they were changed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentreplay.cassette import Cassette, Recording, load_cassette, write_cassette
from pytest_agentreplay.cassette.lines import encode_plain, seal, sum_of, unseal
from pytest_agentreplay.cassette.loading import digest_of_sums
from pytest_agentreplay.errors import CassetteError
from pytest_agentreplay.records import (
    ApprovalStep,
    CompactionStep,
    Entry,
    PermissionStep,
    RunEnd,
    RunStart,
    Timing,
    ToolFailure,
    ToolStep,
    read_step,
)
from tests.unit.documents import any_json, is_same
from tests.unit.making import REDACTOR, answer, chat, make_reader, step_for, user

READER = make_reader()


def _call(name: str, *, at: float = 0.0, arguments: Any = None, **fields: Any) -> ToolStep:
    called = READER.read_tool_call(name, arguments or {})
    fields = {"id": called.hash[3:19], **fields}
    return ToolStep(
        hash=called.hash, name=name, arguments=called.arguments, timing=Timing(began=at, took=0.25), **fields
    )


def _steps() -> list[tuple[Entry, dict[str, Any]]]:
    """Return a turn with two tools, one of which asked a model of its own, a denied call and a note."""
    outer, inner = READER.read(chat(user("outer"))), READER.read(chat(user("inner")))
    look = _call("look", at=1.0, arguments={"for": "tea"}, lane="talk", tool_use_id="call_1", rank=0, result=[1, None])
    denied = _call(
        "pay",
        at=2.0,
        lane="talk",
        rank=1,
        error=ToolFailure(type="pytest_agentreplay.errors:ToolDeniedError", message="no", args=["no"]),
        is_error=True,
    )
    typed = _call("when", at=4.0, result="2025-01-02", result_type="datetime:date", phase="teardown")
    decision = PermissionStep(decision="deny", policy="P", lane="talk", rank=1, timing=Timing(began=2.0, took=0.0))
    return [
        (step_for(outer, lane="talk", response=answer("look"), began=0.0, took=0.5), outer.messages),
        (step_for(inner, lane="inner", response=answer("x"), began=1.1, took=0.1, parent=look.id), inner.messages),
        (look, {}),
        (decision, {}),
        (denied, {}),
        (CompactionStep(tokens_before=9, lane="talk", timing=Timing(began=3.0, took=0.0)), {}),
        (typed, {}),
        (ApprovalStep(name="refund", approved=False, approver="me", timing=Timing(began=5.0, took=0.0)), {}),
    ]


def _write(path: Path) -> Path:
    messages = {address: value for _, found in _steps() for address, value in found.items()}
    write_cassette(path, start=RunStart(), end=RunEnd(), entries=[step for step, _ in _steps()], messages=messages)
    return path


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return _write(tmp_path_factory.mktemp("good") / "good.jsonl").read_bytes()


def _load(folder: Path, data: bytes, *, partial: bool = False) -> Cassette:
    path = folder / "test_it.jsonl"
    path.write_bytes(data)
    return load_cassette(path, partial=partial)


def _joined(rows: list[bytes]) -> bytes:
    return b"".join(row + b"\n" for row in rows)


def _resealed(rows: list[bytes]) -> bytes:
    """Return a file whose sums fit, as one that was edited by someone who knows how they are made."""
    fields = [unseal(row) for row in rows if not row.startswith(b'{"kind":"message"')]
    assert None not in fields
    sums = [sum_of(row) for row in rows[1:-1] if not row.startswith(b'{"kind":"message"')]
    end = unseal(rows[-1])
    assert end is not None
    return _joined([*rows[:-1], seal({**end, "steps": digest_of_sums(sums)})])


def test_what_is_written_comes_back_the_same(tmp_path: Path) -> None:
    tape = load_cassette(_write(tmp_path / "it.jsonl"))

    written = {step.model_dump_json(exclude={"lane"}) for step, _ in _steps()}
    assert {step.model_dump_json(exclude={"lane"}) for step in tape.entries} == written
    assert [step.kind for step in tape.entries if step.lane != ""] == [
        "model", "tool", "permission", "tool", "compaction", "model"
    ]  # fmt: skip
    assert sorted(step.timing.began for step in tape.entries if step.timing) == [0.0, 1.0, 1.1, 2.0, 2.0, 3.0, 4.0, 5.0]
    assert [step.hash for step in tape.exchanges] == [step.hash for step in tape.entries if step.kind == "model"]


def test_a_line_says_nothing_that_goes_without_saying(good: bytes) -> None:
    lines = [fields for row in good.splitlines() if (fields := unseal(row) if b'"sum"' in row else None)]
    tools = {line["name"]: set(line) for line in lines if line["kind"] == "tool"}

    assert tools["look"] == {"kind", "lane", "hash", "id", "tool_use_id", "name", "arguments", "result"}
    assert tools["pay"] == {"kind", "lane", "hash", "id", "name", "arguments", "error", "is_error"}
    assert tools["when"] == {"kind", "phase", "hash", "id", "name", "arguments", "result", "result_type"}


@given(arguments=any_json, result=any_json)
def test_arguments_and_results_keep_every_json_value(arguments: Any, result: Any) -> None:
    step = _call("look").model_copy(update={"arguments": arguments, "result": result})

    fields = unseal(seal(encode_plain(step)))

    assert fields is not None
    back = read_step(fields)
    assert isinstance(back, ToolStep)
    assert is_same(back.arguments, arguments)
    assert is_same(back.result, result)


@given(extra=st.dictionaries(st.sampled_from(["cost", "agent", "span"]), any_json, max_size=2))
def test_fields_that_are_not_known_are_kept(extra: dict[str, Any]) -> None:
    step = read_step({"kind": "tool", "hash": "a1:0", "name": "look", **extra})
    assert isinstance(step, ToolStep)

    line = encode_plain(step)

    assert all(is_same(line.get(name), value) for name, value in extra.items())


def test_a_byte_changed_in_any_line_is_refused(tmp_path: Path, good: bytes) -> None:
    for at in range(0, len(good), 23):
        with pytest.raises(CassetteError):
            _load(tmp_path, good[:at] + bytes([good[at] ^ 0x01]) + good[at + 1 :])


def test_a_line_that_is_missing_doubled_or_moved_is_refused(tmp_path: Path, good: bytes) -> None:
    rows = good.splitlines()
    steps = [at for at, row in enumerate(rows) if row.startswith((b'{"kind":"tool"', b'{"kind":"permission"'))]
    for at in steps:
        for changed in (
            [*rows[:at], *rows[at + 1 :]],
            [*rows[: at + 1], *rows[at:]],
            [*rows[: at - 1], rows[at], rows[at - 1], *rows[at + 1 :]],
        ):
            with pytest.raises(CassetteError):
                _load(tmp_path, _joined(changed))


def _edited(rows: list[bytes], name: str, **changes: Any) -> list[bytes]:
    """Return the rows with fields of the call of one tool changed, as one line that is sound in itself."""
    [at] = [at for at, row in enumerate(rows) if f'"name":"{name}"'.encode() in row]
    fields = unseal(rows[at])
    assert fields is not None
    kept = {key: value for key, value in {**fields, **changes}.items() if value is not None}
    return [*rows[:at], seal(kept), *rows[at + 1 :]]


@pytest.mark.parametrize(
    ("name", "changes", "fault"),
    [
        ("look", {"hash": None}, "the step cannot be read (hash: Field required)"),
        ("look", {"source": "guessed"}, "the step cannot be read (source: "),
        ("look", {"phase": "later"}, "the step cannot be read (phase: "),
        ("pay", {"error": {"type": "x"}}, "the step cannot be read (error.message: Field required)"),
        (
            "when",
            {"parent": "0123456789abcdef"},
            "the step is inside the tool call '0123456789abcdef', which is nowhere",
        ),
        ("when", {"id": "SELF", "parent": "SELF"}, "the step is inside a tool call that is inside itself"),
    ],
)
def test_a_line_that_says_what_cannot_be_is_refused_by_name_though_its_sum_fits(
    tmp_path: Path, good: bytes, name: str, changes: dict[str, Any], fault: str
) -> None:
    rows = _edited(good.splitlines(), name, **changes)

    with pytest.raises(CassetteError) as caught:
        _load(tmp_path, _resealed(rows))

    assert caught.value.fault.startswith(fault)
    assert caught.value.line == 1 + next(at for at, row in enumerate(rows) if f'"name":"{name}"'.encode() in row)
    assert "--record-mode=rewrite" in caught.value.remedy


def test_two_calls_of_one_id_are_refused(tmp_path: Path, good: bytes) -> None:
    look = _call("look", arguments={"for": "tea"}).id
    rows = _edited(good.splitlines(), "when", id=look)

    with pytest.raises(CassetteError, match=f"the tool call '{re.escape(look)}' stands here a second time"):
        _load(tmp_path, _resealed(rows))


def test_a_kind_of_line_that_this_version_does_not_know_is_refused(tmp_path: Path, good: bytes) -> None:
    rows = good.splitlines()

    with pytest.raises(CassetteError, match="a line of kind 'gadget' is not expected here"):
        _load(tmp_path, _resealed([*rows[:-1], seal({"kind": "gadget"}), rows[-1]]))


def test_an_interrupted_recording_keeps_each_call_that_ended_and_may_lack_what_it_is_inside(tmp_path: Path) -> None:
    recording = Recording(tmp_path / "test_it.jsonl", RunStart(), redactor=REDACTOR)
    for step, messages in _steps():
        recording.append(step, messages)
    recording.leave()
    data = recording.partial.read_bytes()
    whole = _load(tmp_path, data, partial=True)

    for length in range(data.index(b"\n") + 1, len(data), 11):
        tape = _load(tmp_path, data[:length], partial=True)

        assert tape.entries == whole.entries[: len(tape.entries)]
        assert len(tape.entries) >= data[:length].count(b'"timing":[') - 1
    assert [step.kind for step in whole.entries] == [step.kind for step, _ in _steps()]
    assert [step.timing for step in whole.entries] == [step.timing for step, _ in _steps()]


def test_a_secret_in_a_call_is_not_written(tmp_path: Path) -> None:
    from pytest_agentreplay.errors import SecretLeakError

    recording = Recording(tmp_path / "test_it.jsonl", RunStart(), redactor=REDACTOR)
    secret = "sk-proj-Ab3dEf6hIj9kLm2nOp5qRs8tUv1wXy4z"

    for step in (
        _call("look").model_copy(update={"arguments": {"q": secret}}),
        _call("look").model_copy(update={"result": [secret]}),
        _call("look").model_copy(update={"error": ToolFailure(type="x:Y", message=secret)}),
        CompactionStep(summary=secret),
    ):
        with pytest.raises(SecretLeakError) as caught:
            recording.append(step, {})

        assert secret not in str(caught.value)
    assert not recording.partial.exists()
