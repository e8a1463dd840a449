"""Append the alarms of expectations to the log, each exactly once.

A check folds the log up to its head and decides the alarms that have fallen due. It appends them on condition that the
log has no newer event that matters to the expectation, so of two workers only one succeeds, and the other checks again.
After a crash the next check decides the same alarms, and finds in the log which of them were written.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from chalicelib.domain import timestamps
from chalicelib.domain.errors import AnnalsError, Busy, ConditionFailed, Unavailable
from chalicelib.domain.events.event import Event
from chalicelib.domain.events.head import Head
from chalicelib.domain.expectations import fold_json
from chalicelib.domain.expectations.alarm import Alarm
from chalicelib.domain.expectations.expectation import KEY_PREFIX, Configured, expectation_key
from chalicelib.domain.log.append import AppendCondition
from chalicelib.domain.log.commit import Appended, Commit
from chalicelib.domain.objects.path_query import PathPattern, PathQuery
from chalicelib.domain.organizations.organization import DIRECTORY_SERVER, is_configuration_log
from chalicelib.domain.queries.event_filter import Selection
from chalicelib.domain.views.due import SECOND_US, Deadline
from chalicelib.domain.vocabularies.job.events import JOB, JOB_EVENTS
from chalicelib.services.expectations.fold_store import FoldStore, relevant_events
from chalicelib.services.expectations.registry import ExpectationRegistry
from chalicelib.services.log.publisher import Publisher
from chalicelib.services.objects.snapshots import snapshot
from chalicelib.services.reading.log_reader import LogReader

KIND = "expectation"
"""The kind of work in the due index."""
MAX_CHECKED = 100
"""Limit of the expectations of a log that a run checks."""
MAX_COMMIT_ALARMS = 200
MAX_CHECK_ALARMS = 1_000
"""Limit of the alarms that a check appends. There are many only after a long outage."""
RETRY_US = 3600 * SECOND_US
"""An expectation that cannot be checked is checked again after this time."""

_CHANGES = ("create", "finish", "clean")
"""The events that matter to all expectations. Others only matter if silence does."""
_log = logging.getLogger("annals")


@dataclass(frozen=True, slots=True)
class ExpectationAlarms:
    """Finds what did not happen as expected, and appends the alarms."""

    registry: ExpectationRegistry
    folds: FoldStore
    publisher: Publisher

    @property
    def reader(self) -> LogReader:
        return self.folds.reader

    def deadlines(self, commits: Sequence[Commit]) -> Iterable[Deadline]:
        """Check the expectations at once that are configured by the commits, or about runs in them."""
        last: dict[str, int] = {}
        server = commits[0].server if commits else DIRECTORY_SERVER
        if server != DIRECTORY_SERVER and is_configuration_log(server):
            for event in _events(commits, "expectation"):
                last[(event.fields.key or "").removeprefix(KEY_PREFIX)] = event.event_id
        elif server > DIRECTORY_SERVER:
            events = [event for event in _events(commits, JOB) if _is_relevant(event)]
            if events:  # Only then the configuration log is read.
                last = _last_events(events, self.registry.load(server))
        return [_at_once(name, event_id) for name, event_id in last.items()]

    def check(self, server: int, deadlines: Sequence[Deadline], now_us: int) -> Iterator[Deadline]:
        """Append the alarms that are due. Returns the deadlines of the next ones."""
        # The head is read before the configuration: events up to it are not judged by an older one.
        head = self.reader.log.head(server)
        configured = self.registry.load(server)
        by_name = {deadline.name: deadline for deadline in deadlines}
        for name in list(by_name)[:MAX_CHECKED]:
            following: Deadline | None = by_name[name]
            try:
                following = self._check(server, name, configured, head, now_us)
            except ConditionFailed:
                pass  # There are newer events. The next run reads them.
            except (AnnalsError, ValueError, LookupError, AttributeError) as failure:
                if isinstance(failure, Unavailable | Busy):
                    raise
                # One expectation must not stop the others.
                _log.error("expectation '%s' in log %d cannot be checked: %s", name, server, failure)
                following = Deadline(name, now_us, RETRY_US)
            if following is not None:
                yield following
        yield from list(by_name.values())[MAX_CHECKED:]

    def _check(
        self, server: int, name: str, configured: Mapping[str, Configured], head: Head, now_us: int
    ) -> Deadline | None:
        if name not in configured:
            self.folds.forget(server, name)
            return None
        own = configured[name]
        loaded = self.folds.load(server, own, head)
        state = fold_json.to_json(loaded.fold)
        if not loaded.is_complete:
            self.folds.store(own, loaded, state)
            return _at_once(name, loaded.position.last_event_id)
        # The stored state depends on the log alone, not on this worker's clock.
        fold = loaded.fold
        fold.advance(max(now_us, head.last_event_id))
        has_more = self._append(server, own, list(fold.pending.values()), head)
        self.folds.store(own, loaded, state)
        if has_more:
            return _at_once(name, head.last_event_id + 1)
        due_us = fold.next_due_us
        return None if due_us is None else Deadline(name, fold.at_us, due_us - fold.at_us)

    def _append(self, server: int, configured: Configured, alarms: Sequence[Alarm], head: Head) -> bool:
        """Append the first of the alarms in order. Returns whether there are more."""
        # Later events cannot prevent what fell due before the head, so a busy job type does not delay these alarms.
        final = [alarm for alarm in alarms if alarm.due_us <= head.last_event_id]
        own_alarms = Selection(keys=(expectation_key(configured.name),))
        selection = own_alarms if final else relevant_events(configured.name, configured.versions)
        appended, after = (final or list(alarms))[:MAX_CHECK_ALARMS], head.last_event_id
        for start in range(0, len(appended), MAX_COMMIT_ALARMS):
            part = appended[start : start + MAX_COMMIT_ALARMS]
            events = [alarm.to_event(configured.name, self._run_number(server, alarm)) for alarm in part]
            condition = AppendCondition(fail_if_events_match=selection, after=after)
            outcome = self.publisher.publish(server, events, condition)
            after = outcome.commit.last_event_id if isinstance(outcome, Appended) else after
        return len(appended) < len(alarms)

    def _run_number(self, server: int, alarm: Alarm) -> int | None:
        """The number of the alarm's run among those of its job. None if the job has no such run or it is over."""
        if "startedAt" not in alarm.data:
            return None
        path = f"/{alarm.data['job']}"
        state = snapshot(self.reader, server, JOB, PathQuery((PathPattern(path),))).states.get(path, {})
        started_us = timestamps.parse(alarm.data["startedAt"])
        is_same = "createdAt" in state and timestamps.parse(state["createdAt"]) == started_us
        return state.get("run") if is_same else None


