"""Record an agent's provider requests once, and replay them offline against the live agent code.

Users meet it as ``@pytest.mark.agent_cassette``; see the README.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.errors import (
    AgentReplayError,
    AlreadyExistsError,
    BranchInUseError,
    BranchNotFoundError,
    CassetteError,
    ConfigurationError,
    HistoryUnavailableError,
    InvalidInputError,
    NetworkBlockedError,
    ReadOnlyError,
    RecordedToolError,
    RecordingFailedError,
    ReplayDivergenceError,
    ReplayDivergenceException,
    ReplayStop,
    SecretLeakError,
    StateError,
    StoreFileError,
    StrayRequestError,
    ToolDeniedError,
    ToolRefusedError,
    UnrecordableError,
)

if TYPE_CHECKING:
    from pytest_agentreplay.agent_run import AgentRun
    from pytest_agentreplay.player import Decision, Policy
    from pytest_agentreplay.state import Version, open_store
    from pytest_agentreplay.taps.tools import recorded_tool

__version__ = "0.1.0"

__all__ = [
    "AgentReplayError",
    "AgentRun",
    "AlreadyExistsError",
    "BranchInUseError",
    "BranchNotFoundError",
    "CassetteError",
    "ConfigurationError",
    "Decision",
    "HistoryUnavailableError",
    "InvalidInputError",
    "NetworkBlockedError",
    "Policy",
    "ReadOnlyError",
    "RecordedToolError",
    "RecordingFailedError",
    "ReplayDivergenceError",
    "ReplayDivergenceException",
    "ReplayStop",
    "SecretLeakError",
    "StateError",
    "StoreFileError",
    "StrayRequestError",
    "ToolDeniedError",
    "ToolRefusedError",
    "UnrecordableError",
    "Version",
    "__version__",
    "open_store",
    "recorded_tool",
]

# What brings in pydantic is imported when it is asked for: the plugin loads this package in every session.
_LAZY = {
    "AgentRun": "pytest_agentreplay.agent_run",
    "Decision": "pytest_agentreplay.player",
    "Policy": "pytest_agentreplay.player",
    "Version": "pytest_agentreplay.state",
    "open_store": "pytest_agentreplay.state",
    "recorded_tool": "pytest_agentreplay.taps.tools",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
