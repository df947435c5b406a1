"""URLs and headers in normal form."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentreplay.heads import media_type_of, normal_headers, normal_url

SIGNED = "X-Amz-Algorithm=AWS4&X-Amz-Credential=A%2FB&X-Amz-Signature=f00&x-amz-date=20240501T000000Z"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://api.example.com/v1", "https://api.example.com/v1"),
        ("HTTPS://API.Example.COM/v1", "https://api.example.com/v1"),
        ("https://api.example.com", "https://api.example.com/"),
        ("https://api.example.com?a=1", "https://api.example.com/?a=1"),
        ("https://api.example.com:443/v1", "https://api.example.com/v1"),
        ("https://api.example.com:0443/v1", "https://api.example.com/v1"),
        ("http://api.example.com:80/v1", "http://api.example.com/v1"),
        ("https://api.example.com:80/v1", "https://api.example.com:80/v1"),
        ("https://api.example.com:/v1", "https://api.example.com/v1"),
        ("wss://api.example.com:443/v1", "wss://api.example.com/v1"),
        ("ws://api.example.com:80/v1", "ws://api.example.com/v1"),
        ("http://127.0.0.1:32767/v1", "http://127.0.0.1:32767/v1"),
        ("http://127.0.0.1:32768/v1", "http://127.0.0.1/v1"),
        ("http://127.0.0.1:65535/v1", "http://127.0.0.1/v1"),
        ("http://127.1.2.3:40000/v1", "http://127.1.2.3/v1"),
        ("http://localhost:40000/v1", "http://localhost/v1"),
        ("http://app.localhost:40000/v1", "http://app.localhost/v1"),
        ("http://[::1]:40000/v1", "http://[::1]/v1"),
        ("http://[::1]:8000/v1", "http://[::1]:8000/v1"),
        ("http://[::1]/v1", "http://[::1]/v1"),
        ("http://[2001:db8::1]:40000/v1", "http://[2001:db8::1]:40000/v1"),
        ("http://api.example.com:40000/v1", "http://api.example.com:40000/v1"),
        ("http://localhost.example.com:40000/v1", "http://localhost.example.com:40000/v1"),
        ("https://user:password@api.example.com/v1", "https://api.example.com/v1"),
        ("https://api.example.com/v1#fragment", "https://api.example.com/v1"),
        ("https://api.example.com/v1/%6dodels/gpt%2D4", "https://api.example.com/v1/models/gpt-4"),
        ("https://api.example.com/v1/a%20b/é", "https://api.example.com/v1/a%20b/%C3%A9"),
        ("https://api.example.com/v1/%E9", "https://api.example.com/v1/%E9"),
        ("https://api.example.com/v1/%25", "https://api.example.com/v1/%25"),
        ("https://api.example.com/v1/a%3Fb", "https://api.example.com/v1/a%3Fb"),
        ("https://api.example.com/v1/models:generate", "https://api.example.com/v1/models:generate"),
        ("https://api.example.com/v1/models%3Agenerate", "https://api.example.com/v1/models:generate"),
        ("https://api.example.com/v1/", "https://api.example.com/v1/"),
        ("https://api.example.com/v1?b=2&a=1", "https://api.example.com/v1?a=1&b=2"),
        ("https://api.example.com/v1?a=2&a=1", "https://api.example.com/v1?a=1&a=2"),
        ("https://api.example.com/v1?a=", "https://api.example.com/v1?a="),
        ("https://api.example.com/v1?a=x+y%20z", "https://api.example.com/v1?a=x%20y%20z"),
        ("https://api.example.com/v1?a=%FF", "https://api.example.com/v1?a=%FF"),
        ("https://api.example.com/v1?a=%E2%82%AC", "https://api.example.com/v1?a=%E2%82%AC"),
        ("https://api.example.com/v1?", "https://api.example.com/v1"),
        (
            f"https://bucket.s3.amazonaws.com/key?{SIGNED}&versionId=3",
            "https://bucket.s3.amazonaws.com/key?versionId=3",
        ),
        ("https://x.googleapis.com/v1?key=[redacted:url-key]&alt=sse", "https://x.googleapis.com/v1?alt=sse"),
    ],
)
def test_a_url_has_one_normal_form(url: str, expected: str) -> None:
    assert normal_url(url) == expected


any_word = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)


@given(
    scheme=st.sampled_from(["http", "https"]),
    host=st.sampled_from(["localhost", "api.example.com", "[::1]"]),
    port=st.one_of(st.just(""), st.integers(1, 65535).map(lambda port: f":{port}")),
    path=st.lists(any_word, max_size=3),
    pairs=st.lists(st.tuples(any_word, any_word), max_size=3),
)
def test_the_normal_form_of_a_normal_form_is_itself(
    scheme: str, host: str, port: str, path: list[str], pairs: list[tuple[str, str]]
) -> None:
    address = "".join("/" + quote(part) for part in path)
    query = "&".join(f"{quote(name)}={quote(value)}" for name, value in pairs)

    normal = normal_url(f"{scheme}://{host}{port}{address}?{query}")

    assert normal_url(normal) == normal


@given(first=st.binary(max_size=4), second=st.binary(max_size=4))
@pytest.mark.parametrize("place", ["https://a.b/x{}", "https://a.b/?x={}", "https://a.b/?{}=x"])
def test_two_urls_that_differ_in_a_byte_stay_two(place: str, first: bytes, second: bytes) -> None:
    urls = [normal_url(place.format(quote(data, safe=""))) for data in (first, second)]

    assert (urls[0] == urls[1]) == (first == second)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([], {}),
        ([("Content-Type", "Application/JSON; charset=utf-8")], {"content-type": "application/json"}),
        ([("content-type", "")], {}),
        ([("Anthropic-Version", "2023-06-01")], {"anthropic-version": "2023-06-01"}),
        ([("anthropic-beta", "b, a ,c")], {"anthropic-beta": "a,b,c"}),
        ([("anthropic-beta", "b"), ("Anthropic-Beta", "a")], {"anthropic-beta": "a,b"}),
        ([("OpenAI-Beta", "assistants=v2")], {"openai-beta": "assistants=v2"}),
        ([("MCP-Protocol-Version", "2025-06-18")], {"mcp-protocol-version": "2025-06-18"}),
        ([("User-Agent", "x"), ("Authorization", "Bearer x"), ("X-Stainless-Retry-Count", "1"), ("Host", "a")], {}),
        ([("X-Tenant", "b,a")], {"x-tenant": "a,b"}),
    ],
)
def test_only_headers_that_change_the_answer_are_kept(headers: list[tuple[str, str]], expected: dict[str, str]) -> None:
    assert normal_headers(headers, also=["X-Tenant"]) == expected


def test_the_media_type_is_that_of_the_content_type_header_without_parameters() -> None:
    assert media_type_of([("x", "y"), ("Content-Type", " Text/Event-Stream ; charset=utf-8")]) == "text/event-stream"
    assert media_type_of([]) == ""
