"""The ways a plugin gets loaded, and what loading it costs."""

from __future__ import annotations

import json
from importlib.metadata import entry_points, version

import pytest

import pytest_agentreplay
from tests.support.suite import Provider, Suite

TEST = """
import pytest
from agent import ask

@pytest.mark.agent_cassette
def test_it(): assert ask("hello") == "echo: hello"
"""

BY_NAME = ("-p", "pytest_agentreplay.plugin")


def check_it_records_and_replays(suite: Suite, provider: Provider, *args: str, apart: bool = False) -> None:
    """Record and replay, with whichever --record-mode there is."""
    run = suite.run_apart if apart else suite.run
    suite.write(TEST)
    recorded = run("--record-mode=once", *args)
    provider.stop()
    replayed = run("--record-mode=none", *args)

    recorded.assert_outcomes(passed=1)
    recorded.stdout.fnmatch_lines(["agent cassettes: record mode once (command line), *"])
    recorded.stdout.fnmatch_lines(["agent cassettes: 1 recorded (1 request)"])
    replayed.assert_outcomes(passed=1)
    replayed.stdout.fnmatch_lines(["agent cassettes: 1 replayed (1 request)"])


@pytest.fixture
def no_autoload(suite: Suite, monkeypatch: pytest.MonkeyPatch) -> None:
    """No plugin is loaded unless it is asked for."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    suite.pytester.makeini("[pytest]\n")


def test_the_installed_version_is_the_one_that_the_package_says() -> None:
    assert version("pytest-agent-cassette") == pytest_agentreplay.__version__


def test_it_works_as_installed(suite: Suite, provider: Provider) -> None:
    check_it_records_and_replays(suite, provider, apart=True)


@pytest.mark.parametrize("name", ["recording", "syrupy", "asyncio", "anyio", "cacheprovider"])
def test_it_works_without(suite: Suite, provider: Provider, name: str) -> None:
    check_it_records_and_replays(suite, provider, "-p", f"no:{name}")


@pytest.mark.usefixtures("no_autoload")
def test_it_works_loaded_by_name_without_autoload(suite: Suite, provider: Provider) -> None:
    check_it_records_and_replays(suite, provider, *BY_NAME, apart=True)


@pytest.mark.usefixtures("no_autoload")
@pytest.mark.parametrize("recording_first", [True, False])
def test_it_works_loaded_by_name_beside_pytest_recording(
    suite: Suite, provider: Provider, recording_first: bool
) -> None:
    names = [BY_NAME, ("-p", "pytest_recording.plugin")]
    order = reversed(names) if recording_first else names

    check_it_records_and_replays(suite, provider, *(part for name in order for part in name))


@pytest.mark.usefixtures("no_autoload")
def test_it_works_loaded_by_a_root_conftest(suite: Suite, provider: Provider) -> None:
    suite.pytester.makeconftest("pytest_plugins = ['pytest_agentreplay.plugin']")

    check_it_records_and_replays(suite, provider, apart=True)


@pytest.mark.usefixtures("no_autoload")
def test_it_works_loaded_by_the_environment(suite: Suite, provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_PLUGINS", "pytest_agentreplay.plugin")

    check_it_records_and_replays(suite, provider)


def test_it_works_in_importlib_import_mode(suite: Suite, provider: Provider) -> None:
    suite.ini("pythonpath = .")

    check_it_records_and_replays(suite, provider, "--import-mode=importlib")


def test_its_record_mode_is_in_the_help_once_with_and_without_pytest_recording(suite: Suite) -> None:
    beside = suite.run("--help").stdout.str()
    alone = suite.run("--help", "-p", "no:recording").stdout.str()

    assert [beside.count("--record-mode="), alone.count("--record-mode=")] == [1, 1]
    assert "--agent-replay={strict,warn,hybrid}" in beside
    for setting in ("agent_record_mode", "agent_replay", "agent_unplayed", "agent_ignore", "agent_redact_patterns"):
        assert f"{setting} (" in beside


HEAVY = ("pydantic", "vcr", "freezegun", "syrupy", "httpx", "httpx2", "openai", "orjson")

UNMARKED = """
import json, sys

def test_it():
    names = sorted(name for name in sys.modules if name.startswith("pytest_agentreplay"))
    print("LOADED", json.dumps([names, [name for name in HEAVY if name in sys.modules]]))
"""


def other_plugins() -> list[str]:
    """Return the arguments that keep every other installed plugin out."""
    names = {point.name for point in entry_points(group="pytest11")} - {"agent_cassette"}
    return [part for name in sorted(names) for part in ("-p", f"no:{name}")]


@pytest.mark.parametrize("addition", [(), ("--record-mode=once",)])
def test_loading_it_imports_nothing_heavy(suite: Suite, addition: tuple[str, ...]) -> None:
    suite.pytester.makeini("[pytest]\n")
    suite.write(UNMARKED.replace("HEAVY", repr(HEAVY)))

    result = suite.run_apart(*other_plugins(), "-s", *addition)

    result.assert_outcomes(passed=1)
    [line] = [line for line in result.outlines if "LOADED" in line]
    ours, heavy = json.loads(line.partition("LOADED ")[2])
    assert heavy == []
    assert ours == [
        "pytest_agentreplay",
        "pytest_agentreplay.counts",
        "pytest_agentreplay.errors",
        "pytest_agentreplay.filenames",
        "pytest_agentreplay.notation",
        "pytest_agentreplay.plugin",
        "pytest_agentreplay.plugin.alike",
        "pytest_agentreplay.plugin.attempts",
        "pytest_agentreplay.plugin.failures",
        "pytest_agentreplay.plugin.goldens",
        "pytest_agentreplay.plugin.options",
        "pytest_agentreplay.plugin.paths",
        "pytest_agentreplay.plugin.state",
        "pytest_agentreplay.plugin.summary",
        "pytest_agentreplay.plugin.unused_goldens",
        "pytest_agentreplay.settings",
        "pytest_agentreplay.version",
    ]


@pytest.mark.usefixtures("no_autoload")
def test_a_marked_test_that_is_not_run_makes_it_import_nothing_heavy(suite: Suite) -> None:
    marked = "\nimport pytest\n\n@pytest.mark.agent_cassette\ndef test_marked(): pass\n"
    suite.write(UNMARKED.replace("HEAVY", repr(HEAVY)) + marked)
    suite.pytester.makeini("[pytest]\nagent_ignore = $.a =~ x\nagent_redact_patterns = x\nagent_hosts = a.com\n")

    result = suite.run_apart(*BY_NAME, "-s", "-k", "test_it", "--deselect=test_it.py::test_marked")

    result.assert_outcomes(passed=1, deselected=1)
    result.stdout.fnmatch_lines(["*LOADED *, [[][]]]"])
