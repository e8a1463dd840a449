"""Group commit: appends of several threads are written together, and each gets its own outcome."""

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import Any, Self, TypeVar

import pytest

from chalicelib.adapters.sqlite.database import Database
from chalicelib.adapters.sqlite.log import SqliteLog
from chalicelib.domain.errors import ConditionFailed, Unavailable
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.commit import Appended, Commit, verify_contiguous
from chalicelib.services.log.appender import APPEND_TIMEOUT_S, BACKOFF, Appender
from chalicelib.services.log.group_commit import GroupCommit
from chalicelib.services.log.group_queue import MAX_GROUP_SIZE
from tests.services.fakes import FailingLog, World, append, keys, no_match

WRITERS = 8
REQUESTS = 25
TIMEOUT_S = 30.0
T = TypeVar("T")
POLL_INTERVAL_S = 0.001


class GatedLog(SqliteLog):
    """Blocks each write until the test opens the gate. The writes numbered in `failing` fail."""

    def __init__(self, database: Database, failing: Sequence[int] = ()) -> None:
        super().__init__(database)
        self.groups: list[list[str]] = []
        self._failing = failing
        self._arrived = threading.Semaphore(0)
        self._gate = threading.Semaphore(0)

    def append(self, commits: Sequence[Commit]) -> None:
        self.groups.append([commit.request_id for commit in commits])
        number = len(self.groups)
        self._arrived.release()
        assert self._gate.acquire(timeout=TIMEOUT_S)
        if number in self._failing:
            raise RuntimeError(f"group {number} fails")
        super().append(commits)

    def await_writer(self) -> None:
        """Return when a write has reached the gate."""
        assert self._arrived.acquire(timeout=TIMEOUT_S)

    def open(self, times: int = 1) -> None:
        """Let `times` writes pass."""
        self._gate.release(times)


class DaemonThreads:
    """Runs each call in a thread. Unlike those of a pool, a thread that hangs does not prevent the end of the test."""

    def __init__(self) -> None:
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, failure: type[BaseException] | None, *_: object) -> None:
        if failure is None:
            for thread in self._threads:
                thread.join(TIMEOUT_S)
                assert not thread.is_alive()

    def submit(self, function: Callable[..., T], *args: Any) -> Future[T]:
        future: Future[T] = Future()

        def run() -> None:
            try:
                future.set_result(function(*args))
            except BaseException as error:
                future.set_exception(error)

        self._threads.append(threading.Thread(target=run, daemon=True))
        self._threads[-1].start()
        return future


def ignore_commit(commit: Commit) -> None:
    del commit


def wait_for_queue(group_commit: GroupCommit, length: int) -> None:
    """Return when `length` appends are queued."""
    pause, attempts = threading.Event(), int(TIMEOUT_S / POLL_INTERVAL_S)
    for _ in range(attempts):
        queued = sum(len(group.write.appends) for group in list(group_commit._queue._groups))
        if queued == length:
            return
        pause.wait(POLL_INTERVAL_S)
    raise AssertionError(f"{queued} appends are queued, not {length}")


def test_append_from_threads_gets_consecutive_sessions(log: SqliteLog, world: World) -> None:
    group_commit = GroupCommit(world.appender(log), ignore_commit)

    def write(writer: int) -> list[int]:
        return [
            group_commit.append(append(f"/{writer}", request_id=f"{writer}.{n}")).commit.session
            for n in range(REQUESTS)
        ]

    with DaemonThreads() as pool:
        writers = [pool.submit(write, writer) for writer in range(WRITERS)]
        sessions = [writer.result(TIMEOUT_S) for writer in writers]
    assert all(of_writer == sorted(of_writer) for of_writer in sessions)
    assert sorted(session for of_writer in sessions for session in of_writer) == list(range(1, WRITERS * REQUESTS + 1))
    stored = list(verify_contiguous(Head(1), log.read(1, 0)))
    assert [[c.session for c in stored if c.request_id.startswith(f"{n}.")] for n in range(WRITERS)] == sessions


