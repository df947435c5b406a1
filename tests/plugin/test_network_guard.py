"""Nothing reaches the network in replay but what is recorded, whichever way it tries."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import uvloop

from tests.support.suite import Provider, Suite, failure

NAME = "api.example.invalid"
ADDRESS = "192.0.2.1"  # reserved for documentation: nobody's


@dataclass
class Outside:
    """The network beyond this machine: it counts who comes, and lets no packet out.  ``names`` it does know."""

    reached: list[str] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)

    def method(self, real: Callable[..., Any], place: int) -> Callable[..., Any]:
        def connect(sock: socket.socket, *args: Any) -> Any:
            if sock.family not in (socket.AF_INET, socket.AF_INET6) or args[place][0] in ("127.0.0.1", "::1"):
                return real(sock, *args)
            return self.refuse(args[place][0])

        return connect

    def lookup(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def look_up(host: Any, *args: Any, **kwargs: Any) -> Any:
            if host in (None, "localhost", "127.0.0.1", "::1", ADDRESS):
                return real(host, *args, **kwargs)
            return real(self.names[host], *args, **kwargs) if host in self.names else self.refuse(host)

        return look_up

    async def loop_method(self, *args: Any, **kwargs: Any) -> Any:
        self.refuse(str(args))

    def refuse(self, whom: Any) -> Any:
        self.reached.append(str(whom))
        raise ConnectionRefusedError(f"nobody at {whom}")


@pytest.fixture
def outside() -> Iterator[Outside]:
    """The network, with nobody there.  It stands where Python's own functions stood, below the guard."""
    outside = Outside()
    places = {"connect": 0, "connect_ex": 0, "sendto": -1, "sendmsg": 3}
    methods = {name: outside.method(getattr(socket.socket, name), place) for name, place in places.items()}
    lookups = {name: outside.lookup(getattr(socket, name)) for name in ("getaddrinfo", "gethostbyname")}
    on_loop = dict.fromkeys(("create_connection", "create_datagram_endpoint", "getaddrinfo"), outside.loop_method)
    with (
        mock.patch.multiple(socket.socket, **methods),
        mock.patch.multiple(socket, **lookups),
        mock.patch.multiple(uvloop.Loop, **on_loop),
    ):
        yield outside


TRIES = """
import asyncio, http.client, os, socket, ssl, threading
import anyio, pytest, trio, uvloop
from agent import CLIENT, ask

NAME, ADDRESS = "api.example.invalid", "192.0.2.1"
OPEN = []


def tcp(family=socket.AF_INET):
    OPEN.append(socket.socket(family))
    return OPEN[-1]


def tls():
    OPEN.append(ssl.create_default_context().wrap_socket(tcp(), server_hostname=NAME))
    return OPEN[-1]


def udp():
    OPEN.append(socket.socket(type=socket.SOCK_DGRAM))
    return OPEN[-1]


async def send_datagram():
    loop = asyncio.get_running_loop()
    await loop.create_datagram_endpoint(asyncio.DatagramProtocol, remote_addr=(ADDRESS, 53))


async def look_up():
    await asyncio.get_running_loop().getaddrinfo(NAME, 443)


def in_a_thread(function, *args):
    def run():
        try:
            function(*args)
        except BaseException:
            pass
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()


@pytest.mark.agent_cassette
def test_it():
    try:
        TRY
    except BaseException:
        pass
    finally:
        for opened in OPEN:
            opened.close()
"""

