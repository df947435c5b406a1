"""Many threads: each gets its own answer, and none of them gets out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import pytest

from tests.contracts.clients.conftest import Case
from tests.contracts.clients.drivers import Ask, Driver
from tests.contracts.clients.features import every_client
from tests.support.server import Answer, Seen
from tests.support.taps import lines_of

T = TypeVar("T")
THREADS = 8


def in_threads(act: Callable[[int], T], numbers: Iterable[int]) -> list[T]:
    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(act, numbers))


def numbered(seen: Seen) -> Answer:
    return Answer(headers=(("content-type", "text/plain"),), body=f"answer {seen.json()['number']}".encode())


def ask(case: Case, number: int) -> Ask:
    return Ask(case.url, "POST", json={"number": number})


@every_client("threads")
def test_64_requests_in_8_threads_are_all_recorded_and_each_gets_its_answer(driver: Driver, case: Case) -> None:
    case.answer(numbered)

    live = case.record(lambda: in_threads(lambda number: driver.ask(ask(case, number))[0].body, range(64)))
    replayed = case.replay(lambda: in_threads(lambda number: driver.ask(ask(case, number))[0].body, range(63, -1, -1)))

    assert live == [f"answer {number}".encode() for number in range(64)]
    assert replayed == live[::-1]
    assert len(lines_of(case.path)) == 64


def replay_many(driver: Driver, case: Case, *, each: int) -> None:
    """Ask so many requests of each thread in replay; the case counts what reaches the server, the guard stops it."""
    case.answer(numbered)
    case.record(lambda: driver.ask(*(ask(case, number) for number in range(10))))
    asks = [ask(case, number % 10) for number in range(each)]

    bodies = case.replay(
        lambda: in_threads(lambda _: [got.body for got in driver.ask(*asks)], range(THREADS)), allow_repeats=True
    )

    assert bodies == [[f"answer {number % 10}".encode() for number in range(each)]] * THREADS


@every_client("threads")
def test_many_requests_in_8_threads_make_no_connection_in_replay(driver: Driver, case: Case) -> None:
    replay_many(driver, case, each=40)


@pytest.mark.slow
@every_client("threads")
def test_10000_requests_in_8_threads_make_no_connection_in_replay(driver: Driver, case: Case) -> None:
    replay_many(driver, case, each=1250)
