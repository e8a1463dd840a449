"""What reading and the views cost on DynamoDB, in capacity units: counted by item sizes, for emulators count wrongly.

The stores are SQLite's; wrappers count what the same calls would cost on DynamoDB.
"""

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from benchmarks import history
from benchmarks.dynamodb_cost import commits_of
from benchmarks.results import Row, Table
from chalicelib.adapters.dynamodb.capacity import item_size, read_units, write_units
from chalicelib.adapters.dynamodb.items import item_from_commit, item_from_record
from chalicelib.adapters.sqlite.database import Database
from chalicelib.adapters.sqlite.log import SqliteLog
from chalicelib.adapters.sqlite.views import SCHEMA, SqliteViews
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.commit import Commit
from chalicelib.domain.objects.path_query import PathQuery
from chalicelib.domain.queries.event_filter import Selection
from chalicelib.domain.views.record import Change, Record
from chalicelib.services.feeds.feed import FeedQuery, follow
from chalicelib.services.feeds.notifiers import Looking
from chalicelib.services.objects.snapshots import snapshot
from chalicelib.services.reading.latest import latest
from chalicelib.services.reading.log_reader import LogReader
from chalicelib.services.reading.retention import Retention

EVENTS = 40_000
RUN_COMMITS = 100
POLL_S = 25.0


class CountedLog(SqliteLog):
    """Counts the read units that DynamoDB would take."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.units = 0.0

    def head(self, server: int) -> Head:
        """One query of one item, body and all."""
        head = super().head(server)
        last = super().commit(server, head.session)
        self.units += 1 if last is None else read_units(_size(last), consistent=True)
        return head

    def start(self, server: int) -> Head:
        """One query of one item."""
        self.units += 1
        return super().start(server)

    def commit(self, server: int, session: int) -> Commit | None:
        """One item."""
        found = super().commit(server, session)
        self.units += 1 if found is None else read_units(_size(found), consistent=True)
        return found

    def commits(self, server: int, sessions: Sequence[int]) -> Iterator[Commit]:
        """Each item by itself, at half price."""
        for commit in super().commits(server, sessions):
            self.units += read_units(_size(commit), consistent=False)
            yield commit

    def goes_on(self, head: Head) -> bool:
        """One item, at half price."""
        found = super().commit(head.server, head.session + 1)
        self.units += 0.5 if found is None else read_units(_size(found), consistent=False)
        return found is not None

    def read(self, server: int, after: int, most: int | None = None) -> Iterator[Commit]:
        """A query: the items together."""
        yield from self._queried(super().read(server, after, most))

    def read_back(self, server: int, before: int, most: int | None = None) -> Iterator[Commit]:
        """A query: the items together."""
        yield from self._queried(super().read_back(server, before, most))

    def _queried(self, commits: Iterator[Commit]) -> Iterator[Commit]:
        size = 0
        for commit in commits:
            size += _size(commit)
            yield commit
        self.units += read_units(size, consistent=True)


class CountedViews(SqliteViews):
    """Counts the units that DynamoDB would take."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.units = 0.0
        self.written: Counter[str] = Counter()

    def get(self, view: str, items: Sequence[str]) -> dict[str, Record]:
        """Each item by itself, also one that is not there."""
        found = super().get(view, items)
        missing = len(items) - len(found)
        self.units += missing + sum(read_units(_record_size(record), consistent=True) for record in found.values())
        return found

    def range(self, view: str, start: str, end: str, backwards: bool = False) -> Iterator[Record]:
        """A query: the items together."""
        size = 0
        for record in super().range(view, start, end, backwards):
            size += _record_size(record)
            yield record
        self.units += read_units(size, consistent=True)

    def put(self, changes: Sequence[Change]) -> list[Change]:
        """Each by itself."""
        for change in changes:
            kind = change.record.view.partition("/")[2].partition(":")[0]
            self.written[kind] += write_units(_record_size(change.record))
        return super().put(changes)


def measured() -> Iterator[Table]:
    """What readers and the projector take."""
    with tempfile.TemporaryDirectory() as directory:
        log, views = stores(Path(directory))
        history.fill(log, EVENTS)
        history.project(views, log)
        yield Table("read units on DynamoDB", tuple(_reads(log, views)))
    with tempfile.TemporaryDirectory() as directory:
        yield Table("write units of the views per 1,000 events", tuple(_writes(Path(directory))))


def at_length(directory: Path) -> Table:
    """What readers take of the log that is in a directory, with its views."""
    log, views = stores(directory)
    rows = [Row(row.name, "units", {"Annals": row.values["units"]}) for row in _reads(log, views)]
    return Table("read units", tuple(rows))


def _reads(log: CountedLog, views: CountedViews) -> Iterator[Row]:
    present, server = LogReader(log, views), history.SERVER
    retention = Retention(log, lambda: history.AT_MS)
    retention.forgotten(server)
    key = Selection(keys=("/job/77",))
    acts: dict[str, Callable[[], object]] = {
        "events of one job": lambda: follow(FeedQuery(server, key), present, Looking(), retention),
        "latest of some types": lambda: latest([server], Selection(types=("job/finish/n7/*",)), present, retention),
        "snapshot of a folder of 1,000 orders": lambda: snapshot(present, server, "order", PathQuery.of("/folder/")),
        "one event of a rare type": lambda: follow(
            FeedQuery(server, Selection(types=("rare/*",))), present, Looking(), retention
        ),
        f"an idle long poll of {POLL_S:g} s": lambda: _poll(log, present, retention, server),
    }
    for name, act in acts.items():
        log.units = views.units = 0
        act()
        yield Row(name, "", {"units": log.units + views.units, "of the log": log.units, "of the views": views.units})


def _poll(log: CountedLog, present: LogReader, retention: Retention, server: int) -> None:
    elapsed = [0.0]
    looking = Looking(lambda pause_s: elapsed.__setitem__(0, elapsed[0] + pause_s), log.goes_on, lambda: elapsed[0])
    last = log.head(server).last
    query = FeedQuery(server, Selection(types=("never",)), last, timeout_s=POLL_S)
    follow(query, present, looking, retention, monotonic=lambda: elapsed[0])


def _writes(directory: Path) -> Iterator[Row]:
    log, views = stores(directory)
    commits = commits_of(history.BATCH, EVENTS)
    for start in range(0, len(commits), 500):
        log.append(list(islice(commits, start, start + 500)), [], 0)
    history.project(views, log, RUN_COMMITS)
    for kind, units in views.written.most_common():
        yield Row(kind, "", {"units": units * 1000 / EVENTS})
    yield Row("all, in runs of 100 commits of 20 events", "", {"units": views.written.total() * 1000 / EVENTS})


def stores(directory: Path) -> tuple[CountedLog, CountedViews]:
    """A log and its views, counted."""
    log = CountedLog(Database(directory / "annals.sqlite", durable=False))
    return log, CountedViews(Database(directory / "views.sqlite", SCHEMA, durable=False))


def _size(commit: Commit) -> int:
    return item_size(item_from_commit(commit))


def _record_size(record: Record) -> int:
    return item_size(item_from_record(record))
