"""Hat's latest query: pages of the last events of all types."""

import json
from collections.abc import Sequence

import pytest

from chalicelib.adapters.sqlite.log import SqliteLog
from chalicelib.adapters.sqlite.views import SqliteViews
from chalicelib.domain.errors import BadInput
from chalicelib.domain.events.ids import Id
from chalicelib.domain.log.append import Append
from chalicelib.domain.queries.event_filter import Selection
from chalicelib.domain.queries.size_limit import SizeLimit, utf8_bytes
from chalicelib.services.consumers.consumer import catch_up
from chalicelib.services.consumers.projector import projector
from chalicelib.services.reading.latest import latest
from chalicelib.services.reading.log_reader import LogReader
from chalicelib.services.reading.retention import Retention
from tests.exactness.stores import CountingLog
from tests.services.fakes import World, text

ALL = Selection()


def write(log: SqliteLog, world: World, server: int, *types: str) -> None:
    """Append a commit with one event per type, a second after the previous one."""
    world.now_ms += 1000
    texts = tuple(text("/1", type_) for type_ in types)
    world.appender(log).append(Append(server, texts, f"r{world.now_ms}"))


def read_pages(
    log: SqliteLog, views: SqliteViews, servers: Sequence[int], max_events: int, size: int = 10**6
) -> list[list[str]]:
    """All pages: the type of each event and its server."""
    reader = LogReader(log, views, SizeLimit(size, utf8_bytes))
    pages: list[list[str]] = []
    last: Id | None = None
    while True:
        page = latest(servers, ALL, reader, Retention(log, lambda: 0), max_events, last)
        events = [json.loads(text) for text in page.texts]
        pages.append([f"{'/'.join(event['type'])} {event['id']['server']}" for event in events])
        if page.is_complete:
            return pages
        last = Id(**events[-1]["id"])


@pytest.mark.parametrize("projected", [False, True])
def test_latest_pages_contain_each_type_once(
    log: SqliteLog, sqlite_views: SqliteViews, world: World, projected: bool
) -> None:
    write(log, world, 1, "a", "b", "c", "d")
    write(log, world, 1, "b", "e")
    if projected:
        catch_up(projector(sqlite_views), 1, log, sqlite_views)
    write(log, world, 1, "d")
    assert read_pages(log, sqlite_views, [1], 2) == [["a 1", "c 1"], ["b 1", "e 1"], ["d 1"]]
    assert read_pages(log, sqlite_views, [1], 2, size=1) == [["a 1"], ["c 1"], ["b 1"], ["e 1"], ["d 1"]]


@pytest.mark.parametrize("projected", [False, True])
def test_latest_pages_over_servers_contain_each_type_once(
    log: SqliteLog, sqlite_views: SqliteViews, world: World, projected: bool
) -> None:
    write(log, world, 1, "a", "b")
    write(log, world, 2, "b", "c")
    write(log, world, 1, "c", "d")
    if projected:
        for server in (1, 2):
            catch_up(projector(sqlite_views), server, log, sqlite_views)
    write(log, world, 2, "e", "f")
    expected = ["a 1", "b 2", "c 1", "d 1", "e 2", "f 2"]
    for max_events in range(1, 7):
        pages = read_pages(log, sqlite_views, [1, 2], max_events)
        assert [event for page in pages for event in page] == expected
        assert all(len(page) == max_events for page in pages[:-1])


def test_latest_page_reads_only_its_own_commits(log: SqliteLog, sqlite_views: SqliteViews, world: World) -> None:
    for n in range(100):
        write(log, world, 1, f"t{n}")
    catch_up(projector(sqlite_views), 1, log, sqlite_views)
    counting = CountingLog(log)
    page = latest([1], ALL, LogReader(counting, sqlite_views), Retention(log, lambda: 0), 3, Id(1, 50, 1))
    assert [json.loads(event)["type"] for event in page.texts] == [["t50"], ["t51"], ["t52"]]
    assert counting.fetched <= 4


def test_latest_after_foreign_id_is_empty(log: SqliteLog, sqlite_views: SqliteViews, world: World) -> None:
    write(log, world, 1, "a")
    page = latest([1], ALL, LogReader(log, sqlite_views), Retention(log, lambda: 0), 3, Id(7, 1, 1))
    assert (page.texts, page.is_complete) == ([], True)


def test_latest_after_unknown_event_is_refused(log: SqliteLog, sqlite_views: SqliteViews, world: World) -> None:
    write(log, world, 1, "a")
    write(log, world, 2, "b")
    with pytest.raises(BadInput, match="start again without lastEventId"):
        latest([1, 2], ALL, LogReader(log, sqlite_views), Retention(log, lambda: 0), 3, Id(1, 9, 1))
