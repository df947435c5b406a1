"""Secrets to stable typed tokens, before anything is hashed or written.

Pure functions on values.  A token names the kind of secret and nothing else (``[redacted:openai-key]``), so the same
request gives the same hash whoever's key made it, and redacting twice is redacting once.

Known key shapes are published by the services themselves and by the secret scanners of GitHub and GitGuardian; the
expressions are written for precision, since a redaction in ordinary prose would hide a change.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from pytest_agentreplay.canonical import parse_json
from pytest_agentreplay.errors import ConfigurationError

__all__ = ["DEFAULT_HEADERS", "SHAPES", "Redactor", "Shape", "redactor_for"]


@dataclass(frozen=True)
class Shape:
    """The shape of one kind of key: its name in the token, and what it looks like.

    ``hint`` is a literal that every such key contains; text without it is not searched.
    """

    name: str
    hint: str
    pattern: str


# A key begins where a word begins, or right after an escape sequence in the text of a JSON document.
_EDGE = r"(?:(?<![A-Za-z0-9_-])|(?<=\\[bfnrt])|(?<=\\u[0-9a-fA-F]{4}))"

SHAPES: tuple[Shape, ...] = (
    Shape("anthropic-key", "sk-ant-", _EDGE + r"sk-ant-[A-Za-z0-9_-]{16,}"),
    Shape("openrouter-key", "sk-or-", _EDGE + r"sk-or-(?:v1-)?[A-Za-z0-9]{16,}"),
    Shape("langsmith-key", "lsv2_", _EDGE + r"lsv2_(?:pt|sk)_[A-Za-z0-9_]{16,}"),
    Shape("langfuse-key", "k-lf-", _EDGE + r"[ps]k-lf-[0-9a-f-]{16,}"),
    Shape("openai-key", "sk-", _EDGE + r"sk-(?=[A-Za-z0-9_-]*[0-9])(?=[A-Za-z0-9_-]*[A-Za-z])[A-Za-z0-9_-]{20,}"),
    Shape("google-key", "AIza", _EDGE + r"AIza[A-Za-z0-9_-]{35}"),
    Shape("google-token", "ya29.", _EDGE + r"ya29\.[A-Za-z0-9_-]{20,}"),
    Shape("aws-key-id", "AKIA", _EDGE + r"AKIA[A-Z0-9]{16}(?![A-Za-z0-9])"),
    Shape("aws-key-id", "ASIA", _EDGE + r"ASIA[A-Z0-9]{16}(?![A-Za-z0-9])"),
    Shape("github-token", "gh", _EDGE + r"gh[pousr]_[A-Za-z0-9]{36,}"),
    Shape("github-token", "github_pat_", _EDGE + r"github_pat_[A-Za-z0-9_]{22,}"),
    Shape("gitlab-token", "glpat-", _EDGE + r"glpat-[A-Za-z0-9_-]{20,}"),
    Shape("slack-token", "xox", _EDGE + r"xox[abeprs]-[A-Za-z0-9-]{10,}"),
    Shape("groq-key", "gsk_", _EDGE + r"gsk_[A-Za-z0-9]{32,}"),
    Shape("xai-key", "xai-", _EDGE + r"xai-[A-Za-z0-9]{32,}"),
    Shape("huggingface-token", "hf_", _EDGE + r"hf_[A-Za-z0-9]{30,}"),
    Shape("perplexity-key", "pplx-", _EDGE + r"pplx-[A-Za-z0-9]{32,}"),
    Shape("replicate-token", "r8_", _EDGE + r"r8_[A-Za-z0-9]{32,}"),
    Shape("tavily-key", "tvly-", _EDGE + r"tvly-[A-Za-z0-9-]{20,}"),
    Shape("stripe-key", "_live_", _EDGE + r"[prs]k_live_[A-Za-z0-9]{16,}"),
    Shape("sendgrid-key", "SG.", _EDGE + r"SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}"),
    Shape("pypi-token", "pypi-", _EDGE + r"pypi-AgE[A-Za-z0-9_-]{50,}"),
    Shape("npm-token", "npm_", _EDGE + r"npm_[A-Za-z0-9]{36}"),
    Shape("jwt", "eyJ", _EDGE + r"eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}"),
    Shape(
        "private-key",
        "PRIVATE KEY-----",
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END [A-Z ]*PRIVATE KEY-----",
    ),
)

# Headers whose value is a secret or names an account, in lower case.
DEFAULT_HEADERS: frozenset[str] = frozenset(
    {
        "api-key",
        "authorization",
        "cookie",
        "ocp-apim-subscription-key",
        "openai-organization",
        "openai-project",
        "proxy-authorization",
        "set-cookie",
        "x-amz-security-token",
        "x-api-key",
        "x-auth-token",
        "x-goog-api-key",
        "x-goog-user-project",
    }
)

_KEY_PARAMETERS = frozenset({"key", "api_key", "apikey", "api-key", "access_token", "token", "sig", "signature"})
_SSE_DATA = re.compile(r"^(data:[ ]?)(.*?)(\r?)$", re.MULTILINE)


def _token(kind: str) -> str:
    return f"[redacted:{kind}]"


@dataclass(frozen=True)
class Redactor:
    """What counts as a secret.  Make one with :func:`redactor_for`."""

    shapes: tuple[tuple[str, str, re.Pattern[str]], ...]
    headers: frozenset[str]

    def describe(self) -> dict[str, Any]:
        """Return what this redactor does as JSON, for the digest of the rule set."""
        return {
            "shapes": [[name, pattern.pattern] for name, _, pattern in self.shapes],
            "headers": sorted(self.headers),
        }

    def text(self, text: str) -> str:
        """Return ``text`` with every key in it replaced by its token."""
        for name, hint, pattern in self.shapes:
            if hint in text:
                text = pattern.sub(_token(name), text)
        return text

    def value(self, value: Any) -> Any:
        """Return a JSON value with its strings and keys redacted; the same object where nothing changed."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return self._dict(value)
        if isinstance(value, list):
            changed = None
            for index, element in enumerate(value):
                redacted = self.value(element)
                if redacted is not element:
                    changed = value[:] if changed is None else changed
                    changed[index] = redacted
            return value if changed is None else changed
        return value

    def _dict(self, value: dict[str, Any]) -> dict[str, Any]:
        changed = False
        redacted = {}
        for key, element in value.items():
            kept = self.value(element)
            name = self.text(key)
            redacted[name] = kept
            changed = changed or kept is not element or name != key
        return redacted if changed else value

    def header(self, name: str, value: str) -> str:
        """Return the value of a header, or its token where the header is a secret as a whole."""
        if name.lower() in self.headers:
            return _token(name.lower())
        return self.text(value)

    def url(self, url: str) -> str:
        """Return a URL without user, password and keys; query pairs that carry a key's name get a token."""
        parts = urlsplit(url)
        if not parts.query and "@" not in parts.netloc:
            return self._path_only(url)
        netloc = parts.netloc.rpartition("@")[2]
        pairs = [
            (name, self._parameter(name, value, host=netloc))
            for name, value in parse_qsl(parts.query, keep_blank_values=True)
        ]
        return parts._replace(netloc=netloc, path=self._path_only(parts.path), query=urlencode(pairs)).geturl()

    def _path_only(self, path: str) -> str:
        redacted = self.text(unquote(path))
        return path if redacted == unquote(path) else quote(redacted, safe="/:[]")

    def _parameter(self, name: str, value: str, *, host: str) -> str:
        if name.lower() in _KEY_PARAMETERS and (host.endswith("googleapis.com") or looks_like_key(value)):
            return _token("url-key")
        return self.text(value)

    def field(self, name: str, value: str) -> str:
        """Return the value of a form field, or a token where its name and look say that it is a key."""
        if name.lower() in _KEY_PARAMETERS and looks_like_key(value):
            return _token("form-key")
        return self.text(value)

    def content(self, content: bytes, *, media_type: str) -> bytes:
        """Return the bytes of an answer redacted; in a stream also keys that are split over several events."""
        try:
            text = content.decode("utf-8")
        except UnicodeDecodeError:
            return content
        redacted = self.text(text)
        if media_type == "text/event-stream":
            redacted = self._event_stream(redacted)
        return content if redacted == text else redacted.encode("utf-8")

    def _event_stream(self, text: str) -> str:
        """Redact keys whose pieces arrive in the same field of successive events."""
        events = list(_SSE_DATA.finditer(text))
        values = [_parse_or_none(event.group(2)) for event in events]
        tracks: dict[tuple[str | int, ...], list[tuple[int, str]]] = {}
        for position, value in enumerate(values):
            for path, leaf in _string_leaves(value, ()):
                if path:
                    tracks.setdefault(path, []).append((position, leaf))
        changed: set[int] = set()
        for path, leaves in tracks.items():
            for position, leaf in self._split_leaves(leaves):
                _set_leaf(values[position], path, leaf)
                changed.add(position)
        return _rewrite_events(text, events=events, values=values, changed=changed)

    def _split_leaves(self, leaves: Sequence[tuple[int, str]]) -> Iterable[tuple[int, str]]:
        joined = "".join(leaf for _, leaf in leaves)
        spans = list(self._spans(joined))
        if not spans:
            return
        start = 0
        for position, leaf in leaves:
            end = start + len(leaf)
            kept = _without_spans(joined, spans=spans, start=start, end=end)
            if kept != leaf:
                yield position, kept
            start = end

    def _spans(self, text: str) -> Iterable[tuple[int, int, str]]:
        taken: list[tuple[int, int]] = []
        for name, hint, pattern in self.shapes:
            if hint in text:
                for match in pattern.finditer(text):
                    if not any(start < match.end() and match.start() < end for start, end in taken):
                        taken.append(match.span())
                        yield (*match.span(), _token(name))


