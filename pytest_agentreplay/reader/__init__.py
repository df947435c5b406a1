"""A request as it crossed the wire, read into what a tape keeps and what it is known by.

Always in the same order, when recording and when replaying: redact, normalise, canonicalise, hash.
"""

from pytest_agentreplay.reader.asked import Asked, HttpRequest, ToolCalled
from pytest_agentreplay.reader.reader import Reader
from pytest_agentreplay.reader.rules import RuleSet, rule_set_for

__all__ = ["Asked", "HttpRequest", "Reader", "RuleSet", "ToolCalled", "rule_set_for"]
