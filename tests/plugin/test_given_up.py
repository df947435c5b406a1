"""A request that the agent gives up while it is recorded: it is not on the tape, and a warning says so."""

from __future__ import annotations

import pytest

from tests.support.server import Answer, Seen
from tests.support.suite import Provider, Suite, echo, failure

HURRIED = """
import asyncio
import httpx
import pytest
from agent import URL, ask, body, said

async def ask_within(seconds, text):
    async with httpx.AsyncClient(trust_env=False) as client:
        try:
            return said(await asyncio.wait_for(client.post(URL, json=body(text)), seconds))
        except TimeoutError:
            return None

@pytest.mark.agent_cassette
def test_it():
    ask("one")
    assert asyncio.run(ask_within(0.5, "slow")) is None
    THEN
"""


def write(suite: Suite, *, then: str) -> None:
    suite.write(HURRIED.replace("THEN", then))


@pytest.fixture
def hurried(suite: Suite, provider: Provider) -> Suite:
    """A suite beside a provider that is too slow, once, for what the agent gives it."""
    delays = iter([5.0])

    def respond(seen: Seen) -> Answer:
        answer = echo(seen)
        delay = next(delays, 0.0) if b"slow" in seen.body else 0.0
        return Answer(answer.status, answer.headers, answer.body, delay=delay)

    provider.respond = respond
    return suite


def warned(result: pytest.RunResult) -> str:
    text = " ".join(result.stdout.str().split())
    return text.partition("UnrecordedTrafficWarning: ")[2]


def test_a_request_that_is_given_up_is_named_with_its_test(hurried: Suite) -> None:
    write(hurried, then="ask('two')")

    recorded = hurried.record()
    replayed = hurried.run()

    assert warned(recorded).startswith(
        "chat m (POST http://127.0.0.1/v1/chat/completions) was given up before it was answered, "
        "so it is not recorded, and the replay of test_it.py::test_it will be stopped there"
    )
    assert recorded.stdout.str().count("was given up") == 1
    assert failure(replayed).startswith("ReplayDivergenceError: Request changed: call 2 ")


def test_one_that_is_all_a_test_asked_is_named_too(hurried: Suite) -> None:
    hurried.write(HURRIED.replace('ask("one")', "pass").replace("THEN", "pass"))

    result = hurried.record()

    assert "was given up" in warned(result)
    assert hurried.cassettes() == []


def test_one_that_was_answered_when_it_was_asked_again_is_recorded(hurried: Suite) -> None:
    write(hurried, then="ask('slow')")

    assert warned(hurried.record()) == ""


def test_one_that_an_unfinished_recording_asks_again_is_not_named(hurried: Suite) -> None:
    hurried.write(HURRIED.partition("    assert")[0])
    hurried.record()
    write(hurried, then="assert False")

    result = hurried.run("--record-mode=rewrite")

    assert "unfinished recording kept" in result.stdout.str()
    assert warned(result) == ""
