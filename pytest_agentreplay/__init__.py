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
    RecordedToolError,
    RecordingFailedError,
    ReplayDivergenceError,
    ReplayDivergenceException,
    ReplayStop,
    SecretLeakError,
    StrayRequestError,
    ToolDeniedError,
    ToolRefusedError,
    UnrecordableError,
)

if TYPE_CHECKING:
    from pytest_agentreplay.agent_run import AgentRun
    from pytest_agentreplay.player import Decision, Policy
    from pytest_agentreplay.taps.tools import recorded_tool

__version__ = "0.1.0"

__all__ = [
    "AgentReplayError",
    "AgentRun",
    "CassetteError",
    "ConfigurationError",
    "Decision",
    "NetworkBlockedError",
    "Policy",
    "RecordedToolError",
    "RecordingFailedError",
    "ReplayDivergenceError",
    "ReplayDivergenceException",
    "ReplayStop",
    "SecretLeakError",
    "StrayRequestError",
    "ToolDeniedError",
    "ToolRefusedError",
    "UnrecordableError",
    "__version__",
    "recorded_tool",
]

# What brings in pydantic is imported when it is asked for: the plugin loads this package in every session.
_LAZY = {
    "AgentRun": "pytest_agentreplay.agent_run",
    "Decision": "pytest_agentreplay.player",
    "Policy": "pytest_agentreplay.player",
    "recorded_tool": "pytest_agentreplay.taps.tools",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
