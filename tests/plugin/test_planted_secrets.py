"""Twelve secrets, planted where agents and providers put them: none is found in any file, and all still match."""

from __future__ import annotations

import base64
import gzip
import json
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.in_flight import LEAVE_ONE_IN_FLIGHT, let_one_be_in_flight
from tests.support.openai import completion
from tests.support.server import Answer, Seen, answer_events, answer_json
from tests.support.suite import Provider, Suite, echo, failure

BASE64 = re.compile(rb"[A-Za-z0-9+/_-]{16,}={0,2}")

# Each value is used in one place alone, so that what finds it says what let it through.
SECRETS = {
    "authorization": "0p4que-bearer-c7Yt",
    "x-api-key": "0p4que-api-key-Qm2x",
    "cookie": "0p4que-cookie-Zk83",
    "set-cookie": "0p4que-set-cookie-Jw5r",
    "url-key": "AIza" + "SyB3xk9Lq2mVt7Rw4Zp1Hn6Jc8Fd0GuYsTe",
    "json-api-key": "hunter2 and a half",
    "message-key": "sk-ant-" + "api03-Wd83kfLq02mZx71vBn45",
    "split-key": "sk-proj-" + "Tr42xKp96dLm03wQz58vNb17",
    "environment": "pay.7c1e9f0b2d4a6835",
    "organisation": "org-Kx92LmPq41Zt",
    "e-mail": "ada.lovelace@example.org",
    "aws-signature": "5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7",
}
# The same agent elsewhere: other people's secrets of the same kinds.
OTHERS = {
    "authorization": "0ther-bearer-Vx1n",
    "x-api-key": "0ther-api-key-Bd7w",
    "cookie": "0ther-cookie-Ly2k",
    "set-cookie": "0ther-set-cookie-Tn9c",
    "url-key": "AIza" + "SyQ7wr1Nb5cXz9Kd3Mf0Vl8Pt2Hg6JoUyRa",
    "json-api-key": "another word entirely",
    "message-key": "sk-ant-" + "api03-Zz19qqWe77rTy28uIo36",
    "split-key": "sk-proj-" + "Aa11bBc22dDe33fFg44hHi55",
    "environment": "pay.e8d2b07c6f15a394",
    "organisation": "org-Vb17NwRt83Ys",
    "e-mail": "grace.hopper@example.net",
    "aws-signature": "a4c1e7f09b3d5826e1f7c0a9d4b2836f5e7d9c1b0a3f8e6d2c4b7a9f1e0d3c5b",
}

AGENT = """
import json, os
import pytest
from agent import CLIENT, URL, body

SECRETS = json.loads(os.environ["PLANTED"])
BASE = os.environ["PROVIDER_URL"]
HEADERS = {
    "authorization": "Bearer " + SECRETS["authorization"],
    "x-api-key": SECRETS["x-api-key"],
    "cookie": "session=" + SECRETS["cookie"],
    "openai-organization": SECRETS["organisation"],
}
SIGNED = {
    "authorization": "AWS4-HMAC-SHA256 Credential=AKIA" + "Q3EGP7XK2MZT5WLB"
    "/20260101/us-east-1/bedrock/aws4_request, SignedHeaders=host, Signature=" + SECRETS["aws-signature"],
    "x-amz-security-token": SECRETS["aws-signature"],
}


def converse():
    tool = {"role": "tool", "tool_call_id": "call_1", "content": "token: " + os.environ["PAYMENTS_TOKEN"]}
    mail = {"role": "user", "content": f"write to {SECRETS['e-mail']} with {SECRETS['message-key']}"}
    CLIENT.post(URL, headers=HEADERS, json=body(mail)).raise_for_status()
    CLIENT.post(URL, headers=HEADERS, json=body(mail, tool)).raise_for_status()
    CLIENT.post(URL, headers=HEADERS, json=body(mail, tool, "go on", stream=True)).raise_for_status()
    CLIENT.post(f"{BASE}/v1beta/generate?key={SECRETS['url-key']}", json={"text": "hello"}).raise_for_status()
    CLIENT.post(f"{BASE}/login", json={"config": {"api_key": SECRETS["json-api-key"]}}).raise_for_status()
    CLIENT.post(f"{BASE}/model/m/invoke", headers=SIGNED, json={"text": "hello"}).raise_for_status()
    signature = f"?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Signature={SECRETS['aws-signature']}"
    CLIENT.get(f"{BASE}/bucket/object{signature}").raise_for_status()


@pytest.mark.agent_cassette(match_headers=MATCHED)
def test_it():
    CLIENT.event_hooks = {"response": [lambda response: CLIENT.cookies.clear()]}  # it sends its own cookie, no other
    converse()
"""
MATCHED = ["authorization", "x-api-key", "cookie", "openai-organization", "x-amz-security-token"]

