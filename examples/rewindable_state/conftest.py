from __future__ import annotations

from collections.abc import Callable

import pytest
from portfolio import seed

from pytest_agentreplay.state import View


@pytest.fixture(scope="session")
def agent_state_seed() -> Callable[[View], None]:
    """Fill the branch that every test forks."""
    return seed
