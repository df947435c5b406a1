"""Blocks inside each other, beside each other and beside marked tests: each request goes to its own."""

from __future__ import annotations

import asyncio
import importlib
import multiprocessing
import socket
import subprocess
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.pool import Pool, ThreadPool
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

from pytest_agentreplay import load_cassette, recorded_tool, use_cassette
from pytest_agentreplay.taps.owners import installed_registry
from tests.support.agent import Desk
from tests.support.suite import Provider, make_suite

PATCHED: dict[str, Callable[[], Any]] = {
    "httpx": lambda: importlib.import_module("httpx").HTTPTransport.handle_request,
    "httpx, async": lambda: importlib.import_module("httpx").AsyncHTTPTransport.handle_async_request,
    "httpx2": lambda: importlib.import_module("httpx2").HTTPTransport.handle_request,
    "httpx2, async": lambda: importlib.import_module("httpx2").AsyncHTTPTransport.handle_async_request,
    "threads": lambda: threading.Thread.start,
    "executors": lambda: ThreadPoolExecutor.submit,
    "pools": lambda: ThreadPool.apply_async,
    "processes": lambda: BaseProcess.start,
    "process pools": lambda: Pool.apply_async,
    "connect": lambda: socket.socket.connect,
    "getaddrinfo": lambda: socket.getaddrinfo,
    "registry": installed_registry,
}


def texts(path: Path) -> list[str]:
    """Return what was asked, as a cassette has it."""
    tape = load_cassette(path)
    return [message["content"] for message in tape.messages.values()]


def patched() -> dict[str, Any]:
    return {name: look() for name, look in PATCHED.items()}


def test_no_patch_is_left_after_the_last_block(path: Path, desk: Desk, tmp_path: Path) -> None:
    before = patched()

    with use_cassette(path, record_mode="once"):
        first = patched()
        with use_cassette(tmp_path / "inner.jsonl", record_mode="once"):
            desk.ask("one")
        assert patched() == first

    assert all(first[name] != before[name] for name in before)
    assert patched() == before


def test_no_patch_is_left_after_a_block_that_could_not_be_opened(path: Path) -> None:
    before = patched()
    path.write_text("nothing of ours\n")

    with pytest.raises(Exception, match=r"run\.jsonl"), use_cassette(path):
        pass

    assert patched() == before


def test_an_inner_block_has_its_own_cassette(path: Path, desk: Desk, tmp_path: Path) -> None:
    inner = tmp_path / "inner.jsonl"

    with use_cassette(path, record_mode="once"):
        desk.ask("before")
        with use_cassette(inner, record_mode="once"):
            desk.ask("inside")
        desk.ask("after")

    assert texts(path) == ["before", "after"]
    assert texts(inner) == ["inside"]


def test_two_blocks_in_two_threads_do_not_cross(tmp_path: Path, desk: Desk, provider: Provider) -> None:
    both_are_in = threading.Barrier(2, timeout=10)

    def work(name: str, mode: str) -> list[str]:
        with use_cassette(tmp_path / f"{name}.jsonl", record_mode=mode):
            both_are_in.wait()
            said = [desk.ask(f"{name} {number}") for number in range(5)]
            both_are_in.wait()
        return said

    with ThreadPoolExecutor(2) as pool:
        live = list(pool.map(work, ("a", "b"), ("once", "once")))
        provider.stop()
        replayed = list(pool.map(work, ("a", "b"), ("none", "none")))

    assert live == replayed == [[f"echo: {name} {number}" for number in range(5)] for name in "ab"]
    assert texts(tmp_path / "a.jsonl") == [f"a {number}" for number in range(5)]


def test_two_blocks_in_two_tasks_do_not_cross(tmp_path: Path, desk: Desk) -> None:
    async def work(name: str) -> None:
        async with use_cassette(tmp_path / f"{name}.jsonl", record_mode="once"):
            for number in range(3):
                await desk.ask_async(f"{name} {number}")

    async def both() -> None:
        await asyncio.gather(work("a"), work("b"))

    asyncio.run(both())

    assert texts(tmp_path / "a.jsonl") == ["a 0", "a 1", "a 2"]
    assert texts(tmp_path / "b.jsonl") == ["b 0", "b 1", "b 2"]


