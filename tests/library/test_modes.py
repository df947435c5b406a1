"""``warn`` and ``hybrid`` with sub-agents, parallel conversations, streams and real SDKs; a server counts."""

from __future__ import annotations

import asyncio
import json
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import openai
import pytest

from pytest_agentreplay import (
    ReplayDivergenceError,
    ReplayDivergenceWarning,
    event_stream,
    load_cassette,
    recorded_tool,
    use_cassette,
)
from pytest_agentreplay.cli import main
from tests.support import anthropic as messages_api
from tests.support.agent import Desk, asking_for, echo_or_stream
from tests.support.server import Answer, Seen
from tests.support.suite import Provider


@pytest.fixture
def provider(provider: Provider) -> Provider:
    """A provider of chat completions and of Anthropic's messages."""
    provider.respond = lambda seen: (messages_api.echo if "/messages" in seen.path else echo_or_stream)(seen)
    return provider


@pytest.fixture
def unchanged(path: Path, provider: Provider) -> Iterator[Callable[[], list[str]]]:
    """Give what was asked live since the cassette was recorded, and see at the end that it is as it was."""
    state: dict[str, Any] = {}

    def since() -> list[str]:
        if "seen" not in state:
            state.update(seen=len(provider.seen), connections=provider.server.connections, cassette=path.read_bytes())
        asked = [request.json()["messages"][-1]["content"] for request in provider.seen[state["seen"] :]]
        assert provider.server.connections - state["connections"] == len(asked)
        return asked

    yield since
    assert path.read_bytes() == state["cassette"]


@contextmanager
def warned() -> Iterator[list[str]]:
    """Collect what is warned of."""
    told: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield told
    told += [str(warning.message) for warning in caught if warning.category is ReplayDivergenceWarning]


def two_turns(desk: Desk, topic: str, *, system: str = "brief", follow_up: str = "more") -> list[str]:
    """Ask twice in one conversation."""
    opening = [{"role": "system", "content": system}, f"about {topic}"]
    first = desk.ask(*opening)
    return [first, desk.ask(*opening, {"role": "assistant", "content": first}, f"{follow_up} of {topic}")]


def at_once(desk: Desk, **changes: dict[str, str]) -> dict[str, list[str]]:
    """Have three conversations in three threads, some of them changed."""
    topics = ("tea", "pots", "cups")
    with ThreadPoolExecutor(3) as pool:
        found = pool.map(lambda topic: two_turns(desk, topic, **changes.get(topic, {})), topics)
        return dict(zip(topics, found, strict=True))


def test_warn_steps_through_parallel_conversations_and_never_connects(
    path: Path, desk: Desk, unchanged: Callable[[], list[str]]
) -> None:
    with use_cassette(path, record_mode="once"):
        live = at_once(desk)
    assert unchanged() == []

    with warned() as told, use_cassette(path, replay="warn"):
        replayed = at_once(desk, **{topic: {"system": "kind"} for topic in live})

    assert replayed == live
    assert unchanged() == []
    assert len(told) == 1  # one change, however many conversations have it


def test_hybrid_goes_live_in_the_conversation_that_differs_alone(
    path: Path, desk: Desk, unchanged: Callable[[], list[str]]
) -> None:
    with use_cassette(path, record_mode="once"):
        live = at_once(desk)
    assert unchanged() == []
    block = use_cassette(path, replay="hybrid")

    with block:
        replayed = at_once(desk, pots={"follow_up": "less"})

    assert replayed == {**live, "pots": [live["pots"][0], "echo: less of pots"]}
    assert unchanged() == ["less of pots"]
    assert block.outcome is not None
    assert (block.outcome.action, block.outcome.made) == ("continued", 1)
    assert block.outcome.tape is not None
    assert len(load_cassette(block.outcome.tape).exchanges) == 6
    assert main(["verify", str(block.outcome.tape)]) == 0


