"""What secrets look like: known key shapes, and the names under which headers and JSON keep them.

The shapes are published by the services themselves and by the secret scanners of GitHub and GitGuardian; the
expressions are written for precision, since a redaction in ordinary prose would hide a change.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

__all__ = [
    "DEFAULT_HEADERS",
    "DEFAULT_JSON_NAMES",
    "SHAPES",
    "Shape",
    "environment_secrets",
    "json_name",
    "looks_like_key",
    "named_in_text",
]


@dataclass(frozen=True)
class Shape:
    """The shape of one kind of secret: its name in the token, and what it looks like.

    ``hint`` is a literal that every such secret contains; text without it is not searched.  ``mark`` is a character
    that each contains too and most text does not, where the hint has none.
    """

    name: str
    hint: str
    pattern: str
    mark: str = ""


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
    Shape("aws-signature", "Signature=", r"(?:X-Amz-)?Signature=[0-9a-f]{64}(?![0-9A-Za-z])"),
    Shape("aws-token", "X-Amz-Security-Token=", r"X-Amz-Security-Token=[A-Za-z0-9%+/=_-]{16,}"),
    Shape("github-token", "gh", _EDGE + r"gh[pousr]_[A-Za-z0-9]{36,}", mark="_"),
    Shape("github-token", "github_pat_", _EDGE + r"github_pat_[A-Za-z0-9_]{22,}"),
    Shape("gitlab-token", "glpat-", _EDGE + r"glpat-[A-Za-z0-9_-]{20,}"),
    Shape("slack-token", "xox", _EDGE + r"xox[abeprs]-[A-Za-z0-9-]{10,}", mark="-"),
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
        "anthropic-organization-id",
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

# Keys of JSON objects and form fields whose text is a secret: lower case, without hyphens and underscores.
DEFAULT_JSON_NAMES: frozenset[str] = frozenset(
    {
        "accesstoken",
        "apikey",
        "authorization",
        "authtoken",
        "awssecretaccesskey",
        "awssessiontoken",
        "bearertoken",
        "clientsecret",
        "idtoken",
        "passwd",
        "password",
        "privatekey",
        "refreshtoken",
        "secretaccesskey",
        "secretkey",
        "sessiontoken",
        "xapikey",
    }
)

_SECRET_VARIABLE = re.compile(r"key|token|secret|passw|credential|auth", re.IGNORECASE)
# Names that end so say that the value is itself a secret, whatever it is made of; a password may also be plain words.
_OUTRIGHT_VARIABLE = re.compile(r"(?:secret|token|(?:api|access|secret)_?key)$", re.IGNORECASE)
_PASSWORD_VARIABLE = re.compile(r"(?:passw(?:or)?d|passphrase|(?:^|_)pass|_pwd)$", re.IGNORECASE)
# How a path begins; a generated key may begin with a slash as well.
_PLACE = re.compile(r"(?:~|\.\.?)?/(?:[a-z._][\w.-]*|Users|Volumes|Library|Applications)/|(?:~|\.\.?)/|[A-Za-z]:[\\/]")
_SHORTEST_VALUE = 16
_LEAST_ENTROPY = 3.0  # bits a character: words and repeated letters stay below, generated keys lie above


def json_name(name: str) -> str:
    """Return the form in which names of JSON keys are compared."""
    return name.lower().replace("-", "").replace("_", "")


def named_in_text(names: Iterable[str]) -> tuple[re.Pattern[str], ...]:
    """Return expressions for JSON inside text: a secret's name and its string, quoted plainly or once escaped."""
    either = "|".join("[-_]?".join(name) for name in sorted(names))
    if not either:
        return ()
    plain = rf'"(?:{either})"\s*:\s*"(?P<secret>(?!\[redacted:)(?:[^"\\]|\\.)+)"'
    unit = r'[^"\\]|\\u[0-9a-fA-F]{4}|\\\\(?:\\\\|\\"|[^"\\])'  # a character, escaped twice where it has to be
    escaped = rf'\\"(?:{either})\\"\s*:\s*\\"(?P<secret>(?!\[redacted:)(?:{unit})+)\\"'
    return tuple(re.compile(pattern, re.IGNORECASE) for pattern in (plain, escaped))


def looks_like_key(value: str) -> bool:
    """Return whether a value has the look of a generated key: long, one word, mixed, and of high entropy."""
    return (
        re.fullmatch(r"[A-Za-z0-9._~+/=:-]+", value) is not None
        and not value.startswith(("~", ".", "/"))
        and _has_letters_and_digits(value)
        and _is_long_and_varied(value)
    )


def environment_secrets(
    environment: Mapping[str, str], *, named: Iterable[str] = (), by_look: bool = True
) -> tuple[tuple[str, str], ...]:
    """Return names and values of the variables that hold secrets, the longest value first.

    Those are, unless ``by_look`` is off, the variables named like secrets whose value is no ordinary text, so that one
    set to ``test`` rewrites no prose, and those ``named`` by the user, whatever they hold.  A value that JSON writes
    with escapes comes in each of its forms.
    """
    chosen = set(named)
    found = [
        (name, form)
        for name, value in environment.items()
        if value and (name in chosen or (by_look and _is_secret(name, value)))
        for form in _written_forms(value)
    ]
    return tuple(sorted(found, key=lambda pair: (-len(pair[1]), pair[0], pair[1])))


def _is_secret(name: str, value: str) -> bool:
    """Return whether a variable is named like a secret and holds what is too long and too varied for ordinary text."""
    if _PASSWORD_VARIABLE.search(name):
        return _is_long_and_varied(value)
    if _OUTRIGHT_VARIABLE.search(name):
        return _is_long_and_varied(value) and _has_letters_and_digits(value) and not re.search(r"\s", value)
    return _SECRET_VARIABLE.search(name) is not None and looks_like_key(value)


def _is_long_and_varied(value: str) -> bool:
    """Return whether a value is long enough and mixed enough for a secret, and neither a path nor a URL."""
    is_place = _PLACE.match(value) is not None or "://" in value
    return len(value) >= _SHORTEST_VALUE and not is_place and _entropy(value) >= _LEAST_ENTROPY


def _has_letters_and_digits(value: str) -> bool:
    return any(letter.isdigit() for letter in value) and any(letter.isalpha() for letter in value)


def _written_forms(value: str) -> set[str]:
    """Return a value as it is, as the text of a JSON document has it, and as one inside such a text."""
    once = _escaped(value)
    return {value, *once, *(twice for form in once for twice in _escaped(form))}


def _escaped(value: str) -> set[str]:
    return {json.dumps(value, ensure_ascii=ascii_only)[1:-1] for ascii_only in (True, False)}


def _entropy(value: str) -> float:
    counts = Counter(value).values()
    return -sum(count / len(value) * math.log2(count / len(value)) for count in counts)
