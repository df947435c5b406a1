"""Faults that users of vcrpy and pytest-recording reported, tried on this plugin; docs/lessons.md lists them."""

from __future__ import annotations

import gzip
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.support.server import Answer, Seen, answer_json
from tests.support.suite import Provider, Suite, failure

KEY = "sk-proj-Q7dK2mV9xT4bN8wZ1cR6hJ3pL5sF0yG2aE7uI4oB9tX"


def plain(text: str) -> Answer:
    return Answer(headers=(("content-type", "text/plain"),), body=text.encode())


def in_a_test(*lines: str, before: str = "") -> str:
    """Return a module with one marked test."""
    body = "\n".join(f"    {line}" for line in lines)
    return (
        "import os\nimport httpx\nimport pytest\nfrom agent import CLIENT, URL, ask, body, get, said\n\n"
        f"BASE = os.environ['PROVIDER_URL']\n{before}\n@pytest.mark.agent_cassette\ndef test_it():\n{body}\n"
    )


# vcrpy #941


ASYNC_UPLOAD = """
import asyncio

async def pieces():
    for piece in (b"one ", b"two ", b"three"):
        yield piece

async def send():
    async with httpx.AsyncClient(verify=False) as client:
        return (await client.post(BASE + "/upload", content=pieces())).text
"""


def test_a_request_whose_body_is_an_async_stream_is_recorded_and_replayed(suite: Suite, provider: Provider) -> None:
    provider.respond = lambda seen: plain(f"got {seen.body.decode()}")
    suite.write(in_a_test("assert asyncio.run(send()) == 'got one two three'", before=ASYNC_UPLOAD))
    suite.record()
    provider.stop()

    result = suite.run()

    result.assert_outcomes(passed=1)


# vcrpy #212


def test_threads_of_a_pool_that_ask_what_is_not_recorded_reach_no_provider(suite: Suite, provider: Provider) -> None:
    pooled = """
from concurrent.futures import ThreadPoolExecutor

def ask_all(texts):
    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(ask, texts))
"""
    test = in_a_test("try:", "    ask_all(TEXTS)", "except BaseException:", "    pass", before=pooled)
    suite.write(test.replace("TEXTS", "['known']"))
    suite.record()
    suite.write(test.replace("TEXTS", "[f'unknown {number}' for number in range(40)]"))

    result = suite.run()

    assert failure(result).startswith("ReplayDivergenceError: Request changed")
    assert len(provider.seen) == 1


# vcrpy #628


def test_requests_of_an_app_whose_event_loop_runs_in_another_thread_are_the_tests(
    suite: Suite, provider: Provider
) -> None:
    portal = """
from anyio.from_thread import start_blocking_portal

async def endpoint(text):
    async with httpx.AsyncClient(verify=False) as client:
        return said(await client.post(URL, json=body(text)))

def call(text):
    with start_blocking_portal() as portal:  # what Starlette's TestClient does for each request
        return portal.call(endpoint, text)
"""
    parts = [
        in_a_test(f"assert call('{text}') == 'echo: {text}'", before=portal if text == "one" else "")
        for text in ("one", "two")
    ]
    suite.write(parts[0] + parts[1].replace("def test_it", "def test_next"))
    suite.record()
    provider.stop()

    result = suite.run()

    result.assert_outcomes(passed=2)
    assert suite.cassettes() == ["cassettes/test_it/test_it.jsonl", "cassettes/test_it/test_next.jsonl"]


# vcrpy #961


def test_a_cassette_that_is_written_anew_without_what_was_not_played_holds_no_key(
    suite: Suite, provider: Provider
) -> None:
    test = in_a_test(
        "for text in TEXTS:", f"    CLIENT.post(URL, json=body(text), headers={{'authorization': 'Bearer {KEY}'}})"
    )
    suite.write(test.replace("TEXTS", "['kept', 'dropped']"))
    suite.record()
    suite.write(test.replace("TEXTS", "['kept', 'added']"))

    result = suite.run("--record-mode=new_episodes")

    result.assert_outcomes(passed=1)
    written = suite.cassette().read_text()
    assert '"kept"' in written
    assert '"added"' in written
    assert '"dropped"' not in written
    assert KEY not in written
    assert [seen.headers["authorization"] for seen in provider.seen] == [f"Bearer {KEY}"] * 3


# vcrpy #245


