"""Run agent programs of the corpus with their tools recorded, one test a program, and keep what came of each.

Which run this is says ``RUN``: in the one named ``replayed``, a tool whose body is run raises.
"""

import argparse
import asyncio
import contextvars
import importlib
import inspect
import json
import os
import time
from pathlib import Path

import common
import pytest

from pytest_agentreplay import areplay, load_cassette, recorded_tool

HERE = Path(__file__).parent
PLAN = json.loads((HERE / "plan.json").read_text())
KEPT_BY_PROGRAMS = ("client", "agent", "graph")


class Watched:
    """Stands in for the module that the bodies of all tools wait by: counts them, and poisons them in replay."""

    def __init__(self, real):
        self.real = real
        self.calls = 0

    def sleep(self, seconds):
        self.calls += 1
        if os.environ["RUN"] == "replayed":
            raise AssertionError("the body of a tool was run in replay")
        return self.real.sleep(seconds)

    def perf_counter(self):
        return time.perf_counter()


@pytest.fixture(scope="module")
def loop():
    """One event loop for all programs: frameworks keep their clients, and with them connections, between runs."""
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture
def bodies(monkeypatch):
    """How often the bodies of tools have run, sync and async ones."""
    watched = [Watched(time), Watched(asyncio)]
    monkeypatch.setattr(common, "time", watched[0])
    monkeypatch.setattr(common, "asyncio", watched[1])
    return watched


@pytest.fixture
def program(request, monkeypatch, loop):
    """A program's module, as at its first import."""
    if request.param in PLAN["plain"]:  # a hand-written loop has no adapter
        for name, function in common.TOOLS.items():
            monkeypatch.setitem(common.TOOLS, name, recorded_tool(name=name)(function))
    module = importlib.import_module(request.param)
    for name in KEPT_BY_PROGRAMS:
        if hasattr(module, name):
            monkeypatch.setattr(module, name, None)
    yield module
    if getattr(module, "client", None):
        closing = module.client.close()
        if inspect.iscoroutine(closing):
            loop.run(closing)


each_program = pytest.mark.parametrize(
    ("case", "program"),
    [pytest.param(case, case["program"], id=case["name"]) for case in PLAN["cases"]],
    indirect=["program"],
)


def keep(run, name, kept):
    folder = HERE / run
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(kept))


@pytest.mark.agent_cassette
@each_program
def test_a_program(case, program, bodies, loop, agent_run):
    arguments = argparse.Namespace(base=PLAN["base"], stream=case["stream"], variant=case["variant"])

    result = program.run(arguments)
    if inspect.iscoroutine(result):
        result = loop.run(result, context=contextvars.copy_context())

    kept = {
        "result": str(result),
        "bodies": sum(watched.calls for watched in bodies),
        "hash_chain": agent_run.hash_chain,
        "turns": agent_run.turns,
        "tools": [
            {"name": step.name, "id": step.tool_use_id, "arguments": step.arguments, "result": step.result}
            | {"source": step.source, "lane": step.lane}
            for step in agent_run.tool_steps
        ],
        "cassette": str(agent_run.cassette),
    }
    keep(os.environ["RUN"], case["name"], kept)


def chain_of(tape):
    lanes = {}
    for step in load_cassette(tape).exchanges:
        lanes.setdefault(step.lane, []).append(step.hash)
    return lanes


@each_program
def test_a_program_is_replayed_by_the_library(case, program, bodies, loop, tmp_path):
    arguments = argparse.Namespace(base=PLAN["base"], stream=case["stream"], variant=case["variant"])
    tape = json.loads((HERE / "recorded" / f"{case['name']}.json").read_text())["cassette"]

    async def replayed(to):
        return await areplay(tape, lambda plan: lambda: program.run(arguments), to=tmp_path / to)

    results = [loop.run(replayed(f"{number}.jsonl")) for number in range(PLAN["times"])]

    lines = [result.tape.read_bytes().splitlines() for result in results]
    kept = {
        "result": str(results[0].output),
        "bodies": sum(watched.calls for watched in bodies),
        "live": [result.turns for result in results],
        "hash_chain": chain_of(results[0].tape),
        "are_equal": all(found[:-1] == lines[0][:-1] for found in lines),
        "as_recorded": lines[0][1:-1] == Path(tape).read_bytes().splitlines()[1:-1],
    }
    keep("library", case["name"], kept)
