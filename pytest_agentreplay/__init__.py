"""Record an agent's provider requests once, and replay them offline against the live agent code.

Users meet it as ``@pytest.mark.agent_cassette``; see the README.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.errors import (
    AgentReplayError,
    CassetteError,
    ConfigurationError,
    NetworkBlockedError,
    ReplayDivergenceError,
    ReplayDivergenceException,
    ReplayStop,
    SecretLeakError,
    StrayRequestError,
)

if TYPE_CHECKING:
    from pytest_agentreplay.session import AgentRun

__version__ = "0.1.0"

__all__ = [
    "AgentReplayError",
    "AgentRun",
    "CassetteError",
    "ConfigurationError",
    "NetworkBlockedError",
    "ReplayDivergenceError",
    "ReplayDivergenceException",
    "ReplayStop",
    "SecretLeakError",
    "StrayRequestError",
    "__version__",
]

# What brings in pydantic is imported when it is asked for: the plugin loads this package in every session.
_LAZY = {"AgentRun": "pytest_agentreplay.session"}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
