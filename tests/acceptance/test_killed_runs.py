"""A run that is killed, at whatever moment, and then resumed: nothing that was recorded is paid for or done again."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pytest_agentreplay import Result, event_stream, load_cassette, resume
from pytest_agentreplay.cassette import Cassette, partial_path
from pytest_agentreplay.cli import main
from pytest_agentreplay.records import ToolStep
from tests.acceptance import mortal
from tests.acceptance.mortal import MORE, STEPS, Run
from tests.support.agent import asking_for
from tests.support.openai import chat_stream
from tests.support.server import Answer, Seen, Server, serving

ROOT = Path(__file__).resolve().parents[2]
BOUNDARIES = [("boundary", step) for step in range(len(STEPS) + 1)]
INSIDES = [("inside", step) for step in range(1, len(STEPS) + 1)]
MOMENTS = [*BOUNDARIES, *INSIDES]

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no kill -9 without fork")


@dataclass
class Provider:
    """Answers the run, and kills the process that asks where it is told to."""

    kill_at: int | None = None  # the how-many-th request, from 1
    asked: int = 0
    server: Server = field(default_factory=lambda: Server(url=""))

    def answer(self, seen: Seen) -> Answer:
        self.asked += 1
        is_fatal = self.asked == self.kill_at
        if seen.json()["messages"][-1]["content"] == MORE:
            answer = chat_stream(["No", "thing", "."])
            chunks = answer.chunks or ()
            return Answer(headers=answer.headers, chunks=_fatal(chunks, seen) if is_fatal else chunks)
        if is_fatal:
            _kill(seen)
        return asking_for(("look", {"order": "A-1042"}), ("pay", {"cents": 5990}))(seen)


def _fatal(chunks: Any, seen: Seen) -> Iterator[bytes]:
    """Yield half of a stream before the process that reads it is killed."""
    yield chunks[0]
    _kill(seen)
    yield from chunks[1:]


def _kill(seen: Seen) -> None:
    os.kill(int(seen.headers["x-pid"]), signal.SIGKILL)


@dataclass
class Story:
    """One run from its beginning over its deaths to its end."""

    program: subprocess.Popen[str]
    provider: Provider
    path: Path

    @property
    def log(self) -> Path:
        return self.path.with_name("tools.log")

    def die(self, how: str, step: int, *, tape: Path | None = None) -> Path | None:
        """Run, from the start or from a tape, until the kill; return the partial that is left, if one is."""
        before = set(self.path.parent.glob("*.partial.jsonl"))
        is_model = how == "inside" and STEPS[step - 1] == "model"
        served = _recorded(tape) if tape else ()
        models = sum(kind == "model" for kind in STEPS[:step]) - sum(kind == "model" for kind in served)
        self.provider.kill_at = self.provider.asked + models if is_model else None
        order = {"run": {"url": self.provider.server.url, "log": str(self.log), how: step}, "path": str(self.path)}
        assert self.program.stdin is not None
        assert self.program.stdout is not None
        self.program.stdin.write(json.dumps(order | {"tape": str(tape) if tape else None}) + "\n")
        self.program.stdin.flush()
        assert int(self.program.stdout.readline()) == -signal.SIGKILL
        self.provider.kill_at = None
        left = set(self.path.parent.glob("*.partial.jsonl")) - before
        return left.pop() if left else None

    def finish(self, tape: Path | None) -> Cassette:
        """Go on from a tape, or begin where there is none; return the finished one."""
        run = Run(self.provider.server.url, str(self.log))
        if tape is None:
            mortal.record(self.path, run)
            return load_cassette(self.path)
        result = resume(tape, run)
        assert result.output == "Nothing."
        assert result.tape is not None
        return load_cassette(result.tape)

    def bodies(self) -> Counter[str]:
        """Return how often the body of each tool has begun."""
        return Counter(self.log.read_text().split())


def _recorded(tape: Path) -> list[str]:
    """Return the steps that a partial holds, as :data:`STEPS` names them."""
    return [
        step.name if isinstance(step, ToolStep) else step.kind for step in load_cassette(tape, partial=True).entries
    ]


@pytest.fixture(scope="module")
def program() -> Iterator[subprocess.Popen[str]]:
    """The program that does runs and is killed."""
    command = [sys.executable, "-m", mortal.__name__]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
        yield running
        assert running.stdin is not None
        running.stdin.close()


@pytest.fixture(scope="module")
def served() -> Iterator[Provider]:
    """A provider for all stories."""
    provider = Provider()
    with serving(provider.answer) as provider.server:
        yield provider


@pytest.fixture(scope="module")
def uninterrupted(served: Provider, tmp_path_factory: pytest.TempPathFactory) -> Cassette:
    """The tape of a run that nothing interrupts."""
    folder = tmp_path_factory.mktemp("uninterrupted")
    mortal.record(folder / "run.jsonl", Run(served.server.url, str(folder / "tools.log")))
    tape = load_cassette(folder / "run.jsonl")
    assert [step.name if isinstance(step, ToolStep) else step.kind for step in tape.entries] == list(STEPS)
    return tape


@pytest.fixture
def story(program: subprocess.Popen[str], served: Provider, tmp_path: Path) -> Story:
    """A run that has not begun."""
    served.asked = 0
    return Story(program, served, tmp_path / "run.jsonl")


@pytest.mark.parametrize(("how", "step"), MOMENTS)
def test_a_killed_run_is_resumed_to_the_end_of_one_that_was_not(
    story: Story, uninterrupted: Cassette, how: str, step: int
) -> None:
    partial = story.die(how, step)

    finished = story.finish(partial)

    cut = STEPS[step - 1] if how == "inside" else None
    complete = list(STEPS[: step - 1 if how == "inside" else step])
    assert (_recorded(partial) if partial else []) == complete
    assert event_stream(finished) == event_stream(uninterrupted)
    assert story.provider.asked == STEPS.count("model") + (cut == "model")
    assert story.bodies() == Counter(["look", "pay"]) + Counter([cut] if cut in ("look", "pay") else [])
    assert main(["verify", str(finished.path)]) == 0


TWICE = [
    (("boundary", 2), ("boundary", 4)),
    (("inside", 3), ("inside", 4)),
    (("inside", 4), ("inside", 6)),
    (("boundary", 5), ("boundary", 5)),
]


def later(first: tuple[str, int], second: tuple[str, int]) -> bool:
    """Return whether a run that died at the first moment can, resumed, come to the second."""
    done, reached = (step - (how == "inside") for how, step in (first, second))
    return done > 0 and reached >= done


@pytest.mark.parametrize(
    ("first", "second"),
    [
        *TWICE,
        *(
            pytest.param(*pair, marks=pytest.mark.slow)
            for pair in itertools.product(MOMENTS, MOMENTS)
            if pair not in TWICE and later(*pair)
        ),
    ],
)
def test_a_resumed_run_that_is_killed_too_is_resumed_again(
    story: Story, uninterrupted: Cassette, first: tuple[str, int], second: tuple[str, int]
) -> None:
    partial = story.die(*first)
    assert partial is not None
    again = story.die(*second, tape=partial)
    assert again is not None

    finished = story.finish(again)

    cuts = [STEPS[step - 1] for how, step in (first, second) if how == "inside"]
    assert event_stream(finished) == event_stream(uninterrupted)
    assert finished.start.replay_of == load_cassette(again, partial=True).start.run_id
    assert story.provider.asked == STEPS.count("model") + cuts.count("model")
    assert story.bodies() == Counter(["look", "pay"]) + Counter(cut for cut in cuts if cut != "model")


@pytest.mark.parametrize("step", [1, 4, 6])
def test_a_last_line_that_the_crash_tore_is_reported_and_its_step_done_again(
    story: Story, uninterrupted: Cassette, step: int
) -> None:
    partial = story.die("boundary", step)
    assert partial is not None
    partial.write_bytes(partial.read_bytes()[:-30])

    result: Result = resume(partial, Run(story.provider.server.url, str(story.log)))

    assert result.torn is not None
    assert result.tape is not None
    assert event_stream(load_cassette(result.tape)) == event_stream(uninterrupted)
    is_model = STEPS[step - 1] == "model"
    assert story.provider.asked == STEPS.count("model") + is_model
    assert story.bodies() == Counter(["look", "pay"]) + Counter([] if is_model else [STEPS[step - 1]])


def test_the_partial_of_a_killed_run_stays_until_its_owner_removes_it(story: Story) -> None:
    partial = story.die("boundary", 3)
    assert partial is not None
    before = partial.read_bytes()

    story.finish(partial)

    assert partial == partial_path(story.path)
    assert partial.read_bytes() == before
    assert sorted(path.name for path in story.path.parent.glob("*.jsonl")) == ["run.partial.jsonl", "run.replay.jsonl"]


def test_recording_once_again_resumes_a_killed_run_in_its_own_cassette(story: Story, uninterrupted: Cassette) -> None:
    story.die("inside", 5)

    finished = story.finish(None)

    assert event_stream(finished) == event_stream(uninterrupted)
    assert story.provider.asked == STEPS.count("model") + 1
    assert [path.name for path in story.path.parent.glob("*.jsonl")] == ["run.jsonl"]


@pytest.mark.parametrize("step", [2, 5])
def test_a_resumed_run_counts_what_was_live_alone(story: Story, step: int) -> None:
    partial = story.die("boundary", step)
    assert partial is not None

    result = resume(partial, Run(story.provider.server.url, str(story.log)))

    assert result.turns == STEPS[step:].count("model")
    assert result.usage.input_tokens == 10 * 3  # the last answer, a stream, names none
