"""The page about clients says what this suite says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contracts.clients.drivers import DRIVERS
from tests.contracts.clients.features import BEGIN, END, FEATURES, all_passed, render_table

PAGE = Path(__file__).resolve().parents[3] / "docs" / "clients.md"


@pytest.mark.skipif(not PAGE.exists(), reason="the tests are run outside the checkout, without its pages")
def test_the_table_of_the_page_is_that_of_a_run_in_which_every_test_passed(pytestconfig: pytest.Config) -> None:
    if pytestconfig.getoption("--clients-table", default=None):
        pytest.skip("the table is being written in this run")
    table = PAGE.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0].strip()

    assert table == render_table(all_passed())


def test_a_client_lacks_only_features_that_there_are() -> None:
    assert {feature for driver in DRIVERS.values() for feature in driver.cannot} <= set(FEATURES)


def test_a_cell_without_a_test_or_with_a_failing_one_shows() -> None:
    table = render_table({("httpx", "bodies"): False})

    assert "| **httpx** | **fails** | untested |" in table
