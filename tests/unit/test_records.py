"""The steps of a tape."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from pydantic import BaseModel, ValidationError

from pytest_agentreplay import records
from pytest_agentreplay.records import JsonBody, ModelStep, Request, Response, Timing, read_step

# The least that each kind of step needs.
LEAST: dict[str, dict[str, Any]] = {
    "run.start": {},
    "model": {"hash": "a1:0", "request": {"method": "POST", "url": "https://a/"}},
    "http": {"hash": "a1:0", "request": {"method": "GET", "url": "https://a/"}},
    "attempt": {"tool": "charge"},
    "tool": {"hash": "a1:0", "name": "charge"},
    "permission": {"decision": "allow"},
    "approval": {"name": "refund", "approved": True},
    "value": {"name": "run:complete"},
    "signal": {"name": "answer"},
    "timer": {"name": "wake", "fire_at": "2024-05-01T00:00:00Z"},
    "compaction": {},
    "checkpoint": {"id": "c", "boundary": True},
    "error": {"type": "ValueError", "message": "no"},
    "run.end": {},
}


def _models() -> list[type[BaseModel]]:
    found = [getattr(records, name) for name in records.__all__]
    return [model for model in found if isinstance(model, type) and issubclass(model, BaseModel)]


def test_every_kind_of_step_of_the_format_is_here() -> None:
    union = get_args(records.Step)[0]

    assert {model.model_fields["kind"].default for model in get_args(union)} == set(LEAST)


@pytest.mark.parametrize(("kind", "fields"), LEAST.items())
def test_a_step_survives_being_written_and_read(kind: str, fields: dict[str, Any]) -> None:
    step = read_step({"kind": kind, **fields, "lane": "l", "phase": "teardown", "parent": "p"})

    again = read_step(step.model_dump(mode="json"))

    assert again == step
    assert (again.kind, again.lane, again.phase, again.parent) == (kind, "l", "teardown", "p")


@pytest.mark.parametrize(("kind", "fields"), LEAST.items())
def test_unknown_fields_of_a_step_are_kept(kind: str, fields: dict[str, Any]) -> None:
    step = read_step({"kind": kind, **fields, "from_the_future": {"a": [1]}})

    assert step.model_dump(mode="json")["from_the_future"] == {"a": [1]}


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"kind": "unknown"},
        {"kind": "model"},
        {"kind": "model", "hash": "a1:0", "request": {"method": "POST"}},
        {"kind": "run.end", "outcome": "fine"},
        {"kind": "value", "name": "x", "phase": "later"},
        {"kind": "http", "hash": "a1:0", "request": {"method": "GET", "url": "u", "body": {"kind": "unknown"}}},
        {"kind": "run.start", "format": "one"},
    ],
)
def test_what_is_no_step_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        read_step(fields)


@pytest.mark.parametrize("model", _models(), ids=lambda model: model.__name__)
def test_a_record_is_frozen_and_documented(model: type[BaseModel]) -> None:
    assert model.model_config.get("frozen")
    assert model.model_config.get("extra") == "allow"
    assert model.__doc__


def test_times_are_never_part_of_a_written_step() -> None:
    step = ModelStep(hash="a1:0", request=Request(method="POST", url="u"), timing=Timing(began=1.0, took=2.0))

    assert "timing" not in step.model_dump(mode="json")
    assert step.timing == Timing(began=1.0, took=2.0)


@pytest.mark.parametrize("text", ["\ud800", "a\udfff"])
def test_lone_surrogates_and_big_integers_are_values_like_others(text: str) -> None:
    body = JsonBody(fields={text: [text, 2**64 + 1, float("inf")]}, lists={text: ("c1:0",)})

    assert body.fields == {text: [text, 2**64 + 1, float("inf")]}
    assert Response(status=200, headers=((text, text),)).headers == ((text, text),)
