"""Order statistics from the list index: equal to those of all orders, and as cheap for many orders as for few."""

from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chalicelib.adapters.sqlite.database import Database
from chalicelib.adapters.sqlite.log import SqliteLog
from chalicelib.adapters.sqlite.views import SCHEMA, SqliteViews
from chalicelib.domain.errors import BadInput
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.append import Append, encode_within_limits
from chalicelib.domain.log.commit import Commit
from chalicelib.domain.objects.path_query import PathQuery
from chalicelib.domain.objects.ref import ObjectRef
from chalicelib.domain.queries.event_seq import Empty, EventSeq, NonEmpty
from chalicelib.domain.views.record import Checkpoint, Record
from chalicelib.domain.vocabularies import SCHEDULER_VOCABULARY
from chalicelib.domain.vocabularies.scheduler.statistics import count_orders
from chalicelib.services.consumers.consumer import catch_up
from chalicelib.services.consumers.projector import projector
from chalicelib.services.feeds.suspension import run_without_waiting
from chalicelib.services.jobs import order_statistics as jobs_order_statistics
from chalicelib.services.jobs.order_statistics import StatisticsQuery, order_statistics, order_statistics_changed
from chalicelib.services.objects.counting import COUNT_TIMEOUT_S, count_folder
from chalicelib.services.objects.snapshots import snapshot
from chalicelib.services.reading.log_reader import LogReader
from chalicelib.services.reading.retention import Retention, RetentionBoundary
from tests.http.scheduler_client import ADDED, ENDED, MOVED, REMOVED, RESUMED, STARTED, STEP, SUSPENDED
from tests.services.fakes import World

EVERYTHING = PathQuery.parse("/")
ORDERS = st.sampled_from(["/a/chain,1", "/a/chain,2", "/b/chain,1"])
CHANGES: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [ADDED, STARTED, STEP, ENDED, SUSPENDED, RESUMED, REMOVED, MOVED]
)


class RecordingViews(SqliteViews):
    """Counts the records that were read."""

    records_read = 0

    def get(self, view: str, items: Sequence[str]) -> dict[str, Record]:
        records = super().get(view, items)
        self.records_read += len(records)
        return records

    def range(self, view: str, start: str, end: str, backwards: bool = False) -> Iterator[Record]:
        for record in super().range(view, start, end, backwards):
            self.records_read += 1
            yield record


class OrderLog:
    """A log with orders, and its views."""

    def __init__(self, folder: Path) -> None:
        self._databases = Database(folder / "l.sqlite", durable=False), Database(folder / "v.sqlite", SCHEMA, False)
        self.log, self.views = SqliteLog(self._databases[0]), RecordingViews(self._databases[1])
        self._appender = World().appender(self.log)

    def publish(self, *events: dict[str, Any]) -> None:
        texts = encode_within_limits([SCHEDULER_VOCABULARY.new_event(event) for event in events])
        self._appender.append(Append(1, texts, f"r{self.log.head(1).session}"))

    def project(self) -> None:
        catch_up(projector(self.views), 1, self.log, self.views)

    def statistics(self, query: PathQuery = EVERYTHING) -> tuple[int, dict[str, int]]:
        return order_statistics(LogReader(self.log, self.views), 1, query, RetentionBoundary(Head(1), 0))

    def naive_statistics(self, query: PathQuery) -> tuple[int, dict[str, int]]:
        orders = snapshot(LogReader(self.log, self.views), 1, "order", query)
        return orders.event_id, count_orders(orders.states.values())

    def close(self) -> None:
        for database in self._databases:
            database.close()


@pytest.fixture
def order_log(tmp_path: Path) -> Iterator[OrderLog]:
    log = OrderLog(tmp_path)
    yield log
    log.close()


@pytest.mark.parametrize("max_read", [0, 2_000])
@given(st.data())
@settings(max_examples=80, deadline=None)
def test_statistics_equal_those_of_all_orders(max_read: int, data: st.DataObject) -> None:
    """With views that lag, orders in files, and orders that are removed."""
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(jobs_order_statistics, "MAX_READ_ORDERS", max_read)
        log = OrderLog(Path(folder))
        for order, change in data.draw(st.lists(st.tuples(ORDERS, CHANGES), min_size=1, max_size=20), label="changes"):
            log.publish({**change, "key": order})
            if data.draw(st.integers(0, 4), label="file") == 0:
                name = data.draw(st.sampled_from(["FileBasedAdded", "FileBasedRemoved"]), label="event")
                log.publish({"TYPE": name, "key": f"Order:{order}"})
            if data.draw(st.booleans(), label="projects"):
                log.project()
        for query in (EVERYTHING, PathQuery.parse("/a/"), PathQuery.parse("/a/chain", "/b/chain,1")):
            assert log.statistics(query) == log.naive_statistics(query)
        log.close()


