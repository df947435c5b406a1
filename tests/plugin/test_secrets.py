"""Keys: in no file that is written, also not in an unfinished one, and no hindrance to the replay."""

from __future__ import annotations

import json

import pytest

from tests.support.openai import chat_answer, chat_stream
from tests.support.server import Answer, Seen
from tests.support.suite import Provider, Suite, echo

KEY = "sk-proj-" + "Ab3dEf6hIj9kLm2nOp5q"
HALVES = (KEY[:14], KEY[14:])


def written(suite: Suite) -> bytes:
    """Return every byte of every file under the suite's cassettes."""
    return b"".join(path.read_bytes() for path in (suite.path / "cassettes").rglob("*") if path.is_file())


def assert_no_trace_of_the_key(suite: Suite) -> None:
    data = written(suite)
    assert data
    assert KEY.encode() not in data
    assert HALVES[0].encode() not in data
    assert HALVES[1].encode() not in data


STREAMED = """
import json
import pytest
import CLIENT as client
from agent import URL, body

@pytest.mark.agent_cassette
def test_it(record_property):
    text = ""
    with client.Client(verify=False) as http, http.stream("POST", URL, json=body("hello", stream=True)) as response:
        for line in response.iter_lines():
            if line.startswith("data: {"):
                text += json.loads(line[6:])["choices"][0]["delta"]["content"]
    record_property("text", text)
"""


def said(result: pytest.RunResult) -> str:
    result.assert_outcomes(passed=1)
    return dict(result.reprec.getreports("pytest_runtest_logreport")[-1].user_properties)["text"]  # type: ignore[attr-defined]


@pytest.mark.parametrize("client", ["httpx", "httpx2"])
def test_a_key_split_over_two_events_is_not_written(suite: Suite, provider: Provider, client: str) -> None:
    provider.respond = lambda seen: chat_stream(["your key is ", *HALVES, " keep it"])
    suite.write(STREAMED.replace("CLIENT", client))

    live = said(suite.record())
    provider.stop()
    replayed = said(suite.run())

    assert live == f"your key is {KEY} keep it"
    assert replayed == "your key is [redacted:openai-key] keep it"
    assert_no_trace_of_the_key(suite)


def test_a_key_split_into_single_letters_is_not_written(suite: Suite, provider: Provider) -> None:
    provider.respond = lambda seen: chat_stream(["key: ", *KEY, " end"])
    suite.write(STREAMED.replace("CLIENT", "httpx"))

    suite.record()
    provider.stop()

    assert said(suite.run()) == "key: [redacted:openai-key] end"


def test_a_key_split_over_two_raw_chunks_is_not_written(suite: Suite, provider: Provider) -> None:
    whole = b"".join(chat_stream([f"your key is {KEY} keep it"]).chunks or ())
    at = whole.index(KEY.encode()) + 14
    cut = Answer(headers=(("content-type", "text/event-stream"),), chunks=[whole[:at], whole[at:]], gap=0.02)
    provider.respond = lambda seen: cut
    suite.write(STREAMED.replace("CLIENT", "httpx"))

    live = said(suite.record())
    provider.stop()
    replayed = said(suite.run())

    assert live == f"your key is {KEY} keep it"
    assert replayed == "your key is [redacted:openai-key] keep it"
    assert_no_trace_of_the_key(suite)


SENT = """
import os
import pytest
from agent import CLIENT, URL, body, said

@pytest.mark.agent_cassette
def test_it():
    key = os.environ["THE_KEY"]
    headers = {"authorization": f"Bearer {key}", "x-api-key": key, "cookie": f"session={key}"}
    response = CLIENT.post(f"{URL}?api_key={key}", headers=headers, json=body(f"my key is {key}", token=key))
    assert said(response)
"""


