"""The modes as tables, and the settings of one test, resolved once.

What a mode does stands in :data:`RECORD_MODES` and :data:`REPLAY_MODES`; nothing else decides by a mode's name.  The
values of every setting that is a closed set stand in :data:`CHOICES`.
Settings come in layers (command line, marker, fixture, ini file, default), the strongest first, and are frozen once
resolved.  The plugin reads this module in every session, so it needs the standard library only, and makes named tuples,
which cost a fifth of a dataclass to define.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, get_args

from pytest_agentreplay import notation
from pytest_agentreplay.errors import ConfigurationError

__all__ = [
    "CHOICES",
    "DEFAULT_BACKGROUND",
    "DEFAULT_RECORD_MODE",
    "DEFAULT_REPLAY_MODE",
    "RECORD_MODES",
    "REPLAY_MODES",
    "Layer",
    "RecordMode",
    "RecordPolicy",
    "ReplayMode",
    "ReplayPolicy",
    "Settings",
    "ToolMode",
    "Unplayed",
    "check_switch",
    "resolve_settings",
]

RecordMode = Literal["none", "once", "new_episodes", "all", "rewrite"]
ReplayMode = Literal["strict", "warn", "hybrid"]
Unplayed = Literal["fail", "warn", "ignore"]
ToolMode = Literal["replay", "live", "refuse"]

DEFAULT_RECORD_MODE: RecordMode = "none"
DEFAULT_REPLAY_MODE: ReplayMode = "strict"


class RecordPolicy(NamedTuple):
    """What a record mode does, with and without a cassette.  The words are VCR's."""

    records_missing: bool  # without a cassette, record one
    serves_known: bool  # a request the cassette knows is served from it
    records_unknown: bool  # a request the cassette does not know goes live and is added


class ReplayPolicy(NamedTuple):
    """What a replay mode does with a request or a tool's call that the recording cannot answer."""

    stands_in: bool  # the next recorded answer of its conversation is served, with a warning
    goes_live: bool  # it is made, to the hosts allowed, and so is what follows in its conversation


RECORD_MODES: Mapping[RecordMode, RecordPolicy] = {
    "none": RecordPolicy(records_missing=False, serves_known=True, records_unknown=False),
    "once": RecordPolicy(records_missing=True, serves_known=True, records_unknown=False),
    "new_episodes": RecordPolicy(records_missing=True, serves_known=True, records_unknown=True),
    "all": RecordPolicy(records_missing=True, serves_known=False, records_unknown=True),
    "rewrite": RecordPolicy(records_missing=True, serves_known=False, records_unknown=True),
}

REPLAY_MODES: Mapping[ReplayMode, ReplayPolicy] = {
    "strict": ReplayPolicy(stands_in=False, goes_live=False),
    "warn": ReplayPolicy(stands_in=True, goes_live=False),
    "hybrid": ReplayPolicy(stands_in=False, goes_live=True),
}

# What a setting may be, for settings that are one of a few words; of ``tools`` each tool may be another.
CHOICES: Mapping[str, tuple[str, ...]] = {
    "record_mode": tuple(RECORD_MODES),
    "replay": tuple(REPLAY_MODES),
    "unplayed": get_args(Unplayed),
    "tools": get_args(ToolMode),
}

# Telemetry and price lists that agent libraries fetch beside the conversation: host, or host and path prefix.
DEFAULT_BACKGROUND: tuple[str, ...] = (
    "api.openai.com/v1/traces/ingest",
    "api.smith.langchain.com",
    "raw.githubusercontent.com/BerriAI/litellm",
    "us.i.posthog.com",
    "telemetry.crewai.com",
    "cloud.langfuse.com",
    "logfire-us.pydantic.dev",
)


@dataclass(frozen=True)
class Settings:
    """The settings of one test.

    ``sources`` names, for each setting that is not the default, the layer it came from.
    """

    record_mode: RecordMode = DEFAULT_RECORD_MODE
    replay: ReplayMode = DEFAULT_REPLAY_MODE
    unplayed: Unplayed = "fail"
    allow_repeats: bool = False
    tools: ToolMode | Mapping[str, ToolMode] = "replay"  # for all tools, or by name with "*" for the others
    pace: bool = False  # whether the pieces of a recorded stream come when they did
    loopback: bool = True  # whether replay lets connections to this machine through
    hosts: tuple[str, ...] = ()  # names that replay lets connections through to, with shell wildcards
    ignore: tuple[str, ...] = ()
    match_headers: tuple[str, ...] = ()
    background: tuple[str, ...] = DEFAULT_BACKGROUND
    redact_patterns: tuple[str, ...] = ()
    redact_headers: tuple[str, ...] = ()
    redact_json: tuple[str, ...] = ()
    redact_env: tuple[str, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict)

    def tool_mode(self, name: str) -> ToolMode:
        """Return what becomes of calls of one tool."""
        if isinstance(self.tools, str):
            return self.tools
        return self.tools.get(name, self.tools.get("*", "replay"))

    @property
    def recording(self) -> RecordPolicy:
        """What the record mode does."""
        return RECORD_MODES[self.record_mode]

    @property
    def replaying(self) -> ReplayPolicy:
        """What the replay mode does."""
        return REPLAY_MODES[self.replay]

    @property
    def warns_of_unplayed(self) -> bool:
        """Whether recorded steps that nothing asked for are a warning; where a run may differ, they cannot be more."""
        return self.unplayed == "warn" or (self.unplayed == "fail" and self.replaying.stands_in)


