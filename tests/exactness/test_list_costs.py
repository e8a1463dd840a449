"""The cost of a list is that of its page: the tests limit the records read and the units written."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest

from chalicelib.adapters.dynamodb.capacity import item_size, write_units
from chalicelib.adapters.dynamodb.items import item_from_record
from chalicelib.adapters.sqlite.log import SqliteLog
from chalicelib.adapters.sqlite.views import SqliteViews
from chalicelib.domain.events.event import NewEvent
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.append import Append, encode_within_limits
from chalicelib.domain.objects.list_filter import ListFilter
from chalicelib.domain.objects.path_query import PathQuery
from chalicelib.domain.views.record import ConditionalWrite
from chalicelib.domain.vocabularies import JOB_VOCABULARY, SCHEDULER_VOCABULARY
from chalicelib.services.consumers.consumer import catch_up, run_once
from chalicelib.services.consumers.projector import projector
from chalicelib.services.objects.listing import MAX_COUNTED_OBJECTS, ListQuery, ObjectList, list_objects
from chalicelib.services.reading.log_reader import LogReader
from chalicelib.services.reading.retention import RetentionBoundary
from tests.conformance.anyjob.anyjob import create, finish
from tests.exactness.stores import InterceptedViews, RecordingViews, do_nothing
from tests.services.fakes import World

JOBS = 5_000
EVENTS_PER_COMMIT = 500
FAILED = range(0, JOBS, 1_000)
OPEN = range(100, JOBS, 1_500)
PAGE = 20
MAX_INDEX_RECORDS = 10
"""The root, a node on each level, and some leaves."""
RUN_COMMITS = 100
MAX_LIST_UNITS = 8
"""Write units of lists and claims per 1,000 events, in runs of 100 commits of 20 events."""


def append_all(log: SqliteLog, events: Sequence[NewEvent], size: int) -> None:
    appender = World().appender(log)
    for start in range(0, len(events), size):
        texts = encode_within_limits(events[start : start + size])
        appender.append(Append(1, texts, f"request {start}"))


@pytest.fixture
def jobs(sqlite_log: SqliteLog, sqlite_views: SqliteViews) -> None:
    """Many finished jobs, some of which failed, and some jobs that are open."""
    created = [create(n) for n in range(JOBS)]
    ended = [finish(n, success="0" if n in FAILED else "1") for n in range(JOBS) if n not in OPEN]
    append_all(sqlite_log, list(map(JOB_VOCABULARY.new_event, created + ended)), EVENTS_PER_COMMIT)
    catch_up(projector(sqlite_views), 1, sqlite_log, sqlite_views)


@pytest.mark.usefixtures("jobs")
def test_page_of_large_list_reads_few_records(sqlite_log: SqliteLog, sqlite_views: SqliteViews) -> None:
    reads: Counter[str] = Counter()
    reader, boundary = LogReader(sqlite_log, RecordingViews(sqlite_views, reads)), RetentionBoundary(Head(1), 0)
    everything = ListQuery(1, "job", PathQuery.parse("/"), limit=PAGE)
    first = list_objects(everything, reader, boundary)
    assert (len(first.elements), first.counts) == (PAGE, {"created": len(OPEN), "finished": JOBS - len(OPEN)})
    assert first.results == {"failure": len(FAILED), "success": JOBS - len(OPEN) - len(FAILED)}
    for query, objects in (
        (ListQuery(1, "job", PathQuery.parse("/"), limit=PAGE, cursor=first.next), PAGE),
        (ListQuery(1, "job", PathQuery.parse("/"), ListFilter(result="failure"), limit=PAGE), len(FAILED)),
        (ListQuery(1, "job", PathQuery.parse("/"), ListFilter(state="created"), limit=PAGE), len(OPEN)),
        (ListQuery(1, "job", PathQuery.parse("/"), ListFilter(type="unknown"), limit=PAGE), 0),
    ):
        reads.clear()
        assert len(list_objects(query, reader, boundary).elements) == objects
        assert reads["read object"] <= objects + 1
        assert reads["read list"] <= MAX_INDEX_RECORDS


def append_orders(log: SqliteLog, views: SqliteViews, paths: Sequence[str]) -> None:
    orders = [{"TYPE": "OrderAdded", "key": path, "nodeId": "A"} for path in paths]
    append_all(log, list(map(SCHEDULER_VOCABULARY.new_event, orders)), EVENTS_PER_COMMIT)
    catch_up(projector(views), 1, log, views)


def test_page_of_large_folder_reads_few_records(sqlite_log: SqliteLog, sqlite_views: SqliteViews) -> None:
    append_orders(sqlite_log, sqlite_views, [f"/a/chain,{n}" for n in range(JOBS)])
    reads: Counter[str] = Counter()
    reader, boundary = LogReader(sqlite_log, RecordingViews(sqlite_views, reads)), RetentionBoundary(Head(1), 0)
    query = ListQuery(1, "order", PathQuery.parse("/a/"), limit=PAGE)
    first = list_objects(query, reader, boundary)
    assert (len(first.elements), first.counts) == (PAGE, None)
    assert sum(reads.values()) <= PAGE + 2 * MAX_INDEX_RECORDS
    reads.clear()
    following = list_objects(replace(query, cursor=first.next), reader, boundary)
    assert len({one.path for one in (*first.elements, *following.elements)}) == 2 * PAGE
    assert sum(reads.values()) <= PAGE + MAX_INDEX_RECORDS


def test_page_of_folder_reads_no_more_than_its_parts(sqlite_log: SqliteLog, sqlite_views: SqliteViews) -> None:
    """A small folder is read, and one that is neither small nor recent is searched for after too many records."""
    folders = {"/small/": 50, "/old/": 2 * MAX_COUNTED_OBJECTS, "/new/": MAX_COUNTED_OBJECTS, "/newest/": 200}
    paths = [f"{folder}chain,{n}" for folder, size in folders.items() for n in range(size)]
    append_orders(sqlite_log, sqlite_views, paths)
    reads: Counter[str] = Counter()
    reader, boundary = LogReader(sqlite_log, RecordingViews(sqlite_views, reads)), RetentionBoundary(Head(1), 0)

    def first_page(folder: str) -> ObjectList:
        reads.clear()
        return list_objects(ListQuery(1, "order", PathQuery.parse(folder), limit=PAGE), reader, boundary)

    small = first_page("/small/")
    assert (len(small.elements), small.counts) == (PAGE, {"NotPlanned": 50})
    assert (reads["read object"], reads["read list"] <= 5) == (50, True)
    old = first_page("/old/")
    assert (len(old.elements), old.counts) == (PAGE, None)
    assert reads["read object"] <= MAX_COUNTED_OBJECTS + 1 + PAGE + 1
    assert reads["read list"] <= len(paths) / 128 + 10
    assert first_page("/newest/").counts == {"NotPlanned": 200}


def test_list_of_one_object_reads_one_record(sqlite_log: SqliteLog, sqlite_views: SqliteViews) -> None:
    """Although its path is the prefix of many others."""
    append_orders(sqlite_log, sqlite_views, [f"/a/chain,{n}" for n in range(1, 2_500)])
    reads: Counter[str] = Counter()
    reader, boundary = LogReader(sqlite_log, RecordingViews(sqlite_views, reads)), RetentionBoundary(Head(1), 0)
    page = list_objects(ListQuery(1, "order", PathQuery.parse("/a/chain,1")), reader, boundary)
    assert [one.path for one in page.elements] == ["/a/chain,1"]
    assert (reads["read object"], reads["read list"] <= 5) == (1, True)


class MeteredViews(InterceptedViews):
    """Counts the write units that DynamoDB would consume, by kind of view."""

    def __init__(self, views: SqliteViews) -> None:
        super().__init__(views, Counter(), do_nothing)
        self.units: Counter[str] = Counter()

    def put(self, changes: Sequence[ConditionalWrite]) -> list[ConditionalWrite]:
        for change in changes:
            kind = change.record.view.partition("/")[2].partition(":")[0]
            self.units[kind] += write_units(item_size(item_from_record(change.record)))
        return super().put(changes)


def test_lists_add_few_units_to_views(sqlite_log: SqliteLog, sqlite_views: SqliteViews) -> None:
    events = [
        event
        for start in range(0, 800, 20)
        for step in range(10)
        for event in (
            (create(n) if step == 0 else finish(n) if step == 9 else {**create(n), "event": "progress", "state": "run"})
            for n in range(start, start + 20)
        )
    ]
    append_all(sqlite_log, list(map(JOB_VOCABULARY.new_event, events)), 20)
    views = MeteredViews(sqlite_views)
    while run_once(projector(views), 1, sqlite_log, views, RUN_COMMITS):
        pass
    units = (views.units["list"] + views.units["run"]) * 1_000 / len(events)
    assert 0 < units <= MAX_LIST_UNITS
