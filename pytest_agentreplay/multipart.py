"""The parts of a multipart body, without the boundary that is random from request to request (RFC 2046)."""

from __future__ import annotations

import re
from collections.abc import Iterable

__all__ = ["split_multipart"]

_BOUNDARY = re.compile(r'boundary=(?:"([^"]+)"|([^;\s]+))', re.IGNORECASE)


def split_multipart(content: bytes, headers: Iterable[tuple[str, str]]) -> list[tuple[dict[str, str], bytes]] | None:
    """Return headers (lower-case names) and bytes of each part, or ``None`` for a body that breaks its boundary."""
    declared = next((value for name, value in headers if name.lower() == "content-type"), "")
    found = _BOUNDARY.search(declared)
    if found is None:
        return None
    delimiter = b"--" + (found.group(1) or found.group(2)).encode("latin-1", "replace")
    sections = (b"\r\n" + content).split(b"\r\n" + delimiter)
    if len(sections) < 2 or not sections[-1].startswith(b"--"):
        return None
    parts = [_read_part(section) for section in sections[1:-1]]
    return None if any(part is None for part in parts) else [part for part in parts if part is not None]


def _read_part(section: bytes) -> tuple[dict[str, str], bytes] | None:
    head, separator, content = section.lstrip(b" \t").partition(b"\r\n\r\n")
    if not separator:
        return None
    headers = {}
    for line in head.split(b"\r\n"):
        name, colon, value = line.partition(b":")
        if colon:
            headers[name.decode("latin-1").strip().lower()] = value.decode("utf-8", "backslashreplace").strip()
    return headers, content
