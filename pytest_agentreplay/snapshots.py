"""Goldens as syrupy keeps them: event streams in ``.agent-events`` files, diagrams in ``.mermaid`` files.

One file an assertion, in bytes, so that no line end drifts.  The only importer of syrupy.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeGuard

import pytest
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.base import AbstractSyrupyExtension
from syrupy.extensions.single_file import SingleFileSnapshotExtension
from syrupy.location import PyTestLocation
from syrupy.session import SnapshotSession
from syrupy.types import PropertyFilter, PropertyMatcher, PropertyPath, SnapshotIndex

from pytest_agentreplay.cassette import is_conflict_marker
from pytest_agentreplay.divergence import Change, show_moved, show_together
from pytest_agentreplay.filenames import distinct_file_name
from pytest_agentreplay.projections.event_changes import EventChange, find_event_changes
from pytest_agentreplay.projections.event_text import parse_events, write_events

__all__ = [
    "AgentEventsExtension",
    "MermaidExtension",
    "explain_failure",
    "golden_of",
    "is_golden",
    "keep_goldens",
]

_MOST_LINES_OF_FILE = 20
_MOST_LINES_OF_EVENTS = 40
_LONGEST_INDEX = 40  # bytes; the test's own name takes the most of a file name


class _Golden(SingleFileSnapshotExtension):
    """What the two have in common: names that no other test shares on any file system, and a short file diff."""

    @classmethod
    def get_snapshot_name(cls, *, test_location: PyTestLocation, index: SnapshotIndex = 0) -> str:
        return _name_of_test(test_location) + _name_of_assertion(index)

    @classmethod
    def matches_test_location(cls, *, test_location: PyTestLocation, snapshot_location: str) -> bool:
        path, name = Path(snapshot_location), _name_of_test(test_location)
        is_of_module = path.parent.name == test_location.basename
        is_of_test = path.stem == name or path.stem.startswith((f"{name}.", f"{name}["))
        return is_of_module and is_of_test and bool(test_location.matches_snapshot_site(snapshot_location))

    def matches(self, *, serialized_data: Any, snapshot_data: Any) -> bool:
        return bool(serialized_data == _with_plain_line_ends(snapshot_data))

    def diff_lines(self, serialized_data: Any, snapshot_data: Any) -> Iterator[str]:
        yield from _file_diff(_text(_with_plain_line_ends(snapshot_data)), _text(serialized_data))


class MermaidExtension(_Golden):
    """A golden diagram, as :func:`render_mermaid` gives it."""

    file_extension = "mermaid"

    def serialize(
        self,
        data: Any,
        *,
        exclude: PropertyFilter | None = None,
        include: PropertyFilter | None = None,
        matcher: PropertyMatcher | None = None,
    ) -> bytes:
        if not isinstance(data, str):
            given = type(data).__name__
            raise TypeError(f"mermaid_snapshot compares a diagram's text, as agent_run.mermaid() gives it; got {given}")
        return str(_Sieve(exclude, include, matcher).kept(data, ())).encode("utf-8", "backslashreplace")


class AgentEventsExtension(_Golden):
    """A golden event stream, as :func:`event_stream` gives it, in YAML."""

    file_extension = "agent-events"

    def serialize(
        self,
        data: Any,
        *,
        exclude: PropertyFilter | None = None,
        include: PropertyFilter | None = None,
        matcher: PropertyMatcher | None = None,
    ) -> bytes:
        if not isinstance(data, list | tuple):
            given = type(data).__name__
            raise TypeError(f"event_snapshot compares a list of events, as agent_run.events gives it; got {given}")
        is_whole = exclude is None and include is None and matcher is None
        return write_events(data if is_whole else _Sieve(exclude, include, matcher).kept(data, ())).encode()

    def diff_lines(self, serialized_data: Any, snapshot_data: Any) -> Iterator[str]:
        golden, now = _text(_with_plain_line_ends(snapshot_data)), _text(serialized_data)
        yield from _event_diff(golden, now)
        yield ""
        yield from _file_diff(golden, now)


_ENDINGS = frozenset(f".{extension.file_extension}" for extension in (AgentEventsExtension, MermaidExtension))


def golden_of(test: pytest.Item, extension: type[AbstractSyrupyExtension]) -> SnapshotAssertion:
    """Return what compares a test's goldens of one kind.

    Made without syrupy's fixture ``snapshot``, which makes whatever else lies in ``__snapshots__`` count as unused, and
    which another plugin's fixture may hide.
    """
    options: Any = test.config.option
    return _Comparison(
        session=_session_of(test.config),
        extension_class=extension,
        test_location=PyTestLocation(test),
        update_snapshots=options.update_snapshots,
        update_new_snapshots_only=options.update_new_snapshots_only,
    )


def is_golden(value: object) -> TypeGuard[SnapshotAssertion]:
    """Return whether a value is what one of our fixtures gives."""
    return isinstance(value, SnapshotAssertion) and issubclass(value.extension_class, _Golden)


def explain_failure(golden: SnapshotAssertion, *, command: str, folder: Path) -> list[str]:
    """Return what a failed comparison has to say: which file, what differs, and the command that writes it anew.

    Paths are shown from ``folder``.
    """
    result = golden.executions[golden.num_executions - 1]
    head = [f"golden  {os.path.relpath(result.snapshot_location, folder)}", ""]
    if result.exception is not None and result.recalled_data is not None:
        return [*head, f"cannot be compared: {result.exception}"]
    if result.asserted_data is None:
        return [*head, str(result.exception or "nothing was compared")]
    if result.recalled_data is None:
        return [*head, "There is no golden yet. Write it, and read it before you commit it:", f"  {command}"]
    marker = _line_of_conflict(result.recalled_data)
    if marker is not None:
        resolve = "Resolve the conflict: keep one side whole, or write the golden anew:"
        return [*head, f"line {marker}: a git conflict marker", resolve, f"  {command}"]
    diff = golden.extension.diff_lines(result.asserted_data, result.recalled_data)
    return [*head, *map(str, diff), "", "If the change is meant, write the golden anew:", f"  {command}"]


def keep_goldens(
    config: pytest.Config, tests: Collection[pytest.Item], *, broken: Iterable[Path], of_workers: Collection[str]
) -> None:
    """Let the goldens of ``tests``, which did not come to compare them, not be unused: syrupy is told of a skip.

    Nor are those of ``broken`` modules, which could not be collected, and of the tests that workers of pytest-xdist
    collected, ``of_workers`` by node id, and of which none has told since.
    """
    session = _session_of(config)
    _claim(session, tests)
    session.collect_items([*tests])
    session.select_items([*tests])
    for test in tests:
        session.ran_item(test.nodeid, "skipped")
    _keep_of_lost_workers(session, of_workers)
    for module in broken:
        goldens = module.parent / config.option.snapshot_dirname / module.stem
        if any(path.suffix in _ENDINGS for path in goldens.glob("*")):
            # syrupy takes a module that it came by, and that has no tests, for one that lost them.
            session._collected_modules.discard(PyTestLocation.module_path_key(module))


def _line_of_conflict(data: str | bytes) -> int | None:
    """Return the first line of a golden that git wrote, from 1; what runs say is indented in either kind."""
    rows = enumerate(_text(data).encode().split(b"\n"), start=1)
    return next((number for number, row in rows if is_conflict_marker(row)), None)


def _session_of(config: pytest.Config) -> SnapshotSession:
    """Return syrupy's own session, from where its fixture has it."""
    session: SnapshotSession = config._syrupy  # type: ignore[attr-defined]
    return session


