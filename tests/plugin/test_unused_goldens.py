"""Which goldens are unused, and found or deleted; and which files never are, whatever a run came to compare."""

from __future__ import annotations

import pytest

from tests.support.suite import Suite

THREE = """
import pytest
from agent import ask

def pinned(agent_run, event_snapshot, mermaid_snapshot):
    ask("one")
    assert agent_run.events == event_snapshot
    assert agent_run.mermaid() == mermaid_snapshot

@pytest.mark.agent_cassette
def test_first(agent_run, event_snapshot, mermaid_snapshot):
    pinned(agent_run, event_snapshot, mermaid_snapshot)  # first

@pytest.mark.agent_cassette
def test_second(agent_run, event_snapshot, mermaid_snapshot):
    pinned(agent_run, event_snapshot, mermaid_snapshot)  # second

@pytest.mark.late
@pytest.mark.agent_cassette
def test_third(agent_run, event_snapshot, mermaid_snapshot):
    pinned(agent_run, event_snapshot, mermaid_snapshot)  # third
"""

ALL = [
    f"test_it/test_{name}.{ending}" for name in ("first", "second", "third") for ending in ("agent-events", "mermaid")
]


def goldens(suite: Suite) -> list[str]:
    """Return the goldens of the suite by their path, sorted."""
    folder = suite.path / "__snapshots__"
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


@pytest.fixture
def three(suite: Suite) -> Suite:
    """A suite of three tests, recorded and with their goldens."""
    suite.ini("markers = late")
    suite.write(THREE)
    suite.record("--snapshot-update")
    assert goldens(suite) == ALL
    return suite


def test_a_golden_of_a_test_that_is_gone_fails_the_run_and_is_deleted_on_update(three: Suite) -> None:
    three.write(THREE.partition("@pytest.mark.late")[0])

    found = three.run()
    updated = three.run("--snapshot-update")

    assert found.ret == pytest.ExitCode.TESTS_FAILED
    found.stdout.fnmatch_lines(["4 snapshots passed. 2 snapshots unused."])
    assert updated.ret == pytest.ExitCode.OK
    updated.stdout.fnmatch_lines(["4 snapshots passed. 2 unused snapshots deleted."])
    assert goldens(three) == ALL[:4]


@pytest.mark.parametrize("given", ["test_it.py", "test_it.py::test_first", "."])
def test_a_golden_of_a_test_that_is_gone_is_passed_over_where_paths_are_given(three: Suite, given: str) -> None:
    three.write(THREE.partition("@pytest.mark.late")[0])

    found, updated = three.run(given), three.run(given, "--snapshot-update")

    assert (found.ret, updated.ret) == (pytest.ExitCode.OK, pytest.ExitCode.OK)
    found.stdout.no_fnmatch_line("*snapshot* unused*")
    assert goldens(three) == ALL


def test_an_assertion_that_is_gone_from_a_test_that_passes_leaves_its_golden_unused(three: Suite) -> None:
    three.write(THREE.replace("pinned(agent_run, event_snapshot, mermaid_snapshot)  # second", "ask('one')"))

    result = three.run("--snapshot-update")

    result.assert_outcomes(passed=3)
    assert goldens(three) == [*ALL[:2], *ALL[4:]]


EARLY = """
import pytest
from agent import ask

def fail(): assert 0
def stop(): 1 / 0
def diverge(): ask("something else")
def skip(): pytest.skip("not today")
def expect(): pytest.xfail("not today")
def end(): pytest.exit("enough")

@pytest.mark.parametrize("before", [ENDS])
@pytest.mark.agent_cassette
def test_it(agent_run, event_snapshot, mermaid_snapshot, before):
    ask("one")
    if EARLY:
        before()
    assert agent_run.events == event_snapshot
    assert agent_run.mermaid() == mermaid_snapshot
"""


@pytest.mark.parametrize("ends", ["fail, stop, diverge, skip, expect", "end, fail"])
def test_a_golden_is_not_unused_where_its_test_ended_before_comparing_it(suite: Suite, ends: str) -> None:
    suite.write(EARLY.replace("ENDS", ends).replace("EARLY", "False"))
    suite.record("--snapshot-update")
    kept = goldens(suite)
    suite.write(EARLY.replace("ENDS", ends).replace("EARLY", "True"))

    for arguments in ([], ["--snapshot-update"]):
        result = suite.run(*arguments)

        result.stdout.no_fnmatch_line("*snapshot* unused*")
    assert len(kept) == 2 * len(ends.split(", "))
    assert goldens(suite) == kept


