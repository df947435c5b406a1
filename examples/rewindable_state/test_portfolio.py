"""Each attempt of the agent is a test, on a branch of its own; the whole story is one too."""

from __future__ import annotations

from pathlib import Path

import pytest
from portfolio import START, rewind, run_agent, tell, try_all

from pytest_agentreplay.errors import HistoryUnavailableError
from pytest_agentreplay.state import Store, View, open_store


@pytest.mark.parametrize(("strategy", "score"), [("conservative", 90), ("balanced", 80), ("aggressive", 45)])
def test_a_strategy_has_its_score(agent_state: View, agent_store: Store, strategy: str, score: int) -> None:
    assert run_agent(agent_state, strategy) == score
    assert agent_store.json.get("portfolio") == START  # what the next test forks


def test_a_run_can_be_rewound_to_each_of_its_events(agent_state: View) -> None:
    run_agent(agent_state, "balanced")

    known = [(portfolio["bonds"], portfolio["stocks"]) for _, portfolio in rewind(agent_state)]

    assert known == [(40, 60), (40, 60), (50, 50)]


def test_an_event_of_one_run_says_nothing_about_another(agent_store: Store, agent_state: View) -> None:
    del agent_state  # fills the store
    scores = try_all(agent_store)
    decided = agent_store.at("run-1").events.list("tool.call")[0]

    with pytest.raises(HistoryUnavailableError, match=r"store\.at\(branch='run-1'\)\.json\.get\('portfolio', as_of="):
        agent_store.at("run-2").json.get("portfolio", as_of=decided)

    for branch in scores:
        agent_store.branches.delete(branch)


def test_the_story_is_the_one_that_the_readme_tells() -> None:
    told: list[str] = []

    with open_store(":memory:") as store:
        tell(store, told.append)

    readme = (Path(__file__).parent / "README.md").read_text(encoding="utf-8")
    assert "```text\n" + "\n".join(told) + "\n```" in readme
