"""Record an agent's provider requests once, and replay them offline against the live agent code.

Users meet it as ``@pytest.mark.agent_cassette``; see the README.
"""

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

__version__ = "0.1.0"

__all__ = [
    "AgentReplayError",
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