RULES = ("agent_redact_patterns = email=[\\w.]+@[\\w.]+",)


def forms(data: bytes) -> Iterator[bytes]:
    """Yield some bytes, and what is in them for someone who decodes base64 and unpacks gzip, however deep."""
    yield data
    for found in BASE64.findall(data):
        for start in range(4):
            text = found[start:].rstrip(b"=").translate(bytes.maketrans(b"-_", b"+/"))
            text = text[:-1] if len(text) % 4 == 1 else text
            decoded = base64.b64decode(text + b"=" * (-len(text) % 4))
            yield decoded
            if start == 0 and decoded.startswith(b"\x1f\x8b"):
                yield from forms(gunzipped(decoded))
    if data.startswith(b"\x1f\x8b"):
        yield from forms(gunzipped(data))


def gunzipped(data: bytes) -> bytes:
    return zlib.decompressobj(wbits=31).decompress(data)


def found_in(folder: Path, secrets: dict[str, str]) -> dict[str, str]:
    """Return which secrets are in the files of a folder, and in which."""
    found = {}
    for path in folder.rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            data = b"\n".join(forms(path.read_bytes())).decode("utf-8", "replace")
            found |= {name: path.name for name, value in secrets.items() if value in data}
    return found


def plant(seen: Seen, secrets: dict[str, str]) -> Answer:
    """Answer as providers do, with secrets where they put them."""
    if b'"stream"' in seen.body:
        key = secrets["split-key"]
        pieces = ["your key is ", key[:11], key[11:], " keep it"]
        return answer_events([{"choices": [{"delta": {"content": piece}}]} for piece in pieces] + ["[DONE]"])
    answer = answer_json(completion("yes")) if seen.path.endswith("completions") else answer_json({"ok": True})
    headers = (
        ("set-cookie", f"session={secrets['set-cookie']}; Path=/"),
        ("openai-organization", secrets["organisation"]),
        ("anthropic-organization-id", secrets["organisation"]),
        ("x-signed", f"https://bucket.invalid/object?X-Amz-Signature={secrets['aws-signature']}&X-Amz-Expires=60"),
    )
    return Answer(headers=(*answer.headers, *headers), body=answer.body)


def write_agent(suite: Suite, *, last: str = "") -> None:
    suite.write(AGENT.replace("MATCHED", repr(MATCHED)) + last)
    suite.ini(*RULES)


def use(secrets: dict[str, str], provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    provider.respond = lambda seen: plant(seen, secrets)
    monkeypatch.setenv("PLANTED", json.dumps(secrets))
    monkeypatch.setenv("PAYMENTS_TOKEN", secrets["environment"])


def test_the_search_finds_a_secret_in_every_form(tmp_path: Path) -> None:
    secret = b"a planted secret"
    packed = gzip.compress(b"so it is: " + secret)
    found = [
        secret,
        base64.b64encode(b"x" + secret),
        b"abc" + base64.b64encode(secret),
        packed,
        b'"' + base64.urlsafe_b64encode(packed) + b'"',
        gzip.compress(base64.b64encode(packed)),
    ]

    for number, data in enumerate(found):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "file").write_bytes(data)
        assert found_in(folder, {"it": secret.decode()}) == {"it": "file"}, data


