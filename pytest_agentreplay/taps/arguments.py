"""The arguments of a tool: which it has, and a call's as JSON, the same in every process."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from pydantic_core import PydanticSerializationError, to_jsonable_python

from pytest_agentreplay.canonical import canonical_json
from pytest_agentreplay.errors import ConfigurationError, UnrecordableError
from pytest_agentreplay.values import (
    name_of_type,
)

__all__ = ["SCALARS", "as_json", "check_ignored"]

SCALARS = frozenset({bool, float, int, str, type(None)})


def as_json(value: Any, *, tool: str, parameter: str) -> Any:
    """Return one argument as JSON.  Raises :class:`UnrecordableError` naming the tool and the parameter."""
    try:
        return _jsonable(value)
    except (PydanticSerializationError, RecursionError, ValueError) as error:
        raise UnrecordableError(
            f"A call of tool {tool!r} cannot be recorded: its argument {parameter!r} of type "
            f"{name_of_type(type(value))} is not JSON; leave it out: recorded_tool(ignore_arguments=({parameter!r},))."
        ) from error


def check_ignored(function: Callable[..., Any], ignored: object, *, tool: str) -> None:
    """Refuse to leave out what is no argument of a tool.  Raises :class:`ConfigurationError`."""
    if (
        isinstance(ignored, str | Iterator | Mapping)  # the second is used up by looking at it
        or not isinstance(ignored, Iterable)
        or not all(isinstance(one, str) for one in ignored)
    ):
        raise ConfigurationError(f"recorded_tool: ignore_arguments={ignored!r} must be a tuple of names")
    absent = sorted(set(ignored) - _argument_names(function, known=set(ignored))) if ignored else ()
    if absent:
        raise ConfigurationError(
            f"recorded_tool: ignore_arguments names {absent[0]!r}, and {tool} has no such argument"
        )


def _argument_names(function: Callable[..., Any], *, known: set[str]) -> set[str]:
    """Return the names of a function's arguments, and those ``known`` to be some where it takes any or cannot say."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return known
    takes_any = any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters)
    return {parameter.name for parameter in parameters} | (known if takes_any else set())


def _jsonable(value: Any) -> Any:
    """Return a value as JSON that is the same in every process.  Raises ``ValueError`` where that cannot be."""
    kind = type(value)
    if kind in SCALARS:
        return value
    if kind is dict:
        return {_key_of(key): _jsonable(entry) for key, entry in value.items()}
    if kind is list or kind is tuple:
        return [_jsonable(entry) for entry in value]
    if kind is set or kind is frozenset:
        return sorted(map(_jsonable, value), key=canonical_json)
    if is_dataclass(kind) and not hasattr(kind, "__pydantic_serializer__"):
        return {field.name: _jsonable(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Iterator):
        raise ValueError(f"{value!r} would be used up")  # noqa: TRY004 - of the wrong kind, not of the wrong type
    return to_jsonable_python(value, bytes_mode="base64", inf_nan_mode="constants")


def _key_of(key: Any) -> str:
    return key if type(key) is str else str(next(iter(to_jsonable_python({key: None}, bytes_mode="base64"))))
