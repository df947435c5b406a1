"""Golden event streams and diagrams: how they are written and compared, and what a difference prints."""

from __future__ import annotations

import json
import shlex
import unicodedata
from typing import Any

import pytest

from tests.support.openai import chat_answer, completion
from tests.support.server import Answer, Seen, answer_json
from tests.support.suite import Provider, Suite, failure

PIN = """
import pytest
from agent import ask

@pytest.mark.agent_cassette
def test_it(agent_run, event_snapshot, mermaid_snapshot):
    ask("one")
    assert agent_run.events == event_snapshot
    assert agent_run.mermaid() == mermaid_snapshot
"""

EVENTS = """\
# agent-events 1
- event: run
  name: test_it

- event: user
  text: one

- event: turn
  text: 'echo: one'
"""

DIAGRAM = """\
flowchart TD
  start([user])
  n0["LLM"]
  start --> n0
  n0 --> done([done])
"""


def goldens(suite: Suite, folder: str = "test_it") -> dict[str, str]:
    """Return the goldens of a module by their file names."""
    files = (suite.path / "__snapshots__" / folder).glob("*")
    return {path.name: path.read_bytes().decode() for path in sorted(files)}


def golden_section(result: pytest.RunResult, test: str = "test_it") -> str:
    """Return what the report of a failed test says of its golden."""
    reports = result.reprec.getreports("pytest_runtest_logreport")  # type: ignore[attr-defined]
    [report] = [report for report in reports if report.failed and report.nodeid.endswith(f"::{test}")]
    return dict(report.sections)["golden"] + "\n"


def update(suite: Suite, *args: str) -> pytest.RunResult:
    """Record what is missing, write the goldens, and see it pass."""
    result = suite.run("--record-mode=once", "--snapshot-update", *args)
    assert result.ret == pytest.ExitCode.OK, result.stdout.str()
    return result


def pin(suite: Suite, body: str, *, head: str = "", fixtures: str = "event_snapshot") -> None:
    """Write a test that asks once, and compares goldens in its body."""
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    head = f"import pytest\nfrom agent import ask\n{head}\n@pytest.mark.agent_cassette\n"
    suite.write(f"{head}def test_it(agent_run, {fixtures}):\n    ask('one')\n{lines}")


def test_a_missing_golden_fails_and_says_how_to_write_it(suite: Suite) -> None:
    suite.write(PIN)

    result = suite.run("--record-mode=once")

    result.assert_outcomes(failed=1)
    assert "the run == its golden; see 'golden' below" in failure(result)
    assert golden_section(result) == (
        "golden  __snapshots__/test_it/test_it.agent-events\n"
        "\n"
        "There is no golden yet. Write it, and read it before you commit it:\n"
        "  pytest test_it.py::test_it --snapshot-update\n"
    )
    assert goldens(suite) == {}


def test_a_recording_and_its_goldens_are_written_in_one_go_and_hold_in_replay(suite: Suite, provider: Provider) -> None:
    suite.write(PIN)
    update(suite)
    provider.stop()

    result = suite.run()

    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["2 snapshots passed."])
    assert goldens(suite) == {"test_it.agent-events": EVENTS, "test_it.mermaid": DIAGRAM}


SHOP = """
import json
import pytest
from agent import CLIENT, URL, body, user
from pytest_agentreplay import recorded_tool

@recorded_tool
def look_up(order):
    return {"item": "teapot", "paid": 5990}

@recorded_tool
def refund(cents):
    return {"refunded": cents}

@recorded_tool
def notify(text):
    return "sent"

TOOLS = {"look_up": look_up, "refund": refund, "notify": notify}

@pytest.mark.agent_cassette
def test_it(agent_run, event_snapshot):
    messages = [user("My teapot is cracked.")]
    while True:
        message = CLIENT.post(URL, json=body(*messages)).json()["choices"][0]["message"]
        messages.append(message)
        for call in message.get("tool_calls", ()):
            result = TOOLS[call["function"]["name"]](**json.loads(call["function"]["arguments"]))
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": json.dumps(result)})
        if not message.get("tool_calls"):
            break
    assert agent_run.events == event_snapshot
"""


def follow(provider: Provider, *calls: tuple[str, dict[str, Any]], ending: str) -> None:
    """Let the model call one tool after the other, and end with a text."""

    def respond(seen: Seen) -> Answer:
        asked = sum(message["role"] == "assistant" for message in seen.json()["messages"])
        if asked == len(calls):
            return chat_answer(ending)
        name, arguments = calls[asked]
        function = {"name": name, "arguments": json.dumps(arguments)}
        return answer_json(completion(None, tool_calls=[{"id": f"c{asked}", "type": "function", "function": function}]))

    provider.respond = respond


