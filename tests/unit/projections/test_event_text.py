"""The text of events: it reads back as what was written, and multi-line text can be read in it."""

from __future__ import annotations

import enum
import math
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from pytest_agentreplay.canonical import canonical_json
from pytest_agentreplay.projections import event_text
from pytest_agentreplay.projections.event_text import parse_events, write_events
from pytest_agentreplay.projections.events import Event
from tests.unit.documents import any_json, any_scalar

# Lines as they are in code, logs and tables: with white space at both ends, and what YAML could take for its own.
_LINES = """
- item
key: value
# no comment
---
...
...x
%YAML 1.1
|
>-
?\x20
&a
*a
!tag
"quoted
'quoted
{
[
null
é 😀 \u202e \u00a0
  indented
trailing\x20\x20
tab\t
\tled
\t
""".splitlines()
texts_of_lines = st.lists(st.sampled_from(_LINES), min_size=1, max_size=5).map("\n".join)
# Any text, with the line ends and marks that YAML reads in its own way.
odd_texts = st.text(st.sampled_from("ab \t\n\r\x85\u2028\u2029\ufeff\x00\x7f\ud800\udc00\uffff:#-'\"|"), max_size=8)
# What some reader of YAML takes for something else than text.
_WORDS = """
y no on null ~ Null 1 08 0o7 0x1f 1e3 .5 1. -1 +1 1_0 1:30 12:30:45 2024-01-01 2024-01-01T00:00:00Z = << .nan .inf -.INF
- ? : ! @x ` %
"""
words = st.sampled_from(["", " ", *_WORDS.split()])
any_value = st.recursive(
    st.one_of(any_scalar, texts_of_lines, odd_texts, words),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.one_of(words, odd_texts, texts_of_lines, st.just("k" * 200)), inner, max_size=3),
    ),
    max_leaves=8,
)
events = st.lists(st.one_of(any_value, st.dictionaries(words, any_value, max_size=4)), max_size=4)


def same(first: Any, second: Any) -> bool:
    """Return whether two values are equal and of equal types, NaN being itself."""
    if isinstance(first, float) and isinstance(second, float):
        both_are_nan = math.isnan(first) and math.isnan(second)
        return both_are_nan or (first == second and math.copysign(1, first) == math.copysign(1, second))
    if type(first) is not type(second):
        return False
    if isinstance(first, dict):
        return list(first) == list(second) and all(same(first[key], second[key]) for key in first)
    if isinstance(first, list):
        return len(first) == len(second) and all(map(same, first, second))
    return bool(first == second)


def has_surrogates(text: str) -> bool:
    return any("\\uD" in line or "\\ud" in line for line in text.splitlines())


@given(value=events)
def test_what_is_written_reads_back_as_it_was(value: list[Any]) -> None:
    assert same(parse_events(write_events(value)), value)


@given(value=events)
def test_other_readers_of_yaml_1_1_read_the_same(value: list[Any]) -> None:
    text = write_events(value)

    assert same(yaml.load(text, Loader=yaml.FullLoader) or [], value)
    if not has_surrogates(text):  # which the reader in C refuses
        assert same(yaml.load(text, Loader=yaml.CSafeLoader) or [], value)


@given(value=st.lists(st.one_of(words, texts_of_lines, st.dictionaries(words, words)), max_size=4))
def test_a_reader_of_yaml_1_2_reads_every_text_as_text(value: list[Any]) -> None:
    assert (YAML(typ="safe", pure=True).load(write_events(value)) or []) == value


