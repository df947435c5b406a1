"""What the exit code of a command says."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["ExitCode"]


class ExitCode(IntEnum):
    """The exit codes of every command."""

    FINE = 0
    FOUND = 1  # a difference, a fault, something that no test asks for
    UNUSABLE = 2  # a command that cannot be meant, or input that cannot be read: said in one line on stderr
    CRASHED = 3  # the agent that replay or resume drives raised an error of its own
