"""What cannot carry meaning to the model, to stable values; pure functions on values.

Which paths that concerns is data: a :class:`NormalRules` for each dialect, and the user's own ``ignore`` rules.
Nothing is changed inside tool arguments or message text unless a user's rule says so: blanket scrubbing of dates and
ids hides real changes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from pytest_agentreplay.canonical import canonical_json, content_hash, parse_json
from pytest_agentreplay.notation import read_ignore

__all__ = [
    "GENERIC_RULES",
    "CallIds",
    "NormalRules",
    "Path",
    "PathRule",
    "parse_ignore",
    "stable_call_ids",
]

Path: TypeAlias = tuple[str, ...]
_PRESENT = "[present]"
_IGNORED = "[ignored]"


@dataclass(frozen=True)
class PathRule:
    """One place in a JSON body and what happens to the value found there.

    ``path`` starts at the body; ``*`` stands for any index or key.  ``json`` writes a string that is JSON canonically,
    ``presence`` keeps only that something is there, ``ignore`` does the same or, with ``pattern``, for the matches
    in a string.
    """

    path: Path
    action: Literal["json", "presence", "ignore"]
    pattern: re.Pattern[str] | None = None

    def describe(self) -> list[str | None]:
        """Return this rule as JSON, for the digest of the rule set."""
        return [".".join(self.path), self.action, self.pattern.pattern if self.pattern else None]

    def apply(self, value: Any) -> Any:
        """Return the normal form of the value found at the path."""
        if self.action == "presence":
            return _PRESENT
        if self.action == "json":
            return _canonical_text(value) if isinstance(value, str) else value
        if self.pattern is None:
            return _IGNORED
        return self.pattern.sub(_IGNORED, value) if isinstance(value, str) else value


@dataclass(frozen=True)
class CallIds:
    """Where a wire format keeps the ids of tool calls, for ids that the client made itself.

    ``call`` is the path of the objects that name a call; ``id_key``, ``name`` and ``arguments`` are found from there.
    ``references`` are the paths of strings that repeat an id.
    """

    call: Path
    id_key: str
    name: Path
    arguments: Path
    references: tuple[Path, ...]


# Ids that client libraries make up when a provider gives none.  pydantic-ai: ``pyd_ai_`` and a UUID in hex.
CLIENT_MADE = re.compile(r"pyd_ai_[0-9a-f-]{32,36}")
CLIENT_MADE_HINT = b"pyd_ai_"


@dataclass(frozen=True)
class NormalRules:
    """The normalisation of one wire format."""

    name: str
    paths: tuple[PathRule, ...] = ()
    call_ids: tuple[CallIds, ...] = ()

    def describe(self) -> dict[str, Any]:
        """Return these rules as JSON, for the digest of the rule set."""
        ids = [
            [list(ids.call), ids.id_key, list(ids.name), list(ids.arguments), [list(path) for path in ids.references]]
            for ids in self.call_ids
        ]
        return {"name": self.name, "paths": [rule.describe() for rule in self.paths], "call_ids": ids}


def _presence(*paths: str) -> tuple[PathRule, ...]:
    return tuple(PathRule(tuple(path.split(".")), "presence") for path in paths)


# For JSON-RPC, whatever carries it: ids are the client's counters.
JSON_RPC_RULES = NormalRules(name="json-rpc", paths=_presence("id", "params._meta.progressToken"))
GENERIC_RULES = NormalRules(name="generic")


def apply_rules(value: Any, *, rules: Sequence[PathRule], depth: int = 0) -> Any:
    """Return ``value`` with each rule applied whose path, from element ``depth`` on, leads into it.

    The value itself is left alone; what does not change is shared with the result.
    """
    for rule in rules:
        value = _at_path(value, rule.path[depth:], rule)
    return value


def _at_path(value: Any, path: Path, rule: PathRule) -> Any:
    if not path:
        return rule.apply(value)
    step, rest = path[0], path[1:]
    if isinstance(value, dict):
        return _at_keys(value, [step] if step in value else list(value) if step == "*" else [], rest, rule)
    if isinstance(value, list):
        return _at_indices(value, _indices(step, len(value)), rest, rule)
    return value


def _at_keys(value: dict[str, Any], keys: Iterable[str], rest: Path, rule: PathRule) -> dict[str, Any]:
    changed = {key: _at_path(value[key], rest, rule) for key in keys}
    return value | changed if any(changed[key] is not value[key] for key in changed) else value


def _at_indices(value: list[Any], indices: Iterable[int], rest: Path, rule: PathRule) -> list[Any]:
    changed = {index: _at_path(value[index], rest, rule) for index in indices}
    if all(changed[index] is value[index] for index in changed):
        return value
    return [changed.get(index, element) for index, element in enumerate(value)]


_INDEX = re.compile(r"0|-?[1-9]\d*")


def _indices(step: str, length: int) -> Iterable[int]:
    if step == "*":
        return range(length)
    if _INDEX.fullmatch(step):
        index = int(step) + (length if step.startswith("-") else 0)
        return (index,) if 0 <= index < length else ()
    return ()


def stable_call_ids(value: dict[str, Any], *, layouts: Sequence[CallIds]) -> dict[str, Any]:
    """Return a body in which each client-made call id is replaced by a hash of the call it names.

    The hash covers the tool's name and arguments; equal calls are told apart by their ordinal.
    """
    for layout in layouts:
        names: dict[str, str] = {}
        counts: dict[str, int] = {}
        for call in _found(value, layout.call):
            made = call.get(layout.id_key) if isinstance(call, dict) else None
            if isinstance(made, str) and CLIENT_MADE.fullmatch(made) and made not in names:
                digest = _digest_call(call, layout=layout)
                counts[digest] = counts.get(digest, 0) + 1
                names[made] = f"[call:{digest}:{counts[digest]}]"
        for path in ((*layout.call, layout.id_key), *layout.references):
            value = _at_path(value, path, _Rename(path, names))
    return value


class _Rename(PathRule):
    """A rule that replaces strings by a table."""

    def __init__(self, path: Path, names: Mapping[str, str]) -> None:
        super().__init__(path, "ignore")
        object.__setattr__(self, "names", names)

    def apply(self, value: Any) -> Any:
        names: Mapping[str, str] = self.names  # type: ignore[attr-defined]
        return names.get(value, value) if isinstance(value, str) else value


def _digest_call(call: dict[str, Any], *, layout: CallIds) -> str:
    name = next(iter(_found(call, layout.name)), None)
    arguments = next(iter(_found(call, layout.arguments)), None)
    if isinstance(arguments, str):
        arguments = _canonical_text(arguments)
    return content_hash({"name": name, "arguments": arguments})[3:19]


def _found(value: Any, path: Path) -> list[Any]:
    values = [value]
    for step in path:
        values = [inner for outer in values for inner in _children(outer, step)]
    return values


def _children(value: Any, step: str) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values()) if step == "*" else [value[step]] if step in value else []
    if isinstance(value, list):
        return [value[index] for index in _indices(step, len(value))]
    return []


def _canonical_text(text: str) -> str:
    try:
        return canonical_json(parse_json(text.encode("utf-8"))).decode("utf-8")
    except ValueError:  # no JSON, or a lone surrogate
        return text


def parse_ignore(rule: str) -> PathRule:
    """Return the rule that a user wrote as ``$.path.to[*].value`` or ``$.path =~ EXPRESSION``.

    Raises :class:`ConfigurationError` when it is neither.
    """
    path, pattern = read_ignore(rule)
    return PathRule(path, "ignore", pattern)
