"""The secrets of an environment, also those that are set while a test runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pytest_agentreplay.redact.shapes import environment_secrets

__all__ = ["EnvironmentSecrets"]


class EnvironmentSecrets:
    """Names and values of the variables that hold secrets; ``named`` and ``by_look`` as for ``environment_secrets``.

    Fixtures and agents load keys as they go, and take them away again: what has been seen once stays a secret.
    """

    def __init__(self, environment: Mapping[str, str], *, named: Iterable[str] = (), by_look: bool = True) -> None:
        self._environment = environment
        self._named = tuple(named)
        self._by_look = by_look
        self._seen: dict[str, str] = {}
        self.pairs: tuple[tuple[str, str], ...] = ()
        self.look()

    def look(self) -> None:
        """Take in what has been set since the last look.  Takes about a microsecond where nothing was."""
        # To read all of os.environ decodes each variable anew; the mapping under it tells as well whether one changed.
        seen = dict(getattr(self._environment, "_data", self._environment))
        if seen != self._seen:
            self._seen = seen
            found = environment_secrets(dict(self._environment), named=self._named, by_look=self._by_look)
            self.pairs = tuple(sorted({*self.pairs, *found}, key=lambda pair: (-len(pair[1]), *pair)))
