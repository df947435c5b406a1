"""Every public name is sorted, importable, documented where it is defined and told of in the pages."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest

import pytest_agentreplay

ROOT = Path(__file__).resolve().parents[1]
PAGES = "\n".join(path.read_text(encoding="utf-8") for path in [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md"))])
NAMES = [name for name in pytest_agentreplay.__all__ if not name.startswith("__")]
FUNCTIONS = [name for name in NAMES if inspect.isroutine(getattr(pytest_agentreplay, name))]
CLASSES = [name for name in NAMES if inspect.isclass(getattr(pytest_agentreplay, name))]


def documented(name: str) -> str:
    """Return the docstring that a name itself has, and not a base of it."""
    found: Any = getattr(pytest_agentreplay, name)
    return inspect.cleandoc(vars(found).get("__doc__") or "") if inspect.isclass(found) else inspect.getdoc(found) or ""


def test_the_names_are_sorted_and_each_once() -> None:
    assert pytest_agentreplay.__all__ == sorted(set(pytest_agentreplay.__all__))


def test_what_is_loaded_when_it_is_asked_for_is_public() -> None:
    assert pytest_agentreplay._LAZY.keys() <= set(pytest_agentreplay.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        pytest_agentreplay.nothing  # noqa: B018


@pytest.mark.parametrize("name", [*FUNCTIONS, *CLASSES])
def test_each_public_name_has_a_docstring_of_its_own(name: str) -> None:
    first = documented(name).partition("\n\n")[0]

    assert first
    assert not first.startswith(f"{name}(")  # what a dataclass writes itself


@pytest.mark.parametrize("name", FUNCTIONS)
def test_each_public_function_says_what_it_raises(name: str) -> None:
    assert re.search(r"\bRaises\b|what :func:`\w+` does", documented(name))


@pytest.mark.parametrize("name", CLASSES)
def test_each_public_method_has_a_docstring(name: str) -> None:
    found = getattr(pytest_agentreplay, name)
    ours = found.__module__.startswith("pytest_agentreplay")
    members = vars(found).items() if ours else []

    bare = [
        member
        for member, value in members
        if not member.startswith("_")
        and (inspect.isroutine(value) or isinstance(value, property))
        and not inspect.getdoc(value)
    ]

    assert bare == []


@pytest.mark.parametrize("name", NAMES)
def test_the_pages_tell_of_each_public_name(name: str) -> None:
    assert re.search(rf"\b{name}\b", PAGES)
