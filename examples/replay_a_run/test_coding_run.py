from __future__ import annotations

from pathlib import Path

from coding_run import fork_before_second_tool_call, known_at, run_agent, tell, try_another_ending

from pytest_agentreplay.state import Store, View, open_store


def test_each_event_says_what_the_agent_knew_then(agent_state: View) -> None:
    start = agent_state.head

    run_agent(agent_state)

    known = [(event.version - start, step) for event, step in known_at(agent_state)]
    assert known == [(1, None), (3, 1), (5, 2), (7, 3)]


def test_the_run_takes_another_ending_from_before_its_second_tool_call(agent_store: Store, agent_state: View) -> None:
    run_agent(agent_state)

    retry = fork_before_second_tool_call(agent_store, agent_state.branch, "retry")
    try_another_ending(retry)

    calls = [[event.payload["name"] for event in view.events.list("tool.call")] for view in (agent_state, retry)]
    assert calls == [["read", "edit"], ["read", "ask"]]
    assert (agent_state.kv.get("state.step"), retry.kv.get("state.step")) == (3, "waiting")
    assert retry.events.verify_chain()


def test_the_story_is_the_one_that_the_readme_tells() -> None:
    told: list[str] = []

    with open_store(":memory:") as store:
        tell(store, told.append)

    readme = (Path(__file__).parent / "README.md").read_text(encoding="utf-8")
    assert "```text\n" + "\n".join(told) + "\n```" in readme
