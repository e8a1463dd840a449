"""Consumers catch up with the log while others write."""

from collections.abc import Iterator, Sequence

from chalicelib.adapters.sqlite.database import Database
from chalicelib.adapters.sqlite.log import SqliteLog
from chalicelib.adapters.sqlite.views import SqliteViews
from chalicelib.domain.log.commit import Commit
from chalicelib.domain.views.record import Checkpoint
from chalicelib.services.consumers.consumer import (
    MAX_RUN_COMMITS,
    CachedCommitReader,
    Consumer,
    catch_up,
    catch_up_together,
)
from tests.services.fakes import World, append

WRITTEN_COMMITS = 3


def test_catch_up_ends_although_writer_continues(log: SqliteLog, sqlite_views: SqliteViews, world: World) -> None:
    appender, runs = world.appender(log), list[int]()

    def handle(_checkpoint: Checkpoint, commits: Sequence[Commit]) -> None:
        runs.append(len(commits))
        assert len(runs) < WRITTEN_COMMITS, "the consumer does not stop"
        appender.append(append(request_id=f"meanwhile {len(runs)}"))

    for number in range(WRITTEN_COMMITS):
        appender.append(append(request_id=f"r{number}"))
    catch_up(Consumer("c", handle), 1, log, sqlite_views)
    assert runs == [WRITTEN_COMMITS]
    catch_up(Consumer("c", handle), 1, log, sqlite_views)
    assert runs == [WRITTEN_COMMITS, 1]


def test_catch_up_calls_between_runs(log: SqliteLog, sqlite_views: SqliteViews, world: World) -> None:
    appender, done = world.appender(log), list[str]()
    for number in range(2 * MAX_RUN_COMMITS):
        appender.append(append(request_id=f"r{number}"))
    consumer = Consumer("c", lambda _checkpoint, commits: done.append(f"run of {len(commits)}"))
    last = list[int]()
    catch_up(
        consumer,
        1,
        log,
        sqlite_views,
        on_caught_up=lambda commit: last.append(commit.session),
        between_runs=lambda: done.append("pause"),
    )
    assert done == [f"run of {MAX_RUN_COMMITS}", "pause", f"run of {MAX_RUN_COMMITS}", "pause"]
    assert last == [2 * MAX_RUN_COMMITS]


class CountingLog(SqliteLog):
    """Counts its reads."""

    reads = 0

    def read(self, server: int, after: int, limit: int | None = None) -> Iterator[Commit]:
        self.reads += 1
        return super().read(server, after, limit)


def test_catch_up_together_reads_each_run_once(database: Database, sqlite_views: SqliteViews, world: World) -> None:
    log = CountingLog(database)
    appender, done = world.appender(log), list[tuple[str, int, int]]()
    for number in range(MAX_RUN_COMMITS + 1):
        appender.append(append(request_id=f"r{number}"))

    def consumer(name: str) -> Consumer:
        return Consumer(name, lambda _, commits: done.append((name, commits[0].session, commits[-1].session)))

    catch_up_together([consumer("a"), consumer("b")], 1, CachedCommitReader(log), sqlite_views)
    runs = [(1, MAX_RUN_COMMITS), (MAX_RUN_COMMITS + 1, MAX_RUN_COMMITS + 1)]
    assert done == [(name, *run) for run in runs for name in "ab"]
    assert log.reads == len(runs)


def test_catch_up_together_runs_lagging_consumer_to_end(
    database: Database, sqlite_views: SqliteViews, world: World
) -> None:
    log = SqliteLog(database)
    appender, seen = world.appender(log), {"ahead": list[int](), "behind": list[int]()}

    def consumer(name: str) -> Consumer:
        return Consumer(name, lambda _, commits: seen[name].extend(commit.session for commit in commits))

    appender.append(append(request_id="first"))
    catch_up(consumer("ahead"), 1, log, sqlite_views)
    for number in range(MAX_RUN_COMMITS):
        appender.append(append(request_id=f"r{number}"))
    catch_up_together([consumer("ahead"), consumer("behind")], 1, CachedCommitReader(log), sqlite_views)
    everything = list(range(1, MAX_RUN_COMMITS + 2))
    assert seen == {"ahead": everything, "behind": everything}


def test_cached_reader_does_not_cache_empty_result(database: Database, sqlite_views: SqliteViews, world: World) -> None:
    log = SqliteLog(database)
    cached, sessions = CachedCommitReader(log), list[int]()
    consumer = Consumer("c", lambda _, commits: sessions.extend(commit.session for commit in commits))
    catch_up(consumer, 1, cached, sqlite_views)
    world.appender(log).append(append(request_id="r"))
    catch_up(consumer, 1, cached, sqlite_views)
    assert sessions == [1]
