"""The name of a test's cassette, the same on every file system."""

from __future__ import annotations

import re
import unicodedata
from hashlib import sha256

import pytest

__all__ = ["cassette_file_name"]

_ILLEGAL = re.compile(r'[<>:"/\\|?*\x00-\x1f\x7f]')
_RESERVED = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?", re.IGNORECASE)
_LONGEST = 180  # bytes; file systems allow 255, and a partial recording's name is longer


def cassette_file_name(item: pytest.Item, *, name: str | None = None) -> str:
    """Return ``[Class.]test[id].jsonl``, or the name that the marker gives.

    Characters that some file system refuses become ``-``.  A name that had to change, or that differs from another only
    in case or in how its accents are encoded, gets a short hash of the original.
    """
    if name is not None:
        return name.removesuffix(".jsonl") + ".jsonl"
    classes = [node.name for node in item.listchain() if isinstance(node, pytest.Class)]
    return _safe(".".join([*classes, item.name]), case_matters_in=item.name) + ".jsonl"


def _safe(name: str, *, case_matters_in: str) -> str:
    safe = _ILLEGAL.sub("-", unicodedata.normalize("NFC", name)).rstrip(". ")
    if _RESERVED.fullmatch(safe):
        safe = f"_{safe}"
    safe = safe.encode("utf-8", "replace")[:_LONGEST].decode("utf-8", "ignore")
    # Class names are in mixed case by custom; anywhere else two names may differ in case alone.
    if safe == name and case_matters_in == case_matters_in.casefold():
        return safe
    return f"{safe}-{sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"
