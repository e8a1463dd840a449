"""Hat's server query: the events of one server in the order of their ids."""

from dataclasses import dataclass

from chalicelib.domain.errors import BadInput
from chalicelib.domain.events.head import Head
from chalicelib.domain.events.ids import Id
from chalicelib.domain.queries.event_filter import Selection
from chalicelib.domain.queries.page import Page
from chalicelib.services.ports import Log
from chalicelib.services.reading.retention import Retention
from chalicelib.services.reading.scan import scan

EVERYTHING = Selection()


@dataclass(frozen=True, slots=True)
class ServerQuery:
    """Events of `server` with ids greater than `last_event_id`, `max_results` at most."""

    server: int
    last_event_id: Id | None = None
    max_results: int | None = None


def query_server(query: ServerQuery, log: Log, retention: Retention, most: int) -> Page:
    """The events, ascending; the page is not complete if more follow. Never more than `most`."""
    last = query.last_event_id or Id(query.server, 0, 0)
    if last.server != query.server:
        raise BadInput(f"lastEventId {last} is an event of another server than {query.server}")
    limit = most if query.max_results is None else min(query.max_results, most)
    start, after = _position(log, last)
    forgotten = retention.forgotten(query.server)
    if after < forgotten.last:
        start, after = forgotten.before, forgotten.last
    return scan(log, start, after, EVERYTHING, limit)


def _position(log: Log, last: Id) -> tuple[Head, int]:
    """The commit before which nothing is wanted, and the EventId up to which nothing is."""
    head = log.head(last.server)
    if last.session > head.session:
        return head, head.last
    commit = log.commit(last.server, last.session)
    if commit is None:
        return Head(last.server), 0
    before = log.commit(last.server, last.session - 1)
    return before.head if before else Head(last.server), commit.at + min(last.instance, commit.n) - 1
