"""The decision about a tool's call: served, run, or a divergence; and which turn of which conversation it is of."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pytest_agentreplay.errors import ReplayDivergenceError, ToolRefusedError
from pytest_agentreplay.player import MemoryTape, Player, Recorded, Serve, ServeTool, Ticket, ToolTicket
from pytest_agentreplay.reader import Reader
from pytest_agentreplay.records import Entry, Response, ToolFailure, ToolStep
from pytest_agentreplay.settings import Settings
from tests.unit.making import JSON, chat, make_reader, user


def _nowhere() -> None:
    return None


def _reply(*calls: tuple[str, str, dict[str, Any]], text: str | None = None) -> Response:
    """Return an answer that asks for tools, each by id, name and arguments."""
    made = [
        {"id": call_id, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        for call_id, name, arguments in calls
    ]
    message = {"role": "assistant", "content": text, **({"tool_calls": made} if made else {})}
    return Response(status=200, headers=JSON, content=json.dumps({"choices": [{"message": message}]}).encode())


class _Run:
    """A run told in few words: what is requested and called, to a player that records or replays."""

    def __init__(self, recorded: Recorded | None = None, **settings: Any) -> None:
        self.tape = MemoryTape()
        self.reader: Reader = make_reader()
        self.player = Player(
            reader=self.reader,
            settings=Settings(**settings),
            test="t",
            cassette="c",
            sources=[recorded] if recorded else [],
            recording=None if recorded else self.tape,
        )

    def request(self, *texts: str, reply: Response | None = None, lane: str | None = None) -> None:
        asked = self.reader.read(chat(*map(user, texts)))
        decision = self.player.ask(asked, call_site=_nowhere, lane_name=lane)
        if isinstance(decision, Ticket):
            self.player.complete(decision, response=reply or _reply(text="fine"))
        else:
            assert isinstance(decision, Serve)

    def call(self, name: str, **arguments: Any) -> ServeTool | ToolTicket:
        return self.place(name, arguments)

    def place(self, name: str, arguments: Any, **where: Any) -> ServeTool | ToolTicket:
        return self.player.call_tool(self.reader.read_tool_call(name, arguments), call_site=_nowhere, **where)

    def done(self, decision: ServeTool | ToolTicket, result: Any = None, **more: Any) -> ToolStep:
        assert isinstance(decision, ToolTicket)
        return self.player.complete_tool(decision, result=result, **more)

    def replay(self, **settings: Any) -> _Run:
        return _Run(Recorded(self.tape, list(self.tape.entries)), **settings)


def _result(decision: ServeTool | ToolTicket) -> Any:
    assert isinstance(decision, ServeTool)
    return decision.step.result


def _two_calls() -> _Run:
    run = _Run()
    run.request("one", reply=_reply(("c1", "look", {"q": 1}), ("c2", "look", {"q": 2})))
    first, second = run.call("look", q=1), run.call("look", q=2)
    run.done(second, "two")
    run.done(first, "one")
    return run


def test_a_call_belongs_to_the_turn_that_asked_for_it() -> None:
    request, *steps = _two_calls().tape.entries

    found = [(step.tool_use_id, step.rank, step.result) for step in steps if isinstance(step, ToolStep)]
    assert found == [("c2", 1, "two"), ("c1", 0, "one")]
    assert {step.lane for step in steps} == {request.lane}


def test_parallel_calls_get_their_own_results_in_any_order() -> None:
    replay = _two_calls().replay()
    replay.request("one")

    found = [_result(replay.call("look", q=2)), _result(replay.call("look", q=1))]

    assert found == ["two", "one"]
    assert replay.player.tools.played == 2


def test_an_id_that_the_framework_knows_decides_whatever_the_arguments() -> None:
    run = _Run()
    run.request("one", reply=_reply(("c1", "look", {"q": 1}), ("c2", "look", {"q": 2})))

    step = run.done(run.place("lookup", {"q": 1, "user": "me"}, tool_use_id="c2"))

    assert (step.tool_use_id, step.rank) == ("c2", 1)


@pytest.mark.parametrize("arguments", [{"q": 2, "r": 3, "user": "me"}, {}, {"q": 2.0}])
def test_arguments_that_the_agent_adds_or_leaves_out_do_not_hide_whose_call_it_is(arguments: dict[str, Any]) -> None:
    run = _Run()
    run.request("one", reply=_reply(("c1", "other", {"q": 2}), ("c2", "look", {"q": 2, "r": 3})))

    step = run.done(run.place("look", arguments))

    assert step.tool_use_id == "c2"


@pytest.mark.parametrize(
    "number",
    [2**53 + 1, -(2**64) - 1, 10**400, 0.1, 1e300, float("inf")],
    ids=["odd", "long", "huge", "fraction", "double", "infinity"],
)
def test_a_number_of_any_size_does_not_hide_whose_call_it_is(number: Any) -> None:
    run = _Run()
    run.request("one", reply=_reply(("c1", "look", {"q": 1}), ("c2", "look", {"q": number})))

    step = run.done(run.place("look", {"q": number, "user": "me"}))

    assert step.tool_use_id == "c2"


def test_a_number_of_any_size_is_told_from_its_neighbour() -> None:
    run = _Run()
    run.request("one", reply=_reply(("c1", "look", {"q": 2**53 + 1}), ("c2", "look", {"q": 2**53 + 3})))

    step = run.done(run.place("look", {"q": 2**53 + 3, "user": "me"}))

    assert step.tool_use_id == "c2"


@pytest.mark.parametrize("text", ["select 1", "1.50", "9007199254740993", '{"a": ', "[1, 2]"])
def test_a_tool_that_takes_one_text_is_known_by_it_as_the_model_wrote_it(text: str) -> None:
    call = {"id": "c1", "type": "custom", "custom": {"name": "sql", "arguments": text}}
    answer = {"choices": [{"message": {"role": "assistant", "content": None, "tool_calls": [call]}}]}
    run = _Run()
    run.request("one", reply=Response(status=200, headers=JSON, content=json.dumps(answer).encode()))

    assert run.done(run.call("sql", query=text)).tool_use_id == "c1"


def test_a_tool_that_takes_one_text_is_known_by_it_whatever_its_argument_is_called() -> None:
    call = {"id": "c1", "type": "custom", "custom": {"name": "sql", "arguments": "select 1"}}
    answer = {"choices": [{"message": {"role": "assistant", "content": None, "tool_calls": [call]}}]}
    run = _Run()
    run.request("one", reply=Response(status=200, headers=JSON, content=json.dumps(answer).encode()))

    other, step = run.done(run.call("sql", query="select 2")), run.done(run.call("sql", query="select 1"))

    assert (other.tool_use_id, step.tool_use_id) == (None, "c1")


@pytest.mark.parametrize("arguments", [{"q": 7}, {"q": 2, "r": 4}, {"x": 1}, "text"])
def test_a_call_that_no_model_asked_for_belongs_to_no_conversation(arguments: Any) -> None:
    run = _Run()
    run.request("one", reply=_reply(("c1", "look", {"q": 2, "r": 3})))

    step = run.done(run.place("look", arguments))

    assert (step.tool_use_id, step.rank, step.lane) == (None, None, "")


def test_what_a_tool_calls_in_its_body_is_not_what_the_model_asked_for() -> None:
    run = _Run()
    run.request("one", reply=_reply(("c1", "outer", {}), ("c2", "look", {"q": 1})))
    outer = run.call("outer")
    assert isinstance(outer, ToolTicket)

    inside = run.done(run.place("look", {"q": 1}, parent=outer.id))
    asked = run.done(run.call("look", q=1))

    assert (inside.tool_use_id, asked.tool_use_id) == (None, "c2")


def test_calls_of_an_earlier_turn_that_nobody_made_are_forgotten() -> None:
    run = _Run()
    for turn in range(3):
        run.request("one", *["more"] * turn, lane="talk", reply=_reply((f"c{turn}", "look", {"q": 1})))
    first = run.done(run.call("look", q=1))
    run.request("one", *["more"] * 3, lane="talk", reply=_reply(("c3", "look", {"q": 1})))
    second = run.done(run.call("look", q=1))

    assert (first.tool_use_id, second.tool_use_id) == ("c2", "c3")


def test_equal_calls_of_two_conversations_keep_to_their_own() -> None:
    run = _Run()
    for name in ("a", "b"):
        run.request(name, reply=_reply(("c1", "look", {"q": 1})), lane=name)
    results = {name: run.done(run.place("look", {"q": 1}, lane_name=name), name).lane for name in ("b", "a")}
    replay = run.replay()

    found = {name: _result(replay.place("look", {"q": 1}, lane_name=name)) for name in ("a", "b")}

    assert results == {"a": "@a", "b": "@b"}
    assert found == {"a": "a", "b": "b"}


def test_equal_calls_are_answered_first_in_first_out_and_then_no_more() -> None:
    run = _Run()
    for number in range(3):
        run.done(run.call("look"), number)
    replay = run.replay()

    found = [_result(replay.call("look")) for _ in range(3)]

    assert found == [0, 1, 2]
    with pytest.raises(ReplayDivergenceError, match="wants call 4 of a tool call, only 3 were recorded") as caught:
        replay.call("look")
    assert caught.value.kind == "exhausted"


def test_many_equal_calls_take_no_longer_each() -> None:
    run = _Run()
    for number in range(3000):
        run.done(run.call("look"), number)
    replay = run.replay()

    found = [_result(replay.call("look")) for _ in range(3000)]

    assert found == list(range(3000))


def test_ids_of_equal_calls_differ_and_none_is_given_twice() -> None:
    run = _two_calls()
    ids = {step.id for step in run.tape.entries if isinstance(step, ToolStep)}
    again = _Run(Recorded(run.tape, list(run.tape.entries)))
    again.player.recording = MemoryTape()
    again.call("look", q=1)

    fresh = again.call("look", q=1)

    assert isinstance(fresh, ToolTicket)
    assert fresh.id not in ids
    assert fresh.id.rpartition(".")[0] in ids


def _nested() -> _Run:
    run = _Run()
    outer = run.call("outer")
    assert isinstance(outer, ToolTicket)
    run.done(run.place("inner", {}, parent=outer.id), "inside")
    run.done(outer, "outside")
    run.done(run.call("inner"), "alone")
    return run


def test_what_is_inside_a_tool_that_is_served_is_played_with_it() -> None:
    replay = _nested().replay()

    found = [_result(replay.call("outer")), _result(replay.call("inner"))]

    assert found == ["outside", "alone"]
    assert replay.player.unplayed(("call", "setup")) == []


def test_what_is_inside_a_tool_answers_no_call_outside() -> None:
    replay = _nested().replay()

    assert _result(replay.call("inner")) == "alone"
    with pytest.raises(ReplayDivergenceError):
        replay.call("inner")


def test_what_is_inside_a_tool_that_runs_is_left_to_its_body() -> None:
    replay = _nested().replay()

    outer = replay.place("outer", {}, runs_inside=True)
    assert isinstance(outer, ToolTicket)
    inner = replay.place("inner", {}, parent=outer.id)

    assert outer.expected is not None
    assert _result(inner) == "inside"
    assert len(replay.player.unplayed(("call", "setup"))) == 1


@pytest.mark.parametrize(("result", "surprises"), [("outside", 0), ("else", 1)])
def test_a_live_tool_that_says_something_else_is_a_surprise(result: str, surprises: int) -> None:
    replay = _nested().replay(tools={"outer": "live"})

    replay.done(replay.call("outer"), result)

    assert len(replay.player.surprises) == surprises


def test_a_surprise_is_in_the_report_of_the_next_divergence() -> None:
    replay = _nested().replay(tools={"outer": "live"})
    replay.done(replay.call("outer"), failure=ToolFailure(type="builtins:ValueError", message="no"))

    with pytest.raises(ReplayDivergenceError) as caught:
        replay.call("unknown")

    lines = str(caught.value).splitlines()
    assert lines[2:5] == [
        "  cause     the live tool outer gave another result than was recorded",
        '            recorded: "outside"',
        '            now:      {"error": "builtins:ValueError: no"}',
    ]


def test_a_live_tool_that_was_never_recorded_runs() -> None:
    replay = _nested().replay(tools="live")

    decision = replay.call("unknown")

    assert isinstance(decision, ToolTicket)
    assert decision.expected is None


def test_a_refused_tool_stops_the_run_for_good() -> None:
    replay = _nested().replay(tools={"outer": "refuse"})

    with pytest.raises(ToolRefusedError):
        replay.call("outer")
    with pytest.raises(ToolRefusedError):
        replay.call("inner")
    with pytest.raises(ToolRefusedError):
        replay.request("anything")


def test_a_divergence_stops_tools_and_requests_for_good() -> None:
    replay = _two_calls().replay()

    with pytest.raises(ReplayDivergenceError):
        replay.call("unknown")
    with pytest.raises(ReplayDivergenceError, match="tool unknown"):
        replay.call("look", q=1)
    with pytest.raises(ReplayDivergenceError, match="tool unknown"):
        replay.request("one")


def test_a_call_without_a_recording_is_missing() -> None:
    run = _Run(Recorded(MemoryTape(), []))
    run.player.sources = ()

    with pytest.raises(ReplayDivergenceError) as caught:
        run.call("look")

    assert caught.value.kind == "missing-cassette"


def test_the_nearest_call_of_the_same_tool_is_compared_with() -> None:
    run = _Run()
    for arguments in ({"q": "kettles and cups"}, {"q": "tea"}):
        run.done(run.place("look", arguments))
    run.done(run.place("buy", {"q": "tea!"}))

    with pytest.raises(ReplayDivergenceError) as caught:
        run.replay().place("look", {"q": "teas"})

    assert '        recorded: "tea"' in str(caught.value).splitlines()
    assert '        now:      "teas"' in str(caught.value).splitlines()
    assert caught.value.kind == "changed"


def test_secrets_in_results_and_failures_do_not_reach_the_tape() -> None:
    secret = "sk-proj-Ab3dEf6hIj9kLm2nOp5qRs8tUv1wXy4z"
    run = _Run()
    failure = ToolFailure(type="x:Y", message=f"bad {secret}", args=[secret], state={"key": secret})

    run.done(run.call("look", key=secret), {"found": secret})
    run.done(run.call("fail"), failure=failure)

    entries: list[Entry] = run.tape.entries
    assert len(entries) == 2
    assert not any(secret in step.model_dump_json() for step in entries)


def test_a_call_is_known_by_its_name_and_arguments_as_json() -> None:
    reader = make_reader()

    hashes = [
        reader.read_tool_call("look", arguments).hash
        for arguments in ({"a": 1, "b": None}, {"b": None, "a": 1.0}, {"a": 1}, {"a": True, "b": None}, [1])
    ]
    other = reader.read_tool_call("book", {"a": 1, "b": None}).hash

    assert hashes[0] == hashes[1]
    assert len({*hashes, other}) == 5
