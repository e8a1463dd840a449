"""A process remembers checkpoints and the ends of logs: reads cost less and stay exact."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from chalicelib.adapters.sqlite.database import Database
from chalicelib.adapters.sqlite.log import SqliteLog
from chalicelib.adapters.sqlite.views import SCHEMA, SqliteViews
from chalicelib.domain.errors import LogBroken
from chalicelib.domain.events.event import NewEvent, encode
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.append import Receipt
from chalicelib.domain.objects.path_query import PathQuery
from chalicelib.domain.objects.ref import ObjectRef
from chalicelib.domain.queries.event_filter import Selection
from chalicelib.domain.views.record import PROJECTOR, Record
from chalicelib.domain.vocabularies import SCHEDULER_VOCABULARY
from chalicelib.services.consumers.checkpoints import load_checkpoint
from chalicelib.services.consumers.consumer import catch_up
from chalicelib.services.consumers.healing import reset_views
from chalicelib.services.consumers.projector import delete_replaced_views, projector, rebuild
from chalicelib.services.log.receipts import ProjectedReceipts
from chalicelib.services.objects.snapshots import object_events, object_snapshot, snapshot
from chalicelib.services.reading import tail_cache
from chalicelib.services.reading.latest import latest
from chalicelib.services.reading.log_reader import LogReader
from chalicelib.services.reading.no_views import NoViews
from chalicelib.services.reading.retention import Retention
from chalicelib.services.reading.tail_cache import CHECKPOINT_TTL_S, MAX_TAIL_COMMITS, TailCache
from tests.builders import a_commit
from tests.exactness.stores import CountingLog

ORDER = ObjectRef("order", "/chain,1")
KEY = Selection(keys=(ORDER.path,))
TYPE = Selection(types=(("scheduler", "?", "OrderSuspended"),))
PROJECTED = 300
"""More commits than a reader scans without the views."""


class CountingViews(SqliteViews):
    """Views that count reads of checkpoints and of other records."""

    checkpoints = 0
    records = 0

    def get(self, view: str, items: Sequence[str]) -> dict[str, Record]:
        if view.endswith("/checkpoint"):
            self.checkpoints += 1
        else:
            self.records += len(items)
        return super().get(view, items)


class Process:
    """A process that reads log 1, with a clock."""

    def __init__(self, database: Database, views_database: Database) -> None:
        self.stored, self.views = SqliteLog(database), CountingViews(views_database)
        self.log = CountingLog(self.stored)
        self.now_s = 0.0
        tails = TailCache(self.log, self.views, clock=lambda: int(self.now_s * 1000))
        self.reader = LogReader(self.log, self.views, tails=tails)

    def append(self, count: int) -> None:
        head = self.stored.head(1)
        for session in range(head.session + 1, head.session + count + 1):
            event = {"TYPE": "OrderSuspended", "key": ORDER.path}
            if session == 1:
                event = {"TYPE": "OrderAdded", "key": ORDER.path, "nodeId": "1"}
            text = encode(SCHEDULER_VOCABULARY.new_event(event)).decode()
            previous = session * 10 - 10 if session > 1 else 0
            self.stored.append([a_commit(session, at=session * 10, prev=previous, texts=(text,))])

    def project(self) -> None:
        catch_up(projector(self.views), 1, self.stored, self.views)

    def replace_views(self) -> None:
        """Rebuild the views and delete the old ones at once, as when events are removed on request."""
        rebuild(1, self.stored, self.views, lambda *_: None)
        delete_replaced_views(1, self.views)

    def reset_counts(self) -> None:
        self.log.fetched = self.views.checkpoints = self.views.records = 0

    def sessions(self, selection: Selection) -> list[int]:
        return [commit.session for commit in self.reader.commits_after(Head(1), selection).commits]

    def newest(self, selection: Selection) -> list[int]:
        return [commit.session for commit in self.reader.commits_before(self.stored.head(1), selection)]

    def state_event_id(self) -> int:
        result = object_snapshot(self.reader, 1, ORDER)
        assert result == object_snapshot(LogReader(self.stored, NoViews()), 1, ORDER)
        return result.event_id


@pytest.fixture
def views_database(tmp_path: Path) -> Iterator[Database]:
    database = Database(tmp_path / "views.sqlite", SCHEMA, durable=False)
    yield database
    database.close()


@pytest.fixture
def process(database: Database, views_database: Database) -> Process:
    process = Process(database, views_database)
    process.append(PROJECTED)
    process.project()
    process.append(3)
    return process


def test_second_read_fetches_checkpoint_and_tail_no_more(process: Process) -> None:
    process.state_event_id()
    process.reset_counts()
    assert process.state_event_id() == 3_030
    assert (process.views.checkpoints, process.views.records, process.log.fetched) == (0, 1, 0)


def test_second_read_fetches_only_newer_commits(process: Process) -> None:
    process.state_event_id()
    process.append(2)
    process.reset_counts()
    assert process.state_event_id() == 3_050
    assert process.log.fetched == 2


def test_newest_first_read_uses_cached_tail(process: Process) -> None:
    process.sessions(KEY)
    process.reset_counts()
    assert process.newest(KEY) == list(range(PROJECTED + 3, 0, -1))
    assert process.log.fetched == PROJECTED


def test_checkpoint_is_loaded_again_after_a_minute(process: Process) -> None:
    process.state_event_id()
    process.project()
    process.now_s = CHECKPOINT_TTL_S - 1
    process.reset_counts()
    process.state_event_id()
    assert process.views.checkpoints == 0
    process.now_s = CHECKPOINT_TTL_S
    assert process.state_event_id() == 3_030
    assert process.views.checkpoints == 1


def test_checkpoint_is_loaded_again_after_many_commits(process: Process) -> None:
    process.append(MAX_TAIL_COMMITS)
    process.state_event_id()
    process.project()
    process.reset_counts()
    process.state_event_id()
    process.state_event_id()
    assert process.views.checkpoints == 1


def test_checkpoint_is_loaded_again_after_large_commits(process: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise each read would fetch the commits that are not cached."""
    monkeypatch.setattr(tail_cache, "MAX_CACHED_CHARACTERS", 200)
    process.state_event_id()
    process.project()
    process.reset_counts()
    assert process.state_event_id() == 3_030
    assert process.state_event_id() == 3_030
    assert (process.views.checkpoints, process.log.fetched) == (1, 0)


