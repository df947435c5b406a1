"""What is installed, read once: each pytest in this process asks for it three times, which was half of its start-up."""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, cached_property
from importlib.metadata import Distribution
from typing import Any
from unittest.mock import patch


class Installed(Distribution):
    """An installed package, which reads each of its files once."""

    def __init__(self, package: Distribution) -> None:
        self._package = package
        self._read = cache(package.read_text)

    def read_text(self, filename: str) -> str | None:
        return self._read(filename)

    def locate_file(self, path: Any) -> Any:
        return self._package.locate_file(path)

    metadata = cached_property(lambda self: self._package.metadata)
    entry_points = cached_property(Distribution.entry_points.fget)
    files = cached_property(Distribution.files.fget)


@cache
def _installed(path: tuple[str, ...]) -> list[Installed]:
    return [Installed(package) for package in Distribution.discover(path=list(path))]


@contextmanager
def installed_once() -> Iterator[None]:
    """Let pytest and pluggy find what they found before: nothing is installed while a test runs."""
    with patch.object(importlib.metadata, "distributions", lambda: _installed(tuple(sys.path))):
        yield
