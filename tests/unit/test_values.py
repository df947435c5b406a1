"""Typed values as JSON and back: the same, type included, or refused when they are written."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import math
import pathlib
import uuid
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, PrivateAttr
from typing_extensions import TypedDict

from pytest_agentreplay import ConfigurationError
from pytest_agentreplay.canonical import parse_json, write_json
from pytest_agentreplay.values import Codec, DeepCodec, TypedJson, codec_for, import_type, name_of_type
from tests.unit.documents import any_json


class Colour(enum.Enum):
    RED = "red"
    BLUE = 2


class Word(enum.StrEnum):
    YES = "yes"
    NO = "no"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Place(NamedTuple):
    x: int
    y: float


class Row(TypedDict):
    name: str
    when: datetime.datetime


@dataclasses.dataclass
class Leaf:
    label: str
    data: bytes
    colour: Colour = Colour.RED
    when: datetime.datetime | None = None


@dataclasses.dataclass(frozen=True)
class Tree:
    leaves: tuple[Leaf, ...] = ()
    pair: tuple[int, str] = (0, "")
    children: list[Tree] = dataclasses.field(default_factory=list)


class Item(BaseModel):
    name: str
    price: decimal.Decimal = decimal.Decimal("0.00")
    ratio: float = 0.0
    data: bytes = b""
    word: Word | None = None
    tags: frozenset[str] = frozenset()


class Order(BaseModel):
    id: uuid.UUID
    items: list[Item] = []
    placed: datetime.datetime | None = None
    where: Place | None = None
    tree: Tree | None = None
    extra: dict[str, Any] = Field(default_factory=dict)


times = st.datetimes(
    timezones=st.one_of(
        st.none(),
        st.just(datetime.UTC),
        st.integers(-14 * 60, 14 * 60).map(lambda minutes: datetime.timezone(datetime.timedelta(minutes=minutes))),
    )
)
texts = st.text(max_size=8)
leaves = st.builds(
    Leaf, label=texts, data=st.binary(max_size=8), colour=st.sampled_from(Colour), when=times | st.none()
)
trees = st.recursive(
    st.builds(Tree, leaves=st.lists(leaves, max_size=2).map(tuple), pair=st.tuples(st.integers(), texts)),
    lambda inner: st.builds(Tree, children=st.lists(inner, max_size=2)),
    max_leaves=4,
)
decimals = st.decimals(allow_nan=False, allow_infinity=False, places=2)
items = st.builds(
    Item,
    name=texts,
    price=decimals,
    ratio=st.floats(),
    data=st.binary(max_size=8),
    word=st.sampled_from(Word) | st.none(),
    tags=st.frozensets(texts, max_size=3),
)
orders = st.builds(
    Order,
    id=st.uuids(),
    items=st.lists(items, max_size=2),
    placed=times | st.none(),
    where=st.builds(Place, x=st.integers(), y=st.floats(allow_nan=False)) | st.none(),
    tree=trees | st.none(),
    extra=st.dictionaries(texts, st.none() | st.booleans() | st.integers() | texts, max_size=3),
)
# An annotation, and values of it: what a typed tool returns.
TYPED: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (None, st.none()),
    (bool, st.booleans()),
    (int, st.integers()),
    (float, st.floats()),
    (str, texts),
    (bytes, st.binary()),
    (datetime.datetime, times),
    (datetime.date, st.dates()),
    (datetime.time, st.times()),
    (datetime.timedelta, st.timedeltas()),
    (decimal.Decimal, decimals),
    (uuid.UUID, st.uuids()),
    (Colour, st.sampled_from(Colour)),
    (Word, st.sampled_from(Word)),
    (Level, st.sampled_from(Level)),
    (Place, st.builds(Place, x=st.integers(), y=st.floats())),
    (Row, st.fixed_dictionaries({"name": texts, "when": times})),
    (Leaf, leaves),
    (Tree, trees),
    (Item, items),
    (Order, orders),
    (int | str | None, st.integers() | texts | st.none()),
    (Leaf | Item, leaves | items),
    (tuple[int, str, bytes], st.tuples(st.integers(), texts, st.binary())),
    (tuple[float, ...], st.lists(st.floats(), max_size=3).map(tuple)),
    (set[int], st.sets(st.integers())),
    (frozenset[bytes], st.frozensets(st.binary(max_size=4))),
    (list[Item], st.lists(items, max_size=3)),
    (dict[str, list[Leaf]], st.dictionaries(texts, st.lists(leaves, max_size=2), max_size=3)),
    (dict[int, bytes], st.dictionaries(st.integers(), st.binary(max_size=4), max_size=3)),
    (dict[Word, tuple[Colour, ...]], st.dictionaries(st.sampled_from(Word), st.tuples(st.sampled_from(Colour)))),
    (Literal["a", "b"], st.sampled_from(["a", "b"])),
]
typed = st.sampled_from(TYPED).flatmap(lambda pair: st.tuples(st.just(pair[0]), pair[1]))


def same(first: Any, second: Any) -> bool:
    """Return whether two values are the same, type included, all the way down: the test's own walk."""
    if type(first) is not type(second):
        return False
    if isinstance(first, BaseModel):
        return first.model_fields_set == second.model_fields_set and same(vars(first), vars(second))
    if dataclasses.is_dataclass(first):
        return same(vars(first), vars(second))
    if isinstance(first, dict):
        return same(list(first), list(second)) and all(same(first[key], second[key]) for key in first)
    if isinstance(first, list | tuple):
        return len(first) == len(second) and all(map(same, first, second))
    if isinstance(first, float):
        return repr(first) == repr(second)
    if isinstance(first, datetime.datetime):
        return first.isoformat() == second.isoformat()
    return bool(first == second)