def redactor_for(*, patterns: Iterable[str] = (), headers: Iterable[str] = ()) -> Redactor:
    """Return the redactor of the known key shapes and headers, and of the given ones.

    ``patterns`` are regular expressions, each optionally as ``NAME=EXPRESSION``; what matches becomes
    ``[redacted:NAME]``.  Raises :class:`ConfigurationError` for one that does not compile or matches nothing.
    """
    own = tuple(_compile_own(pattern) for pattern in patterns)
    known = tuple((shape.name, shape.hint, re.compile(shape.pattern, re.DOTALL)) for shape in SHAPES)
    return Redactor(shapes=own + known, headers=DEFAULT_HEADERS | {name.lower() for name in headers})


def looks_like_key(value: str) -> bool:
    """Return whether a value has the look of a generated key: long, one word, letters and digits mixed."""
    return (
        len(value) >= 16
        and re.fullmatch(r"[A-Za-z0-9._~+/=-]+", value) is not None
        and any(letter.isdigit() for letter in value)
        and any(letter.isalpha() for letter in value)
    )


def _compile_own(pattern: str) -> tuple[str, str, re.Pattern[str]]:
    named = re.fullmatch(r"([a-z][a-z0-9-]*)=(.+)", pattern, re.DOTALL)
    name, expression = named.groups() if named else ("pattern", pattern)
    try:
        compiled = re.compile(expression)
    except re.error as error:
        raise ConfigurationError(f"redaction pattern {pattern!r} is no regular expression: {error}") from error
    if compiled.match(""):
        raise ConfigurationError(f"redaction pattern {pattern!r} matches the empty string")
    return name, "", compiled


