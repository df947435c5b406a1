"""Bodies that are no JSON: what a tape keeps of them, redacted, and what is hashed of that."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from typing import Any
from urllib.parse import parse_qsl

from pytest_agentreplay.multipart import split_multipart
from pytest_agentreplay.records import Body, BytesBody, EmptyBody, FormBody, MultipartBody, Part, TextBody
from pytest_agentreplay.redact import Redactor

__all__ = ["read_body", "reread_body", "tag_of"]

_LONGEST_KEPT_PART = 4096


def read_body(content: bytes, headers: Iterable[tuple[str, str]], *, media_type: str, redactor: Redactor) -> Body:
    """Return the body of a request, read by its media type, else as text, else as bytes."""
    if not content:
        return EmptyBody()
    if media_type == "application/x-www-form-urlencoded":
        text = content.decode("utf-8", "surrogateescape")
        return _form(parse_qsl(text, keep_blank_values=True, errors="surrogateescape"), redactor)
    if media_type.startswith("multipart/"):
        parts = split_multipart(content, headers)
        if parts is not None:
            return _multipart([_part(*part, redactor=redactor) for part in parts], redactor)
    shown = _text_in(content)
    if shown is None:
        return BytesBody(sha256=sha256(content).hexdigest(), size=len(content))
    return TextBody(text=redactor.text(shown))


def reread_body(body: Body, redactor: Redactor) -> Body:
    """Return a recorded body as it is under other rules."""
    if isinstance(body, FormBody):
        return _form(body.pairs, redactor)
    if isinstance(body, MultipartBody):
        return _multipart(body.parts, redactor)
    if isinstance(body, TextBody):
        return TextBody(text=redactor.text(body.text))
    return body


def tag_of(body: Body) -> dict[str, Any]:
    """Return the JSON that a body is hashed as, under the name of its kind."""
    if isinstance(body, FormBody):
        return {"form": [list(pair) for pair in body.pairs]}
    if isinstance(body, MultipartBody):
        return {"multipart": [{"headers": part.headers, "sha256": part.sha256} for part in body.parts]}
    if isinstance(body, TextBody):
        return {"text": body.text}
    if isinstance(body, BytesBody):
        return {"bytes": {"sha256": body.sha256, "bytes": body.size}}
    return {"empty": True}


def _form(pairs: Iterable[tuple[str, str]], redactor: Redactor) -> FormBody:
    return FormBody(pairs=tuple(sorted((name, redactor.field(name, value)) for name, value in pairs)))


def _multipart(parts: Iterable[Part], redactor: Redactor) -> MultipartBody:
    kept = (
        part if part.text is None else _part(part.headers, part.text.encode("utf-8"), redactor=redactor)
        for part in parts
    )
    return MultipartBody(parts=tuple(kept))


def _part(headers: dict[str, str], content: bytes, *, redactor: Redactor) -> Part:
    headers = {name: redactor.header(name, value) for name, value in headers.items()}
    text = _text_in(content)
    if text is not None:
        text = redactor.text(text)
    kept = content if text is None else text.encode("utf-8")
    short = text if len(kept) <= _LONGEST_KEPT_PART else None
    return Part(headers=headers, sha256=sha256(kept).hexdigest(), size=len(kept), text=short)


def _text_in(content: bytes) -> str | None:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return None
