"""The five ways to differ from a recording: five messages, each with the next command."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from tests.support.suite import AGENT, Provider, Suite, failure

TWO_TURNS = """
import pytest
from agent import ask

@pytest.mark.agent_cassette
def test_it():
    first = ask("alpha")
    ask("alpha", {"role": "assistant", "content": first}, "beta")
"""

COPIED = re.compile(r"(pytest|agentreplay prune) test_it\.py|^ +ignore=\[")  # meant to be copied whole

AGAIN = "pytest test_it.py::test_it --record-mode=rewrite"


def replayed(suite: Suite, provider: Provider, *, recorded: str, now: str) -> str:
    """Record one test, replay another in its place, and return the failure's text."""
    suite.write(recorded)
    suite.record()
    provider.stop()
    suite.write(now)
    result = suite.run()
    result.assert_outcomes(failed=1)
    return failure(result)


def check_form(report: str) -> None:
    """Check what every report has in common."""
    lines = report.splitlines()
    assert len(lines) <= 60
    assert [line for line in lines if len(line) > 100 and not COPIED.search(line)] == []
    assert lines[0].startswith("ReplayDivergenceError: ")
    assert "  test      test_it.py::test_it" in lines
    assert "  cassette  cassettes/test_it/test_it.jsonl" in lines
    assert any(line.startswith("  recorded  ") for line in lines)
    assert any(line.startswith("  now       ") for line in lines)


def line_of(source: str, text: str) -> int:
    """Return the number of the line of a source in which a text stands."""
    return source[: source.index(text)].count("\n") + 1


def test_a_changed_request_shows_what_changed(suite: Suite, provider: Provider) -> None:
    report = replayed(suite, provider, recorded=TWO_TURNS, now=TWO_TURNS.replace('"beta"', '"gamma"'))

    check_form(report)
    lines = report.splitlines()
    assert lines[0] == "ReplayDivergenceError: Request changed: call 2 is not in the recording."
    asked_by = f"test_it.py:{line_of(TWO_TURNS.strip(), '    ask(')} in test_it"
    assert f"  called    {asked_by} > agent.py:{line_of(AGENT, 'said(CLIENT')} in ask" in lines
    assert "      $.messages[2].content" in lines
    assert '        recorded: "beta"' in lines
    assert '        now:      "gamma"' in lines
    assert "  recorded  1 chat m, ▶ 2 chat m" in lines
    assert "  now       1 chat m, ▶ 2 chat m" in lines
    assert lines[-1] == f"  If the change is meant, record again: {AGAIN}"


def test_an_additional_request_shows_what_it_asks(suite: Suite, provider: Provider) -> None:
    report = replayed(suite, provider, recorded=TWO_TURNS, now=TWO_TURNS + '    ask("gamma\\nand delta")\n')

    check_form(report)
    lines = report.splitlines()
    assert lines[0] == "ReplayDivergenceError: Additional request: call 3 is not in the recording."
    assert "  says      user: gamma and delta" in lines
    assert "  nearest   none: no recorded request is left" in lines
    assert lines[-1] == f"  If the change is meant, record again: {AGAIN}"


def test_a_cassette_of_another_test_is_reported_with_that_test(suite: Suite, provider: Provider) -> None:
    report = replayed(
        suite,
        provider,
        recorded=TWO_TURNS.replace("cassette", "cassette('it')").replace("test_it", "test_once"),
        now=TWO_TURNS.replace("cassette", "cassette('it')").replace("beta", "gamma"),
    )

    cassette = report.splitlines()[3:5]
    assert cassette == ["  cassette  cassettes/test_it/it.jsonl", "            of another test: test_it.py::test_once"]


def test_a_missing_cassette_says_how_to_record_one(suite: Suite) -> None:
    suite.write(TWO_TURNS)

    report = failure(suite.run())

    check_form(report)
    lines = report.splitlines()
    assert "  says      user: alpha" in lines
    assert lines[0].startswith("ReplayDivergenceError: No cassette: ")
    assert "  recorded  (nothing)" in lines
    assert "  now       ▶ 1 chat m" in lines
    assert lines[-1] == "  Record it: pytest test_it.py::test_it --record-mode=once"


