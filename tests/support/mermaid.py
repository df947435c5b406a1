"""Diagrams as mermaid itself reads and draws them, in a run of node that stays: one takes a second to start."""

from __future__ import annotations

import atexit
import json
import os
import subprocess
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).resolve().parents[1] / "mermaid"
_REMEDY = "scripts/test installs what diagrams are read with; it needs Node.js >= 18 and npm"


class DiagramError(Exception):
    """mermaid does not parse a diagram."""


@dataclass(frozen=True)
class Flowchart:
    """A flowchart: the label of each vertex by its id, and edges as (from, to, label)."""

    labels: Mapping[str, str]
    edges: tuple[tuple[str, str, str], ...]
    direction: str
    config: Mapping[str, Any]  # what directives in the text set


@dataclass(frozen=True)
class Sequence:
    """A sequence diagram: labels by id, messages as (from, to, text, arrow), notes as (from, to, text).

    Other lines, such as the head of a loop, are messages whose arrow is mermaid's name for them.
    """

    participants: Mapping[str, str]
    messages: tuple[tuple[str | None, str | None, str, str], ...]
    notes: tuple[tuple[str, str, str], ...]
    config: Mapping[str, Any]


@dataclass(frozen=True)
class Drawing:
    """The texts in a picture: labels of vertices or participants by id; of messages and notes, each drawn line."""

    labels: Mapping[str, str]
    messages: tuple[str, ...]
    notes: tuple[str, ...]


def read_diagrams(texts: Iterable[str]) -> list[Flowchart | Sequence]:
    """Return what mermaid's parser reads in each text, ``#NUMBER;`` decoded; raise DiagramError where it does not."""
    return [_KINDS[answer["kind"]](answer) for answer in _ask("parse.mjs", texts)]


def draw_diagrams(texts: Iterable[str]) -> list[Drawing]:
    """Return the texts in mermaid's picture of each diagram, as a reader sees them: some 0.1 s a diagram."""
    return [
        Drawing(dict(answer["labels"]), tuple(answer["messages"]), tuple(answer["notes"]))
        for answer in _ask("draw.mjs", texts)
    ]


def _ask(program: str, texts: Iterable[str]) -> list[dict[str, Any]]:
    asked = list(texts)
    node = _start(program, _FOLDER, os.environ["PATH"])
    answers = [_answer(node, text) for text in asked]
    for number, (text, answer) in enumerate(zip(asked, answers, strict=True)):
        if not answer["ok"]:
            raise DiagramError(f"diagram {number} of {len(asked)}: {answer['error']}\n\n{text}")
    return answers


@cache
def _start(program: str, folder: Path, path: str) -> subprocess.Popen[bytes]:
    """Start node on a program, which answers until this process ends."""
    pipe = subprocess.PIPE
    try:
        node = subprocess.Popen(["node", program], cwd=folder, stdin=pipe, stdout=pipe, stderr=pipe)
    except FileNotFoundError as error:
        raise RuntimeError(f"node is not on PATH: {_REMEDY}") from error
    atexit.register(node.communicate)
    return node


def _answer(node: subprocess.Popen[bytes], text: str) -> dict[str, Any]:
    assert node.stdin is not None
    assert node.stdout is not None
    with suppress(BrokenPipeError):
        node.stdin.write(f"{json.dumps(text)}\n".encode())
        node.stdin.flush()
    line = node.stdout.readline()
    if not line:
        raise RuntimeError(f"{node.args} ended ({_REMEDY}):\n{node.communicate()[1].decode()}")
    answer: dict[str, Any] = json.loads(line)
    return answer


def _read_flowchart(answer: dict[str, Any]) -> Flowchart:
    return Flowchart(
        labels={name: _join(pieces) for name, pieces in answer["vertices"]},
        edges=tuple((start, end, _join(pieces)) for start, end, pieces in answer["edges"]),
        direction=answer["direction"],
        config=answer["config"],
    )


def _read_sequence(answer: dict[str, Any]) -> Sequence:
    return Sequence(
        participants={name: _join(pieces) for name, pieces in answer["participants"]},
        messages=tuple((start, end, _join(pieces), arrow) for start, end, arrow, pieces in answer["messages"]),
        notes=tuple((start, end, _join(pieces)) for start, end, pieces in answer["notes"]),
        config=answer["config"],
    )


_KINDS = {"flowchart": _read_flowchart, "sequence": _read_sequence}


def _join(pieces: Iterable[str | int]) -> str:
    return "".join(piece if isinstance(piece, str) else chr(piece) for piece in pieces)
