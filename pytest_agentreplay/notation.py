"""How rules are written in settings: each is read, or refused with what would be understood.

Standard library only: a wrong rule is refused before any test runs, so that nothing heavy is there yet.
"""

from __future__ import annotations

import re

from pytest_agentreplay.errors import ConfigurationError

__all__ = [
    "check_background",
    "check_header",
    "check_host",
    "check_redacted_header",
    "check_redacted_name",
    "check_redacted_variable",
    "check_redaction",
    "read_ignore",
    "read_redaction",
    "split_mark",
]

_STEP = r"\.([^.\[\]]+)|\[(\*|0|-?[1-9]\d*)\]|\[['\"](.+?)['\"]\]"
_NAMED = r"([a-z][a-z0-9-]*)=(.+)"
_HEADER = r"[\w!#$%&'+.^`|~-]+"
_ADDRESS = r"(?:[^/]*://)?(?:[^/@]*@)?(?:\[([^\]/]*:[^\]/]*)\]|([^/:]*))(?::\d*)?(?:/.*)?"


def read_ignore(rule: str) -> tuple[tuple[str, ...], re.Pattern[str] | None]:
    """Return the path and the expression of a rule ``$.path.to[*].value`` or ``$.path =~ EXPRESSION``.

    Raises :class:`ConfigurationError` when it is neither.
    """
    path, matcher, expression = (part.strip() for part in rule.partition("=~"))
    steps = re.findall(_STEP, path[1:])
    is_whole = path.startswith("$") and not re.sub(_STEP, "", path[1:])
    if not is_whole or not steps or bool(matcher) != bool(expression):
        raise ConfigurationError(
            f"rule {rule!r} is not understood; write a path such as '$.messages[0].content', "
            "or '$.system =~ \\d{4}-\\d{2}-\\d{2}' to ignore only what matches"
        )
    return tuple("".join(groups) for groups in steps), _compile(expression, of=rule) if expression else None


def read_redaction(pattern: str) -> tuple[str, re.Pattern[str]]:
    """Return the name, ``pattern`` where it has none, and the expression of ``NAME=EXPRESSION`` or ``EXPRESSION``.

    Raises :class:`ConfigurationError` for an expression that does not compile or that matches the empty string.
    """
    named = re.fullmatch(_NAMED, pattern, re.DOTALL)
    name, expression = named.groups() if named else ("pattern", pattern)
    compiled = _compile(expression, of=pattern)
    if compiled.match(""):
        raise ConfigurationError(f"{pattern!r} matches the empty string, so everywhere; write what a secret looks like")
    return name, compiled


def split_mark(entry: str) -> tuple[str, str]:
    """Return the mark of an entry that adds to a list (``+``) or replaces it (``=``), and the entry without it."""
    return (entry[0], entry[1:].strip()) if entry.startswith(("+", "=")) else ("", entry)


def check_redaction(entry: str) -> None:
    """Refuse an entry with a pattern that :func:`read_redaction` refuses."""
    read_redaction(split_mark(entry)[1])


def check_host(host: str) -> None:
    """Refuse what is no host: a rule about hosts knows no scheme, no port and no path, and is about one of them."""
    _check_one(host, what="host")
    address = re.fullmatch(_ADDRESS, host)
    meant = next(filter(None, address.groups()), "") if address else host
    has_port = host.count(":") == 1 and not re.fullmatch(r"[0-9A-Fa-f*?]+:\*", host)  # that is a network of IPv6
    if meant != host or "/" in host or has_port:
        is_network = re.fullmatch(r"[\d.]+/\d+", host)
        hint = f"; write {meant!r}" if meant not in ("", host) and not is_network else ""
        raise ConfigurationError(f"{host!r} is no host: a scheme, a port or a path is no part of it{hint}")


def check_background(place: str) -> None:
    """Refuse what is no ``HOST`` or ``HOST/PATH``."""
    _check_one(place, what="host or host/path")
    bare = re.sub(r"^[A-Za-z][A-Za-z0-9+.-]*://", "", place)
    if bare != place:
        hint = f"; write {bare!r}" if bare else ""
        raise ConfigurationError(f"{place!r} is no host or host/path: a scheme is no part of it{hint}")
    if place.startswith("/") or "*" in place:
        raise ConfigurationError(
            f"{place!r} is no host or host/path; it begins with a host's name, and has no wildcard"
        )


def check_header(name: str) -> None:
    """Refuse what cannot be a header's name."""
    if not re.fullmatch(_HEADER, name, re.ASCII):
        raise ConfigurationError(f"{name!r} is no header's name; write it alone, as 'x-tenant'")


def check_redacted_header(entry: str) -> None:
    """Refuse an entry that names no header; a bare ``=`` says that none is meant."""
    if entry != "=":
        check_header(split_mark(entry)[1])


def check_redacted_name(entry: str) -> None:
    """Refuse an entry that names nothing; a bare ``=`` says that nothing is meant."""
    if entry != "=" and not split_mark(entry)[1].strip():
        raise ConfigurationError(f"{entry!r} names nothing; write the key of a JSON object, as 'customer_ref'")


def check_redacted_variable(entry: str) -> None:
    """Refuse an entry that names no environment variable; a bare ``=`` says that none is meant."""
    if entry != "=" and not re.fullmatch(r"[^\s=,$]+", split_mark(entry)[1]):
        raise ConfigurationError(f"{entry!r} is no variable's name; write it alone, as 'SERVICE_TOKEN'")


def _check_one(text: str, *, what: str) -> None:
    if not text or re.search(r"[\s,]", text):
        raise ConfigurationError(
            f"{text!r} is not one {what}; write each as an entry, or in the ini file a line, of its own"
        )


def _compile(expression: str, *, of: str) -> re.Pattern[str]:
    try:
        return re.compile(expression)
    except (re.error, OverflowError, RecursionError, Warning) as error:
        raise ConfigurationError(f"in {of!r} the expression does not compile: {error}") from error
