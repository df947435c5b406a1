"""Requests in flight together: right answers, whole conversations, and an order that holds in each."""

from __future__ import annotations

import pytest

from tests.support.openai import chat_answer
from tests.support.server import Answer, Seen
from tests.support.suite import Provider, Suite, failure

GATHERED = """
import asyncio, os
import pytest
import CLIENT as client
from agent import URL, body, said

REVERSED = False

@pytest.mark.agent_cassette
def test_it(agent_run):
    async def main():
        limits = client.Limits(max_connections=200, max_keepalive_connections=0)
        async with client.AsyncClient(verify=False, limits=limits, timeout=30) as http:
            async def ask(number):
                return said(await http.post(URL, json=body(f"question {number}")))
            numbers = list(range(200))
            if REVERSED:
                numbers.reverse()
            return numbers, await asyncio.gather(*map(ask, numbers))
    numbers, answers = asyncio.run(main())
    assert answers == [f"echo: question {number}" for number in numbers]
    assert agent_run.turns == 200
"""


@pytest.mark.parametrize("client", ["httpx", "httpx2"])
def test_200_gathered_requests_replayed_in_reverse_get_the_right_answers(
    suite: Suite, provider: Provider, client: str
) -> None:
    test = GATHERED.replace("CLIENT", client)
    suite.write(test)
    suite.record()
    provider.stop()
    suite.write(test.replace("REVERSED = False", "REVERSED = True"))

    result = suite.run()

    result.assert_outcomes(passed=1)


def test_200_requests_of_a_thread_pool_get_the_right_answers(suite: Suite, provider: Provider) -> None:
    test = """
    from concurrent.futures import ThreadPoolExecutor
    import pytest
    from agent import ask

    @pytest.mark.agent_cassette
    def test_it():
        numbers = NUMBERS
        with ThreadPoolExecutor(16) as pool:
            answers = list(pool.map(lambda number: ask(f"question {number}"), numbers))
        assert answers == [f"echo: question {number}" for number in numbers]
    """
    suite.write(test.replace("NUMBERS", "range(200)"))
    suite.record()
    provider.stop()
    suite.write(test.replace("NUMBERS", "range(199, -1, -1)"))

    result = suite.run()

    result.assert_outcomes(passed=1)


# Two sub-agents open alike and are told different things; each goes on from what it was told.
SUB_AGENTS = """
import asyncio, random
import httpx
import pytest
from agent import URL, body, said

OPENING = [{"role": "user", "content": "pick a colour"}]

async def converse(http, delays, turns=4):
    messages, told = list(OPENING), []
    for _ in range(turns):
        await asyncio.sleep(delays.random() / 200)
        answer = said(await http.post(URL, json=body(*messages)))
        told.append(answer)
        messages += [{"role": "assistant", "content": answer}, {"role": "user", "content": "go on"}]
    return told

@pytest.mark.parametrize("seed", range(50))
@pytest.mark.agent_cassette(name="colours")
def test_it(seed):
    async def main():
        async with httpx.AsyncClient(verify=False) as http:
            delays = random.Random(seed)
            return await asyncio.gather(converse(http, delays), converse(http, delays))
    told = asyncio.run(main())
    assert sorted(told) == [[f"{colour} {turn}" for turn in range(4)] for colour in ("blue", "red")]
"""


def test_sub_agents_that_open_alike_stay_consistent_in_50_replays_with_other_delays(
    suite: Suite, provider: Provider
) -> None:
    colours = iter(["red", "blue"])

    def respond(seen: Seen) -> Answer:
        messages = seen.json()["messages"]
        colour = messages[1]["content"].split()[0] if len(messages) > 1 else next(colours)
        return chat_answer(f"{colour} {len(messages) // 2}")

    provider.respond = respond
    suite.write(SUB_AGENTS)
    suite.record("-k", "test_it[0]")
    provider.stop()

    result = suite.run()

    result.assert_outcomes(passed=50)
    assert suite.cassettes() == ["cassettes/test_it/colours.jsonl"]


def test_sub_agents_that_open_alike_in_turn_are_served_in_the_order_recorded(suite: Suite, provider: Provider) -> None:
    colours = iter(["red", "blue"])
    provider.respond = lambda seen: chat_answer(next(colours))
    suite.write(
        """
        import pytest
        from agent import ask

        @pytest.mark.agent_cassette
        def test_it():
            assert [ask("pick a colour"), ask("pick a colour")] == ["red", "blue"]
        """
    )
    suite.record()
    provider.stop()

    result = suite.run()

    result.assert_outcomes(passed=1)


CONVERSATION = """
import pytest
from agent import ask
from pytest_agentreplay import ReplayDivergenceError

A = ["start"]
B = ["start", {"role": "assistant", "content": "echo: start"}, "go on"]

@pytest.mark.agent_cassette
def test_it():
    try:
        for messages in ORDER:
            ask(*messages)
    except ReplayDivergenceError as error:
        print("kind:", error.kind)
"""


def test_a_conversation_replayed_in_another_order_fails_as_order(suite: Suite, provider: Provider) -> None:
    suite.write(CONVERSATION.replace("ORDER", "(A, B)"))
    suite.record()
    provider.stop()
    suite.write(CONVERSATION.replace("ORDER", "(B, A)"))

    result = suite.run("-s")

    assert failure(result).startswith("ReplayDivergenceError: Order changed: call 1 is recorded, but not next")
    result.stdout.fnmatch_lines(["*kind: order"])


def test_two_conversations_may_change_places(suite: Suite, provider: Provider) -> None:
    test = """
    import pytest
    from agent import ask

    @pytest.mark.agent_cassette
    def test_it():
        for text in ORDER:
            answer = ask(text)
            ask(text, {"role": "assistant", "content": answer}, "go on")
    """
    suite.write(test.replace("ORDER", "('one', 'two')"))
    suite.record()
    provider.stop()
    suite.write(test.replace("ORDER", "('two', 'one')"))

    result = suite.run()

    result.assert_outcomes(passed=1)