def _claim(session: SnapshotSession, tests: Iterable[pytest.Item]) -> None:
    """Say whose goldens are, where no test came to compare any: other extensions take such files for leftovers."""
    for test in {test.path.parent: test for test in tests}.values():
        for extension in (AgentEventsExtension(), MermaidExtension()):
            for found in extension.discover_snapshots(test_location=PyTestLocation(test)):
                session._extensions.setdefault(found.location, extension)


def _keep_of_lost_workers(session: SnapshotSession, tests: Collection[str]) -> None:
    """Keep the goldens of tests that no worker of pytest-xdist tells of, because it died or was stopped."""
    reports = session._worker_reports
    run = {nodeid for report in reports for nodeid, outcome in report["selected"].items() if outcome}
    for report in reports[-1:]:
        report["selected"].update(dict.fromkeys(set(tests) - run, "skipped"))


def _name_of_test(location: PyTestLocation) -> str:
    name, classes = location.snapshot_name, location.classname or ""
    return distinct_file_name(name, case_matters_in=name[len(classes) :])


def _name_of_assertion(index: SnapshotIndex) -> str:
    """Return what tells the golden of a named or a further assertion from the test's first."""
    if isinstance(index, str):
        return f"[{distinct_file_name(index, case_matters_in=index, longest=_LONGEST_INDEX)}]"
    return f".{index}" if index else ""


