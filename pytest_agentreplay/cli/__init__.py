"""The command line ``agentreplay``: parse, call one library function, print.

Exit codes: 0 fine, 2 a command that cannot be meant or input that cannot be read, said in one line on stderr.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from pytest_agentreplay import __version__
from pytest_agentreplay.errors import AgentReplayError

__all__ = ["main"]

_UNUSABLE = 2
# click's, which typer carries under a name of its own in some versions and not in others
_UsageError: type[Exception] = typer.BadParameter.__bases__[0]

_app = typer.Typer(
    help="Look into recorded agent runs.", add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None
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
        return _fail(f"{error.format_message()}\nsee agentreplay --help")  # type: ignore[attr-defined]
    except AgentReplayError as error:
        return _fail(str(error))
    return int(status or 0)


def _fail(message: str) -> int:
    typer.echo("agentreplay: " + "; ".join(line.strip(" .") for line in message.splitlines()), err=True)
    return _UNUSABLE


def _print_version(wanted: bool) -> None:  # noqa: FBT001 - typer's form of a callback
    if wanted:
        typer.echo(f"pytest-agent-cassette {__version__}")
        raise typer.Exit


@_app.callback()
def _agentreplay(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


@_app.command()
def show(
    cassette: Annotated[Path, typer.Argument(metavar="CASSETTE", help="A cassette, finished or partial.")],
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Print what happened in a recorded run, step by step."""
    from pytest_agentreplay.cassette import load_cassette
    from pytest_agentreplay.cli.show import show_json, show_text
    from pytest_agentreplay.dialects import load_dialects

    tape = load_cassette(cassette, partial=cassette.name.endswith(".partial.jsonl"))
    (show_json if as_json else show_text)(tape, load_dialects())
