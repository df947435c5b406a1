"""Whatever a tape that could be loaded holds, no fold over it raises."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from pytest_agentreplay.records import Response
from tests.support.stories import ANTHROPIC, JSON, OPENAI, Story, says
from tests.unit.documents import any_json
from tests.unit.projections.test_purity import FOLDS

# What formats make messages, items and answers of, with anything in its place.
_MESSAGE = ["role", "content", "type", "text", "tool_calls", "refusal", "tool_call_id", "tool_use_id", "output"]
_CALL = ["id", "function", "name", "arguments", "input"]
_ANSWER = ["choices", "usage", "model", "finish_reason", "stop_reason", "error", "status", "message"]
_KEYS = [*_MESSAGE, *_CALL, *_ANSWER]
_WORDS = ["assistant", "tool", "user", "message", "tool_use", "tool_result", "function_call", "text"]
odd = st.one_of(any_json, st.sampled_from(_WORDS))
odd_objects = st.recursive(
    st.dictionaries(st.sampled_from(_KEYS), odd, max_size=4),
    lambda inner: st.dictionaries(
        st.sampled_from(_KEYS), st.one_of(odd, inner, st.lists(inner, max_size=2)), max_size=4
    ),
    max_leaves=4,
)


@given(said=st.lists(odd_objects, max_size=3), answer=odd_objects, url=st.sampled_from([OPENAI, ANTHROPIC]))
@example(said=[{"role": "user", "content": 5}], answer={}, url=ANTHROPIC)
@example(said=[{"role": "assistant", "tool_calls": 3}], answer={}, url=OPENAI)
@example(said=[], answer={"choices": [{"message": 3}], "usage": "none"}, url=OPENAI)
@example(said=[], answer={"choices": [{"message": {"role": "assistant", "content": 3}}], "usage": {}}, url=OPENAI)
@example(said=[], answer={"choices": [{"message": {"role": "assistant"}, "finish_reason": {}}]}, url=OPENAI)
@example(said=[], answer={"content": [], "role": "assistant", "stop_reason": ["end_turn"]}, url=ANTHROPIC)
def test_a_malformed_conversation_is_told_as_far_as_it_can_be_read(
    said: list[dict[str, Any]], answer: dict[str, Any], url: str
) -> None:
    story = Story()
    step = story.model(*said, reply=says("hm"), url=url)
    story.model({"role": "user", "content": "again"}, reply=says("hm"), url=url)
    response = Response(status=200, headers=JSON, content=json.dumps(answer).encode())
    story.tape.entries[0] = step.model_copy(update={"response": response})

    for fold in FOLDS.values():
        fold(story.tape)
