"""Hat's server query, compared with a list of events."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chalicelib.adapters.sqlite.log import SqliteLog
from chalicelib.domain.errors import BadInput
from chalicelib.domain.events.ids import Id
from chalicelib.domain.queries.page import Page
from chalicelib.services.reading.retention import Retention
from chalicelib.services.reading.server_query import ServerQuery, query_server
from tests.services.fakes import NOW_MS, World, append

SIZES = [2, 1, 3, 1, 1, 2]
"""Number of events in each session."""
MAX_EVENTS = 7


@pytest.fixture
def filled_log(log: SqliteLog, world: World) -> SqliteLog:
    appender = world.appender(log)
    for session, events in enumerate(SIZES, start=1):
        appender.append(append(*(f"/{session}.{i}" for i in range(1, events + 1))))
    return log


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.none() | st.tuples(st.integers(0, 8), st.integers(0, 5)), st.none() | st.integers(0, 12))
def test_query_returns_events_after_last_event_id(
    filled_log: SqliteLog, last: tuple[int, int] | None, max_results: int | None
) -> None:
    events = [(session, i) for session, n in enumerate(SIZES, start=1) for i in range(1, n + 1)]
    rest = [event for event in events if last is None or event > last]
    limit = MAX_EVENTS if max_results is None else min(max_results, MAX_EVENTS)
    page = run_query(filled_log, ServerQuery(1, last and Id(1, *last), max_results))
    assert ([id_of(text) for text in page.texts], page.is_complete) == (rest[:limit], len(rest) <= limit)


@pytest.mark.parametrize("max_results", [1, 2, 3, 5, 7])
def test_query_repeated_after_last_id_returns_each_event_once(max_results: int, filled_log: SqliteLog) -> None:
    ids: list[tuple[int, int]] = []
    last, is_complete = None, False
    while not is_complete:
        page = run_query(filled_log, ServerQuery(1, last, max_results))
        ids += [id_of(text) for text in page.texts]
        last, is_complete = Id(1, *ids[-1]), page.is_complete
    assert ids == [(session, i) for session, n in enumerate(SIZES, start=1) for i in range(1, n + 1)]


def test_query_event_id_is_that_of_last_event_returned(filled_log: SqliteLog) -> None:
    for max_results in range(1, MAX_EVENTS + 1):
        page = run_query(filled_log, ServerQuery(1, None, max_results))
        assert page.event_id == json.loads(page.texts[-1])["eventId"]


def test_query_with_id_of_other_server_is_bad_input(filled_log: SqliteLog) -> None:
    with pytest.raises(BadInput, match=r"lastEventId 2\.1\.1 belongs to server 2, not to server 1"):
        run_query(filled_log, ServerQuery(1, Id(2, 1, 1)))


def run_query(log: SqliteLog, query: ServerQuery) -> Page:
    """Run the query without retention limits."""
    return query_server(query, log, Retention(log, lambda: NOW_MS), MAX_EVENTS)


def id_of(text: str) -> tuple[int, int]:
    """Session and instance of an event."""
    id_: dict[str, Any] = json.loads(text)["id"]
    return id_["session"], id_["instance"]
