"""``agentreplay prune`` removes what no test asks for, and nothing that some test may still need."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from pytest_agentreplay.cassette import load_cassette, lock_cassette
from pytest_agentreplay.cli import main
from tests.support.openai import completion
from tests.support.suite import Provider, Suite, failure
from tests.support.tapes import OPENAI, Told, chat, write_cassette, write_partial

MANY = """
import os
import pytest
from agent import ask

RECORDING = os.environ.get("RECORDING")
cassette = pytest.mark.agent_cassette


@cassette
def test_used():
    ask("one")


@cassette
def test_asks_less():
    ask("one")
    if RECORDING:
        ask("two")
    ask("three")


@cassette(name="common")
@pytest.mark.parametrize("number", [1, 2])
def test_shares(number):
    ask("common")
    if number == 2:
        ask("of the second")
    if RECORDING:
        ask("of the past")


@cassette
def test_deselected():
    ask("deselected")


@cassette(name="half")
def test_half():
    ask("first half")


@cassette(name="half")
def test_deselected_half():
    ask("other half")


@cassette
@pytest.mark.skipif(not RECORDING, reason="not today")
def test_skipped():
    ask("skipped")


@cassette
def test_skips_itself():
    ask("begun")
    if not RECORDING:
        pytest.skip("not today")
    ask("ended")


@cassette
@pytest.mark.xfail(not RECORDING, reason="known")
def test_fails_as_expected():
    ask("begun")
    assert RECORDING
    ask("ended")


@pytest.fixture(scope="module")
def catalogue():
    return ask("catalogue")


@pytest.fixture(scope="module")
def drawer():
    return ask("drawer")


@cassette
def test_with_a_fixture(catalogue):
    ask("with a fixture")


@cassette
def test_deselected_with_a_fixture(drawer):
    ask("deselected with a fixture")
"""

SKIPPED_MODULE = """
import os
import pytest
from agent import ask

if not os.environ.get("RECORDING"):
    pytest.skip("this platform has no such thing", allow_module_level=True)

@pytest.mark.agent_cassette
def test_elsewhere():
    ask("elsewhere")