def test_statistics_of_many_orders_read_few_records(order_log: OrderLog) -> None:
    for number in range(500):
        order_log.publish({**ADDED, "key": f"/a/chain,{number}"})
    order_log.project()
    order_log.publish({**STARTED, "key": "/a/chain,7"})
    order_log.views.records_read = 0
    event_id, counts = order_log.statistics()
    assert (event_id, counts["total"], order_log.views.records_read <= 5) == (
        order_log.log.head(1).last_event_id,
        500,
        True,
    )
    assert order_log.statistics(PathQuery.parse("/a/")) == (event_id, counts)


def test_statistics_of_large_folder_read_the_list_index(order_log: OrderLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs_order_statistics, "MAX_READ_ORDERS", 20)
    for start in range(0, 1_000, 100):
        order_log.publish(*({**ADDED, "key": f"/a/chain,{number}"} for number in range(start, start + 100)))
    order_log.publish({**ADDED, "key": "/b/chain,1"})
    order_log.project()
    order_log.views.records_read = 0
    assert order_log.statistics(PathQuery.parse("/a/"))[1]["total"] == 1_000
    assert order_log.views.records_read <= 21 + 15


def test_statistics_that_take_too_long_are_refused(order_log: OrderLog) -> None:
    order_log.publish({**ADDED, "key": "/a/chain,1"})
    order_log.project()
    reader, times = LogReader(order_log.log, order_log.views), count(step=COUNT_TIMEOUT_S)
    with pytest.raises(BadInput, match="too many to count them; request those of subfolders"):
        count_folder(reader, 1, "order", PathQuery.parse("/a/"), RetentionBoundary(Head(1), 0), lambda: 2 * next(times))


class RecordingReader(LogReader):
    """Counts the commits that were read."""

    commits_read = 0

    def tail(self, head: Head, limit: int | None = None) -> Iterator[Commit]:
        for commit in super().tail(head, limit):
            self.commits_read += 1
            yield commit

    def object_commits(self, checkpoint: Checkpoint, ref: ObjectRef, record: Record | None) -> Iterator[Commit]:
        for commit in super().object_commits(checkpoint, ref, record):
            self.commits_read += 1
            yield commit


def changes(order_log: OrderLog, after: int) -> tuple[EventSeq, int]:
    """The response to a request that does not wait, and the number of commits read."""
    reader = RecordingReader(order_log.log, order_log.views)
    query = StatisticsQuery(1, EVERYTHING, after, timeout_s=0.0)
    read = order_statistics_changed(query, reader, Retention(order_log.log, World().clock))
    return run_without_waiting(read), reader.commits_read


def test_change_of_many_orders_is_not_compared(order_log: OrderLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any reader may ask for the changes since the first event of a long log."""
    monkeypatch.setattr(jobs_order_statistics, "MAX_COMPARED_ORDERS", 10)
    for number in range(100):
        order_log.publish({**ADDED, "key": f"/a/chain,{number}"})
    order_log.project()
    seq, commits_read = changes(order_log, after=1)
    assert isinstance(seq, NonEmpty)
    assert commits_read <= 20


def test_many_commits_without_orders_are_not_compared(order_log: OrderLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs_order_statistics, "MAX_COMPARED_COMMITS", 10)
    for number in range(100):
        order_log.publish({"TYPE": "FileBasedAdded", "key": f"Job:/job-{number}"})
    order_log.project()
    seq, commits_read = changes(order_log, after=1)
    assert isinstance(seq, NonEmpty)
    assert commits_read <= 20


def test_change_that_cancels_itself_is_none(order_log: OrderLog) -> None:
    order_log.publish({**ADDED, "key": "/a/chain,1"})
    after = order_log.log.head(1).last_event_id
    order_log.publish({**ADDED, "key": "/a/chain,2"}, {**REMOVED, "key": "/a/chain,2"})
    assert isinstance(changes(order_log, after)[0], Empty)
    order_log.publish({**ADDED, "key": "/a/chain,3"})
    assert isinstance(changes(order_log, after)[0], NonEmpty)
