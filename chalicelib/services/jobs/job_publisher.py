"""Job publishing: what AnyJob's controllers know about jobs before they tell about them, done for publishers.

What a job reports that nobody created is ignored, and said to be. The finish that completes a set of jobs brings the
set's own finish with it, in the same commit; a publisher that sends it too does not double it.
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
from chalicelib.domain.log.append import MOST_BYTES, MOST_EVENTS, Append, AppendCondition, encoded
from chalicelib.domain.log.commit import Appended
from chalicelib.domain.objects.path_query import PathPattern, PathQuery
from chalicelib.domain.objects.ref import ObjectRef, State
from chalicelib.domain.queries.event_filter import Either, ObjectSelection, Selection
from chalicelib.domain.queries.event_seq import NonEmpty
from chalicelib.domain.vocabularies import fold, job
from chalicelib.domain.vocabularies.job.events import JOB, JOBSET
from chalicelib.domain.vocabularies.job.jobsets import finish_of, is_complete, is_over
from chalicelib.services.feeds.feed import FeedQuery, following
from chalicelib.services.feeds.suspension import at_once
from chalicelib.services.log.publisher import Publish
from chalicelib.services.objects.snapshots import events_of, snapshot
from chalicelib.services.ports import Clock
from chalicelib.services.reading.log_reader import LogReader
from chalicelib.services.reading.retention import Retention

CREATED = ((JOB, "create", "*"),)
MOST_KNOWN = 100_000
"""So many jobs that exist are remembered."""
TRIES = 64
"""So often a request looks again because another process spoke of the same set."""
TURNS = 64

FINISHES = ((JOB, "finish", "*"), (JOBSET, "*"))
"""What may change whether a set is complete or over."""


@dataclass(frozen=True, slots=True)
class Ignored:
    """An event that is not written, and why."""

    place: int
    reason: str


@dataclass(frozen=True, slots=True)
class Published:
    """What was written, or the log's head if nothing was; and what was not."""

    outcome: Appended | Head
    ignored: tuple[Ignored, ...] = ()


