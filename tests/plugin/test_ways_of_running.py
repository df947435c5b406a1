"""One suite, run in every way that people run pytest: recorded, then replayed with the provider gone."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support.suite import Provider, Suite, failure

CONFTEST = """
import pytest
from agent import ask

@pytest.fixture(scope="session")
def catalogue():
    yield ask("open the catalogue")
    ask("close the catalogue")
"""

ASYNC_AGENT = """
import httpx
from agent import LIMITS, URL, body, said

def new_client():
    return httpx.AsyncClient(verify=False, trust_env=False, limits=LIMITS)

async def ask_with(client, text):
    return said(await client.post(URL, json=body(text)))
"""

SYNC = """
import unittest
import pytest
from agent import ask

pytestmark = pytest.mark.agent_cassette

@pytest.fixture(scope="module")
def desk(catalogue):
    yield ask("open the desk")
    ask("close the desk")

def test_plain():
    assert ask("plain") == "echo: plain"

def test_fixtures(desk, catalogue):
    assert (desk, catalogue) == ("echo: open the desk", "echo: open the catalogue")
    assert ask("at the desk") == "echo: at the desk"

def test_fixture_of_session(catalogue):
    assert ask("in the catalogue") == "echo: in the catalogue"

IDS = ["openai/gpt", "openai:gpt", "GPT", "gpt", "gr\\u00fcn \\u6f22\\u5b57?", "x" * 300]

@pytest.mark.parametrize("name", IDS, ids=IDS)
def test_ids(name):
    assert ask(name) == f"echo: {name}"

class TestClass:
    def test_method(self, desk):
        assert ask("method") == "echo: method"

class Case(unittest.TestCase):
    def setUp(self):
        ask("set up")

    def test_case(self):
        assert ask("case") == "echo: case"
"""

ASYNC = """
import unittest
import pytest
import pytest_asyncio
from async_agent import ask_with, new_client

@pytest.mark.agent_cassette
@pytest.mark.asyncio
async def test_asyncio(catalogue):
    async with new_client() as client:
        assert await ask_with(client, "asyncio") == "echo: asyncio"

@pytest.mark.agent_cassette
@pytest.mark.asyncio(loop_scope="session")
async def test_asyncio_on_the_loop_of_the_session():
    async with new_client() as client:
        assert await ask_with(client, "session") == "echo: session"

@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def line():
    async with new_client() as client:
        await ask_with(client, "open the line")
        yield client
        await ask_with(client, "close the line")

@pytest.mark.agent_cassette
@pytest.mark.asyncio(loop_scope="module")
async def test_asyncio_on_the_loop_of_the_module(line):
    assert await ask_with(line, "on the line") == "echo: on the line"

