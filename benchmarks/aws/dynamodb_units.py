"""Capacity units of reads and of the views on DynamoDB, counted by item size because emulators count wrongly.

The stores are SQLite. Subclasses count the units that the same calls would consume on DynamoDB.
"""

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from benchmarks.aws.dynamodb_cost import make_commits
from benchmarks.load import annals_store
from benchmarks.report.results import Row, Table
from chalicelib.adapters.dynamodb.capacity import item_size, read_units, write_units
from chalicelib.adapters.dynamodb.items import item_from_commit, item_from_record
from chalicelib.adapters.sqlite.database import Database
from chalicelib.adapters.sqlite.log import SqliteLog
from chalicelib.adapters.sqlite.views import SCHEMA, SqliteViews
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.commit import Commit
from chalicelib.domain.objects.path_query import PathQuery
from chalicelib.domain.queries.event_filter import Selection
from chalicelib.domain.views.record import ConditionalWrite, Record
from chalicelib.services.feeds.feed import FeedQuery, long_poll_blocking
from chalicelib.services.feeds.notifiers import PollingNotifier
from chalicelib.services.objects.snapshots import snapshot
from chalicelib.services.reading.latest import latest
from chalicelib.services.reading.log_reader import LogReader
from chalicelib.services.reading.retention import Retention

EVENTS = 40_000
RUN_COMMITS = 100
POLL_S = 25.0


class MeteredLog(SqliteLog):
    """Counts the read units that DynamoDB would consume."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.units = 0.0

    def head(self, server: int) -> Head:
        """Query of one whole item."""
        head = super().head(server)
        last = super().commit(server, head.session)
        self.units += 1 if last is None else read_units(_size(last), consistent=True)
        return head

    def start(self, server: int) -> Head:
        """Query of one item."""
        self.units += 1
        return super().start(server)

    def commit(self, server: int, session: int) -> Commit | None:
        """Get of one item."""
        commit = super().commit(server, session)
        self.units += 1 if commit is None else read_units(_size(commit), consistent=True)
        return commit

    def commits(self, server: int, sessions: Sequence[int]) -> Iterator[Commit]:
        """Batch get: each item counts separately, eventually consistent reads cost half."""
        for commit in super().commits(server, sessions):
            self.units += read_units(_size(commit), consistent=False)
            yield commit

    def goes_on(self, head: Head) -> bool:
        """Eventually consistent get of one item."""
        commit = super().commit(head.server, head.session + 1)
        self.units += 0.5 if commit is None else read_units(_size(commit), consistent=False)
        return commit is not None

    def read(self, server: int, after: int, most: int | None = None) -> Iterator[Commit]:
        """Query: the sum of the item sizes counts."""
        yield from self._count_query(super().read(server, after, most))

    def read_backwards(self, server: int, before: int, most: int | None = None) -> Iterator[Commit]:
        """Query: the sum of the item sizes counts."""
        yield from self._count_query(super().read_backwards(server, before, most))

    def _count_query(self, commits: Iterator[Commit]) -> Iterator[Commit]:
        size = 0
        for commit in commits:
            size += _size(commit)
            yield commit
        self.units += read_units(size, consistent=True)


class MeteredViews(SqliteViews):
    """Counts the read and write units that DynamoDB would consume."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.units = 0.0
        self.written: Counter[str] = Counter()

    def get(self, view: str, items: Sequence[str]) -> dict[str, Record]:
        """Batch get: each item counts separately, even if it does not exist."""
        records = super().get(view, items)
        missing = len(items) - len(records)
        self.units += missing + sum(read_units(_record_size(record), consistent=True) for record in records.values())
        return records

    def range(self, view: str, start: str, end: str, backwards: bool = False) -> Iterator[Record]:
        """Query: the sum of the item sizes counts."""
        size = 0
        for record in super().range(view, start, end, backwards):
            size += _record_size(record)
            yield record
        self.units += read_units(size, consistent=True)

    def put(self, changes: Sequence[ConditionalWrite]) -> list[ConditionalWrite]:
        """Each item counts separately."""
        for change in changes:
            kind = change.record.view.partition("/")[2].partition(":")[0]
            self.written[kind] += write_units(_record_size(change.record))
        return super().put(changes)


def measure() -> Iterator[Table]:
    """Two tables: read units of queries, and write units of the projector."""
    with tempfile.TemporaryDirectory() as directory:
        log, views = open_stores(Path(directory))
        annals_store.fill(log, EVENTS)
        annals_store.project(views, log)
        yield Table("read units on DynamoDB", tuple(_reads(log, views)))
    with tempfile.TemporaryDirectory() as directory:
        yield Table("write units of the views per 1,000 events", tuple(_writes(Path(directory))))


def read_unit_table(directory: Path) -> Table:
    """Read units of queries on the log in `directory`."""
    log, views = open_stores(directory)
    rows = [Row(row.name, "units", {"Annals": row.values["units"]}) for row in _reads(log, views)]
    return Table("read units", tuple(rows))


def _reads(log: MeteredLog, views: MeteredViews) -> Iterator[Row]:
    reader, server = LogReader(log, views), annals_store.SERVER
    retention = Retention(log, lambda: annals_store.AT_MS)
    retention.boundary(server)
    key = Selection(keys=("/job/77",))
    operations: dict[str, Callable[[], object]] = {
        "events of one job": lambda: long_poll_blocking(FeedQuery(server, key), reader, PollingNotifier(), retention),
        "latest of some types": lambda: latest([server], Selection(types=("job/finish/n7/*",)), reader, retention, 100),
        "snapshot of a folder of 1,000 orders": lambda: snapshot(reader, server, "order", PathQuery.parse("/folder/")),
        "one event of a rare type": lambda: long_poll_blocking(
            FeedQuery(server, Selection(types=("rare/*",))), reader, PollingNotifier(), retention
        ),
        f"an idle long poll of {POLL_S:g} s": lambda: _poll(log, reader, retention, server),
    }
    for name, run in operations.items():
        log.units = views.units = 0
        run()
        yield Row(name, "", {"units": log.units + views.units, "of the log": log.units, "of the views": views.units})


def _poll(log: MeteredLog, reader: LogReader, retention: Retention, server: int) -> None:
    elapsed = [0.0]
    notifier = PollingNotifier(
        lambda pause_s: elapsed.__setitem__(0, elapsed[0] + pause_s), log.goes_on, lambda: elapsed[0]
    )
    last = log.head(server).last_event_id
    query = FeedQuery(server, Selection(types=("never",)), last, timeout_s=POLL_S)
    long_poll_blocking(query, reader, notifier, retention, monotonic=lambda: elapsed[0])


def _writes(directory: Path) -> Iterator[Row]:
    log, views = open_stores(directory)
    commits = make_commits(annals_store.BATCH, EVENTS)
    for start in range(0, len(commits), 500):
        log.append(list(islice(commits, start, start + 500)))
    annals_store.project(views, log, RUN_COMMITS)
    for kind, units in views.written.most_common():
        yield Row(kind, "", {"units": units * 1000 / EVENTS})
    yield Row("all, in runs of 100 commits of 20 events", "", {"units": views.written.total() * 1000 / EVENTS})


def open_stores(directory: Path) -> tuple[MeteredLog, MeteredViews]:
    log = MeteredLog(Database(directory / "annals.sqlite", durable=False))
    return log, MeteredViews(Database(directory / "views.sqlite", SCHEMA, durable=False))


def _size(commit: Commit) -> int:
    return item_size(item_from_commit(commit))


def _record_size(record: Record) -> int:
    return item_size(item_from_record(record))
