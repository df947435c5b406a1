"""What is redacted and normalised before a request is hashed, and its digest."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256

from pytest_agentreplay.canonical import canonical_json
from pytest_agentreplay.dialects import Dialects
from pytest_agentreplay.normalize import GENERIC_RULES, JSON_RPC_RULES, PathRule, parse_ignore
from pytest_agentreplay.redact import Redactor

__all__ = ["RuleSet", "rule_set_for"]


@dataclass(frozen=True)
class RuleSet:
    """What is redacted and normalised before a request is hashed."""

    redactor: Redactor
    dialects: Dialects
    ignore: tuple[PathRule, ...] = ()
    match_headers: tuple[str, ...] = ()

    @cached_property
    def digest(self) -> str:
        """``r1:`` and 16 hex digits; equal digests mean that equal requests get equal hashes."""
        description = {
            "redact": self.redactor.describe(),
            "dialects": [[dialect.name, dialect.path, dialect.rules.describe()] for dialect in self.dialects.known],
            "generic": [GENERIC_RULES.describe(), JSON_RPC_RULES.describe()],
            "ignore": [rule.describe() for rule in self.ignore],
            "headers": sorted(self.match_headers),
        }
        return "r1:" + sha256(canonical_json(description)).hexdigest()[:16]


def rule_set_for(
    dialects: Dialects, *, redactor: Redactor, ignore: Iterable[str] = (), match_headers: Iterable[str] = ()
) -> RuleSet:
    """Return the rule set of the built-in rules and the user's.

    Raises :class:`ConfigurationError` for an ``ignore`` rule that is not understood.
    """
    return RuleSet(
        redactor=redactor,
        dialects=dialects,
        ignore=tuple(parse_ignore(rule) for rule in ignore),
        match_headers=tuple(name.lower() for name in match_headers),
    )
