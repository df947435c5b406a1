"""Where in the user's own code a request was made, or an error came through."""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import CodeType, FrameType, TracebackType

__all__ = ["Place", "find_call_site", "find_places"]

_WIDTH = 88  # what a report's column leaves
_RUNNER = "_pytest.runner"  # calls hooks, fixtures and tests; what is outside of it is no part of a test
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
        return self.shown_in(_shown(self.filename))

    def shown_in(self, file: str) -> str:
        """Return what is ``shown``, with the file as it is given."""
        return f"{file}:{self.line} in {self.function}"


def find_call_site() -> str | None:
    """Return the calls outside libraries that led here, from the test down, or ``None`` where there are none.

    Each is ``FILE:LINE in FUNCTION``, with `` > `` between them; of many, some in the middle are left out.
    """
    places = list(_places_from(sys._getframe(1)))[::-1]
    return _in_one_line(places) if places else None


def _places_from(frame: FrameType | None) -> Iterator[Place]:
    """Yield the places outside libraries that a frame was called from, the innermost first."""
    while frame is not None and frame.f_globals.get("__name__") != _RUNNER:
        if _is_users(frame.f_code.co_filename):
            yield Place.of(frame.f_code, frame.f_lineno)
        frame = frame.f_back


def _in_one_line(places: Sequence[Place]) -> str:
    """Return as many places as there is room for: the outermost, and the innermost last."""
    return next((line for line in _shortened(places) if len(line) <= _WIDTH), places[-1].shown)


def _shortened(places: Sequence[Place]) -> Iterator[str]:
    """Yield places in one line, ever fewer, at last the outermost by its file and line alone, if it is not the only."""
    files = {filename: _shown(filename) for filename in {place.filename for place in places}}
    outermost, *inner = (place.shown_in(files[place.filename]) for place in places)
    yield " > ".join([outermost, *inner])
    if not inner:
        return
    most = max(1, len(inner) - _WIDTH)  # more there is never room for
    yield from (" > ".join([outermost, "…", *inner[at:]]) for at in range(most, len(inner)))
    gap = ["…"] if len(inner) > 1 else []
    address = f"{Path(places[0].filename).name}:{places[0].line}"
    yield " > ".join([address, *gap, *inner[-1:]])


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
    names = ("stdlib", "platstdlib", "purelib", "platlib", "scripts")
    folders = {str(Path(sysconfig.get_path(name)).resolve()) for name in names}
    return (_PACKAGE, *sorted(folders))


def _shown(filename: str) -> str:
    path = Path(filename).resolve()
    try:
        return path.relative_to(Path.cwd()).as_posix()
    except ValueError:
        return str(path)
