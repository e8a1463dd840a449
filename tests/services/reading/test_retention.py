"""Retention compared with a list of events: the boundary is exact, and no reader sees expired events."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chalicelib.adapters.sqlite.database import Database
from chalicelib.adapters.sqlite.log import SqliteLog
from chalicelib.adapters.sqlite.views import SCHEMA, SqliteViews
from chalicelib.domain.events.head import Head
from chalicelib.domain.events.ids import Id
from chalicelib.domain.log.commit import Commit, next_commit
from chalicelib.domain.queries.event_filter import Selection
from chalicelib.domain.queries.event_seq import Empty, EventSeq, NonEmpty, Torn
from chalicelib.domain.queries.timeseries import TimeseriesQuery
from chalicelib.services.feeds.feed import FeedQuery, long_poll_blocking
from chalicelib.services.feeds.notifiers import CommitNotifier
from chalicelib.services.reading.latest import latest
from chalicelib.services.reading.log_reader import LogReader
from chalicelib.services.reading.retention import Retention, RetentionBoundary
from chalicelib.services.reading.server_query import ServerQuery, query_server
from chalicelib.services.reading.timeseries import timeseries
from tests.services.fakes import NOW_MS, append

ALL = Selection()
TYPE = Selection(types=(("job", "start"),))
MAX_EVENTS = 1_000

STEPS = st.lists(st.tuples(st.sampled_from([0, 0, 1, 2, 700, 5_000]), st.integers(1, 6)), max_size=12)
"""Milliseconds before each commit, and its number of events."""
COUNTS = st.integers(1, 12)
AGES = st.sampled_from([0.0, 0.001, 0.002, 0.7, 1.5, 5.0, 60.0])

_servers = count(1)


@dataclass
class Store:
    """A log and its reader. Each example uses a new server."""

    log: SqliteLog
    reader: LogReader


@dataclass
class WrittenLog:
    """The commits written to one server, and a clock."""

    store: Store
    server: int = field(default_factory=lambda: next(_servers))
    now_ms: int = NOW_MS
    commits: list[Commit] = field(default_factory=list)

    def clock(self) -> int:
        return self.now_ms

    def write(self, later_ms: int, events: int) -> None:
        self.now_ms += later_ms
        head = self.commits[-1].head if self.commits else Head(self.server)
        request = append(*(f"/{n}" for n in range(events)), server=self.server)
        self.commits.append(next_commit(head, request, self.now_ms))
        self.store.log.append(self.commits[-1:])

    def retention(self, age_s: float | None = None, events: int | None = None) -> Retention:
        """A new instance without cached state."""
        return Retention(self.store.log, self.clock, age_s, events)

    @property
    def ids(self) -> list[int]:
        return [event.event_id for commit in self.commits for event in commit.events]

    def last_expired(self, age_s: float | None, events: int | None) -> int:
        """The last EventId that has expired by age or count, or 0."""
        oldest = 0 if age_s is None else self.now_ms * 1000 - int(age_s * 1_000_000)
        old = [commit.last_event_id for commit in self.commits if commit.last_event_id < oldest]
        too_many = [] if events is None else self.ids[:-events]
        return max([0, *old, *too_many])


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    home: Path = tmp_path_factory.mktemp("retention")
    log_database = Database(home / "log.sqlite", durable=False)
    views_database = Database(home / "views.sqlite", SCHEMA, durable=False)
    log = SqliteLog(log_database)
    yield Store(log, LogReader(log, SqliteViews(views_database)))
    log_database.close()
    views_database.close()


def boundary_values(boundary: RetentionBoundary) -> tuple[int, int, int]:
    """The values readers use: session and EventId of the last expired commit, and the last expired EventId."""
    return boundary.head.session, boundary.head.last_event_id, boundary.event_id


def boundary_at(written: WrittenLog, last: int) -> tuple[int, int, int]:
    """The expected boundary if `last` is the last expired EventId."""
    expired = [commit for commit in written.commits if commit.last_event_id <= last]
    return len(expired), expired[-1].last_event_id if expired else 0, last


def ids_of(texts: list[str]) -> list[int]:
    return [json.loads(text)["eventId"] for text in texts]


def poll(written: WrittenLog, retention: Retention, after: int | None, limit: int | None = None) -> EventSeq:
    """Poll without waiting."""
    return long_poll_blocking(
        FeedQuery(written.server, ALL, after, limit), written.store.reader, CommitNotifier(), retention
    )


def positions(ids: list[int]) -> list[int]:
    """All EventIds of a log, and those next to them."""
    return sorted({0, *ids, *(event_id - 1 for event_id in ids), *(event_id + 1 for event_id in ids)})


@settings(deadline=None)
@given(STEPS, COUNTS)
def test_retention_by_count_keeps_last_events(store: Store, steps: list[tuple[int, int]], events: int) -> None:
    written = WrittenLog(store)
    incremental = written.retention(events=events)
    assert boundary_values(incremental.boundary(written.server)) == (0, 0, 0)
    for step in steps:
        written.write(*step)
        expected_boundary = boundary_at(written, written.last_expired(None, events))
        assert boundary_values(incremental.boundary(written.server)) == expected_boundary
        assert boundary_values(written.retention(events=events).boundary(written.server)) == expected_boundary


@settings(deadline=None)
@given(STEPS, AGES, st.sampled_from([0, 1, 2, 700, 5_000, 100_000]))
def test_retention_by_age_expires_older_events(
    store: Store, steps: list[tuple[int, int]], age_s: float, later_ms: int
) -> None:
    written = WrittenLog(store)
    incremental = written.retention(age_s)
    for step in steps:
        written.write(*step)
        expected_boundary = boundary_at(written, written.last_expired(age_s, None))
        assert boundary_values(incremental.boundary(written.server)) == expected_boundary
    written.now_ms += later_ms
    expected_boundary = boundary_at(written, written.last_expired(age_s, None))
    assert boundary_values(incremental.boundary(written.server)) == expected_boundary


@settings(deadline=None)
@given(STEPS, AGES, st.lists(st.tuples(st.integers(0, 60), st.integers(0, 40)), max_size=6), st.randoms())
def test_boundary_by_age_with_deletions_is_exact(
    store: Store, steps: list[tuple[int, int]], age_s: float, changes: list[tuple[int, int]], random: Random
) -> None:
    """Expired commits are deleted at any time. Some are deleted early, as if retention had been shorter before."""
    written = WrittenLog(store)
    retention, deleted = written.retention(age_s), 0
    for later_s, deletions in changes:
        for step in random.choices(steps, k=5) if steps else ():
            written.write(*step)
        written.now_ms += later_s * 1000
        while store.log.delete_up_to(written.server, deletions):
            pass
        deleted = max(deleted, min(deletions, len(written.commits) - 1))
        last_deleted = written.commits[deleted - 1].last_event_id if deleted > 0 else 0
        last = max(last_deleted, written.last_expired(age_s, None))
        assert boundary_values(retention.boundary(written.server)) == boundary_at(written, last)


@settings(deadline=None)
@given(STEPS, AGES, COUNTS)
def test_retention_by_age_and_count_applies_stricter(
    store: Store, steps: list[tuple[int, int]], age_s: float, events: int
) -> None:
    written = WrittenLog(store)
    for step in steps:
        written.write(*step)
    boundary = written.retention(age_s, events).boundary(written.server)
    assert boundary_values(boundary) == boundary_at(written, written.last_expired(age_s, events))


@settings(max_examples=60, deadline=None)
@given(STEPS, st.none() | AGES, st.none() | COUNTS)
def test_feed_is_torn_if_and_only_if_events_after_it_expired(
    store: Store, steps: list[tuple[int, int]], age_s: float | None, events: int | None
) -> None:
    written = WrittenLog(store)
    for step in steps:
        written.write(*step)
    retention, last = written.retention(age_s, events), written.last_expired(age_s, events)
    expired_ids = [event_id for event_id in written.ids if event_id <= last]
    head = written.ids[-1] if written.ids else 0
    for after in positions(written.ids):
        seq = poll(written, retention, after)
        rest = [event_id for event_id in written.ids if event_id > max(after, last)]
        if any(event_id > after for event_id in expired_ids):
            assert seq == Torn(expired_ids[-1])
        elif rest:
            assert isinstance(seq, NonEmpty)
            assert (ids_of(seq.texts), seq.event_id) == (rest, head)
        else:
            assert seq == Empty(head)


@settings(max_examples=60, deadline=None)
@given(STEPS, st.none() | AGES, st.none() | COUNTS, st.none() | st.integers(-7, -1) | st.integers(1, 7))
def test_feed_without_position_begins_with_first_kept_event(
    store: Store, steps: list[tuple[int, int]], age_s: float | None, events: int | None, limit: int | None
) -> None:
    written = WrittenLog(store)
    for step in steps:
        written.write(*step)
    kept = [event_id for event_id in written.ids if event_id > written.last_expired(age_s, events)]
    seq = poll(written, written.retention(age_s, events), None, limit)
    expected_boundary = kept[:limit] if limit is None or limit > 0 else kept[: limit - 1 : -1]
    assert (ids_of(seq.texts) if isinstance(seq, NonEmpty) else []) == expected_boundary
    assert isinstance(seq, NonEmpty) == bool(kept)


@settings(max_examples=60, deadline=None)
@given(STEPS, st.none() | AGES, st.none() | COUNTS, st.data())
def test_queries_do_not_return_expired_events(
    store: Store, steps: list[tuple[int, int]], age_s: float | None, events: int | None, data: st.DataObject
) -> None:
    written = WrittenLog(store)
    for step in steps:
        written.write(*step)
    retention = written.retention(age_s, events)
    kept = [event_id for event_id in written.ids if event_id > written.last_expired(age_s, events)]
    servers = [written.server]
    for selection in (ALL, TYPE):
        for descending in (True, False):
            query = TimeseriesQuery(selection, descending=descending)
            page = timeseries(query, servers, store.reader, retention, MAX_EVENTS)
            assert ids_of(page.texts) == (kept[::-1] if descending else kept)
        assert ids_of(latest(servers, selection, store.reader, retention, MAX_EVENTS).texts) == kept[-1:]
    session = data.draw(st.integers(0, len(steps) + 1))
    last = Id(written.server, session, data.draw(st.integers(0, 7)))
    after = [
        event.event_id
        for commit in written.commits
        for event in commit.events
        if event.id > last and event.event_id in kept
    ]
    page = query_server(ServerQuery(written.server, last), store.log, retention, MAX_EVENTS)
    assert (ids_of(page.texts), page.is_complete) == (after, True)


def test_retention_without_limits_keeps_everything(store: Store) -> None:
    written = WrittenLog(store)
    written.write(0, 3)
    written.now_ms += 10**12
    assert written.retention().boundary(written.server) == RetentionBoundary(Head(written.server), 0)


def test_boundary_after_deletion_by_other_process_is_exact(store: Store) -> None:
    """Another process deletes commits that were written after the last call of `boundary`."""
    written = WrittenLog(store)
    retention = written.retention(events=2)
    written.write(1, 1)
    retention.boundary(written.server)
    for _ in range(9):
        written.write(1, 1)
    while written.store.log.delete_up_to(written.server, 8):
        pass
    assert boundary_values(retention.boundary(written.server)) == boundary_at(written, written.last_expired(None, 2))


def test_retention_by_count_counts_each_server_separately(store: Store) -> None:
    first, second = WrittenLog(store), WrittenLog(store)
    retention = first.retention(events=2)
    for n in (1, 2, 3):
        first.write(1, n)
        second.write(1, 1)
        assert boundary_values(retention.boundary(first.server)) == boundary_at(first, first.last_expired(None, 2))
        assert boundary_values(retention.boundary(second.server)) == boundary_at(second, second.last_expired(None, 2))


def test_long_poll_is_not_torn_by_events_expiring_while_waiting(store: Store) -> None:
    written = WrittenLog(store)
    retention = written.retention(events=2)
    written.write(0, 2)
    position = written.ids[-1]

    class WritingNotifier(CommitNotifier):
        def wait(self, position: Head, selection: Selection, timeout_s: float, attempt: int) -> Head | None:
            del selection, timeout_s, attempt
            written.write(1, 5)
            return position

    query = FeedQuery(written.server, ALL, position, timeout_s=60.0)
    seq = long_poll_blocking(query, store.reader, WritingNotifier(), retention)
    assert isinstance(seq, NonEmpty)
    assert ids_of(seq.texts) == written.ids[2:]
    assert poll(written, retention, position) == Torn(written.ids[-3])
