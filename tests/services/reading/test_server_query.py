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
from tests.services.worlds import NOW_MS, World, append

SIZES = [2, 1, 3, 1, 1, 2]
"""How many events each session has."""
MOST = 7


@pytest.fixture
def filled(log: SqliteLog, world: World) -> SqliteLog:
    appender = world.appender(log)
    for session, events in enumerate(SIZES, start=1):
        appender.append(append(*(f"/{session}.{i}" for i in range(1, events + 1))))
    return log


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.none() | st.tuples(st.integers(0, 8), st.integers(0, 5)), st.none() | st.integers(0, 12))
def test_the_answer_is_the_part_of_the_list_after_an_id(
    filled: SqliteLog, last: tuple[int, int] | None, most: int | None
) -> None:
    events = [(session, i) for session, n in enumerate(SIZES, start=1) for i in range(1, n + 1)]
    rest = [event for event in events if last is None or event > last]
    limit = MOST if most is None else min(most, MOST)
    page = asked(filled, ServerQuery(1, last and Id(1, *last), most))
    assert ([id_of(wire) for wire in page.wires], page.complete) == (rest[:limit], len(rest) <= limit)


@pytest.mark.parametrize("most", [1, 2, 3, 5, 7])
def test_whoever_asks_again_after_the_last_id_misses_nothing_and_sees_nothing_twice(
    most: int, filled: SqliteLog
) -> None:
    found: list[tuple[int, int]] = []
    last, complete = None, False
    while not complete:
        page = asked(filled, ServerQuery(1, last, most))
        found += [id_of(wire) for wire in page.wires]
        last, complete = Id(1, *found[-1]), page.complete
    assert found == [(session, i) for session, n in enumerate(SIZES, start=1) for i in range(1, n + 1)]


def test_the_events_id_is_that_of_the_last_event_told(filled: SqliteLog) -> None:
    for most in range(1, MOST + 1):
        page = asked(filled, ServerQuery(1, None, most))
        assert page.event_id == json.loads(page.wires[-1])["eventId"]


def test_an_id_of_another_server_is_bad_input(filled: SqliteLog) -> None:
    with pytest.raises(BadInput, match=r"lastEventId 2\.1\.1 is an event of another server than 1"):
        asked(filled, ServerQuery(1, Id(2, 1, 1)))


def asked(log: SqliteLog, query: ServerQuery) -> Page:
    """The answer from a log in which nothing is forgotten."""
    return query_server(query, log, Retention(log, lambda: NOW_MS), MOST)


def id_of(wire: str) -> tuple[int, int]:
    """Session and instance of an event."""
    id_: dict[str, Any] = json.loads(wire)["id"]
    return id_["session"], id_["instance"]
