"""File names of tests and of what tests name, the same on every file system."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pytest_agentreplay.filenames import cassette_of, distinct_file_name, file_name_of_test, safe_file_name

RESERVED = {
    "con",
    "prn",
    "aux",
    "nul",
    *(f"com{digit}" for digit in range(10)),
    *(f"lpt{digit}" for digit in range(10)),
}


def _name(name: str, *classes: str) -> str:
    return file_name_of_test(classes, name)


@pytest.mark.parametrize(
    ("name", "classes", "expected"),
    [
        ("test_it", [], "test_it.jsonl"),
        ("test_it[gpt-4.1-mini]", [], "test_it[gpt-4.1-mini].jsonl"),
        ("test_it", ["TestAgent"], "TestAgent.test_it.jsonl"),
        ("test_it", ["TestOuter", "TestInner"], "TestOuter.TestInner.test_it.jsonl"),
        ("test_it[a b]", [], "test_it[a b].jsonl"),
        ("test_ünïcode", [], "test_ünïcode.jsonl"),
    ],
)
def test_a_name_that_every_file_system_takes_stays_as_it_is(name: str, classes: list[str], expected: str) -> None:
    assert _name(name, *classes) == expected


@pytest.mark.parametrize(
    ("name", "beginning"),
    [
        ("test_it[a/b]", "test_it[a-b]-"),
        ("test_it[a\\b]", "test_it[a-b]-"),
        ("test_it[x:y]", "test_it[x-y]-"),
        ('test_it[<a>|"b"?*]', "test_it[-a---b---]-"),
        ("test_it[a\nb\x00]", "test_it[a-b-]-"),
        ("test_it[..]", "test_it[..].jsonl"),
        ("test_It", "test_It-"),
        ("con", "_con-"),
        ("aux.x", "_aux.x-"),
        ("test_it. .", "test_it-"),
        ("x" * 300, "x" * 180 + "-"),
        ("é" * 200, "é" * 90 + "-"),
    ],
)
def test_a_name_that_had_to_change_gets_a_hash_of_the_original(name: str, beginning: str) -> None:
    made = _name(name)

    assert made.startswith(beginning)
    if not beginning.endswith(".jsonl"):
        assert re.fullmatch(r"-[0-9a-f]{8}\.jsonl", made[len(beginning) - 1 :])


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("test_it[A]", "test_it[a]"),
        ("test_it[a/b]", "test_it[a-b]"),
        ("test_it[a:b]", "test_it[a/b]"),
        ("test_it[é]", "test_it[e\u0301]"),
        ("x" * 300, "x" * 301),
        ("test_it.", "test_it"),
        ("con", "_con"),
        ("test_it[ß]", "test_it[ss]"),
    ],
)
def test_two_names_that_would_be_one_file_somewhere_stay_two(first: str, second: str) -> None:
    assert _key(_name(first)) != _key(_name(second))


def _key(name: str) -> str:
    """Return what a file system that ignores case and composes accents knows a name by."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFKD", name).casefold())


any_name = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=200),
    st.text('aAbB.:/\\ []éE\u0301"*', min_size=1, max_size=8),
    st.sampled_from(["con", "NUL", "lpt1.x", "com9", "aux "]),
)


@given(name=any_name)
def test_any_name_is_one_that_every_file_system_takes(name: str) -> None:
    made = _name(name)

    assert not re.search(r'[<>:"/\\|?*\x00-\x1f\x7f]', made)
    assert len(made.removesuffix(".jsonl").encode()) + len(".partial.jsonl") <= 255
    assert made.endswith(".jsonl")
    assert made.partition(".")[0].casefold() not in RESERVED
    assert not made.removesuffix(".jsonl").endswith((" ", "."))
    assert made not in (".jsonl", "..jsonl")


@given(first=any_name, second=any_name)
def test_two_tests_never_share_a_file(first: str, second: str) -> None:
    assume(first != second)

    assert _name(first).casefold() != _name(second).casefold()


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("test_It[A]", "test_It[A]"),
        ("a/b:c", "a-b-c"),
        ("nul.txt", "_nul.txt"),
        ("console", "console"),
        ("...", ""),
        ("e\u0301", "é"),
        ("\ud800", "?"),
        ("é" * 200, "é" * 90),
    ],
)
def test_a_safe_name_is_like_the_name(name: str, safe: str) -> None:
    assert safe_file_name(name) == safe


@given(names=st.lists(any_name, min_size=2, max_size=6, unique=True))
def test_names_of_parameters_that_differ_in_case_or_in_illegal_letters_alone_stay_different(names: list[str]) -> None:
    made = [distinct_file_name(f"test_it[{name}]", case_matters_in=f"test_it[{name}]") for name in names]

    assert len({_key(name) for name in made}) == len(names)


@pytest.mark.parametrize(
    ("nodeid", "path"),
    [
        ("test_a.py::test_it", "cassettes/test_a/test_it.jsonl"),
        ("tests/deep/test_a.py::test_it", "tests/deep/cassettes/test_a/test_it.jsonl"),
        ("test_a.py::TestOuter::TestInner::test_it", "cassettes/test_a/TestOuter.TestInner.test_it.jsonl"),
        ("test_a.py::test_it[x y]", "cassettes/test_a/test_it[x y].jsonl"),
        ("tests[1]/test_a.py::test_it[x]", "tests[1]/cassettes/test_a/test_it[x].jsonl"),
    ],
)
def test_the_cassette_of_a_test_lies_beside_its_module(nodeid: str, path: str) -> None:
    assert cassette_of(nodeid).as_posix() == path


@pytest.mark.parametrize("parameters", ["a::b", "a/b::c", "[::]", "A"])
def test_parameters_are_no_part_of_the_path_to_a_test(parameters: str) -> None:
    path = cassette_of(f"tests/test_a.py::TestX::test_it[{parameters}]")

    assert path.parent.as_posix() == "tests/cassettes/test_a"
    assert path.name == file_name_of_test(["TestX"], f"test_it[{parameters}]")
