"""Snapshots: the exact states of objects as of one EventId."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, product, takewhile

from chalicelib.domain import vocabularies
from chalicelib.domain.errors import NotFound
from chalicelib.domain.events.event import Event
from chalicelib.domain.log.commit import Commit
from chalicelib.domain.objects.path_query import PathPattern, PathQuery
from chalicelib.domain.objects.ref import ObjectRef, State
from chalicelib.domain.views.object_view import ObjectView
from chalicelib.domain.views.projection import group_by_object
from chalicelib.domain.views.record import Checkpoint, Record, objects_view
from chalicelib.services.objects.object_range import ObjectRange
from chalicelib.services.reading.log_reader import LogReader
from chalicelib.services.reading.retention import RetentionBoundary


@dataclass(frozen=True, slots=True)
class Snapshot:
    """States of objects by path. A client that follows the events after `event_id` sees each later change once."""

    event_id: int
    states: dict[str, State]

    def state_of(self, path: str) -> State:
        """The object at `path`. Raises `NotFound`."""
        if path not in self.states:
            raise NotFound(f"there is nothing at {path[:200]}")
        return self.states[path]


@dataclass(frozen=True, slots=True)
class CurrentViews:
    """The views of objects as of the end of the log."""

    event_id: int
    views: dict[ObjectRef, ObjectView]
    """Including deleted objects."""
    records: dict[ObjectRef, Record]
    """The stored records. The views have the commits after the checkpoint folded into them."""
    tail: list[Commit]
    """The commits after the checkpoint that affect the objects, if they were requested."""


def snapshot(
    reader: LogReader,
    server: int,
    collections: str | tuple[str, ...],
    query: PathQuery,
    max_records: int | None = None,
) -> Snapshot:
    """The current objects of one or several collections that match `query`. Raises `TooManyRecords`."""
    collections = (collections,) if isinstance(collections, str) else collections
    _, current = current_views(reader, server, collections, query, max_records=max_records)
    states: dict[str, State] = {}
    for ref, view in sorted(current.views.items()):
        if view.state is not None:
            states[ref.path if ref.path not in states else f"{ref.collection}:{ref.path}"] = view.state
    return Snapshot(current.event_id, states)


def current_views(
    reader: LogReader,
    server: int,
    collections: tuple[str, ...],
    query: PathQuery,
    with_tail: bool = False,
    max_records: int | None = None,
) -> tuple[Checkpoint, CurrentViews]:
    """The checkpoint of the stored views, and the matching objects of some collections. Raises `TooManyRecords`."""
    objects = ObjectRange(collections, query)

    def read(checkpoint: Checkpoint) -> CurrentViews:
        records = dict(objects.records(checkpoint, reader.views, max_records))
        views = {ref: ObjectView.from_record(record) for ref, record in records.items()}
        event_id, tail = checkpoint.head.last_event_id, list[Commit]()
        for commit in reader.tail(checkpoint.head):
            changes = group_by_object([commit], objects.contains)
            for ref, events in changes.items():
                views[ref] = views.get(ref, ObjectView()).fold(ref.collection, events)
            tail += [commit] if changes and with_tail else []
            event_id = commit.last_event_id
        return CurrentViews(event_id, views, records, tail)

    refs = [ObjectRef(collection, pattern.text) for collection, pattern in product(collections, query.patterns)]
    is_exact = all(map(vocabularies.is_unique, refs))
    return reader.read_views(server, read, is_complete=lambda current: is_exact and current.records.keys() >= set(refs))


def object_snapshot(reader: LogReader, server: int, ref: ObjectRef) -> Snapshot:
    """The current full state of one object. Views store large objects without some of their parts."""
    query = PathQuery((PathPattern(ref.path),))
    checkpoint, current = current_views(reader, server, (ref.collection,), query, with_tail=True)
    states = {other.path: view.state for other, view in sorted(current.views.items()) if view.state is not None}
    if ref.path not in states:
        raise NotFound(f"there is nothing at {_address(ref)}")
    if not vocabularies.is_full_state(ref.collection, states[ref.path]):
        events = _events(reader, ref, checkpoint, current.records.get(ref), current.tail)
        state = vocabularies.full_state(ref.collection, events)
        states = states if state is None else {ref.path: state}
    return Snapshot(current.event_id, states)


def past_snapshot(
    reader: LogReader, server: int, ref: ObjectRef, event_id: int, boundary: RetentionBoundary
) -> Snapshot:
    """The full state of one object as of `event_id`. The snapshot has the EventId of the object's last event."""
    if has_expired_events(reader, server, ref, boundary):
        return _unchanged_snapshot(reader, server, ref, event_id)
    events = list(object_events(reader, server, ref, event_id))
    state = _fold(ref, events)
    if state is None:
        raise NotFound(f"{_address(ref)} did not exist as of event {event_id}")
    return Snapshot(events[-1].event_id, {ref.path: state})


def state_at(reader: LogReader, server: int, ref: ObjectRef, event_id: int) -> State | None:
    """The full state of one object as of `event_id`."""
    return _fold(ref, list(object_events(reader, server, ref, event_id)))


def object_events(reader: LogReader, server: int, ref: ObjectRef, event_id: int) -> Iterator[Event]:
    """The object's events up to `event_id`, in order."""

    def read(checkpoint: Checkpoint) -> tuple[Record | None, list[Commit]]:
        record = reader.views.get(checkpoint.view_name(objects_view(ref.collection)), [ref.path]).get(ref.path)
        tail = takewhile(lambda commit: commit.at_us <= event_id, reader.tail(checkpoint.head))
        return record, [commit for commit in tail if group_by_object([commit], ref.__eq__)]

    checkpoint, (record, tail) = reader.read_views(server, read, is_complete=lambda result: result[0] is not None)
    return takewhile(lambda event: event.event_id <= event_id, _events(reader, ref, checkpoint, record, tail))


def _events(
    reader: LogReader, ref: ObjectRef, checkpoint: Checkpoint, record: Record | None, tail: Iterable[Commit]
) -> Iterator[Event]:
    """The object's events according to its record, and those in the tail after it."""
    last_session = 0 if record is None else record.version
    newer = (commit for commit in tail if commit.session > last_session)
    for commit in chain(reader.object_commits(checkpoint, ref, record), newer):
        for events in group_by_object([commit], ref.__eq__).values():
            yield from events


def has_expired_events(reader: LogReader, server: int, ref: ObjectRef, boundary: RetentionBoundary) -> bool:
    """Whether some of the object's events are no longer kept. The others then do not add up to its state."""
    first = reader.first_session(server, ref)
    return first is not None and first <= boundary.head.session


def _unchanged_snapshot(reader: LogReader, server: int, ref: ObjectRef, event_id: int) -> Snapshot:
    """The current state of the object, if it has not changed since `event_id`."""
    current = object_snapshot(reader, server, ref)
    events = object_events(reader, server, ref, current.event_id)
    last_event_id = max((event.event_id for event in events), default=None)
    if last_event_id is None or last_event_id > event_id:
        raise NotFound(
            f"the state of {_address(ref)} as of event {event_id} is unknown: its first events are no longer kept"
        )
    return Snapshot(last_event_id, current.states)


def _fold(ref: ObjectRef, events: Sequence[Event]) -> State | None:
    """The full state after all events of the object, from the first on."""
    state = ObjectView().fold(ref.collection, events).state
    if state is None or vocabularies.is_full_state(ref.collection, state):
        return state
    return vocabularies.full_state(ref.collection, events)


def _address(ref: ObjectRef) -> str:
    return f"/objects/{ref.collection}{ref.path[:200]}"
