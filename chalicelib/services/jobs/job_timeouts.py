"""Close jobs and job sets without events for longer than their timeout, by a `clean` event.

The deadline of a job is entered in the due index when the job is created. Later events do not move it: they are found
when the deadline has passed, and the job is then entered again.
"""

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from chalicelib.domain import timestamps
from chalicelib.domain.errors import AnnalsError, Busy, ConditionFailed, TooLarge, Unavailable
from chalicelib.domain.events.event import Event
from chalicelib.domain.log.append import AppendCondition
from chalicelib.domain.log.commit import Commit
from chalicelib.domain.objects.path_query import PathPattern, PathQuery
from chalicelib.domain.objects.ref import ObjectRef, State
from chalicelib.domain.queries.event_filter import ObjectSelection
from chalicelib.domain.views.due import SECOND_US, Deadline
from chalicelib.domain.views.object_view import ObjectView
from chalicelib.domain.views.record import PROJECTOR, Checkpoint, checkpoints_view, objects_view
from chalicelib.domain.vocabularies import JOB_VOCABULARY
from chalicelib.domain.vocabularies.job.events import JOB, JOBSET, follow_up_event
from chalicelib.domain.vocabularies.job.jobsets import MAX_LISTED_JOBS, clean_event
from chalicelib.services.consumers.checkpoints import load_checkpoint
from chalicelib.services.log.publisher import Publisher
from chalicelib.services.objects.snapshots import object_snapshot, snapshot
from chalicelib.services.ports import Views
from chalicelib.services.reading.log_reader import LogReader

KIND = "job"
"""The kind of work in the due index."""
MAX_CHECKED_JOBS = 100
"""Limit per log and round. Each job is checked against the commits that the views do not contain yet."""
MAX_READ_JOBS = 200
"""Number of jobs that are read at once, to find those that have ended."""
MAX_UNPROJECTED_COMMITS = 2_000
"""With more, checking a job takes too long. Its deadline waits until the views have caught up."""
RETRY_US = 3600 * SECOND_US
"""A job that cannot be checked is checked again after this time."""
_MAX_TIMEOUT_S = 1e11
_RETIRED_CONSUMERS = ("clean-3", "clean-4", "clean-5")
_ENDING_EVENTS = ("finish", "clean", "finishJobSet", "cleanJobSet")
_log = logging.getLogger("annals")
_OPENING_OR_ENDING_EVENTS = frozenset(("create", "createJobSet", *_ENDING_EVENTS))


