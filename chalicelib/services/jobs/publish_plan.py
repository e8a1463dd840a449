"""Plan what a request with job events writes: the accepted events, and the finish events of job sets they complete.

Jobs that are created without an id get the next numbers.

Threads: any thread may plan. `_known_jobs` has no lock: it is a cache whose updates are atomic.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import chain

from chalicelib.domain import vocabularies
from chalicelib.domain.errors import BadInput, Busy
from chalicelib.domain.events.event import Event, JsonPayload, NewEvent, encode_all
from chalicelib.domain.events.ids import Id
from chalicelib.domain.log.append import MAX_BYTES, AppendCondition, both_conditions, encode_within_limits
from chalicelib.domain.objects.path_query import PathPattern, PathQuery
from chalicelib.domain.objects.ref import ObjectRef, State
from chalicelib.domain.queries.event_filter import ObjectSelection, Selection
from chalicelib.domain.queries.event_seq import Empty, NonEmpty, Torn
from chalicelib.domain.views.object_view import ObjectView
from chalicelib.domain.views.record import Checkpoint, objects_view
from chalicelib.domain.vocabularies import JOB_VOCABULARY
from chalicelib.domain.vocabularies.job.events import JOB, JOBSET, follow_up_event
from chalicelib.domain.vocabularies.job.jobsets import (
    MAX_LISTED_JOBS,
    finish_event,
    has_ended,
    has_exact_count,
    is_finish_due,
)
from chalicelib.domain.vocabularies.job.publishing_rules import needs_existing_job
from chalicelib.services.feeds.feed import FeedQuery, long_poll
from chalicelib.services.feeds.suspension import run_without_waiting
from chalicelib.services.jobs.job_numbers import AssignedNumbers, JobNumbers
from chalicelib.services.jobs.jobset_states import JobSetStates
from chalicelib.services.objects.snapshots import Snapshot, object_events
from chalicelib.services.ports import Clock
from chalicelib.services.reading.log_reader import LogReader
from chalicelib.services.reading.retention import Retention

CREATE_EVENTS = ((JOB, "create", "*"),)
COMPLETION_EVENTS = ((JOB, "finish", "*"), (JOBSET, "*"))
"""Events that may complete a job set or end it."""
MAX_KNOWN_JOBS = 100_000
"""Maximum size of the cache of existing jobs."""
MAX_KEYS_PER_QUERY = 100
MAX_SEARCH_S = 20.0
"""How long one request may search for the create events of its jobs."""


@dataclass(frozen=True, slots=True)
class IgnoredEvent:
    """An event that is not written, and the reason."""

    place: int
    """Index in the request."""
    reason: str


@dataclass(frozen=True, slots=True)
class PublishPlan:
    """The events to write, the events to ignore, and a condition.

    The condition fails if the job sets change meanwhile, or if another writer uses one of the numbers.
    """

    accepted: Sequence[NewEvent]
    """Events of the publisher."""
    finishes: Sequence[NewEvent] = ()
    """Finish events of job sets. They follow the publisher's events."""
    ignored: tuple[IgnoredEvent, ...] = ()
    condition: AppendCondition | None = None
    numbers: AssignedNumbers | None = None


