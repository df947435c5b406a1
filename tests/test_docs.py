from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import get_args

import pytest

import pytest_agentreplay
from pytest_agentreplay.records import Step
from pytest_agentreplay.settings import CHOICES
from tests.support.suite import INI

ROOT = Path(__file__).resolve().parents[1]
_QUICK = ("-p", "no:hypothesispytest", "-p", "no:langsmith_plugin", "-p", "no:xdist")
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("examples/*/*.md")])
README = (ROOT / "README.md").read_text(encoding="utf-8")
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def first_cells(markdown: str) -> set[str]:
    """Return the names in backticks in the tables of a page."""
    rows = [line for line in markdown.splitlines() if line.startswith("|")]
    return {name for row in rows for name in re.findall(r"`([\w.\-]+)", row)}


def anchors(page: Path) -> set[str]:
    """Return what GitHub calls the headings of a page in links."""
    prose = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", prose, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_each_link_of_a_page_leads_to_a_file_and_to_a_heading_in_it(page: Path) -> None:
    links = re.findall(r"\]\((?!https?://)([^)#]*)#?([^)]*)\)", page.read_text(encoding="utf-8"))
    targets = [(page.parent / file if file else page, anchor) for file, anchor in links]

    missing = [target for target, _ in targets if not target.exists()]
    astray = [(target, anchor) for target, anchor in targets if anchor and anchor not in anchors(target)]

    assert missing == []
    assert astray == []


def test_the_floors_that_contributors_read_are_those_of_the_contract() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    whole, *_ = project["tool"]["importlinter"]["contracts"]

    [told] = re.findall(r"^```text\n(.*?)^```$", CONTRIBUTING, flags=re.MULTILINE | re.DOTALL)

    assert told.splitlines() == whole["layers"]


def test_contributors_are_told_of_each_folder_of_tests_and_each_script() -> None:
    folders = {path.parent.name for path in (ROOT / "tests").glob("*/*.py")}
    scripts = {path.name for path in (ROOT / "scripts").iterdir() if not path.name.startswith("_")}

    assert set(re.findall(r"^\| `tests/(\w+)/` \|", CONTRIBUTING, flags=re.MULTILINE)) == folders
    assert set(re.findall(r"^\| `scripts/([\w-]+)", CONTRIBUTING, flags=re.MULTILINE)) == scripts


def test_the_architecture_page_names_each_module() -> None:
    package = Path(pytest_agentreplay.__file__).parent
    modules = {path.stem for path in package.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}

    named = first_cells(ARCHITECTURE)

    assert modules - named == {"__init__"}


def test_the_cassette_that_the_architecture_page_shows_is_the_quickstarts() -> None:
    [shown] = re.findall(r'^```\n(\{"kind":"run.start".*?)^```$', ARCHITECTURE, flags=re.MULTILINE | re.DOTALL)
    lines = re.sub(r"\n  +", "", shown).splitlines()
    [path] = ROOT.glob("examples/quickstart/cassettes/*/*.jsonl")
    cassette = path.read_text(encoding="utf-8").splitlines()

    for line in filter("…".__ne__, lines):
        parts = "".join(f".*{re.escape(part)}" for part in line.split("…"))
        while not re.fullmatch(parts, cassette[0] if cassette else pytest.fail(f"not in the cassette: {line}")):
            cassette.pop(0)


def test_the_architecture_page_names_each_kind_of_step() -> None:
    kinds = {kind.model_fields["kind"].default for kind in get_args(get_args(Step)[0])}

    [told] = re.findall(r"^\* \*\*Kinds\.\*\*(.*?)^\* ", ARCHITECTURE, flags=re.MULTILINE | re.DOTALL)

    assert set(re.findall(r"`([\w.]+)`", told)) == kinds


@pytest.fixture
def help_text(pytester: pytest.Pytester) -> str:
    """What pytest says of our options and settings."""
    pytester.makeini(INI)
    return " ".join(pytester.runpytest_inprocess(*_QUICK, "--help").stdout.str().split())


def test_the_readme_names_each_setting_and_what_it_may_be(pytester: pytest.Pytester, help_text: str) -> None:
    pytester.makepyfile("import pytest\n@pytest.mark.agent_cassette(nonsense=1)\ndef test_it():\n    pass\n")
    refusal = pytester.runpytest_inprocess(*_QUICK)
    [arguments] = re.findall(r"unknown argument nonsense; known are (.*)", refusal.stdout.str() + refusal.stderr.str())
    settings = set(re.findall(r" (agent_\w+) \(", help_text))
    choices = {choice for choices in CHOICES.values() for choice in choices}

    named = first_cells(README)

    assert len(settings) > 10
    assert (settings | set(arguments.split(", ")) | choices) - named == set()


@pytest.mark.parametrize("setting", ["record_mode", "replay", "unplayed"])
def test_the_help_of_an_ini_setting_says_what_it_may_be(setting: str, help_text: str) -> None:
    [told] = re.findall(rf" agent_{setting} \(string\): (.*?) agent_\w+ \(", help_text)

    assert [choice for choice in CHOICES[setting] if not re.search(rf"[:,r] {choice}\b", told)] == []


def test_each_lesson_names_a_report_and_a_test_that_is_there() -> None:
    page = (ROOT / "docs" / "lessons.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| [")]
    reports = re.findall(r"https://github\.com/(?:kevin1024/vcrpy|kiwicom/pytest-recording)/issues/\d+", page)
    tests = re.findall(r"`(\S+\.py)::(test_\w+)` \|$", page, re.MULTILINE)

    absent = [(file, name) for file, name in tests if f"def {name}(" not in (ROOT / "tests" / file).read_text("utf-8")]

    assert absent == []
    assert len(rows) == len(set(reports)) == len(tests) >= 20