def through_a_file(codec: Codec, value: Any) -> Any:
    """Return what comes back when a value is written to a line and read in another process."""
    written = codec.write(value)
    line = write_json({"json": written.json, "type": written.type})
    read = parse_json(line)
    return codec.read(TypedJson(json=read["json"], type=read["type"]))


@given(typed)
def test_a_value_of_its_annotation_comes_back_the_same(pair: tuple[Any, Any]) -> None:
    annotation, value = pair

    back = through_a_file(codec_for(annotation), value)

    assert same(back, value)


@given(typed)
def test_a_value_of_a_type_of_its_own_comes_back_the_same_without_any_annotation_or_is_refused(
    pair: tuple[Any, Any],
) -> None:
    _, value = pair

    try:
        back = through_a_file(codec_for(Any), value)
    except ConfigurationError:
        assert type(value) in (dict, list, tuple, set, frozenset, Place)  # they say nothing of what is in them
        return

    assert same(back, value)


@given(typed)
def test_a_deep_codec_refuses_none_of_them(pair: tuple[Any, Any]) -> None:
    _, value = pair

    back = through_a_file(DeepCodec(Any), value)

    assert same(back, value)


@given(any_json)
def test_json_comes_back_the_same_and_as_a_copy(value: Any) -> None:
    for annotation in (Any, None | dict[str, Any] | list[Any] | str | int | float | bool):
        codec = codec_for(annotation)
        written = codec.write(value)

        back = through_a_file(codec, value)

        assert same(back, value)
        assert written.type is None
        if isinstance(value, dict | list):
            assert written.json is not value
            assert codec.read(written) is not written.json


def test_a_subclass_comes_back_as_what_it_is() -> None:
    back = through_a_file(codec_for(Item), Special(name="x", power=3))

    assert same(back, Special(name="x", power=3))


class Special(Item):
    power: int = 0


def test_the_fields_of_a_model_that_were_not_set_stay_unset() -> None:
    back = through_a_file(codec_for(Item), Item(name="x", ratio=2.0))

    assert back.model_fields_set == {"name", "ratio"}


class Stamped(BaseModel):
    at: float = Field(default_factory=lambda: math.inf)
    _secret: int = PrivateAttr(default=0)


def test_a_model_whose_private_part_is_lost_is_refused() -> None:
    value = Stamped()
    value._secret = 7

    with pytest.raises(ConfigurationError, match=r"tests\.unit\.test_values:Stamped"):
        codec_for(Stamped).write(value)


def test_what_an_annotation_would_change_is_written_by_its_own_type() -> None:
    written = [codec_for(float).write(3), codec_for(bytes).write("text"), codec_for(str | None).write(b"\xff")]

    assert [found.type for found in written] == [None, "builtins:str", "builtins:bytes"]
    assert same(through_a_file(codec_for(float), 3), 3)
    assert same(through_a_file(codec_for(str | None), b"\xff"), b"\xff")


def test_a_set_is_written_in_one_order() -> None:
    words = {f"word {number}" for number in range(50)}

    written = codec_for(set[str]).write(words)

    assert written.json == sorted(words)


def endless() -> list[Any]:
    found: list[Any] = []
    found.append(found)
    return found


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (object, "builtins:object"),
        (lambda: print, "builtins:builtin_function_or_method"),
        (lambda: (number for number in range(3)), "builtins:generator"),
        (lambda: {"a": [1, {"b": object()}]}, r"builtins:dict \(in it, at \['a'\]\[1\]\['b'\], builtins:object\)"),
        (lambda: [1, (2, 3)], r"builtins:list \(in it, at \[1\], builtins:tuple\)"),
        (lambda: {1: "a"}, "builtins:dict "),
        (lambda: {"a": Word.YES}, r"\['a'\], tests\.unit\.test_values:Word"),
        (lambda: {"a": {"b"}}, r"\['a'\], builtins:set"),
        (type("Local", (), {}), "tests.unit.test_values:Local"),
        (endless, "builtins:list"),
    ],
    ids=lambda found: found if isinstance(found, str) else "",
)
def test_what_would_not_come_back_is_refused_naming_its_type(make: Callable[[], Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words) as caught:
        codec_for(Any).write(make())

    assert "does not survive JSON and back; annotate it" in str(caught.value)


@dataclasses.dataclass
class Loose:
    value: Any


@pytest.mark.parametrize("value", [Word.YES, (1, 2), {"a": Level.LOW}, {Word.NO}])
def test_a_type_lost_inside_a_dataclass_is_noticed(value: Any) -> None:
    back = through_a_file(codec_for(Loose), Loose(value))

    assert same(back, Loose(value))


def test_a_path_and_other_types_of_the_standard_library_come_back() -> None:
    for value in (pathlib.PurePosixPath("/a/b"), complex(1, 2), datetime.timedelta(seconds=3)):
        assert same(through_a_file(codec_for(Any), value), value)


def test_a_type_is_named_by_module_and_qualified_name_and_found_by_it() -> None:
    assert name_of_type(Order) == "tests.unit.test_values:Order"
    assert import_type("tests.unit.test_values:Order") is Order


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("no_such_module:X", "cannot be imported"),
        ("json:NoSuchName", "cannot be imported"),
        ("os:system", "is no type any more"),
    ],
)
def test_a_recorded_type_that_is_gone_is_one_clear_error(name: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=f"'{name}' {words}"):
        codec_for(Any).read(TypedJson(json={}, type=name))


def test_a_recorded_value_that_its_type_does_not_take_any_more_is_one_clear_error() -> None:
    with pytest.raises(ConfigurationError, match="a recorded value does not fit"):
        codec_for(Item).read(TypedJson(json={"title": "renamed"}))
