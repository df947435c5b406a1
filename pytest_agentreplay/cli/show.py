"""``agentreplay show``: a recorded run as a timeline, for people or as JSON."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from pytest_agentreplay.cassette import Cassette
from pytest_agentreplay.counts import say_count
from pytest_agentreplay.dialects import Dialects, Message, text_in
from pytest_agentreplay.heads import media_type_of
from pytest_agentreplay.projections.instructions import instructions_of, new_instructions
from pytest_agentreplay.projections.timeline import Deed, Moment, read_story, total
from pytest_agentreplay.records import CompactionStep, Entry, PermissionStep, Response, ToolStep, Usage

__all__ = ["show_json", "show_lasting", "show_text"]

# Text and, for a terminal, how rich is to print it.
_Segment: TypeAlias = tuple[str, str]
_Line: TypeAlias = list[_Segment]

_WIDEST_NAME = 48
_NARROWEST = 20


def show_text(tape: Cassette, dialects: Dialects) -> None:
    """Print the timeline; in colour on a terminal, plain anywhere else."""
    width = shutil.get_terminal_size((100, 24)).columns
    story = read_story(tape, dialects)
    steps = _steps(story, prompts=new_instructions(story, tape.messages), width=width)
    lines = [*_head(tape), [], *steps, [], *_end(tape)]
    if sys.stdout.isatty():
        _print_styled(lines)
    else:
        sys.stdout.writelines("".join(text for text, _ in line).rstrip() + "\n" for line in lines)


def show_lasting(tape: Cassette, dialects: Dialects) -> None:
    """Print the timeline without what each recording changes: no path, dates, numbers or durations, and nothing cut."""
    story = read_story(tape, dialects)
    prompts = new_instructions(story, tape.messages)
    for told in story:
        _, kind, name, lane, *ending, _ = _cells(told)
        named = lane if told.step.lane.startswith("@") else ""  # the others are called by a hash
        sys.stdout.write("  ".join(filter(None, (kind, name, named, *ending))) + "\n")
        for speaker, said, _ in _said(told, prompts):
            lines = _visible_lines(said)
            sys.stdout.writelines(f"  {speaker if not at else '':<9}  {line}".rstrip() + "\n" for at, line in lines)


def show_json(tape: Cassette, dialects: Dialects) -> None:
    """Print the timeline as one JSON document, with nothing cut."""
    document = {
        "cassette": str(tape.path),
        "start": tape.start.model_dump(mode="json", exclude_none=True, exclude={"kind", "lane", "phase"}),
        "steps": [
            _moment_as_json(told, tape) if isinstance(told, Moment) else _deed_as_json(told)
            for told in read_story(tape, dialects)
        ],
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


def _steps(story: Sequence[Moment | Deed], *, prompts: Mapping[int, str], width: int) -> Iterable[_Line]:
    rows = [_cells(told) for told in story]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    styles = ("dim", "bold", "bold", "cyan", "", "", "dim")
    for told, row in zip(story, rows, strict=True):
        cells = zip(row, widths, styles, strict=True)
        yield [(f"{text:<{size}}  ", style) for text, size, style in cells if size]
        indent = " " * (widths[0] + 2)
        for speaker, said, style in _said(told, prompts):
            label = f"{indent}{speaker:<9}  "
            yield [(label, "dim"), (_cut(said, max(_NARROWEST, width - len(label))), style)]


def _cells(told: Moment | Deed) -> tuple[str, ...]:
    """Return number, kind, what was called, lane, how it ended, tokens and duration."""
    step = told.step
    phase = f" ({step.phase})" if step.phase != "call" else ""
    inside = f" (inside {_cut(told.inside, _WIDEST_NAME)})" if told.inside else ""
    name, ending = (_called(told), _ending(told)) if isinstance(told, Moment) else _named(told.step)
    return (
        str(told.number),
        step.kind,
        _cut(name, _WIDEST_NAME) + inside + phase,
        f"lane {step.lane}" if step.lane else "",
        ending,
        _tokens(getattr(step, "usage", None)),
        f"{step.timing.took:.3f} s" if step.timing and not isinstance(step, PermissionStep | CompactionStep) else "",
    )


def _named(step: Entry) -> tuple[str, str]:
    """Return what a step that is no exchange is called, and how it ended."""
    if isinstance(step, ToolStep):
        return step.name, step.error.type.rpartition(":")[2] if step.error else "error" if step.is_error else ""
    if isinstance(step, PermissionStep):
        resolved = f", resolved to {step.resolution}" if step.resolution else ""
        return step.policy or "", f"{step.decision}{resolved}"
    return str(getattr(step, "name", "")), ""


def _said(told: Moment | Deed, prompts: Mapping[int, str]) -> Iterable[tuple[str, str, str]]:
    """Yield who said what at a step, and its style."""
    if told.number in prompts:
        yield "system", prompts[told.number], "dim"
    yield from _spoken(told) if isinstance(told, Moment) else _done(told.step)


def _done(step: Entry) -> Iterable[tuple[str, str, str]]:
    """Yield what a step that is no exchange says, as :func:`_spoken` does."""
    if isinstance(step, ToolStep):
        yield "call", _as_call(step.name, step.arguments), "dim"
        if step.error is not None:
            yield "error", step.error.message, "red"
        else:
            yield "result", _as_text(step.result), "red" if step.is_error else "green"
        return
    shown = step.model_dump(exclude_none=True, exclude={"kind", "lane", "phase", "parent"})
    known = {name: value for name, value in shown.items() if name not in ("name", "decision", "resolution", "policy")}
    yield from ((name, _as_text(value), "dim") for name, value in known.items() if name != "tool_use_id")


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
        yield from ((speaker, line, "dim") for speaker, line in _heard(message))
    for message in moment.reply.messages:
        yield from ((message.role, line, "green") for line in _lines_of(message))
    step, response = moment.step, moment.step.response
    if step.error is not None:
        yield "error", step.error.text, "red"
    elif response is not None and response.status >= 400:
        yield "answer", response.content.decode("utf-8", "replace"), "red"
    elif moment.reply.error is not None:
        yield "error", moment.reply.error, "red"


def _heard(message: Message) -> Iterable[tuple[str, str]]:
    """Yield who says what in a message; results of tools are the tools' own words, whoever brings them."""
    if message.is_spelled_out and message.tool_results:
        yield from (("tool", text_in(result.content) or _as_text(result.content)) for result in message.tool_results)
    else:
        yield from ((message.role, line) for line in _lines_of(message))