class JobPlanner:
    """Decides which events of a request are written."""

    def __init__(
        self, reader: LogReader, retention: Retention, clock: Clock, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._reader = reader
        self._retention = retention
        self._clock = clock
        self._monotonic = monotonic
        self._known_jobs: set[tuple[int, str]] = set()
        self._jobset_states = JobSetStates(reader, monotonic)
        self.numbers = JobNumbers(reader)

    def plan(self, server: int, events: Sequence[NewEvent], condition: AppendCondition | None) -> PublishPlan:
        """`condition` is the publisher's own. Raises `BadInput` if it refers to a position after the log's end."""
        numbered, assigned = self.numbers.assign(server, events)
        if assigned is None:
            return self._plan(server, events, condition)
        try:
            _check_after(condition, assigned.event_id)
            plan = self._plan(server, numbered, condition)
        except BaseException:
            self.numbers.release(assigned)
            raise
        return replace(plan, condition=both_conditions(plan.condition, assigned.condition), numbers=assigned)

    def release_numbers(self, plan: PublishPlan) -> None:
        """Make the numbers of a plan that was not written available again."""
        if plan.numbers is not None:
            self.numbers.release(plan.numbers)

    def _plan(self, server: int, events: Sequence[NewEvent], condition: AppendCondition | None) -> PublishPlan:
        job_keys = self._existing_jobs(server, events)
        accepted: dict[int, NewEvent] = {}
        ignored: list[IgnoredEvent] = []
        for place, event in enumerate(events):
            if needs_existing_job(event) and event.key not in job_keys:
                ignored.append(ignored_event(place, event))
                continue
            if event.type[:2] == (JOB, "create"):
                job_keys.add(event.key)
            accepted[place] = event
        numbers = affected_jobsets(accepted.values())
        if not numbers:
            return PublishPlan([*accepted.values()], ignored=tuple(ignored))
        return self._plan_with_jobsets(server, accepted, ignored, numbers, condition)

    def remember_jobs(self, server: int, events: Sequence[NewEvent]) -> None:
        """Remember the jobs that a published request has created."""
        if len(self._known_jobs) > MAX_KNOWN_JOBS:
            self._known_jobs.clear()
        created = (event.key for event in events if event.type[:2] == (JOB, "create"))
        self._known_jobs |= {(server, key) for key in created if key is not None}

    def _existing_jobs(self, server: int, events: Sequence[NewEvent]) -> set[str | None]:
        """Keys of the jobs in `events` that exist in the log."""
        keys = {event.key for event in events if needs_existing_job(event) and event.key is not None}
        existing = {key for key in keys if (server, key) in self._known_jobs}
        existing |= self._stored_jobs(server, keys - existing)
        unknown = sorted(keys - existing)
        for start in range(0, len(unknown), MAX_KEYS_PER_QUERY):
            existing |= self._created_jobs(server, set(unknown[start : start + MAX_KEYS_PER_QUERY]))
        self._known_jobs |= {(server, key) for key in existing}
        return set(existing)

    def _stored_jobs(self, server: int, keys: Set[str]) -> set[str]:
        """Those of `keys` whose jobs have a state in the views: a job has none before its create event."""
        paths = {ref.path: key for key in keys for ref in JOB_VOCABULARY.objects_with_key(key) if ref.collection == JOB}
        if not paths:
            return set()

        def read(checkpoint: Checkpoint) -> set[str]:
            records = self._reader.views.get(checkpoint.view_name(objects_view(JOB)), sorted(paths))
            return {paths[path] for path, each in records.items() if ObjectView.from_record(each).state is not None}

        return self._reader.read_views(server, read, is_complete=lambda found: len(found) == len(paths))[1]

    def _created_jobs(self, server: int, keys: Set[str]) -> set[str]:
        """Those of `keys` for which the log has a create event. Raises `Busy` if the search takes too long."""
        selection = Selection(types=CREATE_EVENTS, keys=tuple(keys))
        created: set[str] = set()
        after: int | None = None
        deadline = self._monotonic() + MAX_SEARCH_S
        while True:
            query = FeedQuery(server, selection, after, formatter=_job_key)
            page = run_without_waiting(long_poll(query, self._reader, self._retention, self._monotonic))
            match page:
                case NonEmpty(event_id, texts):
                    created |= set(texts)
                    after = event_id
                case Empty(last_event_id, more_follows=True):
                    after = last_event_id
                case Empty():
                    return created
                case Torn():  # Retention has deleted events since the last page.
                    after = None
            if created >= keys:
                return created
            if self._monotonic() > deadline:
                raise Busy("searching for the jobs of the events takes too long, retry. Nothing was written")

    def _plan_with_jobsets(
        self,
        server: int,
        accepted: dict[int, NewEvent],
        ignored: list[IgnoredEvent],
        numbers: Sequence[int],
        publisher_condition: AppendCondition | None,
    ) -> PublishPlan:
        """Add the finish events of the job sets that the accepted events complete, and ignore duplicates."""
        query = PathQuery(tuple(PathPattern(f"/{number}") for number in numbers))
        refs = [ObjectRef(JOBSET, f"/{number}") for number in numbers]
        jobsets = self._jobset_states.read(server, refs)
        _check_after(publisher_condition, jobsets.event_id)
        events = self._numbered(server, accepted)
        events_by_set = _group_by_set(events, frozenset(refs))
        finishes: list[NewEvent] = []
        for ref in refs:
            surplus, finish = self._fold_jobset(server, ref, jobsets, events_by_set[ref])
            for place in surplus:
                del events[place]
                ignored.append(ignored_event(place, accepted.pop(place)))
            if finish is not None:
                texts = [*(event.text.encode() for event in events.values()), *encode_all(finishes)]
                finishes.append(_shrink_to_fit(texts, finish))
        # A job that begins a new run makes its set incomplete again.
        types = (*COMPLETION_EVENTS, *CREATE_EVENTS) if finishes else COMPLETION_EVENTS
        selection = ObjectSelection(types=types, collection=JOBSET, query=query)
        condition = AppendCondition(fail_if_events_match=selection, after=jobsets.event_id)
        ignored_in_order = tuple(sorted(ignored, key=lambda event: event.place))
        return PublishPlan([*accepted.values()], finishes, ignored_in_order, condition)

    def _numbered(self, server: int, accepted: Mapping[int, NewEvent]) -> dict[int, Event]:
        """The accepted events by place, as if they were in the log."""
        now_us = self._clock() * 1000
        texts = encode_within_limits([*accepted.values()], len(accepted))
        return {
            place: Event(Id(server, 1, instance), now_us, now_us, text)
            for instance, (place, text) in enumerate(zip(accepted, texts, strict=True), start=1)
        }

    def _fold_jobset(
        self, server: int, ref: ObjectRef, jobsets: Snapshot, events: Mapping[int, Event]
    ) -> tuple[list[int], State | None]:
        """Places of finish events of a set that has already ended, and its finish event if `events` complete it."""
        state = jobsets.states.get(ref.path)
        surplus: list[int] = []
        folded: list[Event] = []
        for place, event in events.items():
            if event.fields.type[:2] == (JOBSET, "finishJobSet") and state is not None and has_ended(state):
                surplus.append(place)
                continue
            state = vocabularies.fold(JOBSET, state, event)
            folded.append(event)
        if state is None or not is_finish_due(state):
            return surplus, None
        finished = state["finished"]
        if not has_exact_count(state):
            natives = [native for event in folded if (native := JOB_VOCABULARY.native_json(event)) is not None]
            finished = self._jobset_states.ended_jobs(server, ref, jobsets.event_id).count_after(natives)
            if finished < state["total"]:
                return surplus, None
        if finished > MAX_LISTED_JOBS and state["props"] is not None:
            return surplus, finish_event({**state, "jobs": []})
        history = object_events(self._reader, server, ref, jobsets.event_id)
        full_state = vocabularies.full_state(JOBSET, chain(history, folded))
        return surplus, None if full_state is None else finish_event(full_state)


def _check_after(condition: AppendCondition | None, last_event_id: int) -> None:
    """Raise `BadInput` if the publisher's condition refers to a position after the end of the log."""
    if condition is not None and condition.after > last_event_id:
        raise BadInput(f"after={condition.after} is beyond the end of the log: the last event is {last_event_id}")


def _group_by_set(events: Mapping[int, Event], refs: frozenset[ObjectRef]) -> dict[ObjectRef, dict[int, Event]]:
    """The events of each set, by place."""
    groups: dict[ObjectRef, dict[int, Event]] = {ref: {} for ref in refs}
    for place, event in events.items():
        for ref in refs.intersection(JOB_VOCABULARY.affected_objects(event.fields)):
            groups[ref][place] = event
    return groups


def ignored_event(place: int, event: NewEvent) -> IgnoredEvent:
    number = str(event.key).rpartition("/")[2]
    reason = f"there is no job {number}" if event.type[0] == JOB else f"job set {number} has already ended"
    return IgnoredEvent(place, reason)


def affected_jobsets(events: Iterable[NewEvent]) -> list[int]:
    """Numbers of the job sets that the events may complete or end."""
    numbers: set[int] = set()
    for event in events:
        fields = event.payload.data if isinstance(event.payload, JsonPayload) else {}
        if event.type[:2] == (JOB, "finish") and "jobset" in fields:
            numbers.add(fields["jobset"])
        if event.type[:2] == (JOBSET, "finishJobSet"):
            numbers.add(int(str(event.key).rpartition("/")[2]))
    return sorted(numbers)


def _shrink_to_fit(texts: Iterable[bytes], finish: State) -> NewEvent:
    """The finish event of a job set, without its jobs if the commit with `texts` would be too large."""
    event = follow_up_event(finish)
    size = sum(len(text) + 2 for text in (*texts, *encode_all([event])))
    return event if size <= MAX_BYTES else follow_up_event({**finish, "jobs": []})


def _job_key(event: Event) -> str:
    """The key of a job event. Empty if the event only has the type of one."""
    return "" if JOB_VOCABULARY.native_json(event) is None else event.fields.key or ""
