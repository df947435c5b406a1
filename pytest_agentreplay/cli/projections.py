"""``agentreplay events`` and ``agentreplay mermaid``: what goldens are made of, on the terminal."""

from __future__ import annotations

import json
import sys
from typing import Any

from pytest_agentreplay.cassette import Cassette
from pytest_agentreplay.projections.event_text import write_events
from pytest_agentreplay.projections.events import event_stream
from pytest_agentreplay.projections.mermaid import render_mermaid

__all__ = ["print_events", "print_mermaid"]


def print_events(tape: Cassette, *, as_json: bool, times: bool, costs: bool, hashes: bool) -> None:
    """Print the events of a tape, with what is asked for of that which goldens leave out."""
    events = event_stream(tape, times=times, costs=costs, hashes=hashes)
    sys.stdout.write(_document({"cassette": str(tape.path), "events": events}) if as_json else write_events(events))


def print_mermaid(tape: Cassette, *, as_json: bool, style: str) -> None:
    """Print the diagram of a tape."""
    diagram = render_mermaid(tape, style=style)  # type: ignore[arg-type]  # it refuses what it does not know
    sys.stdout.write(_document({"cassette": str(tape.path), "mermaid": diagram}) if as_json else diagram)


def _document(value: Any) -> str:
    return json.dumps(value, indent=2) + "\n"
