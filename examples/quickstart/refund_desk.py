"""A refund desk: an agent on OpenAI's SDK that looks up an order and pays it back.

In a replayed test neither tool runs: each returns what it returned when the test was recorded.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from openai import OpenAI
from openai.types.chat import ChatCompletionFunctionToolParam, ChatCompletionMessageParam

from pytest_agentreplay import recorded_tool

SYSTEM_PROMPT = (
    "You are the refund desk of a kitchen shop. Look an order up before you refund it, "
    "refund no more than was paid, and tell the customer what you did in one sentence."
)


def tool(name: str, description: str, **parameters: str) -> ChatCompletionFunctionToolParam:
    schema: dict[str, object] = {
        "type": "object",
        "properties": {parameter: {"type": kind} for parameter, kind in parameters.items()},
        "required": list(parameters),
    }
    return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}


TOOLS = [
    tool("look_up_order", "Return what was ordered and paid.", order_id="string"),
    tool("issue_refund", "Pay money back to the customer.", order_id="string", cents="integer"),
]


class RefundDesk:
    """``orders`` maps an order's id to its ``item`` and ``paid_cents``; ``refunds`` holds what was paid back."""

    def __init__(self, orders: dict[str, dict[str, Any]], *, client: OpenAI, model: str = "gpt-5-mini") -> None:
        self.orders = orders
        self.refunds: dict[str, int] = {}
        self.client = client
        self.model = model

    def answer(self, request: str, *, most_turns: int = 10) -> str:
        messages: list[ChatCompletionMessageParam] = [
            {"role": "system", "content": SYSTEM_PROMPT},
            {"role": "user", "content": request},
        ]
        for _ in range(most_turns):
            completion = self.client.chat.completions.create(model=self.model, messages=messages, tools=TOOLS)
            message = completion.choices[0].message
            if not message.tool_calls:
                return message.content or ""
            messages.append(message.to_dict())  # type: ignore[arg-type]
            for call in message.tool_calls:
                if call.type == "function":
                    result = self.run_tool(call.function.name, json.loads(call.function.arguments))
                    messages.append({"role": "tool", "tool_call_id": call.id, "content": json.dumps(result)})
        raise RuntimeError(f"no answer after {most_turns} turns")

    def run_tool(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        tools: dict[str, Callable[..., dict[str, Any]]] = {
            "look_up_order": self.look_up_order,
            "issue_refund": self.issue_refund,
        }
        return tools[name](**arguments)

    @recorded_tool
    def look_up_order(self, order_id: str) -> dict[str, Any]:
        return self.orders.get(order_id) or {"error": f"there is no order {order_id}"}

    @recorded_tool
    def issue_refund(self, order_id: str, cents: int) -> dict[str, Any]:
        paid = self.orders.get(order_id, {}).get("paid_cents", 0)
        if cents > paid - self.refunds.get(order_id, 0):
            return {"error": f"only {paid} cents were paid for {order_id}"}
        self.refunds[order_id] = self.refunds.get(order_id, 0) + cents
        return {"refunded_cents": cents}