# What else can keep a test from comparing its golden: how it is marked, and with what arguments pytest runs.
AWAY = {
    "a skip mark": ("@pytest.mark.skip", ()),
    "an xfail mark": ("@pytest.mark.xfail(run=False)", ()),
    "a fixture that fails": ("@pytest.mark.usefixtures('broken')", ()),
    "a keyword": ("", ("-k", "not late")),
    "a marker expression": ("", ("-m", "not late")),
    "a deselection": ("", ("--deselect", "test_it.py::test_third")),
    "a path of another test": ("", ("test_it.py::test_first",)),
    "a conftest that drops it": ("", ("-p", "drops_late")),
    "a stop before it": ("@pytest.mark.usefixtures('broken')", ("-x",)),
}


@pytest.mark.parametrize(("mark", "arguments"), AWAY.values(), ids=AWAY)
def test_a_golden_is_not_unused_where_its_test_did_not_run(three: Suite, mark: str, arguments: tuple[str, ...]) -> None:
    three.pytester.makepyfile(
        drops_late="""
        import pytest

        @pytest.hookimpl(tryfirst=True)
        def pytest_collection_modifyitems(items):
            items[:] = [item for item in items if not item.get_closest_marker("late")]
        """
    )
    three.pytester.makeconftest("import pytest\n\n@pytest.fixture\ndef broken():\n    1 / 0\n")
    three.pytester.syspathinsert()
    three.write(THREE.replace("@pytest.mark.late", f"@pytest.mark.late\n{mark}"))

    result = three.run(*arguments, "--snapshot-update")

    result.stdout.no_fnmatch_line("*snapshot* unused*")
    assert goldens(three) == ALL


@pytest.mark.parametrize(
    "end", ["pytest.importorskip('no_such_framework')", "pytest.skip('no', allow_module_level=True)", "import no_such"]
)
def test_goldens_are_not_unused_where_their_module_cannot_be_imported(three: Suite, end: str) -> None:
    three.pytester.makepyfile(test_other=THREE)
    three.record("--snapshot-update")
    kept = goldens(three)
    three.write(f"import pytest\n{end}\n")

    for arguments in ([], ["--snapshot-update"]):
        result = three.run("--continue-on-collection-errors", *arguments)

        result.stdout.no_fnmatch_line("*snapshot* unused*")
    assert len(kept) == 12
    assert goldens(three) == kept


def test_a_test_that_passes_when_it_is_run_again_has_its_golden_judged_as_any_other(three: Suite) -> None:
    flaky = """
    if not TRIES:
        TRIES.append(1)
        assert 0
    ask("one")
    assert agent_run.events == event_snapshot
    """
    three.write(
        THREE.replace("    pinned(agent_run, event_snapshot, mermaid_snapshot)  # second", flaky) + "\nTRIES = []"
    )

    result = three.run("--reruns=1", "--snapshot-update", "-p", "rerunfailures")

    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(["Deleted test_second (*test_second.mermaid)"])
    assert goldens(three) == [name for name in ALL if name != "test_it/test_second.mermaid"]


def test_a_test_that_fails_whenever_it_is_run_again_keeps_its_golden(three: Suite) -> None:
    three.write(THREE.replace("pinned(agent_run, event_snapshot, mermaid_snapshot)  # second", "assert 0"))

    result = three.run("--reruns=1", "--snapshot-update", "-p", "rerunfailures")

    result.assert_outcomes(passed=2, failed=1)
    assert goldens(three) == ALL


IDS = """
import pytest
from agent import ask

@pytest.mark.parametrize("text", ["a-b", pytest.param("a/b", marks=pytest.mark.late), "a-b-c"])
@pytest.mark.agent_cassette
def test_it(agent_run, event_snapshot, text):
    ask(text)
    assert agent_run.events == event_snapshot
"""


def test_a_golden_is_never_taken_for_that_of_a_test_with_nearly_its_name(suite: Suite) -> None:
    suite.ini("markers = late")
    suite.write(IDS)
    suite.record("--snapshot-update")
    kept = goldens(suite)

    for arguments in (
        ("-m", "not late"),
        ("-m", "late"),
        ("-k", "not late"),
        ("--deselect", "test_it.py::test_it[a/b]"),
    ):
        suite.run("--snapshot-update", *arguments)

        assert goldens(suite) == kept
    assert len(kept) == 3


