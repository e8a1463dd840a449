"""The timeseries query: searches end in time."""

from dataclasses import replace
from itertools import count

import pytest
from pydantic_core import from_json

from chalicelib.adapters.sqlite.log import SqliteLog
from chalicelib.domain.errors import BadInput
from chalicelib.domain.events.event import NewEvent
from chalicelib.domain.events.ids import Id
from chalicelib.domain.log.append import Append, encode_within_limits
from chalicelib.domain.queries.event_filter import Selection
from chalicelib.domain.queries.page import Page
from chalicelib.domain.queries.timeseries import TimeseriesQuery
from chalicelib.services.reading.log_reader import LogReader
from chalicelib.services.reading.no_views import NoViews
from chalicelib.services.reading.retention import Retention
from chalicelib.services.reading.scan import SCAN_TIMEOUT_S
from chalicelib.services.reading.timeseries import timeseries
from tests.services.fakes import World

EVENTS = 100
ALL = Selection()


@pytest.fixture
def filled(sqlite_log: SqliteLog, world: World) -> SqliteLog:
    """A hundred events in as many commits. Each tenth has the type `tenth`."""
    appender = world.appender(sqlite_log)
    for number in range(1, EVENTS + 1):
        events = [NewEvent(type=("tenth" if number % 10 == 0 else "other",))]
        appender.append(Append(1, encode_within_limits(events), f"r{number}"))
        world.now_ms += 10
    return sqlite_log


def page_of(query: TimeseriesQuery, log: SqliteLog, world: World, step_s: float) -> Page:
    """The page if each look at the clock finds it advanced by `step_s`."""
    seconds = count(step=step_s)
    reader, retention = LogReader(log, NoViews()), Retention(log, world.clock)
    return timeseries(query, [1], reader, retention, 1_000, lambda: next(seconds))


@pytest.mark.parametrize("descending", [False, True])
def test_search_that_takes_too_long_can_be_continued(descending: bool, filled: SqliteLog, world: World) -> None:
    """Each search takes 30 events."""
    query = TimeseriesQuery(Selection(types=(("tenth",),)), descending=descending)
    sessions: list[int] = []
    pages, is_complete = 0, False
    while not is_complete:
        page = page_of(query, filled, world, SCAN_TIMEOUT_S / 30)
        sessions += [from_json(text)["id"]["session"] for text in page.texts]
        query = replace(query, last_event_id=Id(1, sessions[-1], 1))
        pages, is_complete = pages + 1, page.is_complete
    assert sessions == list(range(10, EVENTS + 1, 10))[:: -1 if descending else 1]
    assert pages > 3


@pytest.mark.parametrize(
    "query",
    [
        TimeseriesQuery(Selection(types=(("never",),))),
        TimeseriesQuery(ALL, by_source=True),
        TimeseriesQuery(ALL, by_source=True, descending=False),
        TimeseriesQuery(ALL, source_t_from=1),
    ],
)
def test_search_that_finds_nothing_in_time_is_refused(query: TimeseriesQuery, filled: SqliteLog, world: World) -> None:
    with pytest.raises(BadInput, match="takes too long"):
        page_of(query, filled, world, SCAN_TIMEOUT_S / 30)
    assert page_of(query, filled, world, 0.0).texts == []
