"""A planner on OpenAI's SDK that sends out researchers, all at once, and answers from what they bring back."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from openai import AsyncOpenAI
from openai.types.chat import ChatCompletionFunctionToolParam, ChatCompletionMessage, ChatCompletionMessageParam

from pytest_agentreplay import recorded_tool

PLANNER = "You plan. Send a researcher for each thing that you need to know, then answer in one sentence."
RESEARCHER = "You research one topic. Read the notes about it, then say in one sentence what matters."
NOTES = {
    "tea": "Green tea: 80 degrees, two minutes.",
    "pots": "Four cups, glazed inside. Unglazed clay keeps the taste of the last tea.",
}


def tool(name: str, description: str) -> ChatCompletionFunctionToolParam:
    properties = {"topic": {"type": "string"}}
    topic: dict[str, object] = {"type": "object", "properties": properties, "required": ["topic"]}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": topic}}


class Planner:
    def __init__(self, client: AsyncOpenAI, *, model: str = "gpt-5-mini") -> None:
        self.client = client
        self.model = model

    async def answer(self, question: str) -> str:
        return await self.converse(PLANNER, question, tool("research", "Send a researcher."))

    @recorded_tool(subagent=True)  # runs in replay too: its requests and its own tools are answered from the tape
    async def research(self, topic: str) -> str:
        return await self.converse(RESEARCHER, topic, tool("read_notes", "Return the notes about a topic."))

    @recorded_tool
    async def read_notes(self, topic: str) -> str:
        return NOTES.get(topic, "There are no notes about it.")

    async def converse(
        self, prompt: str, request: str, offered: ChatCompletionFunctionToolParam, *, most_turns: int = 10
    ) -> str:
        messages: list[ChatCompletionMessageParam] = [
            {"role": "system", "content": prompt},
            {"role": "user", "content": request},
        ]
        for _ in range(most_turns):
            completion = await self.client.chat.completions.create(model=self.model, messages=messages, tools=[offered])
            message = completion.choices[0].message
            if not message.tool_calls:
                return message.content or ""
            messages += [message.to_dict(), *await self.run_tools(message)]  # type: ignore[list-item]
        raise RuntimeError(f"no answer after {most_turns} turns")

    async def run_tools(self, message: ChatCompletionMessage) -> list[dict[str, Any]]:
        """Run what a message calls, all at once; the results are in the order of the calls."""
        tools = {"research": self.research, "read_notes": self.read_notes}
        calls = [call for call in message.tool_calls or [] if call.type == "function"]
        results = await asyncio.gather(
            *(tools[call.function.name](**json.loads(call.function.arguments)) for call in calls)
        )
        return [
            {"role": "tool", "tool_call_id": call.id, "content": result}
            for call, result in zip(calls, results, strict=True)
        ]
