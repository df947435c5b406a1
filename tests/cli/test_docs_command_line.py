"""The page about the command line: its commands, options, keys and quoted output are the real ones."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_agentreplay.cli import main

ROOT = Path(__file__).resolve().parents[2]
QUICKSTART = ROOT / "examples" / "quickstart"
PAGE = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")

# What `desk:build` is in the page's example.
DESK = """
from openai import OpenAI
from refund_desk import RefundDesk

def build(plan):
    client = OpenAI(base_url="http://127.0.0.1:49321/v1", api_key="none")
    return lambda: RefundDesk({}, client=client).answer(plan.task)
"""


def quoted(command: str) -> tuple[list[str], str]:
    """Return the arguments of the page's first command of a name, and what it is said to print."""
    found = re.search(rf"^```console\n\$ agentreplay ({command} .*?)\n(.*?)^```$", PAGE, flags=re.DOTALL | re.MULTILINE)
    assert found is not None
    return found.group(1).split(), found.group(2)


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Return what a command prints; it must succeed."""
    assert main(arguments) == 0
    return capsys.readouterr().out


@pytest.fixture(autouse=True)
def _plain_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")


def test_the_timeline_is_the_one_that_show_prints(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    arguments, told = quoted("show")

    assert printed(capsys, *arguments) == told


@pytest.fixture
def _no_module_is_left() -> Iterator[None]:
    """Forget the modules of the example, before and after: other tests have modules of these names."""
    for name in ("desk", "refund_desk"):
        sys.modules.pop(name, None)
    yield
    for name in ("desk", "refund_desk"):
        sys.modules.pop(name, None)


@pytest.mark.usefixtures("_no_module_is_left")
def test_a_replay_prints_what_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments, told = quoted("replay")
    [cassette] = QUICKSTART.glob("cassettes/*/*.jsonl")
    (tmp_path / "cassettes").mkdir()
    shutil.copy(cassette, tmp_path / "cassettes" / "refund.jsonl")
    shutil.copy(QUICKSTART / "refund_desk.py", tmp_path)
    (tmp_path / "desk.py").write_text(DESK, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])

    shown = printed(capsys, *arguments)

    assert shown == told


def test_each_command_and_each_option_is_on_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    listed = printed(capsys, "--help").partition("Commands:\n")[2]
    commands = re.findall(r"^  (\w+) ", listed, flags=re.MULTILINE)
    helps = [printed(capsys, command, "--help") for command in commands]
    options = {option for text in helps for option in re.findall(r"^  (--[\w-]+)", text, flags=re.MULTILINE)}

    assert {name for name in commands if f"\n| `agentreplay {name} " not in PAGE} == set()
    assert {option for option in options - {"--help"} if f"{option}" not in PAGE} == set()
    assert {"show", "prune"} <= set(commands)
    assert {"--json", "--textconv"} <= options


def test_the_help_says_each_command_in_a_whole_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")

    listed = printed(capsys, "--help").partition("Commands:\n")[2].splitlines()

    assert len(listed) == 8
    assert [line for line in listed if not line.endswith(".") or line.endswith("...")] == []


@pytest.mark.parametrize(
    ("command", "places"), [("verify", "{PATH}..."), ("stats", "{PATH}..."), ("prune", "[TEST]...")]
)
def test_the_help_says_once_that_places_repeat(capsys: pytest.CaptureFixture[str], command: str, places: str) -> None:
    assert printed(capsys, command, "--help").splitlines()[0] == f"Usage: agentreplay {command} [OPTIONS] {places}"


def test_each_key_of_the_timeline_as_json_is_on_the_page(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    told = set(re.findall(r"`(\w+)`", PAGE.partition("## The timeline as JSON")[2]))

    for cassette in ROOT.glob("examples/*/cassettes/*/*.jsonl"):
        document: dict[str, Any] = json.loads(printed(capsys, "show", "--json", str(cassette)))
        steps = document["steps"]
        objects = [
            document,
            document["start"],
            document["end"],
            *steps,
            *filter(None, (s.get("response") for s in steps)),
        ]
        messages = [message for step in steps for message in step.get("output_messages", ())]
        assert {key for found in [*objects, *messages] for key in found} - told == set()
        assert {step["kind"] for step in steps} == {"model", "tool"}
