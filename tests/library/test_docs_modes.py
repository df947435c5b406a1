"""The page about modes: each of its examples runs, in its order, and the table of modes holds."""

from __future__ import annotations

import importlib
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_agentreplay import errors
from tests.support.agent import asking_for
from tests.support.server import Answer, Seen
from tests.support.suite import Provider, Suite, make_suite

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "modes.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)


def name_of(block: str) -> str | None:
    """Return the name of the module that a block says it is."""
    named = re.match(r"# (\w+)\.py\n", block)
    return named.group(1) if named else None


CONSOLE = "\n".join(re.findall(r"^```console\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL))
MODULES = {name: block for block in BLOCKS if (name := name_of(block))}
SCRIPTS = [block for block in BLOCKS if name_of(block) is None]


def weather_of(seen: Seen) -> Answer:
    """Answer as a model that looks up the weather of the city that it is asked about."""
    city = seen.json()["messages"][1]["content"].removeprefix("How is ").rstrip("?")
    return asking_for(("weather", {"city": city}))(seen)


@pytest.fixture
def suite(pytester: pytest.Pytester, provider: Provider, monkeypatch: pytest.MonkeyPatch) -> Iterator[Suite]:
    """The modules of the page, beside a provider that asks for the weather."""
    provider.respond = weather_of
    monkeypatch.setenv("OPENAI_BASE_URL", f"{provider.url}/v1")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    suite = make_suite(pytester, provider, monkeypatch)
    pytester.makepyfile(**MODULES)
    monkeypatch.setattr(sys, "path", [str(pytester.path), *sys.path])
    sys.modules.pop("assistant", None)  # another test of this process may have left its own
    yield suite
    sys.modules.pop("assistant", None)


def change(module: Path, before: str, after: str) -> None:
    """Change a module that has been imported already, so that the next import reads it anew."""
    module.write_text(module.read_text().replace(before, after))
    sys.modules.pop(module.stem, None)
    shutil.rmtree(module.parent / "__pycache__", ignore_errors=True)
    importlib.invalidate_caches()


def test_every_example_runs_in_the_order_of_the_page(suite: Suite) -> None:
    for number, block in enumerate(BLOCKS):
        if name_of(block) == "crash":
            assert "$ python crash.py " in CONSOLE
            assert subprocess.run([sys.executable, "crash.py"], cwd=suite.path, timeout=60).returncode == 1
        elif name_of(block) is None:
            exec(compile(block, f"example {number}", "exec"), {"__name__": f"example_{number}"})

    assert len(SCRIPTS) >= 7
    assert sorted(path.name for path in (suite.path / "runs").iterdir()) == [
        "oslo.partial.jsonl",
        "oslo.replay.jsonl",
        "rome.jsonl",
        "rome.replay.jsonl",
    ]


def test_a_changed_prompt_does_what_the_page_says_in_each_mode(suite: Suite, provider: Provider) -> None:
    suite.record().assert_outcomes(passed=1)
    change(suite.path / "assistant.py", "Be brief.", "Be kind.")
    asked = len(provider.seen)

    strict, warn = suite.run(), suite.run("--agent-replay=warn")
    offline = len(provider.seen)
    hybrid = suite.run("--agent-replay=hybrid")

    strict.assert_outcomes(failed=1)
    strict.stdout.fnmatch_lines(["*ReplayDivergenceError*", '*now:*"Be kind."*'])
    warn.assert_outcomes(passed=1, warnings=1)
    assert offline == asked
    hybrid.assert_outcomes(passed=1)
    assert len(provider.seen) == asked + 2
    assert suite.cassettes() == [
        "cassettes/test_assistant/test_the_weather.jsonl",
        "cassettes/test_assistant/test_the_weather.replay.jsonl",
    ]


def test_the_page_has_a_line_for_every_error_of_a_run() -> None:
    table = PAGE.partition("## Errors")[2]

    named = re.findall(r"^\| `(\w+)`", table, flags=re.MULTILINE)

    of_stores = {name for name in errors.__all__ if issubclass(getattr(errors, name), errors.StateError)}
    assert sorted(named) == sorted(set(errors.__all__) - of_stores)
