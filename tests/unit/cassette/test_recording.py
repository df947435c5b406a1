"""A cassette being written."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentreplay.cassette import Cassette, Recording, load_cassette, partial_path
from pytest_agentreplay.errors import SecretLeakError
from pytest_agentreplay.reader import HttpRequest
from pytest_agentreplay.records import ExchangeStep, HttpStep, Response, RunEnd, RunStart, Timing, TransportError, Usage
from tests.unit.documents import any_json, is_same, spelled
from tests.unit.making import (
    CHAT,
    JSON,
    REDACTOR,
    answer,
    chat,
    conversation,
    make_reader,
    post,
    record,
    said,
    step_for,
    user,
)

Made = tuple[ExchangeStep, Mapping[str, Any]]


def _recording(path: Path, **start: Any) -> Recording:
    return Recording(path, RunStart(**start), redactor=REDACTOR)


def _made(request: HttpRequest, **more: Any) -> Made:
    asked = make_reader().read(request)
    return step_for(asked, **{"response": answer("a"), **more}), asked.messages


def _lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


# Round trips


def _cuts(content: bytes, random: Random) -> tuple[int, ...]:
    places = sorted(random.sample(range(1, len(content)), min(2, len(content) - 1))) if len(content) > 1 else []
    lengths = tuple(end - start for start, end in zip([0, *places], [*places, len(content)], strict=True))
    return lengths if len(lengths) > 1 else ()


@st.composite
def exchanges(draw: Any) -> Made:
    random = draw(st.randoms(use_true_random=False))
    body = draw(st.one_of(any_json, st.builds(lambda value: {"messages": [value], "model": value}, any_json)))
    raw = draw(st.one_of(st.binary(max_size=12), st.just(b""), st.just(spelled(body, random))))
    media_type = draw(st.sampled_from(["application/json", "text/event-stream", "text/plain", ""]))
    request = post(
        draw(st.sampled_from([raw, spelled(body, random)])),
        url=draw(st.sampled_from([CHAT, "https://api.example.com/x?a=1", "http://127.0.0.1:40000/"])),
        headers=draw(st.sampled_from([JSON, (), (("content-type", "application/x-www-form-urlencoded"),)])),
        method=draw(st.sampled_from(["POST", "GET"])),
    )
    content = draw(
        st.one_of(st.binary(max_size=20), st.just(spelled(body, random)), st.just(b"data: a\n\ndata: b\n\n"))
    )
    cuts = _cuts(content, random)
    response = Response(
        status=draw(st.sampled_from([200, 404])),
        headers=(("content-type", media_type), ("x", "é"), ("x", "2")),
        content=content,
        cuts=cuts,
        arrivals=tuple(0.125 * place for place in range(len(cuts))) if draw(st.booleans()) else (),
        truncated=draw(st.booleans()),
    )
    error = TransportError(client="httpx", class_name="ReadError", kind="reset", phase="body", text="\ud800 gone")
    return _made(
        request,
        lane=draw(st.sampled_from(["a", "b", "c"])),
        response=draw(st.sampled_from([response, None])),
        error=draw(st.sampled_from([None, error])),
        phase=draw(st.sampled_from(["setup", "call", "teardown"])),
        began=draw(st.sampled_from([0.0, 1.25, 2.0])),
        took=draw(st.sampled_from([0.0, 0.5])),
    )


def _body(step: ExchangeStep) -> Any:
    return step.request.body.model_dump()


def _rest(step: ExchangeStep) -> dict[str, Any]:
    return step.model_dump(exclude={"lane": True, "request": {"body"}}) | {"timing": step.timing}


@given(made=st.lists(exchanges(), max_size=5))
def test_what_was_recorded_is_what_is_loaded(made: list[Made], tmp_path_factory: pytest.TempPathFactory) -> None:
    path = record(tmp_path_factory.mktemp("c") / "test_it.jsonl", made)

    if not made:
        assert not path.exists()
        return
    cassette = load_cassette(path)

    written = {(step.hash, repr(_rest(step))) for step, _ in made}
    assert {(step.hash, repr(_rest(step))) for step in cassette.exchanges} == written
    assert len(cassette.exchanges) == len(made)
    bodies = {step.hash: _body(step) for step, _ in made}
    assert all(is_same(_listed(_body(step)), _listed(bodies[step.hash])) for step in cassette.exchanges)
    messages = {address: value for _, found in made for address, value in found.items()}
    assert cassette.messages.keys() == messages.keys()
    assert all(is_same(value, messages[address]) for address, value in cassette.messages.items())
    reader = make_reader()
    assert all(reader.reread(step.request, cassette.messages).hash == step.hash for step in cassette.exchanges)


def _listed(value: Any) -> Any:
    """Return a value with lists for tuples, as JSON has them."""
    if isinstance(value, dict):
        return {key: _listed(element) for key, element in value.items()}
    return [_listed(element) for element in value] if isinstance(value, list | tuple) else value


@given(made=st.lists(exchanges(), min_size=1, max_size=5))
def test_a_recording_that_is_interrupted_is_what_is_loaded(
    made: list[Made], tmp_path_factory: pytest.TempPathFactory
) -> None:
    recording = _recording(tmp_path_factory.mktemp("c") / "test_it.jsonl")
    for step, messages in made:
        recording.append(step, messages)
    recording.leave()

    partial = load_cassette(recording.partial, partial=True)

    assert [(step.hash, step.lane, repr(_rest(step))) for step in partial.exchanges] == [
        (step.hash, step.lane, repr(_rest(step))) for step, _ in made
    ]


def test_a_usage_a_transport_error_and_the_end_of_a_run_are_kept(tmp_path: Path) -> None:
    error = TransportError(client="httpx", class_name="ConnectError", phase="connect", text="refused")
    recording = _recording(tmp_path / "test_it.jsonl", name="t", run_id="r", recorded_at="2024", versions={"a": "1"})
    failed, messages = _made(chat(user("a")), response=None, error=error)
    recording.append(failed, messages)
    recording.append(*_made(chat(user("a")), usage=Usage(input_tokens=3), lane=failed.lane, began=1.0))

    recording.close(RunEnd(outcome="failed", turns=2), versions={"httpx": "2"})

    cassette = load_cassette(recording.path)
    assert cassette.exchanges[0].error == error
    assert cassette.exchanges[1].usage == Usage(input_tokens=3)  # type: ignore[union-attr]
    assert cassette.end == RunEnd(outcome="failed", turns=2)
    assert cassette.start == RunStart(name="t", run_id="r", recorded_at="2024", versions={"a": "1", "httpx": "2"})


# The file


def test_each_message_is_written_once_and_stands_before_the_step_that_brings_it_in(tmp_path: Path) -> None:
    made = [_made(request, lane="l", began=float(turn)) for turn, request in enumerate(conversation(20))]

    lines = _lines(record(tmp_path / "test_it.jsonl", made))

    kinds = [line["kind"] for line in lines]
    assert kinds == ["run.start", *["message"] * 3, "model", *["message", "message", "model"] * 19, "run.end"]
    messages = [json.dumps(line["value"]) for line in lines if line["kind"] == "message"]
    assert len(messages) == len(set(messages))


def test_lines_hold_no_number_and_no_time_but_the_last(tmp_path: Path) -> None:
    made = [_made(request, lane="l", began=10.0 + turn, took=0.25) for turn, request in enumerate(conversation(3))]

    *lines, last = _lines(record(tmp_path / "test_it.jsonl", made, run_id="r", recorded_at="2024-05-01"))

    assert not any(key in line for line in lines for key in ("seq", "timing", "began", "recorded_at", "run_id", "cuts"))
    assert last["timings"] == [[10.0, 0.25], [11.0, 0.25], [12.0, 0.25]]
    assert (last["recorded_at"], last["run_id"]) == ("2024-05-01", "r")


def test_recording_the_same_again_changes_the_last_line_only(tmp_path: Path) -> None:
    files = []
    for run in range(2):
        made = [
            _made(request, lane=f"l{run}", began=turn * (run + 1.5)) for turn, request in enumerate(conversation(5))
        ]
        path = record(tmp_path / f"{run}.jsonl", made, run_id=str(run), recorded_at=str(run))
        files.append(path.read_bytes().splitlines())

    assert files[0][:-1] == files[1][:-1]
    assert files[0][-1] != files[1][-1]


def test_changing_one_turn_changes_its_lines_and_the_hashes_of_later_ones(tmp_path: Path) -> None:
    def written(text: str) -> list[bytes]:
        messages: list[Any] = []
        made = []
        for turn in range(20):
            messages.append(user(text if turn == 7 else f"question {turn}"))
            made.append(_made(chat(*messages), lane="l", began=float(turn)))
            messages.append(said(f"answer {turn}"))
        return record(tmp_path / "test_it.jsonl", made).read_bytes().splitlines()

    before, after = written("as it was"), written("as it is")

    assert len(before) == len(after)
    changed = [json.loads(old) for old, new in zip(before, after, strict=True) if old != new]
    assert [line["kind"] for line in changed] == ["message", *["model"] * 13, "run.end"]
    for old, new in zip(before, after, strict=True):
        first, second = json.loads(old), json.loads(new)
        if first.get("kind") == "model" and old != new:
            for key in ("hash", "after", "sum"):
                first.pop(key), second.pop(key)
            added = [line["request"].get("add", {}).pop("messages", []) for line in (first, second)]
            assert first == second
            assert sum(left != right for left, right in zip(*added, strict=True)) <= 1


@given(random=st.randoms(use_true_random=False))
def test_interleaved_lanes_give_one_file_whatever_the_order_of_completion(
    random: Random, tmp_path_factory: pytest.TempPathFactory
) -> None:
    def written() -> list[bytes]:
        talks = []
        for number in range(4):
            opening = user(f"opening {number // 2}")
            reply = answer(f"answer {number}")
            at = random.random() / 2
            first = _made(chat(opening), lane=f"l{number}", response=reply, began=at, took=1 - at)
            then = chat(opening, said(f"answer {number}"), user("more"))
            second = _made(then, lane=f"l{number}", response=reply, began=2 + random.random())
            talks.append([first, second])
        mixed = []
        while any(talks):
            mixed.append(random.choice([talk for talk in talks if talk]).pop(0))
        path = record(tmp_path_factory.mktemp("c") / "test_it.jsonl", mixed)
        return path.read_bytes().splitlines()[:-1]

    assert written() == written()


def test_lanes_recorded_by_many_threads_give_one_file(tmp_path: Path) -> None:
    def written(name: str) -> list[bytes]:
        recording = _recording(tmp_path / name)
        barrier = threading.Barrier(8)

        def talk(number: int) -> None:
            barrier.wait()
            messages: list[Any] = [user(f"agent {number}")]
            for turn in range(5):
                made = _made(chat(*messages), lane=f"l{number}", began=float(turn), took=0.9)
                recording.append(*made)
                messages += [said(f"answer {number} {turn}"), user("go on")]

        threads = [threading.Thread(target=talk, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        recording.close(RunEnd())
        assert len(load_cassette(recording.path).exchanges) == 40
        return recording.path.read_bytes().splitlines()[:-1]

    assert written("one.jsonl") == written("two.jsonl") == written("three.jsonl")


def test_a_message_that_is_in_no_json_of_others_is_kept_exactly(tmp_path: Path) -> None:
    value = {
        "n": [2**64 + 1, float("inf"), 1.5, None],
        "\ud800": "a\u2028b\x00",
        "deep": json.loads("[" * 300 + "]" * 300),
    }
    content = spelled({"messages": [value], "field": value}, Random(1))

    path = record(tmp_path / "test_it.jsonl", [_made(post(content))])

    cassette = load_cassette(path)
    (kept,) = cassette.messages.values()
    assert repr(kept["deep"]) == repr(value["deep"])
    assert is_same({**kept, "deep": 0}, {**value, "deep": 0})
    assert make_reader().reread(cassette.exchanges[0].request, cassette.messages).hash == cassette.exchanges[0].hash


def test_a_lane_may_change_its_provider_on_the_way(tmp_path: Path) -> None:
    first = _made(chat(user("a")), lane="l")
    second = _made(post({"messages": [user("a")]}, url="https://api.groq.com/openai/v1/chat/completions"), lane="l")

    cassette = load_cassette(record(tmp_path / "test_it.jsonl", [first, second]))

    assert [step.provider for step in cassette.exchanges] == ["openai", "groq"]


# Partial and whole


def test_nothing_is_on_disk_before_the_first_exchange_or_when_there_is_none(tmp_path: Path) -> None:
    recording = _recording(tmp_path / "deep" / "test_it.jsonl")

    assert list(tmp_path.iterdir()) == []
    recording.close(RunEnd())
    assert list(tmp_path.iterdir()) == []


def test_each_exchange_is_on_disk_when_it_has_been_added(tmp_path: Path) -> None:
    recording = _recording(tmp_path / "test_it.jsonl")
    for count, request in enumerate(conversation(3), start=1):
        recording.append(*_made(request, lane="l", began=float(count)))

        partial = load_cassette(recording.partial, partial=True)

        assert len(partial.exchanges) == count
        assert not recording.path.exists()
    recording.leave()


def test_closing_puts_the_cassette_in_place_and_leaves_nothing_else(tmp_path: Path) -> None:
    record(tmp_path / "test_it.jsonl", [_made(chat(user("a")))])

    assert [entry.name for entry in tmp_path.iterdir()] == ["test_it.jsonl"]


def test_closing_replaces_a_cassette_and_leaving_does_not(tmp_path: Path) -> None:
    path = record(tmp_path / "test_it.jsonl", [_made(chat(user("old")))])
    old = path.read_bytes()

    left = _recording(path)
    left.append(*_made(chat(user("new"))))
    left.leave()
    after_leaving = path.read_bytes()
    record(path, [_made(chat(user("new")))])

    assert after_leaving == old
    assert b"new" in path.read_bytes()
    assert b"old" not in path.read_bytes()


def test_an_answer_that_comes_after_the_end_is_not_written(tmp_path: Path) -> None:
    recording = _recording(tmp_path / "test_it.jsonl")
    recording.append(*_made(chat(user("a"))))
    recording.close(RunEnd())
    before = recording.path.read_bytes()

    recording.append(*_made(chat(user("late"))))

    assert recording.path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["test_it.jsonl"]


def test_the_name_of_a_partial_recording_is_told_by_the_cassettes(tmp_path: Path) -> None:
    assert partial_path(tmp_path / "a.b[c].jsonl") == tmp_path / "a.b[c].partial.jsonl"


def _resumed(tmp_path: Path, count: int) -> tuple[Recording, Cassette]:
    path = tmp_path / "test_it.jsonl"
    first = _recording(path)
    for turn, request in enumerate(conversation(count)):
        first.append(*_made(request, lane="l", began=100.0 + turn))
    first.leave()
    tape = load_cassette(first.partial, partial=True)
    second = _recording(path)
    second.resume(tape.exchanges, tape.messages)
    return second, tape


def test_a_resumed_recording_holds_what_was_played_again_and_what_is_new(tmp_path: Path) -> None:
    recording, tape = _resumed(tmp_path, 3)

    for position, step in enumerate(tape.exchanges[:2]):
        recording.carry(step, began=float(position))
    recording.append(*_made(chat(user("new")), began=2.0))
    interrupted = load_cassette(recording.partial, partial=True)
    recording.close(RunEnd())

    assert [step.hash for step in interrupted.exchanges[:3]] == [step.hash for step in tape.exchanges]
    assert len(interrupted.exchanges) == 4
    cassette = load_cassette(recording.path)
    assert [step.hash for step in cassette.exchanges[:2]] == [step.hash for step in tape.exchanges[:2]]
    assert len(cassette.exchanges) == 3
    assert not recording.partial.exists()


def test_equal_requests_keep_the_order_of_the_run_that_took_the_first_over(tmp_path: Path) -> None:
    """What was served from an older recording came first in this run, whatever its clock said then."""
    request = post(b"", method="GET", headers=(), url="https://example.com/")
    old = _made(request, response=Response(status=200, content=b"old"), began=500.0, took=1.0, lane="x")
    tape = load_cassette(record(tmp_path / "test_it.jsonl", [old]))
    recording = _recording(tmp_path / "test_it.jsonl")
    recording.know(tape.messages)

    recording.carry(tape.exchanges[0], began=0.1)
    recording.append(*_made(request, response=Response(status=200, content=b"new"), began=0.2, took=0.1, lane="y"))
    recording.close(RunEnd())

    cassette = load_cassette(recording.path)
    assert [step.response and step.response.content for step in cassette.exchanges] == [b"old", b"new"]


def test_discarding_a_recording_removes_its_partial_file(tmp_path: Path) -> None:
    recording, _ = _resumed(tmp_path, 1)

    recording.discard()

    assert list(tmp_path.iterdir()) == []


# Secrets


def test_an_exchange_with_a_secret_left_in_it_is_not_written_and_the_others_stay(tmp_path: Path) -> None:
    key = "sk-proj-A1b2C3d4E5f6G7h8I9j0K1l2"
    recording = _recording(tmp_path / "test_it.jsonl")
    recording.append(*_made(chat(user("a"))))
    leaking = HttpStep(
        hash="a1:0",
        lane="l",
        request=make_reader().read(chat(user("b"))).request,
        response=Response(status=200, headers=(("x", f"key {key}"),)),
        timing=Timing(began=1, took=1),
    )

    with pytest.raises(SecretLeakError) as caught:
        recording.append(leaking, {})

    assert key not in str(caught.value)
    assert "openai-key" in str(caught.value)
    assert key.encode() not in recording.partial.read_bytes()
    assert len(load_cassette(recording.partial, partial=True).exchanges) == 1
    recording.close(RunEnd())
    assert len(load_cassette(recording.path).exchanges) == 1
