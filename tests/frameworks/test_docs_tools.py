"""The samples of the page about tools: each runs, recorded and replayed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.suite import Provider, Suite

FRAMEWORK = ("langgraph.prebuilt",)
PAGE = (Path(__file__).resolve().parents[2] / "docs" / "tools.md").read_text(encoding="utf-8")


def samples() -> Iterator[tuple[str, str]]:
    """Yield the Python blocks of the page, each with the name of its file: the one it gives itself, or a test's."""
    for number, block in enumerate(re.findall(r"^```python\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)):
        named = re.match(r"# (\w+)\.py\n", block)
        yield (named.group(1) if named else f"test_sample_{number}"), block


def test_every_sample_passes_recorded_and_replayed(suite: Suite, provider: Provider) -> None:
    files = dict(samples())
    suite.pytester.makepyfile(**files)
    tests = len(re.findall(r"^def test_", PAGE, flags=re.MULTILINE))

    recorded = suite.record()
    provider.stop()
    replayed = suite.run()

    assert [name for name in files if not name.startswith("test_")] == ["shop"]
    recorded.assert_outcomes(passed=tests)
    replayed.assert_outcomes(passed=tests)


@pytest.mark.parametrize("name", ["recorded_tool", "wrap", "lane", "use_policy", "compaction", "tool_calls"])
def test_the_page_tells_of_each_way_in(name: str) -> None:
    assert name in PAGE
