"""Replay time of a growing conversation, against the floor and against vcrpy.

The agent is a loop over one httpx client.  Every turn adds a user message and sends the whole conversation again with
``json=``; the answer's text comes back as an assistant message; the two add about 1 KB.  httpx writes such a body with
the standard library, and at N = 200 that is about three quarters of the floor's time: an agent that brings its body in
bytes sees a larger ratio, at about the same difference.  All contenders serve the same answers to the same agent, in
one run, one after the other in each round:

- ``ours``: the plugin's own path.  A session on a recorded cassette, the registry of owners, and the patched transport
  of httpx; redaction, normalisation and the hash of the whole body included.
- ``floor``: httpx's ``MockTransport`` answering from a dict by one SHA-256 of the body.  It knows no rules, keeps no
  order, and notices nothing.
- ``vcrpy, body``: vcrpy that also compares bodies (N <= 50: each miss is a text diff of two bodies).
- ``vcrpy, default``: vcrpy as it comes, which compares no bodies and so serves a changed conversation as well.

Timed is the loop; the client, the patches and loading stand outside.  ``load`` is ``open_session`` on the cassette: the
rule set, reading and verifying the file, and the player.  Nothing of that waits for anything, so times are processor
time, which does not count what else the machine is doing.  ``peak memory`` is what tracemalloc sees while loading and
replaying, in a run of its own.

``cassette`` compares the file's bytes with those of its unique content:

- each distinct message of the conversation once, as compact JSON;
- each response body once, as it was sent: indented by two spaces, as OpenAI does, and in a second recording compact, as
  others do.  The file holds either as compact JSON, so compact answers are the harder case;
- the other fields of the request body once, as compact JSON.

Reach at N = 200: replay <= 1.8 x floor, load <= 40 ms, cassette <= 1.2 x unique content, and from N = 50 to 200 the
ratio to the floor grows by at most 15 %.
"""

from __future__ import annotations

import json
import random
import tempfile
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Protocol

import httpx
import vcr
from _harness import Row, measure, median, print_rows, read_arguments

from pytest_agentreplay.dialects import load_dialects
from pytest_agentreplay.session import Session, open_session
from pytest_agentreplay.settings import RecordMode, Settings
from pytest_agentreplay.taps.http import patch_http_clients
from pytest_agentreplay.taps.owners import Registry

_TURNS = (10, 50, 200)
_MOST_TURNS_COMPARED_BY_BODY = 50
_TURNS_PER_SAMPLE = 200  # short conversations are played several times in a sample
_MESSAGE_LENGTH = 480  # in bytes; two of them and their keys are about 1 KB
_FIELDS = {"model": "gpt-4o", "temperature": 0.2}
_ANSWER_HEADERS = {"content-type": "application/json"}
_WORDS = (
    "the",
    "a",
    "of",
    "and",
    "order",
    "refund",
    "customer",
    "ticket",
    "policy",
    "amount",
    "late",
    "please",
    "today",
)

Message = dict[str, Any]


