"""The tools of smolagents."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.support.suite import Suite

FRAMEWORK = ("smolagents",)
Twice = Callable[[int], list[dict[str, Any]]]


def test_each_kind_of_tool_is_recorded(suite: Suite, twice: Twice) -> None:
    suite.write(
        '''
        import pytest
        from smolagents import Tool, tool
        from smolagents.agent_types import AgentText

        bodies = []

        @tool
        def weather(city: str, days: int = 1) -> str:
            """Tell the weather.

            Args:
                city: where
                days: how long
            """
            bodies.append(city)
            return f"{city}: {days} fine"

        class Clock(Tool):
            name = "clock"
            description = "Tell the time."
            inputs = {"city": {"type": "string", "description": "where"}}
            output_type = "string"

            def setup(self):
                bodies.append("setup")
                self.hour = 12
                self.is_initialized = True

            def forward(self, city: str) -> str:
                bodies.append(city)
                return f"{city}: {self.hour}"

        @pytest.mark.agent_cassette
        def test_it(agent_run):
            bodies.clear()
            clock = Clock()

            results = [
                weather("Oslo"),
                weather("Oslo", 2),
                weather({"city": "Oslo"}),
                weather(city="Oslo", sanitize_inputs_outputs=True),
                clock(city="Rome"),
                clock("Rome"),
            ]

            assert results == ["Oslo: 1 fine", "Oslo: 2 fine", *["Oslo: 1 fine"] * 2, *["Rome: 12"] * 2]
            assert [type(result) for result in results] == [str, str, str, AgentText, str, str]
            assert bodies == (["Oslo"] * 4 + ["setup", "Rome", "Rome"]) * agent_run.is_recording
            assert agent_run.tools_called == ["weather"] * 4 + ["clock"] * 2
        '''
    )

    steps = twice(1)

    assert [step["arguments"] for step in steps if step["name"] == "weather"] == [
        {"city": "Oslo"},
        {"city": "Oslo", "days": 2},
        {"city": "Oslo"},
        {"city": "Oslo"},
    ]


def test_an_agent_that_writes_code_runs_its_tools_from_the_recording(suite: Suite, twice: Twice) -> None:
    suite.write(
        '''
        import pytest
        from smolagents import ChatMessage, CodeAgent, LogLevel, Model, tool

        bodies = []

        @tool
        def weather(city: str) -> str:
            """Tell the weather.

            Args:
                city: where
            """
            bodies.append(city)
            if city == "?":
                raise KeyError(city)
            return f"{city}: fine"

        class Writing(Model):
            def __init__(self, *codes):
                super().__init__(model_id="m")
                self.codes = iter(codes)
                self.heard = []

            def generate(self, messages, **kwargs):
                self.heard.append(str(messages[-1].content))
                return ChatMessage("assistant", f"<code>{next(self.codes)}</code>")

        @pytest.mark.agent_cassette
        def test_it(agent_run):
            bodies.clear()
            model = Writing('weather("?")', 'final_answer(weather("Oslo") + ", " + weather(city="Rome"))')
            agent = CodeAgent([weather], model, verbosity_level=LogLevel.OFF)

            assert agent.run("hello") == "Oslo: fine, Rome: fine"
            assert "KeyError" in model.heard[-1]
            assert len(bodies) == 3 * agent_run.is_recording
            assert agent_run.tools_called == ["weather"] * 3
        '''
    )

    steps = twice(1)

    assert [step["arguments"]["city"] for step in steps] == ["?", "Oslo", "Rome"]