def test_hybrid_does_not_connect_before_the_first_miss(
    path: Path, desk: Desk, provider: Provider, unchanged: Callable[[], list[str]]
) -> None:
    with use_cassette(path, record_mode="once"):
        two_turns(desk, "tea")
    counted = [unchanged()]

    with use_cassette(path, replay="hybrid"):
        opening = [{"role": "system", "content": "brief"}, "about tea"]
        first = desk.ask(*opening)
        counted.append(unchanged())
        desk.ask(*opening, {"role": "assistant", "content": first}, "something else")

    assert counted == [[], []]
    assert unchanged() == ["something else"]


@pytest.mark.parametrize("mode", ["warn", "hybrid"])
def test_a_known_run_is_served_whole_in_either_mode(
    path: Path, desk: Desk, unchanged: Callable[[], list[str]], mode: str
) -> None:
    with use_cassette(path, record_mode="once"):
        live = at_once(desk)
    unchanged()

    with warned() as told, use_cassette(path, replay=mode):
        replayed = at_once(desk)

    assert replayed == live
    assert told == unchanged() == []
    assert sorted(found.name for found in path.parent.iterdir()) == ["run.jsonl"]


def test_a_stream_stands_in_for_a_stream_in_the_pieces_it_came_in(
    path: Path, desk: Desk, unchanged: Callable[[], list[str]]
) -> None:
    with use_cassette(path, record_mode="once"):
        live = desk.pieces("one")
    unchanged()

    with warned() as told, use_cassette(path, replay="warn"):
        replayed = desk.pieces("other")

    assert replayed == live == ["echo", ": one"]
    assert len(told) == 1
    assert unchanged() == []


def test_a_plain_answer_never_stands_in_for_a_stream(
    path: Path, desk: Desk, unchanged: Callable[[], list[str]]
) -> None:
    with use_cassette(path, record_mode="once"):
        desk.ask("one")
    unchanged()

    with pytest.raises(ReplayDivergenceError, match=r"\$\.stream"), use_cassette(path, replay="warn"):
        desk.pieces("one")

    assert unchanged() == []


def test_hybrid_tees_a_live_stream_to_its_tape(path: Path, desk: Desk, unchanged: Callable[[], list[str]]) -> None:
    with use_cassette(path, record_mode="once"):
        desk.pieces("one")
    unchanged()
    block = use_cassette(path, replay="hybrid")

    with block:
        said = [desk.pieces("one"), desk.pieces("other")]

    assert said == [["echo", ": one"], ["echo", ": other"]]
    assert unchanged() == ["other"]
    assert block.outcome is not None
    with use_cassette(str(block.outcome.tape)):
        assert [desk.pieces("one"), desk.pieces("other")] == said


def claude(desk: Desk, text: str, *, system: str = "brief", stream: bool = False) -> str:
    """Ask through Anthropic's SDK."""
    with anthropic.Anthropic(base_url=desk.url, api_key="none", max_retries=2) as client:
        given: Any = {"model": "claude", "max_tokens": 9, "system": system}
        messages: Any = [{"role": "user", "content": text}]
        if not stream:
            return client.messages.create(messages=messages, **given).content[0].text  # type: ignore[union-attr]
        with client.messages.stream(messages=messages, **given) as events:
            return "".join(events.text_stream)


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
def test_warn_steps_through_anthropics_sdk(
    path: Path, desk: Desk, unchanged: Callable[[], list[str]], stream: bool
) -> None:
    with use_cassette(path, record_mode="once"):
        claude(desk, "one", stream=stream)
    unchanged()

    with warned() as told, use_cassette(path, replay="warn"):
        said = claude(desk, "one", system="kind", stream=stream)

    assert said == "echo: one"
    assert len(told) == 1
    assert "$.system" in told[0]
    assert unchanged() == []


def test_hybrid_goes_live_through_anthropics_sdk_and_never_twice(
    path: Path, desk: Desk, unchanged: Callable[[], list[str]]
) -> None:
    with use_cassette(path, record_mode="once"):
        claude(desk, "one")
        claude(desk, "two", stream=True)
    unchanged()

    with use_cassette(path, replay="hybrid"):
        said = [claude(desk, "one"), claude(desk, "two", stream=True), claude(desk, "three", stream=True)]

    assert said == ["echo: one", "echo: two", "echo: three"]
    assert unchanged() == ["three"]


