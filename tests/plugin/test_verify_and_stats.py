"""``agentreplay verify`` and ``stats`` on files, folders and globs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_agentreplay.cassette.lines import seal
from pytest_agentreplay.cli import main
from tests.support.openai import completion
from tests.support.suite import Suite
from tests.support.tapes import ANTHROPIC, Told, chat, write_cassette, write_partial


def told(text: str, **fields: Any) -> Told:
    return Told(chat({"role": "user", "content": text}, **fields), completion(f"echo: {text}"))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that commands are run in: two good cassettes and one unfinished."""
    monkeypatch.chdir(tmp_path)
    write_cassette(tmp_path / "cassettes" / "test_a" / "test_one.jsonl", [told("one"), told("two")])
    write_cassette(tmp_path / "cassettes" / "test_b" / "test_two.jsonl", [told("three")])
    write_partial(tmp_path / "cassettes" / "test_b" / "test_three.jsonl", [told("four")])
    return tmp_path


def damage(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"echo: ", b"ECHO: "))


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


REMEDY = "Restore the file from version control, or record it again: pytest test_it.py::test_it --record-mode=rewrite"
ONE, TWO, THREE = (
    "cassettes/test_a/test_one.jsonl",
    "cassettes/test_b/test_two.jsonl",
    "cassettes/test_b/test_three.partial.jsonl",
)


@pytest.mark.parametrize(
    ("places", "found"),
    [
        ([ONE], [ONE]),
        ([THREE], [THREE]),
        (["cassettes/test_a"], [ONE]),
        (["."], [ONE, THREE, TWO]),
        (["cassettes"], [ONE, THREE, TWO]),
        (["cassettes/*/test_*.jsonl"], [ONE, THREE, TWO]),
        (["**/test_t*.jsonl"], [THREE, TWO]),
        (["cassettes/test_[b]"], [THREE, TWO]),
        ([TWO, "cassettes", TWO], [TWO, ONE, THREE]),
    ],
)
def test_files_folders_and_globs_are_verified_each_cassette_once(
    folder: Path, capsys: pytest.CaptureFixture[str], places: list[str], found: list[str]
) -> None:
    before = contents(folder)

    code = main(["verify", *places])

    *lines, total = capsys.readouterr().out.splitlines()
    assert code == 0
    assert [line.split()[1].rstrip(":") for line in lines] == found
    assert all(line.startswith("ok ") for line in lines)
    assert total == f"{len(found)} verified, 0 with a fault"
    assert contents(folder) == before


def test_a_glob_with_an_absolute_path_is_followed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["verify", f"{folder}/cassettes/*/test_one.jsonl"])

    assert code == 0
    assert f"ok     {folder / ONE}: 2 exchanges" in capsys.readouterr().out


