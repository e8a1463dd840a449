"""Publish job events according to the rules of AnyJob's controllers.

- A job that is created without an id gets the next number.
- An event about a job that does not exist is not written. It is reported as ignored.
- If an event completes a job set, the set's finish event is written in the same commit. If the publisher sends that
  event too, it is written once.

Threads: any thread may publish. Locks: `_jobset_locks` serialize requests about the same job set, which would otherwise
conflict and repeat their work. A request takes its locks in ascending order. Each request that waits for one occupies a
thread, so their number may be limited.
"""

import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from chalicelib.domain.errors import Busy, ConditionFailed
from chalicelib.domain.events.event import NewEvent, decode, encode
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.append import (
    MAX_EVENTS,
    Append,
    AppendCondition,
    both_conditions,
    encode_within_limits,
)
from chalicelib.domain.log.commit import Appended
from chalicelib.domain.vocabularies.job.events import JOB, id_from_key
from chalicelib.domain.vocabularies.job.publishing_rules import is_without_id, with_id
from chalicelib.services.jobs.job_numbers import JobNumbers
from chalicelib.services.jobs.publish_plan import (
    IgnoredEvent,
    JobPlanner,
    PublishPlan,
    affected_jobsets,
    ignored_event,
)
from chalicelib.services.log.publisher import Publisher
from chalicelib.services.ports import Clock
from chalicelib.services.reading.log_reader import LogReader
from chalicelib.services.reading.retention import Retention

MAX_ATTEMPTS = 64
"""Maximum number of attempts while other processes write about the same job sets, or create jobs."""
LOCK_COUNT = 64
NO_LIMIT = sys.maxsize - 1
TOO_MANY_REQUESTS = "too many concurrent requests about the same jobs or job sets. Nothing was written"


@dataclass(frozen=True, slots=True)
class Published:
    """The outcome of a request: the commit, or the head of the log if nothing was written."""

    outcome: Appended | Head
    event_count: int = 0
    """Number of the publisher's own events. The events that follow from them are at the end of the commit."""
    ignored: tuple[IgnoredEvent, ...] = ()
    ids: tuple[int, ...] = ()
    """The ids of the jobs that the request creates without an id, in order."""


HasReceipt = Callable[[int, str | None], bool]
"""Whether a request with this idempotency key was written to this log."""


class _JobsetLock:
    """A lock for which at most `max_waiting` threads wait."""

    def __init__(self, max_waiting: int) -> None:
        self._lock = threading.Lock()
        self._places = threading.Semaphore(max_waiting + 1)
        """One for each waiting thread, and one for that which holds the lock."""

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock. Raises `Busy` at once if too many threads wait for it."""
        if not self._places.acquire(blocking=False):
            raise Busy(TOO_MANY_REQUESTS)
        try:
            with self._lock:
                yield
        finally:
            self._places.release()


class JobPublisher:
    """Appends job events."""

    def __init__(
        self,
        publisher: Publisher,
        reader: LogReader,
        retention: Retention,
        clock: Clock,
        has_receipt: HasReceipt,
        max_waiting: int = NO_LIMIT,
    ) -> None:
        self._publisher = publisher
        self._reader = reader
        self._has_receipt = has_receipt
        self._planner = JobPlanner(reader, retention, clock)
        self._jobset_locks = tuple(_JobsetLock(max_waiting) for _ in range(LOCK_COUNT))

    @property
    def numbers(self) -> JobNumbers:
        """The numbers of new jobs."""
        return self._planner.numbers

    def publish(
        self,
        server: int,
        events: Sequence[NewEvent],
        condition: AppendCondition | None = None,
        idempotency_key: str | None = None,
        by: str = "",
        digest: str = "",
    ) -> Published:
        """Write the events and those that follow from them in one commit. A repeated request gets the same outcome.

        `digest` identifies the request, if its events may differ when it is repeated. Raises `Busy` if too many other
        requests are about the same job sets.
        """
        digest = digest or Append(server, encode_within_limits(events), "", condition).digest
        if condition is not None and condition.after_position is not None:
            after = self._reader.event_id_at(server, condition.after_position)
            condition = condition.model_copy(update={"after": after, "after_position": None})
        with ExitStack() as locks:
            for index in sorted({hash((server, number)) % LOCK_COUNT for number in affected_jobsets(events)}):
                locks.enter_context(self._jobset_locks[index].held())
            return self._publish(server, events, condition, idempotency_key, digest, by)

    def _publish(
        self,
        server: int,
        events: Sequence[NewEvent],
        condition: AppendCondition | None,
        idempotency_key: str | None,
        digest: str,
        by: str,
    ) -> Published:
        for attempt in range(1, MAX_ATTEMPTS + 1):
            plan = self._planner.plan(server, events, condition)
            if not plan.accepted and self._has_receipt(server, idempotency_key):
                # A repeated request: publish all events to get the outcome of the first one.
                plan = PublishPlan(events)
            is_written = False
            try:
                either = both_conditions(condition, plan.condition)
                new_events = [*plan.accepted, *plan.finishes]
                max_events = max(len(new_events), MAX_EVENTS)
                outcome = self._publisher.publish(server, new_events, either, idempotency_key, digest, max_events, by)
                is_written = isinstance(outcome, Appended) and not outcome.replayed
            except ConditionFailed as failure:
                if plan.condition is None or self._violates(server, condition, failure.event_id):
                    raise
                if attempt == MAX_ATTEMPTS:
                    raise Busy(TOO_MANY_REQUESTS) from failure
                continue  # The job sets have changed, or a number is taken: plan again.
            finally:
                if not is_written:
                    self._planner.release_numbers(plan)
            if isinstance(outcome, Appended) and outcome.replayed:
                return _replayed(events, outcome)
            self._planner.remember_jobs(server, plan.accepted)
            ids = () if plan.numbers is None else tuple(plan.numbers.numbers)
            return Published(outcome, len(events) - len(plan.ignored), plan.ignored, ids)
        raise AssertionError("the last attempt returns or raises")

    def _violates(self, server: int, condition: AppendCondition | None, event_id: int) -> bool:
        """Whether the event violates the publisher's own condition."""
        before = self._reader.position_at(server, event_id - 1)
        events = [event for commit in self._reader.tail(before, 1) for event in commit.events]
        candidates = (event for event in events if event.event_id == event_id)
        return condition is not None and condition.first_match(candidates) is not None


def _replayed(events: Sequence[NewEvent], outcome: Appended) -> Published:
    """The outcome of a repeated request: its commit shows which events were ignored, and which ids were assigned."""
    written = deque(outcome.commit.texts)
    ignored: list[IgnoredEvent] = []
    ids: list[int] = []
    for place, event in enumerate(events):
        number = id_from_key(JOB, decode(written[0]).key) if written and is_without_id(event) else None
        expected = event if number is None else with_id(event, number)
        if written and written[0].encode() == encode(expected):
            written.popleft()
            ids += () if number is None else (number,)
        else:
            ignored.append(ignored_event(place, event))
    return Published(outcome, len(events) - len(ignored), tuple(ignored), tuple(ids))
