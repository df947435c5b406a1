"""Whose request is it?  Threads and loops that live longer than a test, and requests that no test makes."""

from __future__ import annotations

import pytest

from tests.support.suite import Provider, Suite, failure

LATE = """
import threading
import pytest
from agent import ask

release, done, caught = threading.Event(), threading.Event(), []

def late():
    release.wait(5)
    try:
        ask("late")
    except BaseException as error:
        caught.append(error)
    done.set()

@pytest.mark.agent_cassette
def test_a():
    threading.Thread(target=late, daemon=True).start()
    ask("a")

MARK
def test_b():
    release.set()
    assert done.wait(5)
    ask("b")
    [error] = caught
    print(f"{type(error).__name__}: {error}")
"""


@pytest.mark.parametrize("mode", ["once", "none"])
def test_a_thread_that_outlives_its_test_reaches_neither_the_provider_nor_the_next_test(
    suite: Suite, provider: Provider, mode: str
) -> None:
    suite.write(LATE.replace("MARK", "@pytest.mark.agent_cassette"))
    if mode == "none":
        suite.record()
        provider.stop()

    result = suite.run_apart(f"--record-mode={mode}", "-s")

    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(
        ["*StrayRequestError: A request was made by test_it.py::test_a, which is over, while test_it.py::test_b was *"]
    )
    assert sorted(seen.json()["messages"][0]["content"] for seen in provider.seen) == ["a", "b"]
    assert b"late" not in b"".join((suite.path / path).read_bytes() for path in suite.cassettes())


def test_a_thread_that_outlives_its_test_into_an_unmarked_one_is_stopped_too(suite: Suite, provider: Provider) -> None:
    suite.write(LATE.replace("MARK", ""))

    result = suite.run_apart("--record-mode=once", "-s")

    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(
        ["*StrayRequestError: A request was made by test_it.py::test_a, which is over, while no recorded test was *"]
    )
    assert sorted(seen.json()["messages"][0]["content"] for seen in provider.seen) == ["a", "b"]


def test_requests_outside_any_test_go_out_as_without_us(suite: Suite, provider: Provider) -> None:
    suite.write(
        """
        import pytest
        from agent import ask, get

        get("/at-import")

        @pytest.mark.agent_cassette
        def test_it(): ask("hello")
        """,
        conftest="""
        from agent import get

        def pytest_sessionfinish():
            get("/at-the-end")
        """,
    )

    suite.record()
    suite.run()

    assert [seen.path for seen in provider.seen if seen.method == "GET"] == ["/at-import", "/at-the-end"] * 2
    assert [line["kind"] for line in suite.lines()] == ["run.start", "message", "model", "run.end"]


def test_a_thread_older_than_the_first_marked_test_works_for_the_test_that_runs(
    suite: Suite, provider: Provider
) -> None:
    suite.write(
        """
        import queue, threading
        import pytest
        from agent import ask

        jobs, answers = queue.Queue(), queue.Queue()

        def work():
            while True:
                answers.put(ask(jobs.get()))

        threading.Thread(target=work, daemon=True).start()

        @pytest.mark.agent_cassette
        @pytest.mark.parametrize("word", ["one", "two"])
        def test_it(word):
            jobs.put(word)
            assert answers.get(timeout=5) == f"echo: {word}"
        """
    )

    recorded = suite.run_apart("--record-mode=once")
    provider.stop()
    replayed = suite.run_apart()

    recorded.assert_outcomes(passed=2, warnings=2)
    recorded.stdout.fnmatch_lines(["*StrayRequestWarning: a request that named no test was recorded for test_it.py::*"])
    replayed.assert_outcomes(passed=2)
    assert len(suite.cassettes()) == 2


EACH_TEST = """
@pytest.mark.agent_cassette
@pytest.mark.parametrize("word", ["one", "two", "three"])
"""


def check_each_test_has_its_own(suite: Suite, provider: Provider, source: str, *, count: int = 3) -> None:
    """Record, then replay with the provider gone; every test's cassette holds its own requests."""
    suite.write(source)
    recorded = suite.run("--record-mode=once")
    provider.stop()
    replayed = suite.run()

    recorded.assert_outcomes(passed=count)
    replayed.assert_outcomes(passed=count)
    assert "StrayRequestWarning" not in recorded.stdout.str()
    found = suite.cassettes()
    assert len(found) == count
    for path in found:
        words = [word for word in ("one", "two", "three") if f"[{word}" in path or f"-{word}]" in path]
        data = (suite.path / path).read_text()
        assert [word for word in ("one", "two", "three") if f'"{word}"' in data] == words


def test_a_pool_that_outlives_a_test_works_for_whoever_gives_it_a_job(suite: Suite, provider: Provider) -> None:
    check_each_test_has_its_own(
        suite,
        provider,
        f"""
import pytest
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.pool import ThreadPool
from agent import ask

POOL, OTHER = ThreadPoolExecutor(1), ThreadPool(1)
{EACH_TEST}
def test_it(word):
    assert POOL.submit(ask, word).result() == f"echo: {{word}}"
    assert OTHER.apply(ask, ("again", word)) == f"echo: {{word}}"

def teardown_module():
    POOL.shutdown()
    OTHER.terminate()
""",
    )