"""

KEPT = [
    "cassettes/test_it/common.jsonl",
    "cassettes/test_it/fixture.catalogue.jsonl",
    "cassettes/test_it/fixture.drawer.jsonl",
    "cassettes/test_it/half.jsonl",
    "cassettes/test_it/test_asks_less.jsonl",
    "cassettes/test_it/test_deselected.jsonl",
    "cassettes/test_it/test_deselected_with_a_fixture.jsonl",
    "cassettes/test_it/test_fails_as_expected.jsonl",
    "cassettes/test_it/test_skipped.jsonl",
    "cassettes/test_it/test_skips_itself.jsonl",
    "cassettes/test_it/test_used.jsonl",
    "cassettes/test_it/test_with_a_fixture.jsonl",
    "cassettes/test_skipped/test_elsewhere.jsonl",
]
UNUSED = ["cassettes/test_gone/test_old.jsonl", "cassettes/test_it/test_renamed.jsonl"]
PARTIAL = "cassettes/test_it/test_begun.partial.jsonl"


def told(text: str, *, url: str = OPENAI) -> Told:
    return Told(chat({"role": "user", "content": text}), completion(f"echo: {text}"), url=url)


def questions_in(path: Path) -> list[str]:
    """Return what is asked in a cassette."""
    return [message["content"] for message in load_cassette(path).messages.values()]


def contents(suite: Suite) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in suite.path.rglob("*.jsonl")}


@pytest.fixture
def littered(suite: Suite, provider: Provider, monkeypatch: pytest.MonkeyPatch) -> Suite:
    """A suite that was recorded some time ago, and has changed since."""
    suite.write(MANY, test_skipped=SKIPPED_MODULE)
    monkeypatch.setenv("RECORDING", "1")
    suite.run("--record-mode=new_episodes").assert_outcomes(passed=13)
    monkeypatch.delenv("RECORDING")
    provider.stop()
    # Of the cassette that two tests share either plays its own part, and nobody a third.
    steps = [
        told(text, url=f"{provider.url}/v1/chat/completions") for text in ("common", "of the past", "of the second")
    ]
    write_cassette(suite.cassette("test_it/common.jsonl"), steps)
    halves = [told(text, url=f"{provider.url}/v1/chat/completions") for text in ("first half", "other half")]
    write_cassette(suite.cassette("test_it/half.jsonl"), halves)
    for name in UNUSED:
        write_cassette(suite.path / name, [told("old")])
    write_partial(suite.path / PARTIAL.replace(".partial", ""), [told("begun")])
    (suite.path / "cassettes" / "test_it" / "data.jsonl").write_text('{"somebody": "else"}\n', encoding="utf-8")
    (suite.path / "cassettes" / "test_it" / "README.txt").write_text("not ours", encoding="utf-8")
    suite.ini("addopts = -k 'not deselected'")
    return suite


def prune(capfd: pytest.CaptureFixture[str], *args: str) -> tuple[int, Any]:
    """Run the command; return its exit code and its JSON."""
    code = main(["prune", "--json", *args])
    return code, json.loads(capfd.readouterr().out)


def test_prune_removes_what_no_test_asks_for_and_spares_the_rest(
    littered: Suite, capfd: pytest.CaptureFixture[str]
) -> None:
    before = contents(littered)

    dry_code, dry = prune(capfd, "--dry-run")
    untouched = contents(littered)
    code, plan = prune(capfd)

    def relative(paths: list[str]) -> list[str]:
        return [Path(path).relative_to(littered.path.resolve()).as_posix() for path in paths]

    assert (dry_code, code) == (1, 1)
    lock_cassette(littered.cassette("test_it/common.jsonl"), wait=1).release()  # no lock is left behind
    assert untouched == before
    assert dry == plan | {"dry_run": True}
    assert relative(plan["unused"]) == UNUSED
    assert relative(plan["partials"]) == [PARTIAL]
    assert relative(list(plan["unplayed"])) == [
        "cassettes/test_it/common.jsonl",
        "cassettes/test_it/test_asks_less.jsonl",
    ]
    assert littered.cassettes() == sorted([*KEPT, PARTIAL, "cassettes/test_it/data.jsonl"])
    assert questions_in(littered.cassette("test_it/test_asks_less.jsonl")) == ["one", "three"]
    assert questions_in(littered.cassette("test_it/common.jsonl")) == ["common", "of the second"]
    assert questions_in(littered.cassette("test_it/half.jsonl")) == ["first half", "other half"]
    assert questions_in(littered.cassette("test_it/test_skips_itself.jsonl")) == ["begun", "ended"]
    assert questions_in(littered.cassette("test_it/test_fails_as_expected.jsonl")) == ["begun", "ended"]

    assert main(["verify", "cassettes/test_it/t*.jsonl"]) == 0
    capfd.readouterr()
    assert main(["prune"]) == 0
    assert "nothing to prune" in capfd.readouterr().out


@pytest.fixture
def written(suite: Suite, monkeypatch: pytest.MonkeyPatch) -> Suite:
    """A suite whose agent asks what the cassettes that a test writes answer."""
    monkeypatch.setenv("PROVIDER_URL", OPENAI.removesuffix("/v1/chat/completions"))
    return suite


def test_prune_says_what_it_removed_and_what_it_kept(written: Suite, capfd: pytest.CaptureFixture[str]) -> None:
    written.write("import pytest\nfrom agent import ask\n\n@pytest.mark.agent_cassette\ndef test_it(): ask('one')\n")
    write_cassette(written.cassette(), [told("zero"), told("one"), told("two")])
    old = write_cassette(written.cassette("test_it/test_old.jsonl"), [told("old")])
    partial = write_partial(written.cassette("test_it/test_begun.jsonl"), [told("begun")])
    other = write_cassette(written.cassette("test_other/test_old.jsonl"), [told("old")])
    here = written.path.resolve() / "cassettes" / "test_it"

    code = main(["prune", "test_it.py"])

    assert code == 1
    assert capfd.readouterr().out.splitlines() == [
        f"removed {here / 'test_old.jsonl'}: no test asked for it",
        f"removed from {here / 'test_it.jsonl'}: steps 1, 3, not played",
        f"kept {here / 'test_begun.partial.jsonl'}: an unfinished recording holds answers that were paid for",
    ]
    assert not old.exists()
    assert partial.exists()
    assert other.exists()  # its module was not asked about
    assert questions_in(written.cassette()) == ["one"]


@pytest.mark.parametrize(
    "broken",
    [
        "import pytest\n\n@pytest.mark.agent_cassette\ndef test_it(): assert False\n",
        "import no_such_module\n",
    ],
    ids=["a failing test", "a module that cannot be imported"],
)
def test_a_suite_that_fails_prunes_nothing(written: Suite, capfd: pytest.CaptureFixture[str], broken: str) -> None:
    written.write(broken)
    write_cassette(written.cassette(), [told("one"), told("two")])
    write_cassette(written.cassette("test_it/test_old.jsonl"), [told("old")])
    before = contents(written)

    code = main(["prune"])

    printed = capfd.readouterr()
    assert code == 2
    assert printed.out == ""
    assert printed.err.splitlines()[-1].startswith("agentreplay: nothing was pruned: the suite must pass first")
    assert contents(written) == before


def test_one_test_alone_says_nothing_about_the_cassettes_of_others(
    written: Suite, capfd: pytest.CaptureFixture[str]
) -> None:
    written.write("import pytest\nfrom agent import ask\n\n@pytest.mark.agent_cassette\ndef test_it(): ask('one')\n")
    write_cassette(written.cassette(), [told("one")])
    write_cassette(written.cassette("test_it/test_old.jsonl"), [told("old")])
    before = contents(written)

    code = main(["prune", "test_it.py::test_it"])

    assert code == 0
    assert capfd.readouterr().out == "nothing to prune\n"
    assert contents(written) == before


LESS = """
import pytest
from agent import ask

