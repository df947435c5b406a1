"""Every error this package raises, in one tree.

::

    Exception
    └── AgentReplayError
        ├── ConfigurationError          a setting, marker or command line that cannot be meant
        ├── CassetteError               a file that cannot be read as a cassette
        ├── RecordedToolError           a tool's recorded exception whose class is not there any more
        ├── ToolDeniedError             a tool's call that the policy denied
        ├── NoRecordedOutputError       more model outputs were asked for than a tape holds
        ├── StateError                  what a state store cannot do
        │   ├── AlreadyExistsError      a name that a branch has already
        │   ├── BranchInUseError        a branch that others depend on
        │   ├── BranchNotFoundError     a branch that is not there, or not there any more
        │   ├── HistoryUnavailableError a position that is not in the past of the branch being read
        │   ├── InvalidInputError       a name, key, path or value that a store cannot keep
        │   ├── ReadOnlyError           a write to a view of the past
        │   └── StoreFileError          a file that cannot be read or written as a store
        └── ReplayDivergenceException   the twin of ReplayDivergenceError for multiprocessing pools
    BaseException
    └── OutcomeException (pytest)
        └── ReplayStop                  comes through SDKs that wrap and retry every Exception
            ├── ReplayDivergenceError   the live run and the recording differ
            ├── StrayRequestError       a request that belongs to no running test
            ├── NetworkBlockedError     a connection that no recording stands for
            ├── SecretLeakError         a secret that would have been written
            ├── RecordingFailedError    an answer could not be written
            ├── ToolRefusedError        a tool was called where none may be
            └── UnrecordableError       a tool's arguments or result are no values that a tape can keep

    Warning
    └── UserWarning
        └── ReplayDivergenceWarning     the live run and the recording differ where that is allowed

``ReplayStop`` derives from ``BaseException`` for the reason pytest's own outcomes do: the provider SDKs catch
any ``Exception`` a transport raises, wrap it and retry, and the cause would drown.  It is one of pytest's outcomes, by
their common base, because pytest and the runners of async tests go on after those: after any other ``BaseException``
pytest skips the teardowns that are left, and anyio gives its event loop up.  The docstring of a class is its default
message.
"""

from __future__ import annotations

from typing import ClassVar, Literal, TypeAlias, get_args

from _pytest.outcomes import OutcomeException  # the base itself has no public name, and importing pytest takes long

__all__ = [
    "AgentReplayError",
    "AlreadyExistsError",
    "BranchInUseError",
    "BranchNotFoundError",
    "CassetteError",
    "ConfigurationError",
    "HistoryUnavailableError",
    "InvalidInputError",
    "NetworkBlockedError",
    "NoRecordedOutputError",
    "ReadOnlyError",
    "RecordedToolError",
    "RecordingFailedError",
    "ReplayDivergenceError",
    "ReplayDivergenceException",
    "ReplayDivergenceWarning",
    "ReplayStop",
    "SecretLeakError",
    "StateError",
    "StoreFileError",
    "StrayRequestError",
    "ToolDeniedError",
    "ToolRefusedError",
    "UnrecordableError",
]

DivergenceKind: TypeAlias = Literal["changed", "missing-cassette", "exhausted", "order", "unplayed"]


class _Documented(BaseException):
    """Give an error raised without arguments its class docstring as the message."""

    def __init__(self, *args: object) -> None:
        super().__init__(*(args or ((type(self).__doc__ or type(self).__name__).strip().splitlines()[0],)))


class AgentReplayError(_Documented, Exception):
    """Something went wrong in pytest_agentreplay."""


class ConfigurationError(AgentReplayError):
    """A setting cannot be used as given."""


