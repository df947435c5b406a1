"""The responses API through OpenAI's own SDK: recorded once, replayed when the provider is gone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import openai.types.responses  # noqa: F401 - loaded before the suites run in this process
import pytest

from pytest_agentreplay.cli import main
from tests.support.openai_responses import Responses, calls, response, says, stream_answer, stream_of
from tests.support.server import Answer, Seen
from tests.support.suite import Provider, Suite, failure, providing

SDK = """
import os
import httpx2
from openai import AsyncOpenAI, DefaultAsyncHttpxClient, DefaultHttpxClient, OpenAI

HTTP = {"verify": False, "limits": httpx2.Limits(max_keepalive_connections=0)}
OPTIONS = {"base_url": os.environ["PROVIDER_URL"] + "/v1", "api_key": "sk-" + "a1" * 20, "max_retries": 0}
CLIENT = OpenAI(**OPTIONS, http_client=DefaultHttpxClient(**HTTP))
TOOL = {"type": "function", "name": "weather", "parameters": {"type": "object"}, "strict": False}


def open_client():
    return AsyncOpenAI(**OPTIONS, http_client=DefaultAsyncHttpxClient(**HTTP))


def say(*things):
    print("\\nsaid", *things)


def create(**fields):
    return CLIENT.responses.create(model="m", **fields)
"""


@pytest.fixture
def provider() -> Iterator[Provider]:
    with providing(Responses()) as running:
        yield running


@pytest.fixture
def replay(suite: Suite, provider: Provider) -> Any:
    """Write a suite, record it, stop the provider, replay it, and return what the suite printed both times."""

    def run(test: str, *, passed: int) -> tuple[str, str]:
        suite.write("import pytest\nfrom sdk import *\npytestmark = pytest.mark.agent_cassette\n" + test, sdk=SDK)
        runs = [suite.run("--record-mode=once", "-s")]
        provider.stop()
        runs.append(suite.run("-s"))
        for result in runs:
            result.assert_outcomes(passed=passed)
        recorded, replayed = ("\n".join(line for line in run.outlines if line.startswith("said")) for run in runs)
        return recorded, replayed

    return run


def steps(suite: Suite, name: str = "test_it") -> list[dict[str, Any]]:
    return [line for line in suite.lines(f"test_it/{name}.jsonl") if line["kind"] in ("model", "http", "tool")]


def test_every_way_to_ask_is_replayed_with_what_was_recorded(suite: Suite, replay: Any) -> None:
    recorded, replayed = replay(
        """
import asyncio
from pydantic import BaseModel

class Place(BaseModel):
    city: str

HELLO = {"model": "m", "input": [{"role": "user", "content": "hello there"}], "instructions": "Be brief."}

def test_plain():
    say(CLIENT.responses.create(**HELLO).model_dump_json())

def test_streamed():
    for event in CLIENT.responses.create(**HELLO, stream=True):
        say(event.model_dump_json(exclude_none=True))

def test_the_stream_helper():
    with CLIENT.responses.stream(**HELLO) as stream:
        text = "".join(event.delta for event in stream if event.type == "response.output_text.delta")
        assert text == "echo: hello there"
        say(stream.get_final_response().model_dump_json())

def test_parsed():
    answer = CLIENT.responses.parse(**HELLO, text_format=Place)
    assert answer.output_parsed == Place(city="Paris")
    say(answer.id)

def test_async():
    async def main():
        async with open_client() as client:
            say((await client.responses.create(**HELLO)).model_dump_json())
            async with client.responses.stream(**HELLO) as stream:
                async for event in stream:
                    say(event.type)
            say((await client.responses.parse(**HELLO, text_format=Place)).output_parsed)
    asyncio.run(main())
""",
        passed=5,
    )

    assert recorded.count("resp_") > 5
    assert replayed == recorded
    [plain] = steps(suite, "test_plain")
    assert (plain["kind"], plain["provider"], plain["operation"]) == ("model", "openai", "responses")
    assert plain["usage"] == {
        "input_tokens": 20,
        "output_tokens": 7,
        "cache_read_input_tokens": 8,
        "cache_creation_input_tokens": 2,
        "reasoning_tokens": 3,
    }
    for name in ("test_streamed", "test_the_stream_helper", "test_parsed"):
        assert [step["usage"] for step in steps(suite, name)] == [plain["usage"]]


CONVERSATION = """
from pytest_agentreplay import recorded_tool

@recorded_tool
def weather(city: str) -> str:
    return f"{city}: fine"

