"""Group commit with a queue per log, on a store that is slow for some logs."""

import threading
from collections.abc import Sequence

import pytest

from chalicelib.adapters.sqlite.database import Database
from chalicelib.adapters.sqlite.log import SqliteLog
from chalicelib.domain.errors import Busy, ConditionFailed, Unavailable
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.commit import Commit
from chalicelib.services.log.group_queue import MAX_STALL_S
from chalicelib.services.log.parallel_group_commit import (
    CONDITION_THREADS,
    MAX_CHECKS_PER_LOG,
    MAX_GROUP_BYTES,
    ParallelGroupCommit,
)
from tests.services.fakes import OvertakenLog, World, append, keys, large_text, no_match
from tests.services.log.test_group_commit import TIMEOUT_S, DaemonThreads, ignore_commit

SLOW, FAST = 1, 2


class SlowLog(SqliteLog):
    """Holds the writes of one log until the test opens the gate, and records all groups."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.groups: list[list[str]] = []
        self.is_held = threading.Semaphore(0)
        self.gate = threading.Event()

    def append(self, commits: Sequence[Commit]) -> None:
        self.groups.append([commit.request_id for commit in commits])
        if commits[0].server == SLOW:
            self.is_held.release()
            assert self.gate.wait(TIMEOUT_S)
        super().append(commits)


def hold_first(group_commit: ParallelGroupCommit, log: SlowLog) -> None:
    """Start a write of the slow log, so that the next appends form a group."""
    group_commit.submit(append("/first", request_id="first"))
    group_commit.flush(0.0)
    assert log.is_held.acquire(timeout=TIMEOUT_S)


def test_slow_log_does_not_block_another(database: Database, world: World) -> None:
    log = SlowLog(database)
    group_commit = ParallelGroupCommit(world.appender(log), ignore_commit, writer_threads=2)
    hold_first(group_commit, log)
    with DaemonThreads() as pool:
        fast = [pool.submit(group_commit.append, append(server=FAST, request_id=str(n))) for n in range(3)]
        assert sorted(each.result(TIMEOUT_S).commit.session for each in fast) == [1, 2, 3]
        assert log.head(SLOW).session == 0
        log.gate.set()


def test_conditions_of_slow_log_do_not_block_those_of_another(database: Database, world: World) -> None:
    log = SlowLog(database)
    group_commit = ParallelGroupCommit(world.appender(log), ignore_commit)
    hold_first(group_commit, log)
    many = 2 * CONDITION_THREADS
    slow = [group_commit.submit(append(request_id=str(n), condition=no_match("/never"))) for n in range(many)]
    fast = group_commit.submit(append(server=FAST, condition=no_match("/never")))
    try:
        assert fast.result(TIMEOUT_S / 2).commit.session == 1
    finally:
        log.gate.set()
    assert sorted(each.result(TIMEOUT_S).commit.session for each in slow) == list(range(2, many + 2))


def test_submitted_conditions_that_fail_are_reported(database: Database, world: World) -> None:
    """One contradicts the log. The others contradict each other, in one group or in several."""
    group_commit = ParallelGroupCommit(world.appender(SqliteLog(database)), ignore_commit)
    group_commit.append(append("/first", request_id="first"))
    with pytest.raises(ConditionFailed):
        group_commit.submit(append("/a", condition=no_match("/first"))).result(TIMEOUT_S)
    submitted = [group_commit.submit(append("/a", request_id=str(n), condition=no_match("/a"))) for n in range(3)]
    refusals = 0
    for each in submitted:
        try:
            each.result(TIMEOUT_S)
        except ConditionFailed:
            refusals += 1
    assert refusals == len(submitted) - 1


def test_store_error_is_reported_to_conditional_append(database: Database, world: World) -> None:
    class BrokenLog(SqliteLog):
        def append(self, commits: Sequence[Commit]) -> None:
            raise RuntimeError(f"broken at {commits[0].session}")

    group_commit = ParallelGroupCommit(world.appender(BrokenLog(database)), ignore_commit)
    with pytest.raises(RuntimeError, match="broken at 1"):
        group_commit.submit(append(condition=no_match("/never"))).result(TIMEOUT_S)


def test_too_many_unchecked_conditions_of_a_log_are_refused(database: Database, world: World) -> None:
    class HeldReads(SqliteLog):
        def head(self, server: int) -> Head:
            if server == SLOW:
                assert gate.wait(TIMEOUT_S)
            return super().head(server)

    gate = threading.Event()
    group_commit = ParallelGroupCommit(world.appender(HeldReads(database)), ignore_commit)
    conditional = append(condition=no_match("/never"))
    waiting = [group_commit.submit(conditional._replace(request_id=str(n))) for n in range(MAX_CHECKS_PER_LOG)]
    with pytest.raises(Busy):
        group_commit.submit(conditional)
    fast = group_commit.submit(append(server=FAST, condition=no_match("/never")))
    gate.set()
    assert fast.result(TIMEOUT_S).commit.session == 1
    assert len({each.result(TIMEOUT_S).commit.session for each in waiting}) == MAX_CHECKS_PER_LOG
    assert group_commit.submit(conditional).result(TIMEOUT_S).commit.session == MAX_CHECKS_PER_LOG + 1


def test_busy_log_leaves_the_only_thread_to_another(database: Database, world: World) -> None:
    """With one thread, the groups of the logs take turns."""
    log = SlowLog(database)
    group_commit = ParallelGroupCommit(world.appender(log), ignore_commit, writer_threads=1)
    hold_first(group_commit, log)
    large = large_text(MAX_GROUP_BYTES // 2)
    slow = [group_commit.submit(append(request_id=str(n))._replace(texts=(large,))) for n in range(3)]
    fast = group_commit.submit(append(server=FAST, request_id="fast"))
    group_commit.flush(0.0)
    log.gate.set()
    assert [each.result(TIMEOUT_S).commit.session for each in (*slow, fast)] == [2, 3, 4, 1]
    assert log.groups.index(["fast"]) < len(log.groups) - 1


def test_appends_that_wait_for_a_write_become_one_group(database: Database, world: World) -> None:
    log = SlowLog(database)
    published: list[int] = []
    group_commit = ParallelGroupCommit(world.appender(log), lambda commit: published.append(commit.session))
    hold_first(group_commit, log)
    submitted = [group_commit.submit(append(request_id=str(n))) for n in range(5)]
    assert not group_commit.flush(0.0)
    log.gate.set()
    assert [each.result(TIMEOUT_S).commit.session for each in submitted] == [2, 3, 4, 5, 6]
    assert log.groups == [["first"], ["0", "1", "2", "3", "4"]]
    group_commit._writers.shutdown()
    assert published == [1, 2, 3, 4, 5, 6]


def test_group_larger_than_an_item_is_split(database: Database, world: World) -> None:
    log = SlowLog(database)
    group_commit = ParallelGroupCommit(world.appender(log), ignore_commit)
    hold_first(group_commit, log)
    text = large_text(MAX_GROUP_BYTES // 3)
    submitted = [group_commit.submit(append(request_id=str(n))._replace(texts=(text,))) for n in range(5)]
    group_commit.flush(0.0)
    log.gate.set()
    assert [each.result(TIMEOUT_S).commit.session for each in submitted] == [2, 3, 4, 5, 6]
    assert log.groups == [["first"], ["0", "1"], ["2", "3"], ["4"]]


def test_key_repeated_in_a_group_is_written_once(database: Database, world: World) -> None:
    log = SlowLog(database)
    group_commit = ParallelGroupCommit(world.appender(log), ignore_commit)
    hold_first(group_commit, log)
    submitted = [group_commit.submit(append(request_id=str(n), idempotency_key="k")) for n in range(3)]
    group_commit.flush(0.0)
    log.gate.set()
    outcomes = [each.result(TIMEOUT_S) for each in submitted]
    assert [(outcome.commit.session, outcome.replayed) for outcome in outcomes] == [(2, False), (2, True), (2, True)]
    assert log.groups == [["first"], ["0"]]


def test_condition_sees_earlier_appends_of_its_group(database: Database, world: World) -> None:
    log = SlowLog(database)
    appender = world.appender(log)
    group_commit = ParallelGroupCommit(appender, ignore_commit)
    hold_first(group_commit, log)
    queue = group_commit._queue(SLOW)
    first = queue.enqueue(appender.precheck(append("/a", request_id="a", condition=no_match("/a"))))[0]
    second = queue.enqueue(appender.precheck(append("/a", request_id="b", condition=no_match("/a"))))[0]
    third = queue.enqueue(appender.precheck(append("/b", request_id="c", condition=no_match("/first"))))[0]
    log.gate.set()
    assert first.result(TIMEOUT_S).commit.session == 2
    for refused in (second, third):
        with pytest.raises(ConditionFailed):
            refused.result(TIMEOUT_S)
    assert keys(log) == [(1, "/first"), (2, "/a")]


def test_overtaken_group_is_renumbered_and_checked_again(database: Database, world: World) -> None:
    """Another writer takes the session with the same key and an event that a condition excludes."""
    plain = SqliteLog(database)
    theirs = append("/theirs", request_id="theirs", idempotency_key="k")
    log = OvertakenLog(database, lambda: world.appender(plain).append(theirs))
    appender = world.appender(log)
    group_commit = ParallelGroupCommit(appender, ignore_commit)
    queue = group_commit._queue(1)
    submitted = [
        queue.enqueue(appender.precheck(each))[0]
        for each in (
            append("/1", request_id="1"),
            append("/theirs", request_id="2", idempotency_key="k"),
            append("/2", request_id="3", condition=no_match("/theirs")),
            append("/3", request_id="4"),
        )
    ]
    group_commit._start(queue)
    assert submitted[0].result(TIMEOUT_S).commit.session == 2
    replayed = submitted[1].result(TIMEOUT_S)
    assert (replayed.replayed, replayed.commit.request_id) == (True, "theirs")
    with pytest.raises(ConditionFailed):
        submitted[2].result(TIMEOUT_S)
    assert submitted[3].result(TIMEOUT_S).commit.session == 3
    assert keys(plain) == [(1, "/theirs"), (2, "/1"), (3, "/3")]


def test_log_without_answer_refuses_appends_of_itself_only(database: Database, world: World) -> None:
    class SilentLog(SqliteLog):
        attempts = 0

        def append(self, commits: Sequence[Commit]) -> None:
            if commits[0].server == SLOW:
                self.attempts += 1
                world.elapsed_s += MAX_STALL_S
                if self.attempts < 3:
                    raise Unavailable("no answer")
                is_stalled.set()
                assert is_answering.wait(TIMEOUT_S)
            super().append(commits)

    is_answering, is_stalled = threading.Event(), threading.Event()
    group_commit = ParallelGroupCommit(world.appender(SilentLog(database)), ignore_commit)
    waiting = group_commit.submit(append(request_id="waiting"))
    group_commit.flush(0.0)
    assert is_stalled.wait(TIMEOUT_S)
    with pytest.raises(Busy):
        group_commit.submit(append(request_id="refused"))
    assert group_commit.append(append(server=FAST)).commit.session == 1
    is_answering.set()
    assert waiting.result(TIMEOUT_S).commit.session == 1
