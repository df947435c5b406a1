"""What stands in for what the recording does not have, and which step that is."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_agentreplay.errors import ReplayDivergenceError
from pytest_agentreplay.player import Lane, MemoryTape, Player, Recorded, Serve, ServeTool, recorded_for
from pytest_agentreplay.reader import HttpRequest, Reader
from pytest_agentreplay.records import Entry, ToolStep
from pytest_agentreplay.settings import Settings
from tests.unit.making import answer, chat, make_reader, post, said, step_for, user

ANTHROPIC = "https://api.anthropic.com/v1/messages"


class Tape:
    """A recording in the making."""

    def __init__(self) -> None:
        self.reader: Reader = make_reader()
        self.tape = MemoryTape()

    def request(self, request: HttpRequest, text: str, **place: Any) -> Tape:
        asked = self.reader.read(request)
        self.tape.append(step_for(asked, response=answer(text), **place), asked.messages)
        return self

    def tool(self, name: str, arguments: Any, result: Any, **place: Any) -> Tape:
        called = self.reader.read_tool_call(name, arguments)
        label = f"{name}{len(self.tape.entries)}"
        step = ToolStep(hash=called.hash, id=label, name=name, arguments=called.arguments, result=result, **place)
        self.tape.append(step, {})
        return self

    def recorded(self) -> Recorded:
        return recorded_for(self.tape, self.reader, digest=self.reader.rules.digest)

    def player(self) -> Player:
        settings = Settings(replay="warn")
        return Player(self.reader, settings, test="t", cassette="c.jsonl", sources=[self.recorded()])


def ask(player: Player, request: HttpRequest, **where: Any) -> str:
    """Make a request that must be served; return the text of its answer."""
    served = player.ask(player.reader.read(request), call_site=lambda: None, **where)
    assert isinstance(served, Serve)
    assert served.step.response is not None
    return served.step.response.content.decode().split('"content": "')[1].split('"')[0]


def call(player: Player, name: str, arguments: Any, **where: Any) -> Any:
    """Call a tool that must be served; return its result."""
    served = player.call_tool(player.reader.read_tool_call(name, arguments), call_site=lambda: None, **where)
    assert isinstance(served, ServeTool)
    return served.step.result


def test_the_next_step_of_the_conversation_stands_in() -> None:
    first, second = chat(user("one")), chat(user("one"), said("first"), user("two"))
    player = Tape().request(first, "first", lane="x").request(second, "second", lane="x").player()

    texts = [ask(player, chat(user("uno"))), ask(player, chat(user("uno"), said("first"), user("due")))]

    assert texts == ["first", "second"]
    assert len(player.warned) == 2


def test_an_equal_change_is_told_once_and_another_again() -> None:
    tape = Tape()
    for number in range(3):
        tape.request(chat({"role": "system", "content": "brief"}, user(str(number))), str(number))
    player = tape.player()

    for number, system in enumerate(("kind", "kind", "rude")):
        ask(player, chat({"role": "system", "content": system}, user(str(number))))

    assert [("kind" in report, "rude" in report) for report in player.warned] == [(True, False), (False, True)]


def test_of_conversations_that_nothing_follows_the_most_alike_stands_in() -> None:
    tape = Tape().request(chat(user("sort these: c b a")), "sorted").request(chat(user("a poem on tea")), "poem")

    assert ask(tape.player(), chat(user("a poem on green tea"))) == "poem"


def test_a_conversation_that_another_follows_is_not_taken_from_it() -> None:
    tape = Tape().request(chat(user("one")), "first").request(chat(user("one"), said("first"), user("two")), "second")
    tape.tape.entries = [step.model_copy(update={"lane": "x"}) for step in tape.tape.entries]
    player = tape.player()
    ask(player, chat(user("one")))

    with pytest.raises(ReplayDivergenceError):
        ask(player, chat(user("something else")))


@pytest.mark.parametrize(
    "request_of_another_kind",
    [
        post({"model": "m", "messages": [user("one")]}, url=ANTHROPIC),
        chat(user("uno"), stream=True),
        post({"model": "m", "input": "one"}, url="https://api.openai.com/v1/embeddings"),
        post(b"", url="https://api.openai.com/v1/models", method="GET", headers=()),
    ],
    ids=["another provider", "a stream", "unread traffic", "another method"],
)
def test_an_answer_to_another_kind_of_request_never_stands_in(request_of_another_kind: HttpRequest) -> None:
    player = Tape().request(chat(user("one")), "first").player()

    with pytest.raises(ReplayDivergenceError):
        ask(player, request_of_another_kind)


def test_unread_traffic_stands_in_for_its_own_endpoint_alone() -> None:
    url = "https://api.example.com/v1/embed"
    player = Tape().request(post({"text": "one"}, url=url), "vector").player()
    with pytest.raises(ReplayDivergenceError):
        ask(player, post({"text": "two"}, url=f"{url}/other"))
    fresh = Tape().request(post({"text": "one"}, url=url), "vector").player()

    assert ask(fresh, post({"text": "two"}, url=url)) == "vector"


def test_what_was_recorded_inside_the_same_tool_goes_first() -> None:
    tape = Tape().request(chat(user("plan tea")), "outside").request(chat(user("plan pots")), "inside", parent="t1")

    assert ask(tape.player(), chat(user("plan tea!")), parent="t1") == "inside"


def test_a_call_with_other_arguments_gets_the_next_result_of_its_tool() -> None:
    tape = Tape().tool("roll", {"sides": 6}, 4).tool("draw", {"cards": 1}, "ace").tool("roll", {"sides": 6}, 2)
    player = tape.player()

    results = [call(player, "roll", {"sides": number}) for number in (8, 9)]

    assert results == [4, 2]
    assert len(player.warned) == 2
    with pytest.raises(ReplayDivergenceError):
        call(player, "roll", {"sides": 10})


def test_a_call_of_a_tool_that_was_never_recorded_has_no_stand_in() -> None:
    player = Tape().tool("roll", {"sides": 6}, 4).player()

    with pytest.raises(ReplayDivergenceError):
        call(player, "draw", {"sides": 6})


def test_a_known_call_is_served_without_a_word() -> None:
    player = Tape().tool("roll", {"sides": 6}, 4).player()

    assert call(player, "roll", {"sides": 6}) == 4
    assert player.warned == []


def is_anything(step: Entry) -> bool:
    return True


def test_stand_ins_are_the_first_unplayed_of_each_conversation_that_nothing_follows() -> None:
    tape = Tape().request(chat(user("a")), "a", lane="a").request(chat(user("b")), "b", lane="b")
    recorded = tape.request(chat(user("a"), said("a"), user("c")), "c", lane="a").recorded()

    assert recorded.stand_ins(is_anything, Lane("new", "h"), parent=None) == [0, 1]
    recorded.play(0, Lane("one", "h"))
    assert recorded.stand_ins(is_anything, Lane("new", "h"), parent=None) == [1]


def test_a_conversation_that_follows_one_has_its_next_step_alone() -> None:
    tape = Tape().request(chat(user("a")), "a", lane="a").request(chat(user("b")), "b", lane="b")
    recorded = tape.request(chat(user("a"), said("a"), user("c")), "c", lane="a").recorded()
    lane = Lane("one", "h")
    recorded.play(0, lane)

    assert recorded.stand_ins(is_anything, lane, parent=None) == [2]
    recorded.play(2, lane)
    assert recorded.stand_ins(is_anything, lane, parent=None) == []


def test_the_next_call_of_a_tool_is_that_of_its_conversation_if_it_is_there() -> None:
    recorded = (
        Tape()
        .tool("roll", {"sides": 6}, 1, lane="a")
        .tool("roll", {"sides": 8}, 2, lane="b")
        .tool("roll", {"sides": 9}, 3, lane="b", parent="roll0")
        .recorded()
    )

    assert recorded.next_tool("roll", lane="b", parent=None) == 1
    assert recorded.next_tool("roll", lane="c", parent=None) == 0
    assert recorded.next_tool("roll", lane="b", parent="roll0") == 2
    assert recorded.next_tool("draw", lane="b", parent=None) is None
    recorded.play_tool(1, whole=True)
    assert recorded.next_tool("roll", lane="b", parent=None) == 0
