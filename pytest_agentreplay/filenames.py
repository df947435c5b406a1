"""File names: of a test's cassette, and of anything a test names, the same on every file system."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

__all__ = ["SUFFIX", "cassette_of", "distinct_file_name", "file_name_of_test", "safe_file_name"]

SUFFIX = ".jsonl"  # of a cassette
_ILLEGAL = re.compile(r'[<>:"/\\|?*\x00-\x1f\x7f]')
_RESERVED = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?", re.IGNORECASE)
_LONGEST = 180  # bytes; file systems allow 255, and a partial recording's name is longer


def safe_file_name(name: str, *, longest: int = _LONGEST) -> str:
    """Return a name with ``-`` for what some file system refuses, cut to a length in bytes that all take."""
    safe = _ILLEGAL.sub("-", unicodedata.normalize("NFC", name)).rstrip(". ")
    if _RESERVED.fullmatch(safe):
        safe = f"_{safe}"
    return safe.encode("utf-8", "replace")[:longest].decode("utf-8", "ignore")


def distinct_file_name(name: str, *, case_matters_in: str, longest: int = _LONGEST) -> str:
    """Return a safe name that no other name shares.

    One that had to change, or that may differ from another only in case or in how its accents are encoded, gets a short
    hash of the original.
    """
    safe = safe_file_name(name, longest=longest)
    # Class names are in mixed case by custom; anywhere else two names may differ in case alone.
    if safe == name and case_matters_in == case_matters_in.casefold():
        return safe
    return f"{safe}-{sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


def file_name_of_test(classes: Sequence[str], name: str) -> str:
    """Return ``[Class.]test[id].jsonl``, safe, and told from names that would be the same on some file system."""
    return distinct_file_name(".".join([*classes, name]), case_matters_in=name) + SUFFIX


def cassette_of(nodeid: str) -> Path:
    """Return where the cassette of a test lies by default, from the folder that its node id starts from."""
    path, _, test = nodeid.partition("::")
    test, bracket, parameters = test.partition("[")
    *classes, name = test.split("::")
    module = Path(path)
    return module.parent / "cassettes" / module.stem / file_name_of_test(classes, name + bracket + parameters)