def test_queued_appends_are_written_as_one_group(database: Database, world: World) -> None:
    log = GatedLog(database)
    group_commit = GroupCommit(world.appender(log), ignore_commit)
    with DaemonThreads() as pool:
        appends = queue_behind_first(pool, group_commit, log, ["a", "b", "c", "d"])
        log.open(2)
        sessions = [pending.result(TIMEOUT_S).commit.session for pending in appends]
    assert log.groups == [["a"], ["b", "c", "d"]]
    assert sessions == [1, 2, 3, 4]


def test_failed_condition_does_not_fail_the_group(database: Database, world: World) -> None:
    log = GatedLog(database)
    group_commit = GroupCommit(world.appender(log), ignore_commit)
    with DaemonThreads() as pool:
        leader = pool.submit(group_commit.append, append("/1", request_id="a"))
        log.await_writer()
        others = []
        for number, request in enumerate(
            [
                append("/2", request_id="b"),
                append("/3", request_id="c", condition=no_match("/2")),
                append("/4", request_id="d", condition=no_match("/4")),
            ],
            start=1,
        ):
            others.append(pool.submit(group_commit.append, request))
            wait_for_queue(group_commit, number)
        log.open(2)
        assert leader.result(TIMEOUT_S).commit.session == 1
        with pytest.raises(ConditionFailed):
            others[1].result(TIMEOUT_S)
        assert [others[i].result(TIMEOUT_S).commit.session for i in (0, 2)] == [2, 3]
    assert keys(log) == [(1, "/1"), (2, "/2"), (3, "/4")]


def test_write_error_reaches_its_group_only(database: Database, world: World) -> None:
    log = GatedLog(database, failing=[2])
    group_commit = GroupCommit(world.appender(log), ignore_commit)
    with DaemonThreads() as pool:
        first = queue_behind_first(pool, group_commit, log, ["a", "b", "c"])
        log.open()
        log.await_writer()
        later = [pool.submit(group_commit.append, append(request_id="d"))]
        wait_for_queue(group_commit, 1)
        log.open(2)
        assert first[0].result(TIMEOUT_S).commit.session == 1
        for pending in first[1:]:
            with pytest.raises(RuntimeError, match="group 2 fails"):
                pending.result(TIMEOUT_S)
        assert later[0].result(TIMEOUT_S).commit.session == 2
    assert log.groups == [["a"], ["b", "c"], ["d"]]


def test_unavailable_store_fails_the_whole_group(database: Database, world: World) -> None:
    class UnavailableLog(GatedLog):
        def append(self, commits: Sequence[Commit]) -> None:
            if len(self.groups) == 0:
                super().append(commits)
                return
            world.elapsed_s += 60
            raise Unavailable("no pending")

    log = UnavailableLog(database)
    group_commit = GroupCommit(world.appender(log), ignore_commit)
    with DaemonThreads() as pool:
        appends = queue_behind_first(pool, group_commit, log, ["a", "b", "c"])
        log.open()
        assert appends[0].result(TIMEOUT_S).commit.session == 1
        for pending in appends[1:]:
            with pytest.raises(Unavailable):
                pending.result(TIMEOUT_S)


def test_group_larger_than_the_limit_is_split(database: Database, world: World) -> None:
    log = GatedLog(database)
    group_commit = GroupCommit(world.appender(log), ignore_commit)
    together = MAX_GROUP_SIZE + 2
    with DaemonThreads() as pool:
        appends = queue_behind_first(pool, group_commit, log, [str(n) for n in range(together + 1)])
        log.open(3)
        sessions = [pending.result(TIMEOUT_S).commit.session for pending in appends]
    assert [len(group) for group in log.groups] == [1, MAX_GROUP_SIZE, 2]
    assert sessions == list(range(1, together + 2))


def test_appends_queued_during_a_flush_are_written_after_it(database: Database, world: World) -> None:
    log = GatedLog(database)
    group_commit = GroupCommit(world.appender(log), ignore_commit)
    group_commit.submit(append(request_id="flushed"))

    def flush() -> bool:
        return group_commit.flush(max_wait_s=0.25)

    with DaemonThreads() as pool:
        flushed = pool.submit(flush)
        log.await_writer()
        appends = [pool.submit(group_commit.append, append(request_id=name)) for name in ("a", "b")]
        wait_for_queue(group_commit, len(appends))
        log.open(2)
        assert flushed.result(TIMEOUT_S)
        assert sorted(pending.result(TIMEOUT_S).commit.session for pending in appends) == [2, 3]
    assert [len(group) for group in log.groups] == [1, 2]


