from __future__ import annotations

import re
from pathlib import Path

import pytest

import pytest_agentreplay
from pytest_agentreplay.plugin import options
from pytest_agentreplay.settings import CHOICES

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("examples/*/*.md")])
README = (ROOT / "README.md").read_text(encoding="utf-8")


def first_cells(markdown: str) -> set[str]:
    """Return the names in backticks in the tables of a page."""
    rows = [line for line in markdown.splitlines() if line.startswith("|")]
    return {name for row in rows for name in re.findall(r"`([\w.\-]+)", row)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_each_link_of_a_page_leads_to_a_file(page: Path) -> None:
    links = re.findall(r"\]\((?!https?://)([^)#]+)", page.read_text(encoding="utf-8"))

    missing = [link for link in links if not (page.parent / link).exists()]

    assert missing == []


def test_the_architecture_page_names_each_module() -> None:
    package = Path(pytest_agentreplay.__file__).parent
    modules = {path.stem for path in package.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}

    named = first_cells((ROOT / "docs" / "architecture.md").read_text(encoding="utf-8"))

    assert modules - named == {"__init__"}


def test_the_readme_names_each_setting_and_what_it_may_be() -> None:
    settings = {name for name, _, _, _ in options._INI}
    arguments = options._MARKER_SETTINGS | {"name", "pin"}
    choices = {choice for choices in CHOICES.values() for choice in choices}

    named = first_cells(README)

    assert (settings | arguments | choices) - named == set()


def test_the_help_of_each_ini_setting_says_what_it_may_be() -> None:
    closed = [(choice, text) for _, setting, _, text in options._INI for choice in CHOICES.get(setting, ())]

    assert len(closed) == len([*CHOICES["record_mode"], *CHOICES["replay"], *CHOICES["unplayed"]])
    assert [choice for choice, text in closed if not re.search(rf"[:,r] {choice}\b", text)] == []


def test_each_lesson_names_a_report_and_a_test_that_is_there() -> None:
    page = (ROOT / "docs" / "lessons.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| [")]
    reports = re.findall(r"https://github\.com/(?:kevin1024/vcrpy|kiwicom/pytest-recording)/issues/\d+", page)
    tests = re.findall(r"`(\S+\.py)::(test_\w+)` \|$", page, re.MULTILINE)

    absent = [(file, name) for file, name in tests if f"def {name}(" not in (ROOT / "tests" / file).read_text("utf-8")]

    assert absent == []
    assert len(rows) == len(set(reports)) == len(tests) >= 20