class Layer(NamedTuple):
    """Where settings come from, and what that place says.  ``None`` means it says nothing.

    ``names`` is what errors call those settings that have another name there, with the place.
    """

    source: str
    values: Mapping[str, Any]
    names: Mapping[str, str] = MappingProxyType({})

    def name_of(self, setting: str) -> str:
        """Return what errors call a setting of this place."""
        return self.names.get(setting, f"{self.source}: {setting}")


# Lists gather what every layer says, each entry in its notation; everything else is taken from the strongest layer that
# speaks.
_GATHERED: Mapping[str, Callable[[str], object]] = {
    "ignore": notation.read_ignore,
    "match_headers": notation.check_header,
    "background": notation.check_background,
    "hosts": notation.check_host,
    "redact_patterns": notation.check_redaction,
    "redact_headers": notation.check_redacted_header,
    "redact_json": notation.check_redacted_name,
    "redact_env": notation.check_redacted_variable,
}
_SWITCHES = frozenset({"allow_repeats", "loopback", "pace"})
_NAMES = frozenset(entry.name for entry in fields(Settings)) - {"sources"}


def resolve_settings(layers: Sequence[Layer]) -> Settings:
    """Return the settings that ``layers``, the strongest first, add up to.

    Raises :class:`ConfigurationError` for an unknown name, a value outside a closed set or an entry that is not in its
    notation, naming the layer, and for modes that cannot do what they are for.
    """
    chosen: dict[str, Any] = {}
    places: dict[str, Layer] = {}
    for layer in layers:
        for name, value in layer.values.items():
            if value is not None:
                _check(name, value, layer=layer)
                _choose(name, value, chosen=chosen)
                places.setdefault(name, layer)
    settings = Settings(**chosen, sources={name: layer.source for name, layer in places.items()})
    if settings.replaying.goes_live and not settings.loopback and not settings.hosts:
        where = f"{places['replay'].name_of('replay')}={settings.replay!r}"
        raise ConfigurationError(f"{where} needs hosts=[...]: with loopback=False there is nowhere to go live to")
    return settings


def _choose(name: str, value: Any, *, chosen: dict[str, Any]) -> None:
    if name in _GATHERED:
        base = chosen.get(name) or (DEFAULT_BACKGROUND if name == "background" else ())
        chosen[name] = (*base, *(entry for entry in _as_strings(value) if entry not in base))
    else:
        chosen.setdefault(name, value)


def _check(name: str, value: Any, *, layer: Layer) -> None:
    if name not in _NAMES:
        raise ConfigurationError(f"{layer.source}: unknown setting {name!r}; known are {', '.join(sorted(_NAMES))}")
    told = layer.name_of(name)
    if name in CHOICES:
        _check_choice(name, value, told=told)
    elif name in _SWITCHES:
        check_switch(value, told=told)
    else:
        _check_entries(name, value, told=told)


def _check_choice(name: str, value: Any, *, told: str) -> None:
    """Refuse what is none of a few words; of tools each has one."""
    is_by_tool = name == "tools" and isinstance(value, Mapping)
    for key, chosen in value.items() if is_by_tool else [(None, value)]:
        if is_by_tool and not isinstance(key, str):
            raise ConfigurationError(f"{told}: {key!r} is no tool's name; write the name that the model calls it by")
        if chosen not in CHOICES[name]:
            which = f"{told}[{key!r}]" if is_by_tool else told
            raise ConfigurationError(f"{which}={chosen!r} is not one of {', '.join(CHOICES[name])}")


def check_switch(value: Any, *, told: str) -> None:
    """Refuse what is neither on nor off.  Raises :class:`ConfigurationError` that calls the setting as ``told``."""
    if not isinstance(value, bool):
        raise ConfigurationError(f"{told}={value!r} must be True or False")


def _check_entries(name: str, value: Any, *, told: str) -> None:
    entries = tuple(_as_strings(value))
    is_list = not isinstance(value, Iterator | Mapping)  # the one is used up by looking at it, the other says more
    if not is_list or not all(isinstance(entry, str) for entry in entries):
        raise ConfigurationError(f"{told}={value!r} must be a string or a list of strings")
    try:
        for entry in entries:
            _GATHERED[name](entry)
    except ConfigurationError as error:
        raise ConfigurationError(f"{told}: {error}") from error


def _as_strings(value: Any) -> Iterable[Any]:
    if isinstance(value, str):
        return (value,)
    return tuple(value) if isinstance(value, Iterable) else (value,)