def test_none_of_twelve_planted_secrets_is_in_a_cassette_and_other_peoples_still_match(
    suite: Suite, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_agent(suite)
    use(SECRETS, provider, monkeypatch)
    suite.record()
    asked = b"".join(str(seen.headers).encode() + seen.path.encode() + seen.body for seen in provider.seen).decode()
    use(OTHERS, provider, monkeypatch)

    result = suite.run()

    result.assert_outcomes(passed=1)
    assert [name for name in SECRETS if name not in ("set-cookie", "split-key") and SECRETS[name] not in asked] == []
    assert len(provider.seen) == 7
    assert len(suite.cassettes()) == 1
    assert found_in(suite.path, SECRETS) == {}
    text = suite.cassette().read_text(encoding="utf-8")
    assert {
        "[redacted:authorization]",
        "[redacted:x-api-key]",
        "[redacted:cookie]",
        "[redacted:set-cookie]",
        "[redacted:json-field]",
        "[redacted:anthropic-key]",
        "[redacted:openai-key]",
        "[redacted:env-PAYMENTS_TOKEN]",
        "[redacted:openai-organization]",
        "[redacted:email]",
        "[redacted:x-amz-security-token]",
    } <= set(re.findall(r"\[redacted:[\w-]+]", text))


def test_none_of_twelve_planted_secrets_is_in_an_unfinished_recording(
    suite: Suite, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_one_be_in_flight(suite.pytester)
    write_agent(suite, last=f"    {LEAVE_ONE_IN_FLIGHT}\n")
    use(SECRETS, provider, monkeypatch)

    suite.run("--record-mode=once").assert_outcomes(passed=1)

    assert suite.cassettes() == ["cassettes/test_it/test_it.partial.jsonl"]
    assert b"[redacted:env-PAYMENTS_TOKEN]" in (suite.path / suite.cassettes()[0]).read_bytes()
    assert found_in(suite.path, SECRETS) == {}


def test_none_of_twelve_planted_secrets_is_in_the_report_of_a_divergence(
    suite: Suite, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_agent(suite)
    use(SECRETS, provider, monkeypatch)
    suite.record()
    use(OTHERS, provider, monkeypatch)
    suite.write(AGENT.replace("MATCHED", repr(MATCHED)).replace("write to", "please write to"))

    report = failure(suite.run())

    assert "please write to [redacted:email]" in report
    assert [name for name, value in (SECRETS | OTHERS).items() if value in report] == []


def test_a_variable_set_to_a_word_changes_no_hash_and_no_text(
    suite: Suite, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite.write(
        """
        import pytest
        from agent import ask

        @pytest.mark.agent_cassette
        def test_it():
            ask("this is a test of the test suite")
        """
    )
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    suite.record()
    without = suite.cassette().read_bytes().splitlines()[:-1]
    monkeypatch.setenv("OPENAI_API_KEY", "test")

    replayed = suite.run()
    suite.run("--record-mode=rewrite").assert_outcomes(passed=1)

    replayed.assert_outcomes(passed=1)
    assert suite.cassette().read_bytes().splitlines()[:-1] == without
    assert b"this is a test of the test suite" in b"".join(without)


SHAPED = "gsk_" + "4f0b5e7d91c2a8f36e40d7b9c1a5e8f2"

RULED = """
import os
import pytest
from agent import CLIENT, URL, body

@pytest.mark.agent_cassette(match_headers=["x-tenant", "cookie"])
def test_it():
    headers = {"x-tenant": "tenant seven", "cookie": "crumbs=many"}
    extra = {"customer_ref": "seven of nine", "password": "open sesame", "order": "ORD-12345", "hint": "pssst"}
    extra |= {"shaped": "SHAPED", "looks_secret": os.environ["SOME_TOKEN"]}
    CLIENT.post(URL, headers=headers, json=body("hello", metadata={"kept": 1}, extra=extra))
"""


@pytest.mark.parametrize(
    ("rule", "gone", "kept"),
    [
        (
            None,
            ["crumbs", "open sesame", SHAPED, "gravel.0123456789"],
            ["tenant seven", "seven of nine", "ORD-12345", "pssst"],
        ),
        ("agent_redact_headers = x-tenant", ["tenant seven", "crumbs"], []),
        ("agent_redact_headers = +X-Tenant", ["tenant seven", "crumbs"], []),
        ("agent_redact_headers = =x-tenant", ["tenant seven"], ["crumbs"]),
        ("agent_redact_json = customer_ref", ["seven of nine", "open sesame"], []),
        ("agent_redact_json = +customerRef", ["seven of nine", "open sesame"], []),
        ("agent_redact_json = =customer-ref", ["seven of nine"], ["open sesame"]),
        ("agent_redact_patterns = order=ORD-[0-9]+", ["ORD-12345", "open sesame"], []),
        ("agent_redact_patterns = +order=ORD-[0-9]+", ["ORD-12345", "open sesame"], []),
        ("agent_redact_patterns = ORD-[0-9]+", ["ORD-12345"], []),
        ("agent_redact_env = HINT", ["pssst"], []),
        ("agent_redact_env = +HINT", ["pssst"], []),
        ("agent_redact_patterns = =order=ORD-[0-9]+", ["ORD-12345", "open sesame"], [SHAPED]),
        ("agent_redact_env = =HINT", ["pssst"], ["gravel.0123456789"]),
    ],
)
def test_a_users_rule_adds_to_the_built_in_ones_or_replaces_them(
    suite: Suite,
    provider: Provider,
    monkeypatch: pytest.MonkeyPatch,
    rule: str | None,
    gone: list[str],
    kept: list[str],
) -> None:
    monkeypatch.setenv("HINT", "pssst")
    monkeypatch.setenv("SOME_TOKEN", "gravel.0123456789")
    provider.respond = lambda seen: answer_json(completion("hello"))
    suite.write(RULED.replace("SHAPED", SHAPED))
    suite.ini(*([rule] if rule else []))

    suite.record()
    provider.stop()
    suite.run().assert_outcomes(passed=1)

    text = suite.cassette().read_text(encoding="utf-8")
    assert [word for word in gone if word in text] == []
    assert [word for word in kept if word not in text] == []


KEY = SECRETS["message-key"]
HIDDEN = base64.b64encode(f"the key: {KEY}".encode()).decode()
PACKED = gzip.compress(f"the key: {KEY}".encode())

LEAKS: dict[str, tuple[str, Answer]] = {
    "base64 in an answer": ("ask('leak')", answer_json(completion(HIDDEN))),
    "base64 in a field of an answer": ("get('/leak')", answer_json({"blob": HIDDEN})),
    "base64 in a message": (f"ask('{HIDDEN}')", answer_json(completion("yes"))),
    "a packed answer": ("get('/leak')", Answer(headers=(("content-type", "application/gzip"),), body=PACKED)),
}


@pytest.mark.parametrize("leak", LEAKS)
def test_a_secret_that_redaction_does_not_reach_drops_its_exchange_and_fails_the_test(
    suite: Suite, provider: Provider, leak: str
) -> None:
    statement, answer = LEAKS[leak]
    provider.respond = lambda seen: answer if b"leak" in seen.body + seen.path.encode() else echo(seen)
    suite.write(
        f"""
        import pytest
        from agent import ask, get

        @pytest.mark.agent_cassette
        def test_it():
            ask("one")
            ask("two")
            try:
                {statement}
            except BaseException:
                pass
        """
    )

    result = suite.run("--record-mode=once")

    result.assert_outcomes(failed=1)
    report = failure(result)
    assert report.startswith("SecretLeakError: An exchange was not recorded: [redacted:anthropic-key] is left in ")
    assert " at $[" in report
    assert "cassettes/test_it/test_it.partial.jsonl" in report
    assert "agent_redact_patterns" in report
    assert suite.cassettes() == ["cassettes/test_it/test_it.partial.jsonl"]
    assert "kept: cassettes/test_it/test_it.partial.jsonl (2 exchanges)" in result.stdout.str()
    for secret in (KEY, HIDDEN):
        assert secret not in report
        assert found_in(suite.path / "cassettes", {"it": secret}) == {}


def test_a_key_in_an_answer_in_bytes_is_replaced_where_it_stands(suite: Suite, provider: Provider) -> None:
    body = b"\xff\xfe\x00" + KEY.encode() + b"\x00\xff"
    provider.respond = lambda seen: Answer(headers=(("content-type", "application/octet-stream"),), body=body)
    suite.write(
        """
        import os
        import pytest
        from agent import CLIENT

        @pytest.mark.agent_cassette
        def test_it(agent_run):
            content = CLIENT.get(os.environ["PROVIDER_URL"]).content
            assert agent_run.is_recording or content == b"\\xff\\xfe\\x00[redacted:anthropic-key]\\x00\\xff"
        """
    )

    suite.record()

    suite.run().assert_outcomes(passed=1)
    assert found_in(suite.path / "cassettes", {"it": KEY}) == {}


def test_the_rule_that_a_leak_asks_for_lets_the_recording_go_on(suite: Suite, provider: Provider) -> None:
    def respond(seen: Seen) -> Answer:
        return answer_json({"blob": HIDDEN}) if seen.path == "/leak" else echo(seen)

    provider.respond = respond
    suite.write(
        """
        import pytest
        from agent import ask, get

        @pytest.mark.agent_cassette
        def test_it():
            ask("one")
            get("/leak")
            ask("two")
        """
    )
    suite.run("--record-mode=once").assert_outcomes(failed=1)
    suite.ini("agent_redact_json = blob")

    result = suite.run("--record-mode=once")

    result.assert_outcomes(passed=1)
    assert "resumed from an unfinished recording of 1 exchange)" in result.stdout.str()
    assert [seen.path for seen in provider.seen].count("/leak") == 2
    assert sum(b'"one"' in seen.body for seen in provider.seen) == 1
    assert found_in(suite.path, {"key": KEY, "hidden": HIDDEN}) == {}


def test_a_picture_is_no_leak_by_the_chance_match_of_a_users_pattern(suite: Suite, provider: Provider) -> None:
    picture: dict[str, Any] = {"image": base64.b64encode(b"\xff1234\xfe" * 300).decode()}
    provider.respond = lambda seen: answer_json(picture)
    suite.ini("agent_redact_patterns = [0-9]{4}")
    suite.write(
        """
        import pytest
        from agent import get

        @pytest.mark.agent_cassette
        def test_it():
            get("/image")
        """
    )

    suite.record()

    assert suite.run().ret == pytest.ExitCode.OK
