"""Secrets to tokens in values, text, headers, URLs and the bytes of answers; pure functions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from pytest_agentreplay.notation import read_redaction, split_mark
from pytest_agentreplay.redact.environment import EnvironmentSecrets
from pytest_agentreplay.redact.shapes import (
    DEFAULT_HEADERS,
    DEFAULT_JSON_NAMES,
    SHAPES,
    json_name,
    looks_like_key,
    named_in_text,
)
from pytest_agentreplay.redact.streams import Span, redact_event_stream

__all__ = ["Redactor", "redactor_for"]

_TOKEN = re.compile(r"\[redacted:[a-zA-Z0-9_-]+\]")
_MARKS = ("_", "-", "=", "9", "A", "G", "J")
_KEY_PARAMETERS = frozenset({"accesstoken", "apikey", "key", "sig", "signature", "token"})
_COOKIE = re.compile(r"(?P<name>[^=;,\s]+)=[^;]*(?P<rest>(?:;.*)?)", re.DOTALL)
_EXPIRY = re.compile(r";\s*(?:expires|max-age)=[^;]*", re.IGNORECASE)
_NETLOC = re.compile(r"(.*?)((?::[0-9]*)?)", re.DOTALL)


@dataclass(frozen=True)
class _Rule:
    """One kind of secret in text: its token, a literal it contains (or nothing), and what it looks like."""

    token: str
    hint: str
    pattern: re.Pattern[str]
    is_known_shape: bool = False
    needed: str = ""  # a character that each holds besides those of the hint

    @property
    def mark(self) -> str:
        """A character of each that most text does not have: one look for it saves a look for many hints."""
        return self.needed or next((mark for mark in _MARKS if mark in self.hint), "")

    def spans(self, text: str) -> Iterable[Span]:
        group = "secret" if "secret" in self.pattern.groupindex else 0
        if self.hint in text:
            places = [match.span(group) for match in self.pattern.finditer(text)]
            yield from _outside_tokens([(start, end, self.token) for start, end in places if start < end], text)


@dataclass(frozen=True)
class Redactor:
    """What counts as a secret.  Make one with :func:`redactor_for`."""

    rules: tuple[_Rule, ...]
    headers: frozenset[str]
    json_names: frozenset[str]
    environment: EnvironmentSecrets = field(compare=False)

    def look(self) -> None:
        """Take in the secrets that have been set in the environment since: before each exchange."""
        self.environment.look()

    def describe(self) -> dict[str, Any]:
        """Return what this redactor does as JSON, for the digest of the rule set.

        The environment is left out: it differs from machine to machine, and its tokens stay as they are.
        """
        return {
            "rules": [[rule.token, rule.pattern.pattern] for rule in self.rules],
            "headers": sorted(self.headers),
            "json": sorted(self.json_names),
        }

    def text(self, text: str) -> str:
        """Return ``text`` with every secret in it replaced by its token; a second time changes nothing."""
        redacted = self._text_once(text)
        while redacted != text:  # a key that was hidden by the one before it begins a word now
            text, redacted = redacted, self._text_once(redacted)
        return redacted

    def _text_once(self, text: str) -> str:
        for rule in self._rules_for(text):
            text = _replace_spans(text, list(rule.spans(text)))
        for name, value in self.environment.pairs:
            if value in text:
                text = _replace_spans(text, _value_spans(name, value, text))
        return text

    def _rules_for(self, text: str) -> list[_Rule]:
        """Return the rules whose secrets a text may hold, in their order."""
        places = [place for mark, hints in self._hints if mark in text for place, hint in hints if hint in text]
        return [self.rules[place] for place in sorted(places)]

    @cached_property
    def _hints(self) -> list[tuple[str, list[tuple[int, str]]]]:
        """The places of the rules with their hints, by a character that each of their secrets has."""
        hints: dict[str, list[tuple[int, str]]] = {}
        for place, rule in enumerate(self.rules):
            hints.setdefault(rule.mark, []).append((place, rule.hint))
        return list(hints.items())

    def spans(self, text: str, *, known_only: bool = False) -> list[Span]:
        """Return where secrets are in ``text``; of two that overlap, the one whose rule comes first.

        With ``known_only``, only keys of known shapes and values of the environment.
        """
        found: list[Span] = []
        for span in self._all_spans(text, known_only=known_only):
            if not any(start < span[1] and span[0] < end for start, end, _ in found):
                found.append(span)
        return sorted(found)

    def value(self, value: Any) -> Any:
        """Return a JSON value with its strings and keys redacted; the same object where nothing changed."""
        try:
            return self._value(value)
        except RecursionError:  # the value is deep, or the caller's stack is
            return self._deep_value(value)

    def _value(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return self._dict(value)
        if isinstance(value, list):
            changed = None
            for index, element in enumerate(value):
                redacted = self._value(element)
                if redacted is not element:
                    changed = value[:] if changed is None else changed
                    changed[index] = redacted
            return value if changed is None else changed
        return value

    def header(self, name: str, value: str) -> str:
        """Return the value of a header, or its token where the header is a secret as a whole; a cookie keeps its name.

        When a cookie expires is left out: a recording is read at any time.
        """
        if name.lower() not in self.headers:
            return self.text(value)
        cookie = _COOKIE.fullmatch(value) if name.lower() == "set-cookie" else None
        if cookie is None:
            return _token(name.lower())
        return self.text(cookie["name"]) + "=" + _token("set-cookie") + _EXPIRY.sub("", self.text(cookie["rest"]))

    def url(self, url: str) -> str:
        """Return a URL without user, password and keys; query pairs that carry a key's name get a token."""
        parts = urlsplit(url)
        netloc = self._netloc(parts.netloc.rpartition("@")[2])
        pairs = [
            (name, self._parameter(name, value, host=parts.hostname or ""))
            for name, value in parse_qsl(parts.query, keep_blank_values=True, errors="surrogateescape")
        ]
        query = urlencode(pairs, errors="surrogateescape")
        kept = {"path": self._path(parts.path), "fragment": self._path(parts.fragment)}
        return parts._replace(netloc=netloc, query=query, **kept).geturl()

    def field(self, name: str, value: str) -> str:
        """Return the value of a form field, or a token where its name says that it is a secret."""
        if json_name(name) in self.json_names or (json_name(name) in _KEY_PARAMETERS and looks_like_key(value)):
            return _token("form-key")
        return self.text(value)

    def content(self, content: bytes, *, media_type: str) -> bytes:
        """Return the bytes of an answer redacted; in a stream also secrets that are split over several events."""
        encoding = "utf-8"
        try:
            text = content.decode(encoding)
        except UnicodeDecodeError:  # secrets are ASCII in any encoding that is told by its bytes
            encoding = "latin-1"
            text = content.decode(encoding)
        redacted = text
        if media_type == "text/event-stream":
            redacted = redact_event_stream(redacted, find_spans=self.spans)
        redacted = self.text(redacted)
        return content if redacted == text else redacted.encode(encoding)

    def _all_spans(self, text: str, *, known_only: bool) -> Iterable[Span]:
        for rule in self.rules:
            if rule.is_known_shape or not known_only:
                yield from rule.spans(text)
        for name, value in self.environment.pairs:
            yield from _value_spans(name, value, text)

    def _dict(self, value: dict[str, Any]) -> dict[str, Any]:
        changed = False
        redacted = {}
        for key, element in value.items():
            kept = self._entry(key, element)
            name = self.text(key)
            redacted[name] = kept
            changed = changed or kept is not element or name != key
        return redacted if changed else value

    def _entry(self, key: str, element: Any) -> Any:
        if isinstance(element, str) and element and json_name(key) in self.json_names:
            # As in the text of a document: an agent sends back in a request what an answer told it.
            kept = self.text(element)
            return kept if kept.startswith("[redacted:") else _token("json-field")
        return self._value(element)

    def _deep_value(self, value: Any) -> Any:
        """Return what :meth:`value` does, always a copy, whatever the depth."""
        root: list[Any] = [value]
        pending: list[tuple[Any, Any]] = [(root, 0)]
        while pending:
            parent, step = pending.pop()
            inner = parent[step]
            if isinstance(inner, dict):
                parent[step] = {
                    self.text(key): self._entry(key, element) if isinstance(element, str) else element
                    for key, element in inner.items()
                }
                pending += [
                    (parent[step], key) for key, element in parent[step].items() if not isinstance(element, str)
                ]
            elif isinstance(inner, list):
                parent[step] = inner[:]
                pending += [(parent[step], index) for index in range(len(inner))]
            elif isinstance(inner, str):
                parent[step] = self.text(inner)
        return root[0]

    def _netloc(self, netloc: str) -> str:
        parts = _NETLOC.fullmatch(netloc)
        host, port = parts.groups() if parts else (netloc, "")
        redacted = self.text(host)
        if redacted != host:
            host = re.sub(r"[\[\]:]+", "-", redacted).strip("-")  # a host may hold no brackets and no colon
        return host + (port if self.text(port) == port else "")

    def _path(self, path: str) -> str:
        redacted = self.text(unquote(path))
        return path if redacted == unquote(path) else quote(redacted, safe="/:[]")

    def _parameter(self, name: str, value: str, *, host: str) -> str:
        is_named = json_name(name) in _KEY_PARAMETERS | self.json_names
        if is_named and (host.endswith("googleapis.com") or looks_like_key(value)):
            return _token("url-key")
        return self.text(value)