def test_it(agent_run):
    first = create(input="What is it like in Paris?", tools=[TOOL])
    call = first.output[-1]
    result = {"type": "function_call_output", "call_id": call.call_id, "output": weather(city="Paris")}
    second = create(input=[result], tools=[TOOL], previous_response_id=first.id)
    third = create(input="Thanks!", previous_response_id=second.id)
    say(first.id, second.output_text, third.output_text)
    [step] = agent_run.tool_steps
    assert step.tool_use_id == call.call_id
    assert agent_run.turns == 3
    assert agent_run.usage.reasoning_tokens == 9
    assert [len(chain) for chain in agent_run.hash_chain.values()] == [3]
"""


def test_a_conversation_that_the_provider_remembers_is_one_lane(suite: Suite, replay: Any) -> None:
    recorded, replayed = replay(CONVERSATION, passed=1)

    assert "echo: Paris: fine echo: Thanks!" in recorded
    assert replayed == recorded
    kinds = [(step["kind"], step["lane"]) for step in steps(suite)]
    assert [kind for kind, _ in kinds] == ["model", "tool", "model", "model"]
    assert len({lane for _, lane in kinds}) == 1


def test_a_call_that_nobody_wrapped_is_told_by_the_conversation(suite: Suite, replay: Any) -> None:
    recorded, replayed = replay(
        CONVERSATION.replace("@recorded_tool\n", "") + "    say(step.source, step.name, step.arguments, step.result)\n",
        passed=1,
    )

    assert "said transcript weather {'city': 'Paris'} Paris: fine" in recorded
    assert replayed == recorded


def test_two_conversations_that_opened_alike_go_on_from_their_own_answers(suite: Suite, replay: Any) -> None:
    recorded, replayed = replay(
        """
def test_it(agent_run):
    opened = [create(input="hello") for _ in range(2)]
    for first in reversed(opened):
        say(create(input="go on", previous_response_id=first.id).previous_response_id == first.id)
    assert sorted(len(chain) for chain in agent_run.hash_chain.values()) == [2, 2]
""",
        passed=1,
    )

    assert replayed == recorded


@pytest.mark.parametrize("source", ["wrapped", "transcript"])
def test_a_response_in_the_background_is_waited_for_and_gone_on_from(
    suite: Suite, replay: Any, capsys: pytest.CaptureFixture[str], source: str
) -> None:
    test = """
WRAPPED
def weather(city: str) -> str:
    return f"{city}: fine"

def test_it(agent_run):
    first, polls = create(input="hello", tools=[TOOL], background=True), 0
    while first.status in ("queued", "in_progress"):
        first, polls = CLIENT.responses.retrieve(first.id), polls + 1
    CLIENT.responses.retrieve(first.id)
    call = first.output[-1]
    result = {"type": "function_call_output", "call_id": call.call_id, "output": weather(city="Paris")}
    second = create(input=[result], previous_response_id=first.id)
    say(polls, call.name, second.output_text, second.id)
    assert [(step.tool_use_id, step.source) for step in agent_run.tool_steps] == [(call.call_id, "SOURCE")]
    assert [len(chain) for chain in agent_run.hash_chain.values()] == [5]
    assert (agent_run.turns, agent_run.usage.input_tokens) == (2, 40)
"""
    wrapped = "from pytest_agentreplay import recorded_tool\n@recorded_tool" if source == "wrapped" else ""
    test = test.replace("SOURCE", source).replace("WRAPPED", wrapped)

    recorded, replayed = replay(test, passed=1)
    capsys.readouterr()
    main(["show", str(suite.cassette())])

    assert "said 2 weather echo: Paris: fine" in recorded
    assert replayed == recorded
    assert capsys.readouterr().out.count('assistant  weather(city="Paris")') == 1


def test_the_other_endpoints_are_replayed(suite: Suite, replay: Any) -> None:
    recorded, replayed = replay(
        """
def test_it(agent_run):
    asked = [{"role": "user", "content": "hello"}]
    first = create(input=asked)
    cancelled = CLIENT.responses.cancel(create(input="slow", background=True).id)
    said = [*asked, {"role": "assistant", "content": first.output_text}]
    compacted = CLIENT.responses.compact(model="m", input=said)
    kept = [item.model_dump(exclude_none=True) for item in compacted.output]
    second = create(input=[*kept, {"role": "user", "content": "go on"}])
    CLIENT.responses.delete(first.id)
    say(cancelled.status, compacted.id, second.output_text)
    assert [len(chain) for chain in agent_run.hash_chain.values()][0] == 3
    assert agent_run.usage.input_tokens == 60
