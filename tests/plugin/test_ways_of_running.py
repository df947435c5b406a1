"""One suite, run in every way that people run pytest: recorded, then replayed with the provider gone."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support.openai import chat_answer
from tests.support.server import Answer, Seen
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

SHARED = 8
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
    "test_async/test_asyncio.jsonl",
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

# Plugins that are left out where a way does not need them: each costs start-up time.
QUICK = ("hypothesispytest", "rerunfailures")
NEEDED_BY_ONE = (*QUICK, "xdist", "xdist.looponfail")
PLUGINS = ("-p", "agent_cassette", "-p", "pytest_asyncio.plugin", "-p", "anyio.pytest_plugin")


@dataclass(frozen=True)
class Way:
    """A way of running pytest: its arguments, and what it does to the count of runs."""

    name: str
    args: tuple[str, ...] = ()
    recording: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    leave_out: tuple[str, ...] = NEEDED_BY_ONE
    each: int = 1  # how often each test runs
    apart: bool = False  # whether shared fixtures are set up more than once
    slow: bool = False
    tests: int = 18
    requests: int = 32
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
        tests=16,
        requests=26,
        cassettes=frozenset(name for name in CASSETTES if "trio" not in name),
    ),
    Way(
        "asyncio-session-loop",
        ("-o", "asyncio_default_fixture_loop_scope=session", "-o", "asyncio_default_test_loop_scope=session"),
    ),
    Way("xdist", ("-n", "2"), leave_out=QUICK, apart=True),
    Way("xdist-loadfile", ("-n", "2", "--dist", "loadfile"), leave_out=QUICK, apart=True),
    Way("xdist-each", ("--dist", "each", "--tx", "2*popen"), leave_out=QUICK, each=2),
    Way("xdist-loadscope", ("-n", "2", "--dist", "loadscope"), leave_out=QUICK, apart=True, slow=True),
    Way("xdist-worksteal", ("-n", "2", "--dist", "worksteal"), leave_out=QUICK, apart=True, slow=True),
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
    Way("block-network", ("--block-network",)),
    Way(
        "sockets-disabled",
        # An event loop wakes itself through a pair of Unix sockets.
        ("--disable-socket", "--allow-unix-socket"),
        recording=("--allow-hosts=127.0.0.1",),
    ),
    Way("importlib", ("--import-mode=importlib", "-o", "pythonpath=."), slow=True),
    Way("random-order", ("-p", "shuffled"), apart=True, slow=True),
    Way("reruns", ("--reruns", "2"), leave_out=("hypothesispytest",), slow=True),
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
    asked = texts_asked(provider)
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


def run(suite: Suite, *args: str, leave_out: tuple[str, ...] = NEEDED_BY_ONE) -> pytest.RunResult:
    """Run the suite in a process of its own."""
    without = [part for name in leave_out for part in ("-p", f"no:{name}")]
    return suite.pytester.runpytest_subprocess(*without, *args, timeout=60)


def texts_asked(provider: Provider) -> list[str]:
    """Return the text of each question that reached the provider."""
    return [seen.json()["messages"][-1]["content"] for seen in provider.seen]


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