def test_new_episodes_never_answers_from_what_it_recorded_in_the_same_run(suite: Suite, provider: Provider) -> None:
    count = iter(range(9))
    provider.respond = lambda seen: plain(f"answer {next(count)}")
    suite.write(in_a_test("assert get('/known') == 'answer 0'"))
    suite.record()
    more = [f"assert get('/again') == 'answer {number}'" for number in (1, 2, 3)]
    suite.write(in_a_test("assert get('/known') == 'answer 0'", *more))

    result = suite.run("--record-mode=new_episodes")
    provider.stop()

    result.assert_outcomes(passed=1)
    assert [seen.path for seen in provider.seen] == ["/known", "/again", "/again", "/again"]
    suite.run().assert_outcomes(passed=1)


# vcrpy #922


@contextmanager
def hanging_up() -> Iterator[str]:
    """Give the address of a server that takes a request and closes the connection without a word."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listener.accept()
        connection.recv(65536)
        connection.close()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.close()
        thread.join()


def test_a_server_that_hangs_up_without_an_answer_hangs_up_again(suite: Suite, monkeypatch: pytest.MonkeyPatch) -> None:
    suite.write(
        in_a_test(
            "with pytest.raises(httpx.RemoteProtocolError, match='disconnected without sending a response'):",
            "    httpx.post(BASE + '/hang-up', json={'hello': 'there'})",
        )
    )
    with hanging_up() as url:
        monkeypatch.setenv("PROVIDER_URL", url)
        suite.record()

    result = suite.run()

    result.assert_outcomes(passed=1)
    [step] = [line for line in suite.lines() if line["kind"] == "http"]
    assert step["error"]["class_name"] == "RemoteProtocolError"


# vcrpy #656


def test_a_binary_upload_is_told_from_another(suite: Suite, provider: Provider) -> None:
    provider.respond = lambda seen: plain(str(len(seen.body)))
    octets = {"content-type": "application/octet-stream"}
    test = in_a_test(f"assert CLIENT.post(BASE + '/upload', content=DATA, headers={octets}).text == '6'")
    suite.write(test.replace("DATA", r"b'\xff\xd8\xff\xe1\x00\xe8'"))
    suite.record()
    provider.stop()

    same = suite.run()
    suite.write(test.replace("DATA", r"b'\xff\xd8\xff\xe1\x00\xe9'"))
    other = suite.run()

    same.assert_outcomes(passed=1)
    assert failure(other).startswith("ReplayDivergenceError: Request changed: call 1 ")


# vcrpy #28


def test_an_upload_in_parts_is_the_same_whatever_its_boundary(suite: Suite, provider: Provider) -> None:
    provider.respond = lambda seen: plain("thanks")
    test = in_a_test("files = {'photo': ('cat.jpg', b'\\xff\\xd8', 'image/jpeg')}", "CLIENT.post(BASE, files=files)")
    suite.write(test)
    suite.record()
    provider.stop()

    same = suite.run()
    suite.write(test.replace(r"\xd8", r"\xd9"))
    other = suite.run()

    same.assert_outcomes(passed=1)
    boundary = provider.seen[0].headers["content-type"].partition("boundary=")[2]
    assert boundary not in suite.cassette().read_text()
    assert failure(other).startswith("ReplayDivergenceError: Request changed: call 1 ")


# vcrpy #661


@pytest.mark.parametrize(
    ("call", "status"),
    [("CLIENT.head(BASE)", 200), ("CLIENT.get(BASE)", 204), ("CLIENT.get(BASE)", 304)],
    ids=["head", "no-content", "not-modified"],
)
def test_an_answer_that_claims_to_be_compressed_and_is_empty_is_recorded_and_replayed(
    suite: Suite, provider: Provider, call: str, status: int
) -> None:
    headers = (("content-type", "application/json"), ("content-encoding", "gzip"))
    provider.respond = lambda seen: Answer(status=status, headers=headers)
    suite.write(in_a_test(f"response = {call}", f"assert (response.status_code, response.content) == ({status}, b'')"))
    suite.record()
    provider.stop()

    result = suite.run()

    result.assert_outcomes(passed=1)


# vcrpy #387


def test_redaction_changes_nothing_that_is_sent_or_that_comes_back(
    suite: Suite, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider.respond = lambda seen: answer_json({"api_key": seen.json()["api_key"], "path": seen.path})
    suite.write(
        in_a_test(
            f"headers = {{'x-api-key': '{KEY}'}}",
            f"response = CLIENT.post(BASE + '/echo?key={KEY}', json={{'api_key': '{KEY}'}}, headers=headers)",
            f"assert not RECORDING or response.json() == {{'api_key': '{KEY}', 'path': '/echo?key={KEY}'}}",
            before="RECORDING = 'RECORDING' in os.environ",
        )
    )
    monkeypatch.setenv("RECORDING", "1")
    suite.record()
    monkeypatch.delenv("RECORDING")
    provider.stop()

    result = suite.run()

    result.assert_outcomes(passed=1)
    [seen] = provider.seen
    assert (seen.path, seen.headers["x-api-key"], seen.json()) == (f"/echo?key={KEY}", KEY, {"api_key": KEY})
    assert KEY not in suite.cassette().read_text()


# vcrpy #936 and #328


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH"])
def test_a_secret_deep_in_a_json_body_is_not_written_whatever_the_method(
    suite: Suite, provider: Provider, method: str
) -> None:
    provider.respond = lambda seen: plain("thanks")
    nested = {"login": [{"user": "ada", "password": "correct horse battery"}], "empty": None}
    test = in_a_test(f"CLIENT.request('{method}', BASE, json={nested})", f"CLIENT.request('{method}', BASE)")
    suite.write(test)
    suite.record()
    provider.stop()

    same = suite.run()
    suite.write(test.replace("'ada'", "'eve'"))
    other = suite.run()

    assert "correct horse" not in suite.cassette().read_text()
    same.assert_outcomes(passed=1)
    assert failure(other).startswith("ReplayDivergenceError: Request changed: call 1 ")


# vcrpy #619


@pytest.mark.parametrize(("follow", "status"), [(True, 200), (False, 302)])
def test_a_redirect_is_followed_or_not_as_the_client_says(
    suite: Suite, provider: Provider, follow: bool, status: int
) -> None:
    def respond(seen: Seen) -> Answer:
        if seen.path == "/old":
            return Answer(status=302, headers=(("location", "/new"),))
        return plain("here it is")

    provider.respond = respond
    suite.write(
        in_a_test(
            f"response = CLIENT.get(BASE + '/old', follow_redirects={follow})",
            f"assert (response.status_code, len(response.history)) == ({status}, {int(follow)})",
        )
    )
    suite.record()
    provider.stop()

    result = suite.run()

    result.assert_outcomes(passed=1)
    assert len(provider.seen) == 1 + follow


# vcrpy #208, pytest-recording #37


@pytest.mark.parametrize("mode", ["all", "rewrite"])
def test_a_cassette_that_is_recorded_again_and_again_does_not_grow(suite: Suite, mode: str) -> None:
    suite.write(in_a_test("ask('hello')"))
    suite.record()
    lines = [line["kind"] for line in suite.lines()]

    for _ in range(3):
        suite.run(f"--record-mode={mode}").assert_outcomes(passed=1)

    assert [line["kind"] for line in suite.lines()] == lines


# vcrpy #299


def test_the_order_of_query_parameters_does_not_count_and_their_values_do(suite: Suite, provider: Provider) -> None:
    suite.write(in_a_test("get('/search?a=1&b=2')"))
    suite.record()
    provider.stop()

    suite.write(in_a_test("get('/search?b=2&a=1')"))
    swapped = suite.run()
    suite.write(in_a_test("get('/search?a=2&b=1')"))
    changed = suite.run()

    swapped.assert_outcomes(passed=1)
    assert failure(changed).startswith("ReplayDivergenceError: Request changed: call 1 ")


# pytest-recording #68


def test_a_record_mode_that_the_marker_sets_gets_through_block_network(suite: Suite, provider: Provider) -> None:
    marked = in_a_test("ask('hello')").replace("agent_cassette", "agent_cassette(record_mode='once')")
    suite.write(marked)

    recorded = suite.run("--block-network")
    provider.stop()
    replayed = suite.run("--block-network")

    recorded.assert_outcomes(passed=1)
    replayed.assert_outcomes(passed=1)
    assert suite.cassettes() == ["cassettes/test_it/test_it.jsonl"]


# vcrpy #249


def test_a_compressed_answer_can_be_read_in_the_cassette(suite: Suite, provider: Provider) -> None:
    packed = gzip.compress(json.dumps({"words": "plain to see"}).encode())
    headers = (("content-type", "application/json"), ("content-encoding", "gzip"))
    provider.respond = lambda seen: Answer(headers=headers, body=packed)
    suite.write(in_a_test("assert CLIENT.get(BASE).json() == {'words': 'plain to see'}"))
    suite.record()
    provider.stop()

    result = suite.run()

    result.assert_outcomes(passed=1)
    assert '"plain to see"' in suite.cassette().read_text()
