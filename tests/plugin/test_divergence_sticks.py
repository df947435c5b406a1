"""A divergence fails its test whatever the code between made of it."""

from __future__ import annotations

import pytest

from tests.support.suite import Provider, Suite, failure

HEAD = """
import asyncio, threading
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.pool import ThreadPool

import httpx
import pytest
from agent import ask, URL, body

pytestmark = pytest.mark.agent_cassette
"""

# Each body makes the call that differs, and does its best to hide it.
HIDDEN = {
    "nothing": "ask(WORD)",
    "except Exception": """
        try:
            ask(WORD)
        except Exception:
            pass
    """,
    "except BaseException": """
        try:
            ask(WORD)
        except BaseException:
            pass
    """,
    "an exception in its place": """
        try:
            ask(WORD)
        except BaseException as error:
            raise ValueError("mine") from error
    """,
    "an assertion that fails later": """
        try:
            ask(WORD)
        except BaseException:
            assert False, "mine"
    """,
    "a skip": """
        try:
            ask(WORD)
        except BaseException:
            pytest.skip("no answer")
    """,
    "an expected failure": """
        try:
            ask(WORD)
        except BaseException:
            pytest.xfail("no answer")
    """,
    "a retry": """
        for attempt in range(3):
            try:
                ask(WORD)
            except BaseException:
                pass
    """,
    "a thread": """
        thread = threading.Thread(target=ask, args=(WORD,))
        thread.start()
        thread.join()
    """,
    "a thread in a thread": """
        def work():
            inner = threading.Thread(target=ask, args=(WORD,))
            inner.start()
            inner.join()
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    """,
    "an executor whose results nobody asks for": """
        with ThreadPoolExecutor() as pool:
            pool.submit(ask, WORD)
    """,
    "an executor": """
        with ThreadPoolExecutor() as pool:
            list(pool.map(ask, [WORD] * 3))
    """,
    "a thread pool": """
        with ThreadPool(2) as pool:
            pool.map(ask, [WORD] * 4)
    """,
    "a thread pool behind except Exception": """
        def careful(word):
            try:
                return ask(word)
            except Exception:
                return None
        with ThreadPool(2) as pool:
            assert pool.map(careful, [WORD] * 4) in ([None] * 4, [f"echo: {WORD}"] * 4)
    """,
    "imap of a thread pool": """
        with ThreadPool(2) as pool:
            list(pool.imap_unordered(ask, [WORD] * 4))
    """,
    "apply of a thread pool": """
        with ThreadPool(2) as pool:
            pool.apply(ask, (WORD,))
    """,
    "a task that nobody waits for": """
        async def call():
            async with httpx.AsyncClient(verify=False) as client:
                await client.post(URL, json=body(WORD))
        async def main():
            task = asyncio.create_task(call())
            await asyncio.wait([task])
        asyncio.run(main())
    """,
    "a task group": """
        async def call():
            async with httpx.AsyncClient(verify=False) as client:
                await client.post(URL, json=body(WORD))
        async def main():
            async with asyncio.TaskGroup() as group:
                group.create_task(call())
        try:
            asyncio.run(main())
        except BaseException:
            pass
    """,
    "asyncio.to_thread": """
        async def main():
            await asyncio.gather(*(asyncio.to_thread(ask, WORD) for _ in range(3)), return_exceptions=True)
        try:
            asyncio.run(main())
        except BaseException:
            pass
    """,
}


def written(body: str, *, word: str) -> str:
    lines = body.strip("\n").splitlines()
    indent = len(lines[0]) - len(lines[0].lstrip())
    inner = "\n".join("    " + line[indent:] for line in lines)
    return f"{HEAD}\nWORD = {word!r}\n\ndef test_it():\n{inner}\n"


