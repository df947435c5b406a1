"""A count agrees with its noun."""

from __future__ import annotations

import pytest

from pytest_agentreplay.counts import say_count


@pytest.mark.parametrize(
    ("count", "said"), [(0, "0 requests"), (1, "1 request"), (2, "2 requests"), (1234, "1,234 requests")]
)
def test_a_noun_is_in_the_plural_where_there_is_not_one(count: int, said: str) -> None:
    assert say_count(count, "request") == said
