"""What clients get: statuses, encodings, redirects, cookies, HTTPS, HTTP/2 and proxies."""

from __future__ import annotations

import gzip
import json
import ssl
import zlib
from collections.abc import Callable, Mapping

import brotli
import pytest
import zstandard

from tests.contracts.clients.conftest import Case, echo
from tests.contracts.clients.drivers import Ask, Driver
from tests.contracts.clients.features import every_client
from tests.support.http2 import serving_http2, tunnelling
from tests.support.server import Answer, Seen
from tests.support.taps import lines_of

TEXT = ("A sentence that repeats itself. " * 40).encode()
ENCODERS: Mapping[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": brotli.compress,
    "zstd": zstandard.ZstdCompressor().compress,
}


@every_client("statuses")
@pytest.mark.parametrize("status", [204, 304, 400, 404, 500, 503])
def test_a_status_is_given_again_with_its_body(driver: Driver, case: Case, status: int) -> None:
    body = b"" if status in (204, 304) else b'{"error": "so"}'
    case.answer(Answer(status=status, headers=(("content-type", "application/json"), ("x-of-its", "own")), body=body))

    live, replayed = case.both(lambda: driver.ask(Ask(case.url)))

    for got in (live[0], replayed[0]):
        assert (got.status, got.body, got.headers["x-of-its"]) == (status, body, "own")


@every_client("statuses")
def test_head_is_given_again_with_the_length_it_says(driver: Driver, case: Case) -> None:
    case.answer(Answer(body=b"x" * 17))

    live, replayed = case.both(lambda: driver.ask(Ask(case.url, "HEAD")))

    for got in (live[0], replayed[0]):
        assert (got.status, got.body, got.headers["content-length"]) == (200, b"", "17")


@every_client("encodings")
@pytest.mark.parametrize("encoding", ENCODERS)
@pytest.mark.parametrize("pieces", [1, 3])
def test_an_encoded_answer_is_recorded_decoded(driver: Driver, case: Case, encoding: str, pieces: int) -> None:
    packed = ENCODERS[encoding](TEXT)
    headers = (("content-type", "text/plain"), ("content-encoding", encoding))
    size = -(-len(packed) // pieces)
    chunks = [packed[at : at + size] for at in range(0, len(packed), size)]
    case.answer(Answer(headers=headers, body=packed, chunks=chunks if pieces > 1 else None))

    live, replayed = case.both(lambda: driver.ask(Ask(case.url)))

    assert live[0].body == (TEXT if driver.decodes else packed)
    assert replayed[0].body == TEXT
    [line] = lines_of(case.path)
    assert line["response"]["text"] == TEXT.decode()
    assert "content-encoding" not in dict(line["response"]["headers"])


@every_client("redirects")
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_recorded_hop_by_hop_and_followed_in_replay(driver: Driver, case: Case, status: int) -> None:
    def respond(seen: Seen) -> Answer:
        if seen.path == "/landed":
            return echo(seen)
        return Answer(
            status=status, headers=(("location", "/landed"), ("content-type", "text/plain")), body=b"over there"
        )

    case.answer(respond)
    ask = Ask(f"{case.url}/start", json={"a": 1}, method="POST")
    if driver.name == "urllib.request" and status in (307, 308):
        ask = Ask(f"{case.url}/start")  # which follows these for GET and HEAD only

    live, replayed = case.both(lambda: driver.ask(ask))

    hops = [(seen.method, seen.path) for seen in case.server.seen]
    assert len(hops) == 2
    assert json.loads(live[0].body)["method"] == hops[1][0]
    assert replayed[0].body == live[0].body
    assert replayed[0].url.endswith("/landed")
    recorded = [(line["request"]["method"], line["response"]["status"]) for line in lines_of(case.path)]
    assert sorted(recorded) == sorted([(hops[0][0], status), (hops[1][0], 200)])


@every_client("cookies")
def test_a_cookie_is_kept_by_its_name_and_its_value_is_not(driver: Driver, case: Case) -> None:
    def respond(seen: Seen) -> Answer:
        if seen.path == "/log-in":
            cookie = "sid=my-secret-session; Path=/; Expires=Wed, 01 Jan 2031 00:00:00 GMT"
            return Answer(headers=(("set-cookie", cookie), ("set-cookie", "theme=dark; Path=/")))
        return echo(seen)

    case.answer(respond)
    asks = [Ask(f"{case.url}/log-in"), Ask(f"{case.url}/after")]

    live, replayed = case.both(lambda: driver.ask(*asks))

    assert "sid=my-secret-session" in case.server.seen[1].headers["cookie"]
    assert set(live[0].cookies) == set(replayed[0].cookies) == {"sid", "theme"}
    assert b"my-secret-session" not in case.path.read_bytes().replace(lines_with_echo(case), b"")
    assert replayed[1].status == 200


def lines_with_echo(case: Case) -> bytes:
    """Return the line of the answer that said the cookie in its text, which no rule can know for a secret."""
    return next(line for line in case.path.read_bytes().splitlines() if b"/after" in line)


@every_client("HTTPS")
def test_https_is_recorded_and_replayed(driver: Driver, https: Case) -> None:
    live, replayed = https.both(lambda: driver.ask(Ask(f"{https.url}/a", "POST", json={"a": 1})))

    assert replayed[0].body == live[0].body
    [line] = lines_of(https.path)
    assert line["request"]["url"] == "https://127.0.0.1/a"


@every_client("HTTP/2")
def test_http2_is_recorded_and_replayed(driver: Driver, case: Case, tls: ssl.SSLContext, trust: None) -> None:
    with serving_http2(tls, b'{"over": "h2"}') as url:
        ask = Ask(f"{url}/a", "POST", json={"a": 1}, http2=True)

        live, replayed = case.both(lambda: driver.ask(ask))

    assert live[0].body == replayed[0].body == b'{"over": "h2"}'


@every_client("proxies")
def test_a_proxy_of_the_environment_is_used_and_not_part_of_the_request(
    driver: Driver, case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", case.url)  # which answers itself, as if it were the provider
    ask = Ask("http://provider.invalid/v1?x=1", "POST", json={"a": 1})

    live = case.record(lambda: driver.ask(ask))
    monkeypatch.delenv("http_proxy")
    replayed = case.replay(lambda: driver.ask(ask))

    assert json.loads(live[0].body)["path"] == "http://provider.invalid/v1?x=1"
    assert replayed[0].body == live[0].body
    assert [line["request"]["url"] for line in lines_of(case.path)] == ["http://provider.invalid/v1?x=1"]


@every_client("proxies")
def test_a_tunnel_through_a_proxy_is_made_while_recording_and_not_in_replay(
    driver: Driver, https: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = https.url.replace("127.0.0.1", "localhost")
    with tunnelling() as proxy:
        monkeypatch.setenv("https_proxy", proxy.url)

        live = https.record(lambda: driver.ask(Ask(f"{url}/v1", "POST", json={"a": 1})))
        tunnels = len(proxy.tunnels)
        replayed = https.replay(lambda: driver.ask(Ask(f"{url}/v1", "POST", json={"a": 1})))

        assert tunnels == len(proxy.tunnels) == 1
    assert replayed[0].body == live[0].body
    assert [line["request"]["url"] for line in lines_of(https.path)] == ["https://localhost/v1"]
