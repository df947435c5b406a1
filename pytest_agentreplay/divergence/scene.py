"""What a report of a divergence is about: where it happened, and what its reader can write."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["IGNORE_RULE", "Scene", "Unfinished", "Words"]

IGNORE_RULE = "ignore=["


@dataclass(frozen=True)
class Words:
    """What a report tells its reader to write: a command of pytest's and a marker, or arguments in code.

    ``{test}`` stands for the test's node id, ``{mode}`` for a record mode, ``{setting}`` for a setting with its value.
    ``test`` is the node id of the test to run where the report is about no test.  ``prune`` drops what a test does not
    ask for, ``None`` where no command does.  ``rule`` is what a long setting is given by, and ``restart`` lets a
    resumed run begin anew.
    """

    test: str | None = None
    again: str = "pytest {test} --record-mode={mode}"
    prune: str | None = "agentreplay prune {test}"
    setting: str = "@pytest.mark.agent_cassette({setting})"
    rule: str = "{setting}"
    restart: str = "allow_restart=True"

    def record(self, test: str, mode: str) -> str:
        """Return what records a test again, in a record mode."""
        return _filled(self.again, {"{test}": shlex.quote(self.test or test), "{mode}": mode})

    def drop(self, test: str) -> str | None:
        """Return what drops the recorded steps that a test does not ask for, ``None`` where no command does."""
        return _filled(self.prune, {"{test}": shlex.quote(self.test or test)}) if self.prune else None

    def set(self, setting: str) -> str:
        """Return what makes a setting."""
        return self.setting.replace("{setting}", setting)

    def vary(self, rule: str) -> str:
        """Return what lets the values vary that a rule is about."""
        return self.rule.replace("{setting}", f"{IGNORE_RULE}{rule}]")


@dataclass(frozen=True)
class Unfinished:
    """A recording that was never finished: of its steps some are ``held``, and the ``failed`` are asked for again.

    Where it holds something that cannot be read, ``fault`` says why.
    """

    path: str
    held: int = 0
    failed: int = 0
    fault: str | None = None

    @property
    def mode(self) -> str:
        """The record mode of a run that can deal with it."""
        return "rewrite" if self.fault else "once"

    @property
    def remedy(self) -> str:
        """What a run that records does with it."""
        if self.fault:
            return "Record it anew (what this holds cannot be read, and is replaced)"
        if not self.held:
            return "Record it" + (" (all that this holds has failed, and is asked again)" if self.failed else "")
        but = ", but for the failures that it ends in" if self.failed else ""
        return f"Resume it (what it holds is not asked again{but})"


@dataclass(frozen=True)
class Scene:
    """Where a divergence happened.

    ``recorded`` and ``now`` are the call sequences, as short names; ``place`` is the index at which they differ, in
    ``recorded`` alone where the run ``is_over``: nothing that it did differs then.  ``recorded_by`` is the test that
    the cassette is of, where that is another.
    """

    test: str
    cassette: str
    recorded_by: str | None = None
    words: Words = field(default_factory=Words)
    call_site: str | None = None
    lane: str = ""
    recorded: tuple[str, ...] = ()
    now: tuple[str, ...] = ()
    place: int = 0
    is_over: bool = False


def _filled(template: str, meant: Mapping[str, str]) -> str:
    return re.sub("|".join(meant), lambda found: meant[found.group()], template)
