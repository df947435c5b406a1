"""A small test suite in a folder of its own, run by a pytest of its own, against a provider on loopback."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support.installed import installed_once
from tests.support.openai import completion
from tests.support.server import Answer, Seen, Server, answer_json, serving

# What the suites' tests import as `agent`: the least code that an agent on httpx is.
AGENT = '''\
"""An agent with no framework: it sends its messages, and returns what the model says."""

import os

import httpx

URL = os.environ["PROVIDER_URL"] + "/v1/chat/completions"
LIMITS = httpx.Limits(max_keepalive_connections=0)  # no connection outlives its request
CLIENT = httpx.Client(verify=False, trust_env=False, limits=LIMITS)


def user(text):
    return {"role": "user", "content": text}


def body(*messages, **fields):
    messages = [user(message) if isinstance(message, str) else message for message in messages]
    return {"model": "m", "messages": messages, **fields}


def said(response):
    return response.json()["choices"][0]["message"]["content"]


def ask(*messages, **fields):
    return said(CLIENT.post(URL, json=body(*messages, **fields)))


def get(path):
    return CLIENT.get(os.environ["PROVIDER_URL"] + path).text
'''

# In-process runs inherit the filters of the run they are in, which make every warning an error.
INI = """\
[pytest]
asyncio_default_fixture_loop_scope = function
filterwarnings = default
"""

# Plugins that no suite uses: each costs start-up time.
_SLOW_TO_START = ("hypothesispytest", "langsmith_plugin", "rerunfailures")
_RARE = ("pastebin", "setuponly", "setupplan", "stepwise")  # pytest's own
_LEFT_OUT = (*_SLOW_TO_START, *_RARE, "xdist", "xdist.looponfail")


@dataclass
class Provider:
    """A local provider: answers each request by a function, and can be stopped."""

    server: Server
    respond: Callable[[Seen], Answer]
    _stack: ExitStack = field(default_factory=ExitStack)

    @property
    def seen(self) -> list[Seen]:
        """What has reached it."""
        return self.server.seen

    @property
    def questions(self) -> list[str]:
        """The last message of each chat request that has reached it."""
        return [seen.json()["messages"][-1]["content"] for seen in self.seen]

    @property
    def url(self) -> str:
        """Where it is, or was."""
        return self.server.url

    def answer(self, seen: Seen) -> Answer:
        """Answer as told at the moment."""
        return self.respond(seen)

    def stop(self) -> None:
        """Stop serving: from here on nothing listens at its address."""
        self._stack.close()


def echo(seen: Seen) -> Answer:
    """Answer a chat request with its last message, and any other with its path."""
    if not seen.body:
        return Answer(headers=(("content-type", "text/plain"),), body=seen.path.encode())
    return answer_json(completion(f"echo: {seen.json()['messages'][-1]['content']}"))


@contextmanager
def providing(respond: Callable[[Seen], Answer] = echo) -> Iterator[Provider]:
    """Serve as a provider until the block ends, or until it is stopped."""
    with ExitStack() as stack:
        provider = Provider(Server(url=""), respond, _stack=stack)
        provider.server = stack.enter_context(serving(provider.answer))
        yield provider


def held_back(answer: Answer, *, until: Path) -> Iterator[bytes]:
    """Yield the chunks of a stream, the last only when a file is there; without one they end early."""
    *most, last = answer.chunks or ()
    yield from most
    deadline = time.monotonic() + 5
    while not until.exists() and time.monotonic() < deadline:
        time.sleep(0.005)
    if until.exists():
        yield last


@dataclass
class Suite:
    """A test suite in the folder of ``pytester``."""

    pytester: pytest.Pytester

    @property
    def path(self) -> Path:
        """The folder."""
        return self.pytester.path

    def write(self, test: str, **files: str) -> Path:
        """Write ``test_it.py``, and other modules by name.  Returns the path of the former."""
        return self.pytester.makepyfile(test_it=test, **files)

    def ini(self, *lines: str) -> None:
        """Write the ini file anew, with further lines."""
        self.pytester.makeini(INI + "".join(f"{line}\n" for line in lines))

    def run(self, *args: str) -> pytest.RunResult:
        """Run the suite in this process: quick, for what depends on no import and no thread left behind."""
        names = [name for name in _LEFT_OUT if name != "rerunfailures" or not any("--reruns" in arg for arg in args)]
        with installed_once():
            return self.pytester.runpytest_inprocess(*_left_out(names), *args)

    def run_apart(self, *args: str) -> pytest.RunResult:
        """Run the suite in a process of its own."""
        return self.pytester.runpytest_subprocess(*_left_out(), *args, timeout=60)

    def run_spread(self, *args: str, workers: int = 2) -> pytest.RunResult:
        """Run the suite under pytest-xdist."""
        names = (*_SLOW_TO_START, "pytest_httpx", "recording", "respx", "syrupy")
        return self.pytester.runpytest_subprocess(*_left_out(names), f"-n{workers}", *args, timeout=60)

    def record(self, *args: str) -> pytest.RunResult:
        """Run the suite in record mode once, and see it pass."""
        result = self.run("--record-mode=once", *args)
        assert result.ret == pytest.ExitCode.OK, result.stdout.str()
        return result

    def cassettes(self) -> list[str]:
        """Return the cassettes by their path below the folder, sorted."""
        return sorted(path.relative_to(self.path).as_posix() for path in self.path.rglob("*.jsonl"))

    def cassette(self, name: str = "test_it/test_it.jsonl") -> Path:
        """Return the path of one cassette below ``cassettes``."""
        return self.path / "cassettes" / name

    def lines(self, name: str = "test_it/test_it.jsonl") -> list[dict[str, Any]]:
        """Return the lines of one cassette."""
        return [json.loads(line) for line in self.cassette(name).read_bytes().splitlines()]


def make_suite(pytester: pytest.Pytester, provider: Provider, monkeypatch: pytest.MonkeyPatch) -> Suite:
    """Return an empty suite whose agent talks to ``provider``."""
    monkeypatch.setenv("PROVIDER_URL", provider.url)
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)  # or each run compiles every plugin again
    monkeypatch.setenv("PYTEST_ADDOPTS", " ".join(_left_out(("hypothesispytest", "langsmith_plugin"))))  # slow to start
    for name in ("PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT", "PYTEST_XDIST_TESTRUNUID"):
        monkeypatch.delenv(name, raising=False)  # the suite's pytest is no worker, wherever this test runs
    pytester.makepyfile(agent=AGENT)
    suite = Suite(pytester)
    suite.ini()
    return suite


def failure(result: pytest.RunResult, test: str = "test_it") -> str:
    """Return the text of a failure in an in-process run, as the terminal shows it."""
    failed = [report for report in result.reprec.getreports("pytest_runtest_logreport") if report.failed]  # type: ignore[attr-defined]
    [report] = [report for report in failed if report.nodeid.endswith(f"::{test}")]
    return report.longreprtext


def said(result: pytest.RunResult) -> list[str]:
    """Return our lines of a run's output, the header's aside."""
    lines = result.outlines
    start = next(index for index, line in enumerate(lines) if line.startswith("collected "))
    ours = ("agent cassettes:", "  recorded", "  recording", "  unfinished")
    return [line for line in lines[start:] if line.startswith(ours)]


def effects(suite: Suite) -> list[str]:
    """Return what the bodies of a suite's tools have done, as they noted it."""
    path = suite.path / "effects.txt"
    return path.read_text().splitlines() if path.exists() else []


def _left_out(names: Iterable[str] = _LEFT_OUT) -> list[str]:
    return [part for name in names for part in ("-p", f"no:{name}")]
