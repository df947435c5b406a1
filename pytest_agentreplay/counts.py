"""A count with its noun, as it is said to people: 1 request, 2 requests."""

__all__ = ["say_count"]


def say_count(count: int, noun: str) -> str:
    """Return a count and its noun, in the plural where there is not one."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
