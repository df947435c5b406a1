"""Two hundred tests, each with a branch of its own and ten writes, on two workers."""

from __future__ import annotations

import re

import pytest

from pytest_agentreplay.state import open_store

CONFTEST = """
import pytest

@pytest.fixture(scope="session")
def agent_state_seed():
    def seed(state):
        state.kv.put("step", -1)
    return seed
"""

TESTS = """
import pytest

@pytest.mark.parametrize("number", range(200))
def test_it(number, agent_state):
    assert agent_state.kv.get("step") == -1
    assert agent_state.head == 3
    for step in range(10):
        assert agent_state.kv.put("step", [number, step]) == 4 + step
    assert [agent_state.kv.get("step", as_of=4 + step)[1] for step in range(10)] == list(range(10))
"""


@pytest.mark.parametrize("where", [(), ("--agent-store=state.db",)], ids=["a store for each worker", "one store"])
def test_two_hundred_tests_on_two_workers_each_see_their_own_writes(
    pytester: pytest.Pytester, where: tuple[str, ...]
) -> None:
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(TESTS)
    pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function\nfilterwarnings = error\n")
    off = [part for name in ("hypothesispytest", "langsmith_plugin", "recording") for part in ("-p", f"no:{name}")]

    result = pytester.runpytest_subprocess(*off, "-n2", "--agent-keep-branches", *where, timeout=60)

    result.assert_outcomes(passed=200)
    if where:
        with open_store(pytester.path / "state.db") as store:
            kept = [branch.name for branch in store.branches.list()[1:]]
            ends = [store.at(name).kv.get("step") for name in kept]
            assert len({re.sub("~1$", "", name) for name in kept}) == 200
            assert sorted(ends) == [[number, 9] for number in range(200)]
            store.verify()
