"""Where in the user's own code a request was made, or an error came through."""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import CodeType, FrameType, TracebackType

__all__ = ["Place", "find_call_site", "find_places"]

_PACKAGE = str(Path(__file__).resolve().parent.parent)


@dataclass(frozen=True)
class Place:
    """A line of the user's code that was being run; lines count from 1."""

    filename: str
    line: int
    function: str

    @classmethod
    def of(cls, code: CodeType, line: int) -> Place:
        """Return the place of a line of some code."""
        return cls(code.co_filename, line, code.co_name)

    @property
    def shown(self) -> str:
        """``FILE:LINE in FUNCTION``, the file as seen from the working directory."""
        return f"{_shown(self.filename)}:{self.line} in {self.function}"


def find_call_site() -> str | None:
    """Return ``FILE:LINE in FUNCTION`` of the innermost frame outside libraries, or ``None`` where there is none."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if _is_users(frame.f_code.co_filename):
            return Place.of(frame.f_code, frame.f_lineno).shown
        frame = frame.f_back
    return None


def find_places(traceback: TracebackType | None) -> Iterator[Place]:
    """Yield the places outside libraries that an error came through, the outermost first."""
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if _is_users(code.co_filename):
            yield Place.of(code, traceback.tb_lineno)
        traceback = traceback.tb_next


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
