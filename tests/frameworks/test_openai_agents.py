"""The function tools of the OpenAI Agents SDK."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.support.suite import Suite

FRAMEWORK = ("agents",)
Twice = Callable[[int], list[dict[str, Any]]]

# A model that calls each tool of a list, then says what it was told.
SCRIPTED = """
from agents import Model, ModelResponse, Usage, set_tracing_disabled
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

set_tracing_disabled(True)


class Calling(Model):
    def __init__(self, *calls):
        self.calls = calls
        self.turn = 0

    async def get_response(self, system_instructions, input, *args, **kwargs):
        items = input if isinstance(input, list) else []
        turn, self.turn = self.turn, self.turn + 1
        if turn < len(self.calls):
            output = [
                ResponseFunctionToolCall(
                    name=name, arguments=arguments, call_id=f"call_{turn}_{rank}", type="function_call"
                )
                for rank, (name, arguments) in enumerate(self.calls[turn])
            ]
        else:
            told = [str(item["output"]) for item in items if item.get("type") == "function_call_output"]
            text = ResponseOutputText(annotations=[], text="; ".join(told), type="output_text")
            output = [
                ResponseOutputMessage(id="m", content=[text], role="assistant", status="completed", type="message")
            ]
        return ModelResponse(output=output, usage=Usage(), response_id=None)

    def stream_response(self, *args, **kwargs):
        raise NotImplementedError
"""


def test_each_kind_of_tool_is_recorded(suite: Suite, twice: Twice) -> None:
    suite.write(
        """
        import pytest
        from agents import Agent, FunctionTool, RunContextWrapper, Runner, ToolOutputText, function_tool
        from pytest_agentreplay import recorded_tool
        from scripted import Calling

        bodies = []

        @function_tool
        def plain(city: str) -> str:
            bodies.append(city)
            return f"{city}: fine"

        @function_tool
        async def structured(ctx: RunContextWrapper[str], city: str) -> list[ToolOutputText]:
            bodies.append(city)
            return [ToolOutputText(text=f"{city} {ctx.context}")]

        @function_tool
        @recorded_tool(name="other_name")
        def decorated(city: str) -> str:
            bodies.append(city)
            return f"{city}: fine"

        async def by_hand(ctx, arguments):
            bodies.append(arguments)
            return "by hand"

        hand_made = FunctionTool("hand_made", "By hand.", {"type": "object", "properties": {}}, by_hand)
        TURN = [
            ("plain", '{"city": "Oslo"}'),
            ("structured", '{"city": "Rome"}'),
            ("decorated", '{"city": "Bonn"}'),
            ("hand_made", ""),
        ]

        @pytest.mark.agent_cassette
        def test_it(agent_run):
            bodies.clear()
            agent = Agent("a", model=Calling(TURN), tools=[plain, structured, decorated, hand_made])

            result = Runner.run_sync(agent, "hello", context="deep")

            assert result.final_output == (
                "Oslo: fine; [{'type': 'input_text', 'text': 'Rome deep'}]; Bonn: fine; by hand"
            )
            assert len(bodies) == 4 * agent_run.is_recording
            assert len(agent_run.tool_steps) == 4
        """,
        scripted=SCRIPTED,
    )

    steps = twice(1)

    assert sorted(step["tool_use_id"] for step in steps) == [f"call_0_{rank}" for rank in range(4)]
    assert sorted(step["name"] for step in steps) == ["decorated", "hand_made", "plain", "structured"]


def test_errors_and_time_limits_reach_the_model_as_they_did(suite: Suite, twice: Twice) -> None:
    suite.write(
        """
        import asyncio, pytest
        from agents import Agent, Runner, function_tool
        from scripted import Calling

        bodies = []

        @function_tool
        def broken(city: str) -> str:
            bodies.append(city)
            raise KeyError(city)

        @function_tool(failure_error_function=lambda ctx, error: f"told: {error!r}")
        def told(city: str) -> str:
            bodies.append(city)
            raise KeyError(city)

        @function_tool(failure_error_function=None)
        def raising(city: str) -> str:
            bodies.append(city)
            raise KeyError(city)

        @function_tool(timeout=0.05)
        async def slow(city: str) -> str:
            bodies.append(city)
            await asyncio.sleep(5)

        def run(name, arguments='{"city": "Oslo"}'):
            agent = Agent("a", model=Calling([(name, arguments)]), tools=[broken, told, raising, slow])
            return Runner.run_sync(agent, "hello").final_output

        @pytest.mark.agent_cassette
        def test_an_error_that_the_model_is_told(agent_run):
            bodies.clear()

            assert run("broken") == "An error occurred while running the tool. Please try again."
            assert run("told") == "told: KeyError('Oslo')"
            assert "timed out" in run("slow")
            assert run("broken", "{") == "An error occurred while running the tool. Please try again."
            assert len(bodies) == 3 * agent_run.is_recording
            assert [step.is_error for step in agent_run.tool_steps] == [True, False, True, True]

        @pytest.mark.agent_cassette
        def test_an_error_that_ends_the_run(agent_run):
            bodies.clear()

            with pytest.raises(Exception) as caught:
                run("raising")

            assert "KeyError" in repr(caught.value) + repr(caught.value.__cause__)
            assert len(bodies) == agent_run.is_recording
        """,
        scripted=SCRIPTED,
    )

    assert len(twice(2)) == 5


def test_an_agent_that_is_a_tool_runs_in_replay(suite: Suite, twice: Twice) -> None:
    suite.write(
        """
        import pytest
        from agents import Agent, Runner, function_tool
        from scripted import Calling

        bodies = []

        @function_tool
        def look_up(city: str) -> str:
            bodies.append(city)
            return f"{city}: fine"

        @pytest.mark.agent_cassette
        def test_it(agent_run):
            bodies.clear()
            inner = Agent("inner", model=Calling([("look_up", '{"city": "Oslo"}')]), tools=[look_up])
            tool = inner.as_tool("research", "Ask another agent.")
            outer = Agent("outer", model=Calling([("research", '{"input": "Oslo?"}')]), tools=[tool])

            assert Runner.run_sync(outer, "hello").final_output == "Oslo: fine"
            assert len(bodies) == agent_run.is_recording
            assert sorted(agent_run.tools_called) == ["look_up", "research"]
        """,
        scripted=SCRIPTED,
    )

    steps = {step["name"]: step for step in twice(1)}

    assert steps["look_up"]["parent"] == steps["research"]["id"]
