"""Cleaning: what has been silent for longer than its timeout is said to be cleaned.

A consumer keeps the jobs and sets that are open, each with the time of its last event; looking for those that are due
is then a matter of a few records, however many jobs there have been.
"""

import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from pydantic_core import from_json, to_json

from chalicelib.domain import timestamps
from chalicelib.domain.errors import ConditionFailed, NotFound, TooLarge
from chalicelib.domain.events.event import Event
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.append import AppendCondition
from chalicelib.domain.log.commit import Commit
from chalicelib.domain.objects.path_query import PathPattern, PathQuery
from chalicelib.domain.objects.ref import ObjectRef, State
from chalicelib.domain.queries.event_filter import ObjectSelection
from chalicelib.domain.views.record import FORMAT, Change, Checkpoint, Record
from chalicelib.domain.vocabularies import job
from chalicelib.domain.vocabularies.job.events import JOB
from chalicelib.domain.vocabularies.job.jobsets import clean_of
from chalicelib.services.consumers.consumer import Consumer, catch_up
from chalicelib.services.log.publisher import Publish
from chalicelib.services.objects.snapshots import one
from chalicelib.services.ports import Clock, Views
from chalicelib.services.reading.log_reader import LogReader

RECORDS = 64
MOST_AT_ONCE = 100
"""Each is read exactly, so the more are cleaned before the views follow, the longer each takes."""
_OPENS = ("create", "createJobSet")
_ENDS = ("finish", "clean", "finishJobSet", "cleanJobSet")

_Open = dict[str, list[float | None]]
"""By collection and path: the time of the last event in microseconds, and the timeout in seconds if it has its own."""


@dataclass(frozen=True, slots=True)
class Cleaning:
    """Looks for what is due, and says so in the log."""

    present: LogReader
    views: Views
    publish: Publish
    clock: Clock
    timeout_s: float

    @property
    def consumer(self) -> Consumer:
        """The consumer that keeps what is open."""
        return Consumer(f"clean-{FORMAT}", self._handle)

    def run(self, server: int, kept: Head | None = None, between: Callable[[], None] = lambda: None) -> int:
        """Clean what is due now; how many that were. `between` is called between runs through the log."""
        catch_up(self.consumer, server, self.present.log, self.views, kept, between=between)
        cleaned = (1 for ref, last_us in self._due(server) if self._clean(server, ref, last_us))
        return sum(islice(cleaned, MOST_AT_ONCE))

    def _handle(self, checkpoint: Checkpoint, commits: Sequence[Commit]) -> None:
        server = checkpoint.head.server
        waiting = _by_record(commits)
        while waiting:
            stored = self.views.get(_view(server), sorted(waiting))
            changes = [_changed(server, item, stored.get(item), events) for item, events in waiting.items()]
            refused = self.views.put([change for change in changes if change is not None])
            waiting = {change.record.item: waiting[change.record.item] for change in refused}

    def _due(self, server: int) -> list[tuple[ObjectRef, float]]:
        """What is due, with the time of its last event."""
        now_us = self.clock() * 1000
        found: list[tuple[float, ObjectRef, float]] = []
        for record in self.views.get(_view(server), [f"{n:02d}" for n in range(RECORDS)]).values():
            for name, (last_us, timeout_s) in from_json(record.data).items():
                due_us = last_us + (self.timeout_s if timeout_s is None else timeout_s) * 1_000_000
                if due_us < now_us:
                    collection, _, path = name.partition(":")
                    found.append((due_us, ObjectRef(collection, path), last_us))
        return [(ref, last_us) for _, ref, last_us in sorted(found)]

    def _clean(self, server: int, ref: ObjectRef, last_us: float) -> bool:
        """Say that it was silent for too long, unless it has spoken up meanwhile, or is forgotten."""
        try:
            found = one(self.present, server, ref)
        except NotFound:
            return False
        state = found.one(ref.path)
        if "finishedAt" in state or timestamps.parse(state["updatedAt"]) > last_us:
            return False
        query = PathQuery((PathPattern(ref.path),))
        selection = ObjectSelection(collection=ref.collection, query=query)
        condition = AppendCondition(fail_if_events_match=selection, after=found.event_id)
        own = _clean_job(state) if ref.collection == JOB else clean_of(state)
        try:
            self._say(server, own, condition)
        except ConditionFailed:
            return False
        return True

    def _say(self, server: int, own: State, condition: AppendCondition) -> None:
        try:
            self.publish(server, [job.new_event(own)], condition).result()
        except TooLarge:  # only the jobs of a set can be so many
            self.publish(server, [job.new_event({**own, "jobs": []})], condition).result()


def _clean_job(state: State) -> State:
    fields = ("node", "id", "jobset", "type", "params", "props")
    return {"event": "clean", **{name: state[name] for name in fields if name in state}}


def _by_record(commits: Iterable[Commit]) -> dict[str, list[tuple[str, Event, State]]]:
    """The events of jobs and sets, by the record that keeps what they are about."""
    found: dict[str, list[tuple[str, Event, State]]] = {}
    for commit in commits:
        for event in commit.events:
            refs = job.objects_of(event.stored)
            own = job.own_json(event) if refs else None
            for ref in refs if own is not None else ():
                name = f"{ref.collection}:{ref.path}"
                item = f"{zlib.crc32(name.encode()) % RECORDS:02d}"
                found.setdefault(item, []).append((name, event, own or {}))
    return found


def _changed(
    server: int, item: str, stored: Record | None, events: Sequence[tuple[str, Event, State]]
) -> Change | None:
    found: _Open = {} if stored is None else from_json(stored.data)
    to = 0 if stored is None else stored.to
    new = [(name, event, own) for name, event, own in events if event.id.session > to]
    for name, event, own in new:
        about_itself = name.startswith(f"{event.stored.type[0]}:")
        if about_itself and own["event"] in _ENDS:
            found.pop(name, None)
        elif about_itself and own["event"] in _OPENS:
            found[name] = [event.event_id, _timeout_s(own)]
        elif name in found:
            found[name][0] = event.event_id
    if not new:
        return None
    record = Record(_view(server), item, new[-1][1].id.session, to_json(found).decode())
    return Change(record, None if stored is None else stored.to)


def _timeout_s(own: State) -> float | None:
    """The timeout that the job brings itself; what is no number is none."""
    text = own["props"].get("clean_timeout", "")
    return float(text) if text.isascii() and text.isdecimal() else None


def _view(server: int) -> str:
    return f"{server}.{FORMAT}/open"