@pytest.mark.agent_cassette
class AsyncCase(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        self.client = new_client()
        await ask_with(self.client, "set up async")

    async def asyncTearDown(self):
        await self.client.aclose()

    async def test_case(self):
        assert await ask_with(self.client, "async case") == "echo: async case"
"""

ANYIO = """
import pytest
from async_agent import ask_with, new_client

pytestmark = [pytest.mark.anyio, pytest.mark.agent_cassette]

@pytest.fixture(scope="module", params=["asyncio", "trio"])
def anyio_backend(request):
    return request.param

@pytest.fixture(scope="module")
async def client(anyio_backend):
    async with new_client() as client:
        await ask_with(client, f"open {anyio_backend}")
        yield client
        await ask_with(client, f"close {anyio_backend}")

@pytest.fixture
async def greeting(client, anyio_backend):
    yield await ask_with(client, f"greet {anyio_backend}")
    await ask_with(client, f"part {anyio_backend}")

async def test_one(client, anyio_backend):
    assert await ask_with(client, f"one {anyio_backend}") == f"echo: one {anyio_backend}"

async def test_two(client, greeting, anyio_backend):
    assert greeting == f"echo: greet {anyio_backend}"
    assert await ask_with(client, f"two {anyio_backend}") == f"echo: two {anyio_backend}"
"""

# The ids as they are, so that the file system has to take them; and no warning passes.
INI = """
[pytest]
asyncio_default_fixture_loop_scope = function
disable_test_id_escaping_and_forfeit_all_rights_to_community_support = true
filterwarnings = error
"""

SHARED = 10
CASSETTES = {
    "conftest/fixture.catalogue.jsonl",
    "conftest/fixture.catalogue.teardown.jsonl",
    "test_anyio/fixture.client['asyncio'].jsonl",
    "test_anyio/fixture.client['asyncio'].teardown.jsonl",
    "test_anyio/fixture.client['trio'].jsonl",
    "test_anyio/fixture.client['trio'].teardown.jsonl",
    "test_sync/fixture.desk.jsonl",
    "test_sync/fixture.desk.teardown.jsonl",
    "test_anyio/test_one[asyncio].jsonl",
    "test_anyio/test_one[trio].jsonl",
    "test_anyio/test_two[asyncio].jsonl",
    "test_anyio/test_two[trio].jsonl",
    "test_async/AsyncCase.test_case.jsonl",
    "test_async/fixture.line.jsonl",
    "test_async/fixture.line.teardown.jsonl",
    "test_async/test_asyncio.jsonl",
    "test_async/test_asyncio_on_the_loop_of_the_module.jsonl",
    "test_async/test_asyncio_on_the_loop_of_the_session.jsonl",
    "test_sync/Case.test_case.jsonl",
    "test_sync/TestClass.test_method.jsonl",
    "test_sync/test_fixture_of_session.jsonl",
    "test_sync/test_fixtures.jsonl",
    "test_sync/test_ids[GPT]-HASH.jsonl",
    "test_sync/test_ids[gpt].jsonl",
    "test_sync/test_ids[grün 漢字-]-HASH.jsonl",
    "test_sync/test_ids[openai-gpt]-HASH.jsonl",
    f"test_sync/test_ids[{'x' * 171}-HASH.jsonl",
    "test_sync/test_plain.jsonl",
}

# Plugins that are left out where a way does not need them: each costs start-up time, in each process.
XDIST = ("xdist", "xdist.looponfail")
RARELY_NEEDED = ("hypothesispytest", "langsmith_plugin", "rerunfailures", *XDIST)
BUT_XDIST = (
    "hypothesispytest",
    "langsmith_plugin",
    "rerunfailures",
    "pytest_httpx",
    "recording",
    "respx",
    "socket",
    "syrupy",
)
PLUGINS = ("-p", "agent_cassette", "-p", "pytest_asyncio.plugin", "-p", "anyio.pytest_plugin")


@dataclass(frozen=True)
class Way:
    """A way of running pytest: its arguments, and what it does to the count of runs."""

    name: str
    args: tuple[str, ...] = ()
    recording: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    leave_out: tuple[str, ...] = RARELY_NEEDED
    each: int = 1  # how often each test runs
    apart: bool = False  # whether shared fixtures are set up more than once
    slow: bool = False
    tests: int = 19
    requests: int = 35
    cassettes: frozenset[str] = frozenset(CASSETTES)

    @property
    def files(self) -> int:
        """How many cassettes there are: the ids of two tests differ in illegal characters alone."""
        return len(self.cassettes) + 1


WAYS = [
    Way("plain"),
    Way(
        "asyncio-auto",
        # pytest-asyncio takes anyio's tests in this mode, whatever their backend.
        ("-o", "asyncio_mode=auto", "-k", "not trio"),
        tests=17,
        requests=29,
        cassettes=frozenset(name for name in CASSETTES if "trio" not in name),
    ),
    Way(
        "asyncio-session-loop",
        ("-o", "asyncio_default_fixture_loop_scope=session", "-o", "asyncio_default_test_loop_scope=session"),
    ),
    Way("xdist", ("-n", "2"), leave_out=BUT_XDIST, apart=True),
    Way("xdist-loadfile", ("-n", "2", "--dist", "loadfile"), leave_out=BUT_XDIST, apart=True, slow=True),
    Way("xdist-each", ("--dist", "each", "--tx", "2*popen"), leave_out=BUT_XDIST, each=2),
    Way("xdist-loadscope", ("-n", "2", "--dist", "loadscope"), leave_out=BUT_XDIST, apart=True, slow=True),
    Way("xdist-worksteal", ("-n", "2", "--dist", "worksteal"), leave_out=BUT_XDIST, apart=True, slow=True),
    Way("without-syrupy", ("-p", "no:syrupy")),
    Way("autoload-off", PLUGINS, environment={"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}, leave_out=()),
    Way(
        "autoload-off-by-module",
        ("-p", "pytest_agentreplay.plugin", *PLUGINS[2:]),
        environment={"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        leave_out=(),
        slow=True,
    ),
    Way(
        "autoload-off-under-xdist",
        (*PLUGINS, "-p", "xdist", "-n", "2"),
        environment={"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        leave_out=(),
        apart=True,
        slow=True,
    ),
    Way("block-network", ("--block-network",)),  # pytest-recording's
    Way(
        "sockets-disabled",  # pytest-socket's
        # An event loop wakes itself through a pair of Unix sockets.
        ("--disable-socket", "--allow-unix-socket"),
        recording=("--allow-hosts=127.0.0.1",),
    ),
    Way("importlib", ("--import-mode=importlib", "-o", "pythonpath=."), slow=True),
    Way("random-order", ("-p", "shuffled"), apart=True, slow=True),
]

# What pytest-randomly and its kin do, without the dependency.
SHUFFLED = """
import random

def pytest_collection_modifyitems(items):
    random.Random(7).shuffle(items)
"""


@pytest.fixture
def ways_suite(suite: Suite) -> Suite:
    """The suite that every way runs."""
    suite.pytester.makepyfile(
        conftest=CONFTEST,
        async_agent=ASYNC_AGENT,
        shuffled=SHUFFLED,
        test_sync=SYNC,
        test_async=ASYNC,
        test_anyio=ANYIO,
    )
    suite.pytester.makeini(INI)
    return suite


@pytest.mark.parametrize(
    "way", [pytest.param(way, id=way.name, marks=[pytest.mark.slow] if way.slow else []) for way in WAYS]
)
def test_the_suite_is_recorded_and_replayed(
    ways_suite: Suite, provider: Provider, monkeypatch: pytest.MonkeyPatch, way: Way
) -> None:
    for name, value in way.environment.items():
        monkeypatch.setenv(name, value)

    recorded = run(ways_suite, "--record-mode=once", *way.args, *way.recording, leave_out=way.leave_out)
    asked = provider.questions
    written = contents(ways_suite)
    provider.stop()
    replayed = run(ways_suite, *way.args, leave_out=way.leave_out)

    for result in (recorded, replayed):
        assert result.ret == pytest.ExitCode.OK, result.stdout.str()
        assert result.parseoutcomes()["passed"] == way.tests * way.each
    assert names_of(written) == way.cassettes
    assert len(written) == way.files
    assert_safe_everywhere(written)
    assert len(asked) == len(set(asked)) == way.requests
    assert recorded_paths(recorded) == sorted(f"cassettes/{name}" for name in written)
    assert contents(ways_suite) == written
    assert_all_replayed(replayed, way)


def run(suite: Suite, *args: str, leave_out: tuple[str, ...] = RARELY_NEEDED) -> pytest.RunResult:
    """Run the suite in a process of its own."""
    without = [part for name in leave_out for part in ("-p", f"no:{name}")]
    return suite.pytester.runpytest_subprocess(*without, *args, timeout=300)


def contents(suite: Suite) -> dict[str, bytes]:
    """Return every file below ``cassettes``, whatever its name, with its content."""
    folder = suite.path / "cassettes"
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def names_of(written: Iterable[str]) -> set[str]:
    """Return the files' names, with one word for the hashes in them."""
    return {re.sub(r"-[0-9a-f]{8}\.jsonl$", "-HASH.jsonl", name) for name in written}


def assert_safe_everywhere(written: Iterable[str]) -> None:
    """Hold the names against the rules of every file system."""
    parts = {part for name in written for part in name.split("/")}
    assert {part for part in parts if re.search(r'[<>:"\\|?*\x00-\x1f]', part) or part.endswith((".", " "))} == set()
    assert {part for part in parts if Path(part).stem.lower() in {"con", "prn", "aux", "nul"}} == set()
    assert max(len(part.encode()) for part in parts) <= 255 - len(".partial")
    assert len({name.casefold() for name in written}) == len(list(written))


def recorded_paths(result: pytest.RunResult) -> list[str]:
    """Return what the summary says was recorded."""
    return sorted(line.removeprefix("  recorded ") for line in result.outlines if line.startswith("  recorded "))


def assert_all_replayed(result: pytest.RunResult, way: Way) -> None:
    """Hold the one line of the summary against the runs of all workers."""
    [line] = [line for line in result.outlines if re.match(r"agent cassettes: \d", line)]
    match = re.fullmatch(r"agent cassettes: (\d+) replayed \((\d+) requests\)", line)
    assert match is not None, line
    cassettes, requests = map(int, match.groups())
    if way.apart:
        # Each worker, or each stretch of tests, sets up the shared fixtures it needs; they make one request each.
        assert way.files <= cassettes <= way.files + SHARED * way.tests
        assert requests - cassettes == way.requests - way.files
    else:
        assert (cassettes, requests) == (way.files * way.each, way.requests * way.each)


FLAKY = """
import pytest
from agent import ask

ATTEMPTS = []

@pytest.mark.agent_cassette
def test_it():
    assert ask("first") == "echo: first"
    ATTEMPTS.append("one more")
    assert len(ATTEMPTS) > 1, "the first attempt fails"
    assert ask("second") == "echo: second"
"""


def test_a_test_that_is_run_again_goes_on_from_what_its_failed_attempt_recorded(
    suite: Suite, provider: Provider
) -> None:
    suite.write(FLAKY)

    recorded = run(suite, "--record-mode=once", "--reruns=2", leave_out=XDIST)
    asked = provider.questions
    provider.stop()
    replayed = run(suite, "--reruns=2", leave_out=XDIST)

    for result in (recorded, replayed):
        assert result.ret == pytest.ExitCode.OK, result.stdout.str()
        assert result.parseoutcomes() == {"passed": 1, "rerun": 1}
    assert asked == ["first", "second"]
    assert suite.cassettes() == ["cassettes/test_it/test_it.jsonl"]
    assert suite.lines()[-1]["outcome"] == "ok"
    assert recorded_paths(recorded) == ["cassettes/test_it/test_it.jsonl"]
    recorded.stdout.fnmatch_lines(["agent cassettes: 1 recorded (2 requests)"])


def test_an_attempt_that_passes_without_a_further_request_puts_the_outcome_right(suite: Suite) -> None:
    suite.write(FLAKY.replace('    assert ask("second") == "echo: second"\n', ""))

    result = run(suite, "--record-mode=once", "--reruns=2", leave_out=XDIST)

    assert result.parseoutcomes() == {"passed": 1, "rerun": 1}
    assert suite.lines()[-1]["outcome"] == "ok"
    assert "by a failing test" not in result.stdout.str()


def test_attempts_that_all_fail_leave_the_recording_of_a_failing_test(suite: Suite) -> None:
    suite.write(FLAKY.replace("len(ATTEMPTS) > 1", "len(ATTEMPTS) > 9"))

    result = run(suite, "--record-mode=once", "--reruns=2", leave_out=XDIST)

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert suite.cassettes() == ["cassettes/test_it/test_it.jsonl"]
    assert suite.lines()[-1]["outcome"] == "failed"


TWO = """
import os
import pytest
from agent import ask

pytestmark = pytest.mark.agent_cassette

def test_one(catalogue):
    assert ask("one") == "echo: one"

def test_two(catalogue):
    assert ask("two") == "echo: two"
    assert "BREAK" not in os.environ
"""


def test_the_last_failed_test_alone_is_recorded_and_replayed(
    suite: Suite, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite.write(TWO, conftest=CONFTEST)

    with monkeypatch.context() as broken:
        broken.setenv("BREAK", "1")
        failed = run(suite, "--record-mode=once")
    recorded = run(suite, "--record-mode=once", "--lf")
    written = contents(suite)
    provider.stop()
    with monkeypatch.context() as broken:
        broken.setenv("BREAK", "1")
        failed_again = run(suite)
    replayed = run(suite, "--lf")

    assert [result.ret for result in (failed, recorded, failed_again, replayed)] == [1, 0, 1, 0]
    assert [result.parseoutcomes()["passed"] for result in (recorded, replayed)] == [1, 1]
    assert contents(suite) == written
    assert set(written) == {
        "conftest/fixture.catalogue.jsonl",
        "conftest/fixture.catalogue.teardown.jsonl",
        "test_it/test_one.jsonl",
        "test_it/test_two.jsonl",
    }
    replayed.stdout.fnmatch_lines(["agent cassettes: 3 replayed (3 requests)"])


def test_selected_tests_record_what_they_need_and_the_others_the_rest(suite: Suite, provider: Provider) -> None:
    suite.write(TWO, conftest=CONFTEST)

    one = run(suite, "--record-mode=once", "-k", "one")
    written_first = contents(suite)
    both = run(suite, "--record-mode=once")
    provider.stop()
    two = run(suite, "-k", "two")

    assert [result.ret for result in (one, both, two)] == [0, 0, 0]
    assert "test_it/test_one.jsonl" in written_first
    assert "test_it/test_two.jsonl" not in written_first
    assert contents(suite).items() >= written_first.items()
    assert recorded_paths(both) == ["cassettes/test_it/test_two.jsonl"]
    two.stdout.fnmatch_lines(["agent cassettes: 3 replayed (3 requests)"])


UNNAMED = """
import pytest
from agent import ask

@pytest.mark.agent_cassette
def test_it():
    assert ask("hello") == "echo: hello"
"""


def test_with_the_plugin_switched_off_a_marked_test_runs_live_and_leaves_nothing(
    suite: Suite, provider: Provider
) -> None:
    suite.write(UNNAMED)

    live = run(suite, "-p", "no:agent_cassette")
    provider.stop()
    offline = run(suite, "-p", "no:agent_cassette")

    assert (live.ret, live.parseoutcomes()) == (pytest.ExitCode.OK, {"passed": 1, "warnings": 1})
    live.stdout.fnmatch_lines(["*PytestUnknownMarkWarning: Unknown pytest.mark.agent_cassette*"])
    assert offline.ret == pytest.ExitCode.TESTS_FAILED
    offline.stdout.fnmatch_lines(["*httpx.ConnectError*"])
    assert not (suite.path / "cassettes").exists()


def test_with_the_plugin_switched_off_strict_markers_refuse_its_marker_as_any_unknown_one(suite: Suite) -> None:
    suite.write(UNNAMED)

    result = run(suite, "-p", "no:agent_cassette", "--strict-markers")

    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["*'agent_cassette' not found in `markers` configuration option*"])


def test_with_the_plugin_switched_off_its_options_are_refused_as_any_unknown_ones(suite: Suite) -> None:
    suite.write(UNNAMED)

    result = run(suite, "-p", "no:agent_cassette", "--agent-replay=warn")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*unrecognized arguments: --agent-replay=warn"])


PINNED = """
import pytest

def test_it(event_snapshot):
    assert [] == event_snapshot
"""


@pytest.mark.parametrize(("plugins", "outcome"), [((), "errors"), (("-p", "syrupy"), "passed")])
def test_where_no_plugin_is_loaded_by_itself_a_golden_needs_syrupys_too(
    suite: Suite, monkeypatch: pytest.MonkeyPatch, plugins: tuple[str, ...], outcome: str
) -> None:
    suite.write(PINNED)
    run(suite, "--snapshot-update")
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")

    result = suite.pytester.runpytest_subprocess("-p", "agent_cassette", *plugins, timeout=60)

    result.assert_outcomes(**{outcome: 1})


# Each connection is stopped and fails its test: that all but the first are stopped is what is in question.
CONNECTING = """
import os
import socket
from urllib.parse import urlsplit
import pytest
from agent import ask

PROVIDER = urlsplit(os.environ["PROVIDER_URL"])

def connect():
    with socket.socket() as connection:
        connection.connect((PROVIDER.hostname, PROVIDER.port))

@pytest.fixture(scope="session")
def agent_config():
    return {"loopback": False, "unplayed": "ignore"}

@pytest.fixture
def late(when, agent_run):
    yield
    if when == "teardown" and not agent_run.is_recording:
        connect()

@pytest.mark.agent_cassette
@pytest.mark.parametrize("when", ["body", "teardown"])
@pytest.mark.parametrize("number", range(2))
def test_it(number, when, late, agent_run):
    if agent_run.is_recording:
        ask(f"question {number}")
    elif when == "body":
        connect()
"""


@pytest.mark.parametrize(
    "args",
    [(), ("--allow-hosts=127.0.0.1",), ("--block-network", "--allowed-hosts=127.0.0.1")],
    ids=["pytest-socket-installed", "pytest-socket-in-use", "pytest-recording-in-use"],
)
def test_the_network_guard_outlives_those_of_other_plugins(
    suite: Suite, provider: Provider, args: tuple[str, ...]
) -> None:
    suite.write(CONNECTING)
    run(suite, "--record-mode=once").assert_outcomes(passed=4)
    connections = provider.server.connections

    result = run(suite, *args)

    assert provider.server.connections == connections
    result.assert_outcomes(passed=2, failed=2, errors=2)
    assert result.stdout.str().count("NetworkBlockedError: Network blocked: socket.connect to 127.0.0.1") == 4


CHANGED_IN_TEARDOWN = """
import os
import pytest
from agent import ask

@pytest.fixture
def farewell():
    yield
    ask(os.environ.get("FAREWELL", "goodbye"))

@pytest.fixture(scope="module")
def house():
    yield
    print("the house is closed")

@pytest.mark.agent_cassette
def test_it(house, monkeypatch, farewell):
    monkeypatch.setenv("LEFT_BEHIND", "1")
"""


def test_a_divergence_in_a_teardown_leaves_no_other_teardown_out(suite: Suite, monkeypatch: pytest.MonkeyPatch) -> None:
    suite.write(
        CHANGED_IN_TEARDOWN,
        test_next="import os\n\ndef test_next(): assert 'LEFT_BEHIND' not in os.environ\n",
    )
    run(suite, "--record-mode=once").assert_outcomes(passed=2)
    monkeypatch.setenv("FAREWELL", "adieu")

    result = run(suite, "-s")

    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["*the house is closed*"])


