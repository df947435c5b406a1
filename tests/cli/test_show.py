from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pytest_agentreplay
from pytest_agentreplay.cli import main
from pytest_agentreplay.records import TransportError
from tests.support.openai import completion
from tests.support.openai_responses import calls, response, says, thinks
from tests.support.tapes import ANTHROPIC, EVENTS, RESPONSES, Told, chat, write_cassette, write_partial

ASK = {"role": "user", "content": "what is 6 x 7?"}
CALL = {"id": "call_1", "type": "function", "function": {"name": "multiply", "arguments": '{"a": 6, "b": 7}'}}
ECHO = {"role": "assistant", "content": None, "tool_calls": [CALL]}
RESULT = {"role": "tool", "tool_call_id": "call_1", "content": "42"}

TWO_TURNS = (
    Told(chat(ASK), completion(None, tool_calls=[CALL])),
    Told(chat(ASK, ECHO, RESULT), completion("It is 42.")),
)


@pytest.fixture(autouse=True)
def _hundred_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")


@pytest.fixture
def show(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Return what ``agentreplay show`` prints; it must succeed and print no error."""

    def run(*arguments: str | Path) -> str:
        status = main(["show", *map(str, arguments)])

        out, err = capsys.readouterr()
        assert (status, err) == (0, "")
        return out

    return run


def steps_of(document: str) -> list[dict[str, Any]]:
    steps: list[dict[str, Any]] = json.loads(document)["steps"]
    return steps


def test_a_timeline_tells_a_run_from_its_head_to_its_totals(tmp_path: Path, show: Callable[..., str]) -> None:
    cassette = write_cassette(tmp_path / "it.jsonl", TWO_TURNS)

    lines = show(cassette).splitlines()

    assert lines[0] == str(cassette)
    assert lines[1] == "  test      test_it.py::test_it"
    assert lines[2].startswith("  recorded  20")
    assert lines[3].startswith(f"  with      pytest-agent-cassette {pytest_agentreplay.__version__}")
    assert lines[-1].startswith("ok: 2 model calls, 2 requests, 1 conversation, tokens 20 in, 10 out, ")


def test_each_step_has_one_line_of_facts_and_one_for_each_thing_said(tmp_path: Path, show: Callable[..., str]) -> None:
    cassette = write_cassette(tmp_path / "it.jsonl", TWO_TURNS)

    facts, *spoken = show(cassette).splitlines()[5:11]

    columns = facts.split("  ")
    assert columns[:3] == ["1", "model", "openai chat m"]
    assert columns[3].startswith("lane ")
    assert columns[4:6] == ["tool_calls", "10 in, 5 out"]
    assert columns[6].endswith(" s")
    assert spoken[0] == "   user       what is 6 x 7?"
    assert spoken[1] == "   assistant  multiply(a=6, b=7)"
    assert spoken[2].startswith("2  model  openai chat m  lane ")
    assert spoken[3] == "   tool       42"
    assert spoken[4] == "   assistant  It is 42."


def test_results_of_tools_are_shown_as_the_tools_said_them_in_every_format(
    tmp_path: Path, show: Callable[..., str]
) -> None:
    blocks: list[dict[str, Any]] = [
        {"type": "tool_result", "tool_use_id": "t1", "content": "18C, sunny"},
        {"type": "tool_result", "tool_use_id": "t2", "content": [{"type": "text", "text": "20C"}]},
        {"type": "tool_result", "tool_use_id": "t3", "content": [{"type": "image", "source": {}}], "is_error": True},
    ]
    body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": blocks}]}
    answer = {"type": "message", "role": "assistant", "content": [{"type": "text", "text": "Warm."}]}
    cassette = write_cassette(tmp_path / "it.jsonl", [Told(body, answer, url=ANTHROPIC)])

    spoken = [line.split(maxsplit=1) for line in show(cassette).splitlines()[6:10]]

    assert spoken == [
        ["tool", "18C, sunny"],
        ["tool", "20C"],
        ["tool", '[{"type": "image", "source": {}}]'],
        ["assistant", "Warm."],
    ]


def test_a_prompt_beside_the_conversation_is_shown_where_it_is_new(tmp_path: Path, show: Callable[..., str]) -> None:
    def asked(*said: str, system: Any) -> dict[str, Any]:
        roles = ("user", "assistant", "user", "assistant", "user")
        messages = [{"role": role, "content": text} for role, text in zip(roles, said, strict=False)]
        return {"model": "m", "max_tokens": 9, "system": system, "messages": messages}

    blocks = [{"type": "text", "text": "Be brief."}, {"type": "text", "text": "Be kind."}]
    answer = {"type": "message", "role": "assistant", "content": [{"type": "text", "text": "Yes."}]}
    long = ("a", "Yes.", "b", "Yes.", "c")
    bodies = [asked("a", system=blocks), asked(*long[:3], system=blocks), asked(*long, system="Be long.")]
    cassette = write_cassette(tmp_path / "it.jsonl", [Told(body, answer, url=ANTHROPIC) for body in bodies])

    lines = show(cassette).splitlines()

    assert [line.split(maxsplit=1) for line in lines if line.startswith("   system")] == [
        ["system", "Be brief. Be kind."],
        ["system", "Be long."],
    ]
    assert lines[6].split() == ["system", "Be", "brief.", "Be", "kind."]
    prompts = [step["system_instructions"] for step in steps_of(show(cassette, "--json"))]
    assert prompts == ["Be brief.\n\nBe kind.", "Be brief.\n\nBe kind.", "Be long."]


def test_the_instructions_of_a_response_are_shown(tmp_path: Path, show: Callable[..., str]) -> None:
    body = {"model": "m", "instructions": "Be brief.", "input": "How is it?"}
    cassette = write_cassette(tmp_path / "it.jsonl", [Told(body, response(says("Fine.")), url=RESPONSES)])

    spoken = [line.split(maxsplit=1) for line in show(cassette).splitlines()[6:9]]

    assert spoken == [["system", "Be brief."], ["user", "How is it?"], ["assistant", "Fine."]]


def test_what_has_no_prompt_shows_none(tmp_path: Path, show: Callable[..., str]) -> None:
    odd = {"model": "m", "max_tokens": 9, "system": [{"text": 1}, "x", {}], "messages": [ASK]}
    cassette = write_cassette(tmp_path / "it.jsonl", [Told(odd, {}, url=ANTHROPIC), *TWO_TURNS])

    assert [step["system_instructions"] for step in steps_of(show(cassette, "--json"))] == [None] * 3
    assert "system" not in show(cassette)


def test_a_piped_timeline_is_plain_text(tmp_path: Path, show: Callable[..., str]) -> None:
    cassette = write_cassette(tmp_path / "it.jsonl", TWO_TURNS)

    out = show(cassette)

    assert "\x1b" not in out
    assert all(line == line.rstrip() for line in out.splitlines())


def test_a_terminal_gets_the_same_text_in_colour(
    tmp_path: Path, show: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cassette = write_cassette(tmp_path / "it.jsonl", TWO_TURNS)
    plain = show(cassette)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)

    styled = show(cassette)

    assert "\x1b[32mmultiply(a=6, b=7)" in styled
    uncoloured = "".join(
        piece.partition("m")[2] if index else piece for index, piece in enumerate(styled.split("\x1b"))
    )
    assert [line.rstrip() for line in uncoloured.splitlines()] == plain.splitlines()


def test_what_was_said_is_cut_to_the_width(
    tmp_path: Path, show: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cassette = write_cassette(tmp_path / "it.jsonl", [Told(chat(ASK), completion("long " * 50))])
    monkeypatch.setenv("COLUMNS", "60")

    said = show(cassette).splitlines()[-3]

    assert len(said) == 60
    assert said.endswith(" long …")


def test_text_of_several_lines_stands_in_one(tmp_path: Path, show: Callable[..., str]) -> None:
    cassette = write_cassette(tmp_path / "it.jsonl", [Told(chat(ASK), completion("one\n\n  two\tthree"))])

    assert "assistant  one two three\n" in show(cassette)


def test_an_answer_cannot_move_the_cursor(tmp_path: Path, show: Callable[..., str]) -> None:
    cassette = write_cassette(tmp_path / "it.jsonl", [Told(chat(ASK), completion("\x1b[2Jgone \u202eright to left"))])

    assert "assistant  \\x1b[2Jgone \\u202eright to left\n" in show(cassette)


def test_words_that_look_like_markup_are_only_words(
    tmp_path: Path, show: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cassette = write_cassette(tmp_path / "it.jsonl", [Told(chat(ASK), completion("[bold]not bold[/bold]"))])
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)

    assert "[bold]not bold[/bold]" in show(cassette)


def test_a_streamed_answer_is_put_together(tmp_path: Path, show: Callable[..., str]) -> None:
    chunks = [{"choices": [{"index": 0, "delta": {"role": "assistant", "content": text}}]} for text in ("4", "2")]
    answer = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks).encode()
    cassette = write_cassette(tmp_path / "it.jsonl", [Told(chat(ASK, stream=True), answer, headers=EVENTS)])

    out = show(cassette)

    assert "openai chat m, streamed" in out
    assert "assistant  42\n" in out


def test_an_answer_that_was_left_early_is_cut_short(tmp_path: Path, show: Callable[..., str]) -> None:
    cassette = write_cassette(tmp_path / "it.jsonl", [Told(chat(ASK), completion("42"), truncated=True)])

    assert "stop, cut short" in show(cassette)


def test_other_traffic_is_shown_by_its_address_and_status(tmp_path: Path, show: Callable[..., str]) -> None:
    page = Told(b"", b"<html>", url="https://example.com/faq", method="GET", headers=(("content-type", "text/html"),))
    cassette = write_cassette(tmp_path / "it.jsonl", [page])

    out = show(cassette)

    assert "1  http  GET https://example.com/faq  lane " in out
    assert "  HTTP 200  " in out
    assert "0 model calls, 1 request, 1 conversation, tokens unknown" in out


def test_an_error_answer_is_shown_with_its_text(tmp_path: Path, show: Callable[..., str]) -> None:
    exchange = Told(chat(ASK), {"error": {"message": "slow down"}}, status=429)
    cassette = write_cassette(tmp_path / "it.jsonl", [exchange])

    out = show(cassette)

    assert "  HTTP 429  " in out
    assert 'answer     {"error": {"message": "slow down"}}\n' in out


def test_a_failed_connection_is_shown_with_its_text(tmp_path: Path, show: Callable[..., str]) -> None:
    refused = TransportError(client="httpx", class_name="ConnectError", phase="connect", text="refused")
    cassette = write_cassette(tmp_path / "it.jsonl", [Told(chat(ASK), error=refused), TWO_TURNS[0]])

    out = show(cassette)

    assert "  ConnectError  " in out
    assert "error      refused\n" in out


def test_a_step_outside_the_test_body_names_its_phase(tmp_path: Path, show: Callable[..., str]) -> None:
    cassette = write_cassette(tmp_path / "it.jsonl", [Told(chat(ASK), completion("42"), phase="setup")])

    assert "openai chat m (setup)" in show(cassette)


def test_a_recording_of_a_failed_test_says_so(tmp_path: Path, show: Callable[..., str]) -> None:
    cassette = write_cassette(tmp_path / "it.jsonl", TWO_TURNS, passed=False)

    assert show(cassette).splitlines()[-1].startswith("failed: 2 model calls")


def test_an_interrupted_recording_is_shown_as_far_as_it_goes(tmp_path: Path, show: Callable[..., str]) -> None:
    partial = write_partial(tmp_path / "it.jsonl", TWO_TURNS)
    partial.write_bytes(partial.read_bytes() + b'{"kind":"mo')

    *_, totals, torn = show(partial).splitlines()

    assert totals.startswith("unfinished: 2 model calls")
    assert "is cut off and was left out" in torn


def test_a_tape_that_was_never_finished_is_shown_and_said_to_be_unfinished(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    partial = write_partial(tmp_path / "it.jsonl", TWO_TURNS)

    status = main(["show", str(tmp_path / "it.jsonl")])

    out, err = capsys.readouterr()
    assert status == 0
    assert out.startswith(f"{partial}\n")
    assert out.splitlines()[-1].startswith("unfinished: 2 model calls")
    assert err == f"agentreplay: {tmp_path / 'it.jsonl'} was never finished. What there is of it is in {partial}.\n"


def test_a_test_whose_recording_was_never_finished_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    cassette = Path("cassettes/test_it/test_it.jsonl")
    cassette.parent.mkdir(parents=True)
    partial = write_partial(cassette, TWO_TURNS)

    status = main(["show", "test_it.py::test_it"])

    out, err = capsys.readouterr()
    assert (status, out.splitlines()[0]) == (0, str(partial))
    assert "test_it.py::test_it was never finished" in err


def test_a_cassette_is_shown_though_an_unfinished_recording_is_beside_it(
    tmp_path: Path, show: Callable[..., str]
) -> None:
    cassette = write_cassette(tmp_path / "it.jsonl", TWO_TURNS)
    (tmp_path / "it.partial.jsonl").write_bytes(b"{")

    assert show(cassette).startswith(f"{cassette}\n")


def test_json_is_one_document_with_head_steps_and_end(tmp_path: Path, show: Callable[..., str]) -> None:
    cassette = write_cassette(tmp_path / "it.jsonl", TWO_TURNS)

    document = json.loads(show(cassette, "--json"))

    assert document["cassette"] == str(cassette)
    assert document["start"]["name"] == "test_it.py::test_it"
    assert document["start"]["format"] == 1
    assert {"recorded_at", "rules", "run_id", "versions"} <= set(document["start"])
    assert [step["number"] for step in document["steps"]] == [1, 2]
    assert document["end"]["outcome"] == "ok"
    assert document["end"]["turns"] == 2
    assert document["end"]["usage"] == {"input_tokens": 20, "output_tokens": 10}


def test_a_json_step_tells_all_there_is_of_it(tmp_path: Path, show: Callable[..., str]) -> None:
    cassette = write_cassette(tmp_path / "it.jsonl", TWO_TURNS)

    first, second = steps_of(show(cassette, "--json"))

    assert first["hash"].startswith("a1:")
    assert first["lane"] == second["lane"] == first["hash"][3:11]
    assert (first["kind"], first["phase"], first["provider"]) == ("model", "call", "openai")
    assert (first["operation"], first["model"], first["finish_reason"]) == ("chat", "m", "tool_calls")
    assert first["usage"] == {"input_tokens": 10, "output_tokens": 5}
    assert first["response"]["status"] == 200
    assert set(first["timing"]) == {"began", "took"}
    assert first["output_messages"][0]["tool_calls"] == [
        {"id": "call_1", "name": "multiply", "arguments": '{"a":6,"b":7}'}
    ]
    assert [message["text"] for message in second["input_messages"]] == ["42"]
    assert [message["text"] for message in second["output_messages"]] == ["It is 42."]


def test_json_cuts_nothing(tmp_path: Path, show: Callable[..., str]) -> None:
    text = "long\n" * 5000
    cassette = write_cassette(tmp_path / "it.jsonl", [Told(chat(ASK), completion(text))])

    [step] = steps_of(show(cassette, "--json"))

    assert step["output_messages"][0]["text"] == text


def test_json_holds_what_no_encoding_can(tmp_path: Path, show: Callable[..., str]) -> None:
    half = {"role": "user", "content": "half a pair: \ud83d"}
    cassette = write_cassette(tmp_path / "it.jsonl", [Told(chat(half), completion("ok"))])

    [step] = steps_of(show(cassette, "--json"))

    assert step["input_messages"][0]["text"] == "half a pair: \ud83d"


def test_half_a_surrogate_pair_is_shown_by_its_number(tmp_path: Path, show: Callable[..., str]) -> None:
    half = {"role": "user", "content": "half a pair: \ud83d"}
    cassette = write_cassette(tmp_path / "it.jsonl", [Told(chat(half), completion("ok"))])

    assert "user       half a pair: \\ud83d\n" in show(cassette)


def edited(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"It is 42.", b"It is 43."))


def conflicting(path: Path) -> None:
    path.write_bytes(b"<<<<<<< ours\n" + path.read_bytes())


def cut_off(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-40])


def no_cassette(path: Path) -> None:
    path.write_bytes(b"# a title\n")


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def removed(path: Path) -> None:
    path.unlink()


def made_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("options", [(), ("--json",)], ids=["text", "json"])
@pytest.mark.parametrize("damage", [edited, conflicting, cut_off, no_cassette, emptied, removed, made_a_folder])
def test_what_cannot_be_read_is_one_line_on_stderr(
    damage: Callable[[Path], None], options: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cassette = write_cassette(tmp_path / "it.jsonl", TWO_TURNS)
    damage(cassette)

    status = main(["show", str(cassette), *options])

    out, err = capsys.readouterr()
    assert (status, out) == (2, "")
    assert err.startswith(f"agentreplay: {cassette}")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "complaint", "command"),
    [
        (["show"], "Missing argument 'TAPE'", "agentreplay show"),
        (["shwo"], "No such command 'shwo'. Did you mean 'show'? See agentreplay --help", "agentreplay"),
        (["show", "a.jsonl", "b.jsonl"], "unexpected extra argument", "agentreplay show"),
        (["show", "--yaml", "a.jsonl"], "No such option", "agentreplay show"),
    ],
)
def test_a_command_that_cannot_be_meant_is_one_line_on_stderr(
    arguments: list[str], complaint: str, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status = main(arguments)

    out, err = capsys.readouterr()
    assert (status, out) == (2, "")
    assert complaint in err
    assert err.endswith((f". See {command} --help\n", f"? See {command} --help\n"))
    assert err.count("\n") == 1


def test_a_file_that_is_named_as_no_cassette_is_told_how_a_tape_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "test_some.py"
    path.write_text("def test_it(): pass\n", encoding="utf-8")

    status = main(["show", str(path)])

    assert status == 2
    advice = "Name a cassette, NAME.jsonl, or a test, FILE::TEST"
    assert capsys.readouterr().err == f"agentreplay: {path}:1: this is not an agent cassette. {advice}\n"


@pytest.mark.parametrize("arguments", [[], ["-h"], ["--help"]])
def test_the_help_is_printed(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    status = main(arguments)

    out, err = capsys.readouterr()
    assert (status, err) == (0, "")
    assert out.startswith("Usage: agentreplay [OPTIONS] COMMAND [ARGS]...")
    assert "Print what happened in a recorded run, step by step." in out


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_each_command_has_its_help(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", option]) == 0
    assert capsys.readouterr().out.startswith("Usage: agentreplay show [OPTIONS] ")


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    status = main(["--version"])

    assert status == 0
    assert capsys.readouterr().out == f"pytest-agent-cassette {pytest_agentreplay.__version__}\n"


def test_the_installed_program_shows_a_cassette_without_loading_a_recorder(tmp_path: Path) -> None:
    cassette = write_cassette(tmp_path / "it.jsonl", TWO_TURNS)
    program = (
        "import sys; from pytest_agentreplay.cli import main; status = main();"
        "loaded = {'freezegun', 'httpx', 'pytest', 'rich', 'syrupy', 'vcr'} & set(sys.modules);"
        "sys.exit(f'loaded: {loaded}' if loaded else status)"
    )

    done = subprocess.run(
        [sys.executable, "-c", program, "show", str(cassette)], capture_output=True, encoding="utf-8", timeout=60
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert "assistant  It is 42.\n" in done.stdout


def test_a_reader_that_stops_early_sees_no_traceback(tmp_path: Path) -> None:
    cassette = write_cassette(tmp_path / "it.jsonl", [Told(chat(ASK), completion("long " * 100_000))])
    program = "import sys; from pytest_agentreplay.cli import main; sys.exit(main())"
    running = subprocess.Popen(
        [sys.executable, "-c", program, "show", str(cassette), "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert running.stdout is not None
    assert running.stderr is not None

    running.stdout.read(1)
    running.stdout.close()
    error = running.stderr.read()
    running.stderr.close()

    running.wait(timeout=60)
    assert error == b""


def test_a_conversation_that_the_provider_remembers_is_told_with_what_the_provider_did(
    tmp_path: Path, show: Callable[..., str]
) -> None:
    search = {"type": "web_search_call", "id": "ws_1", "action": {"type": "search", "query": "Paris"}}
    first = response(thinks("Hm."), search, says("Let me look."), {**calls("weather", city="Paris"), "call_id": "c"})
    result = {"type": "function_call_output", "call_id": "c", "output": "fine"}
    exchanges = [
        Told({"model": "m", "input": "How is it?"}, first, url=RESPONSES),
        Told(
            {"model": "m", "input": [result], "previous_response_id": first["id"]},
            response(says("Fine.")),
            url=RESPONSES,
        ),
    ]
    cassette = write_cassette(tmp_path / "it.jsonl", exchanges)

    lines = show(cassette).splitlines()[5:-2]
    steps = steps_of(show(cassette, "--json"))

    assert [line.strip() for line in lines if not line[0].isdigit()] == [
        "user       How is it?",
        "assistant  Let me look.",
        'assistant  web_search(query="Paris", type="search")',
        'assistant  weather(city="Paris")',
        "tool       fine",
        "assistant  Fine.",
    ]
    assert [line.split("  ")[2] for line in lines if line[0].isdigit()] == ["openai responses m"] * 2
    assert len({step["lane"] for step in steps}) == 1
    assert steps[0]["output_messages"][0]["thinking"] == "Hm."
    assert steps[0]["usage"]["reasoning_tokens"] == 3


def test_the_items_of_an_answer_are_not_told_again_when_the_agent_sends_them_back(
    tmp_path: Path, show: Callable[..., str]
) -> None:
    first = response(thinks("Hm."), says("Let me look."), {**calls("weather", city="Paris"), "call_id": "c"})
    result = {"type": "function_call_output", "call_id": "c", "output": "fine"}
    asked = [{"role": "user", "content": "How is it?"}]
    compaction = {"type": "compaction", "encrypted_content": "gAAA"}
    exchanges = [
        Told({"model": "m", "input": asked}, first, url=RESPONSES),
        Told({"model": "m", "input": [*asked, *first["output"], result]}, response(says("Fine.")), url=RESPONSES),
        Told({"model": "m", "input": [compaction, *asked, *asked]}, response(says("Fine.")), url=RESPONSES),
    ]
    cassette = write_cassette(tmp_path / "it.jsonl", exchanges)

    steps = steps_of(show(cassette, "--json"))

    heard = [[(message["role"], message["text"]) for message in step["input_messages"]] for step in steps]
    question = ("user", "How is it?")
    assert sorted(heard) == sorted(
        [[question], [("tool", "fine")], [("assistant", "[compaction]"), question, question]]
    )
