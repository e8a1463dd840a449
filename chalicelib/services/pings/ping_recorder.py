"""Record pings as job events: each ping becomes one commit.

A ping that starts a run creates a job with an assigned number. A ping that ends one finishes the open run, or creates
and finishes a run at once if none is open. Append conditions keep this exact: a run is finished by one ping only, also
if several come at the same time.

Threads: any thread may record pings.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from chalicelib.domain.errors import Busy, ConditionFailed, KeyReused, NotFound
from chalicelib.domain.events.event import NewEvent
from chalicelib.domain.log.append import AppendCondition
from chalicelib.domain.log.commit import Appended
from chalicelib.domain.objects.path_query import PathPattern, PathQuery
from chalicelib.domain.objects.ref import State
from chalicelib.domain.pings.ping import Action, Output, Ping, read_output
from chalicelib.domain.pings.ping_events import (
    Run,
    create_event,
    finish_event,
    log_events,
    new_run,
    note_event,
)
from chalicelib.domain.queries.event_filter import Selection
from chalicelib.domain.vocabularies.job.events import JOB
from chalicelib.domain.vocabularies.job.job_types import RID
from chalicelib.domain.vocabularies.job.objects import JOB_TYPE
from chalicelib.services.expectations.registry import ExpectationRegistry
from chalicelib.services.jobs.job_numbers import AssignedNumbers
from chalicelib.services.jobs.job_publisher import JobPublisher
from chalicelib.services.objects.snapshots import snapshot
from chalicelib.services.reading.log_reader import LogReader

MAX_ATTEMPTS = 64
"""Maximum number of attempts while other writers start and finish the same runs."""
_NEXT_RUN_OR_END = ((JOB, "create", "*"), (JOB, "finish", "*"), (JOB, "clean", "*"))
_REPEATED_FIELDS = ("jobset", "params", "props")


@dataclass(frozen=True, slots=True)
class RecordedPing:
    """The outcome of a ping."""

    is_new_name: bool
    """Whether there was no job of this type before, nor an expectation of one."""
    is_replayed: bool
    """Whether an earlier ping with the same idempotency key was recorded instead."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """The events of a ping, and what must not have happened meanwhile."""

    events: Sequence[NewEvent]
    is_new_name: bool
    condition: AppendCondition | None = None
    assigned: AssignedNumbers | None = None


class PingRecorder:
    """Records the pings of all organizations."""

    def __init__(self, reader: LogReader, publisher: JobPublisher, expectations: ExpectationRegistry) -> None:
        self._reader = reader
        self._publisher = publisher
        self._expectations = expectations
        self._numbers = publisher.numbers

    def record(self, server: int, ping: Ping, key_name: str, idempotency_key: str | None = None) -> RecordedPing:
        """Write the events of the ping. Raises `NotFound` if its name is new and it may not create it."""
        output = read_output(ping.body)
        unique = None if idempotency_key is None else _scoped_key(key_name, idempotency_key)
        for _ in range(MAX_ATTEMPTS):
            plan, is_written = self._plan(server, ping, output), False
            try:
                published = self._publisher.publish(
                    server, plan.events, plan.condition, unique, f"ping:{key_name}", digest=ping.digest
                )
                is_replayed = isinstance(published.outcome, Appended) and published.outcome.replayed
                is_written = not is_replayed
                return RecordedPing(plan.is_new_name and is_written, is_replayed)
            except KeyReused as refusal:
                raise KeyReused(str(idempotency_key)) from refusal  # The caller does not know the scoped key.
            except ConditionFailed:
                continue  # Another writer has ended the run, or used the number.
            finally:
                if not is_written and plan.assigned is not None:
                    self._numbers.release(plan.assigned)
        raise Busy("too many concurrent pings of the same job. Nothing was written")

    def _plan(self, server: int, ping: Ping, output: Output) -> _Plan:
        job_types = snapshot(self._reader, server, JOB_TYPE, _path(ping.name))
        state, is_log = job_types.states.get(f"/{ping.name}"), ping.signal.action is Action.LOG
        is_new = state is None and not self._is_expected(server, ping.name)
        if is_new and not ping.may_create:
            raise NotFound(f"there has been no job of the type '{ping.name}'; add create=1 to the query to create it")
        open_run = None if ping.signal.action is Action.START else self._open_run(server, state, ping)
        if open_run is not None:
            logs = list(log_events(ping, open_run, output))
            if is_log:
                return _Plan(logs, is_new)
            unfinished = Selection(types=_NEXT_RUN_OR_END, keys=(f"/{JOB}/{open_run.id}",))
            condition = AppendCondition(fail_if_events_match=unfinished, after=job_types.event_id)
            return _Plan([*logs, finish_event(ping, open_run, output)], is_new, condition)
        if is_log:
            return _Plan([note_event(ping, output)], is_new)
        (create,), assigned = self._numbers.assign(server, [create_event(ping)])
        if assigned is None:
            raise AssertionError("the event has no number")
        run = new_run(ping, assigned.numbers[0])
        events = [create, *log_events(ping, run, output)]
        if ping.signal.action is not Action.START:
            events.append(finish_event(ping, run, output))
        return _Plan(events, is_new, assigned.condition, assigned)

    def _is_expected(self, server: int, job_type: str) -> bool:
        """Whether an expectation names the type."""
        return any(each.expectation.type == job_type for each in self._expectations.load(server).values())

    def _open_run(self, server: int, state: State | None, ping: Ping) -> Run | None:
        """The open run that the ping is about: the latest with its rid, and on its node if it names one."""
        candidates = [
            run
            for run in (() if state is None else state["openRuns"])
            if run.get(RID) == ping.rid and ping.node in (None, run["node"])
        ]
        if not candidates:
            return None
        latest = candidates[-1]
        path = f"/{latest['id']}"
        job = snapshot(self._reader, server, JOB, _path(str(latest["id"]))).states.get(path)
        if job is None:
            return Run(latest["id"], latest["node"])
        # A field that is too large to be stored is None.
        fields = {name: job[name] for name in _REPEATED_FIELDS if job.get(name) is not None}
        return Run(latest["id"], job["node"], fields)


def _path(name: str) -> PathQuery:
    return PathQuery((PathPattern(f"/{name}"),))


def _scoped_key(key_name: str, idempotency_key: str) -> str:
    """The idempotency key of a ping. A ping key must not use up the idempotency keys of publishers."""
    names = "\n".join((key_name, idempotency_key))
    return f"ping:{hashlib.sha256(names.encode()).hexdigest()}"
