"""Pytest called in another folder than its root: paths and commands are those that work from there."""

from __future__ import annotations

import pytest

from tests.support.suite import Suite, failure

TEST = """
import pytest
from agent import ask

@pytest.mark.agent_cassette
def test_it():
    ask("hello")
"""


@pytest.fixture
def below(suite: Suite, monkeypatch: pytest.MonkeyPatch) -> Suite:
    """A suite whose test stands in a folder below pytest's root, and which is run from there."""
    folder = suite.path / "below"
    folder.mkdir()
    suite.write(TEST).rename(folder / "test_it.py")
    suite.path.joinpath("agent.py").rename(folder / "agent.py")
    monkeypatch.chdir(folder)
    return suite


def test_the_command_that_records_a_missing_cassette_names_the_test_from_there(below: Suite) -> None:
    result = below.run()

    report = failure(result)
    assert "  Record it: pytest test_it.py::test_it --record-mode=once" in report
    assert "  cassette  cassettes/test_it/test_it.jsonl" in report


def test_the_command_that_goes_on_from_an_unfinished_recording_names_the_test_from_there(below: Suite) -> None:
    below.record()
    test = below.path / "below" / "test_it.py"
    test.write_text(test.read_text() + "\n    assert False\n")

    result = below.run("--record-mode=rewrite")

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*kept: cassettes/test_it/test_it.partial.jsonl*: pytest test_it.py::test_it *"])


def test_a_damaged_cassette_is_named_from_there_with_the_command_that_records_it_again(below: Suite) -> None:
    below.record()
    cassette = below.path / "below/cassettes/test_it/test_it.jsonl"
    cassette.write_bytes(cassette.read_bytes()[:-5])

    report = failure(below.run())

    assert report.startswith("CassetteError: cassettes/test_it/test_it.jsonl:")
    assert report.endswith("record it again: pytest test_it.py::test_it --record-mode=rewrite")
