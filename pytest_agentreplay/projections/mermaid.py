"""A run as a Mermaid diagram: a flowchart of its steps, or a sequence diagram of its agents.

No name can add a statement or a directive, or change how the rest is read: what Mermaid would read as anything but
text is written as the entity ``#<decimal>;``, which it shows as the character.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Literal, TypeAlias

from pytest_agentreplay.dialects import Dialects
from pytest_agentreplay.errors import ConfigurationError
from pytest_agentreplay.projections.drawn import Drawn, read_drawn
from pytest_agentreplay.projections.sequence import Talk, read_talk
from pytest_agentreplay.projections.tape import Tape

__all__ = ["Style", "render_mermaid"]

Style: TypeAlias = Literal["flowchart", "sequence"]

# What Mermaid 11 reads as anything but text, in a label of either kind of diagram.  Measured with its own parser, and
# in a browser: its placeholders for entities and the white space that it trims count as well.
_NOT_TEXT = (
    r'["#&<`\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufffd]',
    r"%(?=%)|(?<=%)%",  # comments and directives
    r"\$(?=\$)|(?<=\$)\$",  # formulas
    r"s(?=tyle.*:)|c(?=lassDef.*:)",  # before such a word, a later entity loses its end
    "\ufb02(?=\u00b0)|\u00b6(?=\u00df)",
    r"[\s\ufeff]\Z",
)
_IN_FLOWCHART = re.compile("|".join((*_NOT_TEXT, r"(?<=direction)\s", r"\\(?=n)", r":(?=fa-)")), re.DOTALL)
_IN_SEQUENCE = re.compile("|".join((*_NOT_TEXT, ";", r"(?<=wrap):", r"\A[\s\ufeff]")), re.DOTALL)


def render_mermaid(tape: Tape, *, style: Style = "flowchart", dialects: Dialects | None = None) -> str:
    """Return a tape's diagram, newline-terminated.

    ``flowchart`` chains the drawn steps in the order of the tape; ``sequence`` has a participant for each agent (a
    conversation, or what a tool opened) and what was done inside a tool between its call and its return.
    Raises :class:`ConfigurationError` for any other style.
    """
    if style == "flowchart":
        lines: Iterable[str] = _flowchart(read_drawn(tape, dialects))
    elif style == "sequence":
        lines = _sequence(read_talk(read_drawn(tape, dialects)))
    else:
        raise ConfigurationError(f"mermaid style {style!r} is not known; there are flowchart and sequence")
    return "".join(f"{line}\n" for line in lines)


def _flowchart(steps: Iterable[Drawn]) -> Iterator[str]:
    yield "flowchart TD"
    yield "  start([user])"
    last = "start"
    for number, drawn in enumerate(steps):
        node = f"n{number}"
        yield f'  {node}["{_entities(drawn.label, _IN_FLOWCHART)}"]'
        yield f"  {last} --> {node}"
        last = node
    yield f"  {last} --> done([done])"


def _sequence(talk: Talk) -> Iterator[str]:
    yield "sequenceDiagram"
    yield "  actor user"
    for agent, name in talk.agents.items():
        yield f"  participant {agent} as {_entities(name, _IN_SEQUENCE)}"
    for line in talk.lines:
        arrow = "-->>" if line.is_return else "->>"
        yield f"  {line.speaker}{arrow}{line.hearer}: {_entities(line.text, _IN_SEQUENCE)}"


def _entities(text: str, not_text: re.Pattern[str]) -> str:
    return not_text.sub(lambda match: f"#{ord(match.group())};", text)