class CassetteError(AgentReplayError):
    """A cassette cannot be read.

    The message has four parts: the file and the line, where they are known, what is wrong and what to do about it.
    ``{again}`` in the remedy stands for what records the cassette again.
    """

    any_again: ClassVar[str] = "pytest TEST --record-mode=rewrite, in code record_mode='rewrite'"

    def __init__(
        self, fault: str, *, path: object = None, line: int | None = None, remedy: str = "", again: str = any_again
    ) -> None:
        self.path = path
        self.line = line
        self.fault = fault
        self.remedy = remedy.replace("{again}", again)
        self._remedy = remedy
        super().__init__(_placed(fault, place=f"{path}:{line}" if line else path, remedy=self.remedy))

    def told(self, *, path: object, again: str) -> CassetteError:
        """Return this error in the words of who opened the file: its path, and what records it again."""
        return CassetteError(self.fault, path=path, line=self.line, remedy=self._remedy, again=again)

    @classmethod
    def unreadable(cls, path: object, error: OSError) -> CassetteError:
        """Return the error of a file that the system does not give."""
        is_absent = isinstance(error, FileNotFoundError)
        remedy = "Check the path, or record it first." if is_absent else "Name a file that may be read."
        return cls(f"cannot be read: {error.strerror or error}", path=path, remedy=remedy)


class ReplayStop(_Documented, OutcomeException):
    """Replay cannot go on."""


class ReplayDivergenceError(ReplayStop):
    """The live run and the recording differ.

    ``kind`` is one of :attr:`kinds`; the message is the whole report.  ``change`` is the same for all requests that
    differ from their recordings in the same way, ``None`` where there is nothing to compare.
    """

    kinds: ClassVar[tuple[DivergenceKind, ...]] = get_args(DivergenceKind)

    def __init__(self, report: str = "", *, kind: DivergenceKind = "changed", change: str | None = None) -> None:
        self.kind = kind
        self.change = change
        super().__init__(*([report] if report else []))


class ReplayDivergenceException(AgentReplayError):
    """The live run and the recording differ.

    Raised instead of a :class:`ReplayStop` in the workers of ``multiprocessing.pool``, threads and processes, which
    die of a ``BaseException`` and leave the pool waiting for ever.
    """


class ReplayDivergenceWarning(UserWarning):
    """The live run and the recording differ, where that is allowed."""


class StrayRequestError(ReplayStop):
    """A request was made that belongs to no running test."""


class NetworkBlockedError(ReplayStop):
    """A connection was tried in replay, outside the recorder."""


class SecretLeakError(ReplayStop):
    """A secret would have been written to a cassette."""


class ToolRefusedError(ReplayStop):
    """A tool was called in a test that lets none be called."""


class RecordedToolError(AgentReplayError):
    """A tool failed when this was recorded, with an exception whose class cannot be raised again."""


class ToolDeniedError(AgentReplayError):
    """The policy denied the call of a tool."""


class NoRecordedOutputError(AgentReplayError):
    """More model outputs were asked for than were recorded."""


class UnrecordableError(ReplayStop):
    """A tool was called with, or returned, what a tape cannot keep."""


class RecordingFailedError(ReplayStop):
    """An answer could not be written to the recording."""


class StateError(AgentReplayError):
    """A state store cannot do this.

    ``code`` is the same word in every version, for programs.
    """

    code: ClassVar[str] = "state"


class AlreadyExistsError(StateError):
    """A branch of this name is there already."""

    code = "already_exists"


class BranchInUseError(StateError):
    """A branch that others depend on cannot be deleted."""

    code = "branch_in_use"


class BranchNotFoundError(StateError):
    """There is no such branch."""

    code = "branch_not_found"


class HistoryUnavailableError(StateError):
    """A position is not in the past of the branch that is read."""

    code = "history_unavailable"


class InvalidInputError(StateError):
    """A store cannot keep this name, key, path or value."""

    code = "invalid_input"


class ReadOnlyError(StateError):
    """The past can be read, not written."""

    code = "read_only"


class StoreFileError(StateError):
    """A file cannot be read or written as a state store.

    The message has three parts: the file, where it is known, what is wrong and what to do about it.
    """

    code = "store_file"

    def __init__(self, fault: str, *, path: object = None, remedy: str = "") -> None:
        self.path = path
        self.fault = fault
        self.remedy = remedy
        super().__init__(_placed(fault, place=path, remedy=remedy))


def _placed(fault: str, *, place: object, remedy: str) -> str:
    return ("" if place is None else f"{place}: ") + fault + (f"\n  {remedy}" if remedy else "")