@pytest.mark.parametrize("body", [pytest.param(body, id=name.replace(" ", "-")) for name, body in HIDDEN.items()])
def test_it_fails_the_test_behind(suite: Suite, provider: Provider, body: str) -> None:
    suite.write(written(body, word="hello"))
    assert suite.run("--record-mode=once").ret == pytest.ExitCode.OK
    provider.stop()
    suite.write(written(body, word="goodbye"))

    result = suite.run()

    result.assert_outcomes(failed=1)
    report = failure(result)
    assert report.startswith("ReplayDivergenceError: Request changed: call 1 ")
    assert '        recorded: "hello"' in report
    assert '        now:      "goodbye"' in report


@pytest.mark.parametrize("body", [HIDDEN["a thread"], HIDDEN["a thread in a thread"]], ids=["a-thread", "in-a-thread"])
def test_what_a_thread_ends_with_is_told_as_the_failure_and_not_again(
    suite: Suite, provider: Provider, body: str
) -> None:
    suite.write(written(body, word="hello"))
    suite.record()
    provider.stop()
    suite.write(written(body, word="goodbye"))

    result = suite.run_apart()

    result.assert_outcomes(failed=1, warnings=0)
    assert result.stdout.str().count("$.messages[0].content") == 1
    assert "Exception in thread" not in result.stdout.str() + result.stderr.str()


OTHERS = {
    "an error of its own": """
        def work():
            raise KeyError("mine")
    """,
    "an error that the stop was turned into": """
        def work():
            try:
                ask(WORD)
            except BaseException as error:
                raise KeyError("mine") from error
    """,
    "a stop that no test has met": """
        def work():
            raise ReplayStop("mine")
    """,
}


@pytest.mark.parametrize("work", [pytest.param(work, id=name.replace(" ", "-")) for name, work in OTHERS.items()])
def test_what_else_a_thread_ends_with_is_told_as_ever(suite: Suite, provider: Provider, work: str) -> None:
    started = """
        from pytest_agentreplay.errors import ReplayStop
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    """
    suite.write(written(work.rstrip() + started, word="hello"))

    result = suite.run_apart()

    assert "PytestUnhandledThreadExceptionWarning" in result.stdout.str()
    assert "mine" in result.stdout.str()


LATE = """
import threading

import pytest
from agent import ask

ASKED = threading.Event()


def work():
    try:
        ask(WORD)
    finally:
        ASKED.set()


class Reporter:
    def pytest_runtest_logreport(self, report):
        if report.when == "call":  # between the end of the call and the teardown
            thread.start()
            ASKED.wait(5)
            thread.join()


@pytest.mark.agent_cassette(unplayed="ignore")
def test_it(request):
    global thread
    ask("before")
    thread = threading.Thread(target=work)
    request.config.pluginmanager.register(Reporter())
"""


def test_what_a_thread_meets_between_the_call_and_the_teardown_fails_the_test(suite: Suite, provider: Provider) -> None:
    suite.write(LATE.replace("WORD", '"hello"'))
    suite.record()
    provider.stop()
    suite.write(LATE.replace("WORD", '"goodbye"'))

    result = suite.run_apart()

    result.assert_outcomes(passed=1, errors=1, warnings=0)
    result.stdout.fnmatch_lines(["ReplayDivergenceError: Request changed: call 2 *"])


@pytest.mark.parametrize("ending", ["pytest.skip('today')", "pytest.xfail('today')", "assert False, 'mine'"])
def test_what_a_thread_meets_after_a_call_that_ended_early_is_told_all_the_same(
    suite: Suite, provider: Provider, ending: str
) -> None:
    suite.write(LATE.replace("WORD", '"hello"'))
    suite.record()
    provider.stop()
    suite.write(LATE.replace("WORD", '"goodbye"') + f"    {ending}\n")

    result = suite.run_apart()

    assert result.parseoutcomes()["errors"] == 1
    result.stdout.fnmatch_lines(["ReplayDivergenceError: Request changed: call 2 *"])


