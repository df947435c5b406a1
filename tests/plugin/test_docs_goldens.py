"""The page about goldens: its files, commands and outputs are those of a real run."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import openai.resources.chat  # noqa: F401 - what a suite imports itself, it imports in every run
import pytest

from pytest_agentreplay.cli import main
from tests.support.openai import chat_answer, completion
from tests.support.server import Answer, Seen, answer_json
from tests.support.suite import Provider, Suite

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "goldens.md").read_text(encoding="utf-8")
CALL = {"id": "call_x", "type": "function", "function": {"name": "look_up", "arguments": '{"order": "A-1042"}'}}


def blocks(language: str) -> list[str]:
    """Return the blocks of the page in one language."""
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)


def commands() -> list[tuple[str, list[str]]]:
    """Return each command of the page, and what it is said to print."""
    parts = [part.splitlines() for block in blocks("console") for part in block.split("$ ")[1:]]
    return [(command, printed) for command, *printed in parts]


def respond(seen: Seen) -> Answer:
    """Look the order up, unless the prompt wants it brief; then answer."""
    messages = seen.json()["messages"]
    if "brief" in messages[0]["content"]:
        return chat_answer("Your 59.90 are on their way.")
    if messages[-1]["role"] == "tool":
        return chat_answer("I am sorry.\nYou get your 59.90 back.")
    return answer_json(completion(None, tool_calls=[CALL]))


@pytest.fixture
def desk(suite: Suite, provider: Provider, monkeypatch: pytest.MonkeyPatch) -> Suite:
    """A suite of the page's files, whose model is a local provider."""
    provider.respond = respond
    for block in blocks("python"):
        (suite.path / block.split()[1]).write_text(block)
    (suite.path / ".gitattributes").write_text(*blocks("gitattributes"))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    for name in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"):
        monkeypatch.setenv(name, os.devnull)
    for name in ("AUTHOR_NAME", "AUTHOR_EMAIL", "COMMITTER_NAME", "COMMITTER_EMAIL"):
        monkeypatch.setenv(f"GIT_{name}", "a@b.example")
    monkeypatch.setenv("OPENAI_BASE_URL", f"{provider.url}/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "of the one who records")  # and what the page's conftest sets is taken back
    return suite


@pytest.fixture
def run(desk: Suite, capfd: pytest.CaptureFixture[str]) -> Callable[[str], str]:
    """Run a command of the page as a shell would, and return what it prints."""

    def run(command: str) -> str:
        program, *arguments = shlex.split(command)
        if program == "pytest":
            return desk.run(*arguments).stdout.str()
        if program == "agentreplay":
            assert main(arguments) == 0
        else:
            subprocess.run([program, *arguments], cwd=desk.path, check=True)
        return capfd.readouterr().out

    return run


def make_brief(desk: Suite, run: Callable[[str], str]) -> None:
    """Commit everything, then change the prompt."""
    for git in ("init --quiet", "add .", "commit --quiet -m goldens"):
        run(f"git {git}")
    source = (desk.path / "desk.py").read_text()
    (desk.path / "desk.py").write_text(source.replace('kitchen shop."', 'kitchen shop. Be brief."'))


def test_each_command_prints_what_the_page_says(desk: Suite, run: Callable[[str], str]) -> None:
    (desk.path / "test_parts.py").unlink()
    goldens = []
    for command, said in commands():
        if command == "pytest --record-mode=rewrite":
            goldens = [path.read_text() for path in sorted(desk.path.glob("__snapshots__/*/*"))]
            make_brief(desk, run)

        printed = run(command)

        for part in "\n".join(said).split("…"):
            assert part.strip("\n") in printed
    assert goldens == [*blocks("yaml"), *blocks("mermaid")]


def test_the_command_that_a_failing_golden_prints_takes_the_new_recording_over(
    desk: Suite, run: Callable[[str], str], provider: Provider
) -> None:
    (desk.path / "test_parts.py").unlink()
    run("pytest --record-mode=once --snapshot-update")
    make_brief(desk, run)
    printed = run("pytest --record-mode=rewrite")
    [command] = re.findall(r"^  (pytest .*--snapshot-update)$", printed, flags=re.MULTILINE)
    provider.stop()

    updated = run(command)

    assert f"  {command}\n" in PAGE
    assert "2 snapshots updated." in updated
    assert "2 snapshots passed." in run("pytest")


def test_a_diff_of_git_shows_a_cassette_as_the_page_says(desk: Suite, run: Callable[[str], str]) -> None:
    run("pytest --record-mode=once --snapshot-update test_desk.py")
    make_brief(desk, run)
    run('git config diff.agentreplay.textconv "agentreplay show --textconv"')
    run("pytest --record-mode=rewrite --snapshot-update test_desk.py")

    diff = run("git diff -- cassettes")

    assert "+  system     You are the refund desk of a kitchen shop. Be brief.\n" in diff
    assert '"kind":' not in diff
    assert "linguist-generated: set" in run("git check-attr linguist-generated cassettes/test_desk/test_a.jsonl")
    assert "linguist-language: YAML" in run("git check-attr linguist-language __snapshots__/test_desk/a.agent-events")


def test_the_samples_pass_recorded_and_replayed_without_a_key(
    desk: Suite, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.record("--snapshot-update").assert_outcomes(passed=2)
    assert {seen.headers["authorization"] for seen in provider.seen} == {"Bearer of the one who records"}
    provider.stop()
    monkeypatch.delenv("OPENAI_API_KEY")

    result = desk.run()

    result.assert_outcomes(passed=2)
    parts = {path.name: path.read_text() for path in desk.path.glob("__snapshots__/test_parts/*")}
    assert len(parts) == 3
    assert "teapot" not in parts["test_parts[calls].agent-events"].replace("item: teapot", "")
    assert "paid: str" in parts["test_parts[prices].agent-events"]


def test_a_golden_that_no_test_compares_fails_a_run_as_the_page_says(desk: Suite, run: Callable[[str], str]) -> None:
    (desk.path / "test_parts.py").unlink()
    run("pytest --record-mode=once --snapshot-update")
    golden = desk.path / "__snapshots__/test_desk/test_a_cracked_teapot.mermaid"
    golden.with_name("test_gone.mermaid").write_bytes(golden.read_bytes())

    failed = desk.run()
    warned = desk.run("--snapshot-warn-unused")

    [summary] = blocks("text")
    assert summary in failed.stdout.str()
    assert (failed.ret, warned.ret) == (1, 0)
    failed.assert_outcomes(passed=1)
