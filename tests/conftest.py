"""Fixtures for every test of the project."""

from __future__ import annotations

import gc
import os
from collections.abc import Generator
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

# Under CI pytest prints whole messages in its summary; the tests read what it prints to a person.
os.environ.pop("CI", None)
os.environ.pop("BUILD_NUMBER", None)

CORPUS = Path(__file__).resolve().parents[2] / "shared" / "corpus"


@pytest.fixture(scope="session")
def corpus() -> Path:
    """The folder of real recorded traffic and agent programs."""
    return CORPUS


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop() -> Generator[None, object, object]:
    """Spare the collector what stays to the end: with every SDK loaded, looking it through takes a quarter second."""
    gc.collect()
    gc.freeze()
    try:
        return (yield)
    finally:
        gc.unfreeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if CORPUS.is_dir():
        return
    absent = pytest.mark.skip(reason="the shared corpus is absent: no folder ../shared/corpus")
    for item in items:
        if item.get_closest_marker("corpus"):
            item.add_marker(absent)
