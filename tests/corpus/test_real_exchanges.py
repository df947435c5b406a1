"""Real provider traffic, recorded through the plugin from a local server and replayed when that is gone."""

from __future__ import annotations

import base64
import json
import random
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pytest_agentreplay.cassette import load_cassette
from pytest_agentreplay.dialects import Reply, load_dialects
from pytest_agentreplay.divergence import find_changes
from pytest_agentreplay.reader import Asked, HttpRequest, Reader, rule_set_for
from pytest_agentreplay.redact import redactor_for
from tests.corpus.running import Finished, lay_out, run_pytest
from tests.corpus.traffic import (
    Exchange,
    PathTo,
    another,
    answering,
    changed,
    counts,
    leaves_of,
    shown_path,
    with_leaf,
)
from tests.support.server import serving

pytestmark = pytest.mark.corpus

CLIENTS = ("httpx", "httpx2", "httpx-async", "httpx2-async")
MORE_CLIENTS = ("requests", "urllib3", "aiohttp")  # recorded all in one, which is quick
LAYOUTS = ("file by file", "all in one")
PASSES = [(client, layout) for client in CLIENTS for layout in LAYOUTS]
PASSES += [(client, "all in one") for client in MORE_CLIENTS]
EXCHANGES = 98
FILES = 35

# What belongs to one connection or one moment; only these may be missing from a recording.
OF_THE_CONNECTION = frozenset(
    {
        "alt-svc",
        "cf-cache-status",
        "cf-ray",
        "connection",
        "content-encoding",
        "content-length",
        "date",
        "expect-ct",
        "server-timing",
        "strict-transport-security",
        "transfer-encoding",
        "via",
        "x-envoy-upstream-service-time",
    }
)
SECRET = frozenset({"anthropic-organization-id", "openai-organization", "openai-project", "set-cookie"})
# The one conversation with a secret in it: a model that calls a tool with two passwords, in a stream.
WITH_PASSWORDS = "mirascope__streams-tool-calls-and-resumes-with-results.har"
# How many requests each conversation with a model has, where a file holds more than one request to a model.
CONVERSATIONS = {
    "chatlas__test_parallel_chat_error_continue_mode.yaml": [1, 1, 1],
    "crewAI__TestAgentExecutorPlanning.test_planning_handles_sequential_dependency_task.yaml": [1] * 9,
    "dd-trace-py__test_multiple_agent_handoffs.yaml": [3],
    WITH_PASSWORDS: [2],
    "openllmetry__test_chat_reasoning.yaml": [1, 3],  # one request, answered, then sent again until it was given up
    "pydantic-ai__test_anthropic_web_fetch_tool.yaml": [2],
    "pydantic-ai__test_mcptoolset_in_temporal_workflow.yaml": [2],
    "pydantic-ai__test_openai_responses_compact_messages.yaml": [4],  # the third compacts, the fourth goes on from it
    "pydantic-ai__test_openrouter_errors_raised.yaml": [3],
    "pydantic-ai__test_tool_use_failed_error.yaml": [1, 2],
    "aux/pydantic-ai__test_snowflake_tool_calling.yaml": [2],
}


@dataclass(frozen=True)
class Recorded:
    """What came of recording every exchange with every client, and of replaying it with the files shuffled."""

    folder: Path
    base: str
    recording: Finished
    replaying: Finished
    live: Mapping[str, Mapping[str, dict[str, Any]]]
    replayed: Mapping[str, Mapping[str, dict[str, Any]]]
    cassettes: Mapping[tuple[str, str], Path]