def _lines_of(message: Message) -> Iterable[str]:
    calls = (*message.hosted_calls, *message.tool_calls)
    if message.text or not (calls or message.thinking):
        yield message.text
    yield from (_as_call(call.name, call.value) for call in calls)


def _as_call(name: str, arguments: Any) -> str:
    if not isinstance(arguments, dict):
        return f"{name}({_as_text(arguments)})"
    shown = (f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in arguments.items())
    return f"{name}({', '.join(shown)})"


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _end(tape: Cassette) -> Iterable[_Line]:
    totals = total(tape)
    outcome = tape.end.outcome if tape.end else "unfinished"
    parts = [
        say_count(totals.turns, "model call"),
        say_count(totals.requests, "request"),
        *([say_count(totals.tools, "tool call")] if totals.tools else []),
        say_count(totals.lanes, "conversation"),
        f"tokens {_tokens(totals.usage) or 'unknown'}",
    ]
    if totals.seconds is not None:
        parts.append(f"{totals.seconds:.3f} s")
    yield [(outcome, "bold green" if outcome == "ok" else "bold red"), (f": {', '.join(parts)}", "")]
    if tape.torn:
        yield [(tape.torn, "red")]


def _cut(text: str, width: int) -> str:
    shown = _visible(" ".join(text.split())[: width + 1])
    return shown if len(shown) <= width else shown[: width - 1] + "…"


def _visible(text: str) -> str:
    """Return text in which nothing can move the cursor or colour a terminal."""
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode("ascii") for letter in text
    )


def _visible_lines(text: str) -> Iterable[tuple[int, str]]:
    return enumerate(_visible(line) for line in text.split("\n"))


def _print_styled(lines: Iterable[_Line]) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    for line in lines:
        console.print(Text.assemble(*line), soft_wrap=True)


def _moment_as_json(moment: Moment, tape: Cassette) -> dict[str, Any]:
    step, response, reply = moment.step, moment.step.response, moment.reply
    usage: Usage | None = getattr(step, "usage", None)
    return {
        "number": moment.number,
        "kind": step.kind,
        "lane": step.lane,
        "phase": step.phase,
        "parent": step.parent,
        "hash": step.hash,
        "provider": step.provider,
        "operation": step.operation,
        "model": moment.call.model if moment.call else None,
        "method": step.request.method,
        "url": step.request.url,
        "system_instructions": instructions_of(moment, tape.messages) or None,
        "input_messages": [message.as_json() for message in moment.heard],
        "output_messages": [message.as_json() for message in reply.messages],
        "finish_reason": reply.finish_reason,
        "usage": usage.model_dump(mode="json", exclude_none=True) if usage else None,
        "response": _response_as_json(response) | {"model": reply.model, "error": reply.error} if response else None,
        "error": step.error.model_dump(mode="json") if step.error else None,
        "timing": step.timing.model_dump(mode="json") if step.timing else None,
    }


def _deed_as_json(deed: Deed) -> dict[str, Any]:
    step = deed.step
    head = {"number": deed.number, "kind": step.kind, "lane": step.lane, "phase": step.phase, "parent": step.parent}
    timing = step.timing.model_dump(mode="json") if step.timing else None
    return head | step.model_dump(exclude=set(head)) | {"timing": timing}


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
        "tools": totals.tools,
        "conversations": totals.lanes,
        "usage": totals.usage.model_dump(mode="json", exclude_none=True),
        "seconds": round(totals.seconds, 4) if totals.seconds is not None else None,
        "torn": tape.torn,
    }
