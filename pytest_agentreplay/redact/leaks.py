"""The last look at what is about to be written, for a secret that is left.

Redaction works on what it understands.  This looks at the finished value the way someone searching the repository
would: every string as it is, and what its base64 holds, also compressed.
"""

from __future__ import annotations

import base64
import binascii
import gzip
import re
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pytest_agentreplay.redact.redactor import Redactor
from pytest_agentreplay.redact.streams import string_leaves

__all__ = ["Leak", "find_leak"]

_BASE64 = re.compile(r"[A-Za-z0-9+/]{24,}={0,2}")


@dataclass(frozen=True)
class Leak:
    """A secret that redaction did not reach: the rule that knows it, and where it is.  Never the secret itself."""

    rule: str
    path: str

    @property
    def is_of_variable(self) -> bool:
        """Whether it is what a variable of the environment holds."""
        return self.rule.startswith("[redacted:env-")


def find_leak(value: Any, redactor: Redactor) -> Leak | None:
    """Return the first secret left in a JSON value, or ``None``."""
    for path, leaf in string_leaves(value):
        for form, is_text in _forms(leaf):
            # In binary data an expression of the user's would match by chance; a key of a known shape does not.
            found = redactor.spans(form, known_only=not is_text)
            if found:
                return Leak(rule=found[0][2], path="$" + "".join(f"[{step!r}]" for step in path))
    return None


def _forms(text: str) -> Iterable[tuple[str, bool]]:
    yield text, True
    for found in _BASE64.findall(text):
        for data in _decoded(found):
            try:
                yield data.decode("utf-8"), True
            except UnicodeDecodeError:
                yield data.decode("utf-8", "replace"), False


def _decoded(text: str) -> Iterable[bytes]:
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4))
    except (binascii.Error, ValueError):
        return
    yield data
    if data.startswith(b"\x1f\x8b"):
        try:
            yield gzip.decompress(data)
        except (OSError, EOFError, zlib.error):
            return