WAYS = {
    "connect": ("socket.connect", "tcp().connect((ADDRESS, 443))"),
    "connect_ex": ("socket.connect_ex", "tcp().connect_ex((ADDRESS, 443))"),
    "connect over IPv6": ("socket.connect", "tcp(socket.AF_INET6).connect(('2001:db8::1', 443, 0, 0))"),
    "connect with TLS": (
        "socket.connect",
        "tls().connect((ADDRESS, 443))",
    ),
    "sendto": ("socket.sendto", "udp().sendto(b'?', (ADDRESS, 53))"),
    "sendto with flags": ("socket.sendto", "udp().sendto(b'?', 0, (ADDRESS, 53))"),
    "sendmsg": ("socket.sendmsg", "udp().sendmsg([b'?'], [], 0, (ADDRESS, 53))"),
    "getaddrinfo": ("socket.getaddrinfo", "socket.getaddrinfo(NAME, 443)"),
    "getaddrinfo by keyword": ("socket.getaddrinfo", "socket.getaddrinfo(host=NAME, port=443)"),
    "gethostbyname": ("socket.gethostbyname", "socket.gethostbyname(NAME)"),
    "create_connection": ("socket.getaddrinfo", "socket.create_connection((NAME, 443))"),
    "http.client": ("socket.getaddrinfo", "http.client.HTTPConnection(NAME).connect()"),
    "http.client by address": ("socket.getaddrinfo", "http.client.HTTPConnection(ADDRESS).connect()"),
    "a thread": ("socket.getaddrinfo", "in_a_thread(socket.create_connection, (NAME, 443))"),
    "asyncio by name": ("socket.getaddrinfo", "asyncio.run(asyncio.open_connection(NAME, 443))"),
    "asyncio by address": ("socket.connect", "asyncio.run(asyncio.open_connection(ADDRESS, 443))"),
    "asyncio datagrams": ("socket.connect", "asyncio.run(send_datagram())"),
    "asyncio getaddrinfo": ("socket.getaddrinfo", "asyncio.run(look_up())"),
    "uvloop": ("uvloop.create_connection", "uvloop.run(asyncio.open_connection(NAME, 443))"),
    "uvloop by address": ("uvloop.create_connection", "uvloop.run(asyncio.open_connection(ADDRESS, 443))"),
    "uvloop datagrams": ("uvloop.create_datagram_endpoint", "uvloop.run(send_datagram())"),
    "uvloop getaddrinfo": ("uvloop.getaddrinfo", "uvloop.run(look_up())"),
    "anyio": ("socket.getaddrinfo", "anyio.run(anyio.connect_tcp, NAME, 443)"),
    "anyio by address": ("socket.", "anyio.run(anyio.connect_tcp, ADDRESS, 443)"),
    "trio": ("socket.getaddrinfo", "trio.run(trio.open_tcp_stream, NAME, 443)"),
    "trio by address": ("socket.", "trio.run(trio.open_tcp_stream, ADDRESS, 443)"),
}


@pytest.fixture
def suite(suite: Suite, monkeypatch: pytest.MonkeyPatch) -> Suite:
    """An empty suite without pytest-socket, which would put back the functions it knows in place of the network's."""
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p no:socket")
    return suite


def write_try(suite: Suite, statement: str) -> Path:
    return suite.write(TRIES.replace("TRY", statement))


@pytest.mark.parametrize("way", WAYS)
def test_a_connection_in_replay_is_stopped_and_fails_the_test_that_swallows_it(
    suite: Suite, outside: Outside, way: str
) -> None:
    by, statement = WAYS[way]
    write_try(suite, statement)

    result = suite.run()

    result.assert_outcomes(failed=1)
    first, *rest = failure(result).splitlines()
    assert first.startswith(f"NetworkBlockedError: Network blocked: {by}")
    assert first.endswith(" in replay.")
    assert "  test      test_it.py::test_it" in rest
    assert any(line.startswith("  rule      in replay only loopback may be reached") for line in rest)
    assert outside.reached == []


def test_the_error_names_the_place_and_the_setting_that_lets_it_through(suite: Suite, outside: Outside) -> None:
    statement = "socket.create_connection((NAME, 443))"
    path = write_try(suite, statement)

    text = failure(suite.run())

    lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    line = lines.index(statement) + 1
    assert f"  called    test_it.py:{line} in test_it" in text
    assert text.endswith(f"To let it through: @pytest.mark.agent_cassette(hosts=['{NAME}'])")


def test_after_a_blocked_connection_no_request_is_answered(suite: Suite, provider: Provider, outside: Outside) -> None:
    write_try(suite, "ask('hello')")
    suite.record()
    write_try(suite, "in_a_thread(socket.create_connection, (NAME, 443)); ask('hello'); os._exit(1)")

    result = suite.run()

    assert failure(result).startswith("NetworkBlockedError: ")
    assert outside.reached == []


LOCAL = {
    "a socket": "socket.create_connection(('127.0.0.1', PORT)).close()",
    "a name": "socket.create_connection(('localhost', PORT)).close()",
    "http.client": "connect_by_http()",
    "asyncio": "asyncio.run(connect())",
    "uvloop": "uvloop.run(connect())",
}


@dataclass
class Listener:
    """Something on this machine that can be connected to."""

    listening: socket.socket

    @property
    def port(self) -> int:
        """Where it is."""
        return int(self.listening.getsockname()[1])

    def count(self) -> int:
        """Return how many have connected since this was asked last."""
        count = 0
        with contextlib.suppress(BlockingIOError):
            while True:
                self.listening.accept()[0].close()
                count += 1
        return count