def test_flush_of_a_silent_store_continues_in_the_background(database: Database, world: World) -> None:
    class SilentOnce(SqliteLog):
        calls = 0

        def append(self, commits: Sequence[Commit]) -> None:
            self.calls += 1
            if self.calls == 1:
                raise Unavailable("no answer")
            super().append(commits)

    log = SilentOnce(database)
    group_commit = GroupCommit(world.appender(log), ignore_commit)
    futures = [group_commit.submit(append(request_id=name)) for name in ("a", "b")]
    assert not group_commit.flush(max_wait_s=TIMEOUT_S)
    assert [future.result(TIMEOUT_S).commit.session for future in futures] == [1, 2]
    assert log.calls == 2


def test_flush_during_a_slow_write_returns_false(database: Database, world: World) -> None:
    log = GatedLog(database)
    group_commit = GroupCommit(world.appender(log), ignore_commit)
    with DaemonThreads() as pool:
        slow = pool.submit(group_commit.append, append(request_id="slow"))
        log.await_writer()
        queued = group_commit.submit(append(request_id="queued"))
        assert not group_commit.flush(max_wait_s=0.0)
        assert not queued.group.done()
        log.open(2)
        assert [future.result(TIMEOUT_S).commit.session for future in (slow, queued)] == [1, 2]


def test_append_calls_on_commit_for_each_session(log: SqliteLog, world: World) -> None:
    notified: list[tuple[int, int]] = []
    group_commit = GroupCommit(world.appender(log), lambda commit: notified.append((commit.server, commit.session)))
    group_commit.append(append())
    group_commit.append(append(server=2))
    group_commit.append(append())
    assert notified == [(1, 1), (2, 1), (1, 2)]


def test_refused_append_raises_and_skips_on_commit(log: SqliteLog, world: World) -> None:
    notified: list[tuple[int, int]] = []
    appender: Appender = world.appender(log)
    appender.append(append("/1"))
    group_commit = GroupCommit(appender, lambda commit: notified.append((commit.server, commit.session)))
    with pytest.raises(ConditionFailed):
        group_commit.append(append("/1", condition=no_match("/1")))
    assert (notified, keys(log)) == ([], [(1, "/1")])


def test_replayed_append_skips_on_commit(log: SqliteLog, world: World) -> None:
    notified: list[tuple[int, int]] = []
    group_commit = GroupCommit(world.appender(log), lambda commit: notified.append((commit.server, commit.session)))
    appended = [group_commit.append(append("/1", request_id=name, idempotency_key="k")) for name in ("a", "b")]
    assert [outcome.replayed for outcome in appended] == [False, True]
    assert notified == [(1, 1)]


def test_group_fails_at_the_deadline_of_its_first_append(database: Database, world: World) -> None:
    log = FailingLog(database, times=float("inf"), writes=False)
    group_commit = GroupCommit(world.appender(log), ignore_commit)
    first = group_commit.submit(append(request_id="first"))
    world.elapsed_s += APPEND_TIMEOUT_S / 2
    second = group_commit.submit(append(request_id="second"))
    group_commit.flush(max_wait_s=TIMEOUT_S)
    assert [type(append.group.exception(TIMEOUT_S)) for append in (first, second)] == [Unavailable, Unavailable]
    assert APPEND_TIMEOUT_S < world.elapsed_s <= APPEND_TIMEOUT_S + BACKOFF.max_s


def test_appends_during_repeated_slow_writes_are_all_written(database: Database, world: World) -> None:
    """The background thread ends when nothing is queued, and has to start again for later appends."""
    log = GatedLog(database)
    group_commit = GroupCommit(world.appender(log), ignore_commit)
    with DaemonThreads() as pool:
        for session in (1, 3, 5):
            slow = pool.submit(group_commit.append, append(request_id=f"slow {session}"))
            log.await_writer()
            queued = group_commit.submit(append(request_id=f"queued {session}"))
            assert not group_commit.flush(max_wait_s=0.0)
            log.open()
            log.await_writer()
            log.open()
            assert [future.result(TIMEOUT_S).commit.session for future in (slow, queued)] == [session, session + 1]