def _events(commits: Iterable[Commit], first_subtype: str) -> Iterator[Event]:
    return (event for commit in commits for event in commit.events if event.fields.type[:1] == (first_subtype,))


def _is_relevant(event: Event) -> bool:
    match event.fields.type:
        case (_, name, *_):
            return name in JOB_EVENTS
        case _:
            return False


def _last_events(events: Iterable[Event], configured: Mapping[str, Configured]) -> dict[str, int]:
    """By name of the expectation, the last event that may concern it."""
    by_subject: dict[str, list[Configured]] = {}
    for one in configured.values():
        if not one.expectation.paused:
            by_subject.setdefault(one.expectation.key or one.expectation.type or "", []).append(one)
    if not by_subject:
        return {}
    last: dict[str, int] = {}
    for event in events:
        _, event_name, node, job_type, *_ = (*event.fields.type, "", "", "")
        candidates = [*by_subject.get(job_type, ()), *by_subject.get(event.fields.key or "", ())]
        if event_name == "redirect":  # It does not have the type of the job.
            candidates = list(configured.values())
        for one in candidates:
            is_followed = event_name in _CHANGES or one.expectation.max_silence is not None
            if is_followed and (event_name != "create" or one.expectation.node in (None, node)):
                last[one.name] = event.event_id
    return last


def _at_once(name: str, event_id: int) -> Deadline:
    """A deadline that is due whatever the clock says. Each event has one of its own, which no check of an earlier one
    deletes."""
    return Deadline(name, event_id, -event_id)
