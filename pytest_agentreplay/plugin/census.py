"""Which cassettes a test suite uses, and which of their steps, found out by running it.

A plugin of its own, loaded by ``agentreplay prune`` in a pytest process; it writes what may go to a file.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pytest_agentreplay.cassette import is_partial
from pytest_agentreplay.filenames import SUFFIX
from pytest_agentreplay.plugin.options import MARKER, cassette_name
from pytest_agentreplay.plugin.paths import cassette_file_name
from pytest_agentreplay.plugin.summary import ATTRIBUTE, ReportedOutcome

__all__ = ["Census", "Plan"]

_FIXTURE = re.compile(r"(?:^|\.)fixture\.(\w+)")


@dataclass(frozen=True)
class Plan:
    """What may go: whole cassettes, and the positions of steps in others.

    Named and never removed are ``partials``; ``replays``, the tapes of runs that replayed a cassette, and may have gone
    on from it; and cassettes that are ``shared``: they hold steps not played that tests may play which did not run.
    """

    unused: tuple[Path, ...] = ()
    unplayed: Mapping[Path, tuple[int, ...]] = field(default_factory=dict)
    partials: tuple[Path, ...] = ()
    replays: tuple[Path, ...] = ()
    shared: tuple[Path, ...] = ()

    def to_json(self) -> str:
        """Return this plan as one JSON document."""
        return json.dumps(
            {
                "unused": [str(path) for path in self.unused],
                "unplayed": {str(path): list(positions) for path, positions in self.unplayed.items()},
                "partials": [str(path) for path in self.partials],
                "replays": [str(path) for path in self.replays],
                "shared": [str(path) for path in self.shared],
            }
        )

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """Return the plan that :meth:`to_json` wrote."""
        read = json.loads(text)
        return cls(
            unused=tuple(map(Path, read["unused"])),
            unplayed={Path(path): tuple(positions) for path, positions in read["unplayed"].items()},
            partials=tuple(map(Path, read["partials"])),
            replays=tuple(map(Path, read["replays"])),
            shared=tuple(map(Path, read["shared"])),
        )


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("agent-replay").addoption("--agent-census", metavar="FILE", help="Write what no test uses here.")


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config.option, "dist"):  # pytest-xdist: no single worker sees all, and the controller collects nothing
        config.option.dist, config.option.tx, config.option.numprocesses = "no", [], None
    config.pluginmanager.register(Census(Path(config.getoption("agent_census"))), "agent_cassette_census_run")


@dataclass(frozen=True)
class _Spared:
    """What tests may need that did not run today: deselected, skipped, or in a module that skips itself.

    The cassettes' names, the fixtures that have cassettes of their own, and the folders of modules.
    """

    names: frozenset[str]
    fixtures: frozenset[str]
    folders: tuple[Path, ...]

    def has(self, path: Path) -> bool:
        fixture = _FIXTURE.search(path.name)
        if fixture is not None and (self.folders or fixture.group(1) in self.fixtures):
            return True  # which fixtures a module needs that was not collected is not known
        return path.name in self.names or any(path.is_relative_to(folder) for folder in self.folders)


class Census:
    """Watches a run: the cassettes it played, the steps it did not play, the tests it collected and did not run."""

    def __init__(self, output: Path) -> None:
        self._output = output
        self._collection_failed = False
        self._skipped: list[Path] = []
        self._root = Path()
        self._items: dict[str, pytest.Item] = {}
        self._beside: dict[str, pytest.Item] = {}
        self._ran: set[str] = set()
        self._unplayed: dict[Path, set[int]] = {}
        self._places: list[Path] = []

    @pytest.hookimpl
    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._collection_failed = self._collection_failed or report.failed
        if report.skipped:
            self._skipped.append(Path(report.nodeid.partition("::")[0]))

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(
        self, session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        self._items = _marked(items)
        if any("::" in argument for argument in config.args):
            self._beside = _marked(_beside(session, items))
        self._root, invoked_from = config.rootpath.resolve(), config.invocation_params.dir
        for argument in config.args:
            place, separator, _ = argument.partition("::")
            if not separator:
                self._places.append((invoked_from / place).resolve())

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            self._ran.add(report.nodeid)
        outcomes: list[ReportedOutcome] = getattr(report, ATTRIBUTE, [])
        for outcome in outcomes:
            path = Path(outcome["absolute"])
            # A test that skips itself or fails as expected says nothing about what it did not come to.
            unplayed = set(outcome["unplayed"]) if outcome["passed"] else set()
            self._unplayed[path] = self._unplayed.get(path, unplayed) & unplayed

    @pytest.hookimpl
    def pytest_sessionfinish(self, exitstatus: int) -> None:
        if exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED) and not self._collection_failed:
            self._output.write_text(self.plan().to_json(), encoding="utf-8")

    def plan(self) -> Plan:
        """Return what the places that were collected whole hold and nothing asked for."""
        found = sorted(set(self._candidates()))
        partials = tuple(path for path in found if is_partial(path))
        unasked = [path for path in found if path not in (*self._unplayed, *partials)]
        replays = tuple(path for path in unasked if _replays_another(path))
        spared = self._spared()
        left = {path: tuple(sorted(steps)) for path, steps in sorted(self._unplayed.items()) if steps}
        shared = tuple(path for path in left if spared.has(path) or self._is_of_others(path))
        return Plan(
            unused=tuple(path for path in unasked if path not in replays and not spared.has(path)),
            unplayed={path: steps for path, steps in left.items() if path not in shared},
            partials=partials,
            replays=replays,
            shared=shared,
        )

    def _spared(self) -> _Spared:
        idle = [item for nodeid, item in self._items.items() if nodeid not in self._ran]
        may_play = [*idle, *(item for nodeid, item in self._beside.items() if nodeid not in self._items)]
        return _Spared(
            names=frozenset(cassette_file_name(item, name=cassette_name(item)).rpartition("/")[2] for item in may_play),
            fixtures=frozenset(name for item in idle for name in getattr(item, "fixturenames", ())),
            folders=tuple((self._root / module).parent / "cassettes" / module.stem for module in self._skipped),
        )

    def _is_of_others(self, path: Path) -> bool:
        """Return whether a test recorded a cassette that stands where not all tests are known.

        One of a name that is known, in a module that is there no more, has moved.
        """
        module, is_test, name = str(_head_of(path).get("name")).partition("::")
        where = (self._root / module).resolve()
        known = [nodeid.partition("::") for nodeid in (*self._items, *self._beside)]
        if where in {(self._root / other).resolve() for other, _, _ in known}:
            return False
        has_moved = not where.exists() and name in {other for _, _, other in known}
        return bool(is_test) and not has_moved and not any(map(where.is_relative_to, self._places))

    def _candidates(self) -> Iterator[Path]:
        folders = {path.parent for path in self._unplayed}
        for place in self._places:
            if place.is_dir():
                yield from _ours(path for folder in place.rglob("cassettes") for path in folder.rglob(f"*{SUFFIX}"))
                yield from _ours(
                    path for folder in folders if folder.is_relative_to(place) for path in folder.glob(f"*{SUFFIX}")
                )
            else:
                yield from _ours((place.parent / "cassettes" / place.stem).glob(f"*{SUFFIX}"))


def _marked(items: Iterable[pytest.Item]) -> dict[str, pytest.Item]:
    """Return the tests that have cassettes, by their node ids."""
    return {item.nodeid: item for item in items if item.get_closest_marker(MARKER) is not None}


def _beside(session: pytest.Session, items: Iterable[pytest.Item]) -> Iterator[pytest.Item]:
    """Yield all tests of the modules that some tests stand in, also those that were not asked for."""
    for module in dict.fromkeys(item.getparent(pytest.Module) for item in items):
        if module is not None:
            yield from session.genitems(module)


def _replays_another(path: Path) -> bool:
    """Return whether the head of a tape says that its run replayed another."""
    return _head_of(path).get("replay_of") is not None


def _head_of(path: Path) -> dict[str, Any]:
    """Return the first line of a tape; nothing where it is none."""
    with path.open("rb") as file, contextlib.suppress(ValueError):
        head = json.loads(file.readline())
        return head if isinstance(head, dict) else {}
    return {}


def _ours(paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        with path.open("rb") as file:
            if file.read(20).startswith(b'{"kind":"run.start"'):
                yield path.resolve()
