"""``agentreplay verify``, ``stats`` and ``prune``: cassettes on disk, looked after."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from pytest_agentreplay.cassette import is_continuation, partial_path
from pytest_agentreplay.cli.exit_codes import ExitCode
from pytest_agentreplay.counts import say_count
from pytest_agentreplay.dialects import load_dialects
from pytest_agentreplay.errors import ConfigurationError
from pytest_agentreplay.plugin.census import Plan
from pytest_agentreplay.upkeep import (
    Stats,
    Verdict,
    collect_stats,
    drop_steps,
    find_cassettes,
    find_passed_over,
    verify,
)

__all__ = ["prune_suite", "show_stats", "verify_places"]


def verify_places(places: Sequence[str], *, as_json: bool) -> ExitCode:
    """Verify every cassette in files, folders and globs; say by the exit code whether one has a fault."""
    dialects = load_dialects()
    paths, passed_over = _expand(places, with_partials=True)
    verdicts = [verify(path, dialects=dialects) for path in paths]
    if as_json:
        _print_json([_verdict_as_json(verdict) for verdict in verdicts])
    else:
        for verdict in verdicts:
            _print(_verdict_line(verdict))
        faults = sum(verdict.fault is not None for verdict in verdicts)
        _print(f"{len(verdicts)} verified, {faults} with a fault")
    _say_passed_over(passed_over)
    return _found(any(verdict.fault for verdict in verdicts))


def show_stats(places: Sequence[str], *, as_json: bool) -> ExitCode:
    """Print what the cassettes in files, folders and globs hold together."""
    paths, passed_over = _expand(places)
    stats = collect_stats(paths)
    if as_json:
        _print_json(_stats_as_json(stats))
    else:
        for line in _stats_lines(stats):
            _print(line)
    _say_passed_over(passed_over)
    return ExitCode.FINE


def prune_suite(arguments: Sequence[str], *, dry_run: bool, as_json: bool) -> ExitCode:
    """Run a suite offline, and drop what it did not ask for; say by the exit code whether there was anything."""
    plan = _take_census(arguments)
    if not dry_run:
        _carry_out(plan)
    if as_json:
        _print_json(json.loads(plan.to_json()) | {"dry_run": dry_run})
    else:
        for line in _plan_lines(plan, dry_run=dry_run):
            _print(line)
    return _found(plan.unused or plan.unplayed)


def _found(anything: object) -> ExitCode:
    return ExitCode.FOUND if anything else ExitCode.FINE


def _take_census(arguments: Sequence[str]) -> Plan:
    """Run the suite in a process of its own; what it prints goes to stderr."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "census.json"
        options = ["-q", "--no-header", "-p", "no:cacheprovider", "-p", "pytest_agentreplay.plugin.census"]
        settings = ["--record-mode=none", f"--agent-census={output}"]
        subprocess.run(
            [sys.executable, "-m", "pytest", *options, *settings, *arguments], stdout=sys.stderr, check=False
        )
        if not output.exists():
            raise ConfigurationError("nothing was pruned: the suite must pass first, or what it needs cannot be known")
        return Plan.from_json(output.read_text(encoding="utf-8"))


def _carry_out(plan: Plan) -> None:
    for path in plan.unused:
        path.unlink()
    for path, positions in plan.unplayed.items():
        drop_steps(path, positions)


def _expand(places: Sequence[str], *, with_partials: bool = False) -> tuple[list[Path], list[Path]]:
    """Return the cassettes in places, and what in folders is passed over beside them."""
    paths: list[Path] = []
    passed_over: list[Path] = []
    for place in places:
        matches = [Path(place)]
        if not matches[0].exists() and set(place) & set("*?["):
            anchor = Path(place).anchor
            matches = sorted(Path(anchor).glob(str(Path(place).relative_to(anchor))))
        try:
            found = list(find_cassettes(matches, with_partials=with_partials))
        except FileNotFoundError as error:
            partial = partial_path(Path(place))
            beside = f". An unfinished recording is beside it: {partial}" if partial.exists() else ""
            raise ConfigurationError(f"{place}: no such file or folder{beside}") from error
        left = list(find_passed_over(matches, with_partials=with_partials))
        if not found:
            beside = f", but {_counted(left)}" if left else ""
            raise ConfigurationError(f"{place}: no cassettes there{beside}; name cassettes, folders of them, or globs")
        paths += found
        passed_over += left
    chosen = dict.fromkeys(paths)
    return list(chosen), [path for path in dict.fromkeys(passed_over) if path not in chosen]


