"""The plugin's options, ini settings and marker, and the layers of settings they make."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from pytest_agentreplay.errors import ConfigurationError
from pytest_agentreplay.settings import (
    CHOICES,
    DEFAULT_RECORD_MODE,
    DEFAULT_REPLAY_MODE,
    Layer,
    Settings,
    check_switch,
    resolve_settings,
)

__all__ = [
    "MARKER",
    "add_options",
    "add_record_mode",
    "check_marker",
    "check_session",
    "describe_modes",
    "layers_of",
    "name_ini",
    "register_marker",
]

MARKER = "agent_cassette"

_MARKER_SIGNATURE = (
    f"{MARKER}(name=None, *, record_mode=None, replay=None, pin=False, ignore=(), match_headers=(), unplayed=None, "
    "allow_repeats=None, hosts=(), tools=None, pace=None): "
    "record the provider requests of this test once, replay them offline."
)
_MARKER_SETTINGS = frozenset(
    {"record_mode", "replay", "ignore", "match_headers", "unplayed", "allow_repeats", "hosts", "tools", "pace"}
)
_NOT_YET = frozenset({"freeze", "max_requests", "max_cost"})
_MODES = ("record_mode", "replay")


def _one_of(setting: str) -> str:
    """Return what a setting may be, as a help text says it."""
    *most, last = CHOICES[setting]
    return f"{', '.join(most)} or {last}; default: {getattr(Settings, setting)}"


_INI: tuple[tuple[str, str, str, str], ...] = (
    ("agent_record_mode", "record_mode", "string", f"record mode of agent cassettes: {_one_of('record_mode')}"),
    ("agent_replay", "replay", "string", f"what replay does with a request it does not know: {_one_of('replay')}"),
    ("agent_unplayed", "unplayed", "string", f"recorded steps that nothing asked for: {_one_of('unplayed')}"),
    ("agent_ignore", "ignore", "linelist", "paths of request bodies that may vary, as '$.path' or '$.path =~ REGEX'"),
    ("agent_match_headers", "match_headers", "linelist", "further request headers that must be equal in replay"),
    ("agent_hosts", "hosts", "linelist", "host names that replay lets connections through to; * is a wildcard"),
    ("agent_background", "background", "linelist", "host or host/path of traffic that may repeat and stay unplayed"),
    (
        "agent_redact_patterns",
        "redact_patterns",
        "linelist",
        "secrets to redact: REGEX or NAME=REGEX; = before it replaces",
    ),
    ("agent_redact_headers", "redact_headers", "linelist", "headers to redact: NAME or +NAME adds, =NAME replaces"),
    ("agent_redact_json", "redact_json", "linelist", "JSON keys to redact: NAME or +NAME adds, =NAME replaces"),
    (
        "agent_redact_env",
        "redact_env",
        "linelist",
        "variables whose value to redact: NAME or +NAME adds, =NAME replaces",
    ),
)


def add_options(parser: pytest.Parser) -> None:
    """Add what no other plugin has."""
    group = parser.getgroup("agent-replay", "agent cassettes")
    group.addoption(
        "--agent-replay",
        dest="agent_replay",
        default=None,
        choices=list(CHOICES["replay"]),
        help=f"What replay does with a request the cassette does not know. Default: {DEFAULT_REPLAY_MODE}.",
    )
    for name, _, kind, text in _INI:
        parser.addini(name, text, type=kind, default=[] if kind == "linelist" else "")  # type: ignore[arg-type]


def add_record_mode(parser: pytest.Parser) -> None:
    """Add ``--record-mode`` unless another plugin (pytest-recording) has it: two of one name abort pytest."""
    groups = [*parser._groups, parser._anonymous]
    if any("--record-mode" in option.names() for group in groups for option in group.options):
        return
    parser.getgroup("agent-replay").addoption(
        "--record-mode",
        dest="record_mode",
        default=None,
        choices=list(CHOICES["record_mode"]),
        help=f"Record mode of cassettes. Default: {DEFAULT_RECORD_MODE}.",
    )


def register_marker(config: pytest.Config) -> None:
    """Declare the marker."""
    config.addinivalue_line("markers", _MARKER_SIGNATURE)


def check_marker(item: pytest.Item) -> None:
    """Refuse a marker that cannot be meant.  Raises :class:`ConfigurationError` naming the test."""
    if not hasattr(item, "fixturenames"):
        raise ConfigurationError(f"{item.nodeid}: @pytest.mark.{MARKER}: only what can use fixtures can be recorded")
    for node, mark in item.iter_markers_with_node(MARKER):
        where = f"{item.nodeid}: @pytest.mark.{MARKER}"
        later = sorted(set(mark.kwargs) & _NOT_YET)
        if later:
            raise ConfigurationError(f"{where}: {', '.join(later)} is not available yet in this version")
        unknown = sorted(set(mark.kwargs) - _MARKER_SETTINGS - {"name", "pin"})
        if unknown:
            known = ", ".join(sorted(_MARKER_SETTINGS | {"name", "pin"}))
            raise ConfigurationError(f"{where}: unknown argument {', '.join(unknown)}; known are {known}")
        if len(mark.args) > 1 or (mark.args and "name" in mark.kwargs):
            raise ConfigurationError(f"{where}: takes one positional argument, the cassette's name")
        _check_name(mark, where=where, on_function=node is item)
        if mark.kwargs.get("pin") is not None:
            check_switch(mark.kwargs["pin"], told=f"{where}: pin")
    try:
        resolve_settings([layer for _, layer in _marker_layers(item)])
    except ConfigurationError as error:
        raise ConfigurationError(f"{item.nodeid}: {error}") from error


def check_session(item: pytest.Item) -> None:
    """Refuse what the command line or the ini file says and a marked test would have to follow.

    Asked only where there is such a test: pytest-recording has the same option, and users of its own.
    """
    resolve_settings(layers_of(item, fixture={}))


def cassette_name(item: pytest.Item) -> str | None:
    """Return the cassette's name that the test's own marker gives, or ``None``."""
    for mark in item.iter_markers(MARKER):
        name: str | None = mark.args[0] if mark.args else mark.kwargs.get("name")
        if name is not None:
            return name
    return None


def layers_of(item: pytest.Item, *, fixture: Any) -> list[Layer]:
    """Return the layers of a test's settings, the strongest first.

    A pinned marker's modes, the command line, markers from the nearest, the ``agent_config`` fixture, the ini file.
    Raises :class:`ConfigurationError` where ``fixture``, what that fixture returned, holds no settings by name.
    """
    if not isinstance(fixture, Mapping):
        raise ConfigurationError(f"agent_config must return settings by name, as {{'hosts': [...]}}, not {fixture!r}")
    config = item.config
    markers = _marker_layers(item)
    pinned = [
        Layer(layer.source, {name: layer.values[name] for name in _MODES if name in layer.values})
        for is_pinned, layer in markers
        if is_pinned
    ]
    return [
        *pinned,
        Layer("command line", _command_line(config)),
        *(layer for _, layer in markers),
        Layer("agent_config fixture", fixture),
        Layer("ini file", _ini_values(config), {setting: name_ini(config, name) for name, setting, _, _ in _INI}),
    ]


def name_ini(config: pytest.Config, name: str) -> str:
    """Return what errors call an ini setting: its key, after the file or the option that gives it a value."""
    overridden = config.getoption("override_ini", default=None) or ()
    is_option = any(entry.partition("=")[0].strip() == name for entry in overridden)
    return f"-o {name}" if is_option else f"{config.inipath or 'ini file'}: {name}"


def describe_modes(config: pytest.Config) -> str:
    """Return the session's modes for the report header, each with its source where it is not the default."""
    places = {"command line": _command_line(config), "ini file": _ini_values(config)}
    shown = []
    for label, name, default in (
        ("record mode", "record_mode", DEFAULT_RECORD_MODE),
        ("replay", "replay", DEFAULT_REPLAY_MODE),
    ):
        said = next((f"{values[name]} ({place})" for place, values in places.items() if values[name]), default)
        shown.append(f"{label} {said}")
    return ", ".join(shown)


