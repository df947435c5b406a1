"""The report of a divergence."""

from __future__ import annotations

import ast
import json
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_agentreplay.divergence import (
    Change,
    Scene,
    Unfinished,
    find_changes,
    report_changed,
    report_missing,
    report_order,
    report_unplayed,
)
from pytest_agentreplay.divergence.changes import ABSENT
from pytest_agentreplay.normalize import parse_ignore
from tests.unit.documents import any_json, any_text, changed_somewhere

SCENE = Scene(
    test="tests/test_agent.py::test_refund",
    cassette="tests/cassettes/test_agent/test_refund.jsonl",
    call_site="src/agent.py:12 in ask",
    recorded=("chat m", "chat m", "chat m"),
    now=("chat m", "chat m"),
    place=1,
)


def _changed(*changes: Change, scene: Scene = SCENE, **more: Any) -> str:
    options: dict[str, Any] = {
        "asked": "POST https://a/",
        "nearest": "chat m, recorded in lane l",
        "alike": 0.97,
        **more,
    }
    return report_changed(scene, changes=changes, **options)


def test_a_changed_request_is_reported_with_all_there_is_to_know() -> None:
    change = Change(path="$.messages[2].content", recorded="Refund 20", now="Refund 30", group="user text")

    report = _changed(change)

    assert report == (
        "Request changed: call 2 is not in the recording.\n"
        "\n"
        "  test      tests/test_agent.py::test_refund\n"
        "  cassette  tests/cassettes/test_agent/test_refund.jsonl\n"
        "  called    src/agent.py:12 in ask\n"
        "  asked     POST https://a/\n"
        "  nearest   chat m, recorded in lane l, 97% alike\n"
        "\n"
        "  what changed, recorded → now:\n"
        "    user text\n"
        "      $.messages[2].content\n"
        '        recorded: "Refund 20"\n'
        '        now:      "Refund 30"\n'
        "\n"
        "  recorded  1 chat m, ▶ 2 chat m, 3 chat m\n"
        "  now       1 chat m, ▶ 2 chat m\n"
        "\n"
        "  If the change is meant, record again: pytest tests/test_agent.py::test_refund --record-mode=rewrite"
    )


@pytest.mark.parametrize(
    ("now", "is_another"),
    [("https://b/", True), ("http://a:8080/", True), ("http://a/", False), ("https://a/v2", False)],
)
def test_another_address_is_reported_with_what_may_have_set_it(now: str, *, is_another: bool) -> None:
    report = _changed(Change(path="url", recorded="https://a/", now=now, group="transport"))

    assert ("another address: is a base URL" in report) == is_another


def test_what_a_request_says_is_cut_whatever_it_says() -> None:
    report = report_missing(SCENE, asked="POST https://a/", says=f"user: run pytest before you {'think ' * 2_000}")

    assert max(len(line) for line in report.splitlines()) <= 100
    assert "  says      user: run pytest before you think" in report


def test_the_kinds_of_report_have_titles_of_their_own_and_end_in_the_next_command() -> None:
    reports = [
        _changed(Change("$.a", 1, 2, "body")),
        _changed(nearest=None),
        _changed(exhausted=1),
        _changed(exhausted=3),
        report_order(SCENE, asked="POST https://a/", expected="POST https://b/ (3 messages)"),
        report_order(SCENE, asked="POST https://a/", expected=None),
        report_missing(SCENE, asked="POST https://a/"),
        report_missing(SCENE, asked="POST https://a/", partial=Unfinished("a.partial.jsonl")),
        report_unplayed(SCENE, unplayed=["step 3: chat m (call)"], count=1, phase="call"),
        report_unplayed(SCENE, unplayed=["step 3: chat m (call)"] * 12, count=12, phase="teardown"),
    ]

    titles = [report.splitlines()[0] for report in reports]

    assert titles == [
        "Request changed: call 2 is not in the recording.",
        "Additional request: call 2 is not in the recording.",
        "Recording exhausted: wants call 2 of a request, only 1 was recorded.",
        "Recording exhausted: wants call 4 of a request, only 3 were recorded.",
        "Order changed: call 2 is recorded, but not next in its conversation.",
        "Order changed: call 2 is recorded, but not next in its conversation.",
        "No cassette: the run made a request, and nothing is recorded for this test.",
        "No cassette: the run made a request, and its recording was never finished.",
        "Unplayed: 1 recorded step was not asked for by the end of the call.",
        "Unplayed: 12 recorded steps were not asked for by the end of the teardown.",
    ]
    commands = [report.partition("pytest tests/test_agent.py::test_refund --record-mode=")[2] for report in reports]
    assert [command.split()[0] for command in commands] == ["rewrite"] * 6 + ["once"] * 2 + ["rewrite"] * 2
    assert "expected  POST https://b/ (3 messages)" in reports[4]
    assert "expected  no further call in this conversation" in reports[5]
    assert "a.partial.jsonl" in reports[7]
    assert "… and 2 more" in reports[9]
    assert "unplayed='warn'" in reports[9]


