"""The function tools of pydantic-ai."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.support.suite import Suite

FRAMEWORK = ("pydantic_ai", "pydantic_ai.models.function")
Twice = Callable[[int], list[dict[str, Any]]]

# A model that calls each tool of a list, then says what it was told.
SCRIPTED = """
from pydantic_ai.messages import ModelResponse, RetryPromptPart, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import FunctionModel


def calling(*calls):
    def respond(messages, info):
        turn = sum(isinstance(message, ModelResponse) for message in messages)
        if turn < len(calls):
            return ModelResponse(parts=[ToolCallPart(name, args, tool_call_id=f"call_{turn}_{rank}")
                                        for rank, (name, args) in enumerate(calls[turn])])
        parts = [part for message in messages for part in message.parts]
        told = [part for part in parts if isinstance(part, ToolReturnPart | RetryPromptPart)]
        return ModelResponse(parts=[TextPart("; ".join(f"{part.tool_name}={part.content}" for part in told))])

    return FunctionModel(respond)
"""


def test_each_kind_of_tool_is_recorded(suite: Suite, twice: Twice) -> None:
    suite.write(
        """
        import asyncio, datetime, pytest
        from dataclasses import dataclass
        from pydantic_ai import Agent, FunctionToolset, RunContext
        from pytest_agentreplay import recorded_tool
        from scripted import calling

        bodies = []

        @dataclass
        class Weather:
            city: str
            day: datetime.date

        def plain(city: str) -> str:
            bodies.append(city)
            return f"{city}: fine"

        async def typed(ctx: RunContext[str], city: str, day: datetime.date) -> list[Weather]:
            bodies.append(city)
            return [Weather(f"{city} {ctx.deps}", day)]

        @recorded_tool
        def decorated(city: str) -> str:
            bodies.append(city)
            return f"{city}: fine"

        toolset = FunctionToolset([plain]).prefixed("far")
        TURN = [
            ("plain", {"city": "Oslo"}),
            ("typed", {"city": "Rome", "day": "2026-01-02"}),
            ("decorated", '{"city": "Bonn"}'),
            ("far_plain", {"city": "Oslo"}),
        ]

        @pytest.mark.agent_cassette
        def test_it(agent_run):
            bodies.clear()
            agent = Agent(calling(TURN), tools=[plain, typed, decorated], toolsets=[toolset], deps_type=str)

            result = agent.run_sync("hello", deps="deep")

            assert result.output == (
                "plain=Oslo: fine; typed=[Weather(city='Rome deep', day=datetime.date(2026, 1, 2))]; "
                "decorated=Bonn: fine; far_plain=Oslo: fine"
            )
            assert len(bodies) == 4 * agent_run.is_recording
            assert len(agent_run.tool_steps) == 4
        """,
        scripted=SCRIPTED,
    )

    steps = twice(1)

    assert sorted(step["tool_use_id"] for step in steps) == [f"call_0_{rank}" for rank in range(4)]
    assert sorted(step["name"] for step in steps) == ["decorated", "plain", "plain", "typed"]


def test_what_a_tool_raises_is_raised_again(suite: Suite, twice: Twice) -> None:
    suite.write(
        """
        import asyncio, pytest
        from pydantic_ai import Agent, ApprovalRequired, DeferredToolRequests, ModelRetry
        from scripted import calling

        bodies = []

        def picky(city: str) -> str:
            bodies.append(city)
            if city == "?":
                raise ModelRetry("name a city")
            return city

        def guarded(city: str) -> str:
            bodies.append(city)
            raise ApprovalRequired(metadata={"city": city})

        async def slow(city: str) -> str:
            bodies.append(city)
            await asyncio.sleep(5)
            return city

        def broken(city: str) -> str:
            bodies.append(city)
            raise OSError(2, "gone", city)

        @pytest.fixture(autouse=True)
        def counted(agent_run):
            bodies.clear()
            yield
            assert bool(bodies) == agent_run.is_recording

        @pytest.mark.agent_cassette
        def test_a_retry():
            agent = Agent(calling([("picky", {"city": "?"})], [("picky", {"city": "Oslo"})]), tools=[picky])

            assert agent.run_sync("hello").output == "picky=name a city; picky=Oslo"

        @pytest.mark.agent_cassette
        def test_a_call_that_needs_approval():
            agent = Agent(
                calling([("guarded", {"city": "Oslo"})]), tools=[guarded], output_type=[str, DeferredToolRequests]
            )

            output = agent.run_sync("hello").output

            assert [call.tool_call_id for call in output.approvals] == ["call_0_0"]
            assert output.metadata == {"call_0_0": {"city": "Oslo"}}

        @pytest.mark.agent_cassette
        def test_a_tool_that_takes_too_long():
            agent = Agent(calling([("slow", {"city": "Oslo"})]), tools=[slow], tool_timeout=0.05)

            assert agent.run_sync("hello").output == "slow=Timed out after 0.05 seconds."

        @pytest.mark.agent_cassette
        def test_any_other_error():
            agent = Agent(calling([("broken", {"city": "Oslo"})]), tools=[broken])

            with pytest.raises(FileNotFoundError, match="gone") as caught:
                agent.run_sync("hello")

            assert caught.value.filename == "Oslo"
        """,
        scripted=SCRIPTED,
    )

    steps = twice(4)

    assert sum("error" in step for step in steps) == 4
