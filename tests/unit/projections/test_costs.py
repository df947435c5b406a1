"""What a run took: calls, tokens and dollars, in all and by model."""

from __future__ import annotations

from pytest_agentreplay.player import MemoryTape
from pytest_agentreplay.projections.costs import Cost, costs
from pytest_agentreplay.records import Usage
from tests.support.stories import Story, fails, says, tokens, user


def test_tokens_and_dollars_are_summed_in_all_and_by_model() -> None:
    story = Story()
    story.model(user("one"), reply=says("1"), usage=tokens(10, 5), cost_usd=0.25)
    story.model(user("two"), reply=says("2"), usage=tokens(20, None), cost_usd=0.5)
    story.tool("look")
    story.http()

    found = costs(story.tape)

    assert found.total == Cost(calls=2, usage=Usage(input_tokens=30, output_tokens=5), cost_usd=0.75)
    assert found.by_model == {"m": found.total}


def test_one_unknown_price_makes_the_sum_unknown() -> None:
    story = Story()
    story.model(user("one"), reply=says("1"), cost_usd=0.25)
    story.model(user("two"), reply=says("2"))

    assert costs(story.tape).total == Cost(calls=2, usage=Usage(), cost_usd=None)


def test_a_price_of_nothing_is_known() -> None:
    story = Story()
    story.model(user("one"), reply=says("1"), cost_usd=0.0)

    assert costs(story.tape).total.cost_usd == 0.0


def test_a_failed_call_is_a_call() -> None:
    story = Story()
    story.model(user("one"), reply=fails(429, "slow down"))
    story.model(reply=says("1"), usage=tokens(10, 5))

    assert costs(story.tape).total == Cost(calls=2, usage=tokens(10, 5), cost_usd=None)


def test_an_empty_run_took_nothing_and_cost_nothing() -> None:
    found = costs(MemoryTape())

    assert (found.total, found.by_model) == (Cost(calls=0, usage=Usage(), cost_usd=0.0), {})
