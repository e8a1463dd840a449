"""Publish job events according to the rules of AnyJob's controllers.

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
from chalicelib.domain.events.event import NewEvent
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.append import MAX_EVENTS, Append, AppendCondition, encode_within_limits
from chalicelib.domain.log.commit import Appended, Commit
from chalicelib.domain.queries.event_filter import EitherSelection
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
"""Maximum number of attempts while other processes write about the same job sets."""
LOCK_COUNT = 64
NO_LIMIT = sys.maxsize - 1
TOO_MANY_REQUESTS = "too many concurrent requests about the same job set. Nothing was written"


@dataclass(frozen=True, slots=True)
class Published:
    """The outcome of a request: the commit, or the head of the log if nothing was written."""

    outcome: Appended | Head
    event_count: int = 0
    """Number of the publisher's own events. The events that follow from them are at the end of the commit."""
    ignored: tuple[IgnoredEvent, ...] = ()


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

    def publish(
        self,
        server: int,
        events: Sequence[NewEvent],
        condition: AppendCondition | None = None,
        idempotency_key: str | None = None,
        by: str = "",
    ) -> Published:
        """Write the events and those that follow from them in one commit. A repeated request gets the same outcome.

        Raises `Busy` if too many other requests are about the same job sets.
        """
        digest = Append(server, encode_within_limits(events), "", condition).digest
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
            try:
                both_conditions = _both(condition, plan.condition)
                written = [*plan.accepted, *plan.finishes]
                max_events = max(len(written), MAX_EVENTS)
                outcome = self._publisher.publish(
                    server, written, both_conditions, idempotency_key, digest, max_events, by
                )
            except ConditionFailed as failure:
                if plan.condition is None or self._violates(server, condition, failure.event_id):
                    raise
                if attempt == MAX_ATTEMPTS:
                    raise Busy(TOO_MANY_REQUESTS) from failure
                continue  # The job sets have changed: plan again.
            self._planner.remember_jobs(server, events)
            ignored = plan.ignored
            if isinstance(outcome, Appended) and outcome.replayed:
                ignored = _missing_events(events, outcome.commit)
            return Published(outcome, len(events) - len(ignored), ignored)
        raise AssertionError("the last attempt returns or raises")

    def _violates(self, server: int, condition: AppendCondition | None, event_id: int) -> bool:
        """Whether the event violates the publisher's own condition."""
        before = self._reader.position_at(server, event_id - 1)
        events = [event for commit in self._reader.tail(before, 1) for event in commit.events]
        candidates = (event for event in events if event.event_id == event_id)
        return condition is not None and condition.first_match(candidates) is not None


def _missing_events(events: Sequence[NewEvent], commit: Commit) -> tuple[IgnoredEvent, ...]:
    """Events of the request that are not in its commit."""
    written = deque(commit.texts)
    ignored = []
    for place, (event, text) in enumerate(zip(events, encode_within_limits(events), strict=True)):
        if written and written[0] == text:
            written.popleft()
        else:
            ignored.append(ignored_event(place, event))
    return tuple(ignored)


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
