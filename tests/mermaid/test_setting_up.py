"""What scripts/test does about node before it runs the tests: install its packages once, or say what is missing."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]

FAKE_NPM = """\
#!/bin/sh
echo "$PWD: npm $*" >>"$CALLS"
/bin/mkdir -p node_modules
"""

OLD_NODE = """\
#!/bin/sh
[ "$1" = --version ] && echo v16.20.2 && exit
exit 1
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project that holds no more than what the script reads, and an empty folder of programs."""
    for name in ("scripts/_node", "tests/mermaid/package.json", "tests/mermaid/package-lock.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(PROJECT / name, tmp_path / name)
    (tmp_path / "bin").mkdir()
    return tmp_path


def add_program(project: Path, name: str, text: str) -> None:
    (project / "bin" / name).write_text(text)
    (project / "bin" / name).chmod(0o755)


def set_up_node(project: Path) -> subprocess.CompletedProcess[str]:
    bash = shutil.which("bash")
    assert bash is not None
    return subprocess.run(
        [bash, "-c", "set -euo pipefail; source scripts/_node; set_up_node"],
        cwd=project,
        env={"PATH": str(project / "bin"), "CALLS": str(project / "calls")},
        capture_output=True,
        text=True,
    )


def with_node(project: Path) -> None:
    node = shutil.which("node")
    assert node is not None
    (project / "bin" / "node").symlink_to(node)
    add_program(project, "npm", FAKE_NPM)


def test_packages_are_installed_once(project: Path) -> None:
    with_node(project)

    first, second = set_up_node(project), set_up_node(project)

    assert (first.returncode, second.returncode) == (0, 0)
    assert first.stderr.startswith("setting up tests/mermaid/node_modules ")
    assert second.stderr == ""
    assert (project / "calls").read_text().splitlines() == [
        f"{project / 'tests/mermaid'}: npm ci --ignore-scripts --no-audit --no-fund --loglevel=error"
    ]


def test_packages_are_installed_again_after_the_lock_has_changed(project: Path) -> None:
    with_node(project)
    set_up_node(project)
    (project / "tests/mermaid/package-lock.json").write_text("{}")

    set_up_node(project)

    assert len((project / "calls").read_text().splitlines()) == 2


def test_packages_that_were_not_installed_are_an_error_and_tried_again(project: Path) -> None:
    with_node(project)
    add_program(project, "npm", FAKE_NPM + "exit 7\n")

    first, second = set_up_node(project), set_up_node(project)

    assert (first.returncode, second.returncode) == (7, 7)
    assert len((project / "calls").read_text().splitlines()) == 2


def test_a_missing_node_is_an_error_of_one_line(project: Path) -> None:
    ran = set_up_node(project)

    assert ran.returncode == 1
    assert ran.stderr.count("\n") == 1
    assert ran.stderr.startswith("error: no Node.js >= 18 with npm found")
    assert "node is missing, npm is missing;" in ran.stderr


def test_an_old_node_is_an_error_that_names_its_version(project: Path) -> None:
    add_program(project, "node", OLD_NODE)

    ran = set_up_node(project)

    assert ran.returncode == 1
    assert "node is v16.20.2, npm is missing;" in ran.stderr


def test_the_lock_says_what_to_install_and_not_where_from() -> None:
    lock = (PROJECT / "tests/mermaid/package-lock.json").read_text()

    assert '"integrity"' in lock
    assert '"resolved"' not in lock
