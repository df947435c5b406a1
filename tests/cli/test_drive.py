"""``agentreplay replay`` and ``agentreplay resume``: an agent of a module, driven over a tape."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_agentreplay import load_cassette, use_cassette
from pytest_agentreplay.cassette import partial_path, write_cassette
from pytest_agentreplay.cli import main
from pytest_agentreplay.records import RunEnd, RunStart
from pytest_agentreplay.session import Session
from tests.support.agent import Desk, echo_or_stream
from tests.support.suite import Provider, providing

AGENT = """
import asyncio
import socket
import threading

from pytest_agentreplay import ReplayDivergenceError, recorded_tool
from tests.support.agent import Desk

desk = Desk("{url}")
not_callable = 3


def build(plan):
    return lambda: desk.ask(plan.task)


def build_async(plan):
    async def agent():
        await asyncio.sleep(0)
        return await desk.ask_async(plan.task)

    return agent


def build_changed(plan):
    return lambda: desk.ask("something else")


def build_chatty(plan):
    def agent():
        print("the agent talks")
        return {{"said": desk.ask(plan.task), "lock": threading.Lock()}}

    return agent


def build_failing(plan):
    def agent():
        raise OSError("no disk")

    return agent


def build_failing_async(plan):
    async def agent():
        raise OSError("no disk")

    return agent


class Gone(Exception):
    pass


@recorded_tool
def fail():
    raise Gone("gone")


def run_tool():
    fail()


def build_idle(plan):
    return lambda: None


def build_nothing(plan):
    return 3


def build_dated(plan):
    return lambda: desk.ask("It is 2026-02-03.")


def build_reaching(plan):
    return lambda: socket.create_connection(("192.0.2.1", 80), timeout=1)


def run():
    return desk.ask("one") + ", " + desk.ask("two")


def run_with_plan(plan):
    return desk.ask(plan.task)


def run_changed():
    return desk.ask("something else")


def run_idle():
    return None


def run_exit(plan):
    desk.ask("one")
    raise SystemExit(0)
