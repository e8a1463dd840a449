"""Snapshots: the states of objects, exactly as they were at one EventId."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain

from chalicelib.domain import vocabularies
from chalicelib.domain.commits import Commit
from chalicelib.domain.errors import NotFound
from chalicelib.domain.events import Event
from chalicelib.domain.object_views import ObjectView
from chalicelib.domain.objects import ObjectRef, State
from chalicelib.domain.path_query import PathPattern, PathQuery
from chalicelib.domain.records import END, Checkpoint, objects_view
from chalicelib.services.present import Present


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


def snapshot(present: Present, server: int, collection: str, query: PathQuery) -> Snapshot:
    """The objects of the collection that `query` means, as they are now."""

    def wanted(ref: ObjectRef) -> bool:
        return ref.collection == collection and vocabularies.matches(query, ref)

    checkpoint, views = present.found(server, lambda found: _stored(found, collection, query, present))
    event_id = checkpoint.head.last
    for commit in present.after(checkpoint.head):
        for ref, events in touched(commit, wanted).items():
            views[ref] = views.get(ref, ObjectView()).folded(collection, events)
        event_id = commit.last
    states = {ref.path: view.state for ref, view in sorted(views.items()) if view.state is not None}
    return Snapshot(event_id, states)


def state_at(present: Present, server: int, ref: ObjectRef, event_id: int) -> State | None:
    """The state of one object when `event_id` had been written: its events folded up to there."""
    checkpoint, known = present.found(server, lambda found: present.sessions(found, ref))
    last = known[-1] if known else 0
    view = ObjectView()
    tail = (commit for commit in present.after(checkpoint.head) if commit.session > last)
    for commit in chain(present.log.commits(server, known), tail):
        if commit.at > event_id:
            break
        for _, events in touched(commit, ref.__eq__).items():
            view = view.folded(ref.collection, [event for event in events if event.event_id <= event_id])
    return view.state


def touched(commit: Commit, wanted: Callable[[ObjectRef], bool]) -> dict[ObjectRef, list[Event]]:
    """The wanted objects that the commit's events are about, each with its events."""
    found: dict[ObjectRef, list[Event]] = {}
    for event in commit.events:
        for ref in vocabularies.objects_of(event.stored.type, event.stored.key):
            if wanted(ref):
                found.setdefault(ref, []).append(event)
    return found


def _stored(checkpoint: Checkpoint, collection: str, query: PathQuery, present: Present) -> dict[ObjectRef, ObjectView]:
    view = checkpoint.view(objects_view(collection))
    found: dict[ObjectRef, ObjectView] = {}
    for pattern in query.patterns:
        start = _start(pattern)
        for record in present.views.range(view, start, start + END):
            ref = ObjectRef(collection, record.item)
            if vocabularies.matches(query, ref):
                found[ref] = ObjectView.of(record)
    return found


def _start(pattern: PathPattern) -> str:
    """What the items of all objects that the pattern means begin with."""
    return pattern.text if pattern.folder is None else pattern.folder
