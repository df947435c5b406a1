"""Run agent programs of the corpus, one test a program, and keep what came of each."""

import argparse
import asyncio
import contextvars
import importlib
import inspect
import json
import os
import socket
from pathlib import Path

import pytest
from count_connects import connects  # written beside this module

HERE = Path(__file__).parent
PLAN = json.loads((HERE / "plan.json").read_text())


@pytest.fixture(scope="module")
def loop():
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture
def program(request, loop):
    module = importlib.import_module(request.param)
    yield module
    closing = module.client.close()
    if inspect.iscoroutine(closing):
        loop.run(closing)
    module.client = None


@pytest.mark.agent_cassette
@pytest.mark.parametrize(
    ("case", "program"),
    [pytest.param(case, case["program"], id=case["name"]) for case in PLAN["cases"]],
    indirect=["program"],
)
def test_a_program(case, program, loop, agent_run):
    before = len(connects)

    result = program.run(argparse.Namespace(base=PLAN["base"] + case["prefix"], stream=case["stream"]))
    if inspect.iscoroutine(result):
        result = loop.run(result, context=contextvars.copy_context())

    kept = {
        "result": result,
        "hash_chain": agent_run.hash_chain,
        "turns": agent_run.turns,
        "usage": agent_run.usage.model_dump(exclude_none=True),
        "connects": len(connects) - before,
        "guard": socket.getaddrinfo.__module__,
        "cassette": str(agent_run.cassette),
    }
    seen = HERE / os.environ["SEEN"]
    seen.mkdir(exist_ok=True)
    (seen / f"{case['name']}.json").write_text(json.dumps(kept))
