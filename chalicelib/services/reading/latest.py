"""Hat's latest query: the last event of each type."""

from collections.abc import Iterable, Sequence

from chalicelib.domain.events.event import Event
from chalicelib.domain.events.event_type import EventType, is_literal
from chalicelib.domain.queries.event_filter import Selection
from chalicelib.domain.queries.page import Page
from chalicelib.domain.views.projection import latest_item, latest_positions
from chalicelib.domain.views.record import LATEST_VIEW, MAX_CHARACTER, Checkpoint, Record
from chalicelib.services.ports import Views
from chalicelib.services.reading.log_reader import LogReader
from chalicelib.services.reading.retention import Retention


def latest(servers: Sequence[int], selection: Selection, reader: LogReader, retention: Retention) -> Page:
    """The last event of each selected type over all `servers`, oldest first."""
    latest_events: dict[EventType, Event] = {}
    event_id = 0
    for server in servers:
        server_events, last_event_id = _latest_of(server, selection, reader)
        event_id = max(event_id, last_event_id)
        boundary = retention.boundary(server).event_id
        for event_type, event in server_events.items():
            is_latest = event_type not in latest_events or latest_events[event_type] < event
            if event.event_id > boundary and is_latest:
                latest_events[event_type] = event
    events = sorted(latest_events.values(), key=lambda event: (event.at_us, event.id))
    return Page(reader.log.head(servers[0]), event_id, [event.wire_text for event in events])


def _latest_of(server: int, selection: Selection, reader: LogReader) -> tuple[dict[EventType, Event], int]:
    """The last events of one server by type, and the EventId up to which its log was read."""
    checkpoint, positions = reader.read_views(server, lambda checkpoint: _positions(checkpoint, selection, reader))
    events: dict[EventType, Event] = {}
    for commit in reader.log.commits(server, sorted({session for session, _ in positions})):
        for event in commit.events:
            if (event.id.session, event.id.instance) in positions:
                events[event.fields.type] = event
    last_event_id = checkpoint.head.last_event_id
    for commit in reader.tail(checkpoint.head):
        events.update((event.fields.type, event) for event in commit.events if selection.selects(event))
        last_event_id = commit.last_event_id
    return events, last_event_id


def _positions(checkpoint: Checkpoint, selection: Selection, reader: LogReader) -> set[tuple[int, int]]:
    """Session and instance of the last event of each selected type, according to the views."""
    return {
        position
        for record in _records(checkpoint.view_name(LATEST_VIEW), selection, reader.views)
        for event_type, position in latest_positions(record).items()
        if selection.selects_type(event_type)
    }


def _records(view: str, selection: Selection, views: Views) -> Iterable[Record]:
    """The records that may contain selected types. Without wildcards, only the records of the named types."""
    types = selection.types
    if types is None or not all(is_literal(subtype) for event_type in types for subtype in event_type):
        return views.range(view, "", MAX_CHARACTER)
    return views.get(view, sorted(set(map(latest_item, types)))).values()