JUDGED = """
import threading

import pytest
from agent import ask
from pytest_agentreplay.session import Session

go_on = threading.Event()
real = Session.judge


def judge(session, phases, *, passed):
    stopped = real(session, phases, passed=passed)
    if "teardown" in phases:
        go_on.set()
        thread.join()
    return stopped


def work():
    go_on.wait(5)
    ask("unknown")


@pytest.mark.agent_cassette(unplayed="ignore")
def test_it():
    global thread
    ask("before")
    thread = threading.Thread(target=work)
    if JUDGES:
        thread.start()
        Session.judge = judge
"""


def test_what_a_thread_asks_after_the_test_was_judged_is_told_by_the_thread(suite: Suite, provider: Provider) -> None:
    suite.write(JUDGED.replace("JUDGES", "False"))
    suite.record()
    provider.stop()
    suite.write(JUDGED.replace("JUDGES", "True"))

    result = suite.run_apart()

    result.assert_outcomes(passed=1)
    said = result.stdout.str() + result.stderr.str()  # pytest looks once more at its end
    assert "Exception in thread" in said
    assert "StrayRequestError: A request was made by test_it.py::test_it, which is over" in said


def test_later_requests_fail_at_once_with_the_same_report(suite: Suite, provider: Provider) -> None:
    test = """
    import pytest
    from agent import ask
    from pytest_agentreplay import ReplayDivergenceError

    @pytest.mark.agent_cassette
    def test_it():
        reports = []
        for text in [WORD, "known", "unknown"]:
            try:
                ask(text)
            except ReplayDivergenceError as error:
                assert error.kind == "changed"
                reports.append(str(error))
        if WORD == "changed":
            assert len(reports) == 3
            assert len(set(reports)) == 1
    """
    suite.write(test.replace("WORD", "'first'"))
    suite.record()
    provider.stop()
    suite.write(test.replace("WORD", "'changed'"))

    result = suite.run()

    report = failure(result)
    assert report.startswith("ReplayDivergenceError: Request changed: call 1 ")
    assert report.count("what changed") == 1


def test_a_divergence_in_a_fixture_is_an_error_of_its_test(suite: Suite, provider: Provider) -> None:
    test = """
    import pytest
    from agent import ask

    @pytest.fixture
    def answer():
        try:
            return ask(WORD)
        except BaseException:
            return None

    @pytest.mark.agent_cassette
    def test_it(answer): pass
    """
    suite.write(test.replace("WORD", "'first'"))
    suite.record()
    provider.stop()
    suite.write(test.replace("WORD", "'changed'"))

    result = suite.run()

    result.assert_outcomes(errors=1)
    assert failure(result).startswith("ReplayDivergenceError: Request changed: call 1 ")


def test_a_divergence_in_a_teardown_is_an_error_of_its_test(suite: Suite, provider: Provider) -> None:
    test = """
    import pytest
    from agent import ask

    @pytest.fixture
    def cleanup():
        yield
        try:
            ask(WORD)
        except BaseException:
            pass

    @pytest.mark.agent_cassette
    def test_it(cleanup): pass
    """
    suite.write(test.replace("WORD", "'first'"))
    suite.record()
    provider.stop()
    suite.write(test.replace("WORD", "'changed'"))

    result = suite.run()

    result.assert_outcomes(passed=1, errors=1)
    assert failure(result).startswith("ReplayDivergenceError: Request changed: call 1 ")


def test_a_divergence_met_again_in_the_teardown_is_not_reported_in_full_again(suite: Suite) -> None:
    suite.write(
        """
        import pytest
        from agent import ask

        @pytest.fixture
        def cleanup():
            yield
            ask("goodbye")

        @pytest.mark.agent_cassette
        def test_it(cleanup): ask("hello")
        """
    )

    result = suite.run()

    result.assert_outcomes(failed=1, errors=1)
    shown = result.stdout.str()
    assert shown.count("  cassette  ") == 1
    assert "ReplayDivergenceError: No cassette: " in shown.partition("ERROR at teardown")[2].partition("FAILURES")[0]


