"""A pytest of its own, in a process of its own, as a user of the plugin runs it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

INNER = Path(__file__).parent / "inner"
# Plugins that no inner test uses and that would cost start-up time, warn, or take patches of sockets back.
_LEFT_OUT = (
    "asyncio",
    "cacheprovider",
    "hypothesispytest",
    "langsmith_plugin",
    "pytest_httpx",
    "rerunfailures",
    "socket",
    "xdist",
)
INI = f"""\
[pytest]
addopts = --import-mode=importlib {" ".join(f"-p no:{name}" for name in _LEFT_OUT)}
filterwarnings =
    error
    ignore::DeprecationWarning
"""


@dataclass(frozen=True)
class Finished:
    """A run that is over: its exit code and what it printed."""

    code: int
    text: str


def lay_out(folder: Path, modules: Mapping[str, str]) -> Path:
    """Copy modules of ``inner`` into ``folder``, each under a name of its own there, beside an ini file."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pytest.ini").write_text(INI)
    for name, source in modules.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(INNER / source, folder / name)
    return folder


def run_pytest(folder: Path, *arguments: str, **environment: str) -> Finished:
    """Run pytest in ``folder`` and wait for it."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    finished = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *arguments],
        cwd=folder,
        env=inherited | {"PYTHONDONTWRITEBYTECODE": "1"} | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
    )
    return Finished(code=finished.returncode, text=finished.stdout)