@pytest.mark.parametrize("extra", [0, 5], ids=["same commits", "more commits"])
def test_reads_after_rebuild_are_exact(process: Process, extra: int) -> None:
    """The process remembers the checkpoint of views that are deleted."""
    expected = process.state_event_id() + 10 * extra
    process.append(extra)
    process.replace_views()
    assert process.sessions(KEY) == list(range(1, PROJECTED + 3 + extra + 1))
    process.now_s += CHECKPOINT_TTL_S
    process.state_event_id()
    process.replace_views()
    assert process.state_event_id() == expected
    process.replace_views()
    assert snapshot(process.reader, 1, "order", PathQuery.parse("/")).states.keys() == {ORDER.path}
    process.replace_views()
    assert set(process.newest(TYPE)) >= set(range(2, PROJECTED + 3 + extra + 1))


def test_late_projector_of_replaced_views_hides_no_events(process: Process) -> None:
    """It began before the rebuild and ends after it. Its records must not lack earlier events."""
    process.state_event_id()
    late = load_checkpoint(PROJECTOR, 1, process.views)
    rebuild(1, process.stored, process.views, lambda *_: None)
    projector(process.views).handle(late, list(process.stored.read(1, PROJECTED)), lambda: None)
    assert process.sessions(KEY) == list(range(1, PROJECTED + 4))
    assert process.state_event_id() == 3_030


def test_type_search_after_rebuild_does_not_scan_log(process: Process) -> None:
    process.sessions(TYPE)
    process.replace_views()
    process.reset_counts()
    assert process.sessions(Selection(types=(("scheduler", "?", "OrderAdded"),))) == [1]
    assert process.log.fetched == 1


def test_reads_after_views_were_lost_are_exact(process: Process, views_database: Database) -> None:
    """The new checkpoint has the same generation, but is at the start of the log."""
    process.state_event_id()
    with views_database.transaction() as connection:
        connection.execute("DELETE FROM record")
    assert process.state_event_id() == 3_030
    assert process.sessions(KEY) == list(range(1, PROJECTED + 4))


def test_object_of_unknown_path_is_looked_up_in_current_views(process: Process) -> None:
    process.state_event_id()
    process.reset_counts()
    assert process.sessions(Selection(keys=("/none,1",))) == [PROJECTED + 1, PROJECTED + 2, PROJECTED + 3]
    assert process.views.checkpoints == 1


def test_key_is_looked_up_in_existing_collections_only(process: Process) -> None:
    process.sessions(KEY)
    process.reset_counts()
    assert process.sessions(KEY) == list(range(1, PROJECTED + 4))
    assert process.views.records == 1


def test_collection_that_is_newer_than_checkpoint_is_found(process: Process) -> None:
    """Its first event follows the remembered checkpoint, and is projected before the next read."""
    unknown = Selection(keys=("/other",))
    process.sessions(unknown)
    text = encode(NewEvent(type=("other",), key="/other")).decode()
    process.stored.append([a_commit(PROJECTED + 4, at=4_000, prev=3_030, texts=(text,))])
    assert process.sessions(unknown)[-1] == PROJECTED + 4
    process.project()
    assert process.sessions(unknown)[-1] == PROJECTED + 4
    process.now_s = CHECKPOINT_TTL_S
    assert process.sessions(unknown) == [PROJECTED + 4]


def test_reads_after_retention_deleted_cached_commits_are_exact(process: Process) -> None:
    process.state_event_id()
    process.stored.delete_up_to(1, PROJECTED + 2)
    process.append(1)
    assert object_snapshot(process.reader, 1, ORDER).event_id == 3_040


