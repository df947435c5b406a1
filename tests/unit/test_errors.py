"""What errors say, with and without a file, and after a way through another process."""

from __future__ import annotations

import pickle

import pytest

from pytest_agentreplay.errors import CassetteError, StoreFileError


@pytest.mark.parametrize("kind", [CassetteError, StoreFileError])
def test_an_error_about_a_file_says_which_what_and_what_to_do(kind: type[CassetteError | StoreFileError]) -> None:
    error = kind("is broken", path="run.jsonl", remedy="Restore it.")

    assert str(error) == "run.jsonl: is broken\n  Restore it."


def test_the_line_is_named_where_it_is_known() -> None:
    assert str(CassetteError("is broken", path="run.jsonl", line=3)) == "run.jsonl:3: is broken"


@pytest.mark.parametrize("kind", [CassetteError, StoreFileError])
def test_an_error_about_no_file_names_none(kind: type[CassetteError | StoreFileError]) -> None:
    assert str(kind("is broken")) == "is broken"


@pytest.mark.parametrize("kind", [CassetteError, StoreFileError])
def test_an_error_says_the_same_after_it_was_sent_to_another_process(
    kind: type[CassetteError | StoreFileError],
) -> None:
    error = kind("is broken", path="run.jsonl", remedy="Restore it.")

    back = pickle.loads(pickle.dumps(error))

    assert (str(back), vars(back)) == (str(error), vars(error))


def test_a_file_that_the_system_does_not_give_is_told_in_its_words() -> None:
    absent = CassetteError.unreadable("run.jsonl", FileNotFoundError(2, "No such file or directory"))
    wordless = CassetteError.unreadable("run.jsonl", OSError("no words"))

    assert str(absent) == (
        "run.jsonl: cannot be read: No such file or directory\n  Check the path, or record it first."
    )
    assert str(wordless).startswith("run.jsonl: cannot be read: no words\n")