CHANGED = """\
golden  __snapshots__/test_it/test_it.agent-events

events, golden → now:
  ~ tool look_up
      $.arguments.order
        golden: "A-1"
        now:    "A-2"
  ~ turn calls notify
      $.calls[0].name
        golden: "refund"
        now:    "notify"
  - tool refund
  + tool notify
  ~ turn Done. It is on its way to you.
      $.text
        golden: "Done.\\nIt is on its way."
        now:    "Done.\\nIt is on its way to you."

file, - golden, + now:
  @@ -16,3 +16,3 @@
     arguments:
  -    order: A-1
  +    order: A-2
     result:
  @@ -24,11 +24,10 @@
       - id: call_2
  -      name: refund
  +      name: notify
  \x20
   - event: tool
  -  name: refund
  +  name: notify
     id: call_2
     arguments:
  -    cents: 5990
  -  result:
  -    refunded: 5990
  +    text: Refunded.
  +  result: sent
  … 5 more lines

If the change is meant, write the golden anew:
  pytest test_it.py::test_it --record-mode=new_episodes --snapshot-update
"""


SWAPPED = """
import pytest

@pytest.mark.agent_cassette(unplayed="ignore")
def test_it(event_snapshot):
    calls = [{{"name": name, "arguments": {{"text": name * 60}}}} for name in {names!r}]
    assert [{{"event": "turn", "calls": calls}}] == event_snapshot
"""


def test_calls_that_swapped_places_are_told_as_that(suite: Suite) -> None:
    names = ["look_up", "refund", "notify"]
    suite.write(SWAPPED.format(names=names))
    suite.run("--snapshot-update").assert_outcomes(passed=1)
    suite.write(SWAPPED.format(names=[names[0], names[2], names[1]]))

    lines = suite.run().stdout.lines

    at = lines.index("      $.calls")
    assert lines[at + 1] == "        the same elements in another order: [2] → [1]"
    assert lines[at + 2].startswith('        [2] was: {"name": "notify", "arguments": {"text": "notify')
    assert lines[at + 2].endswith("… (405 characters)")
    assert lines[at + 3] == ""


def test_a_failing_golden_prints_the_events_that_differ_then_the_file_and_the_command(
    suite: Suite, provider: Provider
) -> None:
    suite.write(SHOP)
    refund, notify = ("refund", {"cents": 5990}), ("notify", {"text": "Refunded."})
    follow(provider, ("look_up", {"order": "A-1"}), refund, ending="Done.\nIt is on its way.")
    update(suite)
    follow(provider, ("look_up", {"order": "A-2"}), notify, ending="Done.\nIt is on its way to you.")

    result = suite.run("--record-mode=rewrite")

    result.assert_outcomes(failed=1)
    assert golden_section(result) == CHANGED


@pytest.mark.parametrize("option", ["--agent-replay=hybrid", "-o agent_replay=hybrid"])
def test_the_command_of_a_golden_whose_run_the_recording_did_not_answer_alone_records_it_anew(
    suite: Suite, option: str
) -> None:
    suite.write(PIN)
    update(suite)
    suite.write(PIN.replace("one", "two"))
    failed = suite.run(*option.split())
    [command] = [line for line in golden_section(failed).splitlines() if line.startswith("  pytest ")]

    updated = suite.run(*shlex.split(command)[1:])

    assert command == "  pytest test_it.py::test_it --record-mode=rewrite --snapshot-update"
    updated.assert_outcomes(passed=1)
    assert goldens(suite)["test_it.agent-events"] == EVENTS.replace("one", "two")
    suite.run().assert_outcomes(passed=1)


def test_a_golden_of_a_run_that_asked_for_less_says_so_and_gives_the_command_that_mends_both(suite: Suite) -> None:
    pin(suite, "ask('two')\nassert agent_run.events == event_snapshot")
    update(suite)
    pin(suite, "assert agent_run.events == event_snapshot")
    failed = suite.run()
    section = golden_section(failed).splitlines()

    updated = suite.run(*shlex.split(section[-1])[1:])

    assert section[-5:] == [
        "  pytest test_it.py::test_it --snapshot-update",
        "",
        "When it was compared, 1 recorded step had not been asked for. If the run is to ask for less,",
        "record it again as well:",
        "  pytest test_it.py::test_it --record-mode=rewrite --snapshot-update",
    ]
    updated.assert_outcomes(passed=1)
    suite.run().assert_outcomes(passed=1)