FOREIGN = """
import pytest
import yaml
from agent import ask
from syrupy.extensions.amber import AmberSnapshotExtension
from syrupy.extensions.json import JSONSnapshotExtension
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

class YamlExtension(SingleFileSnapshotExtension):
    file_extension = "yaml"
    _write_mode = WriteMode.TEXT

    def serialize(self, data, **kwargs):
        return yaml.safe_dump(data)

@pytest.mark.late
@pytest.mark.parametrize("text", ["a/b", "ab"])
@pytest.mark.agent_cassette
def test_it(text, agent_run, event_snapshot, mermaid_snapshot):
    ask(text)
    assert agent_run.events == event_snapshot
    assert agent_run.mermaid() == mermaid_snapshot

def test_others(snapshot):
    assert {"a": 1} == snapshot
    assert {"a": 1} == snapshot.use_extension(JSONSnapshotExtension)
    assert {"a": 1} == snapshot.use_extension(YamlExtension)
    assert b"raw" == snapshot.use_extension(SingleFileSnapshotExtension)
"""


def test_files_of_other_extensions_survive_beside_goldens_whatever_ran(suite: Suite) -> None:
    suite.ini("markers = late")
    suite.write(FOREIGN)
    suite.record("--snapshot-update")
    kept = goldens(suite)

    for test in (FOREIGN, FOREIGN.replace("ask(text)", "assert 0"), FOREIGN.replace("mark.late", "mark.skip")):
        suite.write(test)
        for arguments in ([], ["-k", "others"], ["-x"], ["-m", "not late"]):
            suite.run("--snapshot-update", *arguments)

            assert goldens(suite) == kept
    assert len(kept) == 8
    assert len(suite.cassettes()) == 2


def test_files_of_nobody_survive_beside_goldens(three: Suite) -> None:
    foreign = ["notes.md", "test_it/notes.txt", "test_it/test_it.events.yaml", "test_it/it.jsonl", "deep/er/x.mermaid"]
    for name in foreign:
        path = three.path / "__snapshots__" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("kept")

    result = three.run("--snapshot-update")

    assert result.ret == pytest.ExitCode.OK
    assert goldens(three) == sorted([*ALL, *foreign])


SPREAD = """
import os
import pytest
from agent import ask

@pytest.mark.parametrize("before", [lambda: None, BEFORE], ids=["passes", "fails", "dies", "goes"][:COUNT])
@pytest.mark.agent_cassette
def test_it(agent_run, event_snapshot, before):
    ask("one")
    before()
    assert agent_run.events == event_snapshot
"""


def test_workers_write_and_compare_goldens_and_delete_only_those_that_no_test_has(suite: Suite) -> None:
    suite.write(SPREAD.replace("BEFORE", "int, int, int").replace("COUNT", "4"))
    written = suite.run_spread("--record-mode=once", "--snapshot-update", "-p", "syrupy")
    suite.write(SPREAD.replace("BEFORE", "lambda: 1 / 0, lambda: os._exit(1)").replace("COUNT", "3"))

    updated = suite.run_spread("--snapshot-update", "-p", "syrupy")

    written.stdout.fnmatch_lines(["4 snapshots generated."])
    updated.assert_outcomes(passed=1, failed=2)
    updated.stdout.fnmatch_lines(["*1 unused snapshot deleted.", "Deleted test_it?goes? (*)"])
    assert goldens(suite) == [f"test_it/test_it[{name}].agent-events" for name in ("dies", "fails", "passes")]


@pytest.mark.slow
@pytest.mark.parametrize(
    "end", ["assert 0", "import os; os._exit(1)", "pytest.exit('enough')", "raise KeyboardInterrupt"]
)
def test_no_golden_is_lost_where_workers_did_not_compare_it(three: Suite, end: str) -> None:
    three.write(THREE.replace("pinned(agent_run, event_snapshot, mermaid_snapshot)  # second", end))

    result = three.run_spread("--snapshot-update", "-p", "syrupy")

    result.stdout.no_fnmatch_line("*snapshot* unused*")
    assert result.ret != pytest.ExitCode.OK
    assert goldens(three) == ALL