CHANGED_IN_A_FIXTURE = """
import os
import pytest
from agent import ask

@pytest.fixture
def opening(request):
    request.addfinalizer(lambda: print("the finalizer ran"))
    ask(os.environ.get("OPENING", "hello"))

@pytest.mark.agent_cassette
def test_it(opening): pass
"""


def test_a_divergence_in_a_fixture_leaves_its_finalizers_in(suite: Suite, monkeypatch: pytest.MonkeyPatch) -> None:
    suite.write(CHANGED_IN_A_FIXTURE)
    suite.record()
    monkeypatch.setenv("OPENING", "good day")

    result = suite.run("-s")

    result.assert_outcomes(errors=1)
    assert failure(result).startswith("ReplayDivergenceError: Request changed: call 1 ")
    result.stdout.fnmatch_lines(["*the finalizer ran*"])


CHANGED_UNDER_ANYIO = """
import os
import pytest
from async_agent import ask_with, new_client

pytestmark = [pytest.mark.anyio, pytest.mark.agent_cassette]

@pytest.fixture(scope="module", params=["asyncio", "trio"])
def anyio_backend(request):
    return request.param

@pytest.fixture(scope="module")
async def client(anyio_backend):
    async with new_client() as client:
        yield client
    print("the client is closed")

async def test_one(client): await ask_with(client, os.environ.get("OPENING", "hello"))

async def test_two(client): await ask_with(client, "two")
"""