"""
ALLOW = "  Or allow it: {}('run.jsonl', {}, unplayed='warn') from Python"
AGAIN = "record again: use_cassette('run.jsonl', record_mode='rewrite') in the code that recorded it"


@pytest.fixture
def provider() -> Iterator[Provider]:
    """A provider that answers a chat request with its last message."""
    with providing(echo_or_stream) as running:
        yield running


@pytest.fixture
def folder(tmp_path: Path, provider: Provider, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working directory with a tape of one request and a module of agents."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "driven.py").write_text(AGENT.format(url=provider.url))
    (tmp_path / "broken.py").write_text("1 / 0\n")
    with use_cassette("run.jsonl", record_mode="once"):
        Desk(provider.url).ask("one")
    yield tmp_path
    for name in ("driven", "broken"):
        sys.modules.pop(name, None)


def lines_of(text: str) -> list[str]:
    return text.strip().splitlines()


@pytest.mark.parametrize("build", ["build", "build_async", "build_chatty"])
def test_replay_runs_an_agent_offline_and_says_where_its_tape_is(
    folder: Path, provider: Provider, capsys: pytest.CaptureFixture[str], build: str
) -> None:
    asked = provider.server.connections

    code = main(["replay", f"driven:{build}", "run.jsonl"])

    assert code == 0
    assert lines_of(capsys.readouterr().out) == [
        "echo: one",
        "",
        "tape   run.replay.jsonl",
        "live   0 live turns, cost $0.000000",
    ]
    assert provider.server.connections == asked
    assert load_cassette(folder / "run.replay.jsonl").start.replay_of


def test_resume_goes_on_live(folder: Path, provider: Provider, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["resume", "driven:run", "run.jsonl", "--to", "more/second.jsonl"])

    assert code == 0
    assert lines_of(capsys.readouterr().out) == [
        "echo: two",
        "",
        "tape   more/second.jsonl",
        "live   1 live turn, cost unknown",
    ]
    assert [request.json()["messages"][-1]["content"] for request in provider.seen] == ["one", "two"]


def test_resume_gives_the_plan_to_a_function_that_takes_one(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["resume", "driven:run_with_plan", "run.jsonl"]) == 0
    assert capsys.readouterr().out.startswith("echo: one\n")


def test_json_is_one_document_whatever_the_agent_prints_and_returns(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["replay", "driven:build_chatty", "run.jsonl", "--json"])

    printed = capsys.readouterr()
    document: dict[str, Any] = json.loads(printed.out)
    assert code == 0
    assert "the agent talks" in printed.err
    assert document["message"]["text"] == "echo: one"
    assert document["output"]["said"] == "echo: one"
    assert document["output"]["lock"].startswith("<unlocked")  # what is no JSON is told as Python shows it
    assert document["usage"] == {"input_tokens": 10, "output_tokens": 5}
    assert (document["turns"], document["cost_usd"], document["recorded_cost_usd"]) == (0, 0.0, None)
    assert document["tape"] == "run.replay.jsonl"
    assert document["duration"] > 0
    assert document["run_id"] == load_cassette(folder / "run.replay.jsonl").start.run_id


def test_json_of_a_run_that_asked_for_nothing_names_no_tape(
    folder: Path, provider: Provider, capsys: pytest.CaptureFixture[str]
) -> None:
    write_cassette(Path("empty.jsonl"), start=RunStart(run_id="1"), end=RunEnd(), entries=(), messages={})

    codes = [main(["replay", "driven:build_idle", "empty.jsonl", *more]) for more in ([], ["--json"])]

    text, _, document = capsys.readouterr().out.partition("{")
    assert codes == [0, 0]
    assert "tape   none: the agent asked for nothing" in text
    assert json.loads("{" + document)["tape"] is None
    assert json.loads("{" + document)["message"] is None


def test_a_difference_is_exit_code_1_with_its_report(
    folder: Path, provider: Provider, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = provider.server.connections

    code = main(["replay", "driven:build_changed", "run.jsonl"])

    printed = capsys.readouterr()
    assert code == 1
    assert printed.out == ""
    assert 'now:      "something else"' in printed.err
    assert provider.server.connections == asked


def test_less_than_was_recorded_is_a_difference_too(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", "driven:build_idle", "run.jsonl"]) == 1
    assert "1 recorded step was not asked for" in capsys.readouterr().err


def test_resume_refuses_another_beginning_unless_it_may_restart(
    folder: Path, provider: Provider, capsys: pytest.CaptureFixture[str]
) -> None:
    refused = main(["resume", "driven:run_changed", "run.jsonl"])
    told = capsys.readouterr()
    with pytest.warns(UserWarning, match="Begun anew"):
        restarted = main(["resume", "driven:run_changed", "run.jsonl", "--allow-restart"])

    assert refused == 1
    assert told.err.startswith("Nothing to resume")
    assert told.err.endswith(
        "  To begin anew, live and from the start: agentreplay resume driven:run_changed run.jsonl --allow-restart\n"
    )
    assert restarted == 0
    assert capsys.readouterr().out.startswith("echo: something else\n")
    assert len(provider.seen) == 2


def test_the_advice_to_begin_anew_is_the_command_as_it_was_given(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "run.jsonl").rename(folder / "my run.jsonl")

    main(["resume", "driven:run_changed", "my run.jsonl", "--to", "x.jsonl", "--json"])

    command = "agentreplay resume driven:run_changed 'my run.jsonl' --to x.jsonl --allow-restart"
    assert capsys.readouterr().err.endswith(f"from the start: {command}\n")


@pytest.mark.parametrize(
    ("arguments", "advice"),
    [
        (["replay", "driven:build_changed"], [f"  If the change is meant, {AGAIN}"]),
        (
            ["replay", "driven:build_idle"],
            [f"  If the run should ask for less now, {AGAIN}", ALLOW.format("replay", "build")],
        ),
        (
            ["resume", "driven:run_idle"],
            [f"  If the run should ask for less now, {AGAIN}", ALLOW.format("resume", "run")],
        ),
        (
            ["replay", "driven:build_reaching"],
            ["  To let it through: replay('run.jsonl', build, hosts=['192.0.2.1']) from Python"],
        ),
    ],
)
def test_what_a_report_tells_to_write_says_where_no_option_does_it(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], advice: list[str]
) -> None:
    code = main([*arguments, "run.jsonl"])

    assert code == 1
    assert lines_of(capsys.readouterr().err)[-len(advice) :] == advice


def test_the_rule_for_what_varies_is_an_argument_of_the_function(
    folder: Path, provider: Provider, capsys: pytest.CaptureFixture[str]
) -> None:
    with use_cassette("run.jsonl", record_mode="rewrite"):
        Desk(provider.url).ask("It is 2025-01-01.")

    main(["replay", "driven:build_dated", "run.jsonl"])

    assert "replay('run.jsonl', build, ignore=[r\"$.messages[" in capsys.readouterr().err


def test_the_cassette_of_a_test_is_recorded_again_by_the_test(
    folder: Path, provider: Provider, capsys: pytest.CaptureFixture[str]
) -> None:
    with use_cassette("run.jsonl", name="test_desk.py::test_it", record_mode="rewrite"):
        Desk(provider.url).ask("one")

    main(["replay", "driven:build_changed", "run.jsonl"])

    report = capsys.readouterr().err
    assert report.endswith("record again: pytest test_desk.py::test_it --record-mode=rewrite\n")


def test_a_torn_tape_is_gone_on_from_by_the_command_that_can(
    folder: Path, provider: Provider, capsys: pytest.CaptureFixture[str]
) -> None:
    with use_cassette("torn.jsonl", record_mode="once"):
        Desk(provider.url).ask("one")
        kept = partial_path(folder / "torn.jsonl").read_bytes()
    (folder / "torn.partial.jsonl").write_bytes(kept[:-20])

    code = main(["replay", "driven:build", "torn.partial.jsonl"])

    assert code == 2
    assert "Go on from it with agentreplay resume, which uses the rest" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["replay", "resume"])
def test_a_tape_that_was_never_finished_is_told_with_the_command_that_drives_it(
    command: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    partial_path(folder / "torn.jsonl").write_bytes(b"")

    code = main([command, "driven:run", "torn.jsonl", "--to", "new tape.jsonl"])

    told = f"agentreplay {command} driven:run --to 'new tape.jsonl' torn.partial.jsonl"
    assert code == 2
    said = capsys.readouterr().err
    assert said.startswith("agentreplay: torn.jsonl: was never finished")
    assert said.endswith(f"n unfinished recording is beside it: {told}\n")


def test_a_function_that_builds_no_agent_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["replay", "driven:build_nothing", "run.jsonl"])

    assert code == 2
    assert "driven:build_nothing must return the agent to drive" in capsys.readouterr().err


def test_resume_says_what_a_crash_tore(folder: Path, provider: Provider, capsys: pytest.CaptureFixture[str]) -> None:
    with use_cassette("torn.jsonl", record_mode="once"):
        for text in ("one", "two"):
            Desk(provider.url).ask(text)
        kept = partial_path(folder / "torn.jsonl").read_bytes()
    (folder / "torn.jsonl").unlink()
    partial_path(folder / "torn.jsonl").write_bytes(kept[:-20])

    code = main(["resume", "driven:run", "torn.partial.jsonl"])

    said = lines_of(capsys.readouterr().out)
    assert code == 0
    assert said[2].startswith("torn   ")
    assert said[3:] == ["tape   torn.replay.jsonl", "live   1 live turn, cost unknown"]


@pytest.mark.parametrize("command", ["replay", "resume"])
@pytest.mark.parametrize(
    ("target", "tape", "message"),
    [
        ("driven", "run.jsonl", "'driven' names no function: expected MODULE:FUNCTION"),
        (":build", "run.jsonl", "names no function: expected MODULE:FUNCTION"),
        ("driven:", "run.jsonl", "names no function: expected MODULE:FUNCTION"),
        (
            "absent:build",
            "run.jsonl",
            "'absent:build' cannot be imported: ModuleNotFoundError: No module named 'absent'",
        ),
        ("broken:build", "run.jsonl", "'broken:build' cannot be imported: ZeroDivisionError: division by zero"),
        ("driven:absent", "run.jsonl", "driven has no callable 'absent'"),
        ("driven:not_callable", "run.jsonl", "driven has no callable 'not_callable'"),
        ("driven:build", "absent.jsonl", "absent.jsonl: cannot be read"),
        ("driven:build", "driven.py", "driven.py:1: this is not an agent cassette"),
    ],
)
def test_what_cannot_be_meant_is_exit_code_2_and_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], command: str, target: str, tape: str, message: str
) -> None:
    code = main([command, target, tape])

    printed = capsys.readouterr()
    assert code == 2
    assert printed.out == ""
    assert len(lines_of(printed.err)) == 1
    assert message in printed.err


def test_the_tape_itself_is_no_place_for_the_new_one(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (folder / "run.jsonl").read_bytes()

    code = main(["replay", "driven:build", "run.jsonl", "--to", "run.jsonl"])

    assert code == 2
    assert "--to run.jsonl is the tape itself, which stays as it is; name another file" in capsys.readouterr().err
    assert (folder / "run.jsonl").read_bytes() == before


def test_a_tape_out_of_git_needs_a_place_for_the_new_one(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["init", "-q"], ["add", "run.jsonl"], ["commit", "-qm", "A tape"]):
        author = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
        subprocess.run(["git", *author, *arguments], cwd=folder, check=True)

    refused = main(["replay", "driven:build", "HEAD:run.jsonl"])
    message = capsys.readouterr().err
    done = main(["replay", "driven:build", "HEAD:run.jsonl", "--to", "second.jsonl"])

    assert (refused, done) == (2, 0)
    assert "say where with --to" in message
    assert not (folder / "HEAD:run.replay.jsonl").exists()
    assert (folder / "second.jsonl").exists()


@pytest.mark.parametrize("build", ["build_failing", "build_failing_async"])
def test_what_the_agent_itself_raises_is_told_from_its_own_code_on(
    folder: Path, capsys: pytest.CaptureFixture[str], build: str
) -> None:
    code = main(["replay", f"driven:{build}", "run.jsonl"])

    printed = capsys.readouterr()
    assert (code, printed.out) == (3, "")
    assert lines_of(printed.err)[0] == "Traceback (most recent call last):"
    assert [line.split(", ")[0] for line in lines_of(printed.err) if line.startswith("  File ")] == [
        f'  File "{folder / "driven.py"}"'
    ]
    assert lines_of(printed.err)[-2:] == ['    raise OSError("no disk")', "OSError: no disk"]


def test_what_a_function_cannot_be_called_with_is_told_as_the_agents(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["replay", "driven:run_idle", "run.jsonl"])

    assert code == 3
    assert capsys.readouterr().err == "TypeError: run_idle() takes 0 positional arguments but 1 was given\n"


def test_an_agent_that_ends_the_process_has_no_result_whatever_its_code_says(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["resume", "driven:run_exit", "run.jsonl"])

    assert code == 3
    assert capsys.readouterr() == ("", "the agent ended by itself: sys.exit(0)\n")


def test_a_tools_recorded_error_that_the_agent_lets_through_is_the_agents(
    folder: Path, provider: Provider, capsys: pytest.CaptureFixture[str]
) -> None:
    sys.path.insert(0, str(folder))
    driven = importlib.import_module("driven")
    with use_cassette("tool.jsonl", record_mode="once"), pytest.raises(driven.Gone):
        driven.run_tool()
    del driven.Gone

    code = main(["resume", "driven:run_tool", "tool.jsonl"])

    said = capsys.readouterr().err
    assert code == 3
    assert "\npytest_agentreplay.errors.RecordedToolError: " in said
    assert "/typer/" not in said


def test_an_error_of_the_recorder_is_not_told_as_the_agents(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    close = Session.close

    def broken(self: Session, *, passed: bool) -> None:
        close(self, passed=passed)
        raise OSError("no disk")

    monkeypatch.setattr(Session, "close", broken)

    with pytest.raises(OSError, match="no disk"):
        main(["replay", "driven:build", "run.jsonl"])


def test_the_command_runs_as_a_program_from_the_working_directory(folder: Path, provider: Provider) -> None:
    root = Path(__file__).resolve().parents[2]
    command = [sys.executable, "-c", "import sys; from pytest_agentreplay.cli import main; sys.exit(main())"]
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(root)}

    done = subprocess.run(
        [*command, "replay", "driven:build_changed", "run.jsonl"], cwd=folder, env=environment, capture_output=True
    )

    assert done.returncode == 1
    assert b"is not in the recording" in done.stderr
    assert b"Traceback" not in done.stderr
