"""pytest-recording installed beside: one record mode for both, and no network but what is recorded."""

from __future__ import annotations

import re

import pytest

from tests.support.suite import Provider, Suite, failure

BOTH = """
import httpx
import pytest
from agent import CLIENT, URL, ask, body, get

@pytest.mark.vcr
def test_theirs():
    assert get("/theirs") == "/theirs"

@pytest.mark.agent_cassette
def test_ours():
    assert ask("ours") == "echo: ours"
"""

THEIRS = "cassettes/test_it/test_theirs.yaml"
OURS = "cassettes/test_it/test_ours.jsonl"


def test_once_reaches_both_and_both_replay_offline(suite: Suite, provider: Provider) -> None:
    suite.write(BOTH)

    recorded = suite.record()
    provider.stop()
    replayed = suite.run()

    recorded.assert_outcomes(passed=2)
    replayed.assert_outcomes(passed=2)
    assert len(provider.seen) == 2
    assert (suite.path / THEIRS).exists()
    assert (suite.path / OURS).exists()
    assert "ours" not in (suite.path / THEIRS).read_text()
    assert "theirs" not in (suite.path / OURS).read_text()


def test_none_reaches_both(suite: Suite, provider: Provider) -> None:
    suite.write(BOTH)

    result = suite.run()

    result.assert_outcomes(failed=2)
    assert failure(result, "test_ours").startswith("ReplayDivergenceError: No cassette")
    assert "CannotOverwriteExistingCassetteException" in failure(result, "test_theirs")
    assert provider.seen == []


def test_a_test_of_theirs_is_theirs_alone_whichever_runs_first(suite: Suite, provider: Provider) -> None:
    suite.write(BOTH.replace("test_theirs", "test_z_theirs"))

    suite.record("test_it.py::test_ours", "test_it.py::test_z_theirs")
    suite.record("test_it.py::test_z_theirs", "test_it.py::test_ours")

    assert suite.cassettes() == [OURS]
    assert len(provider.seen) == 2


def test_a_test_with_both_markers_is_recorded_by_both_and_replayed(suite: Suite, provider: Provider) -> None:
    suite.write(
        """
        import pytest
        from agent import ask

        @pytest.mark.vcr
        @pytest.mark.agent_cassette
        def test_it():
            assert ask("hello") == "echo: hello"
        """
    )
    suite.record()
    provider.stop()

    result = suite.run()

    result.assert_outcomes(passed=1)


BLOCKED = (
    BOTH
    + """
def test_unmarked():
    get("/unmarked")
"""
)


def test_block_network_lets_a_recording_through_and_blocks_others(suite: Suite, provider: Provider) -> None:
    suite.write(BLOCKED)

    result = suite.run_apart("--record-mode=once", "--block-network")  # apart: a blocked socket is never closed

    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["E *RuntimeError: Network is disabled for host '127.0.0.1'"])
    assert sorted(seen.path for seen in provider.seen) == ["/theirs", "/v1/chat/completions"]


def test_block_network_does_not_hinder_a_replay(suite: Suite, provider: Provider) -> None:
    suite.write(BOTH)
    suite.record()
    provider.stop()

    result = suite.run("--block-network")

    result.assert_outcomes(passed=2)


def test_the_block_network_marker_lets_a_recording_through_as_well(suite: Suite) -> None:
    suite.write(BOTH.replace("@pytest.mark.agent_cassette", "@pytest.mark.agent_cassette\n@pytest.mark.block_network"))

    result = suite.run("--record-mode=once")

    result.assert_outcomes(passed=2)


@pytest.mark.parametrize("record_mode", ["once", "none"])
def test_disable_recording_leaves_ours_alone(suite: Suite, record_mode: str) -> None:
    suite.write(BOTH)
    suite.record()

    result = suite.run("--disable-recording", f"--record-mode={record_mode}")

    result.assert_outcomes(passed=2)


def test_their_fixtures_are_not_shadowed(suite: Suite) -> None:
    suite.write(BOTH)

    result = suite.run("--fixtures", "-v")

    definers = dict(
        re.findall(r"^(\w+)(?: \[.*\])? -- .*?(\w+)/(?:plugin/)?\w+\.py:\d+$", result.stdout.str(), re.MULTILINE)
    )
    ours = {name for name, package in definers.items() if package == "pytest_agentreplay"}
    theirs = {name for name, package in definers.items() if package == "pytest_recording"}
    assert ours == {
        "agent_cassette_dir",
        "agent_config",
        "agent_run",
        "agent_state",
        "agent_state_seed",
        "agent_store",
        "event_snapshot",
        "mermaid_snapshot",
    }
    assert {"vcr", "vcr_config", "record_mode", "block_network", "vcr_cassette_dir", "disable_recording"} <= theirs
