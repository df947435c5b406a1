"""Serve, record or diverge."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from pytest_agentreplay.divergence import Unfinished
from pytest_agentreplay.errors import ReplayDivergenceError, StrayRequestError
from pytest_agentreplay.player import MemoryTape, Player, Serve, Ticket, recorded_for
from pytest_agentreplay.reader import HttpRequest, Reader
from pytest_agentreplay.records import HttpStep, ModelStep, Response, TransportError
from pytest_agentreplay.settings import Settings
from tests.support.openai_responses import USAGE, calls, response, says
from tests.unit.making import (
    JSON,
    RESPONSES,
    answer,
    chat,
    conversation,
    make_reader,
    post,
    responses,
    said,
    step_for,
    user,
)

BUSY = answer("busy", status=429)
ERROR = TransportError(client="httpx", class_name="ReadError", phase="body", text="gone")


def _get(path: str) -> HttpRequest:
    return post(b"", url=f"https://api.example.com{path}", method="GET", headers=())


class Run:
    """A run of an agent: asks a player, and answers live calls itself."""

    def __init__(self, player: Player) -> None:
        self.player = player

    def ask(self, request: HttpRequest) -> Serve | Ticket:
        return self.player.ask(self.player.reader.read(request), call_site=lambda: "agent.py:1 in ask")

    def live(
        self, request: HttpRequest, response: Response | str | None = None, *, error: TransportError | None = None
    ) -> None:
        """Make a request that must go live, and complete it."""
        ticket = self.ask(request)
        assert isinstance(ticket, Ticket)
        made = answer(response) if isinstance(response, str) else response
        self.player.complete(ticket, response=made, error=error)

    def text(self, request: HttpRequest) -> str:
        """Make a request that must be served, and return what the model says."""
        served = self.ask(request)
        assert isinstance(served, Serve)
        assert served.step.response is not None
        return str(json.loads(served.step.response.content)["choices"][0]["message"]["content"])

    def divergence(self, request: HttpRequest) -> ReplayDivergenceError:
        with pytest.raises(ReplayDivergenceError) as caught:
            self.ask(request)
        return caught.value


def recording(reader: Reader | None = None) -> tuple[Run, MemoryTape]:
    tape = MemoryTape()
    return Run(_player(reader or make_reader(), recording=tape)), tape


def replaying(*tapes: MemoryTape, reader: Reader | None = None, digest: str | None = None, **settings: Any) -> Run:
    reader = reader or make_reader()
    sources = [recorded_for(tape, reader, digest=digest or reader.rules.digest) for tape in tapes]
    return Run(_player(reader, sources=sources, settings=Settings(**settings)))


def _player(reader: Reader, **more: Any) -> Player:
    options = {"settings": Settings(), "test": "test_a.py::test_it", "cassette": "test_it.jsonl", **more}
    return Player(reader=reader, **options)


def _talk(*texts: str) -> MemoryTape:
    """Return the tape of independent requests, each answered in upper case."""
    run, tape = recording()
    for text in texts:
        run.live(chat(user(text)), text.upper())
    return tape


# Serving


def test_a_recorded_conversation_is_served_as_it_was() -> None:
    run, tape = recording()
    for turn, request in enumerate(conversation(5)):
        run.live(request, f"answer {turn}")

    replay = replaying(tape)

    assert [replay.text(request) for request in conversation(5)] == [f"answer {turn}" for turn in range(5)]
    assert replay.player.unplayed_error(["setup", "call"]) is None
    assert replay.player.trail == run.player.trail
    assert len({lane for lane, _ in replay.player.trail}) == 1
    assert replay.player.served == 5


def test_conversations_may_come_in_any_order_and_be_interleaved() -> None:
    run, tape = recording()
    for name in "abc":
        run.live(chat(user(name)), f"{name} one")
        run.live(chat(user(name), said(f"{name} one"), user("go on")), f"{name} two")

    replay = replaying(tape)

    assert [replay.text(chat(user(name))) for name in "cab"] == ["c one", "a one", "b one"]
    for name in "bca":
        assert replay.text(chat(user(name), said(f"{name} one"), user("go on"))) == f"{name} two"


def test_equal_requests_are_served_in_the_order_they_were_recorded() -> None:
    run, tape = recording()
    for text in ("first", "second", "third"):
        run.live(chat(user("same")), text)

    replay = replaying(tape)

    assert [replay.text(chat(user("same"))) for _ in range(3)] == ["first", "second", "third"]


def test_two_sub_agents_with_equal_openings_keep_their_own_answers() -> None:
    run, tape = recording()
    for name in "ab":
        run.live(chat(user("same")), f"answer {name}")
    for name in "ab":
        run.live(chat(user("same"), said(f"answer {name}"), user("go on")), f"then {name}")

    for order in ("ab", "ba"):
        replay = replaying(tape)
        assert [replay.text(chat(user("same"))) for _ in range(2)] == ["answer a", "answer b"]
        for name in order:
            then = chat(user("same"), said(f"answer {name}"), user("go on"))
            assert replay.text(then) == f"then {name}"


def test_fifty_replays_of_two_sub_agents_are_consistent_however_they_interleave() -> None:
    run, tape = recording()
    opening = user("same")
    for name in "ab":
        run.live(chat(opening), f"{name}0")
    for turn in range(1, 4):
        for name in "ab":
            run.live(_turn(opening, name, turn), f"{name}{turn}")
    chance = random.Random(0)

    for _ in range(50):
        replay = replaying(tape)
        talks = {replay.text(chat(opening))[0]: 1, replay.text(chat(opening))[0]: 1}
        while any(turn < 4 for turn in talks.values()):
            name = chance.choice([name for name, turn in talks.items() if turn < 4])
            assert replay.text(_turn(opening, name, talks[name])) == f"{name}{talks[name]}"
            talks[name] += 1
        assert replay.player.unplayed(["setup"]) == []


def _turn(opening: Any, name: str, turn: int) -> HttpRequest:
    messages = [opening]
    for number in range(turn):
        messages += [said(f"{name}{number}"), user("go on")]
    return chat(*messages)


def test_a_recorded_failure_is_served_and_its_retry_stays_in_the_lane() -> None:
    run, tape = recording()
    run.live(chat(user("a")), BUSY)
    run.live(chat(user("a")), "one")
    run.live(chat(user("a"), said("one"), user("b")), "two")

    replay = replaying(tape)
    failed = replay.ask(chat(user("a")))

    assert isinstance(failed, Serve)
    assert failed.step.response == BUSY
    assert replay.text(chat(user("a"))) == "one"
    assert replay.text(chat(user("a"), said("one"), user("b"))) == "two"
    assert len({step.lane for step in tape.exchanges}) == len({lane for lane, _ in replay.player.trail}) == 1


@pytest.mark.parametrize("response", [None, Response(status=200, content=b"data: {", truncated=True)])
def test_a_transport_error_is_served_and_its_retry_stays_in_the_lane(response: Response | None) -> None:
    run, tape = recording()
    run.live(chat(user("a")), response, error=ERROR)
    run.live(chat(user("a")), "one")

    replay = replaying(tape)
    failed = replay.ask(chat(user("a")))

    assert isinstance(failed, Serve)
    assert failed.step.error == ERROR
    assert replay.text(chat(user("a"))) == "one"
    assert len({step.lane for step in tape.exchanges}) == 1


def test_a_call_that_was_given_up_is_not_recorded_and_its_retry_is_in_its_lane() -> None:
    run, tape = recording()
    ticket = run.ask(chat(user("a")))
    assert isinstance(ticket, Ticket)
    run.player.abandon(ticket)
    run.live(chat(user("a")), "one")

    assert [step.lane for step in tape.exchanges] == [ticket.lane.label]
    assert run.player.in_flight == 0
    assert replaying(tape).text(chat(user("a"))) == "one"


def test_a_tape_recorded_under_other_rules_is_known_by_its_requests() -> None:
    _, tape = run = recording()
    run[0].live(chat(user("a"), seed=1), "one")

    reader = make_reader(ignore=["$.seed"])
    replay = replaying(tape, reader=reader, digest="r1:of other rules")

    assert replay.text(chat(user("a"), seed=2)) == "one"


def test_of_two_recordings_the_first_that_knows_a_request_answers_and_both_have_played_it() -> None:
    replay = replaying(_talk("a"), _talk("a", "b"))

    assert replay.text(chat(user("a"))) == "A"
    assert replay.text(chat(user("b"))) == "B"
    assert [source.unplayed() for source in replay.player.sources] == [[], []]


# Diverging


def test_an_unknown_request_is_a_change_with_its_nearest_recorded_one() -> None:
    replay = replaying(_talk("Refund order 20", "something else"))

    error = replay.divergence(chat(user("Refund order 30")))

    assert error.kind == "changed"
    report = str(error)
    assert "$.messages[0].content" in report
    assert '"Refund order 20"' in report
    assert '"Refund order 30"' in report
    assert "agent.py:1 in ask" in report
    assert "test_a.py::test_it" in report
    assert "test_it.jsonl" in report


def test_a_change_in_a_conversation_is_compared_with_its_next_step_not_with_any() -> None:
    run, tape = recording()
    run.live(chat(user("a")), "one")
    run.live(chat(user("a"), said("one"), user("go left")), "two")
    run.live(chat(user("go right, please")), "other")
    replay = replaying(tape)
    replay.text(chat(user("a")))

    error = replay.divergence(chat(user("a"), said("one"), user("go right")))

    assert error.kind == "changed"
    assert '"go left"' in str(error)


def test_a_request_beyond_the_last_recorded_answer_is_exhausted() -> None:
    replay = replaying(_talk("a", "a"))
    for _ in range(2):
        replay.text(chat(user("a")))

    error = replay.divergence(chat(user("a")))

    assert error.kind == "exhausted"
    assert "wants call 3 of a request, only 2 were recorded" in str(error)


def test_repeats_are_served_the_last_answer_where_they_are_allowed() -> None:
    run, tape = recording()
    for text in ("first", "second"):
        run.live(chat(user("a")), text)

    replay = replaying(tape, allow_repeats=True)

    assert [replay.text(chat(user("a"))) for _ in range(4)] == ["first", "second", "second", "second"]


def test_allowed_repeats_do_not_make_an_unknown_request_known() -> None:
    assert replaying(_talk("a"), allow_repeats=True).divergence(chat(user("b"))).kind == "changed"


def test_a_step_that_is_not_the_next_of_its_conversation_is_out_of_order() -> None:
    run, tape = recording()
    run.live(chat(user("a")), "one")
    run.live(chat(user("a"), said("one"), user("b")), "two")

    error = replaying(tape).divergence(chat(user("a"), said("one"), user("b")))

    assert error.kind == "order"
    assert "expected  POST" in str(error)


def test_a_step_that_was_skipped_makes_the_next_one_out_of_order() -> None:
    run, tape = recording()
    for turn, request in enumerate(conversation(3)):
        run.live(request, f"answer {turn}")
    first, _, third = conversation(3)
    replay = replaying(tape)
    replay.text(first)

    assert replay.divergence(third).kind == "order"


def test_a_request_without_a_cassette_says_how_to_record_one() -> None:
    error = Run(_player(make_reader())).divergence(chat(user("a")))

    assert error.kind == "missing-cassette"
    assert "pytest test_a.py::test_it --record-mode=once" in str(error)


def test_a_request_with_an_unfinished_recording_names_it() -> None:
    error = Run(_player(make_reader(), partial=Unfinished("test_it.partial.jsonl", held=1))).divergence(chat(user("a")))

    assert error.kind == "missing-cassette"
    assert "  partial   test_it.partial.jsonl" in str(error)


def test_every_kind_of_divergence_has_a_report_of_its_own_within_bounds() -> None:
    run, tape = recording()
    for turn, request in enumerate(conversation(2)):
        run.live(request, f"answer {turn}")
    first, second = conversation(2)
    played = replaying(tape)
    played.text(first)
    played.text(second)
    left = replaying(tape).player.unplayed_error(["setup"])
    assert left is not None

    errors = [
        replaying(tape).divergence(chat(user("changed " * 500))),
        Run(_player(make_reader())).divergence(first),
        played.divergence(second),
        replaying(tape).divergence(second),
        left,
    ]

    assert [error.kind for error in errors] == list(ReplayDivergenceError.kinds)
    assert len({str(error).splitlines()[0].split(":")[0] for error in errors}) == 5
    for error in errors:
        lines = str(error).splitlines()
        assert len(lines) <= 60
        assert all(len(line) <= 100 or "pytest " in line or "agentreplay " in line for line in lines)
        assert "--record-mode=" in lines[-1] or "unplayed=" in lines[-1]


def test_after_a_divergence_every_request_fails_with_the_same_report() -> None:
    replay = replaying(_talk("a", "b"))

    first = replay.divergence(chat(user("changed")))

    assert replay.divergence(chat(user("a"))) is first
    assert replay.divergence(chat(user("other"))) is first
    assert replay.player.stopped is first
    assert replay.player.served == 0


def test_what_stops_a_run_from_outside_is_remembered_too() -> None:
    replay = replaying(_talk("a"))
    stray = StrayRequestError("stray")

    with pytest.raises(StrayRequestError):
        replay.player.stop(stray)
    with pytest.raises(StrayRequestError):
        replay.player.stop(StrayRequestError("later"))

    with pytest.raises(StrayRequestError, match="stray"):
        replay.ask(chat(user("a")))
    assert replay.player.stopped is stray


def test_a_divergence_comes_through_code_that_catches_every_exception() -> None:
    replay = replaying(_talk("a"))

    def ask() -> str:
        try:
            return replay.text(chat(user("changed")))
        except Exception:
            return "swallowed"

    with pytest.raises(ReplayDivergenceError):
        ask()


# Unplayed


def test_steps_that_nothing_asked_for_are_named() -> None:
    replay = replaying(_talk("a", "b", "c"))
    replay.text(chat(user("b")))

    error = replay.player.unplayed_error(["setup", "call"])

    assert error is not None
    assert error.kind == "unplayed"
    assert replay.player.unplayed(["setup", "call"]) == [0, 2]
    assert "2 recorded steps were not asked for" in str(error)
    assert "step 1: chat m (setup) says user: a\n" in str(error)
    assert "step 3: chat m (setup) says user: c\n" in str(error)
    assert "  recorded  ▶ 1 chat m, 2 chat m, 3 chat m\n  now       1 chat m\n" in str(error)


def test_steps_are_judged_by_the_phase_they_were_recorded_in() -> None:
    run, tape = recording()
    for phase in ("setup", "call", "teardown"):
        run.player.phase = phase  # type: ignore[assignment]
        run.live(chat(user(phase)), phase)

    player = replaying(tape).player

    assert [step.phase for step in tape.exchanges] == ["setup", "call", "teardown"]
    assert player.unplayed(["setup", "call"]) == [0, 1]
    assert player.unplayed(["teardown"]) == [2]


def test_nothing_is_unplayed_without_a_recording_or_while_recording() -> None:
    assert _player(make_reader()).unplayed_error(["call"]) is None
    assert recording()[0].player.unplayed_error(["call"]) is None


def test_background_traffic_may_stay_unplayed_may_repeat_and_is_never_sent() -> None:
    telemetry = post({"span": 1}, url="https://telemetry.example.com/v1/traces")
    run, tape = recording()
    run.live(telemetry, Response(status=202))
    run.live(chat(user("a")), "one")
    settings: dict[str, Any] = {"background": ("telemetry.example.com",)}

    replay = replaying(tape, **settings)
    replay.text(chat(user("a")))
    assert replay.player.unplayed_error(["setup"]) is None
    for body in ({"span": 1}, {"span": 1}, {"span": 2}):
        served = replay.ask(post(body, url="https://telemetry.example.com/v1/traces"))
        assert isinstance(served, Serve)
        assert served.step.response == Response(status=202)
    unsent = replay.ask(post({}, url="https://telemetry.example.com/v1/other"))
    assert isinstance(unsent, Serve)
    assert unsent.step.error is not None
    assert "not sent in replay" in unsent.step.error.text
    assert (unsent.step.error.client, unsent.step.error.kind) == ("builtins", "refused")  # each client's own class


def test_a_host_that_only_begins_like_a_background_one_is_held_to_the_rules() -> None:
    replay = replaying(_talk("a"), background=("telemetry.example.com",))

    assert replay.divergence(post({}, url="https://telemetry.example.com.evil.org/")).kind == "changed"


# Recording


def test_a_live_call_is_recorded_with_what_came_of_it() -> None:
    ticks = iter([0.0, 10.0, 10.5, 11.0, 20.0])
    tape = MemoryTape()
    run = Run(_player(make_reader(), recording=tape, clock=lambda: next(ticks)))
    run.player.phase = "call"

    run.live(chat(user("a")), "one")

    (step,) = tape.exchanges
    asked = make_reader().read(chat(user("a")))
    assert isinstance(step, ModelStep)
    assert (step.hash, step.provider, step.operation, step.phase) == (asked.hash, "openai", "chat", "call")
    assert step.request == asked.request
    assert step.response == answer("one")
    assert step.lane == asked.hash[3:11]
    assert step.timing is not None
    assert (step.timing.began, step.timing.took) == (10.0, 0.5)
    assert tape.messages == asked.messages
    assert run.player.completed == [step]


def test_traffic_that_no_dialect_reads_is_recorded_as_such() -> None:
    run, tape = recording()
    run.live(_get("/prices"), Response(status=200, content=b"{}"))

    (step,) = tape.exchanges
    assert isinstance(step, HttpStep)
    assert (step.provider, step.operation) == ("api.example.com", "GET")


def test_calls_in_flight_are_counted() -> None:
    run, _ = recording()
    tickets = [run.ask(chat(user(text))) for text in "ab"]
    before = run.player.in_flight
    for ticket in tickets:
        assert isinstance(ticket, Ticket)
        run.player.complete(ticket, response=answer("one"))

    assert (before, run.player.in_flight) == (2, 0)


def test_secrets_of_an_answer_and_of_an_error_are_not_recorded() -> None:
    key = "sk-proj-A1b2C3d4E5f6G7h8I9j0K1l2"
    run, tape = recording()
    run.live(chat(user("a")), f"The key is {key}.")
    run.live(
        chat(user("b")),
        error=ERROR.model_copy(update={"text": f"Illegal header value b'Bearer {key}'", "phase": "connect"}),
    )

    assert key not in repr(tape)
    assert tape.exchanges[1].error is not None
    assert tape.exchanges[1].error.text == "Illegal header value b'Bearer [redacted:openai-key]'"


def test_an_agent_that_sends_a_redacted_answer_back_is_still_known() -> None:
    key = "sk-proj-A1b2C3d4E5f6G7h8I9j0K1l2"
    run, tape = recording()
    run.live(chat(user("a")), f"The key is {key}.")
    run.live(chat(user("a"), said(f"The key is {key}."), user("b")), "two")

    replay = replaying(tape)
    shown = replay.text(chat(user("a")))

    assert shown == "The key is [redacted:openai-key]."
    assert replay.text(chat(user("a"), said(shown), user("b"))) == "two"


def test_what_is_known_is_served_and_what_is_not_goes_live_where_both_are_wanted() -> None:
    known = _talk("a")
    reader = make_reader()
    fresh = MemoryTape(messages=dict(known.messages))
    sources = [recorded_for(known, reader, digest=reader.rules.digest)]
    run = Run(_player(reader, sources=sources, recording=fresh))

    assert run.text(chat(user("a"))) == "A"
    run.live(chat(user("b")), "B")

    assert run.player.knows(reader.read(chat(user("a"))))
    assert not run.player.knows(reader.read(chat(user("b"))))
    assert [step.hash for step in fresh.exchanges] == [reader.read(chat(user(text))).hash for text in "ab"]
    assert run.player.unplayed_error(["setup"]) is None


# Many at once


def _in_threads(count: int, work: Callable[[int], Any]) -> list[Any]:
    barrier = threading.Barrier(count)

    def start(number: int) -> Any:
        barrier.wait(timeout=10)
        return work(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(start, range(count)))


def test_eight_threads_record_and_replay_their_conversations() -> None:
    run, tape = recording()

    def talk(go: Callable[[HttpRequest, str], str]) -> Callable[[int], list[str]]:
        def work(number: int) -> list[str]:
            messages: list[Any] = [user(f"agent {number // 2}")]
            texts = []
            for turn in range(20):
                texts.append(go(chat(*messages), f"answer {number} {turn}"))
                messages += [said(texts[-1]), user(f"go on {turn}")]
            return texts

        return work

    def live(request: HttpRequest, text: str) -> str:
        run.live(request, text)
        return text

    recorded = _in_threads(8, talk(live))
    replay = replaying(tape)
    replayed = _in_threads(8, talk(lambda request, _: replay.text(request)))

    assert sorted(map(tuple, replayed)) == sorted(map(tuple, recorded))
    assert replay.player.unplayed(["setup"]) == []
    assert run.player.in_flight == 0


def test_eight_threads_that_ask_for_one_request_get_each_answer_once() -> None:
    run, tape = recording()
    for number in range(800):
        run.live(chat(user("same")), f"answer {number}")

    replay = replaying(tape)
    answers = _in_threads(8, lambda _: [replay.text(chat(user("same"))) for _ in range(100)])

    assert sorted(text for texts in answers for text in texts) == sorted(f"answer {number}" for number in range(800))
    assert replay.divergence(chat(user("same"))).kind == "exhausted"


def test_threads_that_diverge_at_once_all_fail_with_one_report() -> None:
    replay = replaying(_talk("a"))

    def work(number: int) -> BaseException:
        try:
            replay.text(chat(user(f"changed {number}")))
        except BaseException as error:
            return error
        return AssertionError("served")

    errors = _in_threads(8, work)

    assert len({id(error) for error in errors}) == 1
    assert errors[0] is replay.player.stopped


def test_200_requests_made_at_once_and_replayed_in_reverse_get_their_own_answers() -> None:
    run, tape = recording()
    tickets = [(number, run.ask(chat(user(f"question {number}")))) for number in range(200)]
    for number, ticket in random.Random(0).sample(tickets, 200):
        assert isinstance(ticket, Ticket)
        run.player.complete(ticket, response=answer(f"answer {number}"))

    replay = replaying(tape)

    for number in reversed(range(200)):
        assert replay.text(chat(user(f"question {number}"))) == f"answer {number}"


@pytest.mark.parametrize("request_of_all", [chat(user("same")), _get("/status")], ids=["model", "http"])
def test_ten_thousand_identical_requests_are_answered_first_recorded_first_served(request_of_all: HttpRequest) -> None:
    asked = make_reader().read(request_of_all)
    step = step_for(asked, response=answer("a"))
    steps = [step.model_copy(update={"lane": f"l.{number}"}) for number in range(10_000)]
    player = replaying(MemoryTape(entries=[*steps], messages=asked.messages)).player

    served = [player.ask(asked, call_site=lambda: None) for _ in steps]

    assert [decision.step.lane for decision in served if isinstance(decision, Serve)] == [s.lane for s in steps]


# Answers that are fetched

FETCH = post(b"", url=f"{RESPONSES}/resp_1", method="GET", headers=())


def _answer_of(*output: Any, **fields: Any) -> Response:
    body = response(*output, **{"id": "resp_1", **fields})
    return Response(status=200, headers=JSON, content=json.dumps(body).encode())


QUEUED = _answer_of(status="queued", usage=None)
DONE = _answer_of(says("done"), calls("look", a=1))


def test_the_fetch_that_brings_an_answer_to_its_end_carries_its_tokens() -> None:
    run, tape = recording()
    run.live(responses("hello", background=True), QUEUED)
    for fetched in (QUEUED, DONE, DONE):
        run.live(FETCH, fetched)

    usages = [step.usage.input_tokens if step.usage else None for step in tape.exchanges]

    assert usages == [None, None, USAGE["input_tokens"], None]
    assert [step.kind for step in tape.exchanges] == ["model", "http", "http", "http"]
    assert len({step.lane for step in tape.exchanges}) == 1


def test_the_tokens_of_an_answer_that_was_whole_at_once_are_counted_once() -> None:
    run, tape = recording()
    run.live(responses("hello"), DONE)
    run.live(FETCH, DONE)

    assert [step.usage is None for step in tape.exchanges] == [False, True]


def test_the_tokens_of_an_answer_that_another_run_has_waited_for_are_not_counted() -> None:
    run, tape = recording()
    run.live(FETCH, DONE)
    run.live(FETCH, DONE)
    run.live(responses("b", previous_response_id="resp_1"), _answer_of(says("b"), id="resp_2"))

    assert [step.usage is None for step in tape.exchanges] == [True, True, False]
    assert len({step.lane for step in tape.exchanges}) == 1


@pytest.mark.parametrize("failure", ["status", "error", "abandoned"])
def test_a_fetch_that_fails_leaves_the_conversation_as_it_was(failure: str) -> None:
    run, tape = recording()
    run.live(responses("hello"), DONE)
    ticket = run.ask(FETCH)
    assert isinstance(ticket, Ticket)
    if failure == "abandoned":
        run.player.abandon(ticket)
    else:
        run.player.complete(ticket, response=BUSY, error=ERROR if failure == "error" else None)

    run.live(responses("b", previous_response_id="resp_1"), _answer_of(says("b"), id="resp_2"))

    assert len({step.lane for step in tape.exchanges}) == 1


def test_an_answer_that_is_fetched_too_late_does_not_answer_the_next_request() -> None:
    run, _ = recording()
    run.live(responses("hello"), QUEUED)
    late = run.ask(FETCH)
    following = run.ask(responses("b", previous_response_id="resp_1"))
    assert isinstance(late, Ticket)
    assert isinstance(following, Ticket)

    run.player.complete(late, response=DONE)
    fork = run.ask(responses("c", previous_response_id="resp_1"))

    assert isinstance(fork, Ticket)
    assert fork.lane is not following.lane
    assert late.lane is following.lane
