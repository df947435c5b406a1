"""One run of a coding agent, kept in a state store: what it knew at each event, and another ending from the middle.

The agent's model is a fixed rule, so that the example needs no provider.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from pytest_agentreplay.state import Event, Store, View, open_store


def run_agent(state: View) -> None:
    """Fix a typo in two tool calls, noting each step in the state."""
    state.events.append("run.start", {"task": "fix the typo in greeting.py"})
    state.kv.put("state.step", 1)
    state.events.append("tool.call", {"name": "read", "path": "greeting.py"})
    state.kv.put("state.step", 2)
    state.events.append("tool.call", {"name": "edit", "path": "greeting.py", "text": "print('hello')"})
    state.kv.put("state.step", 3)
    state.events.append("run.end", {"outcome": "ok"})


def known_at(state: View) -> list[tuple[Event, int | None]]:
    """Return each event with the step that the agent was at when it was added."""
    return [(event, state.kv.get("state.step", as_of=event)) for event in state.events.list()]


def fork_before_second_tool_call(store: Store, source: str, name: str) -> View:
    """Return a new branch on which everything up to the second tool call has happened, and that call has not."""
    _, second = store.at(source).events.list("tool.call")
    store.branches.fork(source, name, version=second.version - 1)
    return store.at(name)


def try_another_ending(state: View) -> None:
    """Let the agent ask before it edits."""
    state.events.append("tool.call", {"name": "ask", "question": "May I edit greeting.py?"})
    state.kv.put("state.step", "waiting")


def tell(store: Store, say: Callable[[str], object]) -> None:
    """Tell the whole story."""
    run_agent(store.at())
    say("event                version  state.step")
    for event, step in known_at(store.at()):
        say(f"{_title(event):<20} {event.version:>7}  {step}")
    say("")
    retry = fork_before_second_tool_call(store, "default", "retry")
    say(f"retry begins at version {retry.head} with step {retry.kv.get('state.step')}")
    try_another_ending(retry)
    say(f"retry   {' → '.join(map(_title, retry.events.list()))}: step {retry.kv.get('state.step')}")
    say(f"default {' → '.join(map(_title, store.events.list()))}: step {store.kv.get('state.step')}")


def _title(event: Event) -> str:
    return f"{event.type} {event.payload['name']}" if "name" in event.payload else event.type


if __name__ == "__main__":
    with open_store(":memory:") as opened:
        tell(opened, lambda line: sys.stdout.write(f"{line}\n"))
