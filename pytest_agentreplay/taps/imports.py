"""Patch a module where it is imported: at once where that has happened, else right after it does.

Nothing is imported for being patched, so a session pays for the libraries that its tests use.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from types import ModuleType
from typing import Any, TypeAlias

from wrapt.importer import ImportHookFinder, register_post_import_hook

__all__ = ["Patch", "patched_when_imported"]

Patch: TypeAlias = Callable[[Any], AbstractContextManager[Any]]

# Import hooks cannot be taken back, so those that are left look here for whom they still serve.
_installed: list[_Patches] = []


@contextmanager
def patched_when_imported(table: Mapping[str, Patch]) -> Iterator[None]:
    """Patch every module in the table, by name, that is imported before or in this block, until the block ends."""
    with ExitStack() as stack:
        patches = _Patches(table, stack)
        _installed.append(patches)
        stack.callback(_installed.remove, patches)
        for name in table:
            module = sys.modules.get(name)
            if module is not None:
                patches.apply(module)
            else:
                register_post_import_hook(_patch_imported, name)
        _see_imports()
        yield


class _Patches:
    """The modules that one table has patched."""

    def __init__(self, table: Mapping[str, Patch], stack: ExitStack) -> None:
        self._table = table
        self._stack = stack
        self._patched: list[ModuleType] = []

    def apply(self, module: ModuleType) -> None:
        """Patch a module, once."""
        patch = self._table.get(module.__name__)
        if patch is None or any(module is patched for patched in self._patched):
            return
        self._patched.append(module)
        self._stack.enter_context(patch(module))


def _see_imports() -> None:
    """Put wrapt's finder back where it is gone: it is put there once, and pytester for one takes it out again."""
    if not any(isinstance(finder, ImportHookFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, ImportHookFinder())


def _patch_imported(module: ModuleType) -> None:
    for patches in tuple(_installed):
        patches.apply(module)
