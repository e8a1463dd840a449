"""Snapshots: the states of objects, exactly as they were at one EventId."""

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
from chalicelib.domain.views.record import END, Checkpoint, objects_view
from chalicelib.services.reading.log_reader import LogReader
from chalicelib.services.reading.retention import Forgotten


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Objects by their paths, in order. Whoever follows after `event_id` misses nothing and sees nothing twice."""

    event_id: int
    states: dict[str, State]

    def one(self, path: str) -> State:
        """The object at `path`."""
        if path not in self.states:
            raise NotFound(f"there is nothing at {path[:200]}")
        return self.states[path]


def snapshot(present: LogReader, server: int, collections: str | tuple[str, ...], query: PathQuery) -> Snapshot:
    """The objects of the collection, or of several, that `query` means, as they are now."""
    collections = (collections,) if isinstance(collections, str) else collections
    event_id, views = object_views(present, server, collections, query)
    states: dict[str, State] = {}
    for ref, view in sorted(views.items()):
        if view.state is not None:
            states[ref.path if ref.path not in states else f"{ref.collection}:{ref.path}"] = view.state
    return Snapshot(event_id, states)


def object_views(
    present: LogReader, server: int, collections: tuple[str, ...], query: PathQuery
) -> tuple[int, dict[ObjectRef, ObjectView]]:
    """The objects of the collections that `query` means, gone ones too, and the EventId as of which they are so."""

    def wanted(ref: ObjectRef) -> bool:
        return ref.collection in collections and vocabularies.matches(query, ref)

    checkpoint, views = present.read_views(server, lambda found: _stored(found, collections, query, present))
    event_id = checkpoint.head.last
    for commit in present.after(checkpoint.head):
        for ref, events in touched(commit, wanted).items():
            views[ref] = views.get(ref, ObjectView()).folded(ref.collection, events)
        event_id = commit.last
    return event_id, views


def one(present: LogReader, server: int, ref: ObjectRef) -> Snapshot:
    """One object with all that it has to tell, as it is now."""
    found = snapshot(present, server, ref.collection, PathQuery((PathPattern(ref.path),)))
    if vocabularies.is_whole(ref.collection, found.one(ref.path)):
        return found
    state = _whole(present, server, ref, found.event_id)
    return found if state is None else Snapshot(found.event_id, {ref.path: state})


def past(present: LogReader, server: int, ref: ObjectRef, event_id: int, forgotten: Forgotten) -> Snapshot:
    """One object with all that it had to tell when `event_id` had been written, stamped with its last event then."""
    if _is_cut(present, server, ref, forgotten):
        return _last_known(present, server, ref, event_id)
    events = list(events_of(present, server, ref, event_id))
    state = _state(ref, events)
    if state is None:
        raise NotFound(f"there was nothing at {ref.path[:200]} when {event_id} had been written")
    return Snapshot(events[-1].event_id, {ref.path: state})


def state_at(present: LogReader, server: int, ref: ObjectRef, event_id: int) -> State | None:
    """The state of one object when `event_id` had been written: its events folded up to there."""
    return _state(ref, list(events_of(present, server, ref, event_id)))


def _is_cut(present: LogReader, server: int, ref: ObjectRef, forgotten: Forgotten) -> bool:
    """Whether some of the object's events are past retention: what is left does not add up to what it was."""
    _, known = present.read_views(server, lambda found: present.sessions(found, ref))
    return bool(known) and known[0] <= forgotten.before.session


def _last_known(present: LogReader, server: int, ref: ObjectRef, event_id: int) -> Snapshot:
    """The object as it is now, if it was so when `event_id` had been written."""
    now = one(present, server, ref)
    last = max((event.event_id for event in events_of(present, server, ref, now.event_id)), default=None)
    if last is None or last > event_id:
        raise NotFound(f"what was at {ref.path[:200]} then is not known: its first events are no longer kept")
    return Snapshot(last, now.states)


def _state(ref: ObjectRef, events: Sequence[Event]) -> State | None:
    """What the object's events, from the first on, add up to."""
    state = ObjectView().folded(ref.collection, events).state
    if state is None or vocabularies.is_whole(ref.collection, state):
        return state
    return vocabularies.whole(ref.collection, events)


def _whole(present: LogReader, server: int, ref: ObjectRef, event_id: int) -> State | None:
    return vocabularies.whole(ref.collection, events_of(present, server, ref, event_id))


def events_of(present: LogReader, server: int, ref: ObjectRef, event_id: int) -> Iterator[Event]:
    """The object's events up to `event_id`, in order."""
    checkpoint, known = present.read_views(server, lambda found: present.sessions(found, ref))
    last = known[-1] if known else 0
    tail = (commit for commit in present.after(checkpoint.head) if commit.session > last)
    for commit in chain(present.log.commits(server, known), tail):
        if commit.at > event_id:
            return
        for events in touched(commit, ref.__eq__).values():
            yield from (event for event in events if event.event_id <= event_id)


def touched(commit: Commit, wanted: Callable[[ObjectRef], bool]) -> dict[ObjectRef, list[Event]]:
    """The wanted objects that the commit's events are about, each with its events."""
    found: dict[ObjectRef, list[Event]] = {}
    for event in commit.events:
        for ref in vocabularies.objects_of(event.stored):
            if wanted(ref):
                found.setdefault(ref, []).append(event)
    return found


def _stored(
    checkpoint: Checkpoint, collections: tuple[str, ...], query: PathQuery, present: LogReader
) -> dict[ObjectRef, ObjectView]:
    found: dict[ObjectRef, ObjectView] = {}
    for collection, pattern in product(collections, query.patterns):
        view, start = checkpoint.view(objects_view(collection)), _start(pattern)
        for record in present.views.range(view, start, start + END):
            ref = ObjectRef(collection, record.item)
            if vocabularies.matches(query, ref):
                found[ref] = ObjectView.of(record)
    return found


def _start(pattern: PathPattern) -> str:
    """What the items of all objects that the pattern means begin with."""
    return pattern.text if pattern.folder is None else pattern.folder
