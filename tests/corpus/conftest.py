"""The traffic of the corpus, read once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.corpus.traffic import Exchange, read_exchanges


@pytest.fixture(scope="session")
def traffic(corpus: Path) -> dict[str, list[Exchange]]:
    """The recorded exchanges of each source file."""
    return read_exchanges(corpus / "dev-exchanges.jsonl")
