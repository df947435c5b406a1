"""What stands before a body, the URL and the headers, in normal form: without what changes from run to run."""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

__all__ = ["HASHED_HEADERS", "media_type_of", "normal_headers", "normal_url"]

HASHED_HEADERS = frozenset({"anthropic-version", "anthropic-beta", "openai-beta", "mcp-protocol-version"})
_DEFAULT_PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443}
_EPHEMERAL_FROM = 32768
_LOOPBACK = re.compile(r"localhost|127(?:\.\d+){3}|::1|.*\.localhost")
_SAFE = "/:@!$&'()*+,;=~-._[]"


def normal_url(url: str) -> str:
    """Return a URL in normal form.

    Scheme and host in lower case, the path percent-decoded and encoded again, query pairs sorted, default ports and
    ephemeral loopback ports (32768 and above) dropped, and so are ``X-Amz-*`` pairs and the fragment.
    """
    parts = urlsplit(url)
    scheme = parts.scheme.lower()
    pairs = sorted(
        (name, value)
        for name, value in parse_qsl(parts.query, keep_blank_values=True, errors="surrogateescape")
        if not name.lower().startswith("x-amz-") and value != "[redacted:url-key]"
    )
    path = quote(unquote(parts.path, errors="surrogateescape").encode("utf-8", "surrogateescape"), safe=_SAFE)
    query = urlencode(pairs, quote_via=quote, safe="[]:,/@", errors="surrogateescape")
    return f"{scheme}://{_normal_host(parts.netloc, scheme=scheme)}{path or '/'}" + (f"?{query}" if query else "")


def _normal_host(netloc: str, *, scheme: str) -> str:
    host, port = _split_host(netloc.rpartition("@")[2].lower())
    if port is None or port == _DEFAULT_PORTS.get(scheme):
        return host
    if port >= _EPHEMERAL_FROM and _LOOPBACK.fullmatch(host.strip("[]")):
        return host
    return f"{host}:{port}"


def _split_host(netloc: str) -> tuple[str, int | None]:
    host, colon, port = netloc.rpartition(":")
    if colon and port.isdigit() and "]" not in port:
        return host, int(port)
    return netloc.removesuffix(":"), None


def media_type_of(headers: Iterable[tuple[str, str]]) -> str:
    """Return the media type of a message in lower case, without parameters; empty when it names none."""
    for name, value in headers:
        if name.lower() == "content-type":
            return value.partition(";")[0].strip().lower()
    return ""


def normal_headers(headers: Iterable[tuple[str, str]], *, also: Iterable[str] = ()) -> dict[str, str]:
    """Return those headers that change the answer, by lower-case name; comma lists sorted."""
    wanted = HASHED_HEADERS | {name.lower() for name in also}
    kept: dict[str, str] = {}
    media_type = ""
    for name, value in headers:
        lower = name.lower()
        if lower == "content-type":
            media_type = value.partition(";")[0].strip().lower()
        elif lower in wanted:
            kept[lower] = f"{kept[lower]},{value}" if lower in kept else value
    kept = {name: ",".join(sorted(part.strip() for part in value.split(","))) for name, value in kept.items()}
    return kept | ({"content-type": media_type} if media_type else {})