@pytest.fixture
def listener() -> Iterator[Listener]:
    """A port that listens on loopback."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        yield Listener(listening)


def write_local(suite: Suite, listener: Listener, statement: str, *, marker: str = "", config: str = "{}") -> None:
    suite.write(
        f"""
        import asyncio, http.client, socket
        import pytest, uvloop

        PORT = {listener.port}

        def connect_by_http():
            connection = http.client.HTTPConnection("127.0.0.1", PORT)
            connection.connect()
            connection.close()

        async def connect():
            _, writer = await asyncio.open_connection("127.0.0.1", PORT)
            writer.close()
            await writer.wait_closed()

        @pytest.fixture(scope="session")
        def agent_config():
            return {config}

        @pytest.mark.agent_cassette({marker})
        def test_it():
            {statement}
        """
    )


@pytest.mark.parametrize("way", LOCAL)
def test_loopback_may_be_reached(suite: Suite, listener: Listener, way: str) -> None:
    write_local(suite, listener, LOCAL[way])

    result = suite.run()

    result.assert_outcomes(passed=1)
    assert listener.count() == 1


@pytest.mark.parametrize("way", LOCAL)
def test_loopback_may_not_be_reached_where_the_settings_say_so(suite: Suite, listener: Listener, way: str) -> None:
    write_local(suite, listener, LOCAL[way], config="{'loopback': False}")

    result = suite.run()

    result.assert_outcomes(failed=1)
    assert "in replay nothing, not even loopback, may be reached" in failure(result)
    assert listener.count() == 0


@pytest.mark.parametrize("hosts", [f"'{NAME}'", f"['other.invalid', '{NAME}']", "'*.example.invalid'", "'127.0.0.*'"])
def test_a_host_that_the_marker_names_may_be_reached(
    suite: Suite, listener: Listener, outside: Outside, hosts: str
) -> None:
    outside.names[NAME] = "127.0.0.1"
    target = "127.0.0.1" if "127" in hosts else NAME
    statement = f"socket.create_connection(('{target}', PORT)).close()"
    write_local(suite, listener, statement, marker=f"hosts={hosts}", config="{'loopback': False}")

    result = suite.run()

    result.assert_outcomes(passed=1)
    assert listener.count() == 1


def test_a_host_that_the_ini_file_names_may_be_reached_and_no_other(
    suite: Suite, listener: Listener, outside: Outside
) -> None:
    outside.names[NAME] = "127.0.0.1"
    suite.ini(f"agent_hosts = {NAME}")
    reach = "socket.create_connection(('HOST', PORT)).close()"
    write_local(suite, listener, reach.replace("HOST", NAME))
    named = suite.run()
    write_local(suite, listener, reach.replace("HOST", f"other.{NAME}"))

    other = suite.run()

    named.assert_outcomes(passed=1)
    assert f"only loopback and {NAME} may be reached" in failure(other)
    assert outside.reached == []


def test_an_address_that_belonged_to_an_allowed_name_is_not_open_to_the_next_test(
    suite: Suite, listener: Listener, outside: Outside
) -> None:
    outside.names[NAME] = "127.0.0.1"
    suite.write(
        f"""
        import socket
        import pytest

        PORT = {listener.port}

        @pytest.fixture(scope="session")
        def agent_config():
            return {{"loopback": False}}

        @pytest.mark.agent_cassette(hosts="{NAME}")
        def test_named():
            socket.create_connection(("{NAME}", PORT)).close()

        @pytest.mark.agent_cassette
        def test_it():
            with socket.socket() as opened:
                opened.connect(("127.0.0.1", PORT))
        """
    )

    result = suite.run()

    result.assert_outcomes(passed=1, failed=1)
    assert f"socket.connect to {NAME}:" in failure(result)
    assert listener.count() == 1


def test_the_guard_is_gone_when_the_session_is_over(suite: Suite, outside: Outside) -> None:
    below = socket.socket.connect, socket.getaddrinfo, uvloop.Loop.create_connection
    write_try(suite, "tcp().connect((ADDRESS, 443))")

    suite.run().assert_outcomes(failed=1)

    assert (socket.socket.connect, socket.getaddrinfo, uvloop.Loop.create_connection) == below


def test_recording_lets_everything_through(suite: Suite, outside: Outside) -> None:
    write_try(suite, "ask('hello'); tcp().connect((ADDRESS, 443))")

    suite.record()

    assert outside.reached == [ADDRESS]


def test_an_unmarked_test_beside_marked_ones_is_left_alone(suite: Suite, outside: Outside) -> None:
    suite.write(
        f"""
        import socket, threading
        import pytest

        def reach():
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("{ADDRESS}", 443))

        @pytest.mark.agent_cassette
        def test_before(): pass

        def test_unmarked(): reach()

        def test_unmarked_in_a_thread():
            thread = threading.Thread(target=reach)
            thread.start()
            thread.join()

        @pytest.mark.agent_cassette
        def test_it(): reach()

        def test_unmarked_again(): reach()
        """
    )

    result = suite.run()

    result.assert_outcomes(passed=4, failed=1)
    assert failure(result).startswith("NetworkBlockedError")
    assert outside.reached == [ADDRESS] * 3


@pytest.mark.parametrize(
    "statement",
    [
        "socket.create_connection(('us.i.posthog.com', 443))",
        "http.client.HTTPSConnection('us.i.posthog.com').request('GET', '/')",
        "asyncio.run(asyncio.open_connection('us.i.posthog.com', 443))",
        "uvloop.run(asyncio.open_connection('us.i.posthog.com', 443))",
    ],
)
def test_background_traffic_is_refused_quietly(suite: Suite, outside: Outside, statement: str) -> None:
    suite.write(
        f"""
        import asyncio, http.client, socket
        import pytest, uvloop

        @pytest.mark.agent_cassette
        def test_it():
            with pytest.raises(ConnectionRefusedError):
                {statement}
        """
    )

    result = suite.run()

    result.assert_outcomes(passed=1)
    assert outside.reached == []


# The first test leaves a thread behind that acts while the second runs, or the third.
LATE = """
import http.client, os, socket, threading
import pytest
from agent import ask