def test_an_async_sdk_goes_live_in_the_conversation_that_differs(
    path: Path, desk: Desk, unchanged: Callable[[], list[str]]
) -> None:
    async def ask(*texts: str) -> list[str]:
        http = httpx2.AsyncClient(trust_env=False)
        async with openai.AsyncOpenAI(base_url=f"{desk.url}/v1", api_key="none", http_client=http) as client:
            asking = [
                client.chat.completions.create(model="m", messages=[{"role": "user", "content": text}])
                for text in texts
            ]
            return [str(answer.choices[0].message.content) for answer in await asyncio.gather(*asking)]

    with use_cassette(path, record_mode="once"):
        asyncio.run(ask("a", "b", "c"))
    unchanged()

    with use_cassette(path, replay="hybrid", unplayed="ignore"):
        said = asyncio.run(ask("a", "other", "c"))

    assert said == ["echo: a", "echo: other", "echo: c"]
    assert unchanged() == ["other"]


def researchers(desk: Desk, **changes: dict[str, str]) -> dict[str, Any]:
    """Return two sub-agents, whose bodies run in replay too, and a tool of theirs."""
    ran: list[str] = []

    @recorded_tool
    def search(topic: str) -> str:
        ran.append(topic)
        return f"pages on {topic}"

    @recorded_tool(subagent=True)
    def research(topic: str) -> str:
        found = two_turns(desk, topic, **changes.get(topic, {}))
        return f"{search(topic)}: {found[-1]}"

    def run() -> list[str]:
        with ThreadPoolExecutor(2) as pool:
            return list(pool.map(research, ("tea", "pots")))

    return {"run": run, "ran": ran}


def test_hybrid_goes_live_in_the_sub_agent_that_differs_alone(
    path: Path, desk: Desk, unchanged: Callable[[], list[str]]
) -> None:
    with use_cassette(path, record_mode="once"):
        researchers(desk)["run"]()
    unchanged()
    changed = researchers(desk, pots={"follow_up": "less"})
    block = use_cassette(path, replay="hybrid")

    with block:
        said = changed["run"]()

    assert said == ["pages on tea: echo: more of tea", "pages on pots: echo: less of pots"]
    assert changed["ran"] == []
    assert unchanged() == ["less of pots"]
    assert block.outcome is not None
    with use_cassette(str(block.outcome.tape)):
        assert researchers(desk, pots={"follow_up": "less"})["run"]() == said


def test_warn_steps_through_sub_agents(path: Path, desk: Desk, unchanged: Callable[[], list[str]]) -> None:
    with use_cassette(path, record_mode="once"):
        live = researchers(desk)["run"]()
    unchanged()
    changed = researchers(desk, tea={"system": "kind"}, pots={"system": "kind"})

    with warned() as told, use_cassette(path, replay="warn"):
        said = changed["run"]()

    assert said == live
    assert changed["ran"] == []
    assert len(told) == 1
    assert unchanged() == []


def test_a_call_that_a_live_model_asks_for_by_another_id_is_told_once(
    path: Path, desk: Desk, provider: Provider
) -> None:
    @recorded_tool
    def weather(city: str) -> str:
        return f"sun in {city}"

    provider.respond = asking_for(("weather", {"city": "Rome"}))
    with use_cassette(path, record_mode="once"):
        desk.run("Rome?", {"weather": weather})
    provider.respond = with_other_ids(provider.respond)
    block = use_cassette(path, replay="hybrid")

    with block as run:
        desk.run("Rome, please?", {"weather": weather})

    assert block.outcome is not None
    assert block.outcome.tape is not None
    events = event_stream(load_cassette(block.outcome.tape))
    told = [event for event in events if "sun in Rome" in json.dumps(event) and "result" in event]
    assert len(told) == 1
    assert run.tools_called == ["weather"]
    assert [step.tool_use_id for step in run.tool_steps] == ["fresh_0"]


def with_other_ids(respond: Callable[[Seen], Answer]) -> Callable[[Seen], Answer]:
    def answer(seen: Seen) -> Answer:
        given = respond(seen)
        return Answer(headers=given.headers, body=given.body.replace(b"call_", b"fresh_"))

    return answer