def test_latest_is_read_again_after_commits_were_deleted(process: Process) -> None:
    """The process remembers a checkpoint. The commits after it are projected, then retention deletes them."""
    retention = Retention(process.stored, lambda: 0)
    latest([1], TYPE, process.reader, retention, max_events=9)
    process.append(9)
    process.project()
    process.append(1)
    process.stored.delete_up_to(1, PROJECTED + 9)
    assert latest([1], TYPE, process.reader, retention, max_events=9).event_id == process.stored.head(1).last_event_id


def test_key_is_read_again_after_commits_were_deleted(process: Process) -> None:
    receipts = ProjectedReceipts(process.reader, clock=lambda: 0)
    receipts.receipts(1, ["k"])
    head = process.stored.head(1)
    process.append(9)
    keyed = a_commit(head.session + 10, at=10_000, prev=head.last_event_id + 90)
    process.stored.append([keyed._replace(idempotency_key="k", digest="d")])
    process.project()
    process.stored.append([a_commit(head.session + 11, at=20_000, prev=keyed.last_event_id)])
    process.stored.delete_up_to(1, keyed.session)
    assert receipts.receipts(1, ["k"]) == {"k": Receipt("d", keyed.session, 10_000)}


def test_object_is_read_again_after_commits_were_deleted(process: Process) -> None:
    process.state_event_id()
    process.append(9)
    process.project()
    process.append(1)
    process.stored.delete_up_to(1, PROJECTED + 9)
    assert object_snapshot(process.reader, 1, ORDER).event_id == process.stored.head(1).last_event_id
    process.append(9)
    process.project()
    process.append(1)
    process.stored.delete_up_to(1, PROJECTED + 19)
    *_, last = object_events(process.reader, 1, ORDER, 2**53)
    assert last.event_id == process.stored.head(1).last_event_id


def test_older_copy_of_log_ends_use_of_cached_commits(process: Process, database: Database) -> None:
    """Another commit has the session of a cached one. Recovery resets the views."""
    process.state_event_id()
    with database.transaction() as connection:
        connection.execute("DELETE FROM log WHERE place > ?", (2**40 + PROJECTED + 1,))
    process.stored.append(
        [
            a_commit(n, at=9_000 + n, prev=3_010 if n == PROJECTED + 2 else 9_000 + n - 1)
            for n in range(PROJECTED + 2, PROJECTED + 6)
        ]
    )
    with pytest.raises(LogBroken):
        process.state_event_id()
    reset_views(1, process.views)
    assert process.state_event_id() == 9_305


@pytest.mark.parametrize(
    ("limit", "value", "cached"),
    [("MAX_CACHED_COMMITS", 2, 2), ("MAX_CACHED_CHARACTERS", 200, 1), ("MAX_TOTAL_CHARACTERS", 200, 0)],
)
def test_tail_beyond_limits_is_read_from_log(
    process: Process, monkeypatch: pytest.MonkeyPatch, limit: str, value: int, cached: int
) -> None:
    monkeypatch.setattr(tail_cache, limit, value)
    process.state_event_id()
    process.reset_counts()
    assert process.state_event_id() == 3_030
    assert process.log.fetched == 3 - cached


def test_cache_forgets_log_that_was_loaded_first(process: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail_cache, "MAX_CACHED_LOGS", 2)
    cache = TailCache(process.log, process.views)
    for server in (1, 2, 3):
        cache.checkpoint(server)
    process.reset_counts()
    for server in (2, 3):
        cache.checkpoint(server)
    assert process.views.checkpoints == 0
    cache.checkpoint(1)
    assert process.views.checkpoints == 1


def test_positions_in_cached_tail_are_found_without_reads(process: Process) -> None:
    process.state_event_id()
    process.append(1)
    heads = {commit.last_event_id: commit.head for commit in process.stored.read(1, PROJECTED - 1)}
    fresh = LogReader(process.stored, NoViews())
    process.reset_counts()
    for event_id in range(PROJECTED * 10, (PROJECTED + 3) * 10 + 1):
        assert process.reader.position_at(1, event_id) == fresh.position_at(1, event_id)
    assert (process.views.checkpoints, process.log.fetched) == (0, 0)
    for event_id in (1, PROJECTED * 10 - 1, (PROJECTED + 4) * 10 - 1, (PROJECTED + 4) * 10, 10_000):
        assert process.reader.position_at(1, event_id) == fresh.position_at(1, event_id)
    assert heads[(PROJECTED + 4) * 10] == process.reader.position_at(1, 10_000)


@pytest.mark.parametrize("limit", [0, 1, 2, 3, 4, None])
def test_cached_tail_honours_limit(process: Process, limit: int | None) -> None:
    head = process.reader.log.head(1)
    process.state_event_id()
    process.append(1)
    start = next(iter(process.stored.read(1, PROJECTED - 1, 1))).head
    sessions = [commit.session for commit in process.reader.tail(start, limit)]
    assert sessions == list(range(PROJECTED + 1, PROJECTED + 5))[:limit]
    assert head.session == PROJECTED + 3
