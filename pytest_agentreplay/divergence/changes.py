"""What differs between two requests, as paths.

The comparison walks the normal forms of both (what their hashes stand for), so it finds nothing exactly when the hashes
are equal.  Elements of arrays are aligned first, so that one message put in does not change every later one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, Protocol, TypeAlias

from pytest_agentreplay.canonical import canonical_json

__all__ = ["ABSENT", "NO_MEANING", "Change", "Meaning", "alike", "find_changes", "find_value_changes", "volatile_kind"]


class _Absent:
    """The value of what is not there."""

    def __repr__(self) -> str:
        return "(absent)"


ABSENT = _Absent()

_SAMPLING = frozenset(
    [
        "temperature",
        "top_p",
        "top_k",
        "max_tokens",
        "max_completion_tokens",
        "max_output_tokens",
        "max_tool_calls",
        "seed",
        "stop",
        "stop_sequences",
        "n",
        "frequency_penalty",
        "presence_penalty",
        "logit_bias",
        "reasoning",
        "reasoning_effort",
        "thinking",
        "tool_choice",
        "parallel_tool_calls",
        "response_format",
        "top_logprobs",
        "truncation",
        "verbosity",
    ]
)
_ROLE_GROUPS: Mapping[str, str] = {
    "system": "system prompt",
    "developer": "system prompt",
    "user": "user text",
    "assistant": "model's own turn",
    "tool": "tool result",
    "function": "tool result",
}
_TOP_GROUPS: Mapping[str, str] = {
    "system": "system prompt",
    "tools": "tool schema",
    "functions": "tool schema",
    "model": "model",
}
_Kind: TypeAlias = tuple[str, re.Pattern[str]]
_VOLATILE: tuple[_Kind, ...] = (
    (
        "a date or time",
        re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:[\d:.]+(?:Z|[+-][\d:]+)?)?"),
    ),
    (
        "a date in words",
        re.compile(
            r"(?:\b[A-Z][a-z]+day,? )?\b(?:\d{1,2}(?:st|nd|rd|th)? )?"
            r"\b(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sept?(?:ember)?"
            r"|Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?)\.?(?: \d{1,2}(?:st|nd|rd|th)?)?,? \d{4}\b"
        ),
    ),
    ("a UUID", re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")),
    ("a time of day", re.compile(r"\b\d{1,2}:\d{2}(?::\d{2})?\b")),
    ("a temporary path", re.compile(r"(?:/tmp|/var/folders|[A-Z]:\\\\?Users)[\w./\\-]+")),
    ("a Unix time", re.compile(r"\b1[6-9]\d{8}(?:\d{3})?\b")),
    ("a random id", re.compile(r"\b(?=[0-9a-f]*\d)[0-9a-f]{12,}\b")),
)


@dataclass(frozen=True)
class Change:
    """One difference: where, what was recorded, what is now, and the group it belongs to.

    Of elements of an array that stand elsewhere now, ``moved`` holds where each was recorded and where it is now; the
    values are the arrays, and what else differs in them are changes of their own.
    """

    path: str
    recorded: Any
    now: Any
    group: str
    moved: tuple[tuple[int, int], ...] = ()


class Meaning(Protocol):
    """Says what a wire format has of its own, ``None`` for what it has in common with others."""

    def group_of(self, name: str) -> str | None:
        """Return the group of a field of a request."""

    def role_of(self, element: Any) -> str | None:
        """Return whose an element of a conversation is: the role of a message."""


class _NoMeaning:
    """The meaning of a format that nobody reads."""

    def group_of(self, name: str) -> None:
        """Leave it to what formats have in common."""

    def role_of(self, element: Any) -> None:
        """Leave it to what formats have in common."""


NO_MEANING = _NoMeaning()


def find_changes(recorded: Mapping[str, Any], now: Mapping[str, Any], *, meaning: Meaning = NO_MEANING) -> list[Change]:
    """Return the differences between the normal forms of two requests, in the order of the recorded one.

    ``meaning`` is that of the format that both are in.
    """
    changes: list[Change] = []
    for part in ("method", "url", "headers"):
        changes += _walk(recorded[part], now[part], path=part, group="transport")
    kinds = [form.get("kind", "json") for form in (recorded, now)]
    changes += _walk(*kinds, path="kind of body", group="transport")
    root = "$" if kinds == ["json", "json"] else "body"
    return changes + _walk(recorded["body"], now["body"], path=root, group="", meaning=meaning)


def find_value_changes(recorded: Any, now: Any) -> list[Change]:
    """Return the differences between two plain values, in the order of the recorded one."""
    return _walk(recorded, now, path="$", group="value")


def alike(recorded: Mapping[str, Any], now: Mapping[str, Any]) -> float:
    """Return how much of two requests is the same, from 0 to 1, by the bytes of their equal parts."""
    sizes = [len(canonical_json(form)) for form in (recorded, now)]
    changed = sum(map(_changed_size, find_changes(recorded, now)))
    return max(0.0, 1 - changed / sum(sizes))


def volatile_kind(change: Change) -> _Kind | None:
    """Return what a change looks like when only dates, ids or paths differ, and the expression that matches it.

    That is one kind, or as many as are needed to make both texts the same, those first that stand first in their table.
    """
    recorded, now = change.recorded, change.now
    if not isinstance(recorded, str) or not isinstance(now, str):
        return None
    differing = [found for found in _VOLATILE if found[1].findall(recorded) != found[1].findall(now)]

    def explain(kinds: Sequence[_Kind]) -> bool:
        _, pattern = _together(kinds)
        return pattern.sub("", recorded) == pattern.sub("", now)

    needed = next(([kind] for kind in differing if explain([kind])), differing)
    if not needed or not explain(needed):
        return None
    for kind in reversed(needed):  # trying all subsets would take seconds where a long text holds many kinds
        rest = [other for other in needed if other is not kind]
        needed = rest if rest and explain(rest) else needed
    return _together(needed)


def _together(kinds: Iterable[_Kind]) -> _Kind:
    """Return several kinds as one, which matches what any of them does."""
    names, patterns = zip(*kinds, strict=True)
    return " and ".join(names), re.compile("|".join(pattern.pattern for pattern in patterns))


def _walk(recorded: Any, now: Any, *, path: str, group: str, meaning: Meaning = NO_MEANING) -> list[Change]:
    try:
        if _same(recorded, now):
            return []
        if isinstance(recorded, dict) and isinstance(now, dict):
            return _walk_dict(recorded, now, path=path, group=group, meaning=meaning)
        if isinstance(recorded, list) and isinstance(now, list):
            return _walk_list(recorded, now, path=path, group=group, meaning=meaning)
    except RecursionError:  # too deep to say where: what is left is one difference
        pass
    return [Change(path=path, recorded=recorded, now=now, group=group or "body")]


def _walk_dict(
    recorded: dict[str, Any], now: dict[str, Any], *, path: str, group: str, meaning: Meaning
) -> list[Change]:
    changes: list[Change] = []
    for key in (*recorded, *(key for key in now if key not in recorded)):
        here = f"{path}.{key}" if re.fullmatch(r"[A-Za-z_][\w-]*", key) else f"{path}[{key!r}]"
        first, second = recorded.get(key, ABSENT), now.get(key, ABSENT)
        inner = group or meaning.group_of(key) or _group_of_field(key, first, second)
        changes += _walk(first, second, path=here, group=inner, meaning=meaning)
    return changes


def _group_of_field(key: str, recorded: Any, now: Any) -> str:
    if key in ("messages", "input", "contents"):
        return "user text" if isinstance(recorded, str) or isinstance(now, str) else ""
    return _TOP_GROUPS.get(key) or ("sampling" if key in _SAMPLING else "transport" if key == "stream" else "body")


def _walk_list(recorded: list[Any], now: list[Any], *, path: str, group: str, meaning: Meaning) -> list[Change]:
    pairs, moved = _aligned(recorded, now)
    changes = [Change(path, recorded, now, group="order", moved=moved)] if moved else []
    for first, second, index in pairs:
        inner = group or _group_of_message(second if first is ABSENT else first, meaning)
        changes += _walk(first, second, path=f"{path}[{index}]", group=inner, meaning=meaning)
    return changes


def _group_of_message(message: Any, meaning: Meaning) -> str:
    if not isinstance(message, dict):
        return "user text"
    return _ROLE_GROUPS.get(meaning.role_of(message) or str(message.get("role")), "body")


def _aligned(
    recorded: Sequence[Any], now: Sequence[Any]
) -> tuple[list[tuple[Any, Any, int]], tuple[tuple[int, int], ...]]:
    """Return pairs of differing elements that stand for each other, with the index to name them by, and what moved."""
    forms = [[canonical_json(element) for element in elements] for elements in (recorded, now)]
    opcodes = SequenceMatcher(a=forms[0], b=forms[1], autojunk=False).get_opcodes()
    blocks = [(range(a, b), range(c, d)) for tag, a, b, c, d in opcodes if tag != "equal"]
    moved = _moved(forms, blocks)
    gone, come = map(set, zip(*moved, strict=True)) if moved else (set(), set())
    pairs: list[tuple[Any, Any, int]] = []
    for before, after in blocks:
        old = [index for index in before if index not in gone]
        new = [index for index in after if index not in come]
        paired = min(len(old), len(new))
        pairs += [(recorded[first], now[second], second) for first, second in zip(old, new, strict=False)]
        pairs += [(recorded[index], ABSENT, index) for index in old[paired:]]
        pairs += [(ABSENT, now[index], index) for index in new[paired:]]
    return pairs, moved


def _moved(forms: Sequence[Sequence[bytes]], blocks: Iterable[tuple[range, range]]) -> tuple[tuple[int, int], ...]:
    """Return where elements of differing blocks were, and where their equals in other blocks, or places, are now."""
    places: dict[bytes, list[int]] = {}
    for _, after in blocks:
        for index in after:
            places.setdefault(forms[1][index], []).append(index)
    found = ((index, places.get(forms[0][index])) for before, _ in blocks for index in before)
    return tuple((index, free.pop(0)) for index, free in found if free)


def _same(recorded: Any, now: Any) -> bool:
    if recorded is now:
        return True
    if recorded is ABSENT or now is ABSENT:
        return False
    return canonical_json(recorded) == canonical_json(now)


def _changed_size(change: Change) -> int:
    """Return the bytes of a difference; of two texts, without what they begin and end with alike."""
    recorded, now = change.recorded, change.now
    if change.moved:
        return 2 * sum(_size(recorded[index]) for index, _ in change.moved)
    if not isinstance(recorded, str) or not isinstance(now, str):
        return _size(recorded) + _size(now)
    start = _shared_start(recorded, now)
    end = _shared_start(recorded[start:][::-1], now[start:][::-1])
    return len(recorded) + len(now) - 2 * (start + end)


def _shared_start(first: str, second: str) -> int:
    shorter = min(len(first), len(second))
    return next((at for at in range(shorter) if first[at] != second[at]), shorter)


def _size(value: Any) -> int:
    return 0 if value is ABSENT else len(canonical_json(value))