def test_a_key_in_headers_url_and_body_is_not_written_and_another_key_still_matches(
    suite: Suite, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider.respond = lambda seen: chat_answer("hello")
    suite.write(SENT)
    monkeypatch.setenv("THE_KEY", KEY)
    suite.record()
    provider.stop()
    monkeypatch.setenv("THE_KEY", "sk-proj-" + "Zz9yXx8wVv7uTt6sRr5q")

    result = suite.run()

    result.assert_outcomes(passed=1)
    assert_no_trace_of_the_key(suite)


def test_a_key_in_an_answer_matches_where_the_agent_sends_it_back(suite: Suite, provider: Provider) -> None:
    provider.respond = lambda seen: chat_answer(f"the key is {KEY}")
    suite.write(
        """
        import pytest
        from agent import ask

        @pytest.mark.agent_cassette
        def test_it(agent_run):
            answer = ask("hello")
            ask("hello", {"role": "assistant", "content": answer}, "use it")
            assert len(agent_run.hash_chain) == 1
        """
    )

    suite.record()
    provider.stop()
    result = suite.run()

    result.assert_outcomes(passed=1)
    assert_no_trace_of_the_key(suite)


@pytest.mark.parametrize("password", ["Winter2026!Winter", 'p@ss"w0rd\\2026&prod', "correct horse bättery staple"])
def test_a_password_of_the_environment_is_not_written_and_matches_where_it_is_sent_back(
    suite: Suite, provider: Provider, monkeypatch: pytest.MonkeyPatch, password: str
) -> None:
    provider.respond = lambda seen: chat_answer(json.dumps({"log in with": password}))
    monkeypatch.setenv("DB_PASSWORD", password)
    suite.write(
        """
        import os
        import pytest
        from agent import ask, get
        from urllib.parse import quote

        @pytest.mark.agent_cassette
        def test_it():
            answer = ask("log in with " + os.environ["DB_PASSWORD"])
            ask("hello", {"role": "assistant", "content": answer}, "use it")
            get("/login?with=" + quote(os.environ["DB_PASSWORD"]))
        """
    )

    suite.record()
    provider.stop()
    suite.run().assert_outcomes(passed=1)

    text = suite.cassette().read_text(encoding="utf-8")
    forms = [password, json.dumps(password)[1:-1], json.dumps(json.dumps(password))[2:-2]]
    assert [form for form in forms if form in text] == []
    assert "env-DB_PASSWORD" in text


def test_a_secret_header_of_an_answer_is_not_written(suite: Suite, provider: Provider) -> None:
    def respond(seen: Seen) -> Answer:
        answer = echo(seen)
        return Answer(headers=(*answer.headers, ("set-cookie", f"session={KEY}"), ("x-echo", KEY)), body=answer.body)

    provider.respond = respond
    suite.write("import pytest\nfrom agent import ask\n\n@pytest.mark.agent_cassette\ndef test_it(): ask('hello')\n")

    suite.record()

    assert_no_trace_of_the_key(suite)


def test_a_pattern_of_the_ini_file_is_redacted_in_requests_and_answers(suite: Suite) -> None:
    suite.ini("agent_redact_patterns =", "    customer=CUST-[0-9]+")
    suite.write(
        "import pytest\nfrom agent import ask\n\n@pytest.mark.agent_cassette\ndef test_it(): ask('I am CUST-12345')\n"
    )

    suite.record()
    result = suite.run()

    result.assert_outcomes(passed=1)
    assert b"12345" not in written(suite)
    assert written(suite).count(b"[redacted:customer]") == 2


def test_a_key_is_not_in_an_unfinished_recording(suite: Suite, provider: Provider) -> None:
    def respond(seen: Seen) -> Answer:
        if b"slow" in seen.body:
            return Answer(headers=(("content-type", "text/plain"),), chunks=[b"x"] * 20, gap=0.05)
        return chat_stream(["your key is ", *HALVES])

    provider.respond = respond
    suite.write(
        f"""
        import pytest
        from agent import CLIENT, URL, body

        @pytest.mark.agent_cassette
        def test_it():
            headers = {{"authorization": "Bearer {KEY}"}}
            CLIENT.post(URL, json=body("hello {KEY}"), headers=headers)
            with CLIENT.stream("POST", URL, json=body("slow")) as response:
                next(response.iter_raw())
                response.close = lambda: None  # still in flight when the test is over
                raise AssertionError
        """
    )

    suite.run_apart("--record-mode=once")

    assert suite.cassettes() == ["cassettes/test_it/test_it.partial.jsonl"]
    assert b"[redacted:openai-key]" in written(suite)
    assert_no_trace_of_the_key(suite)


def test_a_divergence_report_shows_no_key(suite: Suite, provider: Provider) -> None:
    test = f"""
    import pytest
    from agent import ask

    @pytest.mark.agent_cassette
    def test_it(): ask("WORD {KEY}")
    """
    suite.write(test.replace("WORD", "first"))
    suite.record()
    provider.stop()
    suite.write(test.replace("WORD", "second"))

    result = suite.run()

    assert '"second [redacted:openai-key]"' in result.stdout.str()
    assert KEY not in result.stdout.str()


def test_cuts_are_kept_at_the_events_of_a_redacted_stream(suite: Suite, provider: Provider) -> None:
    provider.respond = lambda seen: chat_stream(["your key is ", *HALVES, " keep it"], gap=0.01)
    suite.write(
        """
        import pytest
        from agent import CLIENT, URL, body

        @pytest.mark.agent_cassette
        def test_it(record_property):
            with CLIENT.stream("POST", URL, json=body("hello", stream=True)) as response:
                record_property("text", "|".join(chunk.decode() for chunk in response.iter_raw()))
        """
    )

    suite.record()
    provider.stop()
    chunks = said(suite.run()).split("|")

    assert len(chunks) == 5
    assert all(chunk.startswith("data: ") and chunk.endswith("\n\n") for chunk in chunks)
    assert [json.loads(chunk[6:])["choices"][0]["delta"]["content"] for chunk in chunks[:-1]] == [
        "your key is ",
        "[redacted:openai-key]",
        "",
        " keep it",
    ]


@pytest.mark.parametrize("place", ["module", "fixture", "test", "tool"])
def test_a_key_that_is_set_while_the_suite_runs_is_not_written(
    suite: Suite, provider: Provider, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LATE_API_KEY", "")
    value = "wbcd1234efgh5678ijkl"
    provider.respond = echo
    suite.write(
        f"""
        import os
        import pytest
        from agent import ask
        from pytest_agentreplay import recorded_tool

        def load(here):
            if here == {place!r}:
                os.environ["LATE_API_KEY"] = {value!r}

        load("module")

        @pytest.fixture
        def loaded(monkeypatch):
            monkeypatch.setenv("LATE_API_KEY", "")
            load("fixture")

        @recorded_tool
        def look_up(word):
            load("tool")
            return word + " {value}"

        @pytest.mark.agent_cassette
        def test_it({"" if place == "module" else "loaded"}):
            load("test")
            ask("the key is " + look_up("really"))
        """
    )

    suite.record().assert_outcomes(passed=1)
    provider.stop()

    suite.run().assert_outcomes(passed=1)
    assert value.encode() not in written(suite)
    assert b"[redacted:env-LATE_API_KEY]" in written(suite)


LOGGED_IN = """
import os
import pytest
from agent import ask
from pytest_agentreplay import recorded_tool

TOKEN = "wbcd1234efgh5678ijkl"

@recorded_tool
def connect(key="none"):
    os.environ["SESSION_TOKEN"] = TOKEN

@pytest.mark.agent_cassette
def test_it():
    connect(KEY)
    ask("log in with " + TOKEN)
"""


@pytest.fixture
def logging_in(suite: Suite, provider: Provider, monkeypatch: pytest.MonkeyPatch) -> Suite:
    """A suite of its own token, which this process does not have and gets rid of."""
    monkeypatch.setenv("SESSION_TOKEN", "")
    provider.respond = echo
    return suite


def test_a_report_names_the_variable_that_a_recorded_tool_no_longer_sets(
    logging_in: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    logging_in.write(LOGGED_IN.replace("KEY", ""))
    logging_in.record().assert_outcomes(passed=1)
    monkeypatch.setenv("SESSION_TOKEN", "")

    result = logging_in.run()

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*SESSION_TOKEN hid a value then and does not now: set it as it was while recording*"])


def test_a_variable_that_is_set_to_what_was_used_already_stops_the_recording_and_says_what_to_do(
    logging_in: Suite,
) -> None:
    logging_in.write(LOGGED_IN.replace("KEY", "TOKEN"))

    result = logging_in.run("--record-mode=once")

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*It was set after it had been used: set the variable before the first request or call*"]
    )
    assert b"wbcd1234efgh5678ijkl" not in b"".join(p.read_bytes() for p in logging_in.path.rglob("*.jsonl"))


def test_a_report_says_that_only_redaction_differs(logging_in: Suite, monkeypatch: pytest.MonkeyPatch) -> None:
    logging_in.write(LOGGED_IN.replace("    connect(KEY)\n", ""))
    logging_in.record().assert_outcomes(passed=1)
    monkeypatch.setenv("SESSION_TOKEN", "wbcd1234efgh5678ijkl")

    result = logging_in.run()

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*Request changed: call 1 *", "*nearest   chat m, *", "*differs   in what is redacted alone*"]
    )