def test_threads_started_in_a_block_are_its_own(path: Path, desk: Desk) -> None:
    with use_cassette(path, record_mode="once"):
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(desk.ask, ["one", "two"]))
        thread = threading.Thread(target=desk.ask, args=("three",))
        thread.start()
        thread.join()

    assert sorted(texts(path)) == ["one", "three", "two"]


def test_code_outside_any_block_is_left_alone(path: Path, desk: Desk, provider: Provider) -> None:
    is_open, may_end = threading.Event(), threading.Event()

    def work() -> None:
        with use_cassette(path, record_mode="once"):
            is_open.set()
            may_end.wait(10)
            desk.ask("inside")

    thread = threading.Thread(target=work)
    thread.start()
    is_open.wait(10)
    said = desk.ask("outside")
    may_end.set()
    thread.join()

    assert said == "echo: outside"
    assert texts(path) == ["inside"]


def test_code_outside_a_replayed_block_reaches_the_network(path: Path, desk: Desk, provider: Provider) -> None:
    with use_cassette(path, record_mode="once"):
        desk.ask("inside")
    outside = threading.Event()
    said: list[str] = []

    def work() -> None:  # begun before the block, it belongs to nobody
        outside.wait(10)
        said.append(desk.ask("outside"))

    thread = threading.Thread(target=work)
    thread.start()
    with use_cassette(path, loopback=False):
        desk.ask("inside")
        outside.set()
        thread.join()

    assert said == ["echo: outside"]


def test_a_second_block_on_one_cassette_waits_and_is_answered_from_it(
    path: Path, desk: Desk, provider: Provider
) -> None:
    def work(_: int) -> str:
        with use_cassette(path, record_mode="once"):
            return desk.ask("one")

    with ThreadPoolExecutor(3) as pool:
        said = list(pool.map(work, range(3)))

    assert said == ["echo: one"] * 3
    assert len(provider.seen) == 1


def test_a_program_started_in_a_block_runs_as_it_is(path: Path) -> None:
    with use_cassette(path, record_mode="once"):
        done = subprocess.run(["true"])

    assert done.returncode == 0
    assert not path.exists()


@recorded_tool
def tool_of_a_child() -> int:
    return 1


def call_in_child(said: Any) -> None:
    """Call a tool, and tell what came of it."""
    try:
        said.put(tool_of_a_child())
    except BaseException as error:
        said.put(f"{type(error).__name__}: {error}")


def test_a_process_that_is_started_anew_in_a_block_is_refused_its_tools(path: Path) -> None:
    spawn = multiprocessing.get_context("spawn")
    said = spawn.SimpleQueue()

    with use_cassette(path, record_mode="once", name="the block"):
        process = spawn.Process(target=call_in_child, args=(said,))
        process.start()
        refused = said.get()
        process.join()

    assert refused.startswith(
        "StrayRequestError: A call of the tool 'tool_of_a_child' was made in a child process of the"
    )
    assert "the block" in refused


BOTH = """
import agent
import pytest

from pytest_agentreplay import use_cassette


def inner(mode):
    with use_cassette("inner.jsonl", record_mode=mode):
        return agent.ask("inside")


@pytest.mark.agent_cassette
def test_marked(agent_run):
    assert agent.ask("before") == "echo: before"
    assert inner("once") == "echo: inside"
    assert agent.ask("after") == "echo: after"


def test_unmarked():
    assert inner("none") == "echo: inside"
    agent.URL = "http://127.0.0.1:1"
    with pytest.raises(agent.httpx.ConnectError):
        agent.ask("outside")


@pytest.mark.agent_cassette
def test_swallowed():
    with pytest.raises(BaseException, match="not in the recording"):
        with use_cassette("inner.jsonl"):
            agent.ask("changed")
"""


def test_blocks_in_marked_and_unmarked_tests_keep_to_themselves(
    pytester: pytest.Pytester, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite = make_suite(pytester, provider, monkeypatch)
    suite.write(BOTH)
    before = patched()

    suite.record().assert_outcomes(passed=3)
    provider.stop()
    suite.run().assert_outcomes(passed=3)

    assert suite.cassettes() == ["cassettes/test_it/test_marked.jsonl", "inner.jsonl"]
    assert texts(suite.cassette("test_it/test_marked.jsonl")) == ["before", "after"]
    assert texts(suite.path / "inner.jsonl") == ["inside"]
    assert patched() == before
