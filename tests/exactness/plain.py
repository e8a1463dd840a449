"""Plain: a log as a list, and every answer computed from it the simple way. Nothing of the services is used here."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from pydantic_core import from_json, to_json

from chalicelib.domain import vocabularies
from chalicelib.domain.events.event import Event
from chalicelib.domain.events.event_type import EventType
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.commit import Commit
from chalicelib.domain.objects.path_query import PathQuery
from chalicelib.domain.objects.ref import ObjectRef, State
from chalicelib.domain.queries.event_filter import ObjectSelection, Selection
from chalicelib.domain.queries.timeseries import TimeseriesQuery

States = dict[ObjectRef, State | None]


@dataclass
class Plain:
    """One log: all its commits, all its events."""

    server: int
    commits: list[Commit] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)

    def add(self, commit: Commit) -> None:
        """The log has grown by `commit`."""
        self.commits.append(commit)
        self.events += commit.events

    @property
    def last(self) -> int:
        """The EventId of the last event."""
        return self.events[-1].event_id if self.events else 0

    def at(self, event_id: int) -> Head:
        """The last commit with nothing after `event_id`, looked for from the first."""
        found = Head(self.server)
        for commit in self.commits:
            if commit.last <= event_id:
                found = commit.head
        return found

    def between(self, after: int, to: int) -> list[Event]:
        """The events after `after`, up to `to`."""
        return [event for event in self.events if after < event.event_id <= to]

    def snapshot(self, collection: str, query: PathQuery, event_id: int) -> dict[str, State]:
        """The objects that `query` means when `event_id` had been written."""
        states = folded({}, self.between(0, event_id), is_meant_by(collection, query))
        return existing(states)

    def state(self, ref: ObjectRef, event_id: int) -> State | None:
        """The state of one object when `event_id` had been written."""
        return folded({}, self.between(0, event_id), ref.__eq__).get(ref)

    def wire(self, event_id: int) -> str:
        """An event's JSON."""
        return next(event.wire for event in self.events if event.event_id == event_id)

    def kept(self, events: int | None) -> int:
        """The last EventId that is forgotten if so many events are kept."""
        too_many = 0 if events is None else len(self.events) - events
        return self.events[too_many - 1].event_id if too_many > 0 else 0

    def kept_since(self, oldest_us: int) -> int:
        """The last EventId that is forgotten if commits that ended before `oldest_us` are."""
        return max((commit.last for commit in self.commits if commit.last < oldest_us), default=0)


def is_meant_by(collection: str, query: PathQuery) -> Callable[[ObjectRef], bool]:
    """Which objects `query` means."""
    return lambda ref: ref.collection == collection and vocabularies.matches(query, ref)


def folded(states: States, events: Iterable[Event], wanted: Callable[[ObjectRef], bool]) -> States:
    """`states` after `events`. A state is JSON, whether it has been stored or not."""
    found = dict(states)
    for event in events:
        for ref in vocabularies.objects_of(event.stored):
            if wanted(ref):
                state = vocabularies.fold(ref.collection, found.get(ref), event)
                found[ref] = None if state is None else from_json(to_json(state))
    return found


def existing(states: States) -> dict[str, State]:
    """The objects that exist, by path, in order."""
    return {ref.path: state for ref, state in sorted(states.items(), key=lambda one: one[0]) if state is not None}


def is_selected(event: Event, selection: Selection) -> bool:
    """Tell whether `event` is meant."""
    event_type, key, _, _ = event.stored
    if selection.types is not None and not any(is_like(event_type, pattern) for pattern in selection.types):
        return False
    if selection.keys is not None and key not in selection.keys:
        return False
    if isinstance(selection, ObjectSelection):
        return any(map(is_meant_by(selection.collection, selection.query), vocabularies.objects_of(event.stored)))
    return True


def is_like(event_type: EventType, pattern: EventType) -> bool:
    """Tell whether the pattern selects the type."""
    if pattern[-1:] == ("*",):
        return any(is_like(event_type[:n], pattern[:-1]) for n in range(len(event_type) + 1))
    return len(event_type) == len(pattern) and all(p in ("?", t) for t, p in zip(event_type, pattern, strict=True))


def latest(visible: Iterable[Event], selection: Selection) -> list[Event]:
    """The last event of each type, in order."""
    found: dict[EventType, Event] = {}
    for event in sorted(visible, key=_by_time):
        if is_selected(event, selection):
            found[event.stored.type] = event
    return sorted(found.values(), key=_by_time)


def timeseries(query: TimeseriesQuery, visible: Iterable[Event], all_events: Sequence[Event]) -> list[Event]:
    """All events of the answer, however many."""
    order = _by_source if query.by_source else _by_time
    found = [event for event in visible if _is_in_time(query, event) and is_selected(event, query.selection)]
    found.sort(key=order, reverse=query.descending)
    if query.last_event_id is None:
        return found
    seen = [event for event in all_events if event.id == query.last_event_id and _is_in_time(query, event)]
    if not seen:
        return []
    place = order(seen[0])
    return [event for event in found if (order(event) < place if query.descending else order(event) > place)]


def _by_time(event: Event) -> tuple[int, tuple[int, int, int]]:
    return event.at, event.id


def _by_source(event: Event) -> tuple[int, tuple[int, int, int]]:
    assert event.stored.source_timestamp is not None
    return event.stored.source_timestamp, event.id


def _is_in_time(query: TimeseriesQuery, event: Event) -> bool:
    source = event.stored.source_timestamp
    if not _lies(query.t_from, event.at, query.t_to):
        return False
    if query.by_source or query.source_t_from is not None or query.source_t_to is not None:
        return source is not None and _lies(query.source_t_from, source, query.source_t_to)
    return True


def _lies(first: int | None, time_us: int, last: int | None) -> bool:
    return (first is None or first <= time_us) and (last is None or time_us <= last)
