"""``agentreplay show``: a recorded run as a timeline, for people or as JSON."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any, TypeAlias

from pytest_agentreplay.cassette import Cassette
from pytest_agentreplay.dialects import Dialects, Message, ToolCall
from pytest_agentreplay.normalize import media_type_of
from pytest_agentreplay.projections.timeline import Moment, read_timeline, total
from pytest_agentreplay.records import Response, Usage

__all__ = ["show_json", "show_text"]

# Text and, for a terminal, how rich is to print it.
_Segment: TypeAlias = tuple[str, str]
_Line: TypeAlias = list[_Segment]

_WIDEST_NAME = 48
_NARROWEST = 20


def show_text(tape: Cassette, dialects: Dialects) -> None:
    """Print the timeline; in colour on a terminal, plain anywhere else."""
    width = shutil.get_terminal_size((100, 24)).columns
    lines = [*_head(tape), [], *_steps(read_timeline(tape, dialects), width=width), [], *_end(tape)]
    if sys.stdout.isatty():
        _print_styled(lines)
    else:
        sys.stdout.writelines("".join(text for text, _ in line).rstrip() + "\n" for line in lines)


def show_json(tape: Cassette, dialects: Dialects) -> None:
    """Print the timeline as one JSON document, with nothing cut."""
    document = {
        "cassette": str(tape.path),
        "start": tape.start.model_dump(mode="json", exclude_none=True, exclude={"kind", "lane", "phase"}),
        "steps": [_moment_as_json(moment) for moment in read_timeline(tape, dialects)],
        "end": _end_as_json(tape),
    }
    sys.stdout.write(json.dumps(document, indent=2) + "\n")


def _head(tape: Cassette) -> Iterable[_Line]:
    start = tape.start
    versions = ", ".join(f"{name} {version}" for name, version in start.versions.items())
    yield [(str(tape.path), "bold")]
    yield from _facts({"test": start.name, "recorded": start.recorded_at, "with": versions})


def _facts(facts: dict[str, str | None]) -> Iterable[_Line]:
    return [[(f"  {name:<10}", "dim"), (_visible(value), "")] for name, value in facts.items() if value]


def _steps(moments: Sequence[Moment], *, width: int) -> Iterable[_Line]:
    rows = [_cells(moment) for moment in moments]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    styles = ("dim", "bold", "bold", "cyan", "", "", "dim")
    for moment, row in zip(moments, rows, strict=True):
        cells = zip(row, widths, styles, strict=True)
        yield [(f"{text:<{size}}  ", style) for text, size, style in cells if size]
        indent = " " * (widths[0] + 2)
        for speaker, said, style in _spoken(moment):
            label = f"{indent}{speaker:<9}  "
            yield [(label, "dim"), (_cut(said, max(_NARROWEST, width - len(label))), style)]


def _cells(moment: Moment) -> tuple[str, ...]:
    """Return number, kind, what was called, lane, how it ended, tokens and duration."""
    step = moment.step
    phase = f" ({step.phase})" if step.phase != "call" else ""
    return (
        str(moment.number),
        step.kind,
        _cut(_called(moment), _WIDEST_NAME) + phase,
        f"lane {step.lane}",
        _ending(moment),
        _tokens(getattr(step, "usage", None)),
        f"{step.timing.took:.3f} s" if step.timing else "",
    )


def _called(moment: Moment) -> str:
    step = moment.step
    if step.kind == "http":
        return f"{step.request.method} {step.request.url}"
    model = moment.call.model if moment.call else ""
    streamed = ", streamed" if moment.call and moment.call.stream else ""
    return f"{step.provider} {step.operation} {model}".rstrip() + streamed


def _ending(moment: Moment) -> str:
    step, response = moment.step, moment.step.response
    if step.error is not None:
        return step.error.class_name
    if response is None:
        return ""
    cut_short = ", cut short" if response.truncated else ""
    if step.kind == "http" or response.status >= 400:
        return f"HTTP {response.status}{cut_short}"
    return f"{moment.reply.finish_reason or ''}{cut_short}"


def _tokens(usage: Usage | None) -> str:
    counts = {"in": usage.input_tokens, "out": usage.output_tokens} if usage else {}
    return ", ".join(f"{count:,} {way}" for way, count in counts.items() if count is not None)


def _spoken(moment: Moment) -> Iterable[tuple[str, str, str]]:
    """Yield who spoke, what, and its style."""
    for message in moment.heard:
        yield from ((message.role, line, "dim") for line in _lines_of(message))
    for message in moment.reply.messages:
        yield from ((message.role, line, "green") for line in _lines_of(message))
    step, response = moment.step, moment.step.response
    if step.error is not None:
        yield "error", step.error.text, "red"
    elif response is not None and response.status >= 400:
        yield "answer", response.content.decode("utf-8", "replace"), "red"


def _lines_of(message: Message) -> Iterable[str]:
    if message.text or not message.tool_calls:
        yield message.text
    yield from map(_as_call, message.tool_calls)


def _as_call(call: ToolCall) -> str:
    try:
        arguments = json.loads(call.arguments)
    except ValueError:
        arguments = None
    if not isinstance(arguments, dict):
        return f"{call.name}({call.arguments})"
    shown = (f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in arguments.items())
    return f"{call.name}({', '.join(shown)})"


def _end(tape: Cassette) -> Iterable[_Line]:
    totals = total(tape)
    outcome = tape.end.outcome if tape.end else "unfinished"
    parts = [
        _counted(totals.turns, "model call"),
        _counted(totals.requests, "request"),
        _counted(totals.lanes, "conversation"),
        f"tokens {_tokens(totals.usage) or 'unknown'}",
    ]
    if totals.seconds is not None:
        parts.append(f"{totals.seconds:.3f} s")
    yield [(outcome, "bold green" if outcome == "ok" else "bold red"), (f": {', '.join(parts)}", "")]
    if tape.torn:
        yield [(tape.torn, "red")]


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _cut(text: str, width: int) -> str:
    shown = _visible(" ".join(text.split())[: width + 1])
    return shown if len(shown) <= width else shown[: width - 1] + "…"


def _visible(text: str) -> str:
    """Return text in which nothing can move the cursor or colour a terminal."""
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode("ascii") for letter in text
    )


def _print_styled(lines: Iterable[_Line]) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    for line in lines:
        console.print(Text.assemble(*line), soft_wrap=True)


def _moment_as_json(moment: Moment) -> dict[str, Any]:
    step, response, reply = moment.step, moment.step.response, moment.reply
    usage: Usage | None = getattr(step, "usage", None)
    return {
        "number": moment.number,
        "kind": step.kind,
        "lane": step.lane,
        "phase": step.phase,
        "hash": step.hash,
        "provider": step.provider,
        "operation": step.operation,
        "model": moment.call.model if moment.call else None,
        "method": step.request.method,
        "url": step.request.url,
        "input_messages": [asdict(message) for message in moment.heard],
        "output_messages": [asdict(message) for message in reply.messages],
        "finish_reason": reply.finish_reason,
        "usage": usage.model_dump(mode="json", exclude_none=True) if usage else None,
        "response": _response_as_json(response) | {"model": reply.model} if response else None,
        "error": step.error.model_dump(mode="json") if step.error else None,
        "timing": step.timing.model_dump(mode="json") if step.timing else None,
    }


def _response_as_json(response: Response) -> dict[str, Any]:
    return {
        "status": response.status,
        "media_type": media_type_of(response.headers),
        "bytes": len(response.content),
        "pieces": max(1, len(response.cuts)),
        "truncated": response.truncated,
    }


def _end_as_json(tape: Cassette) -> dict[str, Any]:
    totals = total(tape)
    return {
        "outcome": tape.end.outcome if tape.end else "unfinished",
        "stop_reason": tape.end.stop_reason if tape.end else None,
        "cost_usd": tape.end.cost_usd if tape.end else None,
        "turns": totals.turns,
        "requests": totals.requests,
        "conversations": totals.lanes,
        "usage": totals.usage.model_dump(mode="json", exclude_none=True),
        "seconds": round(totals.seconds, 4) if totals.seconds is not None else None,
        "torn": tape.torn,
    }