def test_appends_queued_for_several_groups_are_all_written(database: Database, world: World) -> None:
    log = GatedLog(database)
    group_commit = GroupCommit(world.appender(log), ignore_commit)
    with DaemonThreads() as pool:
        slow = pool.submit(group_commit.append, append(request_id="slow"))
        log.await_writer()
        queued = [group_commit.submit(append(request_id=str(number))) for number in range(MAX_GROUP_SIZE + 2)]
        assert not group_commit.flush(max_wait_s=0.0)
        log.open(3)
        assert [each.result(TIMEOUT_S).commit.session for each in queued] == list(range(2, MAX_GROUP_SIZE + 4))
        assert slow.result(TIMEOUT_S).commit.session == 1
    assert [len(group) for group in log.groups] == [1, MAX_GROUP_SIZE, 2]


def queue_behind_first(
    pool: DaemonThreads, group_commit: GroupCommit, log: GatedLog, request_ids: Sequence[str]
) -> list[Future[Appended]]:
    """Append the first request, which blocks at the gate, and queue the others behind it, in order."""
    appends = [pool.submit(group_commit.append, append(request_id=request_ids[0]))]
    log.await_writer()
    for number, request_id in enumerate(request_ids[1:], start=1):
        appends.append(pool.submit(group_commit.append, append(request_id=request_id)))
        wait_for_queue(group_commit, number)
    return appends


def test_on_commit_error_in_flush_leaves_no_append_unwritten(log: SqliteLog, world: World) -> None:
    def fail(commit: Commit) -> None:
        raise ValueError(f"session {commit.session}")

    group_commit = GroupCommit(world.appender(log), fail)
    futures = [group_commit.submit(append("/a", request_id=str(n))) for n in range(MAX_GROUP_SIZE + 1)]
    with pytest.raises(ValueError, match="session 1"):
        group_commit.flush(max_wait_s=0.0)
    assert futures[-1].result(TIMEOUT_S).commit.session == MAX_GROUP_SIZE + 1


def test_on_commit_error_in_background_keeps_writing(database: Database, world: World) -> None:
    failed = threading.Event()

    def fail_once(commit: Commit) -> None:
        if not failed.is_set():
            failed.set()
            raise ValueError(f"session {commit.session}")

    failing = FailingLog(database, 1, writes=False)
    group_commit = GroupCommit(world.appender(failing), fail_once)
    first = group_commit.submit(append("/a", request_id="first"))
    assert not group_commit.flush(max_wait_s=0.0)
    assert first.result(TIMEOUT_S).commit.session == 1
    failing.left = 1
    second = group_commit.submit(append("/a", request_id="second"))
    group_commit.flush(max_wait_s=TIMEOUT_S)
    assert second.result(TIMEOUT_S).commit.session == 2


class UnreadableLog(SqliteLog):
    """Blocks all reads of commits until the test allows them."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.may_read = threading.Event()

    def read(self, server: int, after: int, limit: int | None = None) -> Iterator[Commit]:
        assert self.may_read.wait(TIMEOUT_S)
        return super().read(server, after, limit)


def test_submit_with_condition_never_reads_the_log(database: Database, world: World) -> None:
    """The server's network thread calls it, and checking a condition may take seconds."""
    log = UnreadableLog(database)
    world.appender(log).append(append("/1", request_id="a"))
    group_commit = GroupCommit(world.appender(log), ignore_commit)
    with DaemonThreads() as network_thread:
        submitted = network_thread.submit(
            lambda: [group_commit.submit(append(f"/{n}", condition=no_match("/1"))) for n in range(20)]
        )
        try:
            refused = submitted.result(2.0)
            plain = group_commit.submit(append("/3", request_id="b"))
            assert group_commit.flush(0.0)
            assert plain.group.done()
            assert not any(each.group.done() for each in refused)
        finally:
            log.may_read.set()
    for future in refused:
        with pytest.raises(ConditionFailed):
            future.result(TIMEOUT_S)
    granted = group_commit.submit(append("/4", condition=no_match("/9")))
    assert granted.result(TIMEOUT_S).commit.session == 3