{config}

@pytest.mark.agent_cassette{marker}
@pytest.mark.parametrize("word", ["a b"])
def test_it(word):
    ask("one")
    ask(word)
    ask("three")

@pytest.mark.agent_cassette
def test_later():
    ask("later")
"""


@pytest.mark.parametrize(
    ("marker", "config"),
    [
        ("", ""),
        ("(unplayed='fail')", ""),
        ("", "@pytest.fixture(scope='session')\ndef agent_config(): return {'unplayed': 'fail'}"),
    ],
    ids=["default", "marker", "fixture"],
)
def test_the_command_of_an_unplayed_report_drops_what_one_test_left(
    suite: Suite, provider: Provider, capfd: pytest.CaptureFixture[str], marker: str, config: str
) -> None:
    suite.write(LESS.format(marker=marker, config=config))
    suite.record()
    provider.stop()
    suite.write(
        LESS.format(marker=marker, config=config).replace("    ask(word)\n", "").replace('ask("later")', "pass")
    )
    later = suite.cassette("test_it/test_later.jsonl").read_bytes()
    report = failure(suite.run(), "test_it[a b]")
    command = next(line for line in report.splitlines() if ": agentreplay prune " in line).partition(": ")[2]

    code = main(shlex.split(command)[1:])

    assert command == "agentreplay prune 'test_it.py::test_it[a b]'"
    assert (code, capfd.readouterr().out.splitlines()[-1].endswith("step 2, not played")) == (1, True)
    suite.run("-k", "test_it and b").assert_outcomes(passed=1, deselected=1)
    assert suite.cassette("test_it/test_later.jsonl").read_bytes() == later


def test_what_a_test_recorded_before_its_module_was_renamed_is_its_own(
    written: Suite, capfd: pytest.CaptureFixture[str]
) -> None:
    written.write("", test_new="import pytest\n\n@pytest.mark.agent_cassette(unplayed='warn')\ndef test_it(): pass\n")
    (written.path / "test_it.py").unlink()
    path = write_cassette(written.cassette("test_new/test_it.jsonl"), [told("old")])

    code, plan = prune(capfd, "--dry-run", "test_new.py::test_it")

    assert (code, plan["unplayed"], plan["shared"]) == (1, {str(path.resolve()): [0]}, [])


SHARED = """
import pytest
from agent import ask

@pytest.mark.agent_cassette(name="shared", unplayed="warn")
@pytest.mark.parametrize("word", ["a", "b"])
def test_it(word):
    ask("both")
    if word == "b":
        ask("of the second")