@given(value=events)
def test_what_is_laid_out_here_is_what_pyyaml_writes(value: list[Any]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(event_text, "_written", lambda event: event_text._dumped([event_text._plain(event)]))
        written_by_pyyaml = write_events(value)

    assert write_events(value) == written_by_pyyaml


@given(first=events, second=events)
def test_texts_are_equal_only_for_equal_events(first: list[Any], second: list[Any]) -> None:
    assert (write_events(first) == write_events(second)) == same(first, second)


@given(value=events)
def test_a_text_can_be_kept_in_a_file_and_never_holds_a_line_end_but_its_own(value: list[Any]) -> None:
    text = write_events(value)

    assert text.encode().decode() == text
    assert "\r" not in text
    assert text.startswith("# agent-events 1\n")
    assert text.endswith("\n")


@given(value=texts_of_lines)
def test_lines_of_text_stand_in_the_file_as_they_are(value: str) -> None:
    text = write_events([{"text": value}])

    if "\n" in value.strip("\n") and not value.endswith("\n\n"):
        lines = [line.removeprefix("    ") for line in text.splitlines()[2:]]
        assert lines == value.removesuffix("\n").split("\n")
    else:
        assert text.count("\n") == 2


@given(value=any_json)
def test_events_and_plain_values_have_the_same_text(value: Any) -> None:
    assert write_events([Event({"event": value})]) == write_events(({"event": value},))


def test_the_text_of_a_run_is_one_that_a_person_likes_to_read() -> None:
    code = "def f():\n\treturn 1  \n"
    told = [
        {"event": "run", "name": "test_it"},
        {"event": "turn", "text": "I run:\n\n" + code, "calls": [{"id": "call_1", "name": "run"}]},
        {
            "event": "tool",
            "name": "run",
            "id": "call_1",
            "arguments": {"code": code, "limits": [1, 2.5, None, True], "env": {}},
            "result": "x" * 200,
        },
    ]

    assert write_events(told) == (
        "# agent-events 1\n"
        "- event: run\n"
        "  name: test_it\n"
        "\n"
        "- event: turn\n"
        "  text: |\n"
        "    I run:\n"
        "\n"
        "    def f():\n"
        "    \treturn 1  \n"
        "  calls:\n"
        "    - id: call_1\n"
        "      name: run\n"
        "\n"
        "- event: tool\n"
        "  name: run\n"
        "  id: call_1\n"
        "  arguments:\n"
        "    code: |\n"
        "      def f():\n"
        "      \treturn 1  \n"
        "    limits:\n"
        "      - 1\n"
        "      - 2.5\n"
        "      - null\n"
        "      - true\n"
        "    env: {}\n"
        f"  result: {'x' * 200}\n"
    )


def test_no_events_are_the_header_alone() -> None:
    assert write_events([]) == "# agent-events 1\n"
    assert parse_events("# agent-events 1\n") == []


def test_values_that_are_not_plain_are_written_as_what_they_stand_for() -> None:
    class Color(str, enum.Enum):  # noqa: UP042 - users have them, and they print otherwise than a StrEnum
        RED = "red"

    class Level(enum.IntEnum):
        HIGH = 3

    text = write_events([{"color": Color.RED, "level": Level.HIGH, "pair": ("a", "b"), "bytes": b"\x00", 1: range(2)}])

    [event] = parse_events(text)
    assert event == {"color": "red", "level": 3, "pair": ["a", "b"], "bytes": "b'\\x00'", "1": [0, 1]}


def test_values_nested_as_deep_as_json_often_is_are_written() -> None:
    value: Any = "deep"
    for _ in range(100):
        value = [{"in": value}]

    assert parse_events(write_events([value])) == [value]


@pytest.mark.parametrize(
    "text",
    [
        "just text\n",
        "event: run\n",
        "- a: [\n",
        "- \x00\n",
        "- !!python/object:os.system x\n",
        "- !!int ''\n",
        "- !!bool x\n",
        "- !!timestamp x\n",
        "- 2024-99-99\n",
        "- {[]: 1}\n",
        "- &a [*a]\n",
        "<<<<<<< ours\n- event: run\n=======\n",
        "- 1\n---\n- 2\n",
        "[" * 5000,
    ],
)
def test_any_other_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="these are no events"):
        parse_events(text)


def test_what_a_person_wrote_into_a_golden_is_read_as_plain_values() -> None:
    text = "- {date: 2024-01-01, 2: two, bytes: !!binary aGk=}\n"

    assert canonical_json(parse_events(text)) == b"""[{"2":"two","bytes":"b'hi'","date":"datetime.date(2024, 1, 1)"}]"""