class Script:
    """A conversation of so many turns: what the user says, and what the provider answers.  The same in every run."""

    def __init__(self, turns: int, *, indent: int | None = 2) -> None:
        chance = random.Random(turns)
        self.turns = turns
        self.opening: Message = {"role": "system", "content": _text(chance)}
        self.prompts = [_text(chance) for _ in range(turns)]
        self._answers = [_written(_answer(chance, turn), indent=indent) for turn in range(turns)]

    def answer(self, body: bytes) -> bytes:
        """Return the provider's answer to a request: a system message, then two messages a turn."""
        return self._answers[len(json.loads(body)["messages"]) // 2 - 1]

    def unique_content(self) -> int:
        """Return the bytes of the conversation's content, each part once; see the module's docstring."""
        conversation = run_agent(_mock_client(self.answer), "http://provider.test/v1/chat/completions", self)
        messages = {_compact(message) for message in conversation}
        return sum(map(len, messages)) + sum(map(len, self._answers)) + len(_compact(_FIELDS))


def run_agent(client: httpx.Client, url: str, script: Script) -> list[Message]:
    """Hold the conversation, and return its messages."""
    messages = [script.opening]
    for prompt in script.prompts:
        messages.append({"role": "user", "content": prompt})
        response = client.post(url, json={**_FIELDS, "messages": messages})
        message = response.raise_for_status().json()["choices"][0]["message"]
        messages.append({"role": message["role"], "content": message["content"]})
    return messages


class Contender(Protocol):
    """Something that serves a recorded conversation."""

    def replay(self) -> float:
        """Load the recording, hold the conversation, and return the seconds that the conversation alone took."""


class Floor:
    """A dict of answers by the SHA-256 of the request's body."""

    def __init__(self, script: Script, url: str) -> None:
        self._script, self._url = script, url
        self._answers: dict[bytes, bytes] = {}
        run_agent(_mock_client(self._learn), url, script)
        self._client = _mock_client(lambda body: self._answers[sha256(body).digest()])

    def replay(self) -> float:
        return _timed(self._client, self._url, self._script)

    def _learn(self, body: bytes) -> bytes:
        answer = self._answers[sha256(body).digest()] = self._script.answer(body)
        return answer


class Ours:
    """The plugin's engine on a cassette that it recorded."""

    def __init__(self, script: Script, url: str, *, folder: Path) -> None:
        self.path = folder / f"ours-{script.turns}.jsonl"
        self.loads: list[float] = []
        self._script, self._url = script, url
        self._registry, self._dialects = Registry(), load_dialects()
        self._client = _client()
        self._hold(self._open("once"))

    def replay(self) -> float:
        started = time.process_time()
        session = self._open("none")
        self.loads.append(time.process_time() - started)
        return self._hold(session)

    def _open(self, mode: RecordMode) -> Session:
        settings = Settings(record_mode=mode)
        return open_session(name="benchmark", path=self.path, settings=settings, dialects=self._dialects)

    def _hold(self, session: Session) -> float:
        session.begin("call")
        token = self._registry.enter(session)
        try:
            with patch_http_clients(self._registry):
                took = _timed(self._client, self._url, self._script)
        finally:
            self._registry.leave(token)
        outcome = session.close(passed=True)
        if outcome.exchanges != self._script.turns:
            raise SystemExit(f"{outcome.exchanges} of {self._script.turns} turns were {outcome.action}")
        return took


class Vcrpy:
    """vcrpy on a cassette that it recorded."""

    def __init__(self, script: Script, url: str, *, folder: Path, match_on: Sequence[str] | None = None) -> None:
        self.path = folder / f"vcrpy-{script.turns}{'-body' if match_on else ''}.yaml"
        self._script, self._url = script, url
        self._client = _client()
        options = {"match_on": match_on} if match_on else {}
        self._recorder = vcr.VCR(filter_headers=["authorization"], **options)
        with self._recorder.use_cassette(str(self.path), record_mode="once"):
            run_agent(self._client, url, script)

    def replay(self) -> float:
        with self._recorder.use_cassette(str(self.path), record_mode="none"):
            return _timed(self._client, self._url, self._script)


@contextmanager
def serving(script: Script) -> Iterator[str]:
    """Serve the provider's answers on a free loopback port, and give the URL to post to."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def log_message(self, *_: object) -> None:
            pass

        def do_POST(self) -> None:
            answer = script.answer(self.rfile.read(int(self.headers["content-length"])))
            self.send_response_only(200)
            for name, value in {**_ANSWER_HEADERS, "content-length": str(len(answer))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1/chat/completions"
    finally:
        server.shutdown()
        server.server_close()


def compare(turns: int, *, folder: Path, rounds: int) -> list[Row]:
    """Record a conversation with every contender, stop the provider, and measure their replays."""
    script = Script(turns)
    with serving(script) as url:
        ours = Ours(script, url, folder=folder)
        contenders: dict[str, Contender] = {"ours": ours, "floor": Floor(script, url)}
        if turns <= _MOST_TURNS_COMPARED_BY_BODY:
            matchers = ("method", "scheme", "host", "port", "path", "query", "body")
            contenders["vcrpy, body"] = Vcrpy(script, url, folder=folder, match_on=matchers)
        by_default = contenders["vcrpy, default"] = Vcrpy(script, url, folder=folder)
    samples = measure({name: _sampler(name, found, turns) for name, found in contenders.items()}, rounds=rounds)
    content = script.unique_content()
    is_last = turns == max(_TURNS)
    return [
        *_times({name: median(found) for name, found in samples.items()}, turns),
        Row("load, ours", turns, median(ours.loads) * 1e3, "ms", reach=40 if is_last else None),
        Row("cassette, ours", turns, _size(ours.path), "bytes", content, 1.2 if is_last else None),
        _compact_cassette(turns, folder=folder),
        Row("cassette, vcrpy", turns, _size(by_default.path), "bytes", content),
        *(Row(f"peak memory, {name}", turns, _peak(found), "MB") for name, found in contenders.items()),
    ]


def _compact_cassette(turns: int, *, folder: Path) -> Row:
    """Record the same conversation with answers sent as compact JSON, and compare the file with its content."""
    script = Script(turns, indent=None)
    folder = folder / "compact"
    with serving(script) as url:
        path = Ours(script, url, folder=folder).path
    reach = 1.2 if turns == max(_TURNS) else None
    return Row("cassette, ours, compact answers", turns, _size(path), "bytes", script.unique_content(), reach)


def _times(seconds: dict[str, float], turns: int) -> Iterator[Row]:
    floor = seconds["floor"] * 1e3
    for name, found in seconds.items():
        reach = 1.8 if name == "ours" and turns == max(_TURNS) else None
        yield Row(f"replay, {name}", turns, found * 1e3, "ms", None if name == "floor" else floor, reach)


def _growth(rows: Sequence[Row]) -> Row:
    """Return by what factor the ratio to the floor grows from the second-longest conversation to the longest."""
    ratios = {row.n: row.ratio for row in rows if row.name == "replay, ours"}
    before, after = (ratios[turns] for turns in _TURNS[-2:])
    assert before is not None
    assert after is not None
    return Row(f"growth of the ratio from {_TURNS[-2]}, ours", _TURNS[-1], after / before, "x", reach=1.15)


def _sampler(name: str, contender: Contender, turns: int) -> Callable[[], float]:
    times = 1 if name == "vcrpy, body" else _TURNS_PER_SAMPLE // turns
    return lambda: sum(contender.replay() for _ in range(times)) / times


def _timed(client: httpx.Client, url: str, script: Script) -> float:
    started = time.process_time()
    run_agent(client, url, script)
    return time.process_time() - started


def _peak(contender: Contender) -> float:
    tracemalloc.start()
    contender.replay()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 1e6


def _client() -> httpx.Client:
    return httpx.Client(headers={"authorization": "Bearer of-no-account"})


def _mock_client(answer: Callable[[bytes], bytes]) -> httpx.Client:
    def respond(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, headers=_ANSWER_HEADERS, content=answer(request.content))

    return httpx.Client(transport=httpx.MockTransport(respond))


def _text(chance: random.Random) -> str:
    text = chance.choice(_WORDS)
    while len(text) < _MESSAGE_LENGTH:
        text += " " + chance.choice(_WORDS)
    return text


def _answer(chance: random.Random, turn: int) -> dict[str, Any]:
    """Return an answer with the fields that OpenAI's chat completions have."""
    message: Message = {"role": "assistant", "content": _text(chance), "refusal": None, "annotations": []}
    read = 120 * (2 * turn + 2)
    return {
        "id": "chatcmpl-" + "".join(chance.choices("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", k=29)),
        "object": "chat.completion",
        "created": 1760000000 + turn,
        "model": "gpt-4o-2024-08-06",
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}],
        "usage": {
            "prompt_tokens": read,
            "completion_tokens": 120,
            "total_tokens": read + 120,
            "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
            "completion_tokens_details": {
                "reasoning_tokens": 0,
                "audio_tokens": 0,
                "accepted_prediction_tokens": 0,
                "rejected_prediction_tokens": 0,
            },
        },
        "service_tier": "default",
        "system_fingerprint": "fp_f33640a400",
    }


def _compact(value: Any) -> bytes:
    return _written(value, indent=None)


def _written(value: Any, *, indent: int | None) -> bytes:
    separators = (",", ":") if indent is None else (",", ": ")
    return json.dumps(value, ensure_ascii=False, indent=indent, separators=separators).encode()


def _size(path: Path) -> int:
    return path.stat().st_size


def main() -> None:
    arguments = read_arguments(__doc__, rounds=5)
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        for turns in _TURNS:
            rows += compare(turns, folder=Path(folder), rounds=arguments.rounds)
    print_rows([*rows, _growth(rows)], as_json=arguments.json)


if __name__ == "__main__":
    main()
