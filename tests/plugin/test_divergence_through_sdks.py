"""A divergence comes through the provider SDKs: at once, after one call, whatever they do with exceptions."""

from __future__ import annotations

from unittest import mock

# Loaded before the suites run in this process, so that they import them in no time.
import anthropic  # noqa: F401
import openai  # noqa: F401
import pytest

from pytest_agentreplay.player import Player
from tests.support import anthropic as anthropic_format
from tests.support.agent import echo_or_stream
from tests.support.suite import Provider, Suite, failure
from tests.support.timing import sooner_or_later

ANTHROPIC = """
import os
import httpx2
from anthropic import Anthropic, AsyncAnthropic, DefaultAsyncHttpxClient, DefaultHttpxClient

HTTP = {"verify": False, "limits": httpx2.Limits(max_keepalive_connections=0)}
OPTIONS = {"base_url": os.environ["PROVIDER_URL"], "api_key": "sk-ant-" + "a1" * 20}
CLIENT = Anthropic(**OPTIONS, http_client=DefaultHttpxClient(**HTTP))

def request(system, text):
    return {"model": "claude", "max_tokens": 10, "system": system, "messages": [{"role": "user", "content": text}]}

def ask(system, text="hello"):
    return CLIENT.messages.create(**request(system, text)).content[0].text

def stream(system, text="hello"):
    with CLIENT.messages.stream(**request(system, text)) as events:
        return "".join(events.text_stream)

async def ask_async(system, text="hello"):
    async with AsyncAnthropic(**OPTIONS, http_client=DefaultAsyncHttpxClient(**HTTP)) as client:
        return (await client.messages.create(**request(system, text))).content[0].text
"""

OPENAI = """
import os
import httpx2
from openai import AsyncOpenAI, DefaultAsyncHttpxClient, DefaultHttpxClient, OpenAI

HTTP = {"verify": False, "limits": httpx2.Limits(max_keepalive_connections=0)}
OPTIONS = {"base_url": os.environ["PROVIDER_URL"] + "/v1", "api_key": "sk-" + "a1" * 20}
CLIENT = OpenAI(**OPTIONS, http_client=DefaultHttpxClient(**HTTP))

def request(system, text):
    return {"model": "m", "messages": [{"role": "system", "content": system}, {"role": "user", "content": text}]}

def ask(system, text="hello"):
    return CLIENT.chat.completions.create(**request(system, text)).choices[0].message.content

def stream(system, text="hello"):
    chunks = CLIENT.chat.completions.create(**request(system, text), stream=True)
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks)

async def ask_async(system, text="hello"):
    async with AsyncOpenAI(**OPTIONS, http_client=DefaultAsyncHttpxClient(**HTTP)) as client:
        return (await client.chat.completions.create(**request(system, text))).choices[0].message.content
"""

TEST = """
import asyncio
from multiprocessing.pool import ThreadPool
import pytest
from sdk import ask, ask_async, stream

@pytest.mark.agent_cassette
def test_it():
    {body}
"""

CALLS = {
    "plain": "assert ask(SYSTEM) == 'echo: hello'",
    "streamed": "assert stream(SYSTEM) == 'echo: hello'",
    "async": "assert asyncio.run(ask_async(SYSTEM)) == 'echo: hello'",
    "behind-except-Exception": """
    try:
        ask(SYSTEM)
    except Exception:
        pass
    """,
    "async-behind-except-Exception": """
    async def main():
        try:
            await ask_async(SYSTEM)
        except Exception:
            pass
    asyncio.run(main())
    """,
}


@pytest.fixture(params=["anthropic", "openai"])
def sdk(request: pytest.FixtureRequest, suite: Suite, provider: Provider) -> str:
    """One SDK, its provider served, and its agent beside the tests."""
    name: str = request.param
    provider.respond = anthropic_format.echo if name == "anthropic" else echo_or_stream
    suite.pytester.makepyfile(sdk=ANTHROPIC if name == "anthropic" else OPENAI)
    return name