def test_an_exhausted_recording_says_how_many_answers_there_were(suite: Suite, provider: Provider) -> None:
    report = replayed(
        suite,
        provider,
        recorded=TWO_TURNS,
        now=TWO_TURNS.replace('first = ask("alpha")', 'first = ask("alpha"); ask("alpha")'),
    )

    check_form(report)
    lines = report.splitlines()
    assert lines[0].startswith("ReplayDivergenceError: Recording exhausted: ")
    assert "call 2 of a request, only 1 was recorded" in lines[0]
    assert lines[-1].endswith(AGAIN)


def test_another_order_in_one_conversation_names_what_was_expected(suite: Suite, provider: Provider) -> None:
    report = replayed(
        suite,
        provider,
        recorded=TWO_TURNS,
        now="""
        import pytest
        from agent import ask

        @pytest.mark.agent_cassette
        def test_it():
            ask("alpha", {"role": "assistant", "content": "echo: alpha"}, "beta")
            ask("alpha")
        """,
    )

    check_form(report)
    lines = report.splitlines()
    assert lines[0] == "ReplayDivergenceError: Order changed: call 1 is recorded, but not next in its conversation."
    assert any(line.startswith("  expected  POST ") for line in lines)
    assert lines[-1] == f"  If the new order is meant, record again: {AGAIN}"


def test_unplayed_steps_are_listed_with_their_position_and_phase(suite: Suite, provider: Provider) -> None:
    report = replayed(suite, provider, recorded=TWO_TURNS, now=TWO_TURNS.partition("    ask(")[0])

    check_form(report)
    lines = report.splitlines()
    assert lines[0] == "ReplayDivergenceError: Unplayed: 1 recorded step was not asked for by the end of the call."
    assert "    step 2: chat m (call) says user: beta" in lines
    assert "  recorded  1 chat m, ▶ 2 chat m" in lines
    assert "  now       1 chat m" in lines
    prune = "agentreplay prune test_it.py::test_it"
    assert lines[-3] == f"  If the run should ask for less now, drop the rest offline: {prune}"
    assert lines[-2] == f"  Or record again: {AGAIN}"
    assert lines[-1] == "  Or allow it: @pytest.mark.agent_cassette(unplayed='warn')"


MANY_KINDS = """
import pytest
from agent import CLIENT, URL, ask, get
from pytest_agentreplay import recorded_tool

@recorded_tool
def weather(city):
    return "dry"

@pytest.mark.agent_cassette
def test_it():
    ask("alpha")
    weather("Paris")
    get("/prices?of=tea")
    CLIENT.post(URL.replace("chat/completions", "rerank"), json={"query": "tea", "messages": [{"content": "x"}]})
    ask("a long story: " + "on and on " * 40)
    ask("gamma\\nand delta")
"""


def test_each_unplayed_step_is_told_by_what_it_asked(suite: Suite, provider: Provider) -> None:
    report = replayed(suite, provider, recorded=MANY_KINDS, now=MANY_KINDS.partition('    weather("P')[0])

    check_form(report)
    steps = [line for line in report.splitlines() if line.startswith("    step ")]
    told = {line.partition(": ")[2] for line in steps}
    assert len(steps) == 5
    assert {
        'tool weather (call) with {"city": "Paris"}',
        "GET /prices (call) to http://127.0.0.1/prices?of=tea",
        'POST /v1/rerank (call) with {"query": "tea", "messages": [{"content": "x"}]}',
        "chat m (call) says user: gamma and delta",
    } <= told
    assert [line for line in steps if "says user: a long story: on and on" in line and line.endswith("…")]


def test_a_failure_shows_the_report_alone(suite: Suite, provider: Provider) -> None:
    suite.write(TWO_TURNS)
    suite.record()
    suite.write(TWO_TURNS.replace("beta", "gamma"))

    result = suite.run()

    shown = result.stdout.str()
    assert shown.count("Request changed: call 2") == 1 + shown.count("FAILED test_it.py::test_it - Replay")
    assert "Traceback" not in shown
    assert "site-packages" not in shown
    assert "pytest_agentreplay/" not in shown


RESULTS = """
import pytest
from agent import ask

RESULTS = [{"role": "tool", "tool_call_id": f"call_{city}", "content": f"dry in {city}"} for city in CITIES]

@pytest.mark.agent_cassette
def test_it():
    ask("how is it?", *RESULTS)
"""


