"""Where in the user's own code a request was made."""

from __future__ import annotations

import sys
import sysconfig
from functools import cache
from pathlib import Path
from types import FrameType

__all__ = ["find_call_site"]

_PACKAGE = str(Path(__file__).resolve().parent.parent)


def find_call_site() -> str | None:
    """Return ``FILE:LINE in FUNCTION`` of the innermost frame outside libraries, or ``None`` where there is none."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if _is_users(frame.f_code.co_filename):
            return f"{_shown(frame.f_code.co_filename)}:{frame.f_lineno} in {frame.f_code.co_name}"
        frame = frame.f_back
    return None


@cache
def _is_users(filename: str) -> bool:
    if filename.startswith("<"):
        return False
    path = str(Path(filename).resolve())
    return not any(path.startswith(folder) for folder in _library_folders())


@cache
def _library_folders() -> tuple[str, ...]:
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    folders = {str(Path(sysconfig.get_path(name)).resolve()) for name in names}
    return (_PACKAGE, *sorted(folders))


def _shown(filename: str) -> str:
    path = Path(filename).resolve()
    try:
        return path.relative_to(Path.cwd()).as_posix()
    except ValueError:
        return str(path)
