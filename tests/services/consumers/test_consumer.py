"""Consumers catch up with the log while others write."""

from collections.abc import Callable, Iterator, Sequence

import pytest

from chalicelib.adapters.sqlite.database import Database
from chalicelib.adapters.sqlite.log import SqliteLog
from chalicelib.adapters.sqlite.views import SqliteViews
from chalicelib.domain.errors import Unavailable
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.commit import Commit
from chalicelib.domain.views.record import Checkpoint, ConditionalWrite, Record
from chalicelib.services.consumers.checkpoints import load_checkpoint
from chalicelib.services.consumers.consumer import MAX_RUN_COMMITS, CachedCommitReader, Consumer, RunSizes, catch_up
from chalicelib.services.consumers.for_each import MIN_REMAINING_MS, for_each_in_time
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
        report_last=lambda commit: last.append(commit.session),
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


def test_cached_reader_reads_once_for_two_consumers(
    database: Database, sqlite_views: SqliteViews, world: World
) -> None:
    log = CountingLog(database)
    world.appender(log).append(append())
    cached, done = CachedCommitReader(log), list[tuple[str, int]]()

    def consumer(name: str) -> Consumer:
        return Consumer(name, lambda _, commits: done.append((name, commits[-1].session)))

    for name in "ab":
        catch_up(consumer(name), 1, cached, sqlite_views)
    assert (done, log.reads) == ([("a", 1), ("b", 1)], 1)


def test_cached_reader_does_not_cache_empty_result(database: Database, sqlite_views: SqliteViews, world: World) -> None:
    log = SqliteLog(database)
    cached, sessions = CachedCommitReader(log), list[int]()
    consumer = Consumer("c", lambda _, commits: sessions.extend(commit.session for commit in commits))
    catch_up(consumer, 1, cached, sqlite_views)
    world.appender(log).append(append(request_id="r"))
    catch_up(consumer, 1, cached, sqlite_views)
    assert sessions == [1]


class Interrupted(Exception):
    """Ends a handler in the middle of a run."""


def append_commits(log: SqliteLog, world: World, commits: int, events: int = 1) -> None:
    for number in range(commits):
        world.appender(log).append(append(*["/k"] * events, request_id=f"r{number}"))


def handle_one_by_one(sessions: list[int], fails_after: int = 2**31) -> Consumer:
    """A consumer that reports progress after each commit, and fails after some commits."""

    def handle(checkpoint: Checkpoint, commits: Sequence[Commit]) -> Iterator[Checkpoint]:
        for commit in commits:
            if len(sessions) == fails_after:
                raise Interrupted
            sessions.append(commit.session)
            yield checkpoint.at(commit.head)

    return Consumer("c", handle)


def test_run_that_fails_keeps_its_progress(log: SqliteLog, sqlite_views: SqliteViews, world: World) -> None:
    append_commits(log, world, 5)
    sessions: list[int] = []
    with pytest.raises(Interrupted):
        catch_up(handle_one_by_one(sessions, fails_after=3), 1, log, sqlite_views)
    assert load_checkpoint("c", 1, sqlite_views).head.session == 3
    assert catch_up(handle_one_by_one(sessions), 1, log, sqlite_views)
    assert sessions == [1, 2, 3, 4, 5]


def test_catch_up_out_of_time_stops_and_resumes(log: SqliteLog, sqlite_views: SqliteViews, world: World) -> None:
    append_commits(log, world, 5)
    sessions, last = list[int](), list[int]()
    consumer = handle_one_by_one(sessions)

    def catch_up_until(session: int) -> bool:
        return catch_up(
            consumer,
            1,
            log,
            sqlite_views,
            report_last=lambda commit: last.append(commit.session),
            has_time=lambda: sessions[-1] < session,
        )

    assert [catch_up_until(2), catch_up_until(0), catch_up_until(9)] == [False, False, True]
    assert (sessions, last) == ([1, 2, 3, 4, 5], [2, 3, 5])


def test_position_within_commit_is_stored(log: SqliteLog, sqlite_views: SqliteViews, world: World) -> None:
    append_commits(log, world, 2, events=3)
    steps: list[str] = []

    def handle(checkpoint: Checkpoint, commits: Sequence[Commit]) -> Iterator[Checkpoint]:
        for commit in commits:
            done = int(checkpoint.part or 0) if commit is commits[0] else 0
            for event in commit.events[done:]:
                steps.append(str(event.id))
                is_last = event.id.instance == commit.event_count
                yield (
                    checkpoint.at(commit.head)
                    if is_last
                    else checkpoint.at(commit.previous_head, str(event.id.instance))
                )

    while not catch_up(Consumer("c", handle), 1, log, sqlite_views, has_time=lambda: False):
        pass
    assert steps == [f"1.{session}.{instance}" for session in (1, 2) for instance in (1, 2, 3)]
    assert load_checkpoint("c", 1, sqlite_views) == Checkpoint(log.head(1), record_version=2**44 + 2)


def test_checkpoint_of_first_release_has_no_part(sqlite_views: SqliteViews) -> None:
    sqlite_views.put([ConditionalWrite(Record("1/checkpoint", "c", 2**44 + 7, '{"n":2,"last":99}'), None)])
    assert load_checkpoint("c", 1, sqlite_views) == Checkpoint(Head(1, 7, 2, 99), record_version=2**44 + 7)


def test_run_is_limited_by_number_of_events(log: SqliteLog, sqlite_views: SqliteViews, world: World) -> None:
    append_commits(log, world, 11, events=1_000)
    runs: list[int] = []
    catch_up(Consumer("c", lambda _, commits: runs.append(len(commits))), 1, log, sqlite_views)
    assert runs == [5, 5, 1]


def test_run_is_halved_after_each_timeout_and_grows_again(
    log: SqliteLog, sqlite_views: SqliteViews, world: World
) -> None:
    append_commits(log, world, 150)
    runs, sizes, max_commits = list[int](), RunSizes(), 30

    def handle(_checkpoint: Checkpoint, commits: Sequence[Commit]) -> None:
        runs.append(len(commits))
        if len(commits) > max_commits:
            raise Unavailable("the time is used up")

    for _ in range(3):
        with pytest.raises(Unavailable):
            catch_up(Consumer("c", handle), 1, log, sqlite_views, sizes=sizes)
    max_commits = 150
    assert catch_up(Consumer("c", handle), 1, log, sqlite_views, sizes=sizes)
    assert runs == [150, 100, 50, 25, 50, 75]


def test_remaining_time_is_shared_by_logs() -> None:
    now_ms, finished = 0, dict[int, int]()

    def work(server: int, has_time: Callable[[], bool]) -> bool:
        nonlocal now_ms
        while has_time():
            now_ms += 100
            if server == 2:
                break
        finished[server] = now_ms
        return server == 2

    assert for_each_in_time([1, 2, 3], work, lambda: 29_000 - now_ms) == {1, 3}
    assert finished == {1: 7_000, 2: 7_100, 3: 29_000 - MIN_REMAINING_MS}
