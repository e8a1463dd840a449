"""Publish job events according to the rules of AnyJob's controllers.

- An event about a job that does not exist is not written. It is reported as ignored.
- If an event completes a job set, the set's finish event is written in the same commit. If the publisher sends that
  event too, it is written once.

Threads: any thread may publish. Locks: `_jobset_locks` serialize requests about the same job set, which would otherwise
conflict and repeat their work. A request takes its locks in ascending order. `_known_jobs` has no lock: it is a cache
whose updates are atomic.
"""

import threading
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from chalicelib.domain.errors import BadInput, Busy, ConditionFailed
from chalicelib.domain.events.event import Event, JsonPayload, NewEvent, encode_all
from chalicelib.domain.events.head import Head
from chalicelib.domain.events.ids import Id
from chalicelib.domain.log.append import MAX_BYTES, MAX_EVENTS, Append, AppendCondition, encode_within_limits
from chalicelib.domain.log.commit import Appended
from chalicelib.domain.objects.path_query import PathPattern, PathQuery
from chalicelib.domain.objects.ref import ObjectRef, State
from chalicelib.domain.queries.event_filter import EitherSelection, ObjectSelection, Selection
from chalicelib.domain.queries.event_seq import NonEmpty
from chalicelib.domain.vocabularies import JOB_VOCABULARY, fold
from chalicelib.domain.vocabularies.job.events import JOB, JOBSET
from chalicelib.domain.vocabularies.job.jobsets import finish_event, has_ended, is_finish_due
from chalicelib.services.feeds.feed import FeedQuery, long_poll
from chalicelib.services.feeds.suspension import run_without_waiting
from chalicelib.services.log.publisher import Publisher
from chalicelib.services.objects.snapshots import object_events, snapshot
from chalicelib.services.ports import Clock
from chalicelib.services.reading.log_reader import LogReader
from chalicelib.services.reading.retention import Retention

CREATE_EVENTS = ((JOB, "create", "*"),)
COMPLETION_EVENTS = ((JOB, "finish", "*"), (JOBSET, "*"))
"""Events that may change whether a job set is complete or has ended."""
MAX_KNOWN_JOBS = 100_000
"""Maximum size of the cache of existing jobs."""
MAX_KEYS_PER_QUERY = 100
MAX_ATTEMPTS = 64
"""Maximum number of attempts while other processes write about the same job sets."""
LOCK_COUNT = 64


@dataclass(frozen=True, slots=True)
class IgnoredEvent:
    """An event that is not written, and the reason."""

    place: int
    """Index in the request."""
    reason: str


@dataclass(frozen=True, slots=True)
class Published:
    """The outcome of a request: the commit, or the head of the log if nothing was written."""

    outcome: Appended | Head
    ignored: tuple[IgnoredEvent, ...] = ()


@dataclass(frozen=True, slots=True)
class _Plan:
    """The events to write, the events to ignore, and a condition that fails if the job sets change meanwhile."""

    events: Sequence[NewEvent]
    ignored: tuple[IgnoredEvent, ...]
    condition: AppendCondition | None