def test_a_name_with_brackets_is_that_file_and_no_glob(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_cassette(folder / "cassettes" / "test_a" / "test_it[b].jsonl", [told("five")])

    code = main(["verify", "cassettes/test_a/test_it[b].jsonl"])

    assert code == 0
    assert "ok     cassettes/test_a/test_it[b].jsonl: 1 exchange\n" in capsys.readouterr().out


def test_each_fault_has_its_line_and_remedy_and_the_good_ones_are_still_verified(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damage(folder / ONE)
    (folder / TWO).write_bytes((folder / TWO).read_bytes()[:-1])
    before = contents(folder)

    code = main(["verify", "cassettes"])

    output = capsys.readouterr().out.splitlines()
    assert code == 1
    assert output == [
        f"fault  {ONE}:3: the line was changed after it was recorded (its sum does not fit)",
        f"       {REMEDY}",
        f"ok     {THREE}: 1 exchange",
        f"fault  {TWO}:4: the last line is cut off",
        f"       {REMEDY}",
        "3 verified, 2 with a fault",
    ]
    assert contents(folder) == before


def test_json_says_the_same_to_a_program(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    damage(folder / ONE)

    code = main(["verify", "cassettes", "--json"])

    assert code == 1
    one, three, two = json.loads(capsys.readouterr().out)
    assert one == {
        "path": ONE,
        "ok": False,
        "exchanges": 0,
        "tools": 0,
        "fault": "the line was changed after it was recorded (its sum does not fit)",
        "line": 3,
        "remedy": REMEDY,
        "note": None,
    }
    assert three == {
        "path": THREE,
        "ok": True,
        "exchanges": 1,
        "tools": 0,
        "fault": None,
        "line": None,
        "remedy": None,
        "note": None,
    }
    assert (two["path"], two["ok"], two["exchanges"]) == (TWO, True, 1)


def test_a_hash_that_is_not_that_of_its_request_is_found_where_every_sum_fits(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = (folder / TWO).read_bytes().splitlines()
    step = {key: value for key, value in json.loads(rows[2]).items() if key != "sum"}
    forged = seal(step | {"hash": "a1:" + "0" * 64})
    end = {key: value for key, value in json.loads(rows[3]).items() if key != "sum"}
    from pytest_agentreplay.cassette.lines import sum_of
    from pytest_agentreplay.cassette.loading import digest_of_sums

    end["steps"] = digest_of_sums([sum_of(forged)])
    (folder / TWO).write_bytes(b"\n".join([*rows[:2], forged, seal(end), b""]))

    code = main(["verify", TWO])

    assert code == 1
    assert f"fault  {TWO}: the hash of step 1 is not that of its request" in capsys.readouterr().out


def test_a_torn_last_line_of_an_unfinished_recording_is_noted(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / THREE).write_bytes((folder / THREE).read_bytes()[:-10])

    code = main(["verify", THREE])

    assert code == 0
    assert f"ok     {THREE}: 0 exchanges (line 3 is cut off and was left out)" in capsys.readouterr().out


def test_a_newer_format_says_to_upgrade(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = (folder / TWO).read_bytes().splitlines()
    (folder / TWO).write_bytes(b"\n".join([seal({"kind": "run.start", "format": 99}), *rows[1:], b""]))

    code = main(["verify", "cassettes/test_b"])

    assert code == 1
    output = capsys.readouterr().out
    assert f"fault  {TWO}:1: the cassette has format 99; this version reads up to 1" in output
    assert "Upgrade: pip install --upgrade pytest-agent-cassette" in output


def test_other_peoples_files_are_left_alone(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    others = {
        "data/train.jsonl": b'{"prompt": "hello"}\n',
        "data/empty.jsonl": b"",
        "data/picture.jsonl": b"\x89PNG\x00\xff",
        "data/notes.txt": b'{"kind":"run.start"',
    }
    for name, data in others.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(data)
    (folder / "data" / "folder.jsonl").mkdir()

    code = main(["verify", "."])

    assert code == 0
    assert "data" not in capsys.readouterr().out


def test_a_cassette_whose_head_is_gone_is_still_known_by_its_folder(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / ONE).write_bytes(b"".join((folder / ONE).read_bytes().splitlines(keepends=True)[1:]))

    code = main(["verify", "."])

    assert code == 1
    assert f"fault  {ONE}:1: " in capsys.readouterr().out


@pytest.mark.parametrize("command", ["verify", "stats"])
@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("nowhere.jsonl", "nowhere.jsonl: no such file or folder"),
        ("cassettes/*.txt", "cassettes/*.txt: no cassettes there; name cassettes, folders of them, or globs"),
        ("empty", "empty: no cassettes there; name cassettes, folders of them, or globs"),
    ],
)
def test_a_place_without_cassettes_is_one_line_on_stderr(
    folder: Path, capsys: pytest.CaptureFixture[str], command: str, place: str, words: str
) -> None:
    (folder / "empty").mkdir()

    code = main([command, place])

    printed = capsys.readouterr()
    assert code == 2
    assert printed.err == f"agentreplay: {words}\n"
    assert printed.out == ""


@pytest.mark.parametrize("command", ["verify", "stats"])
def test_a_cassette_that_was_never_finished_is_told_with_what_there_is_of_it(
    folder: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    (folder / "it.partial.jsonl").write_bytes(b"")

    code = main([command, "it.jsonl"])

    said = "it.jsonl: no such file or folder. An unfinished recording is beside it: it.partial.jsonl"
    assert code == 2
    assert capsys.readouterr().err == f"agentreplay: {said}\n"


def test_rules_of_its_own_are_noted_where_a_cassette_was_recorded_under_them(
    suite: Suite, capsys: pytest.CaptureFixture[str]
) -> None:
    suite.write(
        """
        import pytest
        from agent import ask

        @pytest.mark.agent_cassette(ignore="$.user")
        def test_it():
            ask("hello", user="me")
        """
    )
    suite.record()

    code = main(["verify", "cassettes"])

    assert code == 0
    assert "ok     cassettes/test_it/test_it.jsonl: 1 exchange (hashes not derived: " in capsys.readouterr().out


def test_stats_count_what_cassettes_hold(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    claude = {"model": "claude", "max_tokens": 9, "messages": [{"role": "user", "content": "hello"}]}
    usage = {"input_tokens": 1000, "output_tokens": 7}
    answer = {"type": "message", "role": "assistant", "content": [], "usage": usage}
    paths = [folder / ONE, folder / TWO, folder / "cassettes" / "other.jsonl"]
    write_cassette(paths[2], [Told(claude, answer, url=ANTHROPIC), Told(b"", b"x", url="https://example.invalid/")])

    code = main(["stats", "cassettes"])

    lines = capsys.readouterr().out.splitlines()
    assert code == 0
    assert lines[0] == "cassettes   3"
    assert lines[1] == "exchanges   5"
    assert lines[2] == f"size        {sum(path.stat().st_size for path in paths):,} bytes"
    assert lines[3] == "messages    4 kept once, sent 4 times"
    assert lines[4].startswith("recorded    20")
    assert lines[5:] == [
        "  anthropic claude: 1 call, 1,000 tokens in, 7 out",
        "  http: 1 call",
        "  openai m: 3 calls, 30 tokens in, 15 out",
    ]


def test_stats_as_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["stats", "cassettes/*", "--json"])

    stats = json.loads(capsys.readouterr().out)
    assert code == 0
    assert (stats["cassettes"], stats["exchanges"], stats["outcomes"]) == (2, 3, {"ok": 2})
    assert stats["calls"] == {"openai m": {"count": 3, "input_tokens": 30, "output_tokens": 15, "without_tokens": 0}}


def test_stats_tell_how_many_calls_name_no_tokens(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = {"model": "claude", "max_tokens": 9, "messages": [{"role": "user", "content": "hello"}]}
    answer = {"type": "message", "role": "assistant", "content": []}
    usage = {"input_tokens": 1000, "output_tokens": 7}
    metered, silent = Told(asked, answer | {"usage": usage}, url=ANTHROPIC), Told(asked, answer, url=ANTHROPIC)
    write_cassette(folder / "cassettes" / "some.jsonl", [metered, silent])
    write_cassette(folder / "cassettes" / "none.jsonl", [silent])

    main(["stats", "cassettes/some.jsonl"])
    main(["stats", "cassettes/none.jsonl"])
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("  ")]
    main(["stats", "cassettes/none.jsonl", "--json"])

    assert lines == [
        "  anthropic claude: 2 calls, 1,000 tokens in, 7 out, unknown for 1 call",
        "  anthropic claude: 1 call, tokens unknown",
    ]
    assert json.loads(capsys.readouterr().out)["calls"] == {
        "anthropic claude": {"count": 1, "input_tokens": None, "output_tokens": None, "without_tokens": 1}
    }


@pytest.mark.parametrize("options", [(), ("--json",)], ids=["text", "json"])
@pytest.mark.parametrize(
    ("command", "passed_over"),
    [
        ("verify", "1 tape of replays (*.replay.jsonl)"),
        ("stats", "1 tape of replays (*.replay.jsonl) and 1 unfinished recording (*.partial.jsonl)"),
    ],
)
def test_what_is_passed_over_in_a_folder_is_said_in_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], command: str, passed_over: str, options: tuple[str, ...]
) -> None:
    write_cassette(folder / "cassettes" / "test_a" / "test_one.replay.jsonl", [told("one")])
    (folder / "data.jsonl").write_text("{}")

    code = main([command, ".", *options])

    assert code == 0
    assert capsys.readouterr().err == f"agentreplay: passed over {passed_over}; name a file to include it\n"


@pytest.mark.parametrize("command", ["verify", "stats"])
def test_a_file_that_is_named_beside_its_folder_is_not_said_to_be_passed_over(
    folder: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    code = main([command, "cassettes", THREE])

    assert code == 0
    assert capsys.readouterr().err == ""


def test_a_folder_of_nothing_but_what_is_passed_over_says_what_there_is(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / TWO).unlink()

    code = main(["stats", "cassettes/test_b"])

    said = "no cassettes there, but 1 unfinished recording (*.partial.jsonl)"
    assert code == 2
    assert f"cassettes/test_b: {said}; name cassettes" in capsys.readouterr().err


def test_stats_of_an_unfinished_recording_say_so(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["stats", THREE, "--json"])

    stats = json.loads(capsys.readouterr().out)
    assert code == 0
    assert (stats["cassettes"], stats["exchanges"], stats["outcomes"]) == (1, 1, {"unfinished": 1})


def test_stats_of_a_damaged_cassette_are_one_line_on_stderr(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    damage(folder / ONE)

    code = main(["stats", "cassettes"])

    printed = capsys.readouterr()
    assert code == 2
    assert printed.out == ""
    assert printed.err.startswith(f"agentreplay: {ONE}:3: the line was changed")
    assert printed.err.count("\n") == 1
