"""Hat's latest query: the last event of each type."""

from collections.abc import Iterable, Sequence

from chalicelib.domain.events.event import Event
from chalicelib.domain.events.event_type import EventType, is_fixed
from chalicelib.domain.queries.event_filter import Selection
from chalicelib.domain.queries.page import Page
from chalicelib.domain.views.projection import latest_item, latest_positions
from chalicelib.domain.views.record import END, LATEST, Checkpoint, Record
from chalicelib.services.ports import Views
from chalicelib.services.reading.log_reader import LogReader
from chalicelib.services.reading.retention import Retention


def latest(servers: Sequence[int], selection: Selection, present: LogReader, retention: Retention) -> Page:
    """The last event of each selected type over all `servers`, in the order of events."""
    found: dict[EventType, Event] = {}
    event_id = 0
    for server in servers:
        of_server, last = _latest_of(server, selection, present)
        event_id = max(event_id, last)
        forgotten = retention.forgotten(server).last
        for event_type, event in of_server.items():
            if event.event_id > forgotten and (event_type not in found or found[event_type] < event):
                found[event_type] = event
    events = sorted(found.values(), key=lambda event: (event.at, event.id))
    return Page(present.log.head(servers[0]), event_id, [event.wire for event in events])


def _latest_of(server: int, selection: Selection, present: LogReader) -> tuple[dict[EventType, Event], int]:
    checkpoint, places = present.read_views(server, lambda found: _places(found, selection, present))
    found: dict[EventType, Event] = {}
    for commit in present.log.commits(server, sorted({session for session, _ in places})):
        for event in commit.events:
            if (event.id.session, event.id.instance) in places:
                found[event.stored.type] = event
    last = checkpoint.head.last
    for commit in present.after(checkpoint.head):
        found.update((event.stored.type, event) for event in commit.events if selection.selects(event))
        last = commit.last
    return found, last


def _places(checkpoint: Checkpoint, selection: Selection, present: LogReader) -> set[tuple[int, int]]:
    """Session and instance of the last events of the selected types, as far as the views know."""
    return {
        position
        for record in _records(checkpoint.view(LATEST), selection, present.views)
        for event_type, position in latest_positions(record).items()
        if selection.selects_type(event_type)
    }


def _records(view: str, selection: Selection, views: Views) -> Iterable[Record]:
    """Those that may keep the positions; where each type is named, only theirs."""
    types = selection.types
    if types is None or not all(is_fixed(subtype) for event_type in types for subtype in event_type):
        return views.range(view, "", END)
    return views.get(view, sorted(set(map(latest_item, types)))).values()
