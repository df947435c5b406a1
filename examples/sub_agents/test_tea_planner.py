"""The planner's test: replayed from its cassette, or recorded against whatever OPENAI_BASE_URL names."""

from __future__ import annotations

import asyncio
import os

import pytest
from openai import AsyncOpenAI
from syrupy.assertion import SnapshotAssertion
from tea_planner import Planner

from pytest_agentreplay import AgentRun

# Where researchers_provider.py listens. A replay connects to nothing, but the address is part of what is replayed.
SCRIPTED_PROVIDER = "http://127.0.0.1:49322/v1"


async def ask_planner(question: str) -> str:
    base_url = os.environ.get("OPENAI_BASE_URL") or SCRIPTED_PROVIDER
    api_key = os.environ.get("OPENAI_API_KEY") or "none is needed to replay"
    async with AsyncOpenAI(base_url=base_url, api_key=api_key) as client:
        return await Planner(client).answer(question)


@pytest.mark.agent_cassette
def test_a_planner_hears_two_researchers_at_once(
    agent_run: AgentRun, event_snapshot: SnapshotAssertion, mermaid_snapshot: SnapshotAssertion
) -> None:
    answer = asyncio.run(ask_planner("What do I need to serve tea?"))

    assert "80 degrees" in answer
    assert {call.arguments["topic"] for call in agent_run.tool_calls("research")} == {"tea", "pots"}
    assert {call.arguments["topic"] for call in agent_run.tool_calls("read_notes")} == {"tea", "pots"}
    assert sorted(map(len, agent_run.hash_chain.values())) == [2, 2, 2]  # the planner's conversation, and two more
    assert agent_run.events == event_snapshot
    assert agent_run.mermaid(style="sequence") == mermaid_snapshot
