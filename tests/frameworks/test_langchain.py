"""LangChain's tools, and LangGraph's graphs that call them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.support.suite import Suite, failure

FRAMEWORK = ("langgraph.prebuilt", "langchain_core.documents.base", "langchain_core.language_models")
Twice = Callable[[int], list[dict[str, Any]]]


def test_each_way_to_call_a_tool_is_recorded(suite: Suite, twice: Twice) -> None:
    suite.write(
        """
        import asyncio
        import pytest
        from langchain_core.tools import BaseTool, StructuredTool, Tool, tool

        bodies = []

        def weather(city: str, days: int = 1) -> str:
            "Tell the weather."
            bodies.append(city)
            return f"{city}: {days} fine"

        async def aweather(city: str, days: int = 1) -> str:
            "Tell the weather."
            return weather(city, days)

        class Weather(BaseTool):
            name: str = "weather"
            description: str = "Tell the weather."

            def _run(self, city: str) -> str:
                return weather(city)

        CALL = {"type": "tool_call", "id": "call_1", "name": "weather", "args": {"city": "Oslo", "days": 2}}
        WAYS = {
            "invoke": lambda: tool(weather).invoke({"city": "Oslo"}),
            "tool_call": lambda: tool(weather).invoke(CALL).content,
            "run": lambda: tool(weather).run("Oslo"),
            "single_input": lambda: Tool("weather", weather, "Tell the weather.").invoke("Oslo"),
            "ainvoke": lambda: asyncio.run(tool(weather).ainvoke({"city": "Oslo"})),
            "arun": lambda: asyncio.run(tool(weather).arun({"city": "Oslo"})),
            "coroutine": lambda: asyncio.run(StructuredTool.from_function(coroutine=aweather).ainvoke(CALL)).content,
            "subclass": lambda: Weather().invoke({"city": "Oslo"}),
            "async_subclass": lambda: asyncio.run(Weather().ainvoke({"city": "Oslo"})),
            "batch": lambda: tool(weather).batch([{"city": "Oslo"}])[0],
        }

        @pytest.mark.agent_cassette
        @pytest.mark.parametrize("way", WAYS)
        def test_it(way, agent_run):
            bodies.clear()

            result = WAYS[way]()

            assert result == ("Oslo: 2 fine" if way in ("tool_call", "coroutine") else "Oslo: 1 fine")
            assert len(bodies) == agent_run.is_recording
            assert len(agent_run.tool_steps) == 1
        """
    )

    steps = twice(10)

    assert len(steps) == 10
    assert {step.get("tool_use_id") for step in steps} == {None, "call_1"}
    assert {step["result"] for step in steps} == {"Oslo: 1 fine", "Oslo: 2 fine"}


def test_errors_are_handled_in_replay_as_they_were(suite: Suite, twice: Twice) -> None:
    suite.write(
        """
        import pytest
        from langchain_core.tools import ToolException, tool

        @tool
        def look_up(order: str) -> str:
            "Look an order up."
            if order == "none":
                raise ToolException("no such order")
            raise KeyError(order)

        def told(error):
            return f"told: {error}"

        @pytest.mark.agent_cassette
        def test_an_error_that_the_tool_hands_on():
            look_up.handle_tool_error = told

            assert look_up.invoke({"order": "none"}) == "told: no such order"
            call = {"type": "tool_call", "id": "call_1", "name": "look_up", "args": {"order": "none"}}
            assert (look_up.invoke(call).content, look_up.invoke(call).status) == ("told: no such order", "error")

        @pytest.mark.agent_cassette
        def test_an_error_that_nobody_handles():
            with pytest.raises(KeyError, match="'A-1'") as caught:
                look_up.invoke({"order": "A-1"})

            assert caught.value.args == ("A-1",)

        @pytest.mark.agent_cassette
        def test_arguments_that_do_not_fit_are_no_call(agent_run):
            with pytest.raises(ValueError, match="order"):
                look_up.invoke({"orders": 1})

            assert agent_run.tools_called == []
        """
    )

    steps = twice(3)

    assert sorted(step["error"]["type"].partition(":")[2] for step in steps) == ["KeyError", *["ToolException"] * 3]


def test_callbacks_hear_of_a_tool_in_replay_too(suite: Suite, twice: Twice) -> None:
    suite.write(
        """
        import pytest
        from langchain_core.callbacks import BaseCallbackHandler
        from langchain_core.tools import tool

        class Handler(BaseCallbackHandler):
            def __init__(self):
                self.heard = []

            def on_tool_start(self, serialized, input_str, **kwargs):
                self.heard.append(("start", serialized["name"], kwargs["inputs"]))

            def on_tool_end(self, output, **kwargs):
                self.heard.append(("end", output))

        @tool
        def weather(city: str) -> str:
            "Tell the weather."
            return f"{city}: fine"

        @pytest.mark.agent_cassette
        def test_it():
            handler = Handler()

            weather.invoke({"city": "Oslo"}, {"callbacks": [handler]})

            assert handler.heard == [("start", "weather", {"city": "Oslo"}), ("end", "Oslo: fine")]
        """
    )

    assert len(twice(1)) == 1


def test_results_come_back_with_their_types(suite: Suite, twice: Twice) -> None:
    suite.write(
        """
        import datetime, pytest
        from langchain_core.documents import Document
        from langchain_core.messages import ToolMessage
        from langchain_core.tools import tool
        from langgraph.types import Command

        CALL = {"type": "tool_call", "id": "call_1", "args": {}}
        DAY = datetime.date(2026, 1, 2)

        @tool(response_format="content_and_artifact")
        def search():
            "Find documents."
            return "two found", [Document("one", metadata={"day": DAY}), Document("two")]

        @tool
        def hand_over():
            "Go to another agent."
            update = {"messages": [ToolMessage("ok", tool_call_id="1")]}
            return Command(goto="other", graph=Command.PARENT, update=update)

        @pytest.mark.agent_cassette
        def test_an_artifact():
            message = search.invoke({**CALL, "name": "search"})

            assert message.content == "two found"
            assert message.artifact == [Document("one", metadata={"day": DAY}), Document("two")]

        @pytest.mark.agent_cassette
        def test_a_command():
            command = hand_over.invoke({**CALL, "name": "hand_over"})

            assert (command.goto, command.graph) == ("other", "__parent__")
            assert command.update == {"messages": [ToolMessage("ok", tool_call_id="1")]}
        """
    )

    assert len(twice(2)) == 2


def test_a_result_that_would_not_come_back_is_refused(suite: Suite) -> None:
    suite.write(
        """
        import pytest
        from langchain_core.tools import tool

        class Handle:
            pass

        @tool
        def connect():
            "Open a connection."
            return {"handle": Handle()}

        @pytest.mark.agent_cassette
        def test_it():
            connect.invoke({})
        """
    )

    result = suite.run("--record-mode=once")

    result.assert_outcomes(failed=1)
    assert "The result of tool 'connect' cannot be recorded: a value of type test_it:Handle" in failure(result)


def test_a_graph_runs_its_tools_from_the_recording(suite: Suite, twice: Twice) -> None:
    suite.write(
        """
        import pytest
        from typing import Annotated
        from langchain_core.language_models import GenericFakeChatModel
        from langchain_core.messages import AIMessage
        from langchain_core.tools import tool
        from langgraph.checkpoint.memory import InMemorySaver
        from langgraph.graph import START, MessagesState, StateGraph
        from langgraph.prebuilt import InjectedState, ToolNode
        from langgraph.types import Command, interrupt

        bodies = []

        @tool
        def count(word: str, state: Annotated[dict, InjectedState]) -> str:
            "Count the messages."
            bodies.append("count")
            return f"{word} {len(state['messages'])}"

        @tool
        def refund(amount: int) -> str:
            "Refund, if a person says so twice."
            bodies.append("refund")
            first = interrupt(f"refund {amount}?")
            second = interrupt("sure?")
            return f"{first}, {second}"

        def graph(*calls):
            asked = AIMessage("", tool_calls=[{"name": n, "args": a, "id": f"c{i}"} for i, (n, a) in enumerate(calls)])
            model = GenericFakeChatModel(messages=iter([asked]))
            builder = StateGraph(MessagesState)
            builder.add_node("model", lambda state: {"messages": [model.invoke(state["messages"])]})
            builder.add_node("tools", ToolNode([count, refund]))
            builder.add_edge(START, "model")
            builder.add_edge("model", "tools")
            return builder.compile(checkpointer=InMemorySaver())

        CONFIG = {"configurable": {"thread_id": "1"}}

        @pytest.mark.agent_cassette
        def test_what_a_graph_injects_is_no_argument(agent_run):
            bodies.clear()

            app = graph(("count", {"word": "a"}), ("count", {"word": "b"}))

            result = app.invoke({"messages": [("user", "hi")]}, CONFIG)

            assert [message.content for message in result["messages"][-2:]] == ["a 2", "b 2"]
            assert sorted(str(step.arguments) for step in agent_run.tool_steps) == ["{'word': 'a'}", "{'word': 'b'}"]
            assert len(bodies) == 2 * agent_run.is_recording

        @pytest.mark.agent_cassette
        @pytest.mark.parametrize("by_id", [False, True])
        def test_a_person_is_asked_in_replay_too(by_id, agent_run):
            bodies.clear()
            app = graph(("refund", {"amount": 5}))

            def answer(state, word):
                [asked] = state["__interrupt__"]
                return asked.value, app.invoke(Command(resume={asked.id: word} if by_id else word), CONFIG)

            state = app.invoke({"messages": [("user", "hi")]}, CONFIG)
            first, state = answer(state, "yes")
            second, state = answer(state, "of course")

            assert (first, second) == ("refund 5?", "sure?")
            assert state["messages"][-1].content == "yes, of course"
            assert len(bodies) == 3 * agent_run.is_recording
        """
    )

    steps = twice(3)

    assert sorted({step["name"] for step in steps}) == ["count", "refund"]
    assert len(steps) == 8


def test_a_tool_that_is_caught_twice_is_recorded_once(suite: Suite, twice: Twice) -> None:
    suite.write(
        """
        import pytest
        from langchain_core.tools import tool
        from pytest_agentreplay import recorded_tool

        bodies = []

        @tool
        @recorded_tool
        def weather(city: str) -> str:
            "Tell the weather."
            bodies.append(city)
            return f"{city}: fine"

        @recorded_tool(name="forecast")
        def other_name(city: str) -> str:
            "Tell the weather."
            return weather.invoke({"city": city})

        @tool
        @recorded_tool(name="fact")
        def factorial(n: int) -> int:
            "Multiply."
            return n * plain(n - 1) if n > 1 else 1

        plain = factorial.func

        @pytest.mark.agent_cassette
        def test_a_decorated_tool(agent_run):
            bodies.clear()

            assert weather.invoke({"city": "Oslo"}) == "Oslo: fine"
            assert len(bodies) == agent_run.is_recording
            assert len(agent_run.tool_steps) == 1

        @pytest.mark.agent_cassette
        def test_a_tool_inside_a_tool_of_another_name(agent_run):
            assert other_name("Oslo") == "Oslo: fine"
            assert agent_run.tools_called == ["forecast", "weather"]

        @pytest.mark.agent_cassette
        def test_a_tool_that_calls_itself(agent_run):
            assert factorial.invoke({"n": 3}) == 6
            assert sorted(agent_run.tools_called) == ["fact", "fact", "factorial"]
        """
    )

    assert len(twice(3)) == 6


def test_a_sub_agent_runs_in_replay(suite: Suite, twice: Twice) -> None:
    suite.write(
        """
        import pytest
        from agent import ask
        from langchain_core.tools import tool
        from pytest_agentreplay import recorded_tool

        bodies = []

        @tool
        @recorded_tool(subagent=True)
        def research(topic: str) -> str:
            "Ask another model."
            bodies.append(topic)
            return ask(f"about {topic}")

        @pytest.mark.agent_cassette
        def test_it(agent_run):
            bodies.clear()

            assert research.invoke({"topic": "tea"}) == "echo: about tea"
            assert bodies == ["tea"]
            assert agent_run.turns == 1
        """
    )

    assert len(twice(1)) == 1


def test_a_call_that_was_not_recorded_stops_the_test_whatever_the_framework_handles(suite: Suite) -> None:
    suite.write(
        """
        import pytest
        from langchain_core.messages import AIMessage
        from langchain_core.tools import tool
        from langgraph.graph import START, MessagesState, StateGraph
        from langgraph.prebuilt import ToolNode

        bodies = []

        @tool
        def weather(city: str) -> str:
            "Tell the weather."
            bodies.append(city)
            return f"{city}: fine"

        @pytest.mark.agent_cassette
        def test_it(agent_run):
            city = "Oslo" if agent_run.is_recording else "Rome"
            call = {"name": "weather", "args": {"city": city}, "id": "call_1", "type": "tool_call"}
            builder = StateGraph(MessagesState)
            builder.add_node("tools", ToolNode([weather], handle_tool_errors=True))
            builder.add_edge(START, "tools")

            builder.compile().invoke({"messages": [AIMessage("", tool_calls=[call])]})

        def test_no_body_has_run():
            assert bodies in ([], ["Oslo"])
        """
    )
    suite.record()

    result = suite.run()

    result.assert_outcomes(failed=1, passed=1)
    assert "ReplayDivergenceError" in failure(result)
    assert '"Rome"' in failure(result)


def test_equal_calls_at_once_are_each_answered_by_its_id(suite: Suite) -> None:
    suite.write(
        """
        from itertools import count
        import pytest
        from langchain_core.tools import tool

        COUNT = count()

        @tool
        def draw(cards: int) -> int:
            \"\"\"Draw cards.\"\"\"
            return next(COUNT)

        def call(tool_use_id):
            return draw.invoke({"type": "tool_call", "id": tool_use_id, "name": "draw", "args": {"cards": 1}}).content

        @pytest.mark.agent_cassette
        def test_it(agent_run):
            order = ["a", "b"] if agent_run.is_recording else ["b", "a"]
            assert {tool_use_id: call(tool_use_id) for tool_use_id in order} == {"a": "0", "b": "1"}
        """
    )
    suite.record()

    suite.run().assert_outcomes(passed=1)
