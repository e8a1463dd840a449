"""Retention, compared with a list of events: what is forgotten, and that no reader sees it."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

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
from chalicelib.services.feeds.feed import FeedQuery, follow
from chalicelib.services.feeds.notifiers import Bell
from chalicelib.services.reading.latest import latest
from chalicelib.services.reading.log_reader import LogReader
from chalicelib.services.reading.retention import Forgotten, Retention
from chalicelib.services.reading.server_query import ServerQuery, query_server
from chalicelib.services.reading.timeseries import timeseries
from tests.services.worlds import NOW_MS, append

ALL = Selection()
TYPE = Selection(types=(("job", "start"),))
MOST = 1_000

STEPS = st.lists(st.tuples(st.sampled_from([0, 0, 1, 2, 700, 5_000]), st.integers(1, 6)), max_size=12)
"""Milliseconds before each commit, and how many events it has."""
COUNTS = st.integers(1, 12)
AGES = st.sampled_from([0.0, 0.001, 0.002, 0.7, 1.5, 5.0, 60.0])

_servers = count(1)


@dataclass
class Store:
    """A log and its views; each example has a server of its own."""

    log: SqliteLog
    present: LogReader


@dataclass
class Written:
    """What was written to one server, and the time."""

    store: Store
    server: int = field(default_factory=lambda: next(_servers))
    now_ms: int = NOW_MS
    commits: list[Commit] = field(default_factory=list)

    def clock(self) -> int:
        return self.now_ms

    def write(self, later_ms: int, events: int) -> None:
        """Append a commit."""
        self.now_ms += later_ms
        head = self.commits[-1].head if self.commits else Head(self.server)
        request = append(*(f"/{n}" for n in range(events)), server=self.server)
        self.commits.append(next_commit(head, request, self.now_ms))
        self.store.log.append(self.commits[-1:], [], self.now_ms // 1000)

    def retention(self, age_s: float | None = None, events: int | None = None) -> Retention:
        """One that has not looked yet."""
        return Retention(self.store.log, self.clock, age_s, events)

    @property
    def ids(self) -> list[int]:
        """The EventIds, in order."""
        return [event.event_id for commit in self.commits for event in commit.events]

    def forgotten(self, age_s: float | None, events: int | None) -> int:
        """The last EventId that is past one of the two; 0 if none is."""
        oldest = 0 if age_s is None else self.now_ms * 1000 - int(age_s * 1_000_000)
        old = [commit.last for commit in self.commits if commit.last < oldest]
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


def told(forgotten: Forgotten) -> tuple[int, int, int]:
    """All that readers use of it: the last commit that is forgotten whole, and the last event."""
    return forgotten.before.session, forgotten.before.last, forgotten.last


def expected(written: Written, last: int) -> tuple[int, int, int]:
    """What has to be told if `last` is the last EventId that is forgotten."""
    whole = [commit for commit in written.commits if commit.last <= last]
    return len(whole), whole[-1].last if whole else 0, last


def ids_of(wires: list[str]) -> list[int]:
    """The EventIds of events."""
    return [json.loads(wire)["eventId"] for wire in wires]


def followed(written: Written, retention: Retention, after: int | None, limit: int | None = None) -> EventSeq:
    """What a reader gets at once."""
    return follow(FeedQuery(written.server, ALL, after, limit), written.store.present, Bell(), retention)


def positions(ids: list[int]) -> list[int]:
    """All places in and about a log."""
    return sorted({0, *ids, *(event_id - 1 for event_id in ids), *(event_id + 1 for event_id in ids)})


@settings(deadline=None)
@given(STEPS, COUNTS)
def test_the_last_events_are_kept_and_no_more(store: Store, steps: list[tuple[int, int]], events: int) -> None:
    written = Written(store)
    following = written.retention(events=events)
    assert told(following.forgotten(written.server)) == (0, 0, 0)
    for step in steps:
        written.write(*step)
        wanted = expected(written, written.forgotten(None, events))
        assert told(following.forgotten(written.server)) == wanted
        assert told(written.retention(events=events).forgotten(written.server)) == wanted


@settings(deadline=None)
@given(STEPS, AGES, st.sampled_from([0, 1, 2, 700, 5_000, 100_000]))
def test_what_is_older_is_forgotten(store: Store, steps: list[tuple[int, int]], age_s: float, later_ms: int) -> None:
    written = Written(store)
    following = written.retention(age_s)
    for step in steps:
        written.write(*step)
        wanted = expected(written, written.forgotten(age_s, None))
        assert told(following.forgotten(written.server)) == wanted
    written.now_ms += later_ms
    wanted = expected(written, written.forgotten(age_s, None))
    assert told(following.forgotten(written.server)) == wanted


@settings(deadline=None)
@given(STEPS, AGES, COUNTS)
def test_of_age_and_count_the_stricter_holds(
    store: Store, steps: list[tuple[int, int]], age_s: float, events: int
) -> None:
    written = Written(store)
    for step in steps:
        written.write(*step)
    forgotten = written.retention(age_s, events).forgotten(written.server)
    assert told(forgotten) == expected(written, written.forgotten(age_s, events))


@settings(max_examples=60, deadline=None)
@given(STEPS, st.none() | AGES, st.none() | COUNTS)
def test_a_feed_is_torn_exactly_if_something_after_its_position_is_forgotten(
    store: Store, steps: list[tuple[int, int]], age_s: float | None, events: int | None
) -> None:
    written = Written(store)
    for step in steps:
        written.write(*step)
    retention, last = written.retention(age_s, events), written.forgotten(age_s, events)
    forgotten = [event_id for event_id in written.ids if event_id <= last]
    head = written.ids[-1] if written.ids else 0
    for after in positions(written.ids):
        seq = followed(written, retention, after)
        rest = [event_id for event_id in written.ids if event_id > max(after, last)]
        if any(event_id > after for event_id in forgotten):
            assert seq == Torn(forgotten[-1])
        elif rest:
            assert isinstance(seq, NonEmpty)
            assert (ids_of(seq.wires), seq.event_id) == (rest, head)
        else:
            assert seq == Empty(head)


@settings(max_examples=60, deadline=None)
@given(STEPS, st.none() | AGES, st.none() | COUNTS, st.none() | st.integers(-7, -1) | st.integers(1, 7))
def test_without_a_position_the_feed_begins_with_what_is_kept(
    store: Store, steps: list[tuple[int, int]], age_s: float | None, events: int | None, limit: int | None
) -> None:
    written = Written(store)
    for step in steps:
        written.write(*step)
    kept = [event_id for event_id in written.ids if event_id > written.forgotten(age_s, events)]
    seq = followed(written, written.retention(age_s, events), None, limit)
    wanted = kept[:limit] if limit is None or limit > 0 else kept[: limit - 1 : -1]
    assert (ids_of(seq.wires) if isinstance(seq, NonEmpty) else []) == wanted
    assert isinstance(seq, NonEmpty) == bool(kept)


@settings(max_examples=60, deadline=None)
@given(STEPS, st.none() | AGES, st.none() | COUNTS, st.data())
def test_no_query_tells_what_is_forgotten(
    store: Store, steps: list[tuple[int, int]], age_s: float | None, events: int | None, data: st.DataObject
) -> None:
    written = Written(store)
    for step in steps:
        written.write(*step)
    retention = written.retention(age_s, events)
    kept = [event_id for event_id in written.ids if event_id > written.forgotten(age_s, events)]
    servers = [written.server]
    for selection in (ALL, TYPE):
        for descending in (True, False):
            query = TimeseriesQuery(selection, descending=descending)
            page = timeseries(query, servers, store.present, retention, MOST)
            assert ids_of(page.wires) == (kept[::-1] if descending else kept)
        assert ids_of(latest(servers, selection, store.present, retention).wires) == kept[-1:]
    session = data.draw(st.integers(0, len(steps) + 1))
    last = Id(written.server, session, data.draw(st.integers(0, 7)))
    after = [
        event.event_id
        for commit in written.commits
        for event in commit.events
        if event.id > last and event.event_id in kept
    ]
    page = query_server(ServerQuery(written.server, last), store.log, retention, MOST)
    assert (ids_of(page.wires), page.complete) == (after, True)


def test_without_retention_nothing_is_forgotten(store: Store) -> None:
    written = Written(store)
    written.write(0, 3)
    written.now_ms += 10**12
    assert written.retention().forgotten(written.server) == Forgotten(Head(written.server), 0)


def test_what_others_deleted_since_somebody_looked_is_no_gap(store: Store) -> None:
    """Much was written, and the oldest of it deleted by another process, while nobody read."""
    written = Written(store)
    retention = written.retention(events=2)
    written.write(1, 1)
    retention.forgotten(written.server)
    for _ in range(9):
        written.write(1, 1)
    while written.store.log.forget(written.server, 8):
        pass
    assert told(retention.forgotten(written.server)) == expected(written, written.forgotten(None, 2))


def test_each_server_keeps_its_own_last_events(store: Store) -> None:
    one, other = Written(store), Written(store)
    retention = one.retention(events=2)
    for n in (1, 2, 3):
        one.write(1, n)
        other.write(1, 1)
        assert told(retention.forgotten(one.server)) == expected(one, one.forgotten(None, 2))
        assert told(retention.forgotten(other.server)) == expected(other, other.forgotten(None, 2))


def test_a_long_poll_that_began_in_time_is_not_torn(store: Store) -> None:
    written = Written(store)
    retention = written.retention(events=2)
    written.write(0, 2)
    seen = written.ids[-1]

    class WritesMeanwhile(Bell):
        def wait(self, seen: Head, selection: Selection, timeout_s: float, turn: int) -> Head | None:
            del selection, timeout_s, turn
            written.write(1, 5)
            return seen

    query = FeedQuery(written.server, ALL, seen, timeout_s=60.0)
    seq = follow(query, store.present, WritesMeanwhile(), retention)
    assert isinstance(seq, NonEmpty)
    assert ids_of(seq.wires) == written.ids[2:]
    assert followed(written, retention, seen) == Torn(written.ids[-3])
