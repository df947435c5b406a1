"""Catch the requests of every HTTP client in the table, for the length of a session.

vcrpy puts the patches in and takes them out (its stock patchers stay off: they buffer whole responses, and the one for
urllib3 takes every patch of the process out on each new connection).  A client that is imported later is patched then.
A request that no test owns passes through untouched.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from types import ModuleType
from typing import Any

import vcr
from vcr.patch import PATCHER_NAMES
from vcr.persisters.filesystem import CassetteNotFoundError

from pytest_agentreplay.taps.clients import CLIENTS, ClientTap
from pytest_agentreplay.taps.exchange import Exchanges
from pytest_agentreplay.taps.imports import patched_when_imported
from pytest_agentreplay.taps.owners import Registry

__all__ = ["patch_http_clients"]


class _NoFile:
    """A persister for vcrpy's own cassette, which holds nothing."""

    @staticmethod
    def load_cassette(cassette_path: Any, serializer: Any) -> Any:
        raise CassetteNotFoundError(f"{cassette_path} is never read with {serializer}")

    @staticmethod
    def save_cassette(cassette_path: Any, cassette_dict: Any, serializer: Any) -> None:
        raise AssertionError(f"nothing is recorded to {cassette_path}: {cassette_dict!r} {serializer!r}")


@contextmanager
def patch_http_clients(registry: Registry) -> Iterator[None]:
    """Patch every client that is imported before or in this block, until the block ends."""
    exchanges = Exchanges(registry)
    table = {name: partial(_patch, tap, exchanges=exchanges) for name, tap in CLIENTS.items()}
    with patched_when_imported(table):
        yield


def _patch(tap: ClientTap, module: ModuleType, *, exchanges: Exchanges) -> AbstractContextManager[Any]:
    return _installed_by_vcr(tap(module, exchanges))


def _installed_by_vcr(patches: Iterable[tuple[type, str, Any]]) -> AbstractContextManager[Any]:
    patcher = vcr.VCR(custom_patches=tuple(patches), skip_patchers=PATCHER_NAMES, record_mode="none")
    patcher.register_persister(_NoFile)
    patch: AbstractContextManager[Any] = patcher.use_cassette("agent-replay")
    return patch
