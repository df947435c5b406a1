"""``agentreplay events``, ``mermaid`` and ``show --textconv``: whatever names a tape, and what a diff of git shows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_agentreplay.cli import main
from tests.support.openai import completion
from tests.support.tapes import Told, chat, write_cassette, write_partial

ASK = {"role": "user", "content": "what is 6 x 7?"}
CALL = {"id": "call_abc", "type": "function", "function": {"name": "multiply", "arguments": '{"a": 6, "b": 7}'}}
ECHO = {"role": "assistant", "content": None, "tool_calls": [CALL]}
RESULT = {"role": "tool", "tool_call_id": "call_abc", "content": "42"}

TWO_TURNS = (
    Told(chat(ASK), completion(None, tool_calls=[CALL])),
    Told(chat(ASK, ECHO, RESULT), completion("It is 42.")),
)

EVENTS = """\
# agent-events 1
- event: run
  name: test_it

- event: user
  text: what is 6 x 7?

- event: turn
  calls:
    - id: call_1
      name: multiply

- event: tool
  name: multiply
  id: call_1
  arguments:
    a: 6
    b: 7
  result: '42'

- event: turn
  text: It is 42.
"""

FLOWCHART = """\
flowchart TD
  start([user])
  n0["LLM"]
  start --> n0
  n1["tool: multiply"]
  n0 --> n1
  n2["LLM"]
  n1 --> n2
  n2 --> done([done])
"""

SEQUENCE = """\
sequenceDiagram
  actor user
  participant a0 as agent
  user->>a0: start
  a0->>a0: LLM
  a0->>a0: tool: multiply
  a0->>a0: LLM
  a0-->>user: done
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, empty."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Return what a command prints; it must succeed and print no error."""

    def run(*arguments: str | Path) -> str:
        status = main([*map(str, arguments)])

        out, err = capsys.readouterr()
        assert (status, err) == (0, "")
        return out

    return run