def test_the_command_of_a_failing_golden_writes_what_was_recorded_and_asks_nobody_again(
    suite: Suite, provider: Provider
) -> None:
    suite.write(PIN)
    update(suite)
    provider.respond = lambda seen: chat_answer("uno")
    failed = suite.run("--record-mode=rewrite")
    provider.stop()
    [command] = [line for line in golden_section(failed).splitlines() if line.startswith("  pytest ")]

    updated = suite.run(*shlex.split(command)[1:])

    assert command == "  pytest test_it.py::test_it --record-mode=new_episodes --snapshot-update"
    updated.assert_outcomes(passed=1)
    updated.stdout.fnmatch_lines(["1 snapshot passed. 1 snapshot updated."])
    assert goldens(suite)["test_it.agent-events"] == EVENTS.replace("'echo: one'", "uno")
    suite.run().assert_outcomes(passed=1)


def test_a_golden_whose_line_ends_a_checkout_changed_still_holds(suite: Suite) -> None:
    suite.write(PIN)
    update(suite)
    for name, text in goldens(suite).items():
        (suite.path / "__snapshots__" / "test_it" / name).write_bytes(text.replace("\n", "\r\n").encode())

    result = suite.run()

    result.assert_outcomes(passed=1)


def test_several_assertions_and_names_have_files_of_their_own(suite: Suite) -> None:
    pin(
        suite,
        "assert agent_run.events == event_snapshot\n"
        "ask('two')\n"
        "assert agent_run.events == event_snapshot\n"
        "assert agent_run.events == event_snapshot(name='at the end')\n"
        "assert agent_run.events == event_snapshot(name='a/b')\n"
        "assert agent_run.events == event_snapshot(name='a-b')\n"
        f"assert agent_run.events == event_snapshot(name={'n' * 300!r})\n",
    )
    update(suite)

    result = suite.run()

    result.stdout.fnmatch_lines(["6 snapshots passed."])
    names = [name.removesuffix(".agent-events") for name in goldens(suite)]
    assert len(names) == 6
    assert {"test_it", "test_it.1", "test_it[at the end]", "test_it[a-b]"} < set(names)
    assert max(map(len, names)) < 255


def test_a_matcher_and_filters_of_syrupy_shape_what_is_kept(suite: Suite) -> None:
    pin(
        suite,
        "assert agent_run.events == event_snapshot(\n"
        "    matcher=path_type({'2.text': (str,)}), exclude=props('task', 'name'), name='typed')\n"
        "assert agent_run.events == event_snapshot(exclude=paths('1', '2.text'), name='without')\n"
        "assert agent_run.events == event_snapshot(include=props('event', 'text'), name='within')\n"
        "assert agent_run.mermaid() == mermaid_snapshot(\n"
        "    matcher=lambda data, path: data.replace('LLM', 'MODEL'))\n",
        head="from syrupy.filters import paths, props\nfrom syrupy.matchers import path_type",
        fixtures="event_snapshot, mermaid_snapshot",
    )
    update(suite)

    result = suite.run()

    result.assert_outcomes(passed=1)
    files = goldens(suite)
    assert files == {
        "test_it[typed].agent-events": EVENTS.replace("  name: test_it\n", "").replace("'echo: one'", "str"),
        "test_it[without].agent-events": "# agent-events 1\n- event: run\n  name: test_it\n\n- event: turn\n",
        "test_it[within].agent-events": EVENTS.replace("  name: test_it\n", ""),
        "test_it.mermaid": DIAGRAM.replace("LLM", "MODEL"),
    }


IDS = """
import pytest
from agent import ask

IDS = ["a/b", "a:b", "a-b", "a?b", "A-B", "aux", "x" * 300, "x" * 299 + "y", "caf\\u00e9", "cafe\\u0301", "dot."]

@pytest.mark.parametrize("text", IDS, ids=IDS)
@pytest.mark.agent_cassette
def test_it(agent_run, event_snapshot, text):
    ask(text)
    assert agent_run.events == event_snapshot

class TestOne:
    class TestTwo:
        @pytest.mark.parametrize("text", ["a/b", "a-b"])
        @pytest.mark.agent_cassette
        def test_it(self, agent_run, event_snapshot, text):
            ask(text)
            assert agent_run.events == event_snapshot
"""


def test_tests_whose_names_no_file_system_tells_apart_have_goldens_of_their_own(suite: Suite) -> None:
    suite.ini("disable_test_id_escaping_and_forfeit_all_rights_to_community_support = true")
    suite.write(IDS)
    update(suite, "-Werror::UserWarning")

    result = suite.run()

    result.stdout.fnmatch_lines(["13 snapshots passed."])
    names = [unicodedata.normalize("NFD", name).casefold() for name in goldens(suite)]
    assert len(set(names)) == 13
    assert max(len(name.encode()) for name in names) < 255
    assert [name for name in names if set(name) & set('<>:"/\\|?*')] == []
    assert {"test_it[a-b].agent-events", "testone.testtwo.test_it[a-b].agent-events"} < set(names)


