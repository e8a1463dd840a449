"""The health check and its cache."""

import pytest

from chalicelib.adapters.sqlite.log import SqliteLog
from chalicelib.domain.errors import Unavailable
from chalicelib.domain.events.head import Head
from chalicelib.services.admin.health import HealthCheck
from chalicelib.services.log.organizations import Organizations
from tests.exactness.stores import CountingLog
from tests.services.fakes import World, append


def test_heads_are_read_once_in_cache_time(log: SqliteLog, world: World) -> None:
    appender = world.appender(log)
    organizations = Organizations(log, appender)
    for name in ("acme", "other"):
        organizations.create(name)
    reads: list[None] = []
    health = HealthCheck(CountingLog(log, lambda: reads.append(None)), organizations, 5.0, world.monotonic)
    first = health.heads(0, 10)
    appender.append(append("/a"))
    world.elapsed_s = 4.9
    assert (health.heads(0, 10), len(reads)) == (first, 2)
    world.elapsed_s = 5.0
    assert ([head.session for head in health.heads(0, 10)], len(reads)) == ([1, 0], 4)


def test_failure_is_not_cached(log: SqliteLog, world: World) -> None:
    class UnavailableLog(CountingLog):
        def head(self, server: int) -> Head:
            raise Unavailable(f"no answer about {server}")

    organizations = Organizations(log, world.appender(log))
    organizations.create("acme")
    health = HealthCheck(UnavailableLog(log), organizations, 5.0, world.monotonic)
    for _ in range(2):
        with pytest.raises(Unavailable):
            health.heads(0, 10)


def test_heads_without_cache_time_are_current(log: SqliteLog, world: World) -> None:
    appender = world.appender(log)
    organizations = Organizations(log, appender)
    organizations.create("acme")
    health = HealthCheck(log, organizations, monotonic=world.monotonic)
    before = health.heads(0, 10)
    appender.append(append("/a"))
    assert [head.session for head in (*before, *health.heads(0, 10))] == [0, 1]


def test_heads_of_page_reads_only_its_logs(log: SqliteLog, world: World) -> None:
    appender = world.appender(log)
    organizations = Organizations(log, appender)
    for number in range(30):
        organizations.create(f"org-{number}")
    reads: list[None] = []
    health = HealthCheck(CountingLog(log, lambda: reads.append(None)), organizations, 5.0, world.monotonic)
    assert [head.server for head in health.heads(3, 5)] == [4, 5, 6, 7, 8]
    assert [head.server for head in health.heads(28, 5)] == [29, 30]
    assert (health.heads(30, 5), len(reads)) == ([], 7)
