"""Hat's server query: the events of one server in the order of their ids."""

from dataclasses import dataclass

from chalicelib.domain.errors import BadInput
from chalicelib.domain.events.head import Head
from chalicelib.domain.events.ids import Id
from chalicelib.domain.queries.event_filter import Selection
from chalicelib.domain.queries.page import Page
from chalicelib.domain.queries.size_limit import UTF8_PAGE, SizeLimit
from chalicelib.services.ports import Log
from chalicelib.services.reading.retention import Retention
from chalicelib.services.reading.scan import scan

EVERYTHING = Selection()


@dataclass(frozen=True, slots=True)
class ServerQuery:
    """Events of `server` with ids greater than `last_event_id`, at most `max_results`."""

    server: int
    last_event_id: Id | None = None
    max_results: int | None = None


def query_server(
    query: ServerQuery, log: Log, retention: Retention, max_events: int, size_limit: SizeLimit = UTF8_PAGE
) -> Page:
    """The events in ascending order, at most `max_events`."""
    last = _last_event_id(query)
    limit = max_events if query.max_results is None else min(query.max_results, max_events)
    start, after = _position(log, last)
    boundary = retention.boundary(query.server)
    if after < boundary.event_id:
        start, after = boundary.head, boundary.event_id
    return scan(log, start, after, EVERYTHING, limit, size_limit)


def query_unknown_server(query: ServerQuery) -> Page:
    """The result for a server that does not exist, and for the log of another organization: they must not differ."""
    return Page(Head(_last_event_id(query).server), 0)


def _last_event_id(query: ServerQuery) -> Id:
    last = query.last_event_id or Id(query.server, 0, 0)
    if last.server != query.server:
        raise BadInput(f"lastEventId {last} belongs to server {last.server}, not to server {query.server}")
    return last


def _position(log: Log, last: Id) -> tuple[Head, int]:
    """The commit to start after, and the EventId to start after."""
    head = log.head(last.server)
    if last.session > head.session:
        return head, head.last_event_id
    commit = log.commit(last.server, last.session)
    if commit is None:
        return Head(last.server), 0
    before = log.commit(last.server, last.session - 1)
    return before.head if before else Head(last.server), commit.at_us + min(last.instance, commit.event_count) - 1
