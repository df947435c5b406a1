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
    NoRecordedOutputError,
    ReadOnlyError,
    RecordedToolError,
    RecordingFailedError,
    ReplayDivergenceError,
    ReplayDivergenceException,
    ReplayDivergenceWarning,
    ReplayStop,
    SecretLeakError,
    StateError,
    StoreFileError,
    StrayRequestError,
    ToolDeniedError,
    ToolRefusedError,
    UnrecordableError,
)
from pytest_agentreplay.version import __version__

if TYPE_CHECKING:
    from pytest_agentreplay.agent_run import AgentRun
    from pytest_agentreplay.cassette import Cassette, load_cassette
    from pytest_agentreplay.library import (
        ReplayModel,
        ReplayTransport,
        Result,
        RunPlan,
        areplay,
        aresume,
        replay,
        resume,
        use_cassette,
    )
    from pytest_agentreplay.player import Decision, Policy
    from pytest_agentreplay.projections.costs import costs
    from pytest_agentreplay.projections.drawn import trajectory
    from pytest_agentreplay.projections.events import Event, event_stream
    from pytest_agentreplay.projections.mermaid import render_mermaid
    from pytest_agentreplay.projections.replayed import AssistantTurn, ToolCompleted, replay_events
    from pytest_agentreplay.state import Version, open_store
    from pytest_agentreplay.taps.tools import recorded_tool

__all__ = [
    "AgentReplayError",
    "AgentRun",
    "AlreadyExistsError",
    "AssistantTurn",
    "BranchInUseError",
    "BranchNotFoundError",
    "Cassette",
    "CassetteError",
    "ConfigurationError",
    "Decision",
    "Event",
    "HistoryUnavailableError",
    "InvalidInputError",
    "NetworkBlockedError",
    "NoRecordedOutputError",
    "Policy",
    "ReadOnlyError",
    "RecordedToolError",
    "RecordingFailedError",
    "ReplayDivergenceError",
    "ReplayDivergenceException",
    "ReplayDivergenceWarning",
    "ReplayModel",
    "ReplayStop",
    "ReplayTransport",
    "Result",
    "RunPlan",
    "SecretLeakError",
    "StateError",
    "StoreFileError",
    "StrayRequestError",
    "ToolCompleted",
    "ToolDeniedError",
    "ToolRefusedError",
    "UnrecordableError",
    "Version",
    "__version__",
    "areplay",
    "aresume",
    "costs",
    "event_stream",
    "load_cassette",
    "open_store",
    "recorded_tool",
    "render_mermaid",
    "replay",
    "replay_events",
    "resume",
    "trajectory",
    "use_cassette",
]

# What brings in pydantic is imported when it is asked for: the plugin loads this package in every session.
_LAZY = {
    "AgentRun": "pytest_agentreplay.agent_run",
    "AssistantTurn": "pytest_agentreplay.projections.replayed",
    "Cassette": "pytest_agentreplay.cassette",
    "Decision": "pytest_agentreplay.player",
    "Event": "pytest_agentreplay.projections.events",
    "Policy": "pytest_agentreplay.player",
    "ReplayModel": "pytest_agentreplay.library",
    "ReplayTransport": "pytest_agentreplay.library",
    "Result": "pytest_agentreplay.library",
    "RunPlan": "pytest_agentreplay.library",
    "ToolCompleted": "pytest_agentreplay.projections.replayed",
    "Version": "pytest_agentreplay.state",
    "areplay": "pytest_agentreplay.library",
    "aresume": "pytest_agentreplay.library",
    "costs": "pytest_agentreplay.projections.costs",
    "event_stream": "pytest_agentreplay.projections.events",
    "load_cassette": "pytest_agentreplay.cassette",
    "open_store": "pytest_agentreplay.state",
    "recorded_tool": "pytest_agentreplay.taps.tools",
    "render_mermaid": "pytest_agentreplay.projections.mermaid",
    "replay": "pytest_agentreplay.library",
    "replay_events": "pytest_agentreplay.projections.replayed",
    "resume": "pytest_agentreplay.library",
    "trajectory": "pytest_agentreplay.projections.drawn",
    "use_cassette": "pytest_agentreplay.library",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