def test_tool_results_in_another_order_are_told_by_their_places(suite: Suite, provider: Provider) -> None:
    report = replayed(
        suite,
        provider,
        recorded=RESULTS.replace("CITIES", "('Rome', 'Oslo', 'Lima')"),
        now=RESULTS.replace("CITIES", "('Oslo', 'Lima', 'Rome')"),
    )

    check_form(report)
    lines = report.splitlines()
    at = lines.index("  what changed, recorded → now:")
    assert lines[at + 1 : at + 6] == [
        "    order",
        "      $.messages",
        "        the same elements in another order: [1] → [3]",
        '        [1] was: {"role": "tool", "tool_call_id": "call_Rome", "content": "dry in Rome"}',
        "",
    ]


CHANGES = [
    ("ask('hello', temperature=0.5)", "ask('hello', temperature=0.7)", "sampling", "$.temperature", "0.5", "0.7"),
    ("ask('hello', model='m1')", "ask('hello', model='m2')", "model", "$.model", '"m1"', '"m2"'),
    ("ask('hello')", "ask('hello', seed=1)", "sampling", "$.seed", "(absent)", "1"),
    ("ask('hello', seed=1)", "ask('hello')", "sampling", "$.seed", "1", "(absent)"),
    (
        "ask({'role': 'system', 'content': 'be kind'}, 'x')",
        "ask({'role': 'system', 'content': 'be terse'}, 'x')",
        "system prompt",
        "$.messages[0].content",
        '"be kind"',
        '"be terse"',
    ),
    (
        "ask('x', tools=[{'type': 'function', 'function': {'name': 'pay', 'description': 'a'}}])",
        "ask('x', tools=[{'type': 'function', 'function': {'name': 'pay', 'description': 'b'}}])",
        "tool schema",
        "$.tools[0].function.description",
        '"a"',
        '"b"',
    ),
    (
        "ask('x', {'role': 'tool', 'tool_call_id': '1', 'content': '9 EUR'})",
        "ask('x', {'role': 'tool', 'tool_call_id': '1', 'content': '8 EUR'})",
        "tool result",
        "$.messages[1].content",
        '"9 EUR"',
        '"8 EUR"',
    ),
    ("get('/a')", "get('/b')", "transport", "url", '"http://127.0.0.1/a"', '"http://127.0.0.1/b"'),
]


@pytest.mark.parametrize(("before", "after", "group", "path", "recorded", "now"), CHANGES)
def test_a_change_is_named_by_group_and_path_with_both_values(
    suite: Suite, provider: Provider, before: str, after: str, group: str, path: str, recorded: str, now: str
) -> None:
    test = "import pytest\nfrom agent import ask, get\n\n@pytest.mark.agent_cassette\ndef test_it(): {}\n"

    report = replayed(suite, provider, recorded=test.format(before), now=test.format(after))

    check_form(report)
    lines = report.splitlines()
    at = lines.index(f"      {path}")
    assert lines[at - 1] == f"    {group}"
    assert lines[at + 1] == f"        recorded: {recorded}"
    assert lines[at + 2] == f"        now:      {now}"


def test_a_long_value_is_cut_around_the_change_with_its_length(suite: Suite, provider: Provider) -> None:
    test = """
    import pytest
    from agent import ask

    @pytest.mark.agent_cassette
    def test_it():
        ask("start " + "x" * 5000 + "MIDDLE" + "y" * 5000)
    """

    report = replayed(suite, provider, recorded=test, now=test.replace("MIDDLE", "CENTRE"))

    check_form(report)
    assert "MIDDLE" in report
    assert "CENTRE" in report
    assert report.count("(10,014 characters)") == 2


def test_many_changes_stay_within_the_report(suite: Suite, provider: Provider) -> None:
    test = """
    import pytest
    from agent import ask

    @pytest.mark.agent_cassette
    def test_it():
        ask("hello", tools=[{"name": f"tool {i}", "description": "WORD " * 200} for i in range(40)])
    """

    report = replayed(suite, provider, recorded=test, now=test.replace("WORD", "TEXT"))

    check_form(report)
    assert report.splitlines()[-1].endswith(AGAIN)
    assert "cut; the rest of the differences is in the same request" in report


