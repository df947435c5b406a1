"""Agent programs on the real SDKs, recorded against a fake provider and replayed when that is gone."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pytest_agentreplay.cassette import Cassette, load_cassette
from pytest_agentreplay.dialects import Message, Reply, ToolCall, load_dialects
from pytest_agentreplay.heads import media_type_of
from pytest_agentreplay.records import Usage
from tests.corpus.running import Finished, lay_out, run_pytest

pytestmark = pytest.mark.corpus

RESULT = "Paris is 18C and sunny at 12:00; Tokyo is 25C and cloudy."
PLAIN = ("openai_chat", "openai_responses", "anthropic_sdk")
STREAMED = tuple(f"{name}-stream" for name in PLAIN)
RETRIED = tuple(f"{name}-flaky503" for name in (*PLAIN, *STREAMED))
SLOW = tuple(f"{name}-slowsse" for name in STREAMED)
CASES = (*PLAIN, *STREAMED, *RETRIED, *SLOW)

# By provider: whether the ids in its answers are made from the request, or are new each time.
CASES_WITH = {"same_ids": CASES, "random_ids": (*PLAIN, *STREAMED)}

_KEPT = "kept"  # where the cassettes of the first recording are put away
_MADE_ID = re.compile(r"\b(call_|chatcmpl-|fc_|toolu_|msg_|req_|resp_)[0-9a-f]{24}\b")
_CALLS = {
    "openai_chat": ("call_", ""),
    "openai_responses": ("call_", ""),
    "anthropic_sdk": ("toolu_", "Let me look that up."),
}
_ROLES = {
    "openai_chat": ["system", "user", "assistant", "tool", "tool", "assistant", "tool"],
    "openai_responses": ["user", "assistant", "assistant", "tool", "tool", "assistant", "tool"],
    "anthropic_sdk": ["user", "assistant", "user", "assistant", "user"],
}
# How an answer ends that calls tools, and one that does not.
_ENDINGS = {
    "openai_chat": ("tool_calls", "stop"),
    "openai_responses": ("completed", "completed"),
    "anthropic_sdk": ("tool_use", "end_turn"),
}


@dataclass(frozen=True)
class Recorded:
    """What came of recording every program twice against each provider, and of replaying the second recording."""

    folder: Path
    recordings: tuple[Finished, Finished]
    replaying: Finished

    def seen(self, run: str, provider: str, name: str) -> dict[str, Any]:
        kept: dict[str, Any] = json.loads((self.folder / provider / run / f"{name}.json").read_text())
        return kept

    def path(self, run: str, provider: str, name: str) -> Path:
        path = Path(self.seen(run, provider, name)["cassette"])
        return self.folder / _KEPT / path.relative_to(self.folder) if run == "first" else path

    def cassette(self, name: str, *, provider: str = "same_ids", run: str = "second") -> Cassette:
        return load_cassette(self.path(run, provider, name))


@pytest.fixture(scope="module")
def recorded(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    agents = corpus / "agents"
    folder = tmp_path_factory.mktemp("agents")
    modules = {f"{provider}/test_agents.py": "agent_programs.py" for provider in CASES_WITH}
    lay_out(folder, {**modules, "count_connects.py": "count_connects.py"})
    search = os.pathsep.join([str(agents / "guard"), str(agents), str(folder)])
    guarded = {"PYTHONPATH": search, "GUARD_LOG": str(folder / "blocked.txt")}
    with fake_provider(agents, folder) as fixed, fake_provider(agents, folder, "--random-ids") as random:
        for provider, base in zip(CASES_WITH, (fixed, random), strict=True):
            plan = {"base": base, "cases": [_case(name) for name in CASES_WITH[provider]]}
            (folder / provider / "plan.json").write_text(json.dumps(plan))
        first = _passed(run_pytest(folder, "--record-mode=once", SEEN="first", **guarded))
        for provider in CASES_WITH:
            shutil.move(folder / provider / "cassettes", folder / _KEPT / provider / "cassettes")
        second = _passed(run_pytest(folder, "--record-mode=once", SEEN="second", **guarded))
    replaying = _passed(run_pytest(folder, SEEN="replayed", **guarded))
    return Recorded(folder=folder, recordings=(first, second), replaying=replaying)


def _passed(finished: Finished) -> Finished:
    assert finished.code == 0, finished.text
    return finished


@contextmanager
def fake_provider(agents: Path, folder: Path, *options: str) -> Iterator[str]:
    """Run the fake provider until the block ends; yield its base URL."""
    port_file = folder / f"port{''.join(options)}"
    command = [sys.executable, str(agents / "fake_provider.py"), "--port", "0", "--port-file", str(port_file), *options]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as provider:
        try:
            yield f"http://127.0.0.1:{_port_in(port_file, provider)}"
        finally:
            provider.terminate()


def _port_in(port_file: Path, provider: subprocess.Popen[bytes]) -> str:
    for _ in range(1000):
        if port_file.exists() and (port := port_file.read_text()):
            return port
        assert provider.poll() is None, "the fake provider ended at once"
        time.sleep(0.01)
    raise AssertionError("the fake provider did not start within 10 seconds")


def _case(name: str) -> Mapping[str, Any]:
    program, *options = name.split("-")
    prefix = next((f"/{option}" for option in options if option != "stream"), "")
    return {"name": name, "program": program, "stream": "stream" in options, "prefix": prefix}


def _read_replies(cassette: Cassette) -> list[Reply | None]:
    """Return the answers of a recording as the dialects read them."""
    dialects = load_dialects()
    replies = []
    for step in cassette.exchanges:
        assert step.response is not None
        dialect = dialects.named(step.provider, step.operation)
        assert dialect is not None
        replies.append(dialect.read_reply(step.response.content, media_type_of(step.response.headers)))
    return replies


EACH_CASE = [(provider, name) for provider, names in CASES_WITH.items() for name in names]


def test_every_program_is_recorded_twice_and_replayed(recorded: Recorded) -> None:
    runs = len(EACH_CASE)

    assert [f"{runs} recorded" in recording.text for recording in recorded.recordings] == [True, True]
    assert f"{runs} replayed" in recorded.replaying.text


@pytest.mark.parametrize(("provider", "name"), EACH_CASE)
def test_a_replay_gives_the_recorded_result_by_the_recorded_requests(
    recorded: Recorded, provider: str, name: str
) -> None:
    live = recorded.seen("second", provider, name)

    replayed = recorded.seen("replayed", provider, name)

    assert live["result"] == RESULT
    assert [len(chain) for chain in live["hash_chain"].values()] == [6 if name in RETRIED else 3]
    assert {**replayed, "connects": None} == {**live, "connects": None}


@pytest.mark.parametrize(("provider", "name"), EACH_CASE)
def test_a_replay_connects_to_nothing(recorded: Recorded, provider: str, name: str) -> None:
    live = recorded.seen("second", provider, name)

    replayed = recorded.seen("replayed", provider, name)

    assert live["connects"] > 0
    assert replayed["connects"] == 0


def test_no_run_tries_to_leave_the_machine(recorded: Recorded) -> None:
    guards = {
        recorded.seen(run, provider, name)["guard"] for run in ("second", "replayed") for provider, name in EACH_CASE
    }

    assert guards == {"sitecustomize"}
    assert not (recorded.folder / "blocked.txt").exists()


@pytest.mark.parametrize("name", CASES)
def test_a_second_recording_differs_in_its_last_line_only(recorded: Recorded, name: str) -> None:
    first, second = (recorded.path(run, "same_ids", name).read_bytes().splitlines() for run in ("first", "second"))

    assert len(first) > 4
    assert first[:-1] == second[:-1]
    assert first[-1] != second[-1]


@pytest.mark.parametrize("name", CASES_WITH["random_ids"])
def test_recordings_of_a_provider_with_random_ids_differ_in_ids_only(recorded: Recorded, name: str) -> None:
    first, second = (recorded.cassette(name, provider="random_ids", run=run) for run in ("first", "second"))

    assert _MADE_ID.findall(_told(first)) != []
    assert _told(first) != _told(second)
    assert _MADE_ID.sub(r"\1ID", _told(first)) == _MADE_ID.sub(r"\1ID", _told(second))


def _told(cassette: Cassette) -> str:
    """Return everything a recording says, except what is derived from it or is about time."""
    steps = []
    for step in cassette.exchanges:
        kept = step.model_dump(mode="json", exclude={"hash", "lane", "timing"})
        kept["response"] = {key: kept["response"][key] for key in kept["response"] if key not in ("cuts", "arrivals")}
        lists = kept["request"]["body"]["lists"]
        kept["request"]["body"]["lists"] = {
            key: [cassette.messages[address] for address in found] for key, found in lists.items()
        }
        steps.append(kept)
    return json.dumps(steps)


@pytest.mark.parametrize("name", RETRIED)
def test_a_retry_is_recorded_with_the_answer_that_caused_it(recorded: Recorded, name: str) -> None:
    exchanges = recorded.cassette(name).exchanges

    statuses = [step.response.status for step in exchanges if step.response]

    assert statuses == [503, 200] * 3
    assert [exchanges[at].hash for at in (0, 2, 4)] == [exchanges[at].hash for at in (1, 3, 5)]
    assert len({step.lane for step in exchanges}) == 1


@pytest.mark.parametrize("name", SLOW)
def test_a_stream_that_comes_in_small_pieces_is_kept_in_them(recorded: Recorded, name: str) -> None:
    exchanges = recorded.cassette(name).exchanges

    cuts = [set(step.response.cuts[:-1]) for step in exchanges if step.response]

    assert cuts == [{7}] * 3


@pytest.mark.parametrize("name", CASES)
def test_every_request_is_a_model_step_of_one_conversation(recorded: Recorded, name: str) -> None:
    exchanges = recorded.cassette(name).exchanges

    provider = "openai" if name.startswith("openai") else "anthropic"

    operation = "responses" if name.startswith("openai_responses") else "chat"
    assert {(step.kind, step.provider, step.operation) for step in exchanges} == {("model", provider, operation)}
    assert len({step.lane for step in exchanges}) == 1
    assert [step.error for step in exchanges] == [None] * len(exchanges)


@pytest.mark.parametrize("name", [*PLAIN, *STREAMED, *SLOW])
def test_the_recorded_answers_read_as_what_the_model_said(recorded: Recorded, name: str) -> None:
    program = name.partition("-")[0]
    prefix, preface = _CALLS[program]
    called, stopped = _ENDINGS[program]

    replies = [reply for reply in _read_replies(recorded.cassette(name)) if reply is not None]

    assert [reply.finish_reason for reply in replies] == [called, called, stopped]
    assert [_without_ids(reply, prefix) for reply in replies] == [
        Message("assistant", preface, (_call("get_weather", "Paris"), _call("get_time", "Paris"))),
        Message("assistant", preface, (_call("get_weather", "Tokyo"),)),
        Message("assistant", RESULT),
    ]


def _call(name: str, city: str) -> ToolCall:
    return ToolCall.of(id="", name=name, arguments=f'{{"city":"{city}"}}')


def _without_ids(reply: Reply, prefix: str) -> Message:
    [message] = reply.messages
    assert all(call.id.startswith(prefix) for call in message.tool_calls)
    calls = tuple(ToolCall.of(id="", name=call.name, arguments=call.arguments) for call in message.tool_calls)
    return Message(message.role, message.text, calls)


@pytest.mark.parametrize("name", [*PLAIN, *STREAMED, *SLOW])
def test_the_recorded_steps_carry_the_usage_of_each_turn(recorded: Recorded, name: str) -> None:
    cassette = recorded.cassette(name)

    usages = [step.usage for step in cassette.exchanges if step.kind == "model"]

    assert usages == [Usage(input_tokens=50 + 40 * turn, output_tokens=20) for turn in range(3)]
    assert usages == [reply.usage for reply in _read_replies(cassette) if reply is not None]
    assert recorded.seen("replayed", "same_ids", name)["usage"] == {"input_tokens": 270, "output_tokens": 60}
    assert recorded.seen("replayed", "same_ids", name)["turns"] == 3


@pytest.mark.parametrize("name", RETRIED)
def test_an_answer_of_status_503_has_no_usage_and_says_nothing(recorded: Recorded, name: str) -> None:
    cassette = recorded.cassette(name)

    usages = [step.usage for step in cassette.exchanges if step.kind == "model"]

    assert usages[::2] == [None] * 3
    assert usages[1::2] == [Usage(input_tokens=50 + 40 * turn, output_tokens=20) for turn in range(3)]
    assert [reply is None for reply in _read_replies(cassette)] == [True, False] * 3


@pytest.mark.parametrize("name", CASES)
def test_the_last_request_holds_the_whole_conversation(recorded: Recorded, name: str) -> None:
    cassette = recorded.cassette(name)
    last = cassette.exchanges[-1]
    dialect = load_dialects().named(last.provider, last.operation)
    assert dialect is not None

    addresses = last.request.body.lists["input" if dialect.operation == "responses" else "messages"]
    messages = [dialect.read_message(cassette.messages[address]) for address in addresses]

    assert [message.role for message in messages if message] == _ROLES[name.partition("-")[0]]
    assert [len(message.tool_calls) for message in messages if message and message.tool_calls] == (
        [1, 1, 1] if name.startswith("openai_responses") else [2, 1]
    )
