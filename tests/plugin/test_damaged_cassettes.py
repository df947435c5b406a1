"""Cassettes that cannot be read: one clear error, and the file left alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pytest_agentreplay.cassette.lines import seal
from tests.support.suite import Provider, Suite, failure

TEST = """
import pytest
from agent import ask

@pytest.mark.agent_cassette
def test_it():
    ask("one")
    ask("two")
"""


def with_conflict(lines: list[bytes]) -> list[bytes]:
    return [lines[0], b"<<<<<<< HEAD\n", *lines[1:3], b"=======\n", *lines[1:3], b">>>>>>> theirs\n", *lines[3:]]


DAMAGE: dict[str, tuple[Callable[[list[bytes]], list[bytes]], str]] = {
    "conflict": (with_conflict, "test_it.jsonl:2: a git conflict marker"),
    "cut off": (lambda lines: [*lines[:-1], lines[-1][:30]], "test_it.jsonl:6: the last line is cut off"),
    "no end": (lambda lines: lines[:-1], "the recording has no end"),
    "a wrong line": (lambda lines: [*lines[:2], b"not json\n", *lines[3:]], "test_it.jsonl:3: the line is not JSON"),
    "an edited answer": (
        lambda lines: [line.replace(b"echo: one", b"echo: won") for line in lines],
        "test_it.jsonl:3: the line was changed after it was recorded",
    ),
    "an edited message": (
        lambda lines: [line.replace(b'"content":"two"', b'"content":"2"') for line in lines],
        "test_it.jsonl:4: the message was changed after it was recorded, or a line is missing below it",
    ),
    "a missing answer": (
        lambda lines: [*lines[:2], *lines[3:]],
        "test_it.jsonl:2: the message was changed after it was recorded, or a line is missing below it",
    ),
    "a missing step": (lambda lines: [lines[0], *lines[3:]], "steps were added, removed or moved"),
    "nothing": (lambda lines: [], "test_it.jsonl:1: the file is empty"),
    "another file": (lambda lines: [b'{"interactions": []}\n'], "this is not an agent cassette"),
}


@pytest.mark.parametrize("damage", [pytest.param(damage, id=name.replace(" ", "-")) for name, damage in DAMAGE.items()])
def test_a_damaged_cassette_is_one_error_with_place_fault_and_remedy(
    suite: Suite, provider: Provider, damage: tuple[Callable[[list[bytes]], list[bytes]], str]
) -> None:
    change, fault = damage
    suite.write(TEST)
    suite.record()
    provider.stop()
    spoilt = b"".join(change(suite.cassette().read_bytes().splitlines(keepends=True)))
    suite.cassette().write_bytes(spoilt)

    result = suite.run()

    result.assert_outcomes(errors=1)
    report = failure(result)
    assert report.startswith("CassetteError: cassettes/test_it/test_it.jsonl:")
    assert fault in report
    assert len(report.splitlines()) == 2
    assert report.endswith("record it again: pytest test_it.py::test_it --record-mode=rewrite")
    assert "Traceback" not in result.stdout.str()
    assert suite.cassette().read_bytes() == spoilt


def test_once_does_not_record_over_a_damaged_cassette(suite: Suite, provider: Provider) -> None:
    suite.write(TEST)
    suite.record()
    suite.cassette().write_bytes(b"not json\n")

    result = suite.run("--record-mode=once")

    assert failure(result).startswith("CassetteError: ")
    assert suite.cassette().read_bytes() == b"not json\n"
    assert len(provider.seen) == 2


def test_the_damaged_cassette_of_a_fixture_names_a_test_that_sets_it_up(suite: Suite) -> None:
    suite.write(
        """
        import pytest
        from agent import ask

        @pytest.fixture(scope="module")
        def asked():
            return ask("one")

        @pytest.mark.agent_cassette
        def test_it(asked):
            pass
        """
    )
    suite.record()
    cassette = suite.path / "cassettes/test_it/fixture.asked.jsonl"
    cassette.write_bytes(cassette.read_bytes()[:-5])

    report = failure(suite.run())

    assert "fixture.asked.jsonl:4: the last line is cut off" in report
    assert "record it again: pytest test_it.py::test_it --record-mode=rewrite" in report


def test_a_newer_format_says_to_upgrade(suite: Suite) -> None:
    suite.write(TEST)
    suite.record()
    _, *rest = suite.cassette().read_bytes().splitlines(keepends=True)
    suite.cassette().write_bytes(seal({"kind": "run.start", "format": 99}) + b"\n" + b"".join(rest))

    result = suite.run()

    assert "format 99; this version reads up to 1" in failure(result)
    assert "pip install --upgrade pytest-agent-cassette" in failure(result)


def test_line_ends_that_git_converted_do_no_harm(suite: Suite, provider: Provider) -> None:
    suite.write(TEST)
    suite.record()
    provider.stop()
    suite.cassette().write_bytes(suite.cassette().read_bytes().replace(b"\n", b"\r\n"))

    result = suite.run()

    result.assert_outcomes(passed=1)
