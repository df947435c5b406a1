"""The refund desk's test: replayed from its cassette, or recorded against whatever OPENAI_BASE_URL names."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from openai import OpenAI
from refund_desk import RefundDesk
from syrupy.assertion import SnapshotAssertion

from pytest_agentreplay import AgentRun

# Where provider.py listens. A replay connects to nothing, but the address of a request is part of what is replayed.
SCRIPTED_PROVIDER = "http://127.0.0.1:49321/v1"


@pytest.fixture
def client() -> Iterator[OpenAI]:
    base_url = os.environ.get("OPENAI_BASE_URL") or SCRIPTED_PROVIDER
    api_key = os.environ.get("OPENAI_API_KEY") or "none is needed to replay"
    with OpenAI(base_url=base_url, api_key=api_key) as client:
        yield client


@pytest.mark.agent_cassette
def test_a_cracked_teapot_is_refunded(
    client: OpenAI, agent_run: AgentRun, event_snapshot: SnapshotAssertion, mermaid_snapshot: SnapshotAssertion
) -> None:
    desk = RefundDesk({"A-1042": {"item": "teapot", "paid_cents": 5990}}, client=client)

    answer = desk.answer("My teapot (order A-1042) arrived cracked. I would like my money back.")

    assert "59.90" in answer
    assert agent_run.turns == 3
    assert agent_run.tools_called == ["look_up_order", "issue_refund"]
    assert agent_run.tool_calls("issue_refund")[0].arguments == {"order_id": "A-1042", "cents": 5990}
    assert desk.refunds == ({"A-1042": 5990} if agent_run.is_recording else {})  # a replay pays nobody
    assert agent_run.events == event_snapshot
    assert agent_run.mermaid() == mermaid_snapshot
