"""Lists of content addresses: tuples to look at, and as cheap to grow as what is added."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from pytest_agentreplay.addresses import Addresses

any_addresses = st.lists(st.sampled_from(["c1:a", "c1:b", "c1:c"]), max_size=5).map(tuple)
_FIELD = TypeAdapter(Addresses)


@given(parts=st.lists(any_addresses, max_size=4))
def test_a_list_that_grew_reads_as_the_tuple_of_all_its_parts(parts: list[tuple[str, ...]]) -> None:
    grown = Addresses()
    for part in parts:
        grown = grown.plus(part)

    whole = sum(parts, ())

    assert tuple(grown) == whole
    assert grown == whole
    assert hash(grown) == hash(Addresses(whole))
    assert repr(grown) == repr(whole)
    assert len(grown) == len(whole)
    assert all(grown[place] == whole[place] for place in range(-len(whole), len(whole)))


@given(addresses=any_addresses, added=any_addresses, index=st.slices(6), count=st.integers(0, 6))
def test_a_slice_knows_nothing_of_what_was_added_later(
    addresses: tuple[str, ...], added: tuple[str, ...], index: slice, count: int
) -> None:
    first = Addresses(addresses)
    first.plus(added)

    assert first[index] == addresses[index]
    assert tuple(first.after(count)) == addresses[count:]
    with pytest.raises(IndexError):
        first[len(addresses)]


@given(base=any_addresses, one=any_addresses, other=any_addresses)
def test_two_lists_that_grow_from_one_are_apart(
    base: tuple[str, ...], one: tuple[str, ...], other: tuple[str, ...]
) -> None:
    shared = Addresses(base)
    grown = [shared.plus(one), shared.plus(other)]

    assert [tuple(found) for found in (shared, *grown)] == [base, base + one, base + other]


@given(base=any_addresses, added=any_addresses, other=any_addresses)
def test_a_list_goes_on_from_another_where_it_begins_with_it(
    base: tuple[str, ...], added: tuple[str, ...], other: tuple[str, ...]
) -> None:
    first = Addresses(base)
    grown = first.plus(added)

    assert grown.goes_on_from(first)
    assert first.goes_on_from(grown) is (not added)
    assert (grown == first) is (not added)
    for found in (grown, Addresses(base + added)):
        assert found.goes_on_from(Addresses(other)) is ((base + added)[: len(other)] == other)
        assert (found == Addresses(other)) is (base + added == other)


def test_a_list_that_is_added_to_while_it_is_added_to_elsewhere_stays_what_it_is() -> None:
    shared = Addresses(["c1:a"])
    elsewhere = []

    class Added(tuple[str, ...]):
        def __iter__(self) -> Iterator[str]:
            elsewhere.append(shared.plus(["c1:c"]))
            return super().__iter__()

    grown = shared.plus(Added(["c1:b"]))

    assert tuple(grown) == ("c1:a", "c1:b")
    assert [tuple(found) for found in elsewhere] == [("c1:a", "c1:c")]


def test_a_list_is_copied_without_what_was_added_to_it() -> None:
    shorter = Addresses(["c1:a"])
    longer = shorter.plus(["c1:b"] * 5_000)

    for again in (copy.copy(shorter), copy.deepcopy(shorter), pickle.loads(pickle.dumps(shorter))):
        assert again == shorter
        assert again.plus(["c1:c"]) == ("c1:a", "c1:c")
    assert len(pickle.dumps(shorter)) < 200
    assert len(longer) == 5_001


def test_a_field_takes_any_list_of_texts_and_gives_a_plain_one() -> None:
    addresses = Addresses(["c1:a"])

    assert _FIELD.validate_python(addresses) is addresses
    assert _FIELD.validate_python(("c1:a",)) == addresses
    assert _FIELD.validate_json('["c1:a"]') == addresses
    assert _FIELD.dump_python(addresses.plus(["c1:b"])) == ("c1:a", "c1:b")
    assert _FIELD.dump_json(addresses) == b'["c1:a"]'
    for wrong in ("c1:a", [1], None):
        with pytest.raises(ValidationError):
            _FIELD.validate_python(wrong)
