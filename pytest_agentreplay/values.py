"""Typed values as JSON and back, type included.

A tool's result is written through pydantic by the return annotation, or, where that would not bring it back, by the
value's own type.  What would not come back as it was is refused when it is written, naming the type, so that no replay
ever gives an agent something else than the recording did.  What is JSON already needs no pydantic.
"""

from __future__ import annotations

import importlib
import marshal
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass
from datetime import datetime, time
from functools import cache, cached_property
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, PydanticSchemaGenerationError, TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError
from pydantic_core import PydanticSerializationError, from_json

from pytest_agentreplay.canonical import canonical_json, write_json
from pytest_agentreplay.errors import ConfigurationError

__all__ = ["Codec", "DeepCodec", "TypedJson", "codec_for", "import_type", "name_of_type", "spell", "unspell"]

SPELLED = "*"  # instead of a type's name: the types stand inside, beside the values
_TYPE, _VALUE = "$type", "value"
_SCALARS = (bool, float, int, str, type(None))
_KEPT_BY_MODELS = ("__pydantic_extra__", "__pydantic_private__")
_REFUSALS = (
    ConfigurationError,
    ValidationError,
    PydanticSerializationError,
    PydanticSchemaGenerationError,
    PydanticUserError,
    RecursionError,
    ValueError,
    TypeError,
)
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

    @cached_property
    def is_plain(self) -> bool:
        """Whether values of this annotation are JSON as they are."""
        return _is_plain(self.annotation)

    def write(self, value: Any) -> TypedJson:
        """Return a value as JSON.  Raises :class:`ConfigurationError` when it would not come back as it is."""
        if self.is_plain:
            with suppress(TypeError, RecursionError):
                return TypedJson(json=_copy(value))
        candidates = self._candidates(value)
        for annotation, name in candidates:
            written = _written(annotation, value)
            if written is not None:
                return TypedJson(json=_parsed(written, value), type=name)
        for annotation, name in candidates:
            spelled = None if _is_plain(annotation) else _spelled_by(annotation, value)
            if spelled is not None:
                return TypedJson(json=spelled, type=SPELLED + (name or ":"))
        if not self.is_plain:  # typed dicts come back in the order of their fields, which an agent may show its model
            with suppress(ConfigurationError, RecursionError):
                spelled = spell(value)
                if _is_same(unspell(spelled), value):
                    return TypedJson(json=spelled, type=SPELLED)
        raise ConfigurationError(
            f"{_described(value)} does not survive JSON and back; "
            "annotate it with a type that pydantic can write and read"
        )

    def read(self, typed: TypedJson) -> Any:
        """Return the value that was written.

        Raises :class:`ConfigurationError` when its type is gone or no longer reads what was written.
        """
        if typed.type == SPELLED:
            return unspell(typed.json)
        is_spelled = typed.type is not None and typed.type.startswith(SPELLED)
        name = (typed.type or "").removeprefix(SPELLED).removeprefix(":")
        annotation = import_type(name) if name else self.annotation
        if not is_spelled and (_is_plain(annotation) if name else self.is_plain):
            return _fresh(typed.json)
        try:
            if is_spelled:
                return _adapter(annotation).validate_python([unspell(typed.json)])[0]
            return _adapter(annotation).validate_json(write_json([typed.json]))[0]
        except (ValidationError, PydanticUserError, PydanticSchemaGenerationError) as error:
            raise ConfigurationError(f"a recorded value does not fit {annotation!r} any more: {error}") from error

    def _candidates(self, value: Any) -> list[tuple[Any, str | None]]:
        own = type(value)
        candidates: list[tuple[Any, str | None]] = [(self.annotation, None)]
        if own is not self.annotation and _is_importable(own):
            candidates.append((own, name_of_type(own)))
        return candidates


@dataclass(frozen=True)
class DeepCodec(Codec):
    """A codec for results that nobody annotated for it: where all else fails, types are written inside the value."""

    def write(self, value: Any) -> TypedJson:
        try:
            return super().write(value)
        except ConfigurationError:
            spelled = spell(value)
            if not _is_same(unspell(spelled), value):
                raise
            return TypedJson(json=spelled, type=SPELLED)

    def read(self, typed: TypedJson) -> Any:
        return unspell(typed.json) if typed.type == SPELLED else super().read(typed)


def spell(value: Any) -> Any:
    """Return a value as JSON that names the type of everything in it that is not JSON itself.

    Reaches into lists, tuples, sets, dicts and dataclasses.  Raises :class:`ConfigurationError` as :meth:`Codec.write`
    does.
    """
    kind = type(value)
    if value is None or kind in (bool, int, float, str):
        return value
    if kind is list:
        return [spell(element) for element in value]
    if kind is tuple:
        return _tagged(tuple, [spell(element) for element in value])
    if kind is set or kind is frozenset:
        return _tagged(kind, sorted(map(spell, value), key=canonical_json))
    if kind is dict:
        if _TYPE not in value and all(map(_is_text, value)):
            return {key: spell(element) for key, element in value.items()}
        return _tagged(dict, [[spell(key), spell(element)] for key, element in value.items()])
    if is_dataclass(kind) and _is_importable(kind):
        return _tagged(kind, {field.name: spell(getattr(value, field.name)) for field in fields(value)})
    typed = Codec(Any).write(value)
    return {_TYPE: typed.type, _VALUE: typed.json}


