"""The demo and the README's example, as a newcomer runs them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_agentreplay.cli import main
from tests.support.openai import chat_answer
from tests.support.server import serving

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def block(kind: str) -> str:
    """Return the README's first code block of a kind."""
    found = re.search(rf"^```{kind}\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
    assert found is not None
    return found.group(1)


def section_block(title: str) -> str:
    """Return the README's first block of Python in a section."""
    found = re.search(rf"^## {title}\n.*?^```python\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
    assert found is not None
    return found.group(1)


def test_the_demo_shows_its_steps_and_the_report_that_the_readme_quotes() -> None:
    demo = ROOT / "examples" / "quickstart" / "demo.py"

    done = subprocess.run([sys.executable, str(demo)], capture_output=True, encoding="utf-8", timeout=120)

    assert done.returncode == 0, done.stdout
    assert done.stdout.splitlines()[-1].startswith("Shown: ")
    shown = "\n".join(line.removeprefix("  ") for line in done.stdout.splitlines())
    assert block("text").strip() in shown


def test_the_readmes_example_is_recorded_once_and_then_needs_no_provider(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    example = block("python")
    pytester.path.joinpath("test_capital.py").write_text(example, encoding="utf-8")
    pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function\nfilterwarnings = error\n")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p no:langsmith_plugin")  # takes over a second to import
    with serving(lambda _: chat_answer("Paris")) as provider:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{provider.url}/v1")
        recorded = pytester.runpytest_subprocess("--record-mode=once")

    replayed = pytester.runpytest_subprocess()

    assert len(example.splitlines()) <= 12
    recorded.assert_outcomes(passed=1)
    replayed.assert_outcomes(passed=1)
    assert len(provider.seen) == 1
    assert (pytester.path / "cassettes" / "test_capital" / "test_the_capital_of_france.jsonl").is_file()


def test_an_sdk_that_wants_a_key_replays_without_one_by_the_readmes_conftest(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    example = re.sub(r"OpenAI\(api_key=.*", "OpenAI()", block("python"))
    assert "client = OpenAI()\n" in example
    pytester.path.joinpath("test_capital.py").write_text(example, encoding="utf-8")
    pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function\nfilterwarnings = error\n")
    monkeypatch.setenv("OPENAI_API_KEY", "a real one")
    with serving(lambda _: chat_answer("Paris")) as provider:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{provider.url}/v1")
        pytester.runpytest_subprocess("--record-mode=once").assert_outcomes(passed=1)
    monkeypatch.delenv("OPENAI_API_KEY")

    refused = pytester.runpytest_subprocess()
    pytester.path.joinpath("conftest.py").write_text(section_block("Without a key"), encoding="utf-8")
    replayed = pytester.runpytest_subprocess()

    refused.assert_outcomes(failed=1)
    replayed.assert_outcomes(passed=1)


def test_the_cassettes_of_the_examples_are_whole_and_of_the_rules_of_today(capsys: pytest.CaptureFixture[str]) -> None:
    status = main(["verify", "--json", str(ROOT / "examples")])

    verdicts = json.loads(capsys.readouterr().out)
    assert status == 0
    assert [verdict["note"] for verdict in verdicts] == [None, None]  # else: record them again, as their READMEs say