def redactor_for(
    *,
    patterns: Iterable[str] = (),
    headers: Iterable[str] = (),
    json_names: Iterable[str] = (),
    variables: Iterable[str] = (),
    environment: Mapping[str, str] | None = None,
) -> Redactor:
    """Return the redactor of the built-in rules and the user's.

    ``patterns`` are regular expressions, each optionally as ``NAME=EXPRESSION``: what matches becomes
    ``[redacted:NAME]``.  ``variables`` name variables of ``environment``, which is looked at again before each
    exchange.  Each list adds to the built-in rules (key
    shapes, headers, JSON keys, the variables that look like secrets), or replaces them where an entry is written with
    a leading ``=`` (a leading ``+`` adds).  Raises :class:`ConfigurationError` for a pattern that does not compile or
    that matches the empty string.
    """
    patterns, variables = tuple(patterns), tuple(variables)
    names = frozenset(json_name(name) for name in _changed(json_names, DEFAULT_JSON_NAMES) if name)
    known = [
        _Rule(
            _token(shape.name),
            shape.hint,
            re.compile(shape.pattern, re.DOTALL),
            is_known_shape=True,
            needed=shape.mark,
        )
        for shape in (() if _replaces(patterns) else SHAPES)
    ]
    in_text = [_Rule(_token("json-field"), '"', pattern) for pattern in named_in_text(names)]
    return Redactor(
        rules=(*map(_compile, _changed(patterns, ())), *known, *in_text),
        headers=frozenset(name.lower() for name in _changed(headers, DEFAULT_HEADERS)),
        json_names=names,
        environment=EnvironmentSecrets(
            {} if environment is None else environment,
            named=_changed(variables, ()),
            by_look=not _replaces(variables),
        ),
    )


