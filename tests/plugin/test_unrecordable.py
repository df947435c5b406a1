"""What cannot be recorded is stopped in replay, and named while it is recorded."""

from __future__ import annotations

import pytest

from tests.support.suite import Provider, Suite, failure

HOST = "api.example.invalid"

AROUND = f"""
import asyncio, socket, subprocess, sys
import pytest
from agent import ask

HOST, ADDRESS = "{HOST}", "192.0.2.1"


def call_grpc(target=HOST + ":443"):
    import grpc
    with grpc.insecure_channel(target) as channel:
        channel.unary_unary("/model.Service/Answer")(b"", timeout=0.01)


def stream_grpc():
    import grpc
    with grpc.secure_channel(HOST + ":443", grpc.ssl_channel_credentials()) as channel:
        list(channel.unary_stream("/model.Service/Answer")(b"", timeout=0.01))


def call_grpc_async():
    import grpc.aio
    async def main():
        async with grpc.aio.insecure_channel(HOST + ":443") as channel:
            await channel.unary_unary("/model.Service/Answer")(b"", timeout=0.01)
    asyncio.run(main())


def open_websocket():
    import websockets
    async def main():
        async with websockets.connect("ws://" + ADDRESS, open_timeout=0.05, proxy=None):
            pass
    asyncio.run(main())


def open_websocket_sync():
    import websockets.sync.client
    websockets.sync.client.connect("ws://" + ADDRESS, open_timeout=0.05, proxy=None)


def open_aiohttp_websocket():
    import aiohttp
    async def main():
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(0.05)) as session:
            async with session.ws_connect("http://" + HOST + "/live"):
                pass
    asyncio.run(main())


def open_socket():
    with socket.socket() as opened:
        opened.settimeout(0.05)
        opened.connect((ADDRESS, 80))


@pytest.mark.agent_cassette
def test_it():
    ask("hello")
    try:
        TRY
    except Exception:
        pass
"""

WAYS = {
    "gRPC": ("a gRPC call to api.example.invalid:443", "call_grpc()"),
    "gRPC by a resolver": ("a gRPC call to api.example.invalid:443", "call_grpc('dns:///' + HOST + ':443')"),
    "gRPC, streamed": ("a gRPC call to api.example.invalid:443", "stream_grpc()"),
    "gRPC on asyncio": ("a gRPC call to api.example.invalid:443", "call_grpc_async()"),
    "websockets": ("socket.connect to 192.0.2.1:80", "open_websocket()"),
    "websockets, sync": ("socket.connect to 192.0.2.1:80", "open_websocket_sync()"),
    "aiohttp websocket": ("aiohttp websocket to api.example.invalid:80", "open_aiohttp_websocket()"),
    "raw socket": ("socket.connect to 192.0.2.1:80", "open_socket()"),
}


@pytest.fixture
def suite(suite: Suite, monkeypatch: pytest.MonkeyPatch) -> Suite:
    """An empty suite without pytest-socket, which would put back the functions it knows in place of the network's."""
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p no:socket")
    return suite


@pytest.mark.parametrize("way", WAYS)
def test_it_is_named_while_recording_and_stopped_in_replay(suite: Suite, provider: Provider, way: str) -> None:
    named, statement = WAYS[way]
    suite.write(AROUND.replace("TRY", statement))

    recorded = suite.record()
    provider.stop()
    replayed = suite.run()

    text = " ".join(recorded.stdout.str().split())
    assert f"UnrecordedTrafficWarning: {named} is not recorded, so the replay of" in text
    replayed.assert_outcomes(failed=1)
    stopped = named.replace("connect", "getaddrinfo") if "sync" in way else named  # which is where it begins
    assert failure(replayed).startswith(f"NetworkBlockedError: Network blocked: {stopped} in replay.")


def test_an_unmarked_test_calls_grpc_as_ever(suite: Suite, provider: Provider) -> None:
    suite.write(
        AROUND.replace("TRY", "pass")
        + """

def test_unmarked():
    import grpc
    with pytest.raises(grpc.RpcError):
        call_grpc()
"""
    )

    suite.record().assert_outcomes(passed=2)


def test_grpc_to_a_host_that_the_marker_names_is_let_through(suite: Suite, provider: Provider) -> None:
    test = AROUND.replace("TRY", "call_grpc()").replace("agent_cassette", f"agent_cassette(hosts='{HOST}')")
    suite.write(test)

    recorded = suite.record()
    replayed = suite.run()

    assert "UnrecordedTrafficWarning" not in recorded.stdout.str()
    replayed.assert_outcomes(passed=1)


PROGRAM = """
import subprocess, sys
import pytest
from agent import ask

@pytest.mark.agent_cassette
def test_it():
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    ASK
"""


def test_a_recording_that_holds_nothing_names_the_programs_that_were_started(suite: Suite) -> None:
    suite.write(PROGRAM.replace("ASK", "pass"))

    result = suite.record()

    text = " ".join(result.stdout.str().split())
    assert "UnrecordedTrafficWarning: test_it.py::test_it made no request; what the programs that it started" in text
    assert "request is not seen: python" in text


def test_a_run_that_went_live_from_its_first_request_says_nothing_of_programs(suite: Suite) -> None:
    suite.write(PROGRAM.replace("ASK", "ask('hello')"))
    suite.record()
    suite.write(PROGRAM.replace("ASK", "ask('hullo')"))

    result = suite.run("--agent-replay=hybrid")

    result.assert_outcomes(passed=1)
    assert "went on live from" in result.stdout.str()
    assert "UnrecordedTrafficWarning" not in result.stdout.str()


def test_a_recording_that_holds_requests_says_nothing_of_programs(suite: Suite) -> None:
    suite.write(PROGRAM.replace("ASK", "ask('hello')"))

    result = suite.record()

    assert "UnrecordedTrafficWarning" not in result.stdout.str()
