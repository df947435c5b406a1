"""What the plugin costs a suite that does not use it.

The suite is one unmarked test.  It runs in child processes with plugin autoloading off, so that only what is named on
the command line loads: an empty plugin (plain pytest), ours, and syrupy, one after the other in each round.  An empty
plugin makes pytest read the metadata of every installed distribution, as it does anyway where autoloading is on; so
what is left between two contenders is the plugin itself.  Bytecode is cached, as on any machine but a fresh one.

The first rows are wall time.  ``own share`` is the median, over the rounds, of the difference to plain pytest in the
same round, in processor time, which does not count what else the machine is doing.  ``import`` is what Python's
``-X importtime`` says of our plugin, pytest being imported.  ``heavy modules`` counts which of pydantic, vcr, freezegun
and syrupy are loaded at the end of the session that has our plugin.

Reach: own share <= 10 ms, no heavy module.
"""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from _harness import Row, measure, median, print_rows, read_arguments

_PLAIN, _OURS, _SYRUPY = "plain pytest", "pytest + ours", "pytest + syrupy"
_PLUGINS = {_PLAIN: "an_empty_plugin", _OURS: "agent_cassette", _SYRUPY: "syrupy"}
_HEAVY = ("freezegun", "pydantic", "syrupy", "vcr")
# What would change what a child does or how fast it starts.
_NOT_INHERITED = (
    "PYTHONDONTWRITEBYTECODE",
    "PYTEST_ADDOPTS",
    "PYTEST_PLUGINS",
    "PYTHONPROFILEIMPORTTIME",
    "PYTHONHOME",
)
_IMPORT_LINE = re.compile(r"import time:\s+\d+ \|\s+(\d+) \| (\S+)")
_LIST_MODULES = "import sys, pytest; status = pytest.main(sys.argv[1:]); print(*sys.modules); sys.exit(status)"


class Suite:
    """One unmarked test in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "pytest.ini").write_text("[pytest]\n")
        (folder / "test_nothing.py").write_text("def test_nothing():\n    pass\n")
        (folder / f"{_PLUGINS[_PLAIN]}.py").write_text("")
        kept = {name: value for name, value in os.environ.items() if name not in _NOT_INHERITED}
        self._environment = kept | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(folder)}

    def wall_time(self, plugin: str) -> float:
        """Return the milliseconds that a run takes, from start to end of its process."""
        started = time.perf_counter()
        self._run("-m", "pytest", *self._options(plugin))
        return (time.perf_counter() - started) * 1e3

    def processor_time(self, plugin: str) -> float:
        """Return the milliseconds that a run keeps a processor busy."""
        before = _children_busy()
        self._run("-m", "pytest", *self._options(plugin))
        return (_children_busy() - before) * 1e3

    def heavy_modules(self, plugin: str) -> list[str]:
        """Return which heavy modules a run has loaded at its end."""
        loaded = self._run("-c", _LIST_MODULES, *self._options(plugin)).stdout.splitlines()[-1].split()
        return [name for name in _HEAVY if name in loaded]

    def import_time(self) -> float:
        """Return the milliseconds that importing our plugin takes."""
        report = self._run("-X", "importtime", "-c", "import pytest, pytest_agentreplay.plugin").stderr
        outermost = _IMPORT_LINE.findall(report)  # only these have one blank before the name
        return sum(int(took) for took, name in outermost if name.startswith("pytest_agentreplay")) / 1e3

    def _options(self, plugin: str) -> Sequence[str]:
        return ("-q", "-p", "no:cacheprovider", "-p", plugin)

    def _run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=self._folder,
            env=self._environment,
            check=True,
            capture_output=True,
            text=True,
        )


def compare(suite: Suite, *, rounds: int) -> list[Row]:
    """Run the suite with each contender, and return the rows."""
    heavy = suite.heavy_modules(_PLUGINS[_OURS])
    for plugin in _PLUGINS.values():
        suite.wall_time(plugin)  # writes the bytecode
    wall = _samples(suite.wall_time, rounds=rounds)
    busy = _samples(suite.processor_time, rounds=rounds)
    plain = median(wall[_PLAIN])
    return [
        Row(_PLAIN, rounds, plain, "ms"),
        *(Row(name, rounds, median(wall[name]), "ms", plain) for name in (_OURS, _SYRUPY)),
        Row("own share, ours", rounds, _share(busy, _OURS), "ms", reach=10),
        Row("own share, syrupy", rounds, _share(busy, _SYRUPY), "ms"),
        Row("import, ours", rounds, median(suite.import_time() for _ in range(rounds)), "ms"),
        Row(" ".join(["heavy modules, ours", *heavy]), 1, len(heavy), "modules", reach=0),
    ]


def _samples(measured: Callable[[str], float], *, rounds: int) -> dict[str, list[float]]:
    return measure({name: partial(measured, plugin) for name, plugin in _PLUGINS.items()}, rounds=rounds)


def _share(samples: Mapping[str, Sequence[float]], name: str) -> float:
    return median(found - plain for found, plain in zip(samples[name], samples[_PLAIN], strict=True))


def _children_busy() -> float:
    """Return the seconds of processor time of all children that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    arguments = read_arguments(__doc__, rounds=15)
    with tempfile.TemporaryDirectory() as folder:
        rows = compare(Suite(Path(folder)), rounds=arguments.rounds)
    print_rows(rows, as_json=arguments.json)


if __name__ == "__main__":
    main()
