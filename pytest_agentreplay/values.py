"""Typed values as JSON and back, type included.

A tool's result is written through pydantic by the return annotation, or, where that would not bring it back, by the
value's own type.  What would not come back as it was is refused when it is written, naming the type, so that no replay
ever gives an agent something else than the recording did.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from functools import cache
from typing import Any

from pydantic import ConfigDict, PydanticSchemaGenerationError, TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError
from pydantic_core import PydanticSerializationError, from_json

from pytest_agentreplay.errors import ConfigurationError

__all__ = ["Codec", "TypedJson", "codec_for", "import_type", "name_of_type"]

_BYTES_AS_BASE64 = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64", ser_json_inf_nan="constants")


@dataclass(frozen=True)
class TypedJson:
    """A value as JSON.  ``type`` names the value's own type where the annotation alone would not bring it back."""

    json: Any
    type: str | None = None


@dataclass(frozen=True)
class Codec:
    """Writes and reads the values of one annotation."""

    annotation: Any

    def write(self, value: Any) -> TypedJson:
        """Return a value as JSON.  Raises :class:`ConfigurationError` when it would not come back as it is."""
        for annotation, name in self._candidates(value):
            written = _written(annotation, value)
            if written is not None:
                return TypedJson(json=from_json(written, allow_inf_nan=True)[0], type=name)
        raise ConfigurationError(
            f"a value of type {name_of_type(type(value))} does not survive JSON and back; "
            "annotate it with a type that pydantic can write and read"
        )

    def read(self, typed: TypedJson) -> Any:
        """Return the value that was written.

        Raises :class:`ConfigurationError` when its type is gone or no longer reads what was written.
        """
        annotation = self.annotation if typed.type is None else import_type(typed.type)
        try:
            adapter = _adapter(annotation)
            return adapter.validate_json(_ANY.dump_json([typed.json]))[0]
        except (ValidationError, PydanticUserError, PydanticSchemaGenerationError) as error:
            raise ConfigurationError(f"a recorded value does not fit {annotation!r} any more: {error}") from error

    def _candidates(self, value: Any) -> list[tuple[Any, str | None]]:
        own = type(value)
        candidates: list[tuple[Any, str | None]] = [(self.annotation, None)]
        if own is not self.annotation and _is_importable(own):
            candidates.append((own, name_of_type(own)))
        return candidates


def codec_for(annotation: Any) -> Codec:
    """Return the codec of an annotation; ``Any`` where there is none."""
    return Codec(annotation)


def name_of_type(kind: type) -> str:
    """Return ``MODULE:QUALIFIED.NAME``."""
    return f"{kind.__module__}:{kind.__qualname__}"


def import_type(name: str) -> Any:
    """Return the type that :func:`name_of_type` named.  Raises :class:`ConfigurationError` when it is gone."""
    module, _, qualified = name.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in qualified.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise ConfigurationError(f"the recorded type {name!r} cannot be imported: {error}") from error
    return found


def _written(annotation: Any, value: Any) -> bytes | None:
    """Return a value's JSON by an annotation, or ``None`` where it would not come back."""
    try:
        adapter = _adapter(annotation)
        written = adapter.dump_json([value], warnings="error")
        back = adapter.validate_json(written)[0]
    except (
        ValidationError,
        PydanticSerializationError,
        PydanticSchemaGenerationError,
        PydanticUserError,
        ValueError,
        TypeError,
    ):
        return None
    return written if _is_same(back, value) else None


def _is_same(back: Any, value: Any) -> bool:
    if type(back) is not type(value):
        return False
    if isinstance(value, dict):
        return list(back) == list(value) and all(_is_same(back[key], element) for key, element in value.items())
    if isinstance(value, list | tuple):
        return len(back) == len(value) and all(map(_is_same, back, value))
    return bool(back == value) or repr(back) == repr(value)  # NaN is not equal to itself


def _is_importable(kind: type) -> bool:
    try:
        return import_type(name_of_type(kind)) is kind
    except ConfigurationError:
        return False


def _adapter(annotation: Any) -> TypeAdapter[Any]:
    try:
        return _cached_adapter(annotation)
    except TypeError:  # an annotation that cannot be hashed
        return _make_adapter(annotation)


def _make_adapter(annotation: Any) -> TypeAdapter[Any]:
    # In a list, because models, dataclasses and typed dicts at the top take no configuration from outside.
    return TypeAdapter(list[annotation], config=_BYTES_AS_BASE64)


_cached_adapter = cache(_make_adapter)
_ANY: TypeAdapter[Any] = TypeAdapter(Any, config=_BYTES_AS_BASE64)
