"""Snapshots: the exact states of objects as of one EventId."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, product, takewhile

from chalicelib.domain import vocabularies
from chalicelib.domain.errors import NotFound
from chalicelib.domain.events.event import Event
from chalicelib.domain.log.commit import Commit
from chalicelib.domain.objects.path_query import PathPattern, PathQuery
from chalicelib.domain.objects.ref import ObjectRef, State
from chalicelib.domain.views.object_view import ObjectView
from chalicelib.domain.views.record import MAX_CHARACTER, Checkpoint, Record, objects_view
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

    checkpoint: Checkpoint
    records: dict[ObjectRef, Record]
    """The stored records."""
    tail: list[Commit]
    """The commits after the checkpoint."""
    views: dict[ObjectRef, ObjectView]
    """The records with the tail folded into them, including deleted objects."""

    @property
    def event_id(self) -> int:
        return self.tail[-1].last_event_id if self.tail else self.checkpoint.head.last_event_id


def snapshot(reader: LogReader, server: int, collections: str | tuple[str, ...], query: PathQuery) -> Snapshot:
    """The current objects of one or several collections that match `query`."""
    collections = (collections,) if isinstance(collections, str) else collections
    current = current_views(reader, server, collections, query)
    states: dict[str, State] = {}
    for ref, view in sorted(current.views.items()):
        if view.state is not None:
            states[ref.path if ref.path not in states else f"{ref.collection}:{ref.path}"] = view.state
    return Snapshot(current.event_id, states)


def current_views(reader: LogReader, server: int, collections: tuple[str, ...], query: PathQuery) -> CurrentViews:
    """The matching objects of some collections."""

    def is_selected(ref: ObjectRef) -> bool:
        return ref.collection in collections and vocabularies.matches(query, ref)

    refs = [ObjectRef(collection, pattern.text) for collection, pattern in product(collections, query.patterns)]
    is_exact = all(map(vocabularies.is_unique, refs))
    checkpoint, records = reader.read_views(
        server,
        lambda checkpoint: _stored_records(checkpoint, collections, query, reader),
        is_complete=lambda records: is_exact and records.keys() >= set(refs),
    )
    views = {ref: ObjectView.from_record(record) for ref, record in records.items()}
    tail = list(reader.tail(checkpoint.head))
    for commit in tail:
        for ref, events in events_by_object(commit, is_selected).items():
            views[ref] = views.get(ref, ObjectView()).fold(ref.collection, events)
    return CurrentViews(checkpoint, records, tail, views)


def object_snapshot(reader: LogReader, server: int, ref: ObjectRef) -> Snapshot:
    """The current full state of one object. Views store large objects without some of their parts."""
    current = current_views(reader, server, (ref.collection,), PathQuery((PathPattern(ref.path),)))
    states = {other.path: view.state for other, view in sorted(current.views.items()) if view.state is not None}
    if ref.path not in states:
        raise NotFound(f"there is nothing at {_address(ref)}")
    if not vocabularies.is_full_state(ref.collection, states[ref.path]):
        events = _events(reader, ref, current.checkpoint, current.records.get(ref), current.tail)
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

    def read(checkpoint: Checkpoint) -> Record | None:
        return reader.views.get(checkpoint.view_name(objects_view(ref.collection)), [ref.path]).get(ref.path)

    checkpoint, record = reader.read_views(server, read, is_complete=lambda record: record is not None)
    events = _events(reader, ref, checkpoint, record, reader.tail(checkpoint.head))
    return takewhile(lambda event: event.event_id <= event_id, events)


def _events(
    reader: LogReader, ref: ObjectRef, checkpoint: Checkpoint, record: Record | None, tail: Iterable[Commit]
) -> Iterator[Event]:
    """The object's events according to its record, and those in the tail after it."""
    last_session = 0 if record is None else record.version
    newer = (commit for commit in tail if commit.session > last_session)
    for commit in chain(reader.object_commits(checkpoint, ref, record), newer):
        for events in events_by_object(commit, ref.__eq__).values():
            yield from events


def events_by_object(commit: Commit, is_selected: Callable[[ObjectRef], bool]) -> dict[ObjectRef, list[Event]]:
    """The commit's events grouped by the selected objects they affect."""
    events: dict[ObjectRef, list[Event]] = {}
    for event in commit.events:
        for ref in vocabularies.affected_objects(event.fields):
            if is_selected(ref):
                events.setdefault(ref, []).append(event)
    return events


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


def _stored_records(
    checkpoint: Checkpoint, collections: tuple[str, ...], query: PathQuery, reader: LogReader
) -> dict[ObjectRef, Record]:
    records: dict[ObjectRef, Record] = {}
    for collection, pattern in product(collections, query.patterns):
        if collection not in checkpoint.collections:
            continue
        view_name = checkpoint.view_name(objects_view(collection))
        ref = ObjectRef(collection, pattern.text)
        if vocabularies.is_unique(ref):
            record = reader.views.get(view_name, [ref.path]).get(ref.path)
            records |= {} if record is None else {ref: record}
            continue
        for prefix in vocabularies.path_prefixes(collection, pattern):
            for record in reader.views.range(view_name, prefix, prefix + MAX_CHARACTER):
                ref = ObjectRef(collection, record.item)
                if vocabularies.matches(query, ref):
                    records[ref] = record
    return records
