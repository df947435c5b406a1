"""Whether a tool may be called: a policy decides for new calls, and is not asked about recorded ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol, get_args

from pytest_agentreplay.errors import ConfigurationError

__all__ = ["Approve", "Decision", "Policy"]

Approve = Callable[[str, Any], bool]
Action = Literal["allow", "deny", "ask"]


@dataclass(frozen=True)
class Decision:
    """What a policy says of one call; ``ask`` leaves it to the approver.

    Raises :class:`ConfigurationError` for an action that there is not.
    """

    action: Action
    reason: str = ""

    def __post_init__(self) -> None:
        if self.action not in get_args(Action):
            raise ConfigurationError(f"the decision {self.action!r} is not one of {', '.join(get_args(Action))}")


class Policy(Protocol):
    """Decides about calls of tools."""

    def decide(self, tool: str, arguments: Any) -> Decision:
        """Return the decision about one call; ``arguments`` are JSON."""