def _parse_or_none(text: str) -> Any:
    try:
        return parse_json(text.encode("utf-8"))
    except ValueError:
        return None


def _string_leaves(value: Any, path: tuple[str | int, ...]) -> Iterable[tuple[tuple[str | int, ...], str]]:
    if isinstance(value, str):
        yield path, value
        return
    items: Iterable[tuple[str | int, Any]] = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    for key, element in items:
        yield from _string_leaves(element, (*path, key))


def _set_leaf(value: Any, path: tuple[str | int, ...], leaf: str) -> None:
    for key in path[:-1]:
        value = value[key]
    value[path[-1]] = leaf


def _without_spans(text: str, *, spans: Sequence[tuple[int, int, str]], start: int, end: int) -> str:
    """Return ``text[start:end]`` without the spans; a span's token stands where the span begins."""
    out = []
    at = start
    for first, last, token in sorted(spans):
        if last <= at or first >= end:
            continue
        out.append(text[at : max(first, at)])
        if first >= start:
            out.append(token)
        at = min(last, end)
    out.append(text[at:end])
    return "".join(out)


def _rewrite_events(text: str, *, events: Sequence[re.Match[str]], values: Sequence[Any], changed: set[int]) -> str:
    out = []
    at = 0
    for position in sorted(changed):
        event = events[position]
        out += [text[at : event.start(2)], _dump(values[position])]
        at = event.end(2)
    return "".join([*out, text[at:]])


def _dump(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
