"""Paths into a JSON document: ``$``, ``$.plan.steps[0]``, ``$."any key"``."""

from __future__ import annotations

import re
from typing import Any, TypeAlias

from pytest_agentreplay.errors import InvalidInputError

__all__ = ["ABSENT", "Path", "delete_at", "find_at", "parse_path", "set_at"]

Path: TypeAlias = tuple[str | int, ...]

_STEP = re.compile(r'\.([^.\[\]"]+)|\."((?:[^"\\]|\\.)*)"|\[(\d+)\]', re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


class _Absent:
    """What stands where nothing is."""

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Any = _Absent()


def parse_path(text: object) -> Path:
    """Return the steps of a path: keys and indexes.  Raises :class:`InvalidInputError` for what is none."""
    if not isinstance(text, str) or not text.startswith("$"):
        raise InvalidInputError(f"the path {text!r} does not begin with $; paths look like $.plan.steps[0]")
    steps: list[str | int] = []
    at = 1
    while at < len(text):
        match = _STEP.match(text, at)
        if match is None:
            raise InvalidInputError(f'the path {text!r} cannot be read from {text[at:]!r} on; as in $.a[0]."any key"')
        plain, quoted, index = match.groups()
        steps.append(int(index) if index else plain if plain is not None else _ESCAPED.sub(r"\1", quoted))
        at = match.end()
    return tuple(steps)


def find_at(document: Any, path: Path) -> Any:
    """Return the value at a path, ``ABSENT`` where there is none."""
    for step in path:
        if not _has(document, step):
            return ABSENT
        document = document[step]
    return document


def set_at(document: Any, path: Path, value: Any) -> Any:
    """Put a value at a path, in place where there is something; objects on the way there are made.

    An index one past the end of an array appends.  Raises :class:`InvalidInputError` where the path leads through what
    is neither object nor array, or past the end of an array.
    """
    if not path:
        return value
    step, rest = path[0], path[1:]
    holder: Any = ([] if isinstance(step, int) else {}) if document is ABSENT else document
    _check_holder(holder, step)
    inside = set_at(holder[step] if _has(holder, step) else ABSENT, rest, value)
    if step == len(holder) and isinstance(holder, list):
        holder.append(inside)
    else:
        holder[step] = inside
    return holder


def delete_at(document: Any, path: Path) -> bool:
    """Take the value at a path out, in place.  Returns whether there was one."""
    *way, last = path
    holder = find_at(document, tuple(way))
    if holder is ABSENT or not _has(holder, last):
        return False
    del holder[last]
    return True


def _check_holder(holder: Any, step: str | int) -> None:
    wanted, name = (list, "an array") if isinstance(step, int) else (dict, "an object")
    if not isinstance(holder, wanted):
        raise InvalidInputError(f"{step!r} leads into a {type(holder).__name__}, which is not {name}")
    if isinstance(step, int) and step > len(holder):
        raise InvalidInputError(f"index {step} is beyond the end of an array of {len(holder)}")


def _has(document: Any, step: str | int) -> bool:
    if isinstance(step, int):
        return isinstance(document, list) and step < len(document)
    return isinstance(document, dict) and step in document
