"""Hat's timeseries query: events of all servers by time, or by the time of their source."""

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice

from chalicelib.domain.events.event import Event
from chalicelib.domain.log.commit import Commit
from chalicelib.domain.queries.page import Page
from chalicelib.domain.queries.timeseries import Order, TimeseriesQuery
from chalicelib.services.reading.log_reader import LogReader
from chalicelib.services.reading.retention import Retention


def timeseries(
    query: TimeseriesQuery, servers: Sequence[int], present: LogReader, retention: Retention, most: int
) -> Page:
    """The events, in order, never more than `most`; the page is not complete if more follow."""
    heads = [present.log.head(server) for server in servers]
    event_id = max(head.last for head in heads)
    position = _position(query, servers, present)
    if query.last_event_id is not None and position is None:
        return Page(heads[0], event_id)
    limit = most if query.max_results is None else min(query.max_results, most)
    known = {head.server: head.last for head in heads}
    events = _sorted(query, position, known, present, retention, limit + 1)
    found = list(islice(events, limit + 1))
    return Page(heads[0], event_id, [event.wire for event in found[:limit]], complete=len(found) <= limit)


def _position(query: TimeseriesQuery, servers: Sequence[int], present: LogReader) -> Order | None:
    """The place of the last event seen, if it exists and the query comes across it."""
    last = query.last_event_id
    if last is None or last.server not in servers:
        return None
    commit = present.log.commit(last.server, last.session)
    if commit is None or not 1 <= last.instance <= commit.n:
        return None
    event = commit.events[last.instance - 1]
    return query.order(event) if query.comes_across(event) else None


def _sorted(
    query: TimeseriesQuery,
    position: Order | None,
    known: Mapping[int, int],
    present: LogReader,
    retention: Retention,
    enough: int,
) -> Iterator[Event]:
    """The events of each server up to the EventId that the answer will tell: later ones are for the next answer."""

    def wanted(events: Iterable[Event], forgotten: int, last: int) -> Iterator[Event]:
        for event in events:
            in_time = forgotten < event.event_id <= last
            if in_time and query.selects(event) and _is_after(query, event, position):
                yield event

    streams = []
    for server, last in known.items():
        forgotten = retention.forgotten(server).last
        streams.append(wanted(_events(query, position, server, present, forgotten), forgotten, last))
    if not query.by_source:
        return heapq.merge(*streams, key=query.order, reverse=query.descending)
    choose: Callable[..., list[Event]] = heapq.nlargest if query.descending else heapq.nsmallest
    return iter(choose(enough, (event for stream in streams for event in stream), key=query.order))


def _is_after(query: TimeseriesQuery, event: Event, position: Order | None) -> bool:
    if position is None:
        return True
    return query.order(event) < position if query.descending else query.order(event) > position


def _events(
    query: TimeseriesQuery, position: Order | None, server: int, present: LogReader, forgotten: int
) -> Iterator[Event]:
    """All events of the server between the bounds of time, in the answer's order if that is by time."""
    first, last = query.t_from, query.t_to
    if position is not None and not query.by_source:
        first, last = (first, _least(last, position[0])) if query.descending else (_greatest(first, position[0]), last)
    first = _greatest(first, forgotten - 1000 if forgotten else None)
    if query.descending and not query.by_source:
        for commit in _back(query, server, present, last):
            if first is not None and commit.at < first:
                return
            yield from reversed(commit.events)
        return
    start = present.at(server, max(first - 1, 0)) if first is not None else present.at(server, forgotten)
    for commit in present.ahead(start, query.selection).commits:
        if last is not None and commit.at > last:
            return
        yield from commit.events


def _back(query: TimeseriesQuery, server: int, present: LogReader, last: int | None) -> Iterator[Commit]:
    head = present.log.head(server)
    if last is not None and last < head.last:
        # A commit at `last` has EventIds of up to a thousand more.
        head = present.at(server, last + 1000)
    return present.back(head, query.selection)


def _least(one: int | None, other: int) -> int:
    return other if one is None else min(one, other)


def _greatest(one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return one if other is None else other
    return max(one, other)