def unspell(spelled: Any) -> Any:
    """Return the value that :func:`spell` wrote.  Raises :class:`ConfigurationError` where a type is gone."""
    if isinstance(spelled, list):
        return [unspell(element) for element in spelled]
    if not isinstance(spelled, dict):
        return spelled
    if _TYPE not in spelled:
        return {key: unspell(element) for key, element in spelled.items()}
    name, written = spelled[_TYPE], spelled[_VALUE]
    if name.startswith(SPELLED):
        return Codec(Any).read(TypedJson(json=written, type=name))
    kind = import_type(name)
    if kind in (tuple, set, frozenset):
        return kind(unspell(written))
    if kind is dict:
        return {unspell(key): unspell(element) for key, element in written}
    if isinstance(kind, type) and is_dataclass(kind):
        made: Any = object.__new__(kind)
        for field, element in written.items():
            object.__setattr__(made, field, unspell(element))  # as it was, whatever its constructor and its guards do
        return made
    return Codec(kind).read(TypedJson(json=written))


def _tagged(kind: type, value: Any) -> dict[str, Any]:
    return {_TYPE: name_of_type(kind), _VALUE: value}


def _spelled_by(annotation: Any, value: Any) -> Any:
    """Return a value as an annotation takes it apart, its parts spelled, or ``None`` where it would not come back."""
    try:
        adapter = _adapter(annotation)
        spelled = spell(adapter.dump_python([value], exclude_unset=True, warnings="error")[0])
        back = adapter.validate_python([unspell(spelled)])[0]
    except _REFUSALS:
        return None
    return spelled if _is_same(back, value) else None


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
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigurationError(f"the recorded type {name!r} cannot be imported: {error}") from error
    if not isinstance(found, type):
        raise ConfigurationError(f"the recorded type {name!r} is no type any more")
    return found


def _written(annotation: Any, value: Any) -> bytes | None:
    """Return a value's JSON by an annotation, or ``None`` where it would not come back."""
    # Which fields of a model were set is part of what it is: without the others first, so that they stay unset.
    for leaves_out in (True, False):
        try:
            adapter = _adapter(annotation)
            written = adapter.dump_json([value], exclude_unset=leaves_out, warnings="error")
            back = adapter.validate_json(written)[0]
        except _REFUSALS:
            continue
        if _is_same(back, value):
            return written
    return None


def _parsed(written: bytes, value: Any) -> Any:
    parsed = from_json(written, allow_inf_nan=True)[0]
    # A set has no order of its own: the next process would write it in another.
    return sorted(parsed, key=canonical_json) if isinstance(value, set | frozenset) else parsed


def _is_same(back: Any, value: Any) -> bool:
    if type(back) is not type(value):
        return False
    if isinstance(value, dict):
        return _is_same(list(back), list(value)) and all(_is_same(back[key], found) for key, found in value.items())
    if isinstance(value, list | tuple):
        return len(back) == len(value) and all(map(_is_same, back, value))
    if isinstance(value, set | frozenset):
        return bool(back == value) and {(type(e), e) for e in back} == {(type(e), e) for e in value}
    if isinstance(value, BaseModel):
        return back.model_fields_set == value.model_fields_set and _is_same_inside(back, value)
    if is_dataclass(value):
        return _is_same_inside(back, value)
    if isinstance(value, datetime | time):
        return bool(back == value) and back.isoformat() == value.isoformat()
    if isinstance(value, float):
        return repr(back) == repr(value)  # NaN is not equal to itself, and -0.0 is equal to 0.0
    return bool(back == value) or repr(back) == repr(value)


def _is_same_inside(back: Any, value: Any) -> bool:
    """Compare the fields of two models or dataclasses of one type."""
    if isinstance(value, BaseModel):
        names = [*type(value).model_fields, *_KEPT_BY_MODELS]
    else:
        names = [field.name for field in fields(value)]
    return all(_is_same(getattr(back, name), getattr(value, name)) for name in names)


def _is_plain(annotation: Any) -> bool:
    if any(annotation is known for known in (Any, None, dict, list, *_SCALARS)):
        return True
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return all(type(argument) in _SCALARS for argument in arguments)
    if origin is dict and arguments:
        return arguments[0] in (Any, str) and _is_plain(arguments[1])
    return origin in (list, Union, UnionType) and all(map(_is_plain, arguments))


def _copy(value: Any) -> Any:
    """Return a copy of a JSON value.  Raises ``TypeError`` for anything else."""
    kind = type(value)
    if kind in _SCALARS:
        return value
    if kind is list:
        return [_copy(element) for element in value]
    if kind is dict and all(map(_is_text, value)):
        return {key: _copy(element) for key, element in value.items()}
    raise TypeError(f"{name_of_type(kind)} is not JSON")


def _fresh(value: Any) -> Any:
    """Return a copy of what is known to be a JSON value: the quickest way there is."""
    return marshal.loads(marshal.dumps(value))


def _is_text(key: Any) -> bool:
    return type(key) is str


def _described(value: Any) -> str:
    """Return the words for a value that cannot be written, with the first thing in it that is not JSON."""
    described = f"a value of type {name_of_type(type(value))}"
    place, inner = "", value
    for _ in range(20):
        pairs = inner.items() if type(inner) is dict else enumerate(inner) if type(inner) is list else ()
        found = next(((key, part) for key, part in pairs if not _is_json(part)), None)
        if found is None:
            break
        place, inner = f"{place}[{found[0]!r}]", found[1]
    return f"{described} (in it, at {place}, {name_of_type(type(inner))})" if place else described


def _is_json(value: Any) -> bool:
    try:
        _copy(value)
    except (TypeError, RecursionError):
        return False
    return True


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
