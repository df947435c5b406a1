"""What a tool raised: how it is kept on a tape, and how it is raised again."""

from __future__ import annotations

from typing import Any

from pytest_agentreplay.errors import (
    ConfigurationError,
    RecordedToolError,
)
from pytest_agentreplay.records import ToolFailure, ToolStep
from pytest_agentreplay.values import (
    import_type,
    name_of_type,
    spell,
    unspell,
)

__all__ = ["exception_of", "failure_of"]


def failure_of(error: BaseException) -> ToolFailure:
    """Return what a tape keeps of an exception."""
    # As pickle would: OSError keeps its file name there, and classes that know better than their args say so.
    reduced = error.__reduce__()
    made, given, *rest = reduced if isinstance(reduced, tuple) else (type(error), error.args)
    args = list(given if made is type(error) else error.args)
    found = rest[0] if rest and isinstance(rest[0], dict) else {}
    state = {name: spelled for name, value in found.items() if (spelled := _spelled(value)) is not None}
    return ToolFailure(type=name_of_type(type(error)), message=str(error), args=_spelled(args), state=state or None)


def _spelled(value: Any) -> Any:
    try:
        return spell(value)
    except (ConfigurationError, RecursionError):
        return None


def exception_of(step: ToolStep) -> Exception:
    """Return the exception that a tool raised: of its class, where that can still be made and says the same."""
    failure = step.error
    assert failure is not None
    for make in (_construct, _restore):  # what a constructor takes is not always what it leaves in ``args``
        try:
            made = make(import_type(failure.type), failure)
            if str(made) == failure.message:
                return made
        except Exception:  # noqa: BLE001 - the class is the user's, and so is what it raises when it is made
            continue
    return RecordedToolError(
        f"the tool {step.name!r} failed when it was recorded: {failure.type}: {failure.message}\n"
        "  That exception cannot be made again here. To have it raised in replay, let the tool raise one whose class "
        "stands at the top of a module, and can be called with the exception's args."
    )


def _construct(kind: type, failure: ToolFailure) -> Exception:
    made = kind(*_args_of(failure))
    return _with_state(made, failure)


def _restore(kind: type, failure: ToolFailure) -> Exception:
    args = _args_of(failure)
    made = kind.__new__(kind, *args)
    made.args = tuple(args)
    return _with_state(made, failure)


def _args_of(failure: ToolFailure) -> list[Any]:
    args: list[Any] = unspell(failure.args) if failure.args is not None else [failure.message]
    return args


def _with_state(made: Any, failure: ToolFailure) -> Exception:
    if not isinstance(made, Exception):
        raise TypeError(f"{made!r} is no exception that a tool can raise")
    vars(made).update({name: unspell(value) for name, value in (failure.state or {}).items()})
    return made
