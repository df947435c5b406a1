"""A portfolio agent that tries three strategies, each on its own fork of one small database, and rewinds a loser.

The agent keeps its portfolio as a JSON document and logs what it does.  It decides by a fixed rule in place of a model,
so that the example needs no provider.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from pytest_agentreplay.state import Store, View, open_store

START = {"stocks": 60, "bonds": 40}
STRATEGIES = {"conservative": 20, "balanced": 50, "aggressive": 85}  # percent of stocks
BEST_STOCKS = 30


def seed(state: View) -> None:
    """Write what every attempt starts from."""
    state.json.set("portfolio", "$", START)


def rebalance(state: View, stocks: int) -> None:
    """Set the share of stocks; the rest is bonds.  The agent's tool."""
    state.json.set("portfolio", "$", {"stocks": stocks, "bonds": 100 - stocks})


def score(portfolio: dict[str, int]) -> int:
    """Return how good a portfolio is: 100 at best."""
    return 100 - abs(portfolio["stocks"] - BEST_STOCKS)


def run_agent(state: View, strategy: str) -> int:
    """Let the agent rebalance the portfolio on one branch; return its score."""
    state.events.append("run.start", {"strategy": strategy})
    stocks = STRATEGIES[strategy]
    state.events.append("tool.call", {"name": "rebalance", "stocks": stocks})
    rebalance(state, stocks)
    result = score(state.json.get("portfolio"))
    state.events.append("run.end", {"score": result})
    return result


def try_all(store: Store) -> dict[str, int]:
    """Run each strategy on a fork of its own; return the scores by branch."""
    scores = {}
    for number, strategy in enumerate(STRATEGIES, start=1):
        branch = f"run-{number}"
        store.branches.fork("default", branch)
        scores[branch] = run_agent(store.at(branch), strategy)
    return scores


def rewind(state: View) -> list[tuple[str, dict[str, int]]]:
    """Return what the agent knew at each of its events."""
    return [(event.type, state.json.get("portfolio", as_of=event)) for event in state.events.list()]


def tell(store: Store, say: Callable[[str], object]) -> None:
    """Tell the whole story."""
    seed(store.at())
    scores = try_all(store)
    for branch, result in scores.items():
        strategy = store.at(branch).events.get(0)
        assert strategy is not None
        say(f"{branch}  {strategy.payload['strategy']:<12}  score {result}")
    say(f"best: {max(scores, key=lambda branch: scores[branch])}; default is still {START['stocks']} % stocks")
    say("")
    say("run-2, rewound      bonds / stocks")
    for kind, portfolio in rewind(store.at("run-2")):
        say(f"  {kind:<16}  {portfolio['bonds']:>5} / {portfolio['stocks']}")


if __name__ == "__main__":
    with open_store(":memory:") as opened:
        tell(opened, lambda line: sys.stdout.write(f"{line}\n"))