def test_the_next_test_starts_afresh(suite: Suite, provider: Provider) -> None:
    test = """
    import pytest
    from agent import ask

    pytestmark = pytest.mark.agent_cassette

    def test_it(): ask(WORD)

    def test_next(): ask("next")
    """
    suite.write(test.replace("WORD", "'first'"))
    suite.record()
    provider.stop()
    suite.write(test.replace("WORD", "'changed'"))

    result = suite.run()

    result.assert_outcomes(passed=1, failed=1)


def test_an_expected_failure_does_not_cover_a_divergence_up_as_a_pass(suite: Suite, provider: Provider) -> None:
    test = """
    import pytest
    from agent import ask

    @pytest.mark.agent_cassette
    def test_it():
        with pytest.raises(BaseException):
            ask(WORD)
            raise KeyError
    """
    suite.write(test.replace("WORD", "'first'"))
    suite.record()
    provider.stop()
    suite.write(test.replace("WORD", "'changed'"))

    result = suite.run()

    assert failure(result).startswith("ReplayDivergenceError: Request changed: call 1 ")


def test_a_keyboard_interrupt_still_interrupts(suite: Suite) -> None:
    suite.write(
        """
        import pytest
        from agent import ask

        @pytest.mark.agent_cassette
        def test_it():
            try:
                ask("hello")
            except BaseException:
                raise KeyboardInterrupt
        """
    )

    result = suite.run_apart()

    assert result.ret == pytest.ExitCode.INTERRUPTED


def test_the_end_of_the_session_ends_it_in_a_shared_fixture_too(suite: Suite) -> None:
    suite.write(
        """
        import pytest
        from agent import ask

        @pytest.fixture(scope="session")
        def shared():
            try:
                ask("unrecorded")
            except BaseException:
                pytest.exit("enough")

        @pytest.mark.agent_cassette
        def test_it(shared): pass

        @pytest.mark.agent_cassette
        def test_later(): pass
        """
    )

    result = suite.run()

    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["*Exit: enough*"])


UNITTEST = """
import unittest
import pytest
from agent import ask

@pytest.mark.agent_cassette
class Case(CLASS):
    ASYNC def test_it(self):
        try:
            ask(WORD)
        except BaseException as error:
            ENDING
"""


@pytest.mark.parametrize("kind", ["unittest.TestCase", "unittest.IsolatedAsyncioTestCase"])
@pytest.mark.parametrize("ending", ["raise", "pass", "self.fail('mine')", "self.skipTest('no answer')", "assert 0"])
def test_it_fails_a_unittest_case_behind(suite: Suite, provider: Provider, kind: str, ending: str) -> None:
    source = UNITTEST.replace("CLASS", kind).replace("ASYNC ", "async " if "Async" in kind else "")
    source = source.replace("ENDING", ending)
    suite.write(source.replace("WORD", "'first'"))
    suite.record()
    provider.stop()
    suite.write(source.replace("WORD", "'changed'"))

    result = suite.run()

    result.assert_outcomes(failed=1)
    assert failure(result).startswith("ReplayDivergenceError: Request changed: call 1 ")


def test_what_a_unittest_case_left_unplayed_fails_it(suite: Suite, provider: Provider) -> None:
    source = UNITTEST.replace("CLASS", "unittest.TestCase").replace("ASYNC ", "").replace("ENDING", "raise")
    suite.write(source.replace("WORD", "'first'"))
    suite.record()
    provider.stop()
    suite.write(source.replace("ask(WORD)", "pass"))

    result = suite.run()

    result.assert_outcomes(failed=1)
    assert failure(result).startswith("ReplayDivergenceError: Unplayed: 1 ")


def test_what_a_failing_unittest_case_left_unplayed_is_not_told(suite: Suite, provider: Provider) -> None:
    source = UNITTEST.replace("CLASS", "unittest.TestCase").replace("ASYNC ", "").replace("ENDING", "raise")
    suite.write(source.replace("WORD", "'first'"))
    suite.record()
    provider.stop()
    suite.write(source.replace("ask(WORD)", "self.fail('mine')"))

    result = suite.run()

    result.assert_outcomes(failed=1)
    assert "AssertionError: mine" in failure(result)
    assert "Unplayed" not in result.stdout.str()
