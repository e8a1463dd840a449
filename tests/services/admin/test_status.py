"""The system: where a log stands and how far its consumers are, on every store."""

from collections.abc import Callable

import pytest

from chalicelib.domain.events.head import Head
from chalicelib.domain.views.record import PROJECT
from chalicelib.services.admin.status import Consumers, Follower, Standing, standing
from chalicelib.services.consumers.consumer import Consumer, run
from chalicelib.services.notifications.matching import OBSERVE
from chalicelib.services.ports import Log, Views
from chalicelib.services.reading.retention import Retention
from tests.exactness.stores import WatchedLog
from tests.services.worlds import NOW, NOW_MS, World, append

Stores = tuple[Log, Views]


@pytest.fixture(params=["sqlite", "moto"])
def stores(request: pytest.FixtureRequest) -> Stores:
    return request.getfixturevalue(f"{request.param}_log"), request.getfixturevalue(f"{request.param}_views")


@pytest.fixture
def fill(stores: Stores, world: World) -> Callable[[int], None]:
    """Append commits of two events, one each second."""
    appender = world.appender(stores[0])

    def filled(commits: int) -> None:
        for number in range(commits):
            appender.append(append("/1", "/2", request_id=f"r{number}"))
            world.now_ms += 1_000

    return filled


def consume(name: str, stores: Stores, commits: int) -> None:
    log, views = stores
    run(Consumer(name, lambda _checkpoint, _commits: None), 1, log, views, commits)


def seen(stores: Stores, world: World, events: int | None = None) -> Standing:
    log, views = stores
    forgotten = Retention(log, world.clock, events=events).forgotten(1)
    return standing(1, log, Consumers(views, views), forgotten, world.clock)


def test_in_an_empty_log_nobody_is_behind(stores: Stores, world: World) -> None:
    followers = (Follower("project", Head(1), 0, 0.0), Follower("observe", Head(1), 0, 0.0))
    assert seen(stores, world) == Standing(Head(1), None, followers)


def test_a_consumer_is_as_late_as_the_first_commit_that_it_has_not_handled(
    stores: Stores, world: World, fill: Callable[[int], None]
) -> None:
    fill(3)
    consume(PROJECT, stores, 3)
    consume(OBSERVE, stores, 1)
    world.now_ms += 500
    last, first = NOW + 2_000_001, NOW + 1
    assert seen(stores, world) == Standing(
        Head(1, 3, 2, last),
        NOW,
        (Follower("project", Head(1, 3, 2, last), 0, 0.0), Follower("observe", Head(1, 1, 2, first), 2, 2.5)),
    )


def test_a_clock_that_went_back_makes_nobody_early(stores: Stores, world: World, fill: Callable[[int], None]) -> None:
    fill(1)
    world.now_ms = NOW_MS - 1_000
    assert [one.lag_s for one in seen(stores, world).followers] == [0.0, 0.0]


def test_the_first_that_is_kept_may_be_amid_a_commit(stores: Stores, world: World, fill: Callable[[int], None]) -> None:
    fill(3)
    kept = {events: seen(stores, world, events).first_kept for events in (1, 3, 4, 6)}
    assert kept == {1: NOW + 2_000_001, 3: NOW + 1_000_001, 4: NOW + 1_000_000, 6: NOW}


def test_it_takes_a_few_reads_however_long_the_log_is(
    stores: Stores, world: World, fill: Callable[[int], None]
) -> None:
    fill(30)
    log, views = stores
    watched = WatchedLog(log)
    forgotten = Retention(log, world.clock).forgotten(1)
    standing(1, watched, Consumers(views, views), forgotten, world.clock)
    assert watched.fetched == 3
