"""Consumers come to the end of the log, and no further, however fast others write."""

from collections.abc import Sequence

from chalicelib.domain.commits import Commit
from chalicelib.domain.records import Checkpoint
from chalicelib.services.consumers import RUN_COMMITS, Consumer, catch_up
from chalicelib.store.sqlite.log import SqliteLog
from chalicelib.store.sqlite.views import SqliteViews
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
