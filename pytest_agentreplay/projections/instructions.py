"""What a model is told beside the conversation: a system prompt that has a field of its own in a request."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pytest_agentreplay.projections.timeline import Deed, Moment

__all__ = ["INSTRUCTIONS", "instructions_of", "new_instructions"]

INSTRUCTIONS = ("system", "instructions")  # the fields: Anthropic's, and the one of OpenAI's responses


def instructions_of(moment: Moment, messages: Mapping[str, Any]) -> str:
    """Return the system prompt beside the conversation of a request, empty where it has none.

    ``messages`` are the tape's: a prompt may be a list of blocks, which stand there.
    """
    body = moment.step.request.body
    if moment.call is None or body.kind != "json":
        return ""
    for key in INSTRUCTIONS:
        if key != moment.call.conversation:
            blocks = [messages[address] for address in body.lists.get(key, ())]
            text = _text_of(blocks or body.fields.get(key))
            if text:
                return text
    return ""


def new_instructions(story: Iterable[Moment | Deed], messages: Mapping[str, Any]) -> dict[int, str]:
    """Return the system prompts by the number of the step that first has them, or has others, in its conversation."""
    known: dict[str, str] = {}
    new: dict[int, str] = {}
    for told in story:
        if isinstance(told, Moment) and told.call is not None:
            text = instructions_of(told, messages)
            if text and known.get(told.step.lane) != text:
                new[told.number] = text
            known[told.step.lane] = text
    return new


def _text_of(prompt: Any) -> str:
    """Return a system prompt that is text, or a list of blocks of text."""
    if isinstance(prompt, list):
        texts = (block.get("text") for block in prompt if isinstance(block, dict))
        return "\n\n".join(text for text in texts if isinstance(text, str) and text)
    return prompt if isinstance(prompt, str) else ""