@pytest.mark.parametrize(
    ("held", "failed", "remedy"),
    [
        (2, 0, "Resume it (what it holds is not asked again)"),
        (1, 2, "Resume it (what it holds is not asked again, but for the failures that it ends in)"),
        (0, 2, "Record it (all that this holds has failed, and is asked again)"),
        (0, 0, "Record it"),
    ],
)
def test_what_becomes_of_an_unfinished_recording_is_said_by_what_it_holds(held: int, failed: int, remedy: str) -> None:
    partial = Unfinished("a.partial.jsonl", held=held, failed=failed)

    lines = report_missing(SCENE, asked="POST https://a/", partial=partial).splitlines()

    assert "  partial   a.partial.jsonl" in lines
    assert lines[-1] == f"  {remedy}: pytest tests/test_agent.py::test_refund --record-mode=once"


def test_the_absent_is_told_from_null_and_from_text() -> None:
    report = _changed(Change("$.a", ABSENT, None, "body"), Change("$.b", "(absent)", ABSENT, "body"))

    assert [line.strip() for line in report.splitlines() if ":  " in line or "recorded:" in line] == [
        "recorded: (absent)",
        "now:      null",
        'recorded: "(absent)"',
        "now:      (absent)",
    ]


def test_elements_in_another_order_are_told_in_two_lines_whatever_they_hold() -> None:
    before = [{"content": f"{number} " * 100} for number in range(9)]
    after = before[::-1]

    lines = _changed(*find_changes(_form({"messages": before}), _form({"messages": after}))).splitlines()

    at = lines.index("      $.messages")
    assert lines[at - 1] == "    order"
    moved = "[1] → [7], [2] → [6], [3] → [5], [5] → [3], … and 3 more"
    assert lines[at + 1] == f"        the same elements in another order: {moved}"
    assert lines[at + 2].startswith('        [1] was: {"content": "1 1 1 1')
    assert lines[at + 3] == ""
    assert max(map(len, lines[: at + 3])) <= 100


def test_a_long_value_is_cut_around_its_first_difference_with_its_length() -> None:
    recorded = "x" * 1000 + "OLD" + "y" * 1000
    now = "x" * 1000 + "NEW" + "y" * 500

    report = _changed(Change("$.system", recorded, now, "system prompt"))

    assert "OLDyyy" in report
    assert "NEWyyy" in report
    assert "(2,005 characters)" in report
    assert "(1,505 characters)" in report
    assert len(report) < 1600


@pytest.mark.parametrize(
    ("recorded", "now", "kind"),
    [
        ("On 2024-05-01", "On 2024-06-02", "a date or time"),
        ("7b0b7cf8-7c2e-4f2a-9a54-0c4b2a7d2e10", "00000000-7c2e-4f2a-9a54-0c4b2a7d2e10", "a UUID"),
        ("in /tmp/pytest-1/x", "in /tmp/pytest-2/x", "a temporary path"),
        ("at 1700000000", "at 1700000001", "a Unix time"),
    ],
)
def test_a_volatile_value_comes_with_a_rule_that_can_be_pasted_and_lets_it_vary(
    recorded: str, now: str, kind: str
) -> None:
    report = _changed(Change("$.messages[0].content", recorded, now, "user text"))

    assert f"looks like {kind}; to let it vary:" in report
    literal = (
        next(line for line in report.splitlines() if "ignore=[" in line).partition("ignore=[")[2].removesuffix("]")
    )
    rule = parse_ignore(ast.literal_eval(literal))
    assert rule.apply(recorded) == rule.apply(now) != recorded


def test_a_value_that_varies_outside_the_body_gets_no_rule_for_it() -> None:
    assert "ignore=" not in _changed(Change("url", "https://a/2024-05-01", "https://a/2024-06-01", "transport"))