def _token(kind: str) -> str:
    return f"[redacted:{kind}]"


def _value_spans(name: str, value: str, text: str) -> list[Span]:
    token = _token(f"env-{name}")
    return _outside_tokens([(*match.span(), token) for match in re.finditer(re.escape(value), text)], text)


def _outside_tokens(spans: list[Span], text: str) -> list[Span]:
    """Return the spans that are not part of what redaction has put there itself; one that cuts a token takes it whole.

    So each replacement leaves less text that is no token, or fewer tokens, and redaction comes to an end.
    """
    if not spans or "[redacted:" not in text:
        return spans
    tokens = [match.span() for match in _TOKEN.finditer(text)]
    found: list[Span] = []
    for start, end, token in spans:
        cut = [place for place in tokens if place[0] < end and start < place[1]]
        if cut and cut[0][0] <= start and end <= cut[0][1]:
            continue
        if cut:
            start, end = min(start, cut[0][0]), max(end, cut[-1][1])
        if found and start < found[-1][1]:
            start, end = found[-1][0], max(end, found.pop()[1])
        found.append((start, end, token))
    return found


def _replace_spans(text: str, spans: Iterable[Span]) -> str:
    out = []
    at = 0
    for start, end, token in spans:
        out += [text[at:start], token]
        at = end
    return "".join([*out, text[at:]])


def _changed(given: Iterable[str], known: Iterable[str]) -> Iterable[str]:
    given = tuple(given)
    return (*(() if _replaces(given) else known), *(split_mark(entry)[1] for entry in given))


def _replaces(given: Iterable[str]) -> bool:
    return any(split_mark(entry)[0] == "=" for entry in given)


def _compile(pattern: str) -> _Rule:
    name, compiled = read_redaction(pattern)
    return _Rule(_token(name), "", compiled)
