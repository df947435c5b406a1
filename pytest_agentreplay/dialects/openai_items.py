"""Items: what a conversation and an answer of OpenAI's responses API are made of.

Read from the public API reference: an item is a message, reasoning, the call of a tool, or what a tool gave back.  Most
tools run at the provider, and their items say what came of them; the agent runs the rest, and sends an item whose type
ends in ``_output``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from pytest_agentreplay.canonical import canonical_json
from pytest_agentreplay.dialects.vocabulary import Message, ToolCall, ToolResult, text_in

__all__ = ["names_in", "names_of", "read_item"]

_Item: TypeAlias = Mapping[str, Any]

# The calls that wait for the agent.  Every other type that ends in `_call` is a tool that the provider runs.
_CALLS_OF_THE_AGENT = frozenset(
    {
        "apply_patch_call",
        "computer_call",
        "custom_tool_call",
        "function_call",
        "local_shell_call",
        "shell_call",
        "tool_search_call",
    }
)
_DONE_BY_THE_PROVIDER = frozenset({"mcp_approval_request", "mcp_list_tools", "program"})
_NAMED = frozenset({"custom_tool_call", "function_call", "mcp_call"})
# Where an item keeps what a tool is called with: the first of these that it has.
_ARGUMENTS = (
    "arguments",
    "input",
    "action",
    "actions",
    "operation",
    "queries",
    "code",
    "revised_prompt",
    "server_label",
)
_EARLIER = frozenset({"compaction", "item_reference"})
_FAILED = frozenset({"failed", "incomplete"})


def read_item(item: Any) -> Message | None:
    """Return what an item says, or ``None`` when it is none; a text, which may stand for a whole input, is a user's."""
    if isinstance(item, str):
        return Message(role="user", text=item)
    if not isinstance(item, dict):
        return None
    role, kind = item.get("role"), _kind_of(item)
    if isinstance(role, str):
        return Message(role=role, text=text_in(item.get("content")))
    return None if kind in ("", "message") else _reader_of(kind)(item)


def names_of(item: Any) -> Iterable[str]:
    """Yield the ids by which a request may name an item; what a compaction holds is one too, for it is sent back."""
    if isinstance(item, dict):
        keys = ("id", "encrypted_content") if item.get("type") == "compaction" else ("id",)
        yield from (name for key in keys if isinstance(name := item.get(key), str) and name)


def names_in(items: Iterable[Any]) -> Iterable[str]:
    """Yield the ids of earlier items that the items of a request name instead of sending them."""
    for item in items:
        if isinstance(item, dict) and _kind_of(item) in _EARLIER:
            yield from names_of(item)


def _kind_of(item: _Item) -> str:
    """Return the type of an item, which a message and a reference may leave out; empty where it is none."""
    kind = item.get("type") or ("message" if "role" in item else "item_reference" if "id" in item else "")
    return kind if isinstance(kind, str) else ""


def _reader_of(kind: str) -> Callable[[_Item], Message]:
    if kind.endswith("_output"):
        return _read_result
    if kind.endswith("_call") or kind in _DONE_BY_THE_PROVIDER:
        return _read_tool_call
    return _read_reasoning if kind == "reasoning" else _read_other


def _read_tool_call(item: _Item) -> Message:
    kind = item["type"]
    call = ToolCall.of(
        id=item.get("call_id") or item.get("id"),
        name=item.get("name") if kind in _NAMED else kind.removesuffix("_call"),
        arguments=next((item[key] for key in _ARGUMENTS if item.get(key) is not None), None),
    )
    if kind in _CALLS_OF_THE_AGENT and item.get("execution") != "server":
        return Message(role="assistant", tool_calls=(call,))
    return Message(role="assistant", hosted_calls=(call,))


def _read_result(item: _Item) -> Message:
    output = next((item[key] for key in ("output", "result", "tools") if key in item), None)
    result = ToolResult(
        id=str(item.get("call_id") or item.get("id") or ""),
        content=output,
        is_error=item.get("status") in _FAILED,
    )
    return Message(role="tool", text=text_in(output) or _as_json(output), tool_results=(result,))


def _read_reasoning(item: _Item) -> Message:
    parts = [part for key in ("summary", "content") for part in item.get(key) or () if isinstance(part, dict)]
    return Message(role="assistant", thinking="\n\n".join(filter(None, (text_in([part]) for part in parts))))


def _read_other(item: _Item) -> Message:
    """Return the message of an item that stands for earlier ones, or that the agent made itself, an approval say."""
    is_earlier = _kind_of(item) in _EARLIER
    return Message(role="assistant") if is_earlier else Message(role="user", text=_as_json(item))


def _as_json(value: Any) -> str:
    return "" if value in (None, "", []) else canonical_json(value).decode("utf-8")
