"""The modes as tables, and settings from several places."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from typing import Any

import pytest

from pytest_agentreplay.errors import ConfigurationError
from pytest_agentreplay.settings import (
    DEFAULT_BACKGROUND,
    RECORD_MODES,
    Layer,
    Settings,
    resolve_settings,
)


def test_nothing_said_anywhere_gives_the_defaults() -> None:
    settings = resolve_settings([Layer("command line", {}), Layer("ini file", {"record_mode": None, "ignore": None})])

    assert settings == Settings()
    assert (settings.record_mode, settings.replay, settings.unplayed) == ("none", "strict", "fail")
    assert settings.sources == {}


def test_the_strongest_layer_that_speaks_decides_and_is_named() -> None:
    layers = [
        Layer("command line", {"record_mode": None, "unplayed": "warn"}),
        Layer("marker of test_a", {"record_mode": "once", "unplayed": "ignore"}),
        Layer("ini file", {"record_mode": "all", "allow_repeats": True}),
    ]

    settings = resolve_settings(layers)

    assert (settings.record_mode, settings.unplayed, settings.allow_repeats) == ("once", "warn", True)
    assert settings.sources == {
        "record_mode": "marker of test_a",
        "unplayed": "command line",
        "allow_repeats": "ini file",
    }


def test_a_weaker_true_does_not_win_over_a_stronger_false() -> None:
    layers = [Layer("marker", {"allow_repeats": False}), Layer("ini file", {"allow_repeats": True})]

    assert resolve_settings(layers).allow_repeats is False


@pytest.mark.parametrize("name", ["ignore", "match_headers", "redact_patterns", "background", "hosts"])
def test_lists_gather_what_every_layer_says(name: str) -> None:
    a, b, c = ("$.a", "$.b", "$.c") if name == "ignore" else ("a", "b", "c")
    layers = [Layer("marker", {name: a}), Layer("fixture", {name: (b, a)}), Layer("ini file", {name: [c]})]

    gathered = getattr(resolve_settings(layers), name)

    assert gathered == (*(DEFAULT_BACKGROUND if name == "background" else ()), a, b, c)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"record_modes": "once"}, "marker: unknown setting 'record_modes'; known are allow_repeats, background"),
        ({"sources": {}}, "marker: unknown setting 'sources'"),
        ({"record_mode": "sometimes"}, "marker: record_mode='sometimes' is not one of none, once, new_episodes"),
        ({"record_mode": ["once"]}, "marker: record_mode=\\['once'\\] is not one of"),
        ({"replay": "loose"}, "marker: replay='loose' is not one of strict, warn, hybrid"),
        ({"tools": {"buy": "maybe"}}, "marker: tools\\['buy'\\]='maybe' is not one of replay, live, refuse"),
        ({"unplayed": True}, "marker: unplayed=True is not one of fail, warn, ignore"),
        ({"ignore": 5}, "marker: ignore=5 must be a string or a list of strings"),
        ({"ignore": ["$.a", 5]}, "marker: ignore=\\['\\$.a', 5\\] must be a string"),
        ({"match_headers": b"x"}, "marker: match_headers=b'x' must be a string"),
        ({"allow_repeats": "yes"}, "marker: allow_repeats='yes' must be True or False"),
        ({"allow_repeats": 1}, "marker: allow_repeats=1 must be True or False"),
        ({"pace": 0}, "marker: pace=0 must be True or False"),
        (
            {"hosts": iter(["a.com"])},
            "marker: hosts=<list_iterator object at .*> must be a string or a list of strings",
        ),
        ({"hosts": {"a.com": True}}, "marker: hosts={'a.com': True} must be a string or a list of strings"),
        ({"tools": {None: "live"}}, "marker: tools: None is no tool's name"),
        ({"loopback": "no"}, "marker: loopback='no' must be True or False"),
        ({"tools": {len: "live"}}, "marker: tools: <built-in function len> is no tool's name; write the name"),
        ({"ignore": "messages"}, "marker: ignore: rule 'messages' is not understood; write a path"),
        ({"match_headers": "X-A: b"}, "marker: match_headers: 'X-A: b' is no header's name"),
        ({"hosts": ["a.com", "http://b.com"]}, "marker: hosts: 'http://b.com' is no host: .*; write 'b.com'"),
        ({"background": "https://b.com/x"}, "marker: background: 'https://b.com/x' is no host or host/path"),
        ({"redact_patterns": "("}, "marker: redact_patterns: in '\\(' the expression does not compile"),
        ({"redact_headers": "+"}, "marker: redact_headers: '' is no header's name"),
        ({"redact_json": "+"}, "marker: redact_json: '\\+' names nothing"),
        ({"redact_env": "$TOKEN"}, "marker: redact_env: '\\$TOKEN' is no variable's name"),
    ],
)
def test_what_cannot_be_meant_is_refused_naming_the_place(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        resolve_settings([Layer("marker", values), Layer("ini file", {})])


def test_a_wrong_value_in_a_weaker_layer_is_refused_too() -> None:
    with pytest.raises(ConfigurationError, match="ini file: record_mode='x'"):
        resolve_settings([Layer("command line", {"record_mode": "once"}), Layer("ini file", {"record_mode": "x"})])


def test_a_setting_that_has_another_name_in_its_place_is_refused_by_that_name() -> None:
    names = {"tools": "pytest.ini: agent_tools", "hosts": "pytest.ini: agent_hosts", "replay": "-o agent_replay"}

    for values, message in (
        ({"tools": {"buy": "maybe"}}, "pytest.ini: agent_tools['buy']='maybe' is not one of replay, live, refuse"),
        ({"hosts": 5}, "pytest.ini: agent_hosts=5 must be a string or a list of strings"),
        ({"replay": "hybrid", "loopback": False}, "-o agent_replay='hybrid' needs hosts=[...]: with"),
        ({"pace": 1}, "ini file: pace=1 must be True or False"),
    ):
        with pytest.raises(ConfigurationError) as caught:
            resolve_settings([Layer("command line", {}), Layer("ini file", values, names)])
        assert str(caught.value).startswith(message)


def test_a_mode_that_goes_live_needs_somewhere_to_go() -> None:
    with pytest.raises(ConfigurationError) as caught:
        resolve_settings([Layer("command line", {"replay": "hybrid"}), Layer("fixture", {"loopback": False})])

    assert str(caught.value) == (
        "command line: replay='hybrid' needs hosts=[...]: with loopback=False there is nowhere to go live to"
    )


def test_a_mode_that_goes_live_goes_to_the_hosts_allowed() -> None:
    layers = [Layer("marker", {"replay": "hybrid", "hosts": ["api.openai.com"], "loopback": False})]

    assert resolve_settings(layers).replaying.goes_live


@pytest.mark.parametrize(
    ("replay", "unplayed", "warns"),
    [
        ("strict", "fail", False),
        ("strict", "warn", True),
        ("warn", "fail", True),
        ("warn", "ignore", False),
        ("hybrid", "fail", False),
    ],
)
def test_where_a_run_may_differ_what_it_leaves_unplayed_is_a_warning(replay: str, unplayed: str, warns: bool) -> None:
    settings = resolve_settings([Layer("marker", {"replay": replay, "unplayed": unplayed})])

    assert settings.warns_of_unplayed is warns


@pytest.mark.parametrize(
    ("mode", "records_missing", "serves_known", "records_unknown"),
    [
        ("none", False, True, False),
        ("once", True, True, False),
        ("new_episodes", True, True, True),
        ("all", True, False, True),
        ("rewrite", True, False, True),
    ],
)
def test_a_record_mode_does_what_vcr_means_by_it(
    mode: str, records_missing: bool, serves_known: bool, records_unknown: bool
) -> None:
    policy = RECORD_MODES[mode]

    assert (policy.records_missing, policy.serves_known, policy.records_unknown) == (
        records_missing,
        serves_known,
        records_unknown,
    )


def test_the_policy_of_settings_is_that_of_their_record_mode() -> None:
    assert resolve_settings([Layer("marker", {"record_mode": "all"})]).recording is RECORD_MODES["all"]


def test_settings_are_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Settings().record_mode = "all"  # type: ignore[misc]


def test_the_module_needs_nothing_but_the_standard_library_and_the_base_of_pytests_outcomes() -> None:
    script = (
        "import sys; before = set(sys.modules); import pytest_agentreplay.settings; "
        "print(*sorted({name.partition('.')[0] for name in set(sys.modules) - before} - set(sys.stdlib_module_names)))"
    )

    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)

    assert (process.stdout.split(), process.stderr) == (["_pytest", "pytest_agentreplay"], "")
