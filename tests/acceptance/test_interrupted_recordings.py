"""A recording that is cut short: no answer that the agent got is lost, and none is asked for twice."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from pytest_agentreplay.cassette import load_cassette, partial_path
from pytest_agentreplay.cli import main
from pytest_agentreplay.counts import say_count
from tests.support.in_flight import LEAVE_ONE_IN_FLIGHT, let_one_be_in_flight
from tests.support.openai import chat_answer, chat_stream
from tests.support.server import Answer, Seen
from tests.support.suite import Provider, Suite, echo

TURNS = 8
KNOWN = 3  # the turns in which the agent of today asks what it asked when the old cassette was made

# Each worker holds a conversation of its own, and notes each answer as soon as it has it.
WORKERS = """
import json, os, threading
import pytest
from agent import CLIENT, URL, body, said, user

TURNS, KNOWN, THREADS, STREAMED, TODAY = SETTINGS
CLIENT.headers["x-run"] = str(os.getpid())
NOTES = os.open(os.environ["NOTES"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)


def ask(messages):
    if not STREAMED:
        return said(CLIENT.post(URL, json=body(*messages)))
    pieces = []
    with CLIENT.stream("POST", URL, json=body(*messages, stream=True)) as response:
        for line in response.iter_lines():
            if line.startswith("data: {"):
                pieces.append(json.loads(line[6:])["choices"][0]["delta"]["content"])
            if line == "data: [DONE]":
                break
    return "".join(pieces)


def converse(worker, done):
    messages = []
    for turn in range(TURNS):
        day = TODAY if turn >= KNOWN else "any day"
        messages.append(user(f"worker {worker}, turn {turn}, {day}"))
        answer = ask(messages)
        os.write(NOTES, f"{answer}\\n".encode())
        messages.append({"role": "assistant", "content": answer})
    done.append(worker)


@pytest.mark.agent_cassette
def test_it():
    done = []
    workers = [threading.Thread(target=converse, args=(number, done)) for number in range(THREADS)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert sorted(done) == list(range(THREADS))
"""


@dataclass
class Oracle:
    """A provider of answers that are all different, and name the question they answer."""

    streamed: bool
    chance: random.Random
    run: str | None = None  # whose questions count: one of a killed process may come late
    asked: list[str] = field(default_factory=list)
    awaited: int = 0
    is_reached: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def respond(self, seen: Seen) -> Answer:
        question = seen.json()["messages"][-1]["content"]
        with self._lock:
            if self.run in (None, seen.headers["x-run"]):
                self.asked.append(question)
            number, pause = len(self.asked), self.chance.uniform(0, 0.004)
        if number == self.awaited:
            self.is_reached.set()
        answer = f"[{question}] is answered by {self.chance.getrandbits(64):016x}"
        if not self.streamed:
            return chat_answer(answer, delay=pause)
        return chat_stream([answer[:10], answer[10:30], answer[30:]], gap=pause / 3)


@dataclass
class Interrupted:
    """A suite whose agent can be killed, and what it had been told by then."""

    suite: Suite
    provider: Provider

    @property
    def notes(self) -> list[str]:
        """The answers that the agent has noted."""
        path = self.suite.path / "notes"
        return path.read_text(encoding="utf-8").splitlines() if path.exists() else []

    @property
    def partial(self) -> Path:
        """The unfinished recording."""
        return partial_path(self.suite.cassette())

    def write(self, *, threads: int, streamed: bool, today: str = "Monday") -> None:
        """Write the test; ``today`` is in its questions from turn ``KNOWN`` on."""
        settings = repr((TURNS, KNOWN, threads, streamed, today))
        self.suite.write(WORKERS.replace("SETTINGS", settings))

    def kill(self, oracle: Oracle, *, mode: str, after: float) -> None:
        """Record, and kill the process some seconds after the request that the oracle awaits."""
        self.provider.respond = oracle.respond
        quick = ("-p", "no:xdist", "-p", "no:hypothesispytest", "-p", "no:rerunfailures", "-p", "no:cacheprovider")
        process = subprocess.Popen(
            [sys.executable, "-m", "pytest", "-q", *quick, f"--record-mode={mode}"],
            cwd=self.suite.path,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        is_reached = oracle.is_reached.wait(timeout=20)
        threading.Event().wait(after)
        process.send_signal(signal.SIGKILL)
        said = process.communicate()[0].decode()
        assert is_reached, said


@pytest.fixture
def interrupted(suite: Suite, provider: Provider, monkeypatch: pytest.MonkeyPatch) -> Interrupted:
    """An empty suite beside a provider."""
    monkeypatch.setenv("NOTES", str(suite.path / "notes"))
    return Interrupted(suite, provider)


def answers_in(path: Path) -> set[str]:
    """Return the questions and answers in a tape, as the oracle wrote them."""
    if b"\n" not in path.read_bytes():
        return set()  # killed before its first line
    tape = load_cassette(path, partial=path.name.endswith(".partial.jsonl"))
    return {text_of(step.response.content) for step in tape.exchanges if step.response}


def text_of(content: bytes) -> str:
    if content.startswith(b"{"):
        return str(json.loads(content)["choices"][0]["message"]["content"])
    events = [line.removeprefix("data: ") for line in content.decode().splitlines() if line.startswith("data: {")]
    return "".join(json.loads(event)["choices"][0]["delta"]["content"] for event in events)


def question_of(answer: str) -> str:
    return answer.partition("]")[0].removeprefix("[")


# Eight moments, one of each kind, in every run; as many as one likes with `-m slow`.
MOMENTS = [*range(8), *(pytest.param(moment, marks=pytest.mark.slow) for moment in range(8, 50))]


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_recording_killed_at_a_random_moment_loses_no_answer_and_goes_on_from_them(
    interrupted: Interrupted, moment: int
) -> None:
    chance = random.Random(moment)
    streamed, threads, has_old = bool(moment & 1), (4 if moment & 2 else 1), bool(moment & 4)
    suite, old = interrupted.suite, b""
    if has_old:
        interrupted.provider.respond = Oracle(streamed, chance).respond
        interrupted.write(threads=threads, streamed=streamed, today="Sunday")
        suite.record()
        old = suite.cassette().read_bytes()
        (suite.path / "notes").unlink()
    interrupted.write(threads=threads, streamed=streamed)
    mode = chance.choice(["rewrite", "new_episodes"]) if has_old else "once"
    live = threads * (TURNS - KNOWN if mode == "new_episodes" else TURNS)
    first = Oracle(streamed, chance, awaited=chance.randint(1, live))

    interrupted.kill(first, mode=mode, after=chance.uniform(0, 0.02))

    is_done = suite.cassette().exists() and suite.cassette().read_bytes() != old  # killed at the very end
    left = suite.cassette() if is_done else interrupted.partial
    kept = answers_in(left) if left.exists() else set()
    assert set(interrupted.notes) <= kept
    assert suite.cassette().exists() == (is_done or has_old)

    second = Oracle(streamed, chance, run=str(os.getpid()))
    interrupted.provider.respond = second.respond
    result = suite.run("--record-mode=new_episodes" if has_old else "--record-mode=once")

    result.assert_outcomes(passed=1)
    if kept and not is_done:
        assert f"resumed from an unfinished recording of {say_count(len(kept), 'exchange')}" in result.stdout.str()
    assert not {question_of(answer) for answer in kept} & set(second.asked)
    assert len(second.asked) == len(set(second.asked))
    assert kept <= answers_in(suite.cassette())
    assert len(answers_in(suite.cassette())) == threads * TURNS
    assert suite.cassettes() == ["cassettes/test_it/test_it.jsonl"]
    assert main(["verify", str(suite.cassette())]) == 0
    suite.run().assert_outcomes(passed=1)
    assert len(second.asked) == len(set(second.asked))


ASKS = """
import os, socket, threading
import pytest
from agent import CLIENT, URL, ask, body

@pytest.mark.agent_cassette
def test_it():
    STEPS
"""


def write_steps(suite: Suite, *steps: str) -> None:
    """Write a test that takes these steps."""
    suite.write(ASKS.replace("STEPS", "\n    ".join(steps)))


def questions_of(provider: Provider) -> list[str]:
    """Return what has been asked, in order."""
    return [seen.json()["messages"][-1]["content"] for seen in provider.seen if seen.body]


def cut_short(suite: Suite, *questions: str) -> Path:
    """Record some questions and break off while one more is in flight; return the unfinished recording."""
    let_one_be_in_flight(suite.pytester)
    write_steps(suite, *(f"ask({question!r})" for question in questions), LEAVE_ONE_IN_FLIGHT, "pytest.fail('cut off')")
    suite.run("--record-mode=once").assert_outcomes(failed=1)
    return partial_path(suite.cassette())


LATE = """
    def control(path):
        host, port = os.environ["PROVIDER_URL"].removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=20) as plain:  # no client that is recorded
            plain.sendall(f"GET {path} HTTP/1.0\\r\\n\\r\\n".encode())
            plain.recv(100)

    threading.Thread(target=ask, args=["slow"], name="late").start()
    control("/until-slow-is-asked")
"""

# Between the test and the end of the session, the request that is in flight gets its answer.
ANSWERED_LATE = """
import os, threading, urllib.request

def pytest_runtest_logfinish():
    for thread in threading.enumerate():
        if thread.name == "late":
            urllib.request.urlopen(os.environ["PROVIDER_URL"] + "/answer-slow", timeout=20).close()
            thread.join(20)
"""


def test_an_exchange_in_flight_at_the_end_of_a_test_keeps_the_partial_whatever_comes_of_it(
    suite: Suite, provider: Provider
) -> None:
    is_asked, is_over = threading.Event(), threading.Event()

    def respond(seen: Seen) -> Answer:
        if b"slow" in seen.body:
            is_asked.set()
            is_over.wait(20)
        if seen.path == "/until-slow-is-asked":
            is_asked.wait(20)
        if seen.path == "/answer-slow":
            is_over.set()
        return echo(seen)

    provider.respond = respond
    suite.pytester.makeconftest(ANSWERED_LATE)
    write_steps(suite, "ask('one')", "ask('two')", LATE.strip())

    first = suite.run("--record-mode=once")
    write_steps(suite, "ask('one')", "ask('two')", "ask('slow')")
    second = suite.run("--record-mode=once")

    first.assert_outcomes(passed=1)
    assert "unfinished recording kept: cassettes/test_it/test_it.partial.jsonl (2 exchanges)" in first.stdout.str()
    second.assert_outcomes(passed=1)
    assert questions_of(provider) == ["one", "two", "slow", "slow"]
    assert suite.cassettes() == ["cassettes/test_it/test_it.jsonl"]


def test_a_recording_may_be_cut_short_again_and_again(suite: Suite, provider: Provider) -> None:
    for count in range(1, 5):
        cut_short(suite, *["one", "two", "three", "four"][:count])
    write_steps(suite, *(f"ask({question!r})" for question in ("one", "two", "three", "four")))

    suite.record()

    asked = [question for question in questions_of(provider) if question != "in flight"]
    assert asked == ["one", "two", "three", "four"]


@pytest.mark.parametrize("cut", [1, 40, -1])
def test_a_torn_last_line_is_left_out_and_the_rest_is_used(suite: Suite, provider: Provider, cut: int) -> None:
    partial = cut_short(suite, "one", "two")
    lines = partial.read_bytes().splitlines(keepends=True)
    partial.write_bytes(b"".join(lines[:-1]) + lines[-1][:cut])
    write_steps(suite, "ask('one')", "ask('two')", "ask('three')")

    result = suite.run("--record-mode=once")

    result.assert_outcomes(passed=1)
    assert "resumed from an unfinished recording of 1 exchange;" in result.stdout.str()
    assert f"line {len(lines)} is cut off and was left out" in result.stdout.str()
    assert questions_of(provider) == ["one", "two", "in flight", "two", "three"]


@pytest.mark.parametrize("left", [b"", b'{"kind":"run.sta'])
def test_a_recording_killed_before_its_first_line_was_whole_is_begun_again(
    suite: Suite, provider: Provider, left: bytes
) -> None:
    partial = cut_short(suite, "one")
    partial.write_bytes(left)
    write_steps(suite, "ask('one')")

    result = suite.run("--record-mode=once")

    result.assert_outcomes(passed=1)
    assert suite.cassettes() == ["cassettes/test_it/test_it.jsonl"]


def test_a_partial_recording_damaged_in_the_middle_is_refused_and_left_alone(suite: Suite, provider: Provider) -> None:
    partial = cut_short(suite, "one", "two")
    partial.write_bytes(partial.read_bytes().replace(b"echo: one", b"echo: ONE"))
    before = partial.read_bytes()
    write_steps(suite, "ask('one')", "ask('two')")

    result = suite.run("--record-mode=once")

    result.assert_outcomes(errors=1)
    assert "test_it.partial.jsonl:3: the line was changed after it was recorded" in result.stdout.str()
    assert partial.read_bytes() == before
    assert questions_of(provider) == ["one", "two", "in flight"]


def test_a_body_that_fails_after_its_last_exchange_still_writes_a_missing_cassette(
    suite: Suite, provider: Provider
) -> None:
    write_steps(suite, "ask('one')", "assert ask('two') == 'what nobody said'")

    result = suite.run("--record-mode=once")

    result.assert_outcomes(failed=1)
    assert suite.lines()[-1]["outcome"] == "failed"
    assert "recorded cassettes/test_it/test_it.jsonl (by a failing test: check it" in result.stdout.str()
    assert suite.cassettes() == ["cassettes/test_it/test_it.jsonl"]
    write_steps(suite, "ask('one')", "ask('two')")
    suite.run().assert_outcomes(passed=1)
    assert questions_of(provider) == ["one", "two"]


def test_a_body_that_fails_before_it_has_asked_all_that_a_partial_holds_keeps_the_partial(
    suite: Suite, provider: Provider
) -> None:
    cut_short(suite, "one", "two", "three")
    write_steps(suite, "ask('one')", "assert False")

    suite.run("--record-mode=once").assert_outcomes(failed=1)
    write_steps(suite, "ask('one')", "ask('two')", "ask('three')")
    suite.record()

    assert questions_of(provider) == ["one", "two", "three", "in flight"]


@pytest.mark.parametrize("mode", ["new_episodes", "all", "rewrite"])
def test_a_failing_test_never_replaces_a_good_cassette(suite: Suite, provider: Provider, mode: str) -> None:
    write_steps(suite, "ask('one')", "ask('two')")
    suite.record()
    before = suite.cassette().read_bytes()
    write_steps(suite, "ask('one')", "ask('three')", "assert False")

    failing = suite.run(f"--record-mode={mode}")
    write_steps(suite, "ask('one')", "ask('three')")
    kept = suite.cassette().read_bytes()
    passing = suite.run("--record-mode=new_episodes")

    failing.assert_outcomes(failed=1)
    assert kept == before
    assert "recording of a failing test kept: cassettes/test_it/test_it.partial.jsonl (2 exchanges)" in (
        failing.stdout.str()
    )
    assert "pytest test_it.py::test_it --record-mode=new_episodes" in failing.stdout.str()
    passing.assert_outcomes(passed=1)
    assert questions_of(provider).count("three") == 1
    assert suite.cassettes() == ["cassettes/test_it/test_it.jsonl"]


def test_new_episodes_adds_what_is_new_and_drops_and_lists_what_is_gone(suite: Suite, provider: Provider) -> None:
    write_steps(suite, "ask('one')", "ask('two')", "CLIENT.post(URL + '/count', json=body('three'))")
    suite.record()
    write_steps(suite, "ask('two')", "ask('four')")

    result = suite.run("--record-mode=new_episodes")

    result.assert_outcomes(passed=1)
    assert "(dropped what was not played: chat m, POST /v1/chat/completions/count)" in result.stdout.str()
    assert questions_of(provider) == ["one", "two", "three", "four"]
    provider.stop()
    suite.run().assert_outcomes(passed=1)


def test_a_disk_that_is_full_stops_the_recording_and_costs_no_answer_before(suite: Suite, provider: Provider) -> None:
    suite.write(
        """
        import resource
        import pytest
        from agent import ask

        CONVERSATION = ["one", {"role": "assistant", "content": "echo: one"}, "two"]

        @pytest.mark.agent_cassette
        def test_it(agent_run):
            ask("one")
            partial = agent_run.cassette.with_name("test_it.partial.jsonl")
            before, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (partial.stat().st_size + 100, hard))
            for _ in range(2):  # as code would that tries again, whatever it catches
                try:
                    ask(*CONVERSATION)
                except BaseException:
                    pass
                resource.setrlimit(resource.RLIMIT_FSIZE, (before, hard))
        """
    )

    stopped = suite.run_apart("--record-mode=once")

    stopped.assert_outcomes(failed=1)
    assert "RecordingFailedError: An answer could not be recorded: " in stopped.stdout.str()
    conversation = "ask('one', {'role': 'assistant', 'content': 'echo: one'}, 'two')"
    write_steps(suite, "ask('one')", conversation, "ask('three')")
    suite.run("--record-mode=once").assert_outcomes(passed=1)

    assert questions_of(provider) == ["one", "two", "two", "three"]


def test_a_file_left_half_replaced_by_a_killed_process_is_cleared_away(suite: Suite) -> None:
    write_steps(suite, "ask('one')")
    suite.record()
    leftover = suite.cassette().with_name(".test_it.jsonl.12345.tmp")
    leftover.write_bytes(b"half a casse")

    suite.run("--record-mode=rewrite").assert_outcomes(passed=1)

    assert [path.name for path in suite.cassette().parent.iterdir()] == ["test_it.jsonl"]
