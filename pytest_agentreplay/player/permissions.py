"""Whether a tool may be called: a policy decides for new calls, and is not asked about recorded ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

__all__ = ["Approve", "Decision", "Policy"]

Approve = Callable[[str, Any], bool]


@dataclass(frozen=True)
class Decision:
    """What a policy says of one call; ``ask`` leaves it to the approver."""

    action: Literal["allow", "deny", "ask"]
    reason: str = ""


class Policy(Protocol):
    """Decides about calls of tools."""

    def decide(self, tool: str, arguments: Any) -> Decision:
        """Return the decision about one call; ``arguments`` are JSON."""
