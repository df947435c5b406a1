"""Look after cassettes on disk: verify them, count what is in them, and drop what no test asks for.

Everything stored can be derived again: :func:`verify` does so and names what does not fit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pytest_agentreplay.cassette import (
    Cassette,
    is_continuation,
    is_partial,
    load_cassette,
    lock_cassette,
    what_records,
    write_cassette,
)
from pytest_agentreplay.dialects import Dialects
from pytest_agentreplay.errors import CassetteError
from pytest_agentreplay.filenames import SUFFIX
from pytest_agentreplay.reader import Reader, rule_set_for
from pytest_agentreplay.records import Entry, ExchangeStep, JsonBody, ModelStep, PermissionStep, RunEnd, ToolStep
from pytest_agentreplay.redact import redactor_for

__all__ = [
    "Stats",
    "Verdict",
    "collect_stats",
    "drop_steps",
    "find_cassettes",
    "find_passed_over",
    "is_cassette",
    "verify",
]

_FIRST_BYTES = b'{"kind":"run.start"'


@dataclass(frozen=True)
class Verdict:
    """What verifying one file found: nothing, or a fault with its line and remedy."""

    path: Path
    exchanges: int = 0
    tools: int = 0
    fault: str | None = None
    line: int | None = None
    remedy: str = ""
    note: str = ""


@dataclass
class Stats:
    """What a set of cassettes holds.

    ``messages`` are kept once and sent as often as ``references`` says.  ``outcomes`` counts how runs ended; ``calls``
    and the tokens are by provider and model; calls whose answer names no tokens are counted in ``without_tokens``.
    """

    cassettes: int = 0
    exchanges: int = 0
    tools: int = 0
    bytes: int = 0
    messages: int = 0
    references: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    calls: Counter[str] = field(default_factory=Counter)
    input_tokens: Counter[str] = field(default_factory=Counter)
    output_tokens: Counter[str] = field(default_factory=Counter)
    without_tokens: Counter[str] = field(default_factory=Counter)
    oldest: str | None = None
    newest: str | None = None


def find_cassettes(places: Iterable[Path], *, with_partials: bool = False) -> Iterator[Path]:
    """Yield the cassettes in files and folders, in order of name; a file that is named is yielded whatever it holds.

    ``with_partials`` yields unfinished recordings too.  Raises ``FileNotFoundError`` for a place that does not exist.
    """
    for place in places:
        if place.is_dir():
            yield from (path for path in sorted(place.rglob(f"*{SUFFIX}")) if is_cassette(path, partial=with_partials))
        elif place.exists():
            yield place
        else:
            raise FileNotFoundError(place)


def find_passed_over(places: Iterable[Path], *, with_partials: bool = False) -> Iterator[Path]:
    """Yield the files of ours in folders that :func:`find_cassettes` passes over: they stand beside cassettes."""
    for place in places:
        for path in sorted(place.rglob(f"*{SUFFIX}")) if place.is_dir() else ():
            if _is_ours(path) and not is_cassette(path, partial=with_partials):
                yield path


def is_cassette(path: Path, *, partial: bool = False) -> bool:
    """Return whether a file is, or once was, a cassette of ours; other JSONL files are left alone.

    So are the tapes of runs that went on from a cassette: no test replays them.
    """
    return not is_continuation(path) and (partial or not is_partial(path)) and _is_ours(path)


def _is_ours(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        head = file.read(4096)
    return head.startswith(_FIRST_BYTES) or _FIRST_BYTES in head or "cassettes" in path.parts


def verify(path: Path, *, dialects: Dialects) -> Verdict:
    """Derive everything in a cassette again: sums, addresses, order, count, and, under the same rules, each hash.

    Hashes recorded under other rules than the built-in ones are derived at load by the tests that use them; here they
    are noted.
    """
    try:
        tape = load_cassette(path, partial=is_partial(path))
    except CassetteError as error:
        return Verdict(path, fault=error.fault, line=error.line, remedy=error.remedy)
    reader = Reader(rule_set_for(dialects, redactor=redactor_for()))
    tools = sum(isinstance(step, ToolStep) for step in tape.entries)
    verdict = Verdict(path, exchanges=len(tape.exchanges), tools=tools)
    if tape.start.rules != reader.rules.digest:
        return replace(verdict, note=f"hashes not derived: recorded under rules {tape.start.rules}")
    for number, step in enumerate(tape.entries, start=1):
        if _derived_hash(step, tape, reader) not in (None, getattr(step, "hash", None)):
            noun = "call" if isinstance(step, ToolStep) else "request"
            return replace(
                verdict,
                fault=f"the hash of step {number} is not that of its {noun}",
                remedy=f"Record it again: {what_records(tape.start)}",
            )
    return replace(verdict, note=tape.torn or "")


def _derived_hash(step: Entry, tape: Cassette, reader: Reader) -> str | None:
    if isinstance(step, ExchangeStep):
        return reader.reread(step.request, tape.messages).hash
    return reader.read_tool_call(step.name, step.arguments).hash if isinstance(step, ToolStep) else None


def collect_stats(paths: Iterable[Path]) -> Stats:
    """Return what the cassettes at ``paths`` hold together.  Raises :class:`CassetteError` for a damaged one."""
    stats = Stats()
    for path in paths:
        _count(load_cassette(path, partial=is_partial(path)), stats)
    return stats


def drop_steps(path: Path, positions: Collection[int]) -> None:
    """Rewrite a cassette without the steps at ``positions``, once no other process records it."""
    with lock_cassette(path):
        _drop_steps(load_cassette(path), positions)


def _drop_steps(tape: Cassette, positions: Collection[int]) -> None:
    # The order of a file is canonical already; its ranks say so, which are not written.
    ranked = [step.model_copy(update={"rank": position}) for position, step in enumerate(tape.entries)]
    decided = {at - 1 for at in positions if at and isinstance(ranked[at - 1], PermissionStep)}
    gone = {*positions, *decided}  # a decision goes with the tool's call after it
    kept = [step for position, step in enumerate(ranked) if position not in gone]
    turns = sum(step.kind == "model" for step in kept)
    end = (tape.end or RunEnd()).model_copy(update={"turns": turns})
    write_cassette(tape.path, start=tape.start, end=end, entries=kept, messages=tape.messages)


def _count(tape: Cassette, stats: Stats) -> None:
    stats.cassettes += 1
    stats.bytes += tape.path.stat().st_size
    stats.exchanges += len(tape.exchanges)
    stats.tools += sum(isinstance(step, ToolStep) for step in tape.entries)
    stats.messages += len(tape.messages)
    stats.outcomes[tape.end.outcome if tape.end else "unfinished"] += 1
    recorded_at = tape.start.recorded_at
    if recorded_at:
        stats.oldest = min(stats.oldest or recorded_at, recorded_at)
        stats.newest = max(stats.newest or recorded_at, recorded_at)
    for step in tape.exchanges:
        body = step.request.body
        if isinstance(body, JsonBody):
            stats.references += sum(len(found) for found in body.lists.values())
        _count_call(step, stats)


def _count_call(step: Any, stats: Stats) -> None:
    body = step.request.body
    model = body.fields.get("model", "") if isinstance(body, JsonBody) else ""
    name = f"{step.provider} {model}".rstrip() if isinstance(step, ModelStep) else "http"
    stats.calls[name] += 1
    usage = step.usage
    if usage is None or usage.input_tokens is usage.output_tokens is None:
        stats.without_tokens[name] += 1
    else:
        stats.input_tokens[name] += usage.input_tokens or 0
        stats.output_tokens[name] += usage.output_tokens or 0
