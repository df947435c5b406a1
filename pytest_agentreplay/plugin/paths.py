"""The name of a test's cassette, the same on every file system."""

from __future__ import annotations

import re
import unicodedata
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

__all__ = ["branch_name", "cassette_file_name", "fixture_file_name", "fixture_folder"]

_ILLEGAL = re.compile(r'[<>:"/\\|?*\x00-\x1f\x7f]')
_RESERVED = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?", re.IGNORECASE)
_XUNIT = re.compile(r"^_(?:xunit|unittest)_(\w+?)_fixture_.*")  # pytest's names for setup_module, setUpClass and so on
_LONGEST = 180  # bytes; file systems allow 255, and a partial recording's name is longer


def cassette_file_name(item: pytest.Item, *, name: str | None = None) -> str:
    """Return ``[Class.]test[id].jsonl``, or the name that the marker gives.

    Characters that some file system refuses become ``-``.  A name that had to change, or that differs from another only
    in case or in how its accents are encoded, gets a short hash of the original.
    """
    if name is not None:
        return name.removesuffix(".jsonl") + ".jsonl"
    return _safe(".".join([*_classes_of(item), item.name]), case_matters_in=item.name) + ".jsonl"


def branch_name(item: pytest.Item, *, attempt: int) -> str:
    """Return the name of the state branch of one attempt at a test: ``<test>~<short node hash>~<attempt>``."""
    end = f"~{sha256(item.nodeid.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}~{attempt}"
    letters = (letter if unicodedata.category(letter) not in ("Cc", "Cs") else "-" for letter in item.name)
    return "".join(letters).lstrip("_")[: _LONGEST - len(end)] + end


def fixture_file_name(fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest, *, phase: str) -> str:
    """Return the name of the cassette of a fixture's setup or teardown.

    It names the parameters that the fixture is set up anew for: its own, and those of the fixtures it needs.
    """
    classes = _classes_of(request.node) if fixturedef.scope == "class" else []
    fixture = _XUNIT.sub(r"\1", fixturedef.argname)
    params = _params_of(fixturedef, request._pyfuncitem)
    param = f"[{','.join(params)}]" if params else ""
    name = ".".join([*classes, f"fixture.{fixture}{param}", *([] if phase == "setup" else [phase])])
    return _safe(name, case_matters_in=fixture + param) + ".jsonl"


def fixture_folder(fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest, *, folder: Path) -> Path:
    """Return where a fixture's cassettes lie: with its module's, or in ``cassettes/conftest`` where it is defined."""
    if fixturedef.scope in ("class", "module"):
        return folder
    base = request.config.rootpath / fixturedef.baseid
    if base.suffix == ".py":
        return base.parent / "cassettes" / base.stem
    return base / "cassettes" / "conftest"


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


def _safe(name: str, *, case_matters_in: str) -> str:
    safe = _ILLEGAL.sub("-", unicodedata.normalize("NFC", name)).rstrip(". ")
    if _RESERVED.fullmatch(safe):
        safe = f"_{safe}"
    safe = safe.encode("utf-8", "replace")[:_LONGEST].decode("utf-8", "ignore")
    # Class names are in mixed case by custom; anywhere else two names may differ in case alone.
    if safe == name and case_matters_in == case_matters_in.casefold():
        return safe
    return f"{safe}-{sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"