@pytest.fixture
def fail(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Return the one line with which a command fails."""

    def fail(*arguments: str | Path) -> str:
        status = main([*map(str, arguments)])

        out, err = capsys.readouterr()
        assert (status, out) == (2, "")
        assert err.count("\n") == 1
        return err

    return fail


def git(folder: Path, *arguments: str) -> str:
    """Run git in a repository whose settings are its own."""
    told = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull, "HOME": str(folder)}
    author = {f"GIT_{who}_{what}": "a@b.example" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["git", *arguments], cwd=folder, env={**os.environ, **told, **author, "PATH": path}, capture_output=True
    )
    assert (done.returncode, done.stderr) == (0, b""), done
    return done.stdout.decode()


@pytest.fixture
def repository(folder: Path) -> Path:
    """A repository with one cassette, committed."""
    git(folder, "init", "--quiet")
    write_cassette(folder / "it.jsonl", TWO_TURNS)
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "one")
    return folder


def test_events_and_diagrams_are_printed_as_their_goldens_have_them(folder: Path, run: Callable[..., str]) -> None:
    write_cassette(folder / "it.jsonl", TWO_TURNS)

    assert run("events", "it.jsonl") == EVENTS
    assert run("mermaid", "it.jsonl") == FLOWCHART
    assert run("mermaid", "it.jsonl", "--style", "sequence") == SEQUENCE


def test_json_holds_the_same_events_and_diagram(folder: Path, run: Callable[..., str]) -> None:
    write_cassette(folder / "it.jsonl", TWO_TURNS)

    events, diagram = (json.loads(run(command, "it.jsonl", "--json")) for command in ("events", "mermaid"))

    assert diagram == {"cassette": "it.jsonl", "mermaid": FLOWCHART}
    assert events["cassette"] == "it.jsonl"
    assert [event["event"] for event in events["events"]] == ["run", "user", "turn", "tool", "turn"]
    assert events["events"][3] == {
        "event": "tool",
        "name": "multiply",
        "id": "call_1",
        "arguments": {"a": 6, "b": 7},
        "result": "42",
    }


def test_times_costs_and_hashes_are_added_where_they_are_asked_for(folder: Path, run: Callable[..., str]) -> None:
    write_cassette(folder / "it.jsonl", TWO_TURNS)

    def turns(*flags: str) -> list[dict[str, Any]]:
        events = json.loads(run("events", "it.jsonl", "--json", *flags))["events"]
        return [event for event in events if event["event"] == "turn"]

    assert [sorted(set(turn) - {"event", "text", "calls"}) for turn in turns()] == [[], []]
    assert [set(turn["timing"]) for turn in turns("--times")] == [{"began", "took"}] * 2
    assert [turn["usage"] for turn in turns("--costs")] == [{"input_tokens": 10, "output_tokens": 5}] * 2
    assert all(turn["hash"].startswith("a1:") for turn in turns("--hashes"))
    assert {"timing", "usage", "hash"} < set(turns("--times", "--costs", "--hashes")[0])


@pytest.mark.parametrize(
    ("nodeid", "cassette"),
    [
        ("tests/test_it.py::test_one", "test_one.jsonl"),
        ("tests/test_it.py::TestA::TestB::test_one", "TestA.TestB.test_one.jsonl"),
        ("tests/test_it.py::test_one[a-b]", "test_one[a-b].jsonl"),
        ("tests/test_it.py::TestA::test_one[x::y]", "TestA.test_one[x--y]-884ad364.jsonl"),
        ("tests/test_it.py::test_one[A]", "test_one[A]-ecfacc82.jsonl"),
    ],
)
def test_a_node_id_names_the_cassette_of_its_test(
    folder: Path, run: Callable[..., str], nodeid: str, cassette: str
) -> None:
    path = folder / "tests" / "cassettes" / "test_it" / cassette
    path.parent.mkdir(parents=True)
    write_cassette(path, TWO_TURNS)

    assert run("events", nodeid) == EVENTS
    assert run("mermaid", nodeid) == FLOWCHART
    assert "multiply(a=6, b=7)" in run("show", nodeid)


def test_a_revision_names_the_cassette_as_git_has_it(repository: Path, run: Callable[..., str]) -> None:
    write_cassette(repository / "it.jsonl", TWO_TURNS[:1])

    assert run("events", "HEAD:it.jsonl") == EVENTS
    assert run("mermaid", "HEAD:it.jsonl") == FLOWCHART
    assert run("show", "HEAD:it.jsonl").startswith("HEAD:it.jsonl\n")
    assert run("events", "it.jsonl") != EVENTS


def test_an_interrupted_recording_is_read_as_far_as_it_goes(folder: Path, run: Callable[..., str]) -> None:
    partial = write_partial(folder / "it.jsonl", TWO_TURNS[:1])

    assert "name: multiply" in run("events", partial)
    assert run("mermaid", partial).count("LLM") == 1


@pytest.mark.parametrize("command", ["events", "mermaid"])
def test_of_a_tape_that_was_never_finished_what_there_is_is_read(
    command: str, folder: Path, run: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    partial = write_partial(folder / "it.jsonl", TWO_TURNS[:1])

    status = main([command, "it.jsonl"])

    out, err = capsys.readouterr()
    assert status == 0
    assert out == run(command, partial)
    assert err == "agentreplay: it.jsonl was never finished. What there is of it is in it.partial.jsonl.\n"


@pytest.mark.parametrize(
    ("tape", "said"),
    [
        ("../absent.jsonl", "agentreplay: ../absent.jsonl: cannot be read: No such file or directory"),
        ("absent.jsonl", "absent.jsonl: cannot be read: No such file or directory. Check the path, or record it first"),
        ("tests/test_it.py::test_absent", "there is no cassette of this test"),
        ("HEAD:absent.jsonl", "HEAD:absent.jsonl: cannot be read from git: fatal: path 'absent.jsonl' does not exist"),
        ("no-such-revision:it.jsonl", "cannot be read from git: fatal: invalid object name 'no-such-revision'"),
        ("HEAD:absent.jsonl", ". Give REV:path as for git show: from the top of the repository, or as REV:./path"),
        ("notes.txt", "notes.txt"),
        (".", ".: cannot be read: Is a directory. Name a file that may be read"),
    ],
)
@pytest.mark.parametrize("command", ["events", "mermaid", "show"])
def test_a_tape_that_cannot_be_read_is_one_line(
    repository: Path, fail: Callable[..., str], command: str, tape: str, said: str
) -> None:
    (repository / "notes.txt").write_text("no cassette\n")

    assert said in fail(command, tape)


def test_outside_a_repository_a_revision_is_one_line(
    folder: Path, fail: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(folder.parent))

    assert "HEAD:it.jsonl: cannot be read from git: fatal: not a git repository" in fail("events", "HEAD:it.jsonl")


def test_a_style_that_is_not_known_is_one_line(folder: Path, fail: Callable[..., str]) -> None:
    write_cassette(folder / "it.jsonl", TWO_TURNS)

    said = fail("mermaid", "it.jsonl", "--style", "pie")

    assert said == "agentreplay: mermaid style 'pie' is not known; there are flowchart and sequence\n"


@pytest.fixture
def textconv(repository: Path) -> Path:
    """The repository, with cassettes shown in diffs as ``agentreplay show`` tells them."""
    (repository / ".gitattributes").write_text("*.jsonl linguist-generated diff=agentreplay\n")
    git(repository, "config", "diff.agentreplay.textconv", "agentreplay show --textconv")
    return repository


def changed_lines(diff: str) -> list[str]:
    """Return the lines that a diff adds or removes."""
    return [line for line in diff.splitlines() if line[:1] in "+-" and line[:3] not in ("+++", "---")]


def test_a_diff_of_git_shows_what_the_agent_did_otherwise(textconv: Path) -> None:
    longer = completion("It is 42.\nAsk me another.")
    write_cassette(textconv / "it.jsonl", (TWO_TURNS[0], Told(TWO_TURNS[1].body, longer)))

    diff = git(textconv, "diff", "it.jsonl")

    assert changed_lines(diff) == ["+             Ask me another."]


def test_a_diff_of_git_shows_nothing_that_every_recording_changes(textconv: Path) -> None:
    before = (textconv / "it.jsonl").read_bytes()
    write_cassette(textconv / "it.jsonl", TWO_TURNS)

    diff = git(textconv, "diff", "it.jsonl")

    assert (textconv / "it.jsonl").read_bytes() != before
    assert changed_lines(diff) == []


def test_a_cassette_with_conflict_markers_is_shown_as_it_is(textconv: Path) -> None:
    text = (textconv / "it.jsonl").read_text()
    (textconv / "it.jsonl").write_text(f"<<<<<<< HEAD\n{text}=======\n{text}>>>>>>> theirs\n")
    write_cassette(textconv / "other.jsonl", TWO_TURNS)
    git(textconv, "add", "--intent-to-add", "other.jsonl")

    diff = git(textconv, "diff")

    lines = changed_lines(diff)
    assert "+<<<<<<< HEAD" in lines
    assert "+  assistant  multiply(a=6, b=7)" in lines  # the other file is still told


def test_a_log_of_git_tells_each_version(textconv: Path) -> None:
    write_cassette(textconv / "it.jsonl", TWO_TURNS[:1])
    git(textconv, "commit", "--quiet", "--all", "-m", "two")

    log = git(textconv, "log", "-p", "--format=%s", "--", "it.jsonl")

    assert changed_lines(log).count("-  assistant  It is 42.") == 1
    assert changed_lines(log).count("+  assistant  It is 42.") == 1
