"""JSON values and the ways to write them: the same value differently, and another value that looks much like it."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Iterator
from random import Random
from typing import Any

from hypothesis import strategies as st

__all__ = ["any_json", "any_text", "changed_somewhere", "is_same", "places", "spelled"]


def _without_pairs(text: str) -> str:
    kept: list[str] = []
    for letter in text:
        if kept and "\ud800" <= kept[-1] <= "\udbff" and "\udc00" <= letter <= "\udfff":
            continue
        kept.append(letter)
    return "".join(kept)


# Any text, lone surrogates included; pairs of them are left out, because a JSON reader makes one character of them.
_any_letter = st.one_of(
    st.characters(exclude_categories=()),
    st.characters(categories=["Cs"]),
    st.sampled_from('ab12 "\\/\n\r\t\x00\x7f\u0085\u2028\ue000\uffff\U0001f600é€'),
)
any_text = st.text(_any_letter, max_size=12).map(_without_pairs)
_plain_text = st.sampled_from(["", "a", "b", "id", "role", "content", "true", "1", "null", "[present]", "NaN"])
any_scalar = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.integers(),
    st.sampled_from([2**53, 2**53 + 1, 2**63, 2**64 - 1, 2**64, 2**64 + 1, 2**64 + 2, -(2**64) - 1, 10**21, 10**400]),
    st.floats(),
    st.sampled_from([0.5, 1.0, -0.0, 1e21, 1e23, 2.0**53, 5e-324, 1.7976931348623157e308]),
    _plain_text,
    any_text,
)
any_json = st.recursive(
    any_scalar,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.one_of(_plain_text, any_text), inner, max_size=4)
    ),
    max_leaves=12,
)


def spelled(value: Any, random: Random) -> bytes:
    """Return a JSON document of ``value`` in any key order, white space, number spelling and string escapes."""
    return _spelled(value, random).encode("utf-8")


def _spelled(value: Any, random: Random) -> str:
    if isinstance(value, dict):
        names = list(value)
        random.shuffle(names)
        pairs = [
            f"{_string(name, random)}{_gap(random)}:{_gap(random)}{_spelled(value[name], random)}" for name in names
        ]
        return "{" + _gap(random) + f"{_gap(random)},{_gap(random)}".join(pairs) + _gap(random) + "}"
    if isinstance(value, list):
        elements = [_spelled(element, random) for element in value]
        return "[" + _gap(random) + f"{_gap(random)},{_gap(random)}".join(elements) + _gap(random) + "]"
    if isinstance(value, str):
        return _string(value, random)
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    return _number(value, random)


def _gap(random: Random) -> str:
    return random.choice(["", "", "", " ", "\n", "\t", "\r\n  "])


def _string(text: str, random: Random) -> str:
    return '"' + "".join(_letter(letter, random) for letter in text) + '"'


def _letter(letter: str, random: Random) -> str:
    is_surrogate = "\ud800" <= letter <= "\udfff"
    if is_surrogate or letter < " " or random.random() < 0.15:
        units = letter.encode("utf-16-be", "surrogatepass")
        escapes = [f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2)]
        return "".join(escape if random.random() < 0.5 else escape.upper().replace("\\U", "\\u") for escape in escapes)
    return "\\" + letter if letter in '"\\' or (letter == "/" and random.random() < 0.5) else letter


def _number(value: float, random: Random) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, float):
        return random.choice([repr(value), f"{value:.17e}", f"{value:.20E}", repr(value).replace("e", "E")])
    if abs(value) > 2**53:  # with a point or an exponent it would be a double, and these need not be one
        return str(value)
    return random.choice([str(value), f"{value}.0", f"{value}.000", f"{value}e0", f"{value}E+00", f"{value * 10}e-1"])


def is_same(first: Any, second: Any) -> bool:
    """Return whether two values are the same to a JSON reader: the test's own walk over both trees."""
    kinds = [_kind_of(value) for value in (first, second)]
    if kinds[0] != kinds[1]:
        return False
    if kinds[0] == "object":
        return set(first) == set(second) and all(is_same(first[name], second[name]) for name in first)
    if kinds[0] == "array":
        return len(first) == len(second) and all(map(is_same, first, second))
    both_are_nan = kinds[0] == "number" and first != first and second != second
    return both_are_nan or bool(first == second)


def _kind_of(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    names = {dict: "object", list: "array", str: "string", int: "number", float: "number", type(None): "null"}
    return names[type(value)]


def changed_somewhere(value: Any, random: Random) -> Any:
    """Return a copy of ``value`` with one thing changed at a random place; now and then it means the same."""
    place = random.choice(list(places(value)))
    holder = [copy.deepcopy(value)]
    parent: Any = holder
    for step in (0, *place)[:-1]:
        parent = parent[step]
    step = (0, *place)[-1]
    _change(parent, step, random)
    return holder[0]


def places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the place of every value in a JSON value, its own first, each as the steps to it."""
    yield place
    items: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, element in items:
        yield from places(element, (*place, step))


def _change(parent: Any, step: Any, random: Random) -> None:
    value = parent[step]
    if isinstance(value, dict) and value and random.random() < 0.5:
        name = random.choice(list(value))
        kept = value.pop(name)
        if random.random() < 0.5:
            value[name + "x"] = kept
    elif isinstance(value, list) and value and random.random() < 0.7:
        at = random.randrange(len(value))
        element = value.pop(at)
        if random.random() < 0.5:
            value.insert(random.randrange(len(value) + 1), element)
    else:
        parent[step] = random.choice(_near(value))


def _near(value: Any) -> list[Any]:
    """Return values that a careless comparison would take for ``value``, and one that it would not."""
    near: list[Any] = [None, [], {}, [value], {"": value}]
    if isinstance(value, str):
        near += [value + "x", value + " ", value[:-1], value.upper(), value.encode("unicode_escape").decode()]
    elif isinstance(value, bool):
        near += [int(value), str(value).lower(), not value]
    elif isinstance(value, int):
        near += [value + 1, -value, str(value), bool(value)]
    elif isinstance(value, float):
        near += [math.nextafter(value, math.inf), -value, str(value), repr(value)]
    elif value is None:
        near += [False, 0, "", "null"]
    return near
