"""Contract of the `Log` port: concurrent writers have exactly one winner."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from chalicelib.domain.errors import Conflict
from chalicelib.domain.log.commit import Commit
from chalicelib.services.ports import Log
from tests.builders import a_commit, a_run

RACERS = 4
RACES = 25
RACE_TIMEOUT_S = 30.0


@pytest.fixture(params=["sqlite", "ministack", "boto3", "dynamodb_local", "localstack"])
def shared_log(request: pytest.FixtureRequest) -> Log:
    """Each store that threads can share, empty. Moto cannot be shared."""
    log_under_test: Log = request.getfixturevalue(f"{request.param}_log")
    return log_under_test


def test_race_for_session_has_one_winner(shared_log: Log) -> None:
    def attempt(racer: int, race: int) -> None:
        shared_log.append([a_commit(session=race, request_id=f"racer {racer}")])

    winners = race(attempt)
    assert list(shared_log.read(1, 0)) == [
        a_commit(session=n, request_id=f"racer {winner}") for n, winner in enumerate(winners, start=1)
    ]


def test_race_of_groups_has_one_complete_winner(shared_log: Log) -> None:
    def group(racer: int, race: int) -> list[Commit]:
        return a_run(f"racer {racer}.1", f"racer {racer}.2", session=2 * race - 1)

    winners = race(lambda racer, number: shared_log.append(group(racer, number)))
    assert list(shared_log.read(1, 0)) == [
        commit for n, winner in enumerate(winners, start=1) for commit in group(winner, n)
    ]


def race(attempt: Callable[[int, int], None]) -> list[int]:
    """Let all racers run each race at the same moment. Returns the winners, after checking that each race has one."""
    start = threading.Barrier(RACERS, timeout=RACE_TIMEOUT_S)

    def run(racer: int) -> list[int]:
        won = []
        for number in range(1, RACES + 1):
            start.wait()
            try:
                attempt(racer, number)
            except Conflict:
                continue
            won.append(number)
        return won

    with ThreadPoolExecutor(RACERS) as pool:
        won = list(pool.map(run, range(RACERS)))
    assert sorted(number for numbers in won for number in numbers) == list(range(1, RACES + 1))
    return [next(racer for racer in range(RACERS) if number in won[racer]) for number in range(1, RACES + 1)]
