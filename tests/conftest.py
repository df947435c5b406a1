"""Fixtures for every test of the project."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

CORPUS = Path(__file__).resolve().parents[2] / "shared" / "corpus"


@pytest.fixture(scope="session")
def corpus() -> Path:
    """The folder of real recorded traffic and agent programs."""
    return CORPUS


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if CORPUS.is_dir():
        return
    absent = pytest.mark.skip(reason="the shared corpus is absent: no folder ../shared/corpus")
    for item in items:
        if item.get_closest_marker("corpus"):
            item.add_marker(absent)