NO_GOLDEN = """
import pytest
from agent import ask

@pytest.mark.agent_cassette
def test_without():
    ask("one")

@pytest.mark.agent_cassette
def test_with(agent_run, FIXTURE):
    ask("one")
    assert agent_run.events == FIXTURE
"""


@pytest.mark.parametrize("fixture", ["event_snapshot", "mermaid_snapshot"])
def test_without_syrupy_only_a_test_with_a_golden_fails_and_says_why(suite: Suite, fixture: str) -> None:
    suite.write(NO_GOLDEN.replace("FIXTURE", fixture))

    result = suite.run("--record-mode=once", "-p", "no:syrupy")

    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(
        [f"{fixture} needs syrupy's pytest plugin, which is not loaded: leave out -p no:syrupy, *"]
    )


def test_a_snapshot_fixture_of_another_plugin_is_not_in_the_way(suite: Suite) -> None:
    suite.pytester.makeconftest("import pytest\n\n@pytest.fixture\ndef snapshot():\n    return {}\n")
    suite.write(PIN)

    update(suite)

    assert goldens(suite) == {"test_it.agent-events": EVENTS, "test_it.mermaid": DIAGRAM}


def test_an_unmarked_test_compares_the_tape_it_loads(suite: Suite, provider: Provider) -> None:
    suite.write(PIN)
    update(suite)
    provider.stop()
    suite.pytester.makepyfile(
        test_tapes="""
        from pytest_agentreplay import event_stream, load_cassette, render_mermaid

        def test_tape(event_snapshot, mermaid_snapshot):
            tape = load_cassette("cassettes/test_it/test_it.jsonl")
            assert event_stream(tape) == event_snapshot
            assert render_mermaid(tape) == mermaid_snapshot
        """
    )
    suite.run("test_tapes.py", "--snapshot-update").assert_outcomes(passed=1)

    result = suite.run("test_tapes.py")

    result.assert_outcomes(passed=1)
    assert list(goldens(suite, "test_tapes").values()) == [EVENTS, DIAGRAM]


@pytest.mark.parametrize(
    ("comparison", "said"),
    [
        (
            "{'a': 1} == event_snapshot",
            "event_snapshot compares a list of events, as agent_run.events gives it; got dict",
        ),
        (
            "agent_run.events == mermaid_snapshot",
            "mermaid_snapshot compares a diagram's text, as agent_run.mermaid() gives it; got list",
        ),
    ],
)
def test_anything_else_than_a_run_is_refused_in_one_line(suite: Suite, comparison: str, said: str) -> None:
    pin(suite, f"assert {comparison}", fixtures="event_snapshot, mermaid_snapshot")

    result = suite.run("--record-mode=once", "--snapshot-update")

    result.assert_outcomes(failed=1)
    assert golden_section(result).splitlines()[2:] == [said]


def test_a_golden_that_is_no_event_stream_is_named_as_one(suite: Suite) -> None:
    suite.write(PIN)
    update(suite)
    path = suite.path / "__snapshots__/test_it/test_it.agent-events"
    path.write_text("events: [\n")

    result = suite.run()

    result.assert_outcomes(failed=1)
    assert (
        golden_section(result).splitlines()[2] == "the golden file is no event stream; --snapshot-update writes it anew"
    )
    update(suite)
    assert path.read_text() == EVENTS


@pytest.mark.parametrize(("name", "golden"), [("test_it.agent-events", EVENTS), ("test_it.mermaid", DIAGRAM)])
def test_a_conflict_marker_in_a_golden_is_named_with_its_line_and_the_command(
    suite: Suite, name: str, golden: str
) -> None:
    suite.write(PIN)
    update(suite)
    path = suite.path / "__snapshots__/test_it" / name
    head, rest = golden.split("\n", 1)
    path.write_text(f"{head}\n<<<<<<< HEAD\n{rest}=======\n{rest}>>>>>>> theirs\n")

    result = suite.run()

    result.assert_outcomes(failed=1)
    assert golden_section(result).splitlines() == [
        f"golden  __snapshots__/test_it/{name}",
        "",
        "line 2: a git conflict marker",
        "Resolve the conflict: keep one side whole, or write the golden anew:",
        "  pytest test_it.py::test_it --snapshot-update",
    ]
    update(suite)
    assert path.read_text() == golden


def test_a_model_that_writes_conflict_markers_has_a_golden_like_any_other(suite: Suite, provider: Provider) -> None:
    provider.respond = lambda seen: answer_json(completion("<<<<<<< a\n=======\n>>>>>>> b\n"))
    suite.write(PIN)
    update(suite)
    path = suite.path / "__snapshots__/test_it/test_it.agent-events"
    path.write_text(path.read_text().replace("text: one", "text: two"))

    section = golden_section(suite.run())

    assert "a git conflict marker" not in section
    assert "text: one" in section
