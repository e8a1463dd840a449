"""Hat's timeseries query: events of all servers by time, or by the time of their source."""

import heapq
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from chalicelib.domain.errors import BadInput
from chalicelib.domain.events.event import Event
from chalicelib.domain.log.commit import Commit
from chalicelib.domain.queries.page import Page
from chalicelib.domain.queries.timeseries import SortKey, TimeseriesQuery
from chalicelib.services.reading.log_reader import LogReader
from chalicelib.services.reading.retention import Retention
from chalicelib.services.reading.scan import SCAN_TIMEOUT_S, first_page


class _SearchTimeout(Exception):
    """The search has taken too long."""


def timeseries(
    query: TimeseriesQuery,
    servers: Sequence[int],
    reader: LogReader,
    retention: Retention,
    max_events: int,
    monotonic: Callable[[], float] = time.monotonic,
) -> Page:
    """The events in the query's order, at most `max_events`.

    If the search takes too long, the page has those found so far. Raises `BadInput` if there are none.
    """
    deadline, is_late = monotonic() + SCAN_TIMEOUT_S, False

    def check_time() -> None:
        if monotonic() > deadline:
            raise _SearchTimeout

    def found_in_time(events: Iterator[Event]) -> Iterator[Event]:
        nonlocal is_late
        try:
            yield from events
        except _SearchTimeout:
            is_late = True

    heads = [reader.log.head(server) for server in servers]
    event_id = max(head.last_event_id for head in heads)
    position = _position(query, servers, reader)
    if query.last_event_id is not None and position is None:
        return Page(heads[0], event_id)
    limit = max_events if query.max_results is None else min(query.max_results, max_events)
    last_event_ids = {head.server: head.last_event_id for head in heads}
    # One event more than the limit shows whether the page is complete.
    sorted_events = _sorted_events(query, position, last_event_ids, reader, retention, limit + 1, check_time)
    page = first_page(found_in_time(sorted_events), heads[0], event_id, limit, reader.page_size)
    if is_late and not page.texts:
        raise BadInput("the search takes too long; limit the time range, the types or the keys")
    return replace(page, is_complete=page.is_complete and not is_late)


def _position(query: TimeseriesQuery, servers: Sequence[int], reader: LogReader) -> SortKey | None:
    """Sort key of the event `last_event_id`, if it exists and has a place in the query's order."""
    last = query.last_event_id
    if last is None or last.server not in servers:
        return None
    commit = reader.log.commit(last.server, last.session)
    if commit is None or not 1 <= last.instance <= commit.event_count:
        return None
    event = commit.events[last.instance - 1]
    return query.sort_key(event) if query.has_place(event) else None


def _sorted_events(
    query: TimeseriesQuery,
    position: SortKey | None,
    last_event_ids: Mapping[int, int],
    reader: LogReader,
    retention: Retention,
    limit: int,
    check_time: Callable[[], None],
) -> Iterator[Event]:
    """Selected events up to the `last_event_ids` of their servers. Later events are left to the next request.

    Sorting by source time needs all events, so in that case only the first `limit` are returned.
    """

    def select(events: Iterable[Event], boundary: int, last_event_id: int) -> Iterator[Event]:
        for event in events:
            check_time()
            is_visible = boundary < event.event_id <= last_event_id
            if is_visible and query.selects(event) and _is_after(query, event, position):
                yield event

    streams = []
    for server, last_event_id in last_event_ids.items():
        boundary = retention.boundary(server).event_id
        streams.append(select(_events(query, position, server, reader, boundary), boundary, last_event_id))
    if not query.by_source:
        return heapq.merge(*streams, key=query.sort_key, reverse=query.descending)
    choose: Callable[..., list[Event]] = heapq.nlargest if query.descending else heapq.nsmallest

    def choose_events() -> Iterator[Event]:
        yield from choose(limit, chain.from_iterable(streams), key=query.sort_key)

    return choose_events()


def _is_after(query: TimeseriesQuery, event: Event, position: SortKey | None) -> bool:
    if position is None:
        return True
    return query.sort_key(event) < position if query.descending else query.sort_key(event) > position


def _events(
    query: TimeseriesQuery, position: SortKey | None, server: int, reader: LogReader, boundary: int
) -> Iterator[Event]:
    """The server's events in the time range. They are in the order of the result if that is by time."""
    first, last = query.t_from, query.t_to
    if position is not None and not query.by_source:
        first, last = (first, _min(last, position[0])) if query.descending else (_max(first, position[0]), last)
    first = _max(first, boundary - 1000 if boundary else None)
    if query.descending and not query.by_source:
        for commit in _commits_backwards(query, server, reader, last):
            if first is not None and commit.at_us < first:
                return
            yield from reversed(commit.events)
        return
    start = reader.position_at(server, max(first - 1, 0) if first is not None else boundary)
    for commit in reader.commits_after(start, query.selection).commits:
        if last is not None and commit.at_us > last:
            return
        yield from commit.events


def _commits_backwards(query: TimeseriesQuery, server: int, reader: LogReader, last: int | None) -> Iterator[Commit]:
    head = reader.log.head(server)
    if last is not None and last < head.last_event_id:
        # The EventIds of a commit are up to 1000 microseconds later than the commit.
        head = reader.position_at(server, last + 1000)
    return reader.commits_before(head, query.selection)


def _min(value: int | None, other: int) -> int:
    return other if value is None else min(value, other)


def _max(value: int | None, other: int | None) -> int | None:
    if value is None or other is None:
        return value if other is None else other
    return max(value, other)
