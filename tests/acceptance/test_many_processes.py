"""Many processes at once: on one cassette they wait for each other, on cassettes of their own they do not meet."""

from __future__ import annotations

import subprocess
import sys

import pytest

from pytest_agentreplay.cassette import load_cassette, lock_cassette
from pytest_agentreplay.cli import main
from pytest_agentreplay.errors import CassetteError
from tests.support.suite import Provider, Suite

PROCESSES = 4
EXCHANGES = 50

# Each process asks in its own name where its questions are its own.
ONE_PATH = """
import os
import pytest
from agent import ask

@pytest.mark.agent_cassette
def test_it():
    asker = os.environ["ASKER"] if OWN_QUESTIONS else "anyone"
    for number in range(EXCHANGES):
        assert ask(f"{asker} asks {number}") == f"echo: {asker} asks {number}"
"""

ONE_EACH = """
import pytest
from agent import ask

@pytest.mark.agent_cassette
@pytest.mark.parametrize("number", range(100))
def test_it(number):
    assert ask(f"first {number}") == f"echo: first {number}"
    assert ask(f"first {number}", f"second {number}") == f"echo: second {number}"
"""


def run_at_once(suite: Suite, monkeypatch: pytest.MonkeyPatch, *args: str) -> list[tuple[int, str]]:
    """Run the suite in several processes at once; return the exit code and the output of each."""
    running = []
    quick = ("-p", "no:xdist", "-p", "no:hypothesispytest", "-p", "no:rerunfailures", "-p", "no:cacheprovider")
    for number in range(PROCESSES):
        monkeypatch.setenv("ASKER", f"process {number}")
        running.append(
            subprocess.Popen(
                [sys.executable, "-m", "pytest", *quick, *args],
                cwd=suite.path,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                encoding="utf-8",
            )
        )
    outputs = [process.communicate(timeout=120)[0] for process in running]
    return [(process.returncode, output) for process, output in zip(running, outputs, strict=True)]


@pytest.mark.parametrize(
    ("mode", "requests"),
    [
        ("rewrite", PROCESSES * EXCHANGES),
        pytest.param("once", EXCHANGES, marks=pytest.mark.slow),
        pytest.param("new_episodes", EXCHANGES, marks=pytest.mark.slow),
    ],
)
def test_processes_that_record_one_cassette_wait_for_each_other(
    suite: Suite, provider: Provider, monkeypatch: pytest.MonkeyPatch, mode: str, requests: int
) -> None:
    suite.write(ONE_PATH.replace("EXCHANGES", str(EXCHANGES)).replace("OWN_QUESTIONS", "False"))

    results = run_at_once(suite, monkeypatch, f"--record-mode={mode}")

    assert [code for code, _ in results] == [0] * PROCESSES, "\n".join(output for _, output in results)
    assert len(provider.seen) == requests
    assert [path.name for path in suite.cassette().parent.iterdir()] == ["test_it.jsonl"]
    assert main(["verify", str(suite.cassette())]) == 0
    assert len(load_cassette(suite.cassette()).exchanges) == EXCHANGES


def test_of_processes_that_ask_different_things_one_records_and_the_others_say_what_differs(
    suite: Suite, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite.write(ONE_PATH.replace("EXCHANGES", str(EXCHANGES)).replace("OWN_QUESTIONS", "True"))

    results = run_at_once(suite, monkeypatch, "--record-mode=once")

    [winner] = [output for code, output in results if code == pytest.ExitCode.OK]
    losers = [output for code, output in results if code == pytest.ExitCode.TESTS_FAILED]
    assert "recorded cassettes/test_it/test_it.jsonl" in winner
    assert len(losers) == PROCESSES - 1
    assert all("ReplayDivergenceError: Request changed" in output for output in losers)
    assert all("cassettes/test_it/test_it.jsonl" in output and "Traceback" not in output for output in losers)
    assert len(provider.seen) == EXCHANGES
    assert len({seen.json()["messages"][-1]["content"].partition(" asks ")[0] for seen in provider.seen}) == 1
    assert main(["verify", str(suite.cassette())]) == 0


def test_a_process_that_waits_too_long_for_another_gives_up_with_one_clear_error(suite: Suite) -> None:
    held = lock_cassette(suite.cassette())

    with pytest.raises(CassetteError) as caught:
        lock_cassette(suite.cassette(), wait=0.1)
    held.release()

    assert "test_it.jsonl: is being recorded by another process or test" in str(caught.value)
    assert "Give each test a cassette of its own" in str(caught.value)
    lock_cassette(suite.cassette(), wait=0.1).release()


def test_100_tests_on_4_workers_each_record_and_replay_a_cassette_of_their_own(
    suite: Suite, provider: Provider
) -> None:
    suite.write(ONE_EACH)

    recorded = suite.run_spread("--record-mode=once", workers=4)
    asked = len(provider.seen)
    provider.stop()
    replayed = suite.run_spread(workers=4)

    recorded.assert_outcomes(passed=100)
    replayed.assert_outcomes(passed=100)
    assert asked == 200
    assert "agent cassettes: 100 recorded (200 requests)" in recorded.stdout.str()
    assert "agent cassettes: 100 replayed (200 requests)" in replayed.stdout.str()
    assert len(suite.cassettes()) == 100
    assert main(["verify", str(suite.path / "cassettes")]) == 0
