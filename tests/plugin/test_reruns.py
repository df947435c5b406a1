"""Tests that run more than once in a session: each attempt is a run of its own."""

from __future__ import annotations

import pytest

from tests.support.suite import Provider, Suite

SYNC = """
import pytest
from agent import ask

attempts = []

@pytest.mark.agent_cassette
def test_it():
    attempts.append(1)
    assert ask("hello") == "echo: hello"
    assert len(attempts) > 1
"""

ASYNC = """
import httpx, pytest
from agent import URL, body, said

attempts = []

@pytest.mark.asyncio
@pytest.mark.agent_cassette
async def test_it():
    attempts.append(1)
    async with httpx.AsyncClient(verify=False) as client:
        assert said(await client.post(URL, json=body("hello"))) == "echo: hello"
    assert len(attempts) > 1
"""

EACH = pytest.mark.parametrize("source", [pytest.param(SYNC, id="sync"), pytest.param(ASYNC, id="async")])


@EACH
def test_a_second_attempt_replays_from_the_start(suite: Suite, provider: Provider, source: str) -> None:
    suite.write(source.replace("assert len", "assert attempts or len"))
    suite.record("--reruns=1")
    provider.stop()
    suite.write(source)

    result = suite.run("--reruns=1", "-W", "error")

    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*1 passed, 1 rerun*"])


@EACH
def test_a_second_attempt_in_rewrite_records_from_the_start(suite: Suite, provider: Provider, source: str) -> None:
    suite.write(source)

    result = suite.run("--reruns=1", "--record-mode=rewrite", "-W", "error")
    provider.stop()

    result.assert_outcomes(passed=1)
    assert len(provider.seen) == 2
    assert [line["kind"] for line in suite.lines()] == ["run.start", "message", "model", "run.end"]
    assert suite.lines()[-1]["outcome"] == "ok"


def test_a_divergence_on_the_second_attempt_is_reported_as_one(suite: Suite, provider: Provider) -> None:
    suite.write(ASYNC.replace("assert len", "assert attempts or len"))
    suite.record("--reruns=1")
    provider.stop()
    suite.write(ASYNC.replace('body("hello")', 'body("hello" if len(attempts) == 1 else "changed")'))

    result = suite.run("--reruns=1")

    result.stdout.fnmatch_lines(["ReplayDivergenceError: Request changed: call 1 is not in the recording."])