def test_a_value_that_looks_volatile_is_named_with_a_setting_that_lets_it_vary(
    suite: Suite, provider: Provider
) -> None:
    test = """
    import pytest
    from agent import ask

    @pytest.mark.agent_cassette(IGNORE)
    def test_it():
        ask({"role": "system", "content": "Today is 2024-05-01."}, "hello")
    """
    recorded, now = test.replace("IGNORE", ""), test.replace("IGNORE", "").replace("2024-05-01", "2025-11-29")

    report = replayed(suite, provider, recorded=recorded, now=now)

    check_form(report)
    [rule] = re.findall(r"looks like a date or time; to let it vary:\n +(ignore=\[.*\])", report)
    suite.write(test.replace("IGNORE", rule).replace("2024-05-01", "2025-11-29"))
    suite.run().assert_outcomes(passed=1)


def test_the_call_sequence_is_shown_around_the_place(suite: Suite, provider: Provider) -> None:
    test = """
    import pytest
    from agent import ask

    @pytest.mark.agent_cassette
    def test_it():
        for number in range(30):
            ask(f"question {number}")
    """

    report = replayed(suite, provider, recorded=test, now=test.replace("question {number}", "question {number % 20}"))

    check_form(report)
    assert "  recorded  … 18 chat m, 19 chat m, 20 chat m, ▶ 21 chat m, 22 chat m, 23 chat m, …" in report
    assert "  now       … 18 chat m, 19 chat m, 20 chat m, ▶ 21 chat m" in report


def test_a_test_id_with_spaces_is_quoted_in_the_next_command(suite: Suite) -> None:
    suite.write(
        """
        import pytest
        from agent import ask

        @pytest.mark.agent_cassette
        @pytest.mark.parametrize("text", ["two words"])
        def test_it(text): ask(text)
        """
    )

    report = failure(suite.run(), "test_it[two words]")

    assert report.endswith("  Record it: pytest 'test_it.py::test_it[two words]' --record-mode=once")


SHARED = """
import pytest
from agent import ask

@pytest.fixture(scope="session")
def shared():
    ask({setup!r})
    yield
    {teardown}

@pytest.mark.agent_cassette
@pytest.mark.parametrize("text", ["it's $HOME"])
def test_it(text, shared): ask(text)

@pytest.mark.agent_cassette
def test_other(): ask("something else")
"""


@pytest.mark.parametrize(
    ("recorded", "now", "test", "ending"),
    [
        (None, SHARED.format(setup="hello", teardown=""), "test_it[it's $HOME]", "Record it: "),
        (
            SHARED.format(setup="hello", teardown=""),
            SHARED.format(setup="hi", teardown=""),
            "test_it[it's $HOME]",
            "If the change is meant, record again: ",
        ),
        (
            SHARED.format(setup="hello", teardown="ask('bye')"),
            SHARED.format(setup="hello", teardown="ask('cheers')"),
            "test_other",
            "If the change is meant, record again: ",
        ),
    ],
    ids=["missing", "changed", "changed-in-teardown"],
)
def test_the_next_command_for_a_shared_fixture_works_in_a_shell(
    suite: Suite, monkeypatch: pytest.MonkeyPatch, recorded: str | None, now: str, test: str, ending: str
) -> None:
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    if recorded is not None:
        suite.write(recorded)
        suite.record()
    suite.write(now)
    before = suite.run()

    command = failure(before, test).splitlines()[-1].removeprefix(f"  {ending}")
    done = suite.pytester.run("sh", "-c", command)

    assert command.startswith("pytest ")
    done.assert_outcomes(passed=1)
    suite.run("test_it.py::test_it").assert_outcomes(passed=1)


def test_the_next_command_for_an_unfinished_recording_of_a_shared_fixture_works_in_a_shell(
    suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    suite.write(SHARED.format(setup="hello", teardown=""))
    suite.record()
    suite.write(SHARED.format(setup="hi", teardown="").replace("yield", "1 / 0"))
    before = suite.run("--record-mode=rewrite", "test_it.py::test_it")
    suite.write(SHARED.format(setup="hi", teardown=""))

    [line] = [
        line for line in before.outlines if "recording of a failing test kept: " in line and "fixture.shared" in line
    ]
    command = line.rpartition("to go on from it: ")[2]
    done = suite.pytester.run("sh", "-c", command)

    done.assert_outcomes(passed=1)