""",
        passed=1,
    )

    assert "said cancelled resp_" in recorded
    assert replayed == recorded
    compaction = next(step for step in steps(suite) if step.get("operation") == "compact")
    assert compaction["kind"] == "model"


def test_a_stream_that_is_given_up_is_replayed_as_far_as_it_came(suite: Suite, provider: Provider, replay: Any) -> None:
    recorded, replayed = replay(
        """
def test_it(agent_run):
    with CLIENT.responses.create(model="m", input="hello", stream=True) as events:
        for event in events:
            say(event.model_dump_json(exclude_none=True))
            if event.type == "response.output_text.delta":
                break
    assert agent_run.turns == 1
""",
        passed=1,
    )

    assert replayed == recorded
    [step] = steps(suite)
    assert step["response"]["truncated"] is True


def test_an_agent_that_stops_at_the_last_event_has_its_whole_answer(suite: Suite, replay: Any) -> None:
    replay(
        """
def test_it(agent_run):
    with CLIENT.responses.create(model="m", input="hello " * 200, stream=True) as events:
        for event in events:
            if event.type == "response.completed":
                break
    say(agent_run.usage)
""",
        passed=1,
    )

    [step] = steps(suite)
    assert "truncated" not in step["response"]
    assert step["usage"]["output_tokens"] == 7


def test_a_failure_in_a_stream_is_replayed_and_shown(
    suite: Suite, provider: Provider, replay: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    def respond(seen: Seen) -> Answer:
        text = seen.json()["input"]
        if text == "limit":
            cut_off = response(says("so far"), status="incomplete", incomplete_details={"reason": "max_output_tokens"})
            return stream_answer(stream_of(cut_off))
        error = {"code": "server_error", "message": "it broke"}
        if text == "fail":
            return stream_answer(stream_of(response(status="failed", error=error)))
        return stream_answer([*stream_of(response(says("x")))[:3], {"type": "error", "param": None, **error}])

    provider.respond = respond

    recorded, replayed = replay(
        """
import openai

def test_it():
    for text in ("limit", "fail", "break"):
        try:
            for event in CLIENT.responses.create(model="m", input=text, stream=True):
                say(event.model_dump_json(exclude_none=True))
        except openai.APIError as error:
            say(type(error), error)
""",
        passed=1,
    )
    capsys.readouterr()
    main(["show", str(suite.cassette())])
    shown = capsys.readouterr().out

    assert recorded.count("it broke") >= 2
    assert replayed == recorded
    assert [line.split()[-1] for line in shown.splitlines() if "server_error" in line] == ["broke", "broke"]
    assert "max_output_tokens" in shown


def test_a_secret_that_a_stream_splits_is_redacted_everywhere(suite: Suite, provider: Provider, replay: Any) -> None:
    secret = "sk-proj-" + "b2C4" * 12

    def respond(seen: Seen) -> Answer:
        return stream_answer(stream_of(response(says(f"Your key is {secret}."), calls("keep", password="hunter2!x"))))

    provider.respond = respond

    replay(
        """
def test_it():
    with CLIENT.responses.stream(model="m", input="hello") as events:
        for event in events:
            pass
    say(events.get_final_response().output_text)
""",
        passed=1,
    )

    [step] = steps(suite)
    events = "".join(step["response"]["events"])
    assert secret not in events
    assert "hunter2" not in json.dumps(step)
    told = [json.loads(line[6:]) for line in events.splitlines() if line.startswith("data: ")]
    pieces = [event["delta"] for event in told if event["type"] == "response.output_text.delta"]
    assert "".join(pieces) == told[-1]["response"]["output"][0]["content"][0]["text"]


def test_a_changed_item_is_told_by_what_it_concerns(suite: Suite) -> None:
    test = """
import pytest
from sdk import *

@pytest.mark.agent_cassette
def test_it():
    first = create(input="hello", tools=[TOOL])
    result = {"type": "function_call_output", "call_id": first.output[-1].call_id, "output": "fine"}
    create(input=[result], previous_response_id=first.id)
"""
    suite.write(test, sdk=SDK)
    suite.record()
    suite.write(test.replace("fine", "rain"))

    report = failure(suite.run())

    assert "nearest   responses m" in report
    assert '    tool result\n      $.input[0].output\n        recorded: "fine"\n        now:      "rain"' in report
