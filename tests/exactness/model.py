"""A reference model: a log as a list, and simple computations of every result. It uses no service."""

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
from chalicelib.domain.objects.summary import ObjectSummary
from chalicelib.domain.queries.event_filter import AnySelection, EitherSelection, ObjectSelection, Selection
from chalicelib.domain.queries.timeseries import TimeseriesQuery

States = dict[ObjectRef, State | None]


@dataclass
class LogModel:
    """All commits and events of one log."""

    server: int
    commits: list[Commit] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)

    def add(self, commit: Commit) -> None:
        self.commits.append(commit)
        self.events += commit.events

    @property
    def last_event_id(self) -> int:
        return self.events[-1].event_id if self.events else 0

    @property
    def greatest_job_number(self) -> int:
        """The greatest number of a job, 0 if there is none."""
        keys = [event.fields.key for event in self.events if event.fields.type[:1] == ("job",)]
        return max((int(key.removeprefix("/job/")) for key in keys if key is not None), default=0)

    def position_at(self, event_id: int) -> Head:
        """The last commit without an event after `event_id`, by linear search."""
        head = Head(self.server)
        for commit in self.commits:
            if commit.last_event_id <= event_id:
                head = commit.head
        return head

    def between(self, after: int, to: int) -> list[Event]:
        """The events after `after` and up to `to`."""
        return [event for event in self.events if after < event.event_id <= to]

    def snapshot(self, collection: str, query: PathQuery, event_id: int) -> dict[str, State]:
        """The objects that match `query` as of `event_id`."""
        states = fold_events({}, self.between(0, event_id), object_filter(collection, query))
        return existing_objects(states)

    def state(self, ref: ObjectRef, event_id: int) -> State | None:
        """The state of one object as of `event_id`."""
        return fold_events({}, self.between(0, event_id), ref.__eq__).get(ref)

    def summaries(self, collection: str, event_id: int) -> list[ObjectSummary]:
        """The objects of a collection as of `event_id`, most recently changed first."""
        sessions: dict[ObjectRef, int] = {}
        for event in self.between(0, event_id):
            sessions.update(dict.fromkeys(vocabularies.affected_objects(event.fields), event.id.session))
        listed = []
        for ref, session in sessions.items():
            state = self.state(ref, event_id) if ref.collection == collection else None
            if state is not None:
                listed.append((session, vocabularies.summarize(ref, state)))
        listed.sort(key=lambda item: item[1].path)
        listed.sort(key=lambda item: (item[0], item[1].updated_at or ""), reverse=True)
        return [summary for _, summary in listed]

    def last_expired_by_count(self, events: int | None) -> int:
        """The last expired EventId if the last `events` events are kept."""
        excess = 0 if events is None else len(self.events) - events
        return self.events[excess - 1].event_id if excess > 0 else 0

    def last_expired_by_age(self, oldest_us: int) -> int:
        """The last expired EventId if commits that ended before `oldest_us` expire."""
        return max((commit.last_event_id for commit in self.commits if commit.last_event_id < oldest_us), default=0)


def object_filter(collection: str, query: PathQuery) -> Callable[[ObjectRef], bool]:
    """A predicate for the objects of a collection that match `query`."""
    return lambda ref: ref.collection == collection and vocabularies.matches(query, ref)


def fold_events(states: States, events: Iterable[Event], is_relevant: Callable[[ObjectRef], bool]) -> States:
    """`states` after `events`. States are normalized to JSON, as if they had been stored."""
    result = dict(states)
    for event in events:
        for ref in vocabularies.affected_objects(event.fields):
            if is_relevant(ref):
                state = vocabularies.fold(ref.collection, result.get(ref), event)
                result[ref] = None if state is None else from_json(to_json(state))
    return result


def existing_objects(states: States) -> dict[str, State]:
    """The existing objects by path, in order."""
    return {ref.path: state for ref, state in sorted(states.items(), key=lambda item: item[0]) if state is not None}


def is_selected(event: Event, selection: Selection) -> bool:
    if isinstance(selection, AnySelection):
        return any(is_selected(event, item) for item in selection.items)
    if isinstance(selection, EitherSelection):
        halves = ((selection.first_after, selection.first), (selection.second_after, selection.second))
        return any(event.event_id > after and is_selected(event, half) for after, half in halves)
    event_type, key, _, _, tags = event.fields
    if not set(selection.tags or ()) <= set(tags) or (selection.keys is not None and key not in selection.keys):
        return False
    if selection.types is not None and not any(type_matches(event_type, pattern) for pattern in selection.types):
        return False
    if isinstance(selection, ObjectSelection):
        return any(
            map(object_filter(selection.collection, selection.query), vocabularies.affected_objects(event.fields))
        )
    return True


def type_matches(event_type: EventType, pattern: EventType) -> bool:
    if pattern[-1:] == ("*",):
        return any(type_matches(event_type[:n], pattern[:-1]) for n in range(len(event_type) + 1))
    return len(event_type) == len(pattern) and all(p in ("?", t) for t, p in zip(event_type, pattern, strict=True))


def latest(visible_events: Iterable[Event], selection: Selection) -> list[Event]:
    """The last event of each type, in order."""
    events: dict[EventType, Event] = {}
    for event in sorted(visible_events, key=_by_time):
        if is_selected(event, selection):
            events[event.fields.type] = event
    return sorted(events.values(), key=_by_time)


def timeseries(query: TimeseriesQuery, visible_events: Iterable[Event], all_events: Sequence[Event]) -> list[Event]:
    """All events of the result, without a limit."""
    sort_key = _by_source if query.by_source else _by_time
    events = [
        event for event in visible_events if _is_in_time_range(query, event) and is_selected(event, query.selection)
    ]
    events.sort(key=sort_key, reverse=query.descending)
    if query.last_event_id is None:
        return events
    last_events = [event for event in all_events if event.id == query.last_event_id and _has_place(query, event)]
    if not last_events:
        return []
    last_key = sort_key(last_events[0])
    return [
        event for event in events if (sort_key(event) < last_key if query.descending else sort_key(event) > last_key)
    ]


def _by_time(event: Event) -> tuple[int, tuple[int, int, int]]:
    return event.at_us, event.id


def _by_source(event: Event) -> tuple[int, tuple[int, int, int]]:
    assert event.fields.source_timestamp is not None
    return event.fields.source_timestamp, event.id


def _is_in_time_range(query: TimeseriesQuery, event: Event) -> bool:
    source = event.fields.source_timestamp
    if not _is_between(query.t_from, event.at_us, query.t_to):
        return False
    if query.by_source or query.source_t_from is not None or query.source_t_to is not None:
        return source is not None and _is_between(query.source_t_from, source, query.source_t_to)
    return True


def _has_place(query: TimeseriesQuery, event: Event) -> bool:
    if not query.by_source:
        return _is_between(query.t_from, event.at_us, query.t_to)
    source = event.fields.source_timestamp
    return source is not None and _is_between(query.source_t_from, source, query.source_t_to)


def _is_between(first: int | None, time_us: int, last_event_id: int | None) -> bool:
    return (first is None or first <= time_us) and (last_event_id is None or time_us <= last_event_id)
