"""Hat's latest query: the last event of each type."""

import heapq
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from chalicelib.domain.errors import BadInput
from chalicelib.domain.events.event import Event
from chalicelib.domain.events.event_type import EventType, is_literal
from chalicelib.domain.events.head import Head
from chalicelib.domain.events.ids import Id
from chalicelib.domain.queries.event_filter import Selection
from chalicelib.domain.queries.page import Page
from chalicelib.domain.views.projection import latest_item, latest_positions
from chalicelib.domain.views.record import LATEST_VIEW, MAX_CHARACTER, Checkpoint, Record
from chalicelib.services.ports import Views
from chalicelib.services.reading.log_reader import LogReader
from chalicelib.services.reading.retention import Retention
from chalicelib.services.reading.scan import first_page

Position = tuple[int, int]
"""Session and instance of an event."""


@dataclass(frozen=True, slots=True)
class _LatestEvents:
    """Where the last event of each selected type is in one log."""

    head: Head
    """The log was read up to here."""
    boundary: int
    """The last EventId that has expired."""
    positions: dict[EventType, Position]
    tail: dict[Position, Event]
    """The events after the checkpoint of the views. They are later than those that are not in here."""

    def events(self, positions: Collection[Position], reader: LogReader) -> Iterator[Event]:
        """The events at `positions` that have not expired, in order. The log is read as the caller iterates."""
        stored = set(positions) - self.tail.keys()
        events = (
            event
            for commit in reader.log.commits(self.head.server, sorted({session for session, _ in stored}))
            for event in commit.events
            if (event.id.session, event.id.instance) in stored
        )
        yield from (event for event in events if event.event_id > self.boundary)
        tail = (self.tail[position] for position in sorted(self.tail.keys() & set(positions)))
        yield from (event for event in tail if event.event_id > self.boundary)


def latest(
    servers: Sequence[int],
    selection: Selection,
    reader: LogReader,
    retention: Retention,
    max_events: int,
    last_event_id: Id | None = None,
) -> Page:
    """The last event of each selected type over all `servers`, oldest first, at most `max_events`.

    Continues after the event `last_event_id`. A type whose last event changes between two pages moves to a later page,
    so none is skipped.
    """
    logs = [_latest_events(server, selection, reader, retention) for server in servers]
    head, event_id = logs[0].head, max(log.head.last_event_id for log in logs)
    if last_event_id is not None and last_event_id.server not in servers:
        return Page(head, event_id)
    if len(logs) > 1:
        _drop_superseded(logs, reader)
    streams = [log.events(_positions_after(log, last_event_id, reader), reader) for log in logs]
    events: Iterable[Event] = heapq.merge(*streams, key=_sort_key)
    if last_event_id is not None and len(logs) > 1:
        after = _at_us(last_event_id, reader), last_event_id
        events = (event for event in events if _sort_key(event) > after)
    return first_page(events, head, event_id, max_events, reader.page_size)


def _latest_events(server: int, selection: Selection, reader: LogReader, retention: Retention) -> _LatestEvents:
    def read(checkpoint: Checkpoint) -> _LatestEvents:
        positions = _positions(checkpoint, selection, reader)
        tail: dict[EventType, Event] = {}
        head = checkpoint.head
        for commit in reader.tail(checkpoint.head):
            tail.update((event.fields.type, event) for event in commit.events if selection.selects(event))
            head = commit.head
        positions |= {event_type: (event.id.session, event.id.instance) for event_type, event in tail.items()}
        tail_by_position = {(event.id.session, event.id.instance): event for event in tail.values()}
        return _LatestEvents(head, retention.boundary(server).event_id, positions, tail_by_position)

    return reader.read_views(server, read)[1]


def _drop_superseded(logs: Sequence[_LatestEvents], reader: LogReader) -> None:
    """Of a type that several logs contain, keep only the position of the last event."""
    counts = Counter(event_type for log in logs for event_type in log.positions)
    shared = {event_type for event_type, count in counts.items() if count > 1}
    last: dict[EventType, tuple[int, Id]] = {}
    for log in logs:
        for event in log.events([log.positions[event_type] for event_type in shared & log.positions.keys()], reader):
            event_type = event.fields.type
            last[event_type] = max(last.get(event_type, (0, event.id)), _sort_key(event))
    for log in logs:
        for event_type in shared & log.positions.keys():
            if event_type not in last or last[event_type][1].server != log.head.server:
                del log.positions[event_type]


def _positions_after(log: _LatestEvents, last_event_id: Id | None, reader: LogReader) -> set[Position]:
    """The positions in `log` that may be after an event, which may be in another log."""
    if last_event_id is None:
        return set(log.positions.values())
    if last_event_id.server == log.head.server:
        after = (last_event_id.session, last_event_id.instance)
    else:
        after = (reader.position_at(log.head.server, _at_us(last_event_id, reader) - 1).session + 1, 0)
    return {position for position in log.positions.values() if position > after}


def _at_us(event_id: Id, reader: LogReader) -> int:
    commit = reader.log.commit(event_id.server, event_id.session)
    if commit is None:
        raise BadInput(f"event {event_id} is not in the log, or no longer; start again without lastEventId")
    return commit.at_us


def _sort_key(event: Event) -> tuple[int, Id]:
    return event.at_us, event.id


def _positions(checkpoint: Checkpoint, selection: Selection, reader: LogReader) -> dict[EventType, Position]:
    """The position of the last event of each selected type, according to the views."""
    return {
        event_type: position
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