def test_a_place_far_into_the_run_is_shown_with_what_is_around_it() -> None:
    calls = tuple(f"chat m{number}" for number in range(100))

    report = _changed(scene=Scene(test="t", cassette="c", recorded=calls, now=calls[:51], place=50))

    assert "  recorded  … 48 chat m47, 49 chat m48, 50 chat m49, ▶ 51 chat m50, 52 chat m51, 53 chat m52, …" in report
    assert "  now       … 48 chat m47, 49 chat m48, 50 chat m49, ▶ 51 chat m50" in report


def test_a_place_beyond_the_end_of_the_recording_is_shown_with_the_end() -> None:
    report = _changed(scene=Scene(test="t", cassette="c", recorded=("a", "b", "c", "d"), now=("a",) * 10, place=9))

    assert "  recorded  … 2 b, 3 c, 4 d\n" in report
    assert "  now       … 7 a, 8 a, 9 a, ▶ 10 a\n" in report


def test_of_a_run_that_is_over_the_recording_alone_is_marked() -> None:
    scene = Scene(test="t", cassette="c", recorded=("a", "b", "c"), now=("a", "c"), place=1, is_over=True)

    report = report_unplayed(scene, unplayed=["step 2: b (call)"], count=1, phase="call")

    assert "  recorded  1 a, ▶ 2 b, 3 c\n  now       1 a, 2 c\n" in report


def test_a_test_whose_name_a_shell_would_change_is_quoted() -> None:
    report = report_missing(Scene(test="test_a.py::test_b[x y-$HOME]", cassette="c"), asked="GET https://a/")

    assert "pytest 'test_a.py::test_b[x y-$HOME]' --record-mode=once" in report


def _form(body: Any) -> dict[str, Any]:
    return {"method": "POST", "url": "https://a/", "headers": {}, "kind": "json", "body": body}


def _is_within_bounds(report: str) -> bool:
    lines = report.encode("utf-8").decode("utf-8").split("\n")
    return len(lines) <= 60 and all(len(line) <= 100 or "pytest " in line or "ignore=[" in line for line in lines)


@given(recorded=any_json, random=st.randoms(use_true_random=False))
def test_a_report_keeps_to_60_lines_of_100_columns_that_can_be_printed(recorded: Any, random: Random) -> None:
    now = recorded
    for _ in range(random.randrange(20)):
        now = changed_somewhere(now, random)

    report = _changed(*find_changes(_form(recorded), _form(now)))

    assert _is_within_bounds(report)


@given(names=st.lists(any_text, max_size=12), values=st.lists(st.text(max_size=2000), min_size=2, max_size=12))
@example(names=["chat \ud800", "chat a\nb", "chat \x1b[31m"], values=["a", "b"])
def test_a_report_keeps_to_its_bounds_whatever_calls_and_values_hold(names: list[str], values: list[str]) -> None:
    scene = Scene(test="t.py::t", cassette="c" * 200, recorded=tuple(names), now=tuple(names[1:]), place=2)
    changes = [Change("$." + "a" * 150, first, second, "body") for first, second in pairwise(values)]

    reports = [
        _changed(*changes, scene=scene, asked="POST https://a/" + "b" * 300),
        report_order(scene, asked="x" * 300, expected="y" * 300),
        report_unplayed(scene, unplayed=["pytest " * 50] * 50, count=50, phase="call"),
    ]

    assert all(map(_is_within_bounds, reports))
    assert not any(set(report) & set("\x1b\r\x00\u2028") for report in reports)


def test_many_differences_are_counted_and_a_few_are_shown() -> None:
    changes = [Change(f"$.a{number}", number, -number, "body") for number in range(1, 200)]

    report = _changed(*changes)

    assert "… and 191 more differences" in report
    assert len(report.splitlines()) <= 60


def test_a_report_with_more_to_say_than_60_lines_says_that_it_was_cut() -> None:
    changes = [Change(f"$.a{number}", "old " * 500, "new " * 500, "body") for number in range(8)]

    lines = _changed(*changes).splitlines()

    assert len(lines) == 60
    assert "    … cut; the rest of the differences is in the same request" in lines
    assert lines[-1].endswith("--record-mode=rewrite")


@pytest.mark.parametrize("depth", [500, 900])
def test_a_value_nested_deep_can_be_reported(depth: int) -> None:
    nested = json.loads("[" * depth + "1" + "]" * depth)

    report = _changed(Change("$.a", nested, 1, "body"))

    assert "[[[[[[[[" in report
    assert _is_within_bounds(report)