class JobPublishing:
    """The way into the log for events of jobs."""

    def __init__(self, publish: Publish, present: LogReader, retention: Retention, clock: Clock) -> None:
        self._publish = publish
        self._present = present
        self._retention = retention
        self._clock = clock
        self._known: set[tuple[int, str]] = set()
        self._turns = tuple(threading.Lock() for _ in range(TURNS))

    def __call__(
        self,
        server: int,
        events: Sequence[NewEvent],
        condition: AppendCondition | None = None,
        idempotency_key: str | None = None,
    ) -> Published:
        """Write the events, in one commit, with what follows from them; a repeat is told what the first was told."""
        asked = Append(server, encoded(events), "", condition).digest
        with ExitStack() as turns:
            # Of one process one at a time, for all but one would have to look again.
            for turn in sorted({hash((server, number)) % TURNS for number in _sets_that_may_finish(events)}):
                turns.enter_context(self._turns[turn])
            return self._published(server, events, condition, idempotency_key, asked)

    def _published(
        self,
        server: int,
        events: Sequence[NewEvent],
        condition: AppendCondition | None,
        idempotency_key: str | None,
        asked: str,
    ) -> Published:
        for tries in range(1, TRIES + 1):
            plan = self._plan(server, events, condition)
            if not plan.events and self._was_answered(server, idempotency_key):
                plan = _Plan(events, (), None)
            try:
                both, most = _both(condition, plan.condition), max(len(plan.events), MOST_EVENTS)
                outcome = self._publish(server, plan.events, both, idempotency_key, asked, most).result()
            except ConditionFailed as failure:
                if plan.condition is None or self._breaks(server, condition, failure.event_id):
                    raise
                if tries == TRIES:
                    raise Busy("too many publishers speak of the same set of jobs; nothing was written") from failure
                continue  # something came about the sets meanwhile: look again
            self._remember(server, events)
            if isinstance(outcome, Appended) and outcome.replayed:
                return Published(outcome, _left_out(events, outcome))
            return Published(outcome, plan.ignored)
        raise AssertionError("the last try returns or raises")

    def _breaks(self, server: int, condition: AppendCondition | None, event_id: int) -> bool:
        """Whether it is the publisher's own condition that the event breaks."""
        before = self._present.at(server, event_id - 1)
        events = [event for commit in self._present.after(before, 1) for event in commit.events]
        found = (event for event in events if event.event_id == event_id)
        return condition is not None and condition.first_match(found) is not None

    def _was_answered(self, server: int, idempotency_key: str | None) -> bool:
        if idempotency_key is None:
            return False
        return self._present.log.receipt(server, idempotency_key, self._clock() // 1000) is not None

    def _plan(self, server: int, events: Sequence[NewEvent], condition: AppendCondition | None) -> "_Plan":
        known = self._known_jobs(server, events)
        kept: dict[int, NewEvent] = {}
        ignored: list[Ignored] = []
        for place, event in enumerate(events):
            if event.type[:2] in ((JOB, "progress"), (JOB, "finish")) and event.key not in known:
                ignored.append(_ignored(place, event))
                continue
            if event.type[:2] == (JOB, "create"):
                known.add(event.key)
            kept[place] = event
        numbers = _sets_that_may_finish(kept.values())
        if not numbers:
            return _Plan([*kept.values()], tuple(ignored), None)
        return self._with_sets(server, kept, ignored, numbers, condition)

    def _known_jobs(self, server: int, events: Sequence[NewEvent]) -> set[str | None]:
        """The keys of the jobs that exist already."""
        asked = {event.key for event in events if event.type[:2] in ((JOB, "progress"), (JOB, "finish"))}
        known = {key for key in asked if key is not None and (server, key) in self._known}
        unsure = [key for key in asked - known if key is not None]
        for start in range(0, len(unsure), 100):
            known |= self._created(server, tuple(unsure[start : start + 100]))
        self._known |= {(server, key) for key in known}
        return set(known)

    def _created(self, server: int, keys: tuple[str, ...]) -> set[str]:
        query = FeedQuery(server, Selection(types=CREATED, keys=keys), form=_key)
        found: set[str] = set()
        after: int | None = None
        while isinstance(seq := at_once(following(_after(query, after), self._present, self._retention)), NonEmpty):
            found |= set(seq.wires)
            after = seq.event_id
        return found

    def _with_sets(
        self,
        server: int,
        kept: dict[int, NewEvent],
        ignored: list[Ignored],
        numbers: Sequence[int],
        asked: AppendCondition | None,
    ) -> "_Plan":
        query = PathQuery(tuple(PathPattern(f"/{number}") for number in numbers))
        found = snapshot(self._present, server, JOBSET, query)
        if asked is not None and asked.after > found.event_id:
            raise BadInput(f"after={asked.after} lies in the future: the last event is {found.event_id}")
        selection = ObjectSelection(types=FINISHES, collection=JOBSET, query=query)
        condition = AppendCondition(fail_if_events_match=selection, after=found.event_id)
        finishes: list[NewEvent] = []
        for number in numbers:
            state = found.states.get(f"/{number}")
            own = [place for place, event in kept.items() if _is_finish_of(event, number)]
            surplus = own if state is not None and is_over(state) else own[1:]
            ignored += [_ignored(place, kept.pop(place)) for place in surplus]
            if not own:
                events = [*kept.values(), *finishes]
                finishes += self._finish(server, ObjectRef(JOBSET, f"/{number}"), state, found.event_id, events)
        return _Plan([*kept.values(), *finishes], tuple(sorted(ignored, key=lambda one: one.place)), condition)

    def _finish(
        self, server: int, ref: ObjectRef, state: State | None, event_id: int, events: Sequence[NewEvent]
    ) -> list[NewEvent]:
        """The set's finish, if these events complete it."""
        now_us = self._clock() * 1000
        texts = encoded(events, len(events))
        coming = [Event(Id(server, 1, place), now_us, now_us, text) for place, text in enumerate(texts, start=1)]
        own = [event for event in coming if ref in job.objects_of(event.stored)]
        for event in own:
            state = fold(JOBSET, state, event)
        if state is None or not is_complete(state):
            return []
        before = [*events_of(self._present, server, ref, event_id), *own]
        with_own = ((event, job.own_json(event)) for event in before)
        whole = job.whole(JOBSET, ((event, fields) for event, fields in with_own if fields is not None))
        return [] if whole is None else [_fitting(texts, finish_of(whole))]

    def _remember(self, server: int, events: Sequence[NewEvent]) -> None:
        if len(self._known) > MOST_KNOWN:
            self._known.clear()
        self._known |= {(server, e.key) for e in events if e.type[:2] == (JOB, "create") and e.key is not None}


@dataclass(frozen=True, slots=True)
class _Plan:
    """What to write, what not, and under which condition."""

    events: Sequence[NewEvent]
    ignored: tuple[Ignored, ...]
    condition: AppendCondition | None


def _ignored(place: int, event: NewEvent) -> Ignored:
    number = str(event.key).rpartition("/")[2]
    return Ignored(place, f"there is no job {number}" if event.type[0] == JOB else f"set {number} is over")


def _left_out(events: Sequence[NewEvent], outcome: Appended) -> tuple[Ignored, ...]:
    """What of the request is not in its commit."""
    written = deque(event.text for event in outcome.commit.events)
    ignored = []
    for place, (event, text) in enumerate(zip(events, encoded(events), strict=True)):
        if written and written[0] == text:
            written.popleft()
        else:
            ignored.append(_ignored(place, event))
    return tuple(ignored)


def _is_finish_of(event: NewEvent, number: int) -> bool:
    return event.key == f"/{JOBSET}/{number}" and event.type[1] == "finishJobSet"


def _fitting(texts: Sequence[str], finish: State) -> NewEvent:
    """The set's finish; without its jobs where they are too large to be written together with `texts`."""
    event = job.new_event(finish)
    size = sum(len(text) + 2 for text in (*map(str.encode, texts), *encode_all([event])))
    return event if size <= MOST_BYTES else job.new_event({**finish, "jobs": []})


def _sets_that_may_finish(events: Iterable[NewEvent]) -> list[int]:
    found: set[int] = set()
    for event in events:
        fields = event.payload.data if isinstance(event.payload, JsonPayload) else {}
        if event.type[:2] == (JOB, "finish") and "jobset" in fields:
            found.add(fields["jobset"])
        if event.type[:2] == (JOBSET, "finishJobSet"):
            found.add(int(str(event.key).rpartition("/")[2]))
    return sorted(found)


def _both(one: AppendCondition | None, other: AppendCondition | None) -> AppendCondition | None:
    """The condition that holds if both do."""
    if one is None or other is None:
        return one or other
    either = Either(
        one=one.fail_if_events_match,
        one_after=one.after,
        other=other.fail_if_events_match,
        other_after=other.after,
    )
    return AppendCondition(fail_if_events_match=either, after=min(one.after, other.after))


def _after(query: FeedQuery, after: int | None) -> FeedQuery:
    return FeedQuery(query.server, query.selection, after, form=query.form)


def _key(event: Event) -> str:
    """The key of a job; none of what only looks like one."""
    return "" if job.own_json(event) is None else event.stored.key or ""