def _say_passed_over(paths: Sequence[Path]) -> None:
    """Say on stderr, where it is in no program's way, what in folders was passed over."""
    if paths:
        sys.stderr.write(f"agentreplay: passed over {_counted(paths)}; name a file to include it\n")


def _counted(paths: Sequence[Path]) -> str:
    """Return how many files are no cassettes, by their kind."""
    tapes = sum(map(is_continuation, paths))
    partials = len(paths) - tapes
    of_replays = [f"{say_count(tapes, 'tape')} of replays (*.replay.jsonl)"] if tapes else []
    unfinished = [f"{say_count(partials, 'unfinished recording')} (*.partial.jsonl)"] if partials else []
    return " and ".join([*of_replays, *unfinished])


def _verdict_line(verdict: Verdict) -> str:
    if verdict.fault is None:
        tools = f", {say_count(verdict.tools, 'tool call')}" if verdict.tools else ""
        note = f" ({verdict.note})" if verdict.note else ""
        return f"ok     {verdict.path}: {say_count(verdict.exchanges, 'exchange')}{tools}{note}"
    place = f"{verdict.path}:{verdict.line}" if verdict.line else str(verdict.path)
    return f"fault  {place}: {verdict.fault}" + (f"\n       {verdict.remedy}" if verdict.remedy else "")


def _verdict_as_json(verdict: Verdict) -> dict[str, Any]:
    return {
        "path": str(verdict.path),
        "ok": verdict.fault is None,
        "exchanges": verdict.exchanges,
        "tools": verdict.tools,
        "fault": verdict.fault,
        "line": verdict.line,
        "remedy": verdict.remedy or None,
        "note": verdict.note or None,
    }


def _stats_lines(stats: Stats) -> Iterable[str]:
    yield f"cassettes   {stats.cassettes}"
    yield f"exchanges   {stats.exchanges}"
    if stats.tools:
        yield f"tool calls  {stats.tools}"
    yield f"size        {stats.bytes:,} bytes"
    yield f"messages    {stats.messages} kept once, sent {say_count(stats.references, 'time')}"
    if stats.oldest:
        yield f"recorded    {stats.oldest} to {stats.newest}"
    for name, count in sorted(stats.calls.items()):
        tokens = "" if name == "http" else f", {_tokens_of(name, stats)}"
        yield f"  {name}: {say_count(count, 'call')}{tokens}"


def _tokens_of(name: str, stats: Stats) -> str:
    """Return the tokens of a model's calls, and how many calls they leave out: sums of what answers say alone."""
    unknown = stats.without_tokens[name]
    if unknown == stats.calls[name]:
        return "tokens unknown"
    known = f"{stats.input_tokens[name]:,} tokens in, {stats.output_tokens[name]:,} out"
    return known + (f", unknown for {say_count(unknown, 'call')}" if unknown else "")


def _stats_as_json(stats: Stats) -> dict[str, Any]:
    return {
        "cassettes": stats.cassettes,
        "exchanges": stats.exchanges,
        "tools": stats.tools,
        "bytes": stats.bytes,
        "messages": stats.messages,
        "references": stats.references,
        "outcomes": dict(stats.outcomes),
        "oldest": stats.oldest,
        "newest": stats.newest,
        "calls": {name: _calls_as_json(name, stats) for name in sorted(stats.calls)},
    }


def _calls_as_json(name: str, stats: Stats) -> dict[str, int | None]:
    """Return the calls of one model; tokens are ``None`` where no answer names them."""
    count, unknown = stats.calls[name], stats.without_tokens[name]
    is_known = unknown < count
    return {
        "count": count,
        "input_tokens": stats.input_tokens[name] if is_known else None,
        "output_tokens": stats.output_tokens[name] if is_known else None,
        "without_tokens": unknown,
    }


def _plan_lines(plan: Plan, *, dry_run: bool) -> Iterable[str]:
    verb = "would remove" if dry_run else "removed"
    for path in plan.unused:
        yield f"{verb} {path}: no test asked for it"
    for path, positions in plan.unplayed.items():
        shown = ", ".join(str(position + 1) for position in positions)
        yield f"{verb} from {path}: {'step' if len(positions) == 1 else 'steps'} {shown}, not played"
    for path in plan.partials:
        yield f"kept {path}: an unfinished recording holds answers that were paid for"
    for path in plan.shared:
        yield f"kept {path}: tests that did not run may play the steps that are left; run all that share it"
    for path in plan.replays:
        yield f"kept {path}: a run that replayed a cassette wrote it; delete it yourself if you need it no more"
    if not plan.unused and not plan.unplayed:
        yield "nothing to prune"


def _print(line: str) -> None:
    sys.stdout.write(line + "\n")


def _print_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, indent=2) + "\n")
