"""Status of a log and its consumers, on each store."""

from collections.abc import Callable

import pytest

from chalicelib.domain.events.head import Head
from chalicelib.domain.views.record import PROJECTOR
from chalicelib.services.admin.status import ConsumerCheckpoints, ConsumerStatus, LogStatus, log_status
from chalicelib.services.consumers.checkpoints import OBSERVE_CONSUMER
from chalicelib.services.consumers.consumer import Consumer, run_once
from chalicelib.services.ports import Log, Views
from chalicelib.services.reading.retention import Retention
from tests.exactness.stores import CountingLog
from tests.services.fakes import NOW, NOW_MS, World, append

Stores = tuple[Log, Views]


@pytest.fixture(params=["sqlite", "moto", "dynamodb_local"])
def stores(request: pytest.FixtureRequest) -> Stores:
    return request.getfixturevalue(f"{request.param}_log"), request.getfixturevalue(f"{request.param}_views")


@pytest.fixture
def fill(stores: Stores, world: World) -> Callable[[int], None]:
    """Append commits of two events, one per second."""
    appender = world.appender(stores[0])

    def fill_log(commits: int) -> None:
        for number in range(commits):
            appender.append(append("/1", "/2", request_id=f"r{number}"))
            world.now_ms += 1_000

    return fill_log


def consume(name: str, stores: Stores, commits: int) -> None:
    log, views = stores
    run_once(Consumer(name, lambda _checkpoint, _commits: None), 1, log, views, commits)


def status(stores: Stores, world: World, events: int | None = None) -> LogStatus:
    log, views = stores
    boundary = Retention(log, world.clock, events=events).boundary(1)
    return log_status(1, log, ConsumerCheckpoints(views, views), boundary, world.clock)


def test_log_status_of_empty_log(stores: Stores, world: World) -> None:
    consumers_at_start = (ConsumerStatus("project", Head(1), 0, 0.0), ConsumerStatus("observe", Head(1), 0, 0.0))
    assert status(stores, world) == LogStatus(Head(1), None, consumers_at_start)


def test_log_status_lag_is_age_of_first_unhandled_commit(
    stores: Stores, world: World, fill: Callable[[int], None]
) -> None:
    fill(3)
    consume(PROJECTOR, stores, 3)
    consume(OBSERVE_CONSUMER, stores, 1)
    world.now_ms += 500
    last, first = NOW + 2_000_001, NOW + 1
    assert status(stores, world) == LogStatus(
        Head(1, 3, 2, last),
        NOW,
        (
            ConsumerStatus("project", Head(1, 3, 2, last), 0, 0.0),
            ConsumerStatus("observe", Head(1, 1, 2, first), 2, 2.5),
        ),
    )


def test_log_status_lag_is_not_negative(stores: Stores, world: World, fill: Callable[[int], None]) -> None:
    fill(1)
    world.now_ms = NOW_MS - 1_000
    assert [consumer.lag_s for consumer in status(stores, world).consumers] == [0.0, 0.0]


def test_log_status_first_kept_may_be_inside_a_commit(
    stores: Stores, world: World, fill: Callable[[int], None]
) -> None:
    fill(3)
    kept = {events: status(stores, world, events).first_kept for events in (1, 3, 4, 6)}
    assert kept == {1: NOW + 2_000_001, 3: NOW + 1_000_001, 4: NOW + 1_000_000, 6: NOW}


def test_log_status_of_long_log_needs_few_reads(stores: Stores, world: World, fill: Callable[[int], None]) -> None:
    fill(30)
    log, views = stores
    counting_log = CountingLog(log)
    boundary = Retention(log, world.clock).boundary(1)
    log_status(1, counting_log, ConsumerCheckpoints(views, views), boundary, world.clock)
    assert counting_log.fetched == 3
