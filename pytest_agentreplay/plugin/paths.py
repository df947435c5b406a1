"""The name of a test's cassette, the same on every file system."""

from __future__ import annotations

import os
import re
import unicodedata
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from pytest_agentreplay.filenames import SUFFIX, distinct_file_name, file_name_of_test

__all__ = ["branch_name", "cassette_file_name", "fixture_file_name", "fixture_folder", "node_from_here"]

_LONGEST_BRANCH = 180  # letters; a store takes 255
_XUNIT = re.compile(r"^_(?:xunit|unittest)_(\w+?)_fixture_.*")  # pytest's names for setup_module, setUpClass and so on


def cassette_file_name(item: pytest.Item, *, name: str | None = None) -> str:
    """Return ``[Class.]test[id].jsonl``, or the name that the marker gives.

    It is made safe for every file system, and told from those that would be the same there.
    """
    if name is not None:
        return name.removesuffix(SUFFIX) + SUFFIX
    return file_name_of_test(_classes_of(item), item.name)


def branch_name(item: pytest.Item, *, attempt: int) -> str:
    """Return the name of the state branch of one attempt at a test: ``<test>~<short node hash>~<attempt>``."""
    end = f"~{sha256(item.nodeid.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}~{attempt}"
    letters = (letter if unicodedata.category(letter) not in ("Cc", "Cs") else "-" for letter in item.name)
    return "".join(letters).lstrip("_")[: _LONGEST_BRANCH - len(end)] + end


def fixture_file_name(fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest, *, phase: str) -> str:
    """Return the name of the cassette of a fixture's setup or teardown.

    It names the parameters that the fixture is set up anew for: its own, and those of the fixtures it needs.
    """
    classes = _classes_of(request.node) if fixturedef.scope == "class" else []
    fixture = _XUNIT.sub(r"\1", fixturedef.argname)
    params = _params_of(fixturedef, request._pyfuncitem)
    param = f"[{','.join(params)}]" if params else ""
    name = ".".join([*classes, f"fixture.{fixture}{param}", *([] if phase == "setup" else [phase])])
    return distinct_file_name(name, case_matters_in=fixture + param) + SUFFIX


def fixture_folder(fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest, *, folder: Path) -> Path:
    """Return where a fixture's cassettes lie: with its module's, or in ``cassettes/conftest`` where it is defined."""
    if fixturedef.scope in ("class", "module"):
        return folder
    base = request.config.rootpath / fixturedef.baseid
    if base.suffix == ".py":
        return base.parent / "cassettes" / base.stem
    return base / "cassettes" / "conftest"


def node_from_here(config: pytest.Config, nodeid: str) -> str:
    """Return a node id with its path from where pytest was called; pytest's own starts at its root."""
    if config.invocation_params.dir == config.rootpath:
        return nodeid
    path, separator, rest = nodeid.partition("::")
    return Path(os.path.relpath(config.rootpath / path, config.invocation_params.dir)).as_posix() + separator + rest


def _classes_of(node: pytest.Item | pytest.Collector) -> list[str]:
    return [parent.name for parent in node.listchain() if isinstance(parent, pytest.Class)]


def _params_of(fixturedef: pytest.FixtureDef[Any], item: pytest.Item) -> list[str]:
    callspec, fixtures = getattr(item, "callspec", None), getattr(item, "_fixtureinfo", None)
    if callspec is None or fixtures is None:
        return []
    needed, pending = set[str](), [fixturedef.argname]
    while pending:
        name = pending.pop()
        if name not in needed:
            needed.add(name)
            pending += [other for found in fixtures.name2fixturedefs.get(name, ()) for other in found.argnames]
    return [
        _shown(name, value, index=callspec.indices[name])
        for name, value in sorted(callspec.params.items())
        if name in needed
    ]


def _shown(name: str, value: Any, *, index: int) -> str:
    """Return a parameter as text that is the same in each run, as far as it has one."""
    return repr(value) if value is None or isinstance(value, str | bytes | int | float) else f"{name}{index}"