def _command_line(config: pytest.Config) -> dict[str, Any]:
    return {
        "record_mode": config.getoption("record_mode", default=None),
        "replay": config.getoption("agent_replay", default=None),
        # A census is of what is left unplayed, whatever a marker or a fixture says of it.
        "unplayed": "ignore" if config.getoption("agent_census", default=None) else None,
    }


def _ini_values(config: pytest.Config) -> dict[str, Any]:
    return {setting: config.getini(name) or None for name, setting, _, _ in _INI}


def _marker_layers(item: pytest.Item) -> list[tuple[bool, Layer]]:
    return [
        (
            bool(mark.kwargs.get("pin")),
            Layer(
                f"marker of {node.name}",
                {name: value for name, value in mark.kwargs.items() if name in _MARKER_SETTINGS},
            ),
        )
        for node, mark in item.iter_markers_with_node(MARKER)
    ]


def _check_name(mark: pytest.Mark, *, where: str, on_function: bool) -> None:
    name = mark.args[0] if mark.args else mark.kwargs.get("name")
    if name is None:
        return
    if not on_function:
        raise ConfigurationError(
            f"{where}: name={name!r} belongs on a test function; on a class all tests would share it"
        )
    fault = _fault_in_name(name)
    if fault is not None:
        raise ConfigurationError(f"{where}: name={name!r} {fault}")


def _fault_in_name(name: object) -> str | None:
    """Return what keeps a name from being that of a cassette on every file system, ``None`` where nothing does."""
    if not isinstance(name, str):
        return "must be a string"
    if not name:
        return "is empty: leave it out, or name the cassette"
    refused = [letter for letter in '\\:*?"<>|\0' if letter in name]
    if refused:
        return f"must not hold {refused[0]!r}, which some file systems refuse"
    if name.startswith("/") or {"", ".", ".."} & set(name.split("/")):
        return "must be a relative path without '..', '.' or empty parts"
    return None
