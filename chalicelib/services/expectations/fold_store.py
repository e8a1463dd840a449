"""Loads the folds of expectations: from a record in the views, and the log after it.

The record is a cache. Without it the fold starts with the first configuration, or with the first event that is stored,
and decides the same.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic_core import from_json, to_json

from chalicelib.domain.errors import DamagedRecord
from chalicelib.domain.events.event import Event
from chalicelib.domain.events.head import Head
from chalicelib.domain.expectations import fold_json
from chalicelib.domain.expectations.alarm import Alarm
from chalicelib.domain.expectations.expectation import Configured, Version, expectation_key
from chalicelib.domain.expectations.facts import job_fact
from chalicelib.domain.expectations.fold import ExpectationFold
from chalicelib.domain.log.commit import Commit
from chalicelib.domain.queries.event_filter import AnySelection, Selection
from chalicelib.domain.views.record import ConditionalWrite, Record
from chalicelib.services.ports import Views
from chalicelib.services.reading.log_reader import LogReader
from chalicelib.services.reading.retention import Retention

MAX_FOLDED_COMMITS = 2_000
"""Limit of a load. The next one continues."""
MAX_STORED_ALARMS = 200
"""A fold with more alarms that are not in the log yet is not stored, because its record would be large."""
MAX_UNREAD_COMMITS = 64
"""The position of a fold that has not changed is stored again after this number of commits."""


@dataclass(frozen=True, slots=True)
class LoadedFold:
    """A fold, and how much of the log is in it."""

    fold: ExpectationFold
    position: Head
    is_complete: bool
    """Whether the fold has all events up to the requested head."""
    record: Record | None
    """The stored record."""
    is_changed: bool
    """Whether the fold is worth storing."""


@dataclass(frozen=True, slots=True)
class FoldStore:
    """Loads and stores the folds of expectations."""

    reader: LogReader
    retention: Retention

    def load(self, server: int, configured: Configured, head: Head, limit: int = MAX_FOLDED_COMMITS) -> LoadedFold:
        """The fold of the events up to `head`, or of about `limit` commits more than are stored."""
        record = self._record(server, configured.name)
        fold, start = self._start(configured, record, head)
        selection = relevant_events(configured.name, configured.versions[fold.index :])
        position, count, has_events = start, 0, False
        for commit in self.reader.commits_after(start, selection).commits:
            if commit.session > head.session:
                break
            if count >= limit and len(fold.pending) <= MAX_STORED_ALARMS:
                return LoadedFold(fold, position, False, record, True)
            for event in _selected(commit, selection):
                has_events = True
                apply(fold, event)
            position, count = commit.head, count + 1
        is_old = record is None or head.session - start.session > MAX_UNREAD_COMMITS
        return LoadedFold(fold, max(head, start, key=lambda one: one.session), True, record, has_events or is_old)

    def store(self, configured: Configured, loaded: LoadedFold, state: dict[str, Any]) -> None:
        """Store the state of the loaded fold. If another worker has stored one, that one is kept."""
        if not loaded.is_changed or len(state["pending"]) > MAX_STORED_ALARMS:
            return
        head = loaded.position
        position = [head.session, head.instance, head.last_event_id]
        data = to_json({"created": configured.created, "position": position, "fold": state}).decode()
        record = Record(_view(head.server), configured.name, head.session, data)
        expected = None if loaded.record is None else loaded.record.version
        self.reader.views.put([ConditionalWrite(record, expected)])

    def forget(self, server: int, name: str) -> None:
        """Delete the record of an expectation that does not exist any more."""
        self.reader.views.delete(_view(server), [name])

    def _record(self, server: int, name: str) -> Record | None:
        try:
            return self.views.get(_view(server), [name]).get(name)
        except DamagedRecord:
            self.forget(server, name)
            return None

    def _start(self, configured: Configured, record: Record | None, head: Head) -> tuple[ExpectationFold, Head]:
        """The stored fold and its position, or a new fold and where to begin."""
        boundary = self.retention.boundary(head.server)
        if record is not None:
            data = from_json(record.data)
            position = Head(head.server, *data["position"])
            fold = fold_json.from_json(configured.versions, data["fold"])
            is_in_log = boundary.head.session <= position.session <= head.session
            if fold is not None and is_in_log and data["created"] == configured.created:
                return fold, position
        fold = ExpectationFold(configured.versions, boundary.event_id)
        return fold, self.reader.position_at(head.server, fold.time_us)

    @property
    def views(self) -> Views:
        return self.reader.views


def delete_folds(server: int, views: Views) -> None:
    """Delete all records of a log, because its end was replaced."""
    while views.drop(_view(server)):
        pass


def relevant_events(name: str, versions: Sequence[Version]) -> AnySelection:
    """The events of the runs, and the alarms of the expectation."""
    selections = dict.fromkeys(selection for version in versions for selection in version.expectation.selections())
    return AnySelection(items=(*selections, Selection(keys=(expectation_key(name),))))


def apply(fold: ExpectationFold, event: Event) -> None:
    """Apply a relevant event to the fold."""
    if (alarm := Alarm.from_event(event)) is not None:
        fold.apply_alarm(alarm)
    elif (fact := job_fact(event)) is not None:
        fold.apply_job(fact)


def _selected(commit: Commit, selection: Selection) -> Iterator[Event]:
    return (event for event in commit.find_events(selection.candidates) if selection.selects(event))


def _view(server: int) -> str:
    return f"{server}/expectation"
