from __future__ import annotations

import http.client
import socket
import ssl

import httpx
import pytest

from pytest_agentreplay.taps.failures import describe_failure, os_error

KINDS = {"ConnectError": "connect", "ReadTimeout": "read-timeout", "RemoteProtocolError": "protocol"}


def caused(error: BaseException, cause: BaseException) -> BaseException:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ConnectionRefusedError(), "refused"),
        (socket.gaierror(-2, "unknown"), "dns"),
        (ssl.SSLCertVerificationError(1, "no"), "certificate"),
        (ssl.SSLError(1, "no"), "tls"),
        (ConnectionResetError(), "reset"),
        (BrokenPipeError(), "reset"),
        (http.client.RemoteDisconnected(), "disconnected"),
        (http.client.IncompleteRead(b""), "cut"),
        (http.client.IncompleteRead(b"", 5), "short"),
        (TimeoutError(), "read-timeout"),
        (httpx.ConnectError("no"), "connect"),
        (caused(httpx.ConnectError("no"), ConnectionRefusedError()), "refused"),
        (caused(httpx.ConnectError("no"), OSError("all failed", socket.gaierror())), "dns"),
        (caused(httpx.ConnectError("no"), ExceptionGroup("all", [ConnectionRefusedError()])), "refused"),
        (caused(httpx.ReadTimeout("no"), ConnectionResetError()), "read-timeout"),
        (ValueError("no"), "other"),
    ],
)
def test_a_failure_is_told_by_its_class_and_by_what_stands_behind_it(error: BaseException, kind: str) -> None:
    found = describe_failure(error, client="c", phase="connect", kinds=KINDS)  # type: ignore[arg-type]

    assert (found.client, found.class_name, found.kind) == ("c", type(error).__name__, kind)


def test_errors_that_stand_for_each_other_are_looked_at_once() -> None:
    first, second = ValueError("one"), ValueError("two")
    first.__context__, second.__context__ = second, first

    assert describe_failure(first, client="c", phase="body", kinds={}).kind == "other"


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("refused", ConnectionRefusedError),
        ("dns", socket.gaierror),
        ("certificate", ssl.SSLCertVerificationError),
        ("read-timeout", TimeoutError),
        ("reset", ConnectionResetError),
        ("disconnected", http.client.RemoteDisconnected),
        ("cut", http.client.IncompleteRead),
        ("unheard-of", OSError),
    ],
)
def test_each_kind_has_an_error_of_the_standard_library(kind: str, error: type[Exception]) -> None:
    assert type(os_error(kind, "text")) is error


def test_the_words_of_a_certificate_error_are_found_in_what_a_client_has_wrapped_it_in() -> None:
    text = "Cannot connect [SSLCertVerificationError: (1, '[SSL: CERTIFICATE_VERIFY_FAILED] self-signed')]"

    assert str(os_error("certificate", text)) == "[SSL: CERTIFICATE_VERIFY_FAILED] self-signed"
