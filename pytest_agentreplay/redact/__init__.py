"""Secrets to stable typed tokens, before anything is hashed or written.

A token names the kind of secret and nothing else (``[redacted:openai-key]``), so the same request gives the same hash
whoever's key made it, and redacting twice is redacting once.
"""

from pytest_agentreplay.redact.leaks import Leak, find_leak
from pytest_agentreplay.redact.redactor import Redactor, redactor_for
from pytest_agentreplay.redact.shapes import DEFAULT_HEADERS, DEFAULT_JSON_NAMES, SHAPES, Shape, looks_like_key

__all__ = [
    "DEFAULT_HEADERS",
    "DEFAULT_JSON_NAMES",
    "SHAPES",
    "Leak",
    "Redactor",
    "Shape",
    "find_leak",
    "looks_like_key",
    "redactor_for",
]