def test_a_loop_in_a_thread_that_outlives_a_test_works_for_whoever_gives_it_a_coroutine(
    suite: Suite, provider: Provider
) -> None:
    check_each_test_has_its_own(
        suite,
        provider,
        f"""
import asyncio, threading
import httpx, pytest
from agent import URL, body, said

LOOP = asyncio.new_event_loop()
THREAD = threading.Thread(target=LOOP.run_forever, daemon=True)

async def ask(word):
    async with httpx.AsyncClient(verify=False) as client:
        return said(await client.post(URL, json=body(word)))
{EACH_TEST}
def test_it(word):
    if not THREAD.is_alive():
        THREAD.start()
    assert asyncio.run_coroutine_threadsafe(ask(word), LOOP).result(5) == f"echo: {{word}}"

def teardown_module():
    LOOP.call_soon_threadsafe(LOOP.stop)
    THREAD.join()
    LOOP.close()
""",
    )


ASYNC_HEAD = """
import pytest
import httpx2
from agent import URL, body, said

async def ask(word):
    async with httpx2.AsyncClient(verify=False) as client:
        return said(await client.post(URL, json=body(word)))
"""


@pytest.mark.parametrize("scope", ["function", "module", "session"])
def test_async_tests_under_pytest_asyncio_get_their_own_cassette(suite: Suite, provider: Provider, scope: str) -> None:
    check_each_test_has_its_own(
        suite,
        provider,
        f"""{ASYNC_HEAD}
import pytest_asyncio

@pytest_asyncio.fixture(loop_scope={scope!r})
async def before(word):
    await ask("again")
    yield await ask(word)
    await ask("after")

@pytest.mark.asyncio(loop_scope={scope!r}){EACH_TEST}
async def test_it(before, word):
    assert before == f"echo: {{word}}"
    assert await ask("again") == "echo: again"
""",
    )


@pytest.mark.parametrize("scope", ["function", "module"])
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_async_tests_under_anyio_get_their_own_cassette(
    suite: Suite, provider: Provider, scope: str, backend: str
) -> None:
    check_each_test_has_its_own(
        suite,
        provider,
        f"""{ASYNC_HEAD}

@pytest.fixture(scope="module")
def anyio_backend():
    return {backend!r}

@pytest.fixture(scope={scope!r})
async def connection():
    yield "kept open"

@pytest.fixture
async def before(word):
    await ask("again")
    yield await ask(word)
    await ask("after")

@pytest.mark.anyio{EACH_TEST}
async def test_it(connection, before, word):
    assert before == f"echo: {{word}}"
    assert await ask("again") == "echo: again"
""",
    )


def test_an_async_test_that_diverges_fails_with_the_report(suite: Suite, provider: Provider) -> None:
    source = f"""{ASYNC_HEAD}
@pytest.mark.asyncio
@pytest.mark.agent_cassette
async def test_it():
    try:
        await ask(WORD)
    except Exception:
        pass
"""
    suite.write(source.replace("WORD", "'first'"))
    suite.record()
    provider.stop()
    suite.write(source.replace("WORD", "'changed'"))

    result = suite.run()

    assert failure(result).startswith("ReplayDivergenceError: Request changed: call 1 ")


def test_a_divergence_in_an_async_test_leaves_the_shared_loop_to_the_next(suite: Suite, provider: Provider) -> None:
    source = f"""{ASYNC_HEAD}
pytestmark = [pytest.mark.agent_cassette, pytest.mark.asyncio(loop_scope="module")]

async def test_first():
    await ask(WORD)

async def test_second():
    assert await ask("second") == "echo: second"
"""
    suite.write(source.replace("WORD", "'first'"))
    suite.record()
    provider.stop()
    suite.write(source.replace("WORD", "'changed'"))

    result = suite.run()

    result.assert_outcomes(passed=1, failed=1)


def test_the_workers_of_xdist_record_for_one_summary(suite: Suite, provider: Provider) -> None:
    suite.write(
        f"""
import pytest
from agent import ask
{EACH_TEST}
def test_it(word):
    assert ask(word) == f"echo: {{word}}"
"""
    )

    recorded = suite.run_spread("--record-mode=once")
    provider.stop()
    replayed = suite.run()

    recorded.assert_outcomes(passed=3)
    recorded.stdout.fnmatch_lines(["agent cassettes: 3 recorded (3 requests)"])
    replayed.assert_outcomes(passed=3)
    replayed.stdout.fnmatch_lines(["agent cassettes: 3 replayed (3 requests)"])
    assert len(suite.cassettes()) == 3


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_divergence_in_a_task_group_under_anyio_fails_its_test_and_no_other(
    suite: Suite, provider: Provider, backend: str
) -> None:
    source = f"""{ASYNC_HEAD}
import anyio

pytestmark = [pytest.mark.agent_cassette, pytest.mark.anyio]

@pytest.fixture(scope="module")
def anyio_backend():
    return {backend!r}

@pytest.fixture(scope="module")
async def connection():
    yield "kept open"

async def test_first(connection):
    async with anyio.create_task_group() as group:
        group.start_soon(ask, WORD)

async def test_second(connection):
    assert await ask("second") == "echo: second"
"""
    suite.write(source.replace("WORD", "'first'"))
    suite.record()
    provider.stop()
    suite.write(source.replace("WORD", "'changed'"))

    result = suite.run()

    result.assert_outcomes(passed=1, failed=1)
    assert failure(result, "test_first").startswith("ReplayDivergenceError: Request changed: call 1 ")
