"""The content addresses of a list's elements, which a conversation shares from request to request.

Each request of a conversation sends what the one before it sent, and some more: lists that grow from one another keep
their elements in one place, so that to keep them, and to tell what one adds to another, costs what was added.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, overload

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

__all__ = ["Addresses"]


class Addresses(Sequence[str]):
    """The addresses of a list's elements, in their order: equal to a tuple of the same."""

    __slots__ = ("_count", "_shared", "_tip")

    def __init__(self, addresses: Iterable[str] = ()) -> None:
        self._shared = list(addresses)  # of this list and of those that grew from it
        self._count = len(self._shared)
        self._tip = [True]  # whoever takes it may add to what is shared: one thread, once

    def plus(self, added: Sequence[str]) -> Addresses:
        """Return the list with ``added`` at its end."""
        try:
            self._tip.pop()
        except IndexError:
            return Addresses([*self, *added])
        grown = Addresses.__new__(Addresses)
        grown._shared = self._shared
        grown._shared.extend(added)
        grown._count = self._count + len(added)
        grown._tip = [True]
        return grown

    def goes_on_from(self, other: Addresses) -> bool:
        """Return whether this list begins with all of the other."""
        if other._count > self._count:
            return False
        return self._shared is other._shared or self._shared[: other._count] == other._shared[: other._count]

    def after(self, count: int) -> list[str]:
        """Return the addresses behind so many."""
        return self._shared[count : self._count]

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[str, ...]: ...
    def __getitem__(self, index: int | slice) -> str | tuple[str, ...]:
        if isinstance(index, slice):
            return tuple([self._shared[place] for place in range(*index.indices(self._count))])
        return self._shared[range(self._count)[index]]

    def __iter__(self) -> Iterator[str]:
        return islice(self._shared, self._count)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Addresses):
            return self._count == other._count and self.goes_on_from(other)
        return tuple(self) == other if isinstance(other, tuple) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return Addresses, (tuple(self),)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        items = handler(tuple[str, ...])
        return core_schema.no_info_wrap_validator_function(
            lambda given, check: given if isinstance(given, cls) else cls(check(given)),
            items,
            serialization=core_schema.plain_serializer_function_ser_schema(tuple, return_schema=items),
        )
