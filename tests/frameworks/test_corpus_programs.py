"""Every program of the corpus that has local tools: recorded, its tools poisoned, replayed without a provider."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pytest_agentreplay.cassette import Cassette, load_cassette
from pytest_agentreplay.records import ToolStep
from tests.corpus.running import INI

pytestmark = pytest.mark.corpus

RESULT = "Paris is 18C and sunny at 12:00; Tokyo is 25C and cloudy."
CALLS = [
    ("get_weather", {"city": "Paris"}, "18C, sunny"),
    ("get_time", {"city": "Paris"}, "12:00"),
    ("get_weather", {"city": "Tokyo"}, "25C, cloudy"),
]
PLAIN = ("openai_chat", "openai_responses", "anthropic_sdk")
VARIANTS = {
    **dict.fromkeys(PLAIN, ("",)),
    "langgraph_agent": ("openai", "anthropic", "responses"),
    "openai_agents_agent": ("chat", "responses", "handoff"),
    "pydantic_ai_agent": ("openai", "anthropic", "responses"),
    "smolagents_agent": ("",),
}
CASES = [
    {
        "name": "-".join(filter(None, [program, variant, "stream" if stream else ""])),
        "program": program,
        "variant": variant,
        "stream": stream,
    }
    for program, variants in VARIANTS.items()
    for variant in variants
    for stream in (False, True)
]
# The programs close no connection, nor do the frameworks.
UNCLOSED = "    ignore::ResourceWarning\n    ignore::pytest.PytestUnraisableExceptionWarning\n"
NAMES = [case["name"] for case in CASES]


@dataclass(frozen=True)
class Ran:
    """What came of recording every program, and of replaying it."""

    folder: Path
    text: str

    def seen(self, run: str, name: str) -> dict[str, Any]:
        kept: dict[str, Any] = json.loads((self.folder / run / f"{name}.json").read_text())
        return kept

    def cassette(self, name: str) -> Cassette:
        return load_cassette(Path(self.seen("recorded", name)["cassette"]))


@pytest.fixture(scope="module")
def ran(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    agents = corpus / "agents"
    folder = tmp_path_factory.mktemp("programs")
    inner = Path(__file__).parent / "inner"
    shutil.copyfile(inner / "agent_programs.py", folder / "test_agents.py")
    shutil.copyfile(inner / "twice.py", folder / "twice.py")
    (folder / "pytest.ini").write_text(INI + UNCLOSED)
    (folder / "plan.json").write_text(json.dumps({"plain": PLAIN, "cases": CASES, "times": 2}))
    kept_out = ("PYTEST_", "OPENAI_", "ANTHROPIC_", "LANGSMITH_", "LANGCHAIN_")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(kept_out)}
    finished = subprocess.run(
        [sys.executable, str(folder / "twice.py"), str(agents / "fake_provider.py")],
        cwd=folder,
        env=environment
        | {"PYTHONPATH": os.pathsep.join([str(agents / "guard"), str(agents), os.environ.get("PYTHONPATH", "")])}
        | {"GUARD_LOG": str(folder / "blocked.txt"), "PYTHONDONTWRITEBYTECODE": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
    )
    assert finished.returncode == 0, finished.stdout
    return Ran(folder, finished.stdout)


def test_every_program_is_recorded_and_replayed(ran: Ran) -> None:
    assert f"{len(CASES)} recorded" in ran.text
    assert f"{len(CASES)} replayed" in ran.text
    assert not (ran.folder / "blocked.txt").exists()


@pytest.mark.parametrize("name", NAMES)
def test_a_replay_gives_the_recorded_result_and_runs_no_body(ran: Ran, name: str) -> None:
    recorded = ran.seen("recorded", name)

    replayed = ran.seen("replayed", name)

    assert RESULT in recorded["result"]
    assert recorded["bodies"] == 3
    assert replayed["result"] == recorded["result"]
    assert replayed["bodies"] == 0


@pytest.mark.parametrize("name", NAMES)
def test_a_replay_sends_the_recorded_requests(ran: Ran, name: str) -> None:
    recorded = ran.seen("recorded", name)

    replayed = ran.seen("replayed", name)

    assert sum(map(len, recorded["hash_chain"].values())) == (4 if "handoff" in name else 3)
    assert replayed["hash_chain"] == recorded["hash_chain"]


@pytest.mark.parametrize("name", NAMES)
def test_the_library_replays_every_program_twice_to_equal_tapes_with_the_recorded_hash_chain(
    ran: Ran, name: str
) -> None:
    recorded = ran.seen("recorded", name)

    replayed = ran.seen("library", name)

    assert replayed["result"] == recorded["result"]
    assert (replayed["bodies"], replayed["live"]) == (0, [0, 0])
    assert replayed["hash_chain"] == recorded["hash_chain"]
    assert replayed["are_equal"]
    assert replayed["as_recorded"]


@pytest.mark.parametrize("name", NAMES)
def test_the_cassette_holds_each_call_with_its_id_in_the_order_of_the_conversation(ran: Ran, name: str) -> None:
    steps = [step for step in ran.cassette(name).entries if isinstance(step, ToolStep)]

    ids = {step.tool_use_id for step in steps}

    assert [(step.name, step.arguments, step.result) for step in steps] == CALLS
    assert len(ids - {None}) == 3
    assert {step.source for step in steps} == {"wrapped"}


# smolagents tells the model of earlier turns in other words, so that each of its requests opens a conversation.
@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith("smolagents")])
def test_a_call_stands_in_the_conversation_that_asked_for_it(ran: Ran, name: str) -> None:
    cassette = ran.cassette(name)

    lanes = {step.lane for step in cassette.entries if isinstance(step, ToolStep)}

    assert lanes == {step.lane for step in cassette.exchanges}
    assert len(lanes) == 1


@pytest.mark.parametrize("name", NAMES)
def test_a_run_tells_of_each_call_once(ran: Ran, name: str) -> None:
    recorded, replayed = (ran.seen(run, name)["tools"] for run in ("recorded", "replayed"))

    handed_over = [call for call in recorded if call["name"].startswith("transfer_to_")]
    told = sorted(
        (call["name"], call["arguments"]["city"])
        for call in recorded
        if call["name"] != "final_answer" and call not in handed_over
    )

    assert [call["source"] for call in handed_over] == (["transcript"] if "handoff" in name else [])
    assert told == [("get_time", "Paris"), ("get_weather", "Paris"), ("get_weather", "Tokyo")]
    assert sorted(map(str, replayed)) == sorted(map(str, recorded))