@pytest.fixture(scope="module")
def recorded(traffic: Mapping[str, list[Exchange]], tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    folder = lay_out(tmp_path_factory.mktemp("exchanges"), {"test_exchanges.py": "exchanges.py"})
    shuffled = list(traffic)
    random.Random(20).shuffle(shuffled)
    with serving(answering(exchange for file in traffic.values() for exchange in file)) as server:
        _write_plan(folder, traffic, base=server.url)
        recording = run_pytest(folder, "--record-mode=once", SEEN=str(folder / "live"))
        assert recording.code == 0, recording.text
    _write_plan(folder, {file: traffic[file] for file in shuffled}, base=server.url)
    replaying = run_pytest(folder, SEEN=str(folder / "replayed"))
    assert replaying.code == 0, replaying.text
    return Recorded(
        folder=folder,
        base=server.url,
        recording=recording,
        replaying=replaying,
        live=_seen_in(folder / "live"),
        replayed=_seen_in(folder / "replayed"),
        cassettes=_cassettes_in(folder / "live"),
    )


def _write_plan(folder: Path, files: Mapping[str, Iterable[Exchange]], *, base: str) -> None:
    requests = {file: [exchange.sent_to(base) for exchange in found] for file, found in files.items()}
    (folder / "plan.json").write_text(
        json.dumps({"clients": CLIENTS, "all": CLIENTS + MORE_CLIENTS, "files": requests})
    )


def _observations(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted(folder.iterdir())]


def _seen_in(folder: Path) -> dict[str, dict[str, dict[str, Any]]]:
    passes: dict[str, dict[str, dict[str, Any]]] = {}
    for kept in _observations(folder):
        passes.setdefault(kept["name"], {}).update({seen["exchange"]: seen for seen in kept["seen"]})
    return passes


def _cassettes_in(folder: Path) -> dict[tuple[str, str], Path]:
    return {(kept["name"], kept["file"]): Path(kept["cassette"]) for kept in _observations(folder)}


def _body(seen: Mapping[str, Any]) -> bytes:
    return b"".join(map(base64.b64decode, seen["pieces"]))


def test_every_file_is_recorded_by_every_client(recorded: Recorded) -> None:
    each = len(CLIENTS) * (FILES + 1) + len(MORE_CLIENTS)

    assert f"{each} recorded ({len(PASSES) * EXCHANGES:,} requests)" in recorded.recording.text


def test_every_file_is_replayed_without_the_server(recorded: Recorded) -> None:
    each = len(CLIENTS) * (FILES + 1) + len(MORE_CLIENTS)

    assert f"{each} replayed ({len(PASSES) * EXCHANGES:,} requests)" in recorded.replaying.text


@pytest.mark.parametrize(("client", "layout"), PASSES)
def test_recording_changes_nothing_for_the_client(
    traffic: Mapping[str, list[Exchange]], recorded: Recorded, client: str, layout: str
) -> None:
    exchanges = [exchange for file in traffic.values() for exchange in file]

    live = recorded.live[f"{client}, {layout}"]

    assert {exchange.name: (exchange.status, exchange.response_body) for exchange in exchanges} == {
        name: (seen["status"], _body(seen)) for name, seen in live.items()
    }


@pytest.mark.parametrize(("client", "layout"), PASSES)
def test_replay_gives_the_status_and_the_bytes_in_the_pieces_they_came_in(
    recorded: Recorded, client: str, layout: str
) -> None:
    live = recorded.live[f"{client}, {layout}"]

    replayed = recorded.replayed[f"{client}, {layout}"]

    assert len(replayed) == EXCHANGES
    assert [
        name
        for name in live
        if (replayed[name]["status"], replayed[name]["pieces"]) != (live[name]["status"], live[name]["pieces"])
    ] == [f"{WITH_PASSWORDS}#0"]


@pytest.mark.parametrize(("client", "layout"), PASSES)
def test_replay_gives_every_header_that_is_not_of_the_connection(recorded: Recorded, client: str, layout: str) -> None:
    live = recorded.live[f"{client}, {layout}"]

    replayed = recorded.replayed[f"{client}, {layout}"]

    for name, seen in replayed.items():
        kept = [(key, value) for key, value in live[name]["headers"] if key not in OF_THE_CONNECTION]
        # http.client, below some of the clients, cannot read an answer that does not say where it ends
        assert [tuple(pair) for pair in seen["headers"] if pair[0] not in OF_THE_CONNECTION] == [
            (key, _redacted(key, value) if key in SECRET else value) for key, value in kept
        ], name


def _redacted(key: str, value: str) -> str:
    """Return a secret header as a recording has it: a cookie keeps its name, and does not expire."""
    if key != "set-cookie" or "=" not in value.partition(";")[0]:
        return f"[redacted:{key}]"
    name, _, rest = value.partition("=")
    kept = [part for part in rest.split(";")[1:] if not part.strip().lower().startswith(("expires=", "max-age="))]
    return ";".join([f"{name}=[redacted:{key}]", *kept])


@pytest.mark.parametrize("client", CLIENTS)
def test_passwords_that_a_model_streams_to_a_tool_are_not_replayed(recorded: Recorded, client: str) -> None:
    name = f"{WITH_PASSWORDS}#0"

    live, replayed = (
        _anthropic_reply(_body(seen[f"{client}, file by file"][name])) for seen in (recorded.live, recorded.replayed)
    )

    assert _arguments(live) == ['{"password":"mellon"}', '{"password":"radiance"}']
    assert _arguments(replayed) == ['{"password":"[redacted:json-field]"}'] * 2
    assert [call.id for call in replayed.messages[0].tool_calls] == [call.id for call in live.messages[0].tool_calls]


def test_an_agent_that_sends_redacted_arguments_back_makes_the_recorded_request(
    traffic: Mapping[str, list[Exchange]],
) -> None:
    reader = _reader()
    exchange = traffic[WITH_PASSWORDS][1]
    document = json.loads(exchange.request_body)

    for block in document["messages"][1]["content"]:
        block["input"]["password"] = "[redacted:json-field]"

    assert _hash(reader, exchange, json.dumps(document).encode()) == _hash(reader, exchange, exchange.request_body)


def test_a_stream_reaches_the_client_in_several_pieces(
    traffic: Mapping[str, list[Exchange]], recorded: Recorded
) -> None:
    streams = [exchange.name for file in traffic.values() for exchange in file if exchange.is_event_stream]

    pieces = {name: len(recorded.replayed["httpx2, file by file"][name]["pieces"]) for name in streams}

    assert len(streams) == 23
    assert min(pieces.values()) > 4


@pytest.mark.parametrize("client", CLIENTS)
def test_requests_that_go_on_from_an_answer_are_one_conversation(recorded: Recorded, client: str) -> None:
    files = [file for name, file in recorded.cassettes if name == f"{client}, file by file"]

    sizes = {file: _conversations(recorded.cassettes[f"{client}, file by file", file]) for file in files}

    assert {file: found for file, found in sizes.items() if sum(found) > 1} == CONVERSATIONS


def _conversations(cassette: Path) -> list[int]:
    steps = [step for step in load_cassette(cassette).exchanges if step.kind == "model"]
    return list(Counter(step.lane for step in steps).values())


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_hash_can_be_derived_again_from_the_recorded_request(recorded: Recorded, layout: str) -> None:
    reader = _reader()
    cassettes = [load_cassette(path) for (name, _), path in recorded.cassettes.items() if name == f"httpx, {layout}"]

    derived = [reader.reread(step.request, tape.messages).hash for tape in cassettes for step in tape.exchanges]

    assert len(derived) == EXCHANGES
    assert derived == [step.hash for tape in cassettes for step in tape.exchanges]


def test_one_thing_changed_in_each_request_misses(traffic: Mapping[str, list[Exchange]], recorded: Recorded) -> None:
    folder = lay_out(recorded.folder / "changed", {"test_changed.py": "changed_exchanges.py"})
    cases = [
        _changed_case(recorded, file, index, client=CLIENTS[index % 2])
        for file in traffic.values()
        for index in range(len(file))
    ]
    (folder / "plan.json").write_text(json.dumps({"cases": cases}))

    finished = run_pytest(folder, "--tb=no", SEEN=str(folder / "seen"))

    missed = {kept["name"]: kept for kept in _observations(folder / "seen")}
    assert f"{EXCHANGES} failed" in finished.text
    assert len(missed) == EXCHANGES
    assert {kept["kind"] for kept in missed.values()} == {"changed"}
    assert max(len(kept["report"].splitlines()) for kept in missed.values()) <= 60
    assert [
        case["name"] for case in cases if not _names(missed[case["name"]]["report"], case["changed"]["changed"])
    ] == []


def _names(report: str, place: str) -> bool:
    return place in [line.strip() for line in report.splitlines()]


def _changed_case(recorded: Recorded, file: list[Exchange], index: int, *, client: str) -> dict[str, Any]:
    cassette = recorded.cassettes[f"{client}, file by file", file[index].file]
    return {
        "name": file[index].name,
        "client": client,
        "cassette": cassette.relative_to(recorded.folder).as_posix(),
        "before": [exchange.sent_to(recorded.base) for exchange in file[:index]],
        "changed": changed(file[index], recorded.base),
    }


def test_any_leaf_that_is_not_normalised_changes_the_hash(traffic: Mapping[str, list[Exchange]]) -> None:
    reader = _reader()
    missed = []
    tried = 0

    for exchange in (exchange for file in traffic.values() for exchange in file):
        if not exchange.request_body.startswith((b"{", b"[")):
            continue
        document = json.loads(exchange.request_body)
        known = _hash(reader, exchange, exchange.request_body)
        for path, leaf in leaves_of(document):
            if counts(path, leaf, document):
                tried += 1
                content = json.dumps(with_leaf(document, path, another(leaf))).encode()
                if _hash(reader, exchange, content) == known:
                    missed.append(f"{exchange.name} {shown_path(path)}")

    assert tried > 1400
    assert missed == []


def test_a_hash_stays_exactly_where_a_diff_finds_nothing(traffic: Mapping[str, list[Exchange]]) -> None:
    reader = _reader()
    disagreed = []
    stayed = 0

    for exchange in (exchange for file in traffic.values() for exchange in file):
        if not exchange.request_body.startswith((b"{", b"[")):
            continue
        document = json.loads(exchange.request_body)
        recorded = _read(reader, exchange, exchange.request_body)
        form = reader.normal_form(recorded.request, recorded.messages)
        for path in _some_paths(document, chance=random.Random(exchange.name)):
            now = _read(reader, exchange, json.dumps(with_leaf(document, path, None)).encode())
            is_same = now.hash == recorded.hash
            stayed += is_same
            if is_same == bool(find_changes(form, reader.normal_form(now.request, now.messages))):
                disagreed.append(f"{exchange.name} {shown_path(path)}")

    assert stayed > 0
    assert disagreed == []


def _some_paths(document: Any, *, chance: random.Random) -> list[PathTo]:
    """Return the paths of all leaves that are normalised, and of a few others."""
    found = list(leaves_of(document))
    normalised = [path for path, leaf in found if not counts(path, leaf, document)]
    return normalised + [path for path, _ in chance.sample(found, min(6, len(found)))]


def test_a_body_written_in_another_style_has_the_same_hash(traffic: Mapping[str, list[Exchange]]) -> None:
    reader = _reader()
    exchanges = [exchange for file in traffic.values() for exchange in file if exchange.request_body[:1] == b"{"]

    for exchange in exchanges:
        document = json.loads(exchange.request_body)
        rewritten = json.dumps(dict(reversed(document.items())), indent=3).encode()

        assert _hash(reader, exchange, rewritten) == _hash(reader, exchange, exchange.request_body), exchange.name


def _reader() -> Reader:
    return Reader(rule_set_for(load_dialects(), redactor=redactor_for()))


def _anthropic_reply(content: bytes) -> Reply:
    [dialect] = load_dialects().recognise(method="POST", url="https://api.anthropic.com/v1/messages")
    reply = dialect.read_reply(content, "text/event-stream")
    assert reply is not None
    return reply


def _arguments(reply: Reply) -> list[str]:
    return [call.arguments for call in reply.messages[0].tool_calls]


def _hash(reader: Reader, exchange: Exchange, content: bytes) -> str:
    return _read(reader, exchange, content).hash


def _read(reader: Reader, exchange: Exchange, content: bytes) -> Asked:
    request = HttpRequest(method=exchange.method, url=exchange.url, headers=exchange.request_headers, content=content)
    return reader.read(request)
