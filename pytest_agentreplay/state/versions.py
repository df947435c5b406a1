"""A version is a number that knows the branch it was committed on."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, TypeAlias

__all__ = ["AsOf", "Origin", "Version"]


class Origin(NamedTuple):
    """Where a version was committed: the store, and the branch by its identity, which no other branch ever has."""

    store: str
    branch: int
    name: str


class Version(int):
    """The position of a commit on its branch.

    An ``int`` in every other way.  Two branches can both have a version 9; ``origin`` tells them apart, so that a read
    of one branch as of a commit on another is refused, whether that number exists there or not.
    """

    origin: Origin

    def __new__(cls, number: int, origin: Origin) -> Version:
        version = super().__new__(cls, number)
        version.origin = origin
        return version

    @property
    def branch(self) -> str:
        """The name of the branch it was committed on."""
        return self.origin.name

    def __repr__(self) -> str:
        return f"Version({int(self)}, branch={self.origin.name!r})"

    def __str__(self) -> str:
        return int.__repr__(self)

    def __format__(self, spec: str) -> str:
        return int(self).__format__(spec)

    def __reduce__(self) -> tuple[Any, ...]:  # for copy and pickle
        return Version, (int(self), self.origin)


class Versioned(Protocol):
    """What carries a version: an event."""

    @property
    def version(self) -> Version:
        """The commit that wrote it."""


AsOf: TypeAlias = int | Version | Versioned | None
