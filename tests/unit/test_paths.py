"""The name of a test's cassette: its classes and its own name, or what its marker says."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from pytest_agentreplay.filenames import file_name_of_test
from pytest_agentreplay.plugin.paths import cassette_file_name


@dataclass
class _Item:
    """As much of a test as its cassette's name is made of."""

    name: str
    classes: list[str] = field(default_factory=list)

    def listchain(self) -> list[Any]:
        return [_class_named(name) for name in self.classes]


def _class_named(name: str) -> pytest.Class:
    node = pytest.Class.__new__(pytest.Class)
    node.name = name
    return node


@pytest.mark.parametrize("classes", [[], ["TestAgent"], ["TestOuter", "TestInner"]])
@pytest.mark.parametrize("name", ["test_it", "test_it[a/b]", "test_It"])
def test_a_cassette_is_named_by_its_test_and_the_classes_around_it(name: str, classes: list[str]) -> None:
    made = cassette_file_name(_Item(name, classes))  # type: ignore[arg-type]

    assert made == file_name_of_test(classes, name)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("shared", "shared.jsonl"), ("shared.jsonl", "shared.jsonl"), ("deep/er", "deep/er.jsonl")],
)
def test_the_name_that_a_marker_gives_is_taken_as_it_is(name: str, expected: str) -> None:
    assert cassette_file_name(_Item("test_it"), name=name) == expected  # type: ignore[arg-type]