GO, ERRORS = threading.Event(), []


def attempt(action):
    try:
        action()
    except BaseException as error:
        ERRORS.append(f"{type(error).__name__}: {error}")


def act_late():
    GO.wait(20)
    attempt(lambda: ask("late"))
    attempt(lambda: socket.create_connection(("192.0.2.1", 443)))
    attempt(lambda: http.client.HTTPConnection(*os.environ["PROVIDER_URL"].removeprefix("http://").split(":")).connect())


THREAD = threading.Thread(target=act_late)


@pytest.mark.agent_cassette
def test_first():
    THREAD.start()
    ask("first")


MARK
def test_second():
    ask("second")
    GO.set()
    THREAD.join()
    assert len(ERRORS) == 3
    for error in ERRORS:
        assert error.startswith("StrayRequestError: ")
        assert "was made by test_it.py::test_first, which is over" in error
        assert WHILE in error
"""


@pytest.mark.parametrize("mode", ["once", "none"])
@pytest.mark.parametrize(
    ("mark", "during"),
    [
        ("@pytest.mark.agent_cassette", "while test_it.py::test_second was running"),
        ("", "no recorded test was running"),
    ],
    ids=["marked", "unmarked"],
)
def test_a_thread_that_outlives_its_test_gets_an_error_and_reaches_nothing(
    suite: Suite, provider: Provider, outside: Outside, mode: str, mark: str, during: str
) -> None:
    suite.write(LATE.replace("MARK", mark).replace("WHILE", repr(during)))
    if mode == "none":
        suite.record()
    connections = provider.server.connections

    result = suite.run(f"--record-mode={mode}")

    result.assert_outcomes(passed=2)
    asked = [seen.json()["messages"][-1]["content"] for seen in provider.seen]
    assert "late" not in asked
    assert outside.reached == []
    live = 2 if mode == "once" else int(not mark)
    assert provider.server.connections - connections == live
    written = b"".join(path.read_bytes() for path in (suite.path / "cassettes").rglob("*.jsonl"))
    assert b"second" in written or not mark
    assert b"late" not in written


def test_a_pool_that_outlives_a_test_works_for_the_next_under_that_tests_name(suite: Suite, provider: Provider) -> None:
    suite.write(
        """
        from concurrent.futures import ThreadPoolExecutor
        import pytest
        from agent import ask

        POOL = ThreadPoolExecutor(1)

        @pytest.mark.agent_cassette
        @pytest.mark.parametrize("name", ["first", "second"])
        def test_it(name):
            assert POOL.submit(ask, name).result() == f"echo: {name}"
        """
    )
    suite.record()
    provider.stop()

    result = suite.run()

    result.assert_outcomes(passed=2)
    for name in ("first", "second"):
        assert f"echo: {name}".encode() in suite.cassette(f"test_it/test_it[{name}].jsonl").read_bytes()