def test_a_divergence_leaves_the_event_loop_that_anyio_shares_between_tests_running(
    suite: Suite, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite.write(CHANGED_UNDER_ANYIO, async_agent=ASYNC_AGENT)
    suite.record()
    provider.stop()
    monkeypatch.setenv("OPENING", "good day")

    result = suite.run("-s")

    result.assert_outcomes(passed=2, failed=2)
    assert failure(result, "test_one[trio]").startswith("ReplayDivergenceError: Request changed: call 1 ")
    assert result.stdout.str().count("the client is closed") == 2


PARAMETRIZED_FIXTURES = """
import pytest
from agent import ask

pytestmark = pytest.mark.agent_cassette

class Shape: pass

@pytest.fixture(scope="session", params=["teapot", "kettle"])
def goods(request):
    return request.param

@pytest.fixture(scope="session")
def price(goods):
    return ask(f"price of the {goods}")

@pytest.fixture(scope="module", params=[Shape(), Shape()])
def shape(request):
    return ask("shape")

def test_it(price, goods):
    assert price == f"echo: price of the {goods}"

def test_shape(shape): pass
"""


def test_a_shared_fixture_has_a_cassette_for_each_parameter_that_it_depends_on(
    suite: Suite, provider: Provider
) -> None:
    suite.write(PARAMETRIZED_FIXTURES)

    suite.record()
    provider.stop()
    result = suite.run()

    result.assert_outcomes(passed=4)
    assert suite.cassettes() == [
        "cassettes/test_it/fixture.price['kettle'].jsonl",
        "cassettes/test_it/fixture.price['teapot'].jsonl",
        "cassettes/test_it/fixture.shape[shape0].jsonl",
        "cassettes/test_it/fixture.shape[shape1].jsonl",
    ]


def test_a_fixture_of_the_session_has_its_cassette_where_it_is_defined_whatever_test_comes_first(
    suite: Suite, provider: Provider
) -> None:
    suite.write(TWO, conftest=CONFTEST, test_other=TWO.replace("test_", "test_other_"))
    suite.record("test_it.py")
    suite.record()
    provider.stop()

    result = suite.run("test_other.py")

    result.assert_outcomes(passed=2)
    fixtures = [path for path in suite.cassettes() if "fixture" in path]
    assert fixtures == [
        "cassettes/conftest/fixture.catalogue.jsonl",
        "cassettes/conftest/fixture.catalogue.teardown.jsonl",
    ]


XUNIT = """
import unittest
import pytest
from agent import ask

pytestmark = pytest.mark.agent_cassette

def setup_module(): ask("set the module up")

def teardown_module(): ask("tear the module down")

class TestOuter:
    class TestInner:
        @classmethod
        def setup_class(cls): ask("set the inner class up")

        def test_it(self): ask("inner")

class TestOther:
    class TestInner:
        @classmethod
        def setup_class(cls): ask("set the other inner class up")

        def test_it(self): ask("other")

class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls): ask("set the case up")

    def test_it(self): ask("case")
"""


def test_the_setups_of_modules_and_classes_have_cassettes_named_after_them(suite: Suite, provider: Provider) -> None:
    suite.write(XUNIT)
    suite.record()
    provider.stop()

    result = suite.run()
    result_of_one = suite.run("test_it.py::Case")

    result.assert_outcomes(passed=3)
    result_of_one.assert_outcomes(passed=1)
    assert names_of(path.removeprefix("cassettes/test_it/") for path in suite.cassettes()) == {
        "Case.fixture.setUpClass-HASH.jsonl",
        "Case.test_it.jsonl",
        "TestOther.TestInner.fixture.setup_class.jsonl",
        "TestOther.TestInner.test_it.jsonl",
        "TestOuter.TestInner.fixture.setup_class.jsonl",
        "TestOuter.TestInner.test_it.jsonl",
        "fixture.setup_module.jsonl",
        "fixture.setup_module.teardown.jsonl",
    }
