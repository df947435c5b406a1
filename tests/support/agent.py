"""An agent with no framework that runs in this process, and a provider that makes it use its tools."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from tests.support.openai import chat_stream, completion
from tests.support.server import Answer, Seen, answer_json

_LIMITS = httpx.Limits(max_keepalive_connections=0)  # no connection outlives its request
CLIENT = httpx.Client(verify=False, trust_env=False, limits=_LIMITS)
SYSTEM = "Be brief."


def user(text: str) -> dict[str, Any]:
    """Return a message of the user's."""
    return {"role": "user", "content": text}


def body(*messages: Any, **fields: Any) -> dict[str, Any]:
    """Return the body of a chat request; a message that is text is the user's."""
    made = [user(message) if isinstance(message, str) else message for message in messages]
    return {"model": "m", "messages": made, **fields}


@dataclass(frozen=True)
class Desk:
    """Asks a model at a provider."""

    url: str

    @property
    def place(self) -> str:
        """Where chat completions are made."""
        return f"{self.url}/v1/chat/completions"

    def message(self, *messages: Any, **fields: Any) -> dict[str, Any]:
        """Return what the model answers, whole."""
        response = CLIENT.post(self.place, json=body(*messages, **fields))
        message: dict[str, Any] = response.json()["choices"][0]["message"]
        return message

    def ask(self, *messages: Any, **fields: Any) -> str:
        """Return what the model says."""
        return str(self.message(*messages, **fields)["content"])

    async def ask_async(self, *messages: Any, **fields: Any) -> str:
        """Return what the model says, asked on the event loop."""
        async with httpx.AsyncClient(verify=False, trust_env=False) as client:
            response = await client.post(self.place, json=body(*messages, **fields))
        return str(response.json()["choices"][0]["message"]["content"])

    def pieces(self, *messages: Any) -> list[str]:
        """Return a streamed answer in the pieces it came in."""
        with CLIENT.stream("POST", self.place, json=body(*messages, stream=True)) as response:
            lines = [line.removeprefix("data: ") for line in response.iter_lines() if line.startswith("data: {")]
        return [json.loads(line)["choices"][0]["delta"]["content"] for line in lines]

    def run(self, task: str, tools: Mapping[str, Callable[..., Any]], *, system: str = SYSTEM, **fields: Any) -> str:
        """Go on as long as the model asks for tools; return its last words."""
        messages: list[Any] = [{"role": "system", "content": system}, user(task)]
        while True:
            message = self.message(*messages, **fields)
            messages.append(message)
            if not message.get("tool_calls"):
                return str(message["content"])
            messages += [result_of(call, tools) for call in message["tool_calls"]]


def result_of(call: Mapping[str, Any], tools: Mapping[str, Callable[..., Any]]) -> dict[str, Any]:
    """Call a tool as the model asks for it; return the message that tells it the result."""
    arguments = json.loads(call["function"]["arguments"])
    try:
        result = tools[call["function"]["name"]](**arguments)
    except Exception as error:
        result = {"error": str(error)}
    return {"role": "tool", "tool_call_id": call["id"], "content": json.dumps(result)}


def asking_for(*turns: tuple[str, dict[str, Any]]) -> Callable[[Seen], Answer]:
    """Return a provider that asks for one tool a turn, then sums up; its ids count the turns."""

    def respond(seen: Seen) -> Answer:
        asked = seen.json()
        results = [message for message in asked["messages"] if message["role"] == "tool"]
        done = len(results)
        if done < len(turns):
            name, arguments = turns[done]
            function = {"name": name, "arguments": json.dumps(arguments)}
            call = {"id": f"call_{done}", "type": "function", "function": function}
            return answer_json(completion(None, tool_calls=[call]))
        text = "done: " + ", ".join(str(message["content"]) for message in results)
        return chat_stream([text[:4], text[4:]]) if asked.get("stream") else answer_json(completion(text))

    return respond


def echo_or_stream(seen: Seen) -> Answer:
    """Answer a chat request with its last message, streamed where that is asked."""
    asked = seen.json()
    text = f"echo: {asked['messages'][-1]['content']}"
    return chat_stream([text[:4], text[4:]]) if asked.get("stream") else answer_json(completion(text))