def write(suite: Suite, body: str, *, system: str) -> str:
    source = TEST.format(body=body.strip()).replace("SYSTEM", repr(system))
    suite.pytester.path.joinpath("test_it.py").write_text(source)
    return source


def seconds_of(result: pytest.RunResult) -> float:
    """Return how long the body of the one test took."""
    [report] = [
        report
        for report in result.reprec.getreports("pytest_runtest_logreport")  # type: ignore[attr-defined]
        if report.when == "call"
    ]
    return report.duration


@pytest.mark.parametrize("body", [pytest.param(body, id=name) for name, body in CALLS.items()])
def test_a_changed_system_prompt_stops_the_test_after_one_call(
    suite: Suite, provider: Provider, sdk: str, body: str
) -> None:
    write(suite, body, system="be kind")
    suite.record()
    provider.stop()
    write(suite, body, system="be terse")

    with mock.patch.object(Player, "ask", autospec=True, side_effect=Player.ask) as asked:
        result = suite.run("--tb=native")

    result.assert_outcomes(failed=1)
    assert asked.call_count == 1
    assert seconds_of(result) < 1 or sooner_or_later(lambda: seconds_of(suite.run()) < 1)
    lines = failure(result).splitlines()
    path = "$.system" if sdk == "anthropic" else "$.messages[0].content"
    at = lines.index(f"      {path}")
    assert lines[0] == "ReplayDivergenceError: Request changed: call 1 is not in the recording."
    assert lines[at - 1 : at + 3] == [
        "    system prompt",
        f"      {path}",
        '        recorded: "be kind"',
        '        now:      "be terse"',
    ]
    assert "  cassette  cassettes/test_it/test_it.jsonl" in lines
    [called] = [line for line in lines if line.startswith("  called    ")]
    assert called.startswith("  called    test_it.py:")
    assert " > sdk.py:" in called
    assert lines[-1].endswith("pytest test_it.py::test_it --record-mode=rewrite")
    assert len(lines) <= 60
    assert all(len(line) <= 100 for line in lines)


@pytest.mark.parametrize("careful", [False, True])
def test_in_a_thread_pool_it_stops_the_test_and_not_the_pool(
    suite: Suite, provider: Provider, sdk: str, careful: bool
) -> None:
    body = """
    def work(number):
        CALL
    with ThreadPool(3) as pool:
        pool.map(work, range(6))
    """
    careful_call = "try: ask(SYSTEM, str(number))\n        except Exception: pass"
    body = body.replace("CALL", careful_call if careful else "ask(SYSTEM, str(number))")
    write(suite, body, system="be kind")
    suite.record()
    provider.stop()
    write(suite, body, system="be terse")

    result = suite.run("--tb=native")

    result.assert_outcomes(failed=1)
    assert seconds_of(result) < 1 or sooner_or_later(lambda: seconds_of(suite.run()) < 1)
    report = failure(result)
    assert report.startswith("ReplayDivergenceError: Request changed: ")
    assert '"be kind"' in report
    assert '"be terse"' in report


def test_an_unchanged_agent_replays_with_the_provider_gone(suite: Suite, provider: Provider, sdk: str) -> None:
    body = """
    assert ask("be kind", "one") == "echo: one"
    assert stream("be kind", "two") == "echo: two"
    assert asyncio.run(ask_async("be kind", "three")) == "echo: three"
    """
    write(suite, body, system="")
    suite.record()
    provider.stop()

    result = suite.run("--tb=native")

    result.assert_outcomes(passed=1)
    assert [(line["provider"], line["operation"]) for line in suite.lines() if line["kind"] == "model"] == [
        (sdk, "chat")
    ] * 3
    assert [line["usage"] for line in suite.lines() if line["kind"] == "model" and "json" in line["response"]] == [
        {"input_tokens": 10, "output_tokens": 5}
    ] * 2


def test_no_key_of_the_clients_is_in_the_cassette(suite: Suite, sdk: str) -> None:
    write(suite, "ask('be kind')", system="")

    suite.record()

    assert b"a1a1a1" not in suite.cassette().read_bytes()
