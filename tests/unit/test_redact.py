"""Secrets to tokens, and nothing else."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from pytest_agentreplay.errors import ConfigurationError
from pytest_agentreplay.reader import Reader
from pytest_agentreplay.records import Response
from pytest_agentreplay.redact import DEFAULT_HEADERS, SHAPES, Redactor, find_leak, looks_like_key, redactor_for
from pytest_agentreplay.redact.environment import EnvironmentSecrets
from pytest_agentreplay.redact.shapes import environment_secrets
from tests.unit.documents import any_json, any_text, is_same
from tests.unit.making import make_reader

REDACTOR = redactor_for()
EVENTS = "text/event-stream"
RANDOM = "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8S9t0U1v2W3x4Y5z6"
DIGITS = "0123456789abcdef0123456789abcdef"
OPENAI = "sk-proj-" + RANDOM[:32]

# For each shape, by its hint: a key, and something that is nearly one.
EXAMPLES: dict[str, tuple[str, str]] = {
    "sk-ant-": ("sk-ant-api03-" + RANDOM, "sk-ant-api03"),
    "sk-or-": ("sk-or-v1-" + DIGITS, "sk-or-v1-short"),
    "lsv2_": ("lsv2_pt_" + DIGITS + "_0a1b2c3d4e", "lsv2_xx_" + DIGITS),
    "k-lf-": ("pk-lf-1b2c3d4e-5f60-7182-93a4-b5c6d7e8f901", "pk-lf-short"),
    "sk-": ("sk-" + RANDOM[:48], "sk-learn-pipelines-for-everyone"),
    "AIza": ("AIzaSy" + RANDOM[:33], "AIzaSy" + RANDOM[:20]),
    "ya29.": ("ya29." + RANDOM, "ya29.a0b1"),
    "AKIA": ("AKIAIOSFODNN7EXAMPLE", "AKIAIOSFODNN7EXAMPLEX7"),
    "ASIA": ("ASIAIOSFODNN7EXAMPLE", "ASIAPACIFIC"),
    "Signature=": ("X-Amz-Signature=" + DIGITS * 2, "Signature=" + DIGITS),
    "X-Amz-Security-Token=": ("X-Amz-Security-Token=" + RANDOM + "%3D", "X-Amz-Security-Token=none"),
    "gh": ("ghp_" + RANDOM[:36], "ghp_" + RANDOM[:20]),
    "github_pat_": ("github_pat_11AAAAAAA0" + RANDOM[:40], "github_pat_11AAA"),
    "glpat-": ("glpat-" + RANDOM[:20], "glpat-" + RANDOM[:12]),
    "xox": ("xoxb-123456789012-" + RANDOM[:24], "xoxb-1"),
    "gsk_": ("gsk_" + RANDOM, "gsk_" + RANDOM[:20]),
    "xai-": ("xai-" + RANDOM, "xai-explainable"),
    "hf_": ("hf_" + RANDOM[:34], "hf_hub_download"),
    "pplx-": ("pplx-" + RANDOM[:48], "pplx-7b-online"),
    "r8_": ("r8_" + RANDOM[:37], "r8_" + RANDOM[:8]),
    "tvly-": ("tvly-dev-" + RANDOM[:32], "tvly-short"),
    "_live_": ("sk_live_" + RANDOM[:24], "sk_live_short"),
    "SG.": ("SG." + RANDOM[:22] + "." + RANDOM[:43], "SG.1.2"),
    "pypi-": ("pypi-AgEIcHlwaS5vcmc" + RANDOM, "pypi-AgE"),
    "npm_": ("npm_" + RANDOM[:36], "npm_config_registry"),
    "eyJ": ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmN", "eyJhbGciOiJIUzI1NiJ9.e30.x"),
    "PRIVATE KEY-----": (
        "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----",
        "-----BEGIN PUBLIC KEY-----\nMIIE\n-----END PUBLIC KEY-----",
    ),
}
KEYS = {hint: key for hint, (key, _) in EXAMPLES.items()}
any_key = st.sampled_from(list(KEYS.values()))

# Prose, code and data of agents that look like keys to a careless expression.
INNOCENT = [
    "task-management-and-planning-2024",
    "risk-assessment-and-mitigation-2024-q3-v2",
    "ask-the-expert-about-2024-tax-changes-now",
    "desk-reservation-system-version-2-api-spec",
    "the quick brown fox jumps over the lazy dog 1234567890",
    "123e4567-e89b-12d3-a456-426614174000",
    "2fd4e1c67a2d28fced849ee1bb76e7391b93eb12",
    "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "call_A1b2C3d4E5f6G7h8I9j0K1l2",
    "toolu_01A09q90qw90lq917835lq9",
    "chatcmpl-9nK2b8jVfqKJx1Lw0z4E8H1D2S3F4",
    "resp_67ccd2bed1ec8190b14f964abc0542670bb6a6b452d3795b",
    "msg_01XFDUDYJgAACzvnptvVoYEL",
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
    "import sklearn; from sklearn.pipeline import make_pipeline",
    "SELECT sk_id, fk_live_status FROM task_keys WHERE id = 42",
    "https://example.com/docs/sk-SK/how-to?page=2&sort=desc",
    "s3://bucket/2024/05/01/report-final-v2.parquet",
    "gpt-4o-mini-2024-07-18 claude-3-5-sonnet-20241022 gemini-2.0-flash-001",
    "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
    "tokens: 1024, max_tokens: 4096, api_key is read from the environment",
    "Authorization is required for the secret_key parameter; see password rules",
    "eyJ is how base64 of JSON begins",
    "AKIA and ASIA are prefixes; ghp_ and hf_ too; so are sk- and xoxb-",
    "C:\\Users\\ask-1\\desk-2\\risk-3",
    "__pycache__/module.cpython-311.pyc",
]


def _events(*pieces: str, field: str = "content") -> bytes:
    chunks = [{"choices": [{"index": 0, "delta": {field: piece}}]} for piece in pieces]
    return "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks).encode() + b"data: [DONE]\n\n"


def _text_of_events(content: bytes, field: str = "content") -> str:
    lines = [line[6:] for line in content.decode().splitlines() if line.startswith("data: {")]
    return "".join(json.loads(line)["choices"][0]["delta"][field] for line in lines)


def _cut_up(text: str, random: Random) -> list[str]:
    places = sorted(random.sample(range(1, len(text)), random.randint(1, min(6, len(text) - 1))))
    return [text[start:end] for start, end in zip([0, *places], [*places, len(text)], strict=True)]


# Shapes


def test_every_shape_has_an_example() -> None:
    assert {shape.hint for shape in SHAPES} == set(EXAMPLES)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.hint)
def test_a_key_becomes_a_token_that_names_its_kind(shape: Any) -> None:
    key, _ = EXAMPLES[shape.hint]

    redacted = REDACTOR.text(f"The key is {key} indeed.")

    assert redacted == f"The key is [redacted:{shape.name}] indeed."


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.hint)
def test_what_is_nearly_a_key_stays(shape: Any) -> None:
    _, nearly = EXAMPLES[shape.hint]

    assert REDACTOR.text(f"It is {nearly}, no key.") == f"It is {nearly}, no key."


@pytest.mark.parametrize("text", INNOCENT)
def test_prose_code_and_ids_stay(text: str) -> None:
    assert REDACTOR.text(text) == text
    assert REDACTOR.value({"content": [text], text: 1}) == {"content": [text], text: 1}
    assert REDACTOR.content(json.dumps({"a": text}).encode(), media_type="application/json") == (
        json.dumps({"a": text}).encode()
    )
    assert REDACTOR.content(_events(text), media_type=EVENTS) == _events(text)


@pytest.mark.parametrize("before", ["", " ", '"', "'", "=", ":", "Bearer ", "\n", "(", "/", "?key=", "\\n", "\\u0022"])
@pytest.mark.parametrize("after", ["", " ", '"', "'", "&", ",", "\n", ")", "\\n", "\\u0022", "é"])
@pytest.mark.parametrize("hint", ["sk-", "AKIA", "eyJ"])
def test_a_key_is_found_whatever_stands_around_it(before: str, after: str, hint: str) -> None:
    key = KEYS[hint]

    redacted = REDACTOR.text(f"{before}{key}{after}")

    assert key not in redacted
    assert redacted.startswith(f"{before}[redacted:")
    assert redacted.endswith(f"]{after}")


@pytest.mark.parametrize("hint", KEYS)
def test_a_key_after_an_escape_in_json_text_is_found(hint: str) -> None:
    document = json.dumps({"a": f"first\n{KEYS[hint]}\nlast\t{KEYS[hint]}"})

    redacted = REDACTOR.text(document)

    assert KEYS[hint] not in redacted
    assert json.loads(redacted)["a"].startswith("first\n[redacted:")


# Values


@pytest.mark.parametrize("hint", KEYS)
def test_a_key_in_a_value_becomes_a_token_wherever_it_stands(hint: str) -> None:
    key = KEYS[hint]
    value = {"a": [f"x {key}", {"b": key}], key: [key], "n": 1, "t": True, "z": None}

    redacted = REDACTOR.value(value)

    assert key not in repr(redacted)
    assert redacted["a"][0].startswith("x [redacted:")
    assert (redacted["n"], redacted["t"], redacted["z"]) == (1, True, None)
    assert value["a"][1] == {"b": key}


@given(value=any_json)
def test_a_value_without_secrets_is_returned_as_it_is(value: Any) -> None:
    redacted = REDACTOR.value(value)

    assume("[redacted:" not in repr(redacted))
    assert redacted is value


@pytest.mark.parametrize("depth", [10, 300, 2000])
def test_a_key_at_any_depth_is_found(depth: int) -> None:
    value: Any = OPENAI
    for level in range(depth):
        value = {"a": value, "b": level} if level % 2 else [value, "x"]

    redacted = REDACTOR.value(value)

    for level in reversed(range(depth)):
        redacted = redacted["a"] if level % 2 else redacted[0]
    assert redacted == "[redacted:openai-key]"


@pytest.mark.parametrize("name", ["password", "api_key", "apiKey", "API-KEY", "client_secret", "refresh_token"])
def test_what_stands_under_the_name_of_a_secret_is_one(name: str) -> None:
    value = {name: "hunter2", "tool": {name: {"type": "string"}}, "note": "hunter2 is fine"}

    redacted = REDACTOR.value(value)

    assert redacted == {**value, name: "[redacted:json-field]"}
    assert "hunter2 is" in REDACTOR.text(json.dumps(value))
    assert '"hunter2"' not in REDACTOR.text(json.dumps(value))


# Twice


_pieces = st.lists(
    st.one_of(any_key, any_text, st.sampled_from(["-", "_", " ", '"', "\\n", ".", "x", "[redacted:", "]", "sk-"])),
    max_size=6,
).map("".join)


@given(text=_pieces)
@example(text=KEYS["AIza"] + KEYS["sk-"])
@example(text=KEYS["npm_"] + KEYS["sk-ant-"])
@example(text=KEYS["PRIVATE KEY-----"] + KEYS["AKIA"])
def test_redacting_text_twice_is_redacting_it_once(text: str) -> None:
    once = REDACTOR.text(text)

    assert REDACTOR.text(once) == once
    assert find_leak(once, REDACTOR) is None


@given(text=_pieces)
@example(text="a--b--c")
@pytest.mark.parametrize(
    "pattern", ["key", "r[a-z]+d", "\\w+", "name=(?P<secret>[a-z]+) ", "env", "(?<=x)", ".+", "[^a-z]{3}", "[a-z]{2,4}"]
)
def test_redacting_twice_is_redacting_once_whatever_the_rule(pattern: str, text: str) -> None:
    redactor = redactor_for(patterns=[pattern], variables=["A", "B"], environment={"A": "redacted", "B": "x"})

    once = redactor.text(text)

    assert redactor.text(once) == once
    assert redactor.spans(once) == []


@given(text=_pieces)
@example(text=KEYS["gh"] + " " + KEYS["github_pat_"] + KEYS["sk-ant-"] + "-" + KEYS["AKIA"])
@example(text=" ".join(KEYS.values()))
@example(text=f'{{"password": "{KEYS["eyJ"]}", "api_key": "x"}}')
@pytest.mark.parametrize("patterns", [(), ("[^a-z]{3}", "pypi-age=[a-z]{2,4}")])
def test_a_rule_that_is_left_out_would_have_found_nothing(patterns: tuple[str, ...], text: str) -> None:
    redactor = redactor_for(patterns=patterns, variables=["A"], environment={"A": "k-ant"})

    redacted = redactor.text(text)

    assert redacted == _by_every_rule(text, redactor)


def _by_every_rule(text: str, redactor: Redactor) -> str:
    """Return what a redactor makes of a text where each rule is tried, again and again until none finds anything."""
    before = None
    while text != before:
        before = text
        for rule in redactor.rules:
            text = _replaced(text, rule.spans(text))
        for name, value in redactor.environment.pairs:
            secrets = EnvironmentSecrets({})
            secrets.pairs = ((name, value),)
            only = replace(redactor, rules=(), environment=secrets)
            text = _replaced(text, only.spans(text))
    return text


def _replaced(text: str, spans: Iterable[tuple[int, int, str]]) -> str:
    for start, end, token in reversed(list(spans)):
        text = text[:start] + token + text[end:]
    return text


@given(value=st.dictionaries(_pieces, st.lists(_pieces)))
def test_redacting_a_value_twice_is_redacting_it_once(value: Any) -> None:
    once = REDACTOR.value(value)

    assert is_same(REDACTOR.value(once), once)


@given(pieces=st.lists(_pieces, max_size=6), media_type=st.sampled_from([EVENTS, "application/json", "text/plain"]))
def test_redacting_an_answer_twice_is_redacting_it_once(pieces: list[str], media_type: str) -> None:
    content = "".join(f"data: {json.dumps({'d': piece})}\n\n" for piece in pieces).encode("utf-8", "surrogatepass")

    once = REDACTOR.content(content, media_type=media_type)

    assert REDACTOR.content(once, media_type=media_type) == once


# URLs, headers, forms


@pytest.mark.parametrize("hint", [hint for hint in KEYS if hint != "PRIVATE KEY-----"])
@pytest.mark.parametrize(
    "url",
    [
        "https://api.example.com/v1?a=1&key={}&b=2",
        "https://api.example.com/v1?a={}",
        "https://api.example.com/v1/{}/models",
        "https://user:{}@api.example.com/v1",
        "https://{}@api.example.com/v1?a=1",
        "https://api.example.com/v1#{}",
    ],
)
def test_a_key_is_in_no_redacted_url(hint: str, url: str) -> None:
    redacted = REDACTOR.url(url.format(KEYS[hint]))

    assert KEYS[hint] not in redacted
    assert redacted.startswith("https://api.example.com/v1")
    assert REDACTOR.url(redacted) == redacted


@pytest.mark.parametrize("name", ["key", "api_key", "apiKey", "api-key", "token", "access_token", "sig", "signature"])
def test_a_query_pair_with_the_name_and_the_look_of_a_key_is_one(name: str) -> None:
    redacted = REDACTOR.url(f"https://api.example.com/v1?{name}=f3b1c9d27a604e5f&x=1")

    assert "f3b1c9d27a604e5f" not in redacted
    assert redacted.endswith("&x=1")


def test_any_key_of_google_is_one() -> None:
    for host in ("generativelanguage.googleapis.com", "generativelanguage.googleapis.com:443"):
        assert "short" not in REDACTOR.url(f"https://{host}/v1?key=short")


@pytest.mark.parametrize(
    "url",
    [
        "https://api.example.com/v1?key=red",
        "https://api.example.com/v1?token=next-page",
        "https://api.example.com/v1?q=task-management-and-planning-2024",
        "https://api.example.com/v1?id=123e4567-e89b-12d3-a456-426614174000",
        "https://api.example.com/a%20b/c?x=%20y",
        "https://api.example.com/",
    ],
)
def test_other_urls_stay_what_they_are(url: str) -> None:
    assert make_reader().read(_get(url)).url == make_reader().read(_get(REDACTOR.url(url))).url
    assert "redacted" not in REDACTOR.url(url)


def _get(url: str) -> Any:
    from pytest_agentreplay.reader import HttpRequest

    return HttpRequest("GET", url, (), b"")


@pytest.mark.parametrize("name", [*sorted(DEFAULT_HEADERS), "Authorization", "X-API-Key", "Set-Cookie"])
def test_a_header_that_holds_a_secret_becomes_a_token_as_a_whole(name: str) -> None:
    assert REDACTOR.header(name, "Bearer whatever it is") == f"[redacted:{name.lower()}]"


def test_other_headers_lose_the_keys_in_them_only() -> None:
    assert REDACTOR.header("x-trace", "abc") == "abc"
    assert REDACTOR.header("x-forwarded", f"key {OPENAI}") == "key [redacted:openai-key]"


def test_a_form_field_named_like_a_key_that_looks_like_one_becomes_a_token() -> None:
    assert REDACTOR.field("token", "f3b1c9d27a604e5f") == "[redacted:form-key]"
    assert REDACTOR.field("client_secret", "short") == "[redacted:form-key]"
    assert REDACTOR.field("token", "next") == "next"
    assert REDACTOR.field("note", f"see {OPENAI}") == "see [redacted:openai-key]"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("f3b1c9d27a604e5f", True),
        ("A1b2C3d4E5f6G7h8", True),
        ("123e4567-e89b-12d3-a456-426614174000", True),
        ("test", False),
        ("aaaaaaaaaaaaaaaaaaa1", False),
        ("only-letters-and-hyphens", False),
        ("12345678901234567890", False),
        ("two words 1234567890", False),
        ("/usr/local/lib/python3.11", False),
        ("https://example.com/a1b2c3", False),
    ],
)
def test_a_key_looks_generated(value: str, expected: bool) -> None:
    assert looks_like_key(value) is expected


# Streams


@given(key=any_key, random=st.randoms(use_true_random=False), before=st.sampled_from(["", "It is ", "a\n"]))
def test_a_key_split_over_the_fields_of_several_events_is_found(key: str, random: Random, before: str) -> None:
    content = _events(*_cut_up(f"{before}{key}", random), " and", " more")

    redacted = REDACTOR.content(content, media_type=EVENTS)

    text = _text_of_events(redacted)
    assert text.startswith(f"{before}[redacted:")
    assert text.endswith("] and more")
    assert redacted.count(b"\n\n") == content.count(b"\n\n")
    assert redacted.endswith(b"data: [DONE]\n\n")


@given(key=any_key, random=st.randoms(use_true_random=False))
def test_a_key_split_in_the_partial_json_of_tool_arguments_is_found(key: str, random: Random) -> None:
    arguments = json.dumps({"note": f"use\n{key}", "n": 1})
    content = "".join(
        "event: content_block_delta\ndata: "
        + json.dumps({"type": "content_block_delta", "delta": {"type": "input_json_delta", "partial_json": piece}})
        + "\n\n"
        for piece in _cut_up(arguments, random)
    ).encode()

    redacted = REDACTOR.content(content, media_type=EVENTS)

    lines = [line[6:] for line in redacted.decode().splitlines() if line.startswith("data: ")]
    joined = json.loads("".join(json.loads(line)["delta"]["partial_json"] for line in lines))
    assert joined["note"].startswith("use\n[redacted:")
    assert joined["n"] == 1


@given(key=any_key, random=st.randoms(use_true_random=False))
def test_a_key_cut_in_two_by_the_chunks_of_an_answer_is_found(key: str, random: Random) -> None:
    content = b"The key is " + key.encode() + b", they say.\n\n"
    cuts = tuple(len(piece) for piece in _cut_up(content.decode(), random))
    response = Response(status=200, headers=(("content-type", "text/plain"),), content=content, cuts=cuts)

    kept = make_reader().redact_response(response)

    assert kept.content.startswith(b"The key is [redacted:")
    assert kept.content.endswith(b"], they say.\n\n")
    assert sum(kept.cuts) == len(kept.content)


def test_keys_of_two_streams_that_alternate_are_found() -> None:
    random = Random(1)
    halves = [_cut_up(KEYS["sk-"], random), _cut_up(KEYS["gsk_"], random)]
    events = [
        {"choices": [{"index": index, "delta": {"content": pieces[turn]}}]}
        for turn in range(max(map(len, halves)))
        for index, pieces in enumerate(halves)
        if turn < len(pieces)
    ]
    content = "".join(f"data: {json.dumps(event)}\n\n" for event in events).encode()

    redacted = REDACTOR.content(content, media_type=EVENTS)

    for index, key in enumerate((KEYS["sk-"], KEYS["gsk_"])):
        pieces = [json.loads(line[6:])["choices"][0] for line in redacted.decode().split("\n\n") if line]
        text = "".join(piece["delta"]["content"] for piece in pieces if piece["index"] == index)
        assert key not in text
        assert text.startswith("[redacted:")


def test_an_event_that_is_no_json_is_redacted_as_text() -> None:
    content = f": comment {OPENAI}\r\nevent: x\r\ndata: not json {OPENAI}\r\n\r\ndata: [1,\n\n".encode()

    redacted = REDACTOR.content(content, media_type=EVENTS)

    assert redacted == content.replace(OPENAI.encode(), b"[redacted:openai-key]")


def test_an_event_with_a_split_key_and_half_an_emoji_is_written_back_whole() -> None:
    pieces = [OPENAI[:9], OPENAI[9:] + " \ud83d", "\ude00"]
    content = "".join(f"data: {json.dumps({'d': piece})}\n\n" for piece in pieces).encode()

    redacted = REDACTOR.content(content, media_type=EVENTS)

    kept = [json.loads(line[6:])["d"] for line in redacted.decode().split("\n\n") if line]
    assert kept == ["[redacted:openai-key]", " \ud83d", "\ude00"]


@given(content=st.binary(max_size=200), media_type=st.sampled_from([EVENTS, "application/json", ""]))
def test_an_answer_without_secrets_keeps_its_bytes(content: bytes, media_type: str) -> None:
    assert REDACTOR.content(content, media_type=media_type) == content


def test_a_key_in_bytes_that_are_no_utf_8_is_found() -> None:
    content = b"\xe9t\xe9 " + OPENAI.encode() + b" \xff"

    assert REDACTOR.content(content, media_type="text/plain") == b"\xe9t\xe9 [redacted:openai-key] \xff"


def test_an_event_nested_deep_is_looked_through() -> None:
    content = b"data: " + b"[" * 900 + json.dumps(OPENAI).encode() + b"]" * 900 + b"\n\n"

    assert OPENAI.encode() not in REDACTOR.content(content, media_type=EVENTS)


# Rules of the user's


def test_a_named_pattern_gives_its_name_to_the_token() -> None:
    redactor = redactor_for(patterns=["customer-id=cust-\\d+", "K\\d{4}"])

    assert redactor.text("cust-12 has K1234") == "[redacted:customer-id] has [redacted:pattern]"


@pytest.mark.parametrize(
    ("pattern", "fault"), [("(", "does not compile"), ("a=(", "does not compile"), ("x*", "matches the empty")]
)
def test_a_pattern_that_cannot_be_meant_is_refused(pattern: str, fault: str) -> None:
    with pytest.raises(ConfigurationError, match=fault) as caught:
        redactor_for(patterns=[pattern])

    assert repr(pattern) in str(caught.value)


def test_a_header_of_the_users_is_a_secret_too() -> None:
    assert redactor_for(headers=["X-Mine"]).header("x-mine", "value") == "[redacted:x-mine]"


def test_what_a_redactor_does_is_told_apart_by_its_description() -> None:
    descriptions = [
        json.dumps(redactor.describe())
        for redactor in (
            redactor_for(),
            redactor_for(patterns=["a"]),
            redactor_for(patterns=["b"]),
            redactor_for(patterns=["b", "a"]),
            redactor_for(headers=["x-mine"]),
            redactor_for(json_names=["mine"]),
        )
    ]

    assert len(set(descriptions)) == len(descriptions)
    assert json.dumps(redactor_for().describe()) == descriptions[0]


def test_values_of_secret_variables_are_redacted_and_short_ones_are_not() -> None:
    environment = {"MY_API_KEY": "f3b1c9d27a604e5f", "TOKEN": "test", "PATH_TO_KEY": "/etc/keys/one-1.pem", "HOME": "x"}
    redactor = redactor_for(environment=environment)

    redacted = redactor.text("a test of f3b1c9d27a604e5f in /etc/keys/one-1.pem x")

    assert redacted == "a test of [redacted:env-MY_API_KEY] in /etc/keys/one-1.pem x"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DB_PASSWORD", "verysecretpw1234"),
        ("DB_PASSWORD", "Zx9Kq2mPv7Lr4TnB"),
        ("DB_PASSWORD", "Winter2026!Winter"),
        ("PGPASSWORD", "p@ssw0rd-2026-prod"),
        ("MONGO_PWD", "p@ssw0rd-2026-prod"),
        ("AWS_SECRET_ACCESS_KEY", "/Jal7XUtnFE8I/K7MDE9bPxRfiCY3SHORTKEY1"),
        ("REDIS_PASSWD", "correcthorsebattery"),
        ("KEY_PASSPHRASE", "correct horse battery staple"),
        ("DB_PASS", "a(b)c#d$e%f^g&h*"),
        ("smtp_password", 'quoted"and\\slashed'),
        ("DJANGO_SECRET_KEY", "x#9$w@k2!q^r&7*b(z)m"),
        ("AZURE_CLIENT_SECRET", "q8~7Q.a_b!c2d3e4f5"),
    ],
)
def test_a_variable_named_as_a_secret_hides_whatever_is_too_long_for_ordinary_text(name: str, value: str) -> None:
    redactor = redactor_for(environment={name: value})
    token = f"[redacted:env-{name}]"

    assert redactor.text(f"log in with {value}, please") == f"log in with {token}, please"
    assert redactor.text(json.dumps({"login": value})) == json.dumps({"login": token})
    assert find_leak({"a": f"see {value}"}, redactor) is not None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PASSWORD", "test"),
        ("POSTGRES_PASSWORD", "postgres"),
        ("POSTGRES_PASSWORD", "postgrespostgres"),
        ("DB_PASSWORD", "verysecretpw123"),
        ("DB_PASSWORD", "/run/secrets/db_password_1"),
        ("SSH_KEY_PASS", r"C:\Users\me\secrets-1.txt"),
        ("VAULT_TOKEN", "/Users/me/.vault/token-1"),
        ("PASSWORD_HINT", "the name of my first dog"),
        ("PASSWORD_RESET_URL", "https://example.com/reset/1"),
        ("TOKEN", "true"),
        ("BOS_TOKEN", "<|begin_of_text|>"),
        ("SECRET", "development"),
        ("SECRET", "development-environment"),
        ("SECRET", "the plan of 12 October"),
        ("GIT_AUTHOR_EMAIL", "a.writer2@example.com"),
        ("TOKENIZER", "claude-sonnet, of 2025"),
        ("COMPASS", "north by north west"),
    ],
)
def test_a_variable_that_holds_ordinary_text_rewrites_none(name: str, value: str) -> None:
    redactor = redactor_for(environment={name: value})

    assert redactor.text(f"so {value} it is") == f"so {value} it is"


def test_a_variable_that_the_user_names_is_hidden_however_short_it_is() -> None:
    redactor = redactor_for(variables=["DB_PASSWORD"], environment={"DB_PASSWORD": "hunter2!"})

    assert redactor.text("log in with hunter2!") == "log in with [redacted:env-DB_PASSWORD]"


def test_what_was_once_a_secret_of_the_environment_stays_one() -> None:
    environment = {"A_TOKEN": "first-1234567890", "HOME": "x"}
    redactor = redactor_for(environment=environment)

    environment |= {"A_TOKEN": "second-1234567890", "B_TOKEN": "third-1234567890"}
    redactor.look()
    del environment["B_TOKEN"]
    redactor.look()

    text = redactor.text("first-1234567890, second-1234567890, third-1234567890")
    assert text == "[redacted:env-A_TOKEN], [redacted:env-A_TOKEN], [redacted:env-B_TOKEN]"


def test_the_environment_of_the_process_is_looked_at_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    redactor = redactor_for(environment=os.environ)

    monkeypatch.setenv("LATE_TOKEN", "first-1234567890")
    redactor.look()

    assert redactor.text("it is first-1234567890") == "it is [redacted:env-LATE_TOKEN]"


def test_a_look_that_meets_another_takes_in_what_that_one_does(monkeypatch: pytest.MonkeyPatch) -> None:
    environment: dict[str, str] = {}
    secrets = EnvironmentSecrets(environment)
    entered, leave = threading.Event(), threading.Event()

    def slow(*args: Any, **kwargs: Any) -> Any:
        entered.set()
        assert leave.wait(9)
        return environment_secrets(*args, **kwargs)

    monkeypatch.setattr("pytest_agentreplay.redact.environment.environment_secrets", slow)
    environment["A_TOKEN"] = "first-1234567890"
    with ThreadPoolExecutor() as pool:
        first = pool.submit(secrets.look)
        assert entered.wait(9)
        second = pool.submit(secrets.look)
        assert not wait([second], timeout=0.05).done
        leave.set()
        first.result(9)
        second.result(9)

    assert secrets.pairs == (("A_TOKEN", "first-1234567890"),)


def test_variables_may_come_and_go_while_they_are_looked_at() -> None:
    secrets = EnvironmentSecrets(os.environ)
    is_over = threading.Event()

    def flip() -> None:
        while not is_over.is_set():
            for number in range(20):
                os.environ[f"FLIP_{number}"] = "x"
            for number in range(20):
                del os.environ[f"FLIP_{number}"]

    with ThreadPoolExecutor() as pool:
        flipping = pool.submit(flip)
        try:
            for _ in range(300):
                secrets.look()
        finally:
            is_over.set()
        flipping.result(9)


# The last look


@pytest.mark.parametrize("hint", KEYS)
def test_a_key_that_is_left_is_found_with_its_place_and_not_shown(hint: str) -> None:
    leak = find_leak({"a": ["x", f"see {KEYS[hint]}"]}, REDACTOR)

    assert leak is not None
    assert leak.path == "$['a'][1]"
    assert KEYS[hint] not in repr(leak)


def test_nothing_is_left_in_what_was_redacted() -> None:
    value = {"keys": [f"see {key} there" for key in KEYS.values()]}

    assert find_leak(REDACTOR.value(value), REDACTOR) is None


def test_an_error_text_is_redacted_by_the_same_rules() -> None:
    reader: Reader = make_reader()

    assert reader.rules.redactor.text(f"Illegal header value b'Bearer {OPENAI}'") == (
        "Illegal header value b'Bearer [redacted:openai-key]'"
    )