class _Comparison(SnapshotAssertion):
    """syrupy's, but for values that nothing is to be done to: it visits each, which takes longer than to write them."""

    def _serialize(self, data: Any) -> Any:
        if self._exclude is None and self._include is None and self._matcher is None:
            return self.extension.serialize(data)
        return super()._serialize(data)


class _Sieve:
    """syrupy's ``exclude``, ``include`` and ``matcher``, on plain values; a path is made of keys with their types."""

    def __init__(
        self, exclude: PropertyFilter | None, include: PropertyFilter | None, matcher: PropertyMatcher | None
    ) -> None:
        self._exclude = exclude
        self._include = include
        self._matcher = matcher

    def kept(self, value: Any, path: PropertyPath) -> Any:
        """Return what is left of a value."""
        if self._matcher is not None:
            value = self._matcher(data=value, path=path)
        if isinstance(value, Mapping):
            return {
                key: self.kept(item, (*path, (key, type(item))))
                for key, item in value.items()
                if not self._is_excluded(key, path) and (self._include is None or self._include(prop=key, path=path))
            }
        if isinstance(value, list | tuple):
            return [
                self.kept(item, (*path, (index, type(item))))
                for index, item in enumerate(value)
                if not self._is_excluded(index, path)
            ]
        return value

    def _is_excluded(self, key: Any, path: PropertyPath) -> bool:
        return self._exclude is not None and bool(self._exclude(prop=key, path=path))


def _event_diff(golden: str, now: str) -> Iterator[str]:
    try:
        changes = find_event_changes(parse_events(golden), parse_events(now))
    except ValueError:
        yield "the golden file is no event stream; --snapshot-update writes it anew"
        return
    lines = [line for change in changes for line in _change_lines(change)]
    yield "events, golden → now:" if lines else "events: the same, in other words"
    yield from _folded([f"  {line}" for line in lines], most=_MOST_LINES_OF_EVENTS)


def _change_lines(change: EventChange) -> Iterator[str]:
    yield f"{change.sign} {change.title}"
    for inner in change.changes:
        yield f"    {inner.path}"
        yield from (f"      {line}" for line in _value_lines(inner))


def _value_lines(change: Change) -> Iterator[str]:
    if change.moved:
        yield from show_moved(change)
        return
    golden, now = show_together(change)
    yield f"golden: {golden}"
    yield f"now:    {now}"


def _file_diff(golden: str, now: str) -> Iterator[str]:
    yield "file, - golden, + now:"
    lines = difflib.unified_diff(golden.splitlines(), now.splitlines(), n=1, lineterm="")
    yield from _folded([f"  {line}" for line in lines if not line.startswith(("---", "+++"))], most=_MOST_LINES_OF_FILE)


def _folded(lines: list[str], *, most: int) -> Iterator[str]:
    yield from lines[:most]
    if len(lines) > most:
        yield f"  … {len(lines) - most} more lines"


def _text(data: Any) -> str:
    return data.decode("utf-8", "backslashreplace") if isinstance(data, bytes) else str(data)


def _with_plain_line_ends(data: Any) -> Any:
    """Return what a golden holds in the repository: a checkout may have turned its line ends into Windows'."""
    return data.replace(b"\r\n", b"\n") if isinstance(data, bytes) else data