class JobPublisher:
    """Appends job events."""

    def __init__(self, publisher: Publisher, reader: LogReader, retention: Retention, clock: Clock) -> None:
        self._publisher = publisher
        self._reader = reader
        self._retention = retention
        self._clock = clock
        self._known_jobs: set[tuple[int, str]] = set()
        self._jobset_locks = tuple(threading.Lock() for _ in range(LOCK_COUNT))

    def publish(
        self,
        server: int,
        events: Sequence[NewEvent],
        condition: AppendCondition | None = None,
        idempotency_key: str | None = None,
    ) -> Published:
        """Write the events and those that follow from them in one commit. A repeated request gets the same outcome."""
        digest = Append(server, encode_within_limits(events), "", condition).digest
        with ExitStack() as locks:
            for index in sorted({hash((server, number)) % LOCK_COUNT for number in _affected_jobsets(events)}):
                locks.enter_context(self._jobset_locks[index])
            return self._publish(server, events, condition, idempotency_key, digest)

    def _publish(
        self,
        server: int,
        events: Sequence[NewEvent],
        condition: AppendCondition | None,
        idempotency_key: str | None,
        digest: str,
    ) -> Published:
        for attempt in range(1, MAX_ATTEMPTS + 1):
            plan = self._plan(server, events, condition)
            if not plan.events and self._has_receipt(server, idempotency_key):
                # A repeated request: publish all events to get the outcome of the first one.
                plan = _Plan(events, (), None)
            try:
                both_conditions = _both(condition, plan.condition)
                max_events = max(len(plan.events), MAX_EVENTS)
                outcome = self._publisher.publish(
                    server, plan.events, both_conditions, idempotency_key, digest, max_events
                )
            except ConditionFailed as failure:
                if plan.condition is None or self._violates(server, condition, failure.event_id):
                    raise
                if attempt == MAX_ATTEMPTS:
                    raise Busy("too many concurrent requests about the same job set. Nothing was written") from failure
                continue  # The job sets have changed: plan again.
            self._remember_jobs(server, events)
            if isinstance(outcome, Appended) and outcome.replayed:
                return Published(outcome, _missing_events(events, outcome))
            return Published(outcome, plan.ignored)
        raise AssertionError("the last attempt returns or raises")

    def _violates(self, server: int, condition: AppendCondition | None, event_id: int) -> bool:
        """Whether the event violates the publisher's own condition."""
        before = self._reader.position_at(server, event_id - 1)
        events = [event for commit in self._reader.tail(before, 1) for event in commit.events]
        candidates = (event for event in events if event.event_id == event_id)
        return condition is not None and condition.first_match(candidates) is not None

    def _has_receipt(self, server: int, idempotency_key: str | None) -> bool:
        if idempotency_key is None:
            return False
        return self._reader.log.receipt(server, idempotency_key, self._clock() // 1000) is not None

    def _plan(self, server: int, events: Sequence[NewEvent], condition: AppendCondition | None) -> _Plan:
        job_keys = self._existing_jobs(server, events)
        accepted: dict[int, NewEvent] = {}
        ignored: list[IgnoredEvent] = []
        for place, event in enumerate(events):
            if _needs_existing_job(event) and event.key not in job_keys:
                ignored.append(_ignored_event(place, event))
                continue
            if event.type[:2] == (JOB, "create"):
                job_keys.add(event.key)
            accepted[place] = event
        numbers = _affected_jobsets(accepted.values())
        if not numbers:
            return _Plan([*accepted.values()], tuple(ignored), None)
        return self._plan_with_jobsets(server, accepted, ignored, numbers, condition)

    def _existing_jobs(self, server: int, events: Sequence[NewEvent]) -> set[str | None]:
        """Keys of the jobs in `events` that exist in the log."""
        keys = {event.key for event in events if _needs_existing_job(event)}
        existing = {key for key in keys if key is not None and (server, key) in self._known_jobs}
        unknown = [key for key in keys - existing if key is not None]
        for start in range(0, len(unknown), MAX_KEYS_PER_QUERY):
            existing |= self._created_jobs(server, tuple(unknown[start : start + MAX_KEYS_PER_QUERY]))
        self._known_jobs |= {(server, key) for key in existing}
        return set(existing)

    def _created_jobs(self, server: int, keys: tuple[str, ...]) -> set[str]:
        """Those of `keys` for which the log has a create event."""
        selection = Selection(types=CREATE_EVENTS, keys=keys)
        created: set[str] = set()
        after: int | None = None
        while True:
            query = FeedQuery(server, selection, after, formatter=_job_key)
            page = run_without_waiting(long_poll(query, self._reader, self._retention))
            if not isinstance(page, NonEmpty):
                return created
            created |= set(page.texts)
            after = page.event_id

    def _plan_with_jobsets(
        self,
        server: int,
        accepted: dict[int, NewEvent],
        ignored: list[IgnoredEvent],
        numbers: Sequence[int],
        publisher_condition: AppendCondition | None,
    ) -> _Plan:
        """Add the finish events of the job sets that the accepted events complete, and ignore duplicates."""
        query = PathQuery(tuple(PathPattern(f"/{number}") for number in numbers))
        jobsets = snapshot(self._reader, server, JOBSET, query)
        if publisher_condition is not None and publisher_condition.after > jobsets.event_id:
            raise BadInput(
                f"after={publisher_condition.after} is beyond the end of the log: the last event is {jobsets.event_id}"
            )
        selection = ObjectSelection(types=COMPLETION_EVENTS, collection=JOBSET, query=query)
        condition = AppendCondition(fail_if_events_match=selection, after=jobsets.event_id)
        finishes: list[NewEvent] = []
        for number in numbers:
            state = jobsets.states.get(f"/{number}")
            finish_places = [place for place, event in accepted.items() if _is_finish_of(event, number)]
            surplus = finish_places if state is not None and has_ended(state) else finish_places[1:]
            ignored += [_ignored_event(place, accepted.pop(place)) for place in surplus]
            if not finish_places:
                events = [*accepted.values(), *finishes]
                finishes += self._finish_if_due(
                    server, ObjectRef(JOBSET, f"/{number}"), state, jobsets.event_id, events
                )
        ignored_in_order = tuple(sorted(ignored, key=lambda event: event.place))
        return _Plan([*accepted.values(), *finishes], ignored_in_order, condition)

    def _finish_if_due(
        self, server: int, ref: ObjectRef, state: State | None, event_id: int, events: Sequence[NewEvent]
    ) -> list[NewEvent]:
        """The finish event of a job set, if `events` complete it. `state` is its state as of `event_id`."""
        now_us = self._clock() * 1000
        texts = encode_within_limits(events, len(events))
        decoded = [Event(Id(server, 1, instance), now_us, now_us, text) for instance, text in enumerate(texts, start=1)]
        jobset_events = [event for event in decoded if ref in JOB_VOCABULARY.affected_objects(event.fields)]
        for event in jobset_events:
            state = fold(JOBSET, state, event)
        if state is None or not is_finish_due(state):
            return []
        history = [*object_events(self._reader, server, ref, event_id), *jobset_events]
        with_fields = ((event, JOB_VOCABULARY.native_json(event)) for event in history)
        full_state = JOB_VOCABULARY.full_state(
            JOBSET, ((event, fields) for event, fields in with_fields if fields is not None)
        )
        return [] if full_state is None else [_shrink_to_fit(texts, finish_event(full_state))]

    def _remember_jobs(self, server: int, events: Sequence[NewEvent]) -> None:
        if len(self._known_jobs) > MAX_KNOWN_JOBS:
            self._known_jobs.clear()
        created = (event.key for event in events if event.type[:2] == (JOB, "create"))
        self._known_jobs |= {(server, key) for key in created if key is not None}


def _needs_existing_job(event: NewEvent) -> bool:
    return event.type[:2] in ((JOB, "progress"), (JOB, "finish"))


def _ignored_event(place: int, event: NewEvent) -> IgnoredEvent:
    number = str(event.key).rpartition("/")[2]
    reason = f"there is no job {number}" if event.type[0] == JOB else f"job set {number} has already ended"
    return IgnoredEvent(place, reason)


def _missing_events(events: Sequence[NewEvent], outcome: Appended) -> tuple[IgnoredEvent, ...]:
    """Events of the request that are not in its commit."""
    written = deque(event.text for event in outcome.commit.events)
    ignored = []
    for place, (event, text) in enumerate(zip(events, encode_within_limits(events), strict=True)):
        if written and written[0] == text:
            written.popleft()
        else:
            ignored.append(_ignored_event(place, event))
    return tuple(ignored)


def _is_finish_of(event: NewEvent, number: int) -> bool:
    return event.key == f"/{JOBSET}/{number}" and event.type[1] == "finishJobSet"


def _shrink_to_fit(texts: Sequence[str], finish: State) -> NewEvent:
    """The finish event of a job set, without its jobs if the commit with `texts` would be too large."""
    event = JOB_VOCABULARY.new_event(finish)
    size = sum(len(text) + 2 for text in (*map(str.encode, texts), *encode_all([event])))
    return event if size <= MAX_BYTES else JOB_VOCABULARY.new_event({**finish, "jobs": []})


def _affected_jobsets(events: Iterable[NewEvent]) -> list[int]:
    """Numbers of the job sets that the events may complete or end."""
    numbers: set[int] = set()
    for event in events:
        fields = event.payload.data if isinstance(event.payload, JsonPayload) else {}
        if event.type[:2] == (JOB, "finish") and "jobset" in fields:
            numbers.add(fields["jobset"])
        if event.type[:2] == (JOBSET, "finishJobSet"):
            numbers.add(int(str(event.key).rpartition("/")[2]))
    return sorted(numbers)


def _both(first: AppendCondition | None, second: AppendCondition | None) -> AppendCondition | None:
    """A condition that holds if both hold."""
    if first is None or second is None:
        return first or second
    either = EitherSelection(
        first=first.fail_if_events_match,
        first_after=first.after,
        second=second.fail_if_events_match,
        second_after=second.after,
    )
    return AppendCondition(fail_if_events_match=either, after=min(first.after, second.after))


def _job_key(event: Event) -> str:
    """The key of a job event. Empty if the event only has the type of one."""
    return "" if JOB_VOCABULARY.native_json(event) is None else event.fields.key or ""
