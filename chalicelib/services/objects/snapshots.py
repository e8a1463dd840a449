"""Snapshots: the exact states of objects as of one EventId."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, product

from chalicelib.domain import vocabularies
from chalicelib.domain.errors import NotFound
from chalicelib.domain.events.event import Event
from chalicelib.domain.log.commit import Commit
from chalicelib.domain.objects.path_query import PathPattern, PathQuery
from chalicelib.domain.objects.ref import ObjectRef, State
from chalicelib.domain.views.object_view import ObjectView
from chalicelib.domain.views.record import MAX_CHARACTER, Checkpoint, objects_view
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


def snapshot(reader: LogReader, server: int, collections: str | tuple[str, ...], query: PathQuery) -> Snapshot:
    """The current objects of one or several collections that match `query`."""
    collections = (collections,) if isinstance(collections, str) else collections
    event_id, views = object_views(reader, server, collections, query)
    states: dict[str, State] = {}
    for ref, view in sorted(views.items()):
        if view.state is not None:
            states[ref.path if ref.path not in states else f"{ref.collection}:{ref.path}"] = view.state
    return Snapshot(event_id, states)


def object_views(
    reader: LogReader, server: int, collections: tuple[str, ...], query: PathQuery
) -> tuple[int, dict[ObjectRef, ObjectView]]:
    """The EventId of the snapshot, and the matching objects, including deleted ones."""

    def is_selected(ref: ObjectRef) -> bool:
        return ref.collection in collections and vocabularies.matches(query, ref)

    refs = [ObjectRef(collection, pattern.text) for collection, pattern in product(collections, query.patterns)]
    is_exact = all(map(vocabularies.is_unique, refs))
    checkpoint, views = reader.read_views(
        server,
        lambda checkpoint: _stored_views(checkpoint, collections, query, reader),
        is_complete=lambda views: is_exact and views.keys() >= set(refs),
    )
    event_id = checkpoint.head.last_event_id
    for commit in reader.tail(checkpoint.head):
        for ref, events in events_by_object(commit, is_selected).items():
            views[ref] = views.get(ref, ObjectView()).fold(ref.collection, events)
        event_id = commit.last_event_id
    return event_id, views


def object_snapshot(reader: LogReader, server: int, ref: ObjectRef) -> Snapshot:
    """The current full state of one object. Views store large objects without some of their parts."""
    stored = snapshot(reader, server, ref.collection, PathQuery((PathPattern(ref.path),)))
    if ref.path not in stored.states:
        raise NotFound(f"there is nothing at {_address(ref)}")
    if vocabularies.is_full_state(ref.collection, stored.state_of(ref.path)):
        return stored
    state = vocabularies.full_state(ref.collection, object_events(reader, server, ref, stored.event_id))
    return stored if state is None else Snapshot(stored.event_id, {ref.path: state})


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
    checkpoint, sessions = reader.read_views(server, lambda checkpoint: reader.sessions_of(checkpoint, ref), bool)
    last_session = sessions[-1] if sessions else 0
    tail = (commit for commit in reader.tail(checkpoint.head) if commit.session > last_session)
    for commit in chain(reader.log.commits(server, sessions), tail):
        if commit.at_us > event_id:
            return
        for events in events_by_object(commit, ref.__eq__).values():
            yield from (event for event in events if event.event_id <= event_id)


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
    _, sessions = reader.read_views(server, lambda checkpoint: reader.sessions_of(checkpoint, ref), bool)
    return bool(sessions) and sessions[0] <= boundary.head.session


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


def _stored_views(
    checkpoint: Checkpoint, collections: tuple[str, ...], query: PathQuery, reader: LogReader
) -> dict[ObjectRef, ObjectView]:
    views: dict[ObjectRef, ObjectView] = {}
    for collection, pattern in product(collections, query.patterns):
        if collection not in checkpoint.collections:
            continue
        view_name = checkpoint.view_name(objects_view(collection))
        ref = ObjectRef(collection, pattern.text)
        if vocabularies.is_unique(ref):
            record = reader.views.get(view_name, [ref.path]).get(ref.path)
            views |= {} if record is None else {ref: ObjectView.from_record(record)}
            continue
        for prefix in vocabularies.path_prefixes(collection, pattern):
            for record in reader.views.range(view_name, prefix, prefix + MAX_CHARACTER):
                ref = ObjectRef(collection, record.item)
                if vocabularies.matches(query, ref):
                    views[ref] = ObjectView.from_record(record)
    return views