@dataclass(frozen=True, slots=True)
class JobTimeouts:
    """Finds jobs and job sets that have timed out, and publishes their `clean` events."""

    reader: LogReader
    publisher: Publisher
    timeout_s: float

    def deadlines(self, commits: Sequence[Commit]) -> Iterable[Deadline]:
        """The deadlines of the jobs and sets that are created and do not end in the same commits."""
        deadlines: dict[str, Deadline] = {}
        for event in _job_events(commits):
            fields = JOB_VOCABULARY.native_json(event)
            if fields is None:
                continue
            name = f"{event.fields.type[0]}:/{fields['id']}"
            if fields["event"] in _ENDING_EVENTS:
                deadlines.pop(name, None)
                continue
            deadline = self._deadline(name, event.event_id, fields["props"])
            # The job may be open already, with a longer or shorter timeout. The earlier deadline covers both.
            deadlines[name] = min(deadline, deadlines.get(name, deadline), key=lambda one: one.due_us)
        return deadlines.values()

    def check(self, server: int, deadlines: Sequence[Deadline], now_us: int) -> Iterable[Deadline]:
        """Publish the `clean` events that are due. Returns the deadlines of the jobs that are still open."""
        if self._has_lagging_views(server):
            return deadlines
        return self._check_open_jobs(server, deadlines, now_us)

    def _check_open_jobs(self, server: int, deadlines: Sequence[Deadline], now_us: int) -> Iterator[Deadline]:
        remaining = MAX_CHECKED_JOBS
        for start in range(0, len(deadlines), MAX_READ_JOBS):
            group = deadlines[start : start + MAX_READ_JOBS]
            ended = self._ended_deadlines(server, group) if remaining else set()
            open_deadlines = [deadline for deadline in group if deadline not in ended]
            for deadline in open_deadlines[:remaining]:
                next_deadline = self._next_deadline(server, deadline, now_us)
                if next_deadline is not None:
                    yield next_deadline
            yield from open_deadlines[remaining:]
            remaining = max(remaining - len(open_deadlines), 0)

    def _next_deadline(self, server: int, deadline: Deadline, now_us: int) -> Deadline | None:
        """Check a job. One that cannot be checked is checked again later."""
        try:
            return self._check_job(server, deadline, now_us)
        except (AnnalsError, ValueError, LookupError, AttributeError) as failure:
            if isinstance(failure, Unavailable | Busy):
                raise
            # One job must not stop the timeouts of the others.
            _log.error("the timeout of %s in log %d cannot be checked: %s", deadline.name, server, failure)
            return replace(deadline, delay_us=now_us + RETRY_US - deadline.event_id)

    def _ended_deadlines(self, server: int, deadlines: Sequence[Deadline]) -> set[Deadline]:
        """The deadlines of jobs that have ended since, according to the views.

        Most jobs have. One batch of reads finds them, and a later run of the same job has a deadline of its own.
        """
        paths: dict[str, list[str]] = {}
        for deadline in deadlines:
            ref = _ref(deadline)
            paths.setdefault(ref.collection, []).append(ref.path)

        def read_end_times(checkpoint: Checkpoint) -> dict[ObjectRef, int]:
            return {
                ObjectRef(collection, path): timestamps.parse(state["finishedAt"])
                for collection, items in paths.items()
                for path, record in self.reader.views.get(
                    checkpoint.view_name(objects_view(collection)), list(dict.fromkeys(items))
                ).items()
                if (state := ObjectView.from_record(record).state) is not None and "finishedAt" in state
            }

        _, end_times = self.reader.read_views(server, read_end_times)
        return {deadline for deadline in deadlines if end_times.get(_ref(deadline), -1) >= deadline.event_id}

    def _check_job(self, server: int, deadline: Deadline, now_us: int) -> Deadline | None:
        """Publish the `clean` event if it is due. Returns the deadline of the job if it is still open."""
        ref = _ref(deadline)
        stored = snapshot(self.reader, server, ref.collection, PathQuery((PathPattern(ref.path),)))
        state = stored.states.get(ref.path)
        if state is None or "finishedAt" in state:  # None: it was deleted by retention.
            return None
        if state["props"] is not None:
            # Only a set that has timed out is worth reading its whole history.
            actual = self._deadline(deadline.name, timestamps.parse(state["updatedAt"]), state["props"])
            if actual.due_us >= now_us:
                return actual
        if state["props"] is not None and state.get("total", 0) > MAX_LISTED_JOBS:
            current, state = stored, {**state, "jobs": []}
        else:
            current = object_snapshot(self.reader, server, ref)
            state = current.state_of(ref.path)
        if "finishedAt" in state:
            return None
        actual = self._deadline(deadline.name, timestamps.parse(state["updatedAt"]), state["props"] or {})
        if actual.due_us >= now_us:
            return actual
        selection = ObjectSelection(collection=ref.collection, query=PathQuery((PathPattern(ref.path),)))
        condition = AppendCondition(fail_if_events_match=selection, after=current.event_id)
        clean = _clean_job_event(state) if ref.collection == JOB else clean_event(state)
        try:
            self._publish(server, clean, condition)
        except ConditionFailed:  # The job has a new event. Its state is read again in the next run.
            return deadline
        return None

    def _publish(self, server: int, clean: State, condition: AppendCondition) -> None:
        try:
            self.publisher.publish(server, [follow_up_event(clean)], condition)
        except TooLarge:
            # Only the list of a set's jobs can be that long.
            self.publisher.publish(server, [follow_up_event({**clean, "jobs": []})], condition)

    def _deadline(self, name: str, event_id: int, props: State) -> Deadline:
        """The deadline of a job whose last event is `event_id`."""
        text = props.get("clean_timeout", "")
        own_timeout_s = float(text) if text.isascii() and text.isdecimal() else None
        timeout_s = self.timeout_s if own_timeout_s is None else own_timeout_s
        return Deadline(name, event_id, int(min(timeout_s, _MAX_TIMEOUT_S) * SECOND_US))

    def _has_lagging_views(self, server: int) -> bool:
        log = self.reader.log
        projected = load_checkpoint(PROJECTOR, server, self.reader.views).head.session
        kept = max(projected, log.start(server).session) if projected == 0 else projected
        return log.head(server).session - kept > MAX_UNPROJECTED_COMMITS


def delete_retired_records(server: int, views: Views) -> None:
    """Delete the open jobs that earlier formats of the views kept per log, if there are any."""
    for consumer in views.get(checkpoints_view(server), _RETIRED_CONSUMERS):
        while views.drop(f"{server}.{consumer.removeprefix('clean-')}/open"):
            pass
        views.delete(checkpoints_view(server), [consumer])


def _clean_job_event(state: State) -> State:
    fields = ("node", "id", "jobset", "type", "params", "props")
    # A member that is too large to be stored in the state is None, if its event has expired.
    return {"event": "clean", **{name: state[name] for name in fields if state.get(name) is not None}}


def _job_events(commits: Iterable[Commit]) -> Iterator[Event]:
    """The events that open or end a job or a set."""
    for commit in commits:
        for event in commit.events:
            match event.fields.type:
                case (collection, name, *_) if collection in (JOB, JOBSET) and name in _OPENING_OR_ENDING_EVENTS:
                    yield event


def _ref(deadline: Deadline) -> ObjectRef:
    collection, _, path = deadline.name.partition(":")
    return ObjectRef(collection, path)
