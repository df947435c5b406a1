"""The report of a divergence: five kinds, at most 60 lines of 100 columns, always ending in the next command.

Only what is meant to be copied, a command or a setting, may be longer than that.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any
from urllib.parse import urlsplit

from pytest_agentreplay.canonical import write_json
from pytest_agentreplay.divergence.changes import ABSENT, Change, volatile_kind
from pytest_agentreplay.divergence.scene import IGNORE_RULE, Scene, Unfinished, Words

__all__ = [
    "report_changed",
    "report_missing",
    "report_order",
    "report_unplayed",
    "show_moved",
    "show_together",
]

_WIDTH = 100
_MOST_LINES = 60
_MOST_CHANGES = 8
_MOST_UNPLAYED = 10
_MOST_MOVED = 4
_LONGEST_VALUE = 240
_ALLOWED = "unplayed='warn'"
_UNHEARD = "unplayed='ignore'"
_OF_VARIABLE = re.compile(r"\[redacted:env-(\w+)\]")
_ONLY_REDACTED = [
    "  differs   in what is redacted alone: a variable of the environment holds a value that was recorded",
    "            in clear; unset it as it was while recording, or record again",
]
_TO_COPY = ("pytest ", "agentreplay ", "record_mode=", "unplayed=", IGNORE_RULE)


def report_changed(
    scene: Scene,
    *,
    asked: str,
    changes: Sequence[Change],
    nearest: str | None,
    alike: float,
    says: str | None = None,
    exhausted: int = 0,
    noun: str = "request",
    compared_with: str | None = None,
    served: str | None = None,
) -> str:
    """Return the report of a request, or of what ``noun`` says, that the recording does not know.

    Without ``nearest`` nothing was left to compare it with: no ``noun``, or none of what is named more closely.
    Without ``changes`` the two are the same under the rules of now, which redact something that was recorded in clear.
    ``says`` is what the request ends in.  ``exhausted`` is how often the same request was recorded, when it was and
    every answer has been given; ``served`` says what it was answered all the same.
    """
    if exhausted:
        times = f"{exhausted} {'was' if exhausted == 1 else 'were'} recorded"
        title = f"Recording exhausted: wants call {exhausted + 1} of a {noun}, only {times}."
    else:
        what = f"{noun.capitalize()} changed" if nearest else f"Additional {noun}"
        title = f"{what}: call {scene.place + 1} is not in the recording."
    body = _asked_lines(asked, says if exhausted or not nearest else None)
    if nearest and not exhausted:
        body += [f"  nearest   {nearest}, {min(alike, 0.99):.0%} alike"]
        body += [f"  served    {served}"] if served else []
        body += ["", *_change_lines(changes, scene.words)] if changes else _ONLY_REDACTED
    elif not exhausted:
        body += [f"  nearest   none: no recorded {compared_with or noun} is left"]
    return _assemble(title, scene, body=body, advice=_rewrite(scene, "If the change is meant"))


def report_order(scene: Scene, *, asked: str, expected: str | None) -> str:
    """Return the report of a known request that came at the wrong time in its conversation."""
    title = f"Order changed: call {scene.place + 1} is recorded, but not next in its conversation."
    body = [f"  asked     {asked}", f"  expected  {expected or 'no further call in this conversation'}"]
    return _assemble(title, scene, body=body, advice=_rewrite(scene, "If the new order is meant"))


def report_missing(
    scene: Scene, *, asked: str, says: str | None = None, partial: Unfinished | None = None, noun: str = "request"
) -> str:
    """Return the report of a request made while there is no cassette, or only an unfinished recording of it."""
    body = _asked_lines(asked, says)
    mode = "once"
    if partial is None:
        title = f"No cassette: the run made a {noun}, and nothing is recorded for this test."
        verb = "Record it"
    else:
        title = f"No cassette: the run made a {noun}, and its recording was never finished."
        verb, mode = partial.remedy, partial.mode
        body.append(f"  partial   {partial.path}")
        body += [f"            {partial.fault}"] if partial.fault else []
    return _assemble(title, scene, body=body, advice=[f"  {verb}: {scene.words.record(scene.test, mode)}"])


def report_unplayed(scene: Scene, *, unplayed: Iterable[str], count: int, phase: str, is_allowed: bool = False) -> str:
    """Return the report of a test that passed and left recorded steps unplayed; ``is_allowed`` says that it may.

    ``unplayed`` says of each of the ``count`` steps what it is; no more are looked at than are shown.
    """
    steps = f"{count} recorded {'step was' if count == 1 else 'steps were'}"
    title = f"Unplayed: {steps} not asked for by the end of the {phase}."
    shown = [_clip(f"    {step}", may_be_long=False) for step in islice(unplayed, _MOST_UNPLAYED)]
    more = [f"    … and {count - _MOST_UNPLAYED} more"] if count > _MOST_UNPLAYED else []
    advice = [
        *_less(scene),
        f"  Or hear nothing of it: {scene.words.set(_UNHEARD)}"
        if is_allowed
        else f"  Or allow it: {scene.words.set(_ALLOWED)}",
    ]
    return _assemble(title, scene, body=[*shown, *more], advice=advice)


def _assemble(title: str, scene: Scene, *, body: Iterable[str], advice: Iterable[str]) -> str:
    head = [title, "", f"  test      {scene.test}", f"  cassette  {scene.cassette}"]
    if scene.recorded_by:
        head.append(f"            of another test: {scene.recorded_by}")
    if scene.call_site:
        head.append(f"  called    {scene.call_site}")
    tail = ["", *_sequences(scene), *advice]
    middle = list(body)
    room = _MOST_LINES - len(head) - len(tail)
    if len(middle) > room:
        middle = [*middle[: room - 1], "    … cut; the rest of the differences is in the same request"]
    return "\n".join(_clip(line) for line in (*head, *middle, *tail))


def _asked_lines(asked: str, says: str | None) -> list[str]:
    return [f"  asked     {asked}", *([_clip(f"  says      {says[:_WIDTH]}", may_be_long=False)] if says else [])]


def _clip(line: str, *, may_be_long: bool = True) -> str:
    # A name or a value may hold anything; what would end the line or cannot be printed is shown as its escape.
    line = "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in line)
    is_to_copy = may_be_long and any(sign in line for sign in _TO_COPY)
    return line if len(line) <= _WIDTH or is_to_copy else line[: _WIDTH - 1] + "…"


def _rewrite(scene: Scene, condition: str) -> list[str]:
    return [f"  {condition}, record again: {scene.words.record(scene.test, 'rewrite')}"]


def _less(scene: Scene) -> list[str]:
    """Return what to do where a run should ask for less: where a command drops the rest, nothing need be paid for.

    The rest of what another test recorded may be what that test plays, so that no command drops it.
    """
    condition = "If the run should ask for less now"
    if scene.recorded_by:
        return _rewrite(scene, f"{condition}, and no other test plays the rest")
    prune = scene.words.drop(scene.test)
    if prune is None:
        return _rewrite(scene, condition)
    return [
        f"  {condition}, drop the rest offline: {prune}",
        f"  Or record again: {scene.words.record(scene.test, 'rewrite')}",
    ]


def _change_lines(changes: Sequence[Change], words: Words) -> list[str]:
    lines = ["  what changed, recorded → now:"]
    group = None
    for change in changes[:_MOST_CHANGES]:
        if change.group != group:
            group = change.group
            lines.append(f"    {group}")
        lines += _one_change(change, words)
    if len(changes) > _MOST_CHANGES:
        lines.append(f"    … and {len(changes) - _MOST_CHANGES} more differences")
    return lines


def _one_change(change: Change, words: Words) -> list[str]:
    if change.moved:
        return [f"      {change.path}", *(_clip(f"        {line}", may_be_long=False) for line in show_moved(change))]
    recorded, now = show_together(change)
    lines = [f"      {change.path}", *_labelled("recorded:", recorded), *_labelled("now:", now)]
    if change.path == "url" and _host_of(change.recorded) != _host_of(change.now):
        lines.append("        another address: is a base URL, such as OPENAI_BASE_URL, set as it was while recording?")
    lines += _hidden_lines(recorded, now)
    volatile = volatile_kind(change)
    if volatile and change.path.startswith("$"):  # rules reach into JSON bodies alone
        kind, pattern = volatile
        rule = f"{change.path} =~ {pattern.pattern}"
        literal = f'r"{rule}"' if '"' not in rule else repr(rule)
        lines += [f"        looks like {kind}; to let it vary:", f"          {words.vary(literal)}"]
    return lines


def _hidden_lines(recorded: str, now: str) -> list[str]:
    """Return which variables of the environment hid a value while recording that they do not hide now."""
    names = sorted(set(_OF_VARIABLE.findall(recorded)) - set(_OF_VARIABLE.findall(now)))
    advice = "set it as it was while recording, before the first request: in a fixture, say"
    return [f"        {name} hid a value then and does not now: {advice}" for name in names]


def show_moved(change: Change) -> tuple[str, str]:
    """Return what is said of elements that are where others were: their places, and the first of them."""
    moved = [(old, new) for old, new in change.moved if old != new] or change.moved
    places = [f"[{old}] → [{new}]" for old, new in moved[:_MOST_MOVED]]
    more = [f"… and {len(moved) - _MOST_MOVED} more"] if len(moved) > _MOST_MOVED else []
    old, _ = moved[0]
    return (
        f"the same elements in another order: {', '.join([*places, *more])}",
        f"[{old}] was: {_window(_text_of(change.recorded[old]), 0)}",
    )


def _host_of(url: object) -> str:
    return urlsplit(str(url)).netloc


def show_together(change: Change) -> tuple[str, str]:
    """Return both values of a change as text, cut around their first difference where they are long."""
    return _cut_together(_text_of(change.recorded), _text_of(change.now))


def _labelled(label: str, text: str) -> list[str]:
    wrapped = textwrap.wrap(text, width=_WIDTH - 20, break_on_hyphens=False) or [""]
    return [f"        {label if not index else '':<10}{line}" for index, line in enumerate(wrapped[:4])]


def _text_of(value: Any) -> str:
    if value is ABSENT:
        return repr(ABSENT)
    try:
        text = json.dumps(value, ensure_ascii=False)
    except RecursionError:
        text = write_json(value).decode("utf-8")
    return text.encode("utf-8", "backslashreplace").decode("utf-8")  # a lone surrogate cannot be printed


def _cut_together(recorded: str, now: str) -> tuple[str, str]:
    """Cut two texts around their first difference, each with its length where it was cut."""
    if max(len(recorded), len(now)) <= _LONGEST_VALUE:
        return recorded, now
    same = next(
        (i for i, (a, b) in enumerate(zip(recorded, now, strict=False)) if a != b), min(len(recorded), len(now))
    )
    start = max(0, same - _LONGEST_VALUE // 3)
    return _window(recorded, start), _window(now, start)


def _window(text: str, start: int) -> str:
    if len(text) <= _LONGEST_VALUE:
        return text
    end = start + _LONGEST_VALUE
    before = "…" if start else ""
    after = "…" if end < len(text) else ""
    return f"{before}{text[start:end]}{after} ({len(text):,} characters)"


def _sequences(scene: Scene) -> list[str]:
    if not scene.recorded and not scene.now:
        return []
    lines = [
        f"  recorded  {_sequence(scene.recorded, scene.place)}",
        f"  now       {_sequence(scene.now, scene.place, is_marked=not scene.is_over)}",
        "",
    ]
    return [line.rstrip() for line in lines]


def _sequence(calls: Sequence[str], place: int, *, is_marked: bool = True) -> str:
    start = max(0, min(place, len(calls)) - 3)
    marked = place if is_marked else None
    names = [f"{'▶ ' if index == marked else ''}{index + 1} {calls[index]}" for index in range(start, len(calls))]
    before = "… " if start else ""
    shown = ", ".join(names[:6]) + (", …" if len(names) > 6 else "")
    return f"{before}{shown}" if names else "(nothing)"
