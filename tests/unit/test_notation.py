"""Rules as they are written in settings: what is understood, and what is said of the rest."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pytest_agentreplay.errors import ConfigurationError
from pytest_agentreplay.notation import (
    check_background,
    check_header,
    check_host,
    check_redacted_header,
    check_redacted_name,
    check_redacted_variable,
    check_redaction,
    split_mark,
)
from pytest_agentreplay.settings import DEFAULT_BACKGROUND


@pytest.mark.parametrize(
    ("check", "entry"),
    [
        (check_host, "api.openai.com"),
        (check_host, "*.example.com"),
        (check_host, "*"),
        (check_host, "10.0.0.[0-9]"),
        (check_host, "::1"),
        (check_host, "fe80::1%eth0"),
        (check_host, "fe80::*"),
        (check_host, "fd00:*"),
        (check_host, "bücher.example"),
        (check_background, "api.example.com"),
        (check_background, "localhost:4318/v1/traces/"),
        (check_background, "example.com/to?url=http://other.example.com"),
        *((check_background, place) for place in DEFAULT_BACKGROUND),
        (check_header, "X-Tenant"),
        (check_header, "x_tenant.2"),
        (check_redacted_header, "+x-tenant"),
        (check_redacted_header, "= x-tenant"),
        (check_redacted_header, "="),
        (check_redacted_name, "customer ref"),
        (check_redacted_name, "="),
        (check_redacted_variable, "=SERVICE_TOKEN"),
        (check_redacted_variable, "="),
        (check_redaction, "+order=ORD-[0-9]+"),
        (check_redaction, "=ORD-[0-9]+"),
    ],
)
def test_what_can_be_meant_is_let_through(check: Callable[[str], None], entry: str) -> None:
    check(entry)


@pytest.mark.parametrize(
    ("host", "meant"),
    [
        ("http://api.example.com", "api.example.com"),
        ("https://user@api.example.com:8080/v1/chat?a=b", "api.example.com"),
        ("https://*.example.com", "*.example.com"),
        ("api.example.com/", "api.example.com"),
        ("api.example.com/v1", "api.example.com"),
        ("api.example.com:443", "api.example.com"),
        ("http://[::1]:8080/v1", "::1"),
        ("[::1]", "::1"),
    ],
)
def test_what_holds_more_than_a_host_is_refused_with_the_host(host: str, meant: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        check_host(host)

    assert str(caught.value) == (f"{host!r} is no host: a scheme, a port or a path is no part of it; write {meant!r}")


def test_a_network_is_refused_and_no_single_address_is_advised_for_it() -> None:
    with pytest.raises(ConfigurationError, match=r"of it$"):
        check_host("10.0.0.0/8")


@pytest.mark.parametrize(
    ("check", "entry", "message"),
    [
        (check_host, "", "'' is not one host; write each"),
        (check_host, "http://", "'http://' is no host: a scheme, a port or a path is no part of it"),
        (check_host, "localhost:*", "'localhost:*' is no host"),
        (check_host, "a.com b.com", "'a.com b.com' is not one host; write each as an entry, or in the ini file a line"),
        (check_host, "a.com,", "'a.com,' is not one host; write each"),
        (check_background, "", "'' is not one host or host/path; write each"),
        (check_background, "a.com b.com/x", "'a.com b.com/x' is not one host or host/path; write each"),
        (
            check_background,
            "https://a.com/x",
            "'https://a.com/x' is no host or host/path: a scheme is no part of it; write",
        ),
        (
            check_background,
            "*.a.com",
            "'*.a.com' is no host or host/path; it begins with a host's name, and has no wildcard",
        ),
        (check_background, "/v1/traces", "'/v1/traces' is no host or host/path; it begins with"),
        (check_header, "", "'' is no header's name; write it alone, as 'x-tenant'"),
        (check_header, "X-Tenant: seven", "'X-Tenant: seven' is no header's name"),
        (check_header, "x-*", "'x-*' is no header's name"),
        (check_redacted_header, "+", "'' is no header's name"),
        (check_redacted_header, "a, b", "'a, b' is no header's name"),
        (check_redacted_name, "", "'' names nothing"),
        (check_redacted_name, "+ ", "'+ ' names nothing"),
        (check_redacted_variable, "A=b", "'A=b' is no variable's name"),
        (check_redacted_variable, "A B", "'A B' is no variable's name"),
        (check_redacted_variable, "$A", "'$A' is no variable's name; write it alone, as 'SERVICE_TOKEN'"),
        (check_redaction, "=order=(", "in 'order=(' the expression does not compile"),
        (check_redaction, "+x*", "'x*' matches the empty string"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_what_would_be(
    check: Callable[[str], None], entry: str, message: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        check(entry)

    assert str(caught.value).startswith(message)


@pytest.mark.filterwarnings("error")
def test_an_expression_that_python_warns_of_is_refused_where_warnings_are_errors() -> None:
    with pytest.raises(
        ConfigurationError, match="in '\\[\\[a\\]' the expression does not compile: Possible nested set"
    ):
        check_redaction("[[a]")


def test_a_mark_is_told_from_the_entry_that_it_is_on() -> None:
    assert [split_mark(entry) for entry in ("a", "+ a", "=a", "a=b")] == [
        ("", "a"),
        ("+", "a"),
        ("=", "a"),
        ("", "a=b"),
    ]
