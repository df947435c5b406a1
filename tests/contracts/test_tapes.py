"""What the player needs of a tape: every tape gives the same exchanges, messages and answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from pytest_agentreplay.canonical import content_hash
from pytest_agentreplay.cassette import Recording, load_cassette
from pytest_agentreplay.player import MemoryTape, Player, Serve, Tape, recorded_for
from pytest_agentreplay.player.tape import WritableTape
from pytest_agentreplay.reader import HttpRequest
from pytest_agentreplay.records import ExchangeStep, JsonBody, Response, RunEnd, RunStart, Timing
from pytest_agentreplay.settings import Settings
from tests.unit.making import REDACTOR, answer, chat, conversation, make_reader, post, said, step_for, user

Made = tuple[ExchangeStep, Mapping[str, Any]]
MakeTape = Callable[[Sequence[Made]], Tape]
MakeWritable = Callable[[], WritableTape]


def _filled(tape: WritableTape, made: Sequence[Made]) -> WritableTape:
    for step, messages in made:
        tape.append(step, messages)
    return tape


class _Folder:
    """Makes recordings, and lets go of them at the end of a test."""

    def __init__(self, path: Path, stack: ExitStack) -> None:
        self._path = path
        self._stack = stack

    def recording(self) -> Recording:
        recording = Recording(self._path / "test_it.jsonl", RunStart(), redactor=REDACTOR)
        self._stack.callback(recording.leave)
        return recording

    def memory(self, made: Sequence[Made]) -> Tape:
        return _filled(MemoryTape(), made)

    def recorded(self, made: Sequence[Made]) -> Tape:
        return _filled(self.recording(), made)

    def cassette(self, made: Sequence[Made]) -> Tape:
        recording = self.recording()
        _filled(recording, made)
        recording.close(RunEnd())
        return load_cassette(recording.path)

    def partial(self, made: Sequence[Made]) -> Tape:
        recording = self.recording()
        _filled(recording, made)
        recording.leave()
        return load_cassette(recording.partial, partial=True)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[_Folder]:
    with ExitStack() as stack:
        yield _Folder(tmp_path, stack)


@pytest.fixture(params=["memory", "recorded", "cassette", "partial"])
def make_tape(request: pytest.FixtureRequest, folder: _Folder) -> MakeTape:
    make: MakeTape = getattr(folder, request.param)
    return make


@pytest.fixture(params=["memory", "recording"])
def make_writable(request: pytest.FixtureRequest, folder: _Folder) -> MakeWritable:
    return MemoryTape if request.param == "memory" else folder.recording


def _made(request: HttpRequest, **more: Any) -> Made:
    asked = make_reader().read(request)
    return step_for(asked, **{"response": answer("a"), **more}), asked.messages


def _run() -> list[Made]:
    """Return a conversation of three turns, one that failed and was tried again, and two exchanges beside them."""
    talk = [
        _made(request, lane="", response=answer(f"answer {turn}"), began=float(turn), took=0.5)
        for turn, request in enumerate(conversation(3))
    ]
    lane = talk[0][0].lane
    talk = [(step.model_copy(update={"lane": lane}), messages) for step, messages in talk]
    failed = _made(chat(user("again")), response=answer("busy", status=503), began=10.0, took=0.5)
    tried_again = _made(chat(user("again")), response=answer("done"), began=11.0, took=0.5)
    binary = Response(status=200, headers=(("content-type", "image/png"),), content=b"\x89PNG\xff", cuts=(2, 3))
    picture = _made(
        post(b"", url="https://example.com/a.png", method="GET", headers=()), response=binary, began=12.0, took=0.5
    )
    form = _made(
        post(b"b=2&a=1", headers=(("content-type", "application/x-www-form-urlencoded"),), url="https://example.com/"),
        began=13.0,
        took=0.5,
    )
    return [*talk, failed, tried_again, picture, form]


def _play(tape: Tape, requests: Sequence[HttpRequest]) -> list[bytes]:
    reader = make_reader()
    player = Player(
        reader=reader,
        settings=Settings(),
        test="test_it",
        cassette="test_it.jsonl",
        sources=[recorded_for(tape, reader, digest=reader.rules.digest)],
    )
    served = [player.ask(reader.read(request), call_site=lambda: None) for request in requests]
    assert all(isinstance(serve, Serve) for serve in served)
    return [serve.step.response.content for serve in served if isinstance(serve, Serve) and serve.step.response]


def test_a_tape_gives_the_exchanges_it_was_given_in_their_order(make_tape: MakeTape) -> None:
    made = _run()

    exchanges = make_tape(made).exchanges

    assert [repr(step) for step in exchanges] == [repr(step) for step, _ in made]


def test_an_empty_tape_has_nothing(make_writable: MakeWritable) -> None:
    tape = make_writable()

    assert list(tape.exchanges) == []
    assert dict(tape.messages) == {}


def test_every_message_that_a_request_refers_to_is_known_by_its_content(make_tape: MakeTape) -> None:
    tape = make_tape(_run())

    bodies = [step.request.body for step in tape.exchanges]
    addresses = [
        address for body in bodies if isinstance(body, JsonBody) for found in body.lists.values() for address in found
    ]
    assert set(addresses) == set(tape.messages)
    assert all(content_hash(tape.messages[address]) == address for address in addresses)


def test_a_recorded_request_is_known_by_the_hash_it_was_recorded_with(make_tape: MakeTape) -> None:
    tape = make_tape(_run())
    reader = make_reader()

    hashes = [reader.reread(step.request, tape.messages).hash for step in tape.exchanges]

    assert hashes == [step.hash for step in tape.exchanges]


def test_a_tape_is_played_to_the_run_it_was_recorded_from(make_tape: MakeTape) -> None:
    tape = make_tape(_run())
    again = chat(user("again"))

    answers = _play(tape, [*conversation(3), again, again])

    assert answers == [
        answer("answer 0").content,
        answer("answer 1").content,
        answer("answer 2").content,
        answer("busy").content,
        answer("done").content,
    ]


def test_a_tape_holds_no_position_so_that_it_can_be_played_twice(make_tape: MakeTape) -> None:
    tape = make_tape(_run())

    first = _play(tape, conversation(3))

    assert _play(tape, conversation(3)) == first


def test_what_is_in_the_messages_of_one_step_serves_another(make_tape: MakeTape) -> None:
    shared = user("shared")
    made = [_made(chat(shared), began=0.0), _made(chat(shared, said("a"), shared), began=1.0, lane="l")]

    tape = make_tape([(made[0][0], made[0][1]), (made[1][0], made[1][1])])

    assert [message for message in tape.messages.values() if message == shared] == [shared]


def test_an_exchange_is_on_the_tape_as_soon_as_it_is_added(make_writable: MakeWritable) -> None:
    tape = make_writable()

    for count, (step, messages) in enumerate(_run(), start=1):
        tape.append(step, messages)
        assert len(tape.exchanges) == count
        assert tape.exchanges[-1] == step


def test_an_exchange_of_another_tape_is_taken_over_at_the_time_it_was_served(make_writable: MakeWritable) -> None:
    step, messages = _made(chat(user("a")), began=100.0, took=5.0)
    tape = make_writable()
    tape.append(*_made(chat(user("a")), began=0.5, took=0.1))

    tape.carry(step, began=2.5)

    assert set(messages) <= set(tape.messages)
    assert tape.exchanges[-1] == step.model_copy(update={"timing": Timing(began=2.5, took=0.0)})
    assert step.timing == Timing(began=100.0, took=5.0)
