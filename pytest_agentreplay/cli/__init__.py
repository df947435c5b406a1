"""The command line ``agentreplay``: parse, call one library function, print.

What the exit codes say stands in :class:`pytest_agentreplay.cli.exit_codes.ExitCode`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from pytest_agentreplay import __version__
from pytest_agentreplay.cli.exit_codes import ExitCode
from pytest_agentreplay.errors import AgentReplayError

__all__ = ["main"]

# click's, which typer carries under a name of its own in some versions and not in others
_UsageError: type[Exception] = typer.BadParameter.__bases__[0]

_app = typer.Typer(
    help="Look into recorded agent runs.",
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command, by default that of ``sys.argv``; return the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a terminal may know fewer characters than a cassette
            stream.reconfigure(errors="backslashreplace")
    try:
        status = _app(args=arguments, prog_name="agentreplay", standalone_mode=False)
        sys.stdout.flush()
    except _UsageError as error:
        return _fail(f"{error.format_message()}\nSee {_command_of(error)} --help")  # type: ignore[attr-defined]
    except AgentReplayError as error:
        return _fail(str(error))
    return int(status or ExitCode.FINE)


def _command_of(error: Exception) -> str:
    """Return the command whose arguments an error of usage is about."""
    context = getattr(error, "ctx", None)
    return "agentreplay" if context is None else str(context.command_path)


def _fail(message: str) -> int:
    said = [line.strip().removesuffix(".") for line in message.splitlines()]
    sentences = [line if line.endswith(("?", "!", ":")) else f"{line}." for line in said[:-1]]
    typer.echo(" ".join(["agentreplay:", *sentences, *said[-1:]]), err=True)
    return ExitCode.UNUSABLE


def _print_version(wanted: bool) -> None:  # noqa: FBT001 - typer's form of a callback
    if wanted:
        typer.echo(f"pytest-agent-cassette {__version__}")
        raise typer.Exit


@_app.callback(invoke_without_command=True)
def _agentreplay(
    context: typer.Context,
    *,
    version: Annotated[  # noqa: ARG001 - its callback is called
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


_Tape = Annotated[
    str,
    typer.Argument(metavar="TAPE", help="A cassette's path, a test's node id, or REV:path for a file as git has it."),
]
_AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


@_app.command()
def show(
    tape: _Tape,
    *,
    as_json: _AsJson = False,
    textconv: Annotated[
        bool, typer.Option("--textconv", help="Leave out what every recording changes, for git diff.")
    ] = False,
) -> None:
    """Print what happened in a recorded run, step by step."""
    from pytest_agentreplay.cli.show import show_json, show_lasting, show_text
    from pytest_agentreplay.cli.tapes import load_tape, print_as_it_is
    from pytest_agentreplay.dialects import load_dialects
    from pytest_agentreplay.errors import CassetteError

    try:
        loaded = load_tape(tape)
    except CassetteError:
        if not textconv:
            raise
        print_as_it_is(tape)  # git would give up the whole diff for one file with conflict markers
        return
    (show_json if as_json else show_lasting if textconv else show_text)(loaded, load_dialects())


@_app.command()
def events(
    tape: _Tape,
    *,
    times: Annotated[bool, typer.Option("--times", help="Add when each step began and how long it took.")] = False,
    costs: Annotated[bool, typer.Option("--costs", help="Add the tokens, and dollars where known, of turns.")] = False,
    hashes: Annotated[bool, typer.Option("--hashes", help="Add the hash of each request and tool call.")] = False,
    as_json: _AsJson = False,
) -> None:
    """Print the event stream of a recorded run, as its golden has it."""
    from pytest_agentreplay.cli.projections import print_events
    from pytest_agentreplay.cli.tapes import load_tape

    print_events(load_tape(tape), as_json=as_json, times=times, costs=costs, hashes=hashes)


@_app.command()
def mermaid(
    tape: _Tape,
    *,
    style: Annotated[str, typer.Option(help="flowchart, or sequence for which agent called which.")] = "flowchart",
    as_json: _AsJson = False,
) -> None:
    """Print the diagram of a recorded run, as its golden has it."""
    from pytest_agentreplay.cli.projections import print_mermaid
    from pytest_agentreplay.cli.tapes import load_tape

    print_mermaid(load_tape(tape), as_json=as_json, style=style)


_To = Annotated[Path | None, typer.Option("--to", help="Where the new tape goes; by default NAME.replay.jsonl.")]


@_app.command()
def replay(
    target: Annotated[str, typer.Argument(metavar="MODULE:FUNCTION", help="Builds the agent from the tape's plan.")],
    tape: _Tape,
    *,
    to: _To = None,
    as_json: _AsJson = False,
) -> int:
    """Run an agent against a tape, offline.

    The first difference ends it with a report and exit code 1.
    """
    from pytest_agentreplay.cli.drive import drive_replay

    return drive_replay(target, tape, to=to, as_json=as_json)


@_app.command()
def resume(
    target: Annotated[str, typer.Argument(metavar="MODULE:FUNCTION", help="Runs the agent from its start.")],
    tape: _Tape,
    *,
    allow_restart: Annotated[
        bool, typer.Option("--allow-restart", help="Begin anew, live, where the first request already differs.")
    ] = False,
    to: _To = None,
    as_json: _AsJson = False,
) -> int:
    """Go on with a run that was cut short.

    It is free as far as its tape goes, and live from there.
    """
    from pytest_agentreplay.cli.drive import drive_resume

    return drive_resume(target, tape, to=to, allow_restart=allow_restart, as_json=as_json)


_Places = Annotated[list[str], typer.Argument(metavar="PATH", help="Cassettes, folders of them, or globs.")]


@_app.command()
def verify(paths: _Places, *, as_json: _AsJson = False) -> int:
    """Derive all in cassettes again, and name what does not fit.

    The exit code is 1 when something does not.
    """
    from pytest_agentreplay.cli.upkeep import verify_places

    return verify_places(paths, as_json=as_json)


@_app.command()
def stats(paths: _Places, *, as_json: _AsJson = False) -> int:
    """Print what cassettes hold: exchanges, models, tokens, size."""
    from pytest_agentreplay.cli.upkeep import show_stats

    return show_stats(paths, as_json=as_json)


@_app.command()
def prune(
    tests: Annotated[
        list[str] | None, typer.Argument(metavar="TEST", help="What to run, as for pytest; by default the suite.")
    ] = None,
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be removed.")] = False,
    as_json: _AsJson = False,
) -> int:
    """Run the suite offline, and remove what no test asks for.

    That is whole cassettes, and steps of others; the exit code is 1 when there are any.
    """
    from pytest_agentreplay.cli.upkeep import prune_suite

    return prune_suite(tests or [], dry_run=dry_run, as_json=as_json)