"""


@pytest.mark.parametrize("word", ["a", "b"])
def test_what_other_tests_may_play_is_kept_where_one_test_runs_alone(
    written: Suite, capfd: pytest.CaptureFixture[str], word: str
) -> None:
    written.write(SHARED)
    path = write_cassette(written.cassette("test_it/shared.jsonl"), [told("both"), told("of the second"), told("old")])

    alone = (main(["prune", f"test_it.py::test_it[{word}]"]), capfd.readouterr().out.splitlines())
    questions = questions_in(path)
    together = main(["prune", "test_it.py::test_it"])

    kept = "tests that did not run may play the steps that are left; run all that share it"
    assert alone == (0, [f"kept {path.resolve()}: {kept}", "nothing to prune"])
    assert questions == ["both", "of the second", "old"]
    assert together == 1
    assert questions_in(path) == ["both", "of the second"]


def test_what_a_test_of_another_module_recorded_is_kept_until_that_runs_too(
    written: Suite, capfd: pytest.CaptureFixture[str]
) -> None:
    head = """
        import pytest
        from agent import ask

        @pytest.fixture(scope="module")
        def agent_cassette_dir(): return "cassettes"

        @pytest.mark.agent_cassette(name="shared", unplayed="warn")
    """
    written.write(
        f"{head}    def test_it(): ask('one'), ask('two')", test_other=f"{head}    def test_less(): ask('one')"
    )
    path = write_cassette(written.path / "cassettes" / "shared.jsonl", [told("one"), told("two"), told("old")])

    alone = prune(capfd, "--dry-run", "test_other.py::test_less")
    together = prune(capfd, "--dry-run", "test_other.py::test_less", "test_it.py::test_it")

    shared = str(path.resolve())
    assert (alone[0], alone[1]["unplayed"], alone[1]["shared"]) == (0, {}, [shared])
    assert (together[0], together[1]["unplayed"], together[1]["shared"]) == (1, {shared: [2]}, [])


def test_a_suite_that_runs_on_several_workers_is_pruned_all_the_same(
    written: Suite, capfd: pytest.CaptureFixture[str]
) -> None:
    written.ini("addopts = -n 2 -p no:hypothesispytest")
    written.write(
        """
        import pytest
        from agent import ask

        @pytest.mark.agent_cassette
        @pytest.mark.parametrize("number", range(4))
        def test_it(number):
            ask(f"question {number}")
        """
    )
    for number in range(4):
        steps = [told(f"question {number}"), told("unplayed")]
        write_cassette(written.cassette(f"test_it/test_it[{number}].jsonl"), steps)
    write_cassette(written.cassette("test_it/test_old.jsonl"), [told("old")])

    code = main(["prune"])

    assert code == 1
    assert written.cassettes() == [f"cassettes/test_it/test_it[{number}].jsonl" for number in range(4)]
    assert [questions_in(written.path / name) for name in written.cassettes()] == [[f"question {n}"] for n in range(4)]


def test_the_tape_of_a_run_that_went_on_from_a_cassette_is_kept(
    suite: Suite, capfd: pytest.CaptureFixture[str]
) -> None:
    test = "import pytest\nfrom agent import ask\n\n@pytest.mark.agent_cassette\ndef test_it(): ask('one')\n"
    suite.write(test)
    suite.record()
    suite.write(test.replace("ask('one')", "(ask('one'), ask('two'))"))
    suite.run("--agent-replay=hybrid").assert_outcomes(passed=1)
    suite.write(test)
    tape = suite.cassette("test_it/test_it.replay.jsonl")
    capfd.readouterr()

    code, plan = prune(capfd)
    said = (main(["prune"]), capfd.readouterr().out)

    assert (code, plan["unused"], plan["unplayed"]) == (0, [], {})
    assert plan["replays"] == [str(tape.resolve())]
    assert said[0] == 0
    assert f"kept {tape.resolve()}: a run that replayed a cassette wrote it; delete it yourself" in said[1]
    assert main(["verify", str(tape)]) == 0
    assert "2 exchanges" in capfd.readouterr().out
    assert main(["stats", str(tape.parent), "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["exchanges"] == 1  # of the cassettes of tests alone
