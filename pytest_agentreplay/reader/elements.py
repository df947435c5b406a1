"""The elements of a body's arrays, each read and hashed once, and remembered by its bytes.

Which rules lead into an element depends on the array it stands in, and on its place there where a rule names one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from pytest_agentreplay import canonical
from pytest_agentreplay.normalize import CLIENT_MADE_HINT, NormalRules, PathRule, apply_rules, stable_call_ids
from pytest_agentreplay.reader.asked import Element
from pytest_agentreplay.reader.rules import RuleSet

__all__ = ["Elements"]


class Elements:
    """Reads the elements of arrays under one rule set.  Thread-safe.

    An array is called by its key in the body, or by ``None`` where the body is the array.
    """

    def __init__(self, rules: RuleSet) -> None:
        self._rules = rules
        self._known: dict[Any, dict[bytes, Element]] = {}
        self._leading: dict[tuple[str, str | None], tuple[tuple[PathRule, ...], bool]] = {}

    def read(self, key: str | None, items: list[Any], *, normal: NormalRules, data: Iterable[bytes]) -> list[Element]:
        """Read an array; ``data`` holds bytes for each element that two elements share only if they are the same."""
        rules, is_placed = self._rules_into(key, normal)
        if is_placed:
            return self._read_placed(key, items, normal=normal, data=data)
        memo, depth = self._known.setdefault((normal.name, key), {}), _depth(key)
        return [
            memo.get(known) or self._element(item, known, memo=memo, rules=rules, depth=depth)
            for item, known in zip(items, data, strict=True)
        ]

    def with_stable_ids(self, lists: dict[str, list[Element]], *, normal: NormalRules) -> dict[str, list[Element]]:
        """Return the arrays of a body, hashed anew where ids are told of that the client made itself."""
        if not (normal.call_ids and any(element.has_client_ids for items in lists.values() for element in items)):
            return lists
        values = {key: [element.value for element in items] for key, items in lists.items()}
        stable = stable_call_ids(values, layouts=normal.call_ids)
        return {key: self._renamed(key, items, stable[key], normal=normal) for key, items in lists.items()}

    def _read_placed(
        self, key: str | None, items: list[Any], *, normal: NormalRules, data: Iterable[bytes]
    ) -> list[Element]:
        found, depth = [], _depth(key)
        for item, known, rules in zip(items, data, self._rules_at(key, len(items), normal), strict=True):
            memo = self._known.setdefault((key, rules), {})
            found.append(memo.get(known) or self._element(item, known, memo=memo, rules=rules, depth=depth))
        return found

    def _rules_into(self, key: str | None, normal: NormalRules) -> tuple[tuple[PathRule, ...], bool]:
        """Return the rules that lead into an array, and whether any of them is for one index alone."""
        found = self._leading.get((normal.name, key))
        if found is None:
            depth = _depth(key)
            rules = tuple(
                rule
                for rule in (*normal.paths, *self._rules.ignore)
                if len(rule.path) > depth and (key is None or rule.path[0] in (key, "*"))
            )
            found = self._leading[normal.name, key] = rules, any(rule.path[depth] != "*" for rule in rules)
        return found

    def _rules_at(self, key: str | None, count: int, normal: NormalRules) -> list[tuple[PathRule, ...]]:
        """Return the rules for each element of an array of ``count``."""
        rules, is_placed = self._rules_into(key, normal)
        if not is_placed:
            return [rules] * count
        depth = _depth(key)
        places = [("*", str(index), str(index - count)) for index in range(count)]
        return [tuple(rule for rule in rules if rule.path[depth] in names) for names in places]

    def _element(
        self, item: Any, data: bytes, *, memo: dict[bytes, Element], rules: tuple[PathRule, ...], depth: int
    ) -> Element:
        value = self._rules.redactor.value(item)
        written = canonical.canonical_json(value)
        address = canonical.hash_canonical(written)
        normal = apply_rules(value, rules=rules, depth=depth + 1)
        digest = address if normal is value else canonical.content_hash(normal)
        found = memo[data] = Element(
            hash=digest, address=address, value=value, has_client_ids=CLIENT_MADE_HINT in written
        )
        return found

    def _renamed(self, key: str, items: list[Element], stable: list[Any], *, normal: NormalRules) -> list[Element]:
        renamed = []
        for element, value, rules in zip(items, stable, self._rules_at(key, len(items), normal), strict=True):
            if value is not element.value:
                normalised = apply_rules(value, rules=rules, depth=_depth(key) + 1)
                element = replace(element, hash=canonical.content_hash(normalised))
            renamed.append(element)
        return renamed


def _depth(key: str | None) -> int:
    """Return how far into a rule's path the index of an array's element stands."""
    return 0 if key is None else 1
