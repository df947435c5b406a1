"""How adapters come to their frameworks: imported before, imported later, taken out again."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from pytest_agentreplay.taps import frameworks
from pytest_agentreplay.taps.frameworks import ADAPTERS, UnrecordedToolsWarning, record_framework_tools
from pytest_agentreplay.taps.owners import Registry


@contextmanager
def adapt(module: Any, registry: Registry) -> Iterator[None]:
    with mock.patch.object(module.Tool, "run", return_value=("recorded by", registry)):
        yield


@pytest.fixture
def name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of a framework of its own for each test, in the table of adapters and not imported."""
    name = f"made_up_{request.node.name}"
    (tmp_path / f"{name}.py").write_text("class Tool:\n    def run(self):\n        return 'run'\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(frameworks, "ADAPTERS", {name: adapt})
    yield name
    sys.modules.pop(name, None)


def test_a_framework_that_is_there_already_is_patched_at_once(name: str) -> None:
    registry = Registry()
    module = importlib.import_module(name)

    with record_framework_tools(registry):
        inside = module.Tool().run()

    assert inside == ("recorded by", registry)
    assert module.Tool().run() == "run"


def test_a_framework_that_is_imported_later_is_patched_then(name: str) -> None:
    registry = Registry()

    with record_framework_tools(registry):
        inside = importlib.import_module(name).Tool().run()

    assert inside == ("recorded by", registry)
    assert sys.modules[name].Tool().run() == "run"


def test_a_framework_that_is_imported_afterwards_is_left_alone(name: str) -> None:
    with record_framework_tools(Registry()):
        pass

    assert importlib.import_module(name).Tool().run() == "run"


def test_sessions_inside_each_other_are_taken_out_in_turn(name: str) -> None:
    outer, inner = Registry(), Registry()

    with record_framework_tools(outer):
        with record_framework_tools(inner):
            module = importlib.import_module(name)
            both = module.Tool().run()
        one = module.Tool().run()

    assert (both, one) == (("recorded by", inner), ("recorded by", outer))
    assert module.Tool().run() == "run"


def test_imports_are_seen_where_finders_were_taken_out(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with record_framework_tools(Registry()):
        pass
    monkeypatch.setattr(
        sys, "meta_path", [finder for finder in sys.meta_path if "wrapt" not in type(finder).__module__]
    )

    with record_framework_tools(Registry()):
        inside = importlib.import_module(name).Tool().run()

    assert inside[0] == "recorded by"


def test_a_version_that_the_adapter_does_not_know_is_warned_of(name: str, tmp_path: Path) -> None:
    (tmp_path / f"{name}.py").write_text("class Tool:\n    pass\n")

    with record_framework_tools(Registry()), pytest.warns(UnrecordedToolsWarning, match=f"{name!r} cannot be recorded"):
        module = importlib.import_module(name)

    assert not hasattr(module.Tool, "run")


@pytest.mark.parametrize("module", ADAPTERS)
def test_each_adapter_takes_its_patches_out(module: str) -> None:
    found = importlib.import_module(module)
    held = {owner: dict(vars(owner)) for owner in [found, *filter(_is_class, vars(found).values())]}

    with record_framework_tools(Registry()):
        changed = [owner for owner, before in held.items() if dict(vars(owner)) != before]

    assert len(changed) == 1
    assert [owner for owner, before in held.items() if dict(vars(owner)) != before] == []


def _is_class(value: object) -> bool:
    return isinstance(value, type)
