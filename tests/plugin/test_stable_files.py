"""Cassettes as files in version control: the same conversation gives the same lines."""

from __future__ import annotations

import difflib
import json
from typing import Any

import pytest

from tests.support.openai import chat_answer
from tests.support.server import Answer, Seen
from tests.support.suite import Provider, Suite

LOOP = """
import pytest
from agent import ask

WORDS = {words!r}

@pytest.mark.agent_cassette
def test_it():
    messages = [{{"role": "system", "content": "be kind"}}]
    for word in WORDS:
        messages.append({{"role": "user", "content": word}})
        messages.append({{"role": "assistant", "content": ask(*messages)}})
"""
TWENTY = [f"turn {number}" for number in range(1, 21)]


def recorded(suite: Suite, source: str, *args: str) -> list[bytes]:
    suite.write(source)
    suite.run("--record-mode=rewrite", *args).assert_outcomes(passed=1)
    return suite.cassette().read_bytes().splitlines()


def changed_lines(before: list[bytes], after: list[bytes]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the lines that a diff takes out and puts in."""
    diff = list(difflib.ndiff([line.decode() for line in before], [line.decode() for line in after]))
    return tuple([json.loads(line[2:]) for line in diff if line.startswith(sign)] for sign in ("- ", "+ "))  # type: ignore[return-value]


def test_recording_the_same_conversation_again_changes_the_timing_line_alone(suite: Suite) -> None:
    source = LOOP.format(words=TWENTY)

    first = recorded(suite, source)
    second = recorded(suite, source)

    assert first[:-1] == second[:-1]
    assert json.loads(first[-1])["kind"] == "run.end"
    assert first[-1] != second[-1]


@pytest.mark.parametrize("client", ["httpx", "httpx2"])
def test_recording_concurrent_conversations_again_changes_the_timing_line_alone(suite: Suite, client: str) -> None:
    source = """
    import asyncio, random
    import pytest
    import CLIENT as client
    from agent import URL, body, said

    @pytest.mark.agent_cassette
    def test_it():
        async def main():
            async with client.AsyncClient(verify=False) as http:
                async def converse(number):
                    messages = [f"question {number}"]
                    for _ in range(3):
                        answer = said(await http.post(URL, json=body(*messages)))
                        messages += [{"role": "assistant", "content": answer}, "go on"]
                        await asyncio.sleep(random.random() / 50)
                await asyncio.gather(*map(converse, range(8)))
        asyncio.run(main())
    """.replace("CLIENT", client)

    first = recorded(suite, source)
    second = recorded(suite, source)

    assert first[:-1] == second[:-1]


def test_no_other_line_holds_a_number_or_a_time(suite: Suite) -> None:
    recorded(suite, LOOP.format(words=TWENTY))

    *lines, end = suite.lines()

    names = {name for line in lines for name in line}
    assert names.isdisjoint({"seq", "timing", "timings", "recorded_at", "run_id", "began"})
    assert {"timings", "recorded_at", "run_id"} <= set(end)


def test_each_message_stands_in_the_file_once(suite: Suite) -> None:
    recorded(suite, LOOP.format(words=TWENTY))

    messages = [json.dumps(line["value"]) for line in suite.lines() if line["kind"] == "message"]

    assert len(messages) == len(set(messages)) == 1 + 20 + 19


def test_changing_turn_7_of_20_touches_that_turns_lines_and_later_hashes_alone(
    suite: Suite, provider: Provider
) -> None:
    def respond(seen: Seen) -> Answer:
        return chat_answer(f"answer {len(seen.json()['messages'])}")

    provider.respond = respond
    before = recorded(suite, LOOP.format(words=TWENTY))
    after = recorded(suite, LOOP.format(words=[*TWENTY[:6], "another turn", *TWENTY[7:]]))

    gone, added = changed_lines(before[:-1], after[:-1])

    assert [line["value"]["content"] for line in gone if line["kind"] == "message"] == ["turn 7"]
    assert [line["value"]["content"] for line in added if line["kind"] == "message"] == ["another turn"]
    steps = [[line for line in lines if line["kind"] == "model"] for lines in (gone, added)]
    assert [len(found) for found in steps] == [14, 14]
    for old, new in zip(*steps, strict=True):
        differing = {name for name in old if old[name] != new[name]}
        allowed = {"hash", "after", "sum"}
        if old is steps[0][0]:
            assert differing == {"hash", "request", "sum"}
            assert set(old["request"]) == set(new["request"]) == {"add"}
        else:
            assert differing <= allowed
            assert set(old) == set(new)


def test_another_answer_in_turn_7_touches_that_answer_and_later_hashes_alone(suite: Suite, provider: Provider) -> None:
    before = recorded(suite, LOOP.format(words=TWENTY))

    def respond(seen: Seen) -> Answer:
        said = seen.json()["messages"][-1]["content"]
        return chat_answer("something else" if said == "turn 7" else f"echo: {said}")

    provider.respond = respond
    after = recorded(suite, LOOP.format(words=TWENTY))

    gone, added = changed_lines(before[:-1], after[:-1])

    assert [line["value"]["content"] for line in gone if line["kind"] == "message"] == ["echo: turn 7"]
    assert [line["value"]["content"] for line in added if line["kind"] == "message"] == ["something else"]
    steps = [[line for line in lines if line["kind"] == "model"] for lines in (gone, added)]
    differing = [{name for name in old if old[name] != new[name]} for old, new in zip(*steps, strict=True)]
    assert differing[0] == {"response", "sum"}
    assert differing[1] == {"hash", "request", "sum"}
    assert all(names == {"hash", "after", "sum"} for names in differing[2:])
    assert len(differing) == 14
