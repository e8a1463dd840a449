"""Consumers come to the end of the log, and no further, however fast others write."""

from collections.abc import Iterator, Sequence

from chalicelib.adapters.sqlite.database import Database
from chalicelib.adapters.sqlite.log import SqliteLog
from chalicelib.adapters.sqlite.views import SqliteViews
from chalicelib.domain.log.commit import Commit
from chalicelib.domain.views.record import Checkpoint
from chalicelib.services.consumers.consumer import RUN_COMMITS, Consumer, LastRun, catch_up, catch_up_together
from tests.services.worlds import World, append

HAVE_COME = 3


def test_who_writes_all_the_time_does_not_hold_a_consumer(
    log: SqliteLog, sqlite_views: SqliteViews, world: World
) -> None:
    appender, runs = world.appender(log), list[int]()

    def handle(_checkpoint: Checkpoint, commits: Sequence[Commit]) -> None:
        runs.append(len(commits))
        assert len(runs) < HAVE_COME, "it would go on for ever"
        appender.append(append(request_id=f"meanwhile {len(runs)}"))

    for number in range(HAVE_COME):
        appender.append(append(request_id=f"r{number}"))
    catch_up(Consumer("c", handle), 1, log, sqlite_views)
    assert runs == [HAVE_COME]
    catch_up(Consumer("c", handle), 1, log, sqlite_views)
    assert runs == [HAVE_COME, 1]


def test_much_is_handled_in_runs_with_a_breath_between_them(
    log: SqliteLog, sqlite_views: SqliteViews, world: World
) -> None:
    appender, done = world.appender(log), list[str]()
    for number in range(2 * RUN_COMMITS):
        appender.append(append(request_id=f"r{number}"))
    consumer = Consumer("c", lambda _checkpoint, commits: done.append(f"run of {len(commits)}"))
    last = list[int]()
    catch_up(
        consumer,
        1,
        log,
        sqlite_views,
        caught_up=lambda commit: last.append(commit.session),
        between=lambda: done.append("breath"),
    )
    assert done == [f"run of {RUN_COMMITS}", "breath", f"run of {RUN_COMMITS}", "breath"]
    assert last == [2 * RUN_COMMITS]


class Counted(SqliteLog):
    """Counts how often it is read."""

    reads = 0

    def read(self, server: int, after: int, most: int | None = None) -> Iterator[Commit]:
        self.reads += 1
        return super().read(server, after, most)


def test_consumers_at_the_same_place_read_a_run_once(
    database: Database, sqlite_views: SqliteViews, world: World
) -> None:
    log = Counted(database)
    appender, done = world.appender(log), list[tuple[str, int, int]]()
    for number in range(RUN_COMMITS + 1):
        appender.append(append(request_id=f"r{number}"))

    def consumer(name: str) -> Consumer:
        return Consumer(name, lambda _, commits: done.append((name, commits[0].session, commits[-1].session)))

    catch_up_together([consumer("a"), consumer("b")], 1, LastRun(log), sqlite_views)
    runs = [(1, RUN_COMMITS), (RUN_COMMITS + 1, RUN_COMMITS + 1)]
    assert done == [(name, *run) for run in runs for name in "ab"]
    assert log.reads == len(runs)


def test_a_consumer_that_is_behind_comes_to_the_end_by_itself(
    database: Database, sqlite_views: SqliteViews, world: World
) -> None:
    log = SqliteLog(database)
    appender, seen = world.appender(log), {"ahead": list[int](), "behind": list[int]()}

    def consumer(name: str) -> Consumer:
        return Consumer(name, lambda _, commits: seen[name].extend(commit.session for commit in commits))

    appender.append(append(request_id="first"))
    catch_up(consumer("ahead"), 1, log, sqlite_views)
    for number in range(RUN_COMMITS):
        appender.append(append(request_id=f"r{number}"))
    catch_up_together([consumer("ahead"), consumer("behind")], 1, LastRun(log), sqlite_views)
    everything = list(range(1, RUN_COMMITS + 2))
    assert seen == {"ahead": everything, "behind": everything}


def test_what_is_written_after_an_empty_run_is_read(
    database: Database, sqlite_views: SqliteViews, world: World
) -> None:
    log = SqliteLog(database)
    again, sessions = LastRun(log), list[int]()
    consumer = Consumer("c", lambda _, commits: sessions.extend(commit.session for commit in commits))
    catch_up(consumer, 1, again, sqlite_views)
    world.appender(log).append(append(request_id="r"))
    catch_up(consumer, 1, again, sqlite_views)
    assert sessions == [1]
