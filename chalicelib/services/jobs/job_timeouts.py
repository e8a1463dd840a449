"""Close jobs and job sets without events for longer than their timeout, by a `clean` event.

A consumer keeps the open jobs and sets, each with the time of its last event. So a run reads only a few records,
however many jobs there have been.
"""

import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from pydantic_core import from_json, to_json

from chalicelib.domain import timestamps
from chalicelib.domain.errors import ConditionFailed, DamagedRecord, NotFound, TooLarge
from chalicelib.domain.events.event import Event
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.append import AppendCondition
from chalicelib.domain.log.commit import Commit
from chalicelib.domain.objects.path_query import PathPattern, PathQuery
from chalicelib.domain.objects.ref import ObjectRef, State
from chalicelib.domain.queries.event_filter import ObjectSelection
from chalicelib.domain.views.record import Checkpoint, ConditionalWrite, Record
from chalicelib.domain.vocabularies import JOB_VOCABULARY
from chalicelib.domain.vocabularies.job.events import JOB, follow_up_event
from chalicelib.domain.vocabularies.job.jobsets import clean_event
from chalicelib.services.consumers.consumer import Consumer, catch_up
from chalicelib.services.consumers.healing import CLEAN, heal, open_jobs_view
from chalicelib.services.log.publisher import Publisher
from chalicelib.services.objects.snapshots import object_snapshot
from chalicelib.services.ports import Clock, Views
from chalicelib.services.reading.log_reader import LogReader

RECORD_COUNT = 64
"""The open jobs of a log are spread over this many records, to keep them small."""
MAX_PER_RUN = 100
"""Limit of `clean` events per run. Each is checked against the commits that the views do not contain yet."""
_OPENING_EVENTS = ("create", "createJobSet")
_ENDING_EVENTS = ("finish", "clean", "finishJobSet", "cleanJobSet")

_OpenJobs = dict[str, list[float | None]]
"""By collection and path: time of the last event in microseconds, and the job's own timeout in seconds or None."""


@dataclass(frozen=True, slots=True)
class JobTimeouts:
    """Finds jobs and job sets that have timed out, and publishes their `clean` events."""

    reader: LogReader
    views: Views
    publisher: Publisher
    clock: Clock
    timeout_s: float

    @property
    def consumer(self) -> Consumer:
        """The consumer that tracks open jobs."""
        return Consumer(CLEAN, self._handle)

    def run(self, server: int, kept: Head | None = None, between: Callable[[], None] = lambda: None) -> int:
        """Publish the `clean` events that are due and return how many.

        `kept` is the head before the first kept commit. `between` is called between runs of commits.
        """
        catch_up(self.consumer, server, self.reader.log, self.views, kept, between_runs=between)
        try:
            timed_out = self._timed_out(server)
        except DamagedRecord as damaged:
            heal(self.views, damaged)
            return 0
        cleaned = (1 for ref, last_us in timed_out if self._clean(server, ref, last_us))
        return sum(islice(cleaned, MAX_PER_RUN))

    def _handle(self, checkpoint: Checkpoint, commits: Sequence[Commit]) -> None:
        server = checkpoint.head.server
        pending = _events_by_item(commits)
        while pending:
            stored = self.views.get(open_jobs_view(server), sorted(pending))
            changes = [_update_record(server, item, stored.get(item), events) for item, events in pending.items()]
            refused = self.views.put([change for change in changes if change is not None])
            pending = {change.record.item: pending[change.record.item] for change in refused}

    def _timed_out(self, server: int) -> list[tuple[ObjectRef, float]]:
        """Jobs and sets that are due, the longest overdue first, with the time of their last event."""
        now_us = self.clock() * 1000
        due: list[tuple[float, ObjectRef, float]] = []
        for record in self.views.get(open_jobs_view(server), [f"{n:02d}" for n in range(RECORD_COUNT)]).values():
            for name, (last_us, timeout_s) in from_json(record.data).items():
                due_us = last_us + (self.timeout_s if timeout_s is None else timeout_s) * 1_000_000
                if due_us < now_us:
                    collection, _, path = name.partition(":")
                    due.append((due_us, ObjectRef(collection, path), last_us))
        return [(ref, last_us) for _, ref, last_us in sorted(due)]

    def _clean(self, server: int, ref: ObjectRef, last_us: float) -> bool:
        """Publish the `clean` event, unless the job has newer events, has ended, or was deleted by retention."""
        try:
            current = object_snapshot(self.reader, server, ref)
        except NotFound:
            return False
        state = current.state_of(ref.path)
        if "finishedAt" in state or timestamps.parse(state["updatedAt"]) > last_us:
            return False
        query = PathQuery((PathPattern(ref.path),))
        selection = ObjectSelection(collection=ref.collection, query=query)
        condition = AppendCondition(fail_if_events_match=selection, after=current.event_id)
        clean = _clean_job_event(state) if ref.collection == JOB else clean_event(state)
        try:
            self._publish(server, clean, condition)
        except ConditionFailed:
            return False
        return True

    def _publish(self, server: int, clean: State, condition: AppendCondition) -> None:
        try:
            self.publisher.publish(server, [follow_up_event(clean)], condition)
        except TooLarge:
            # Only the list of a set's jobs can be that long.
            self.publisher.publish(server, [follow_up_event({**clean, "jobs": []})], condition)


def _clean_job_event(state: State) -> State:
    fields = ("node", "id", "jobset", "type", "params", "props")
    return {"event": "clean", **{name: state[name] for name in fields if name in state}}


def _events_by_item(commits: Iterable[Commit]) -> dict[str, list[tuple[str, Event, State]]]:
    """Events of jobs and sets with the name of the object and their native JSON, by item of the record."""
    by_item: dict[str, list[tuple[str, Event, State]]] = {}
    for commit in commits:
        for event in commit.events:
            refs = JOB_VOCABULARY.affected_objects(event.fields)
            fields = JOB_VOCABULARY.native_json(event) if refs else None
            for ref in refs if fields is not None else ():
                name = f"{ref.collection}:{ref.path}"
                item = f"{zlib.crc32(name.encode()) % RECORD_COUNT:02d}"
                by_item.setdefault(item, []).append((name, event, fields or {}))
    return by_item


def _update_record(
    server: int, item: str, stored: Record | None, events: Sequence[tuple[str, Event, State]]
) -> ConditionalWrite | None:
    """Fold events into a record. None if it contains all of them already."""
    open_jobs: _OpenJobs = {} if stored is None else from_json(stored.data)
    folded_session = 0 if stored is None else stored.version
    new = [(name, event, fields) for name, event, fields in events if event.id.session > folded_session]
    for name, event, fields in new:
        # Events of a job concern its set too, but do not open or end it.
        is_own_event = name.startswith(f"{event.fields.type[0]}:")
        if is_own_event and fields["event"] in _ENDING_EVENTS:
            open_jobs.pop(name, None)
        elif name in open_jobs:
            open_jobs[name][0] = event.event_id
        elif is_own_event and fields["event"] in _OPENING_EVENTS:
            open_jobs[name] = [event.event_id, _own_timeout_s(fields)]
    if not new:
        return None
    record = Record(open_jobs_view(server), item, new[-1][1].id.session, to_json(open_jobs).decode())
    return ConditionalWrite(record, None if stored is None else stored.version)


def _own_timeout_s(fields: State) -> float | None:
    """The timeout in the job's properties. None if there is none or it is not a whole number."""
    text = fields["props"].get("clean_timeout", "")
    return float(text) if text.isascii() and text.isdecimal() else None
