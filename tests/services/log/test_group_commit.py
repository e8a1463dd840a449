"""Group commit: threads write together and each gets its own answer."""

import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from chalicelib.adapters.sqlite.database import Database
from chalicelib.adapters.sqlite.log import SqliteLog
from chalicelib.domain.errors import ConditionFailed, Unavailable
from chalicelib.domain.events.head import Head
from chalicelib.domain.log.append import Receipt
from chalicelib.domain.log.commit import Appended, Commit, chained
from chalicelib.services.log.appender import Appender
from chalicelib.services.log.group_commit import MOST_TOGETHER, GroupCommit
from tests.services.worlds import World, append, keys, no_match

WRITERS = 8
REQUESTS = 25
PATIENCE_S = 30.0
A_MOMENT_S = 0.001


class Gated(SqliteLog):
    """Holds each write at a gate until the test opens it; some writes fail there."""

    def __init__(self, database: Database, failing: Sequence[int] = ()) -> None:
        super().__init__(database)
        self.groups: list[list[str]] = []
        self._failing = failing
        self._arrived = threading.Semaphore(0)
        self._gate = threading.Semaphore(0)

    def append(self, commits: Sequence[Commit], receipts: Sequence[Receipt], now_s: int) -> None:
        self.groups.append([commit.request_id for commit in commits])
        number = len(self.groups)
        self._arrived.release()
        assert self._gate.acquire(timeout=PATIENCE_S)
        if number in self._failing:
            raise RuntimeError(f"group {number} fails")
        super().append(commits, receipts, now_s)

    def await_writer(self) -> None:
        """Return when somebody stands at the gate."""
        assert self._arrived.acquire(timeout=PATIENCE_S)

    def open(self, times: int = 1) -> None:
        """Let so many writes through."""
        self._gate.release(times)


def unheard(commit: Commit) -> None:
    """Nobody listens."""


def await_queue(group_commit: GroupCommit, length: int) -> None:
    """Return when so many requests wait behind the leader."""
    waiting, deadline = threading.Event(), int(PATIENCE_S / A_MOMENT_S)
    for _ in range(deadline):
        if len(group_commit._queue) == length:
            return
        waiting.wait(A_MOMENT_S)
    raise AssertionError(f"{len(group_commit._queue)} requests wait, not {length}")


def test_threads_get_sessions_that_are_distinct_and_without_a_gap(log: SqliteLog, world: World) -> None:
    group_commit = GroupCommit(world.appender(log), unheard)

    def write(writer: int) -> list[int]:
        return [
            group_commit.append(append(f"/{writer}", request_id=f"{writer}.{n}")).commit.session
            for n in range(REQUESTS)
        ]

    with ThreadPoolExecutor(WRITERS) as pool:
        sessions = list(pool.map(write, range(WRITERS)))
    assert all(own == sorted(own) for own in sessions)
    assert sorted(session for own in sessions for session in own) == list(range(1, WRITERS * REQUESTS + 1))
    stored = list(chained(Head(1), log.read(1, 0)))
    assert [[c.session for c in stored if c.request_id.startswith(f"{n}.")] for n in range(WRITERS)] == sessions


def test_those_who_wait_together_are_written_together(database: Database, world: World) -> None:
    log = Gated(database)
    group_commit = GroupCommit(world.appender(log), unheard)
    with ThreadPoolExecutor(4) as pool:
        answers = gather(pool, group_commit, log, ["a", "b", "c", "d"])
        log.open(2)
        sessions = [answer.result(PATIENCE_S).commit.session for answer in answers]
    assert log.groups == [["a"], ["b", "c", "d"]]
    assert sessions == [1, 2, 3, 4]


def test_one_failing_condition_fails_nobody_else(database: Database, world: World) -> None:
    log = Gated(database)
    group_commit = GroupCommit(world.appender(log), unheard)
    with ThreadPoolExecutor(4) as pool:
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
            await_queue(group_commit, number)
        log.open(2)
        assert leader.result(PATIENCE_S).commit.session == 1
        with pytest.raises(ConditionFailed):
            others[1].result(PATIENCE_S)
        assert [others[i].result(PATIENCE_S).commit.session for i in (0, 2)] == [2, 3]
    assert keys(log) == [(1, "/1"), (2, "/2"), (3, "/4")]


def test_a_leaders_failure_reaches_its_group_and_the_next_group_works(database: Database, world: World) -> None:
    log = Gated(database, failing=[2])
    group_commit = GroupCommit(world.appender(log), unheard)
    with ThreadPoolExecutor(6) as pool:
        first = gather(pool, group_commit, log, ["a", "b", "c"])
        log.open()
        log.await_writer()
        later = [pool.submit(group_commit.append, append(request_id="d"))]
        await_queue(group_commit, 1)
        log.open(2)
        assert first[0].result(PATIENCE_S).commit.session == 1
        for answer in first[1:]:
            with pytest.raises(RuntimeError, match="group 2 fails"):
                answer.result(PATIENCE_S)
        assert later[0].result(PATIENCE_S).commit.session == 2
    assert log.groups == [["a"], ["b", "c"], ["d"]]


def test_an_unknown_outcome_is_told_to_the_whole_group(database: Database, world: World) -> None:
    class Silent(Gated):
        def append(self, commits: Sequence[Commit], receipts: Sequence[Receipt], now_s: int) -> None:
            if len(self.groups) == 0:
                super().append(commits, receipts, now_s)
                return
            world.elapsed_s += 60
            raise Unavailable("no answer")

    log = Silent(database)
    group_commit = GroupCommit(world.appender(log), unheard)
    with ThreadPoolExecutor(3) as pool:
        answers = gather(pool, group_commit, log, ["a", "b", "c"])
        log.open()
        assert answers[0].result(PATIENCE_S).commit.session == 1
        for answer in answers[1:]:
            with pytest.raises(Unavailable):
                answer.result(PATIENCE_S)


def test_a_group_has_a_limit_and_those_beyond_it_are_next(database: Database, world: World) -> None:
    log = Gated(database)
    group_commit = GroupCommit(world.appender(log), unheard)
    together = MOST_TOGETHER + 2
    with ThreadPoolExecutor(together + 1) as pool:
        answers = gather(pool, group_commit, log, [str(n) for n in range(together + 1)])
        log.open(3)
        sessions = [answer.result(PATIENCE_S).commit.session for answer in answers]
    assert [len(group) for group in log.groups] == [1, MOST_TOGETHER, 2]
    assert sessions == list(range(1, together + 2))


def test_those_who_sleep_behind_one_in_a_hurry_are_woken(database: Database, world: World) -> None:
    log = Gated(database)
    group_commit = GroupCommit(world.appender(log), unheard)
    with ThreadPoolExecutor(3) as pool:
        hurried = pool.submit(group_commit.submit(append(request_id="in a hurry")).hurried)
        log.await_writer()
        answers = [pool.submit(group_commit.append, append(request_id=name)) for name in ("a", "b")]
        await_queue(group_commit, len(answers))
        log.open(2)
        assert hurried.result(PATIENCE_S)
        assert sorted(answer.result(PATIENCE_S).commit.session for answer in answers) == [2, 3]
    assert [len(group) for group in log.groups] == [1, 2]


def test_the_written_sessions_are_told(log: SqliteLog, world: World) -> None:
    told: list[tuple[int, int]] = []
    group_commit = GroupCommit(world.appender(log), lambda commit: told.append((commit.server, commit.session)))
    group_commit.append(append())
    group_commit.append(append(server=2))
    group_commit.append(append())
    assert told == [(1, 1), (2, 1), (1, 2)]


def test_a_refusal_is_raised_and_nothing_is_told(log: SqliteLog, world: World) -> None:
    told: list[tuple[int, int]] = []
    appender: Appender = world.appender(log)
    appender.append(append("/1"))
    group_commit = GroupCommit(appender, lambda commit: told.append((commit.server, commit.session)))
    with pytest.raises(ConditionFailed):
        group_commit.append(append("/1", condition=no_match("/1")))
    assert (told, keys(log)) == ([], [(1, "/1")])


def gather(
    pool: ThreadPoolExecutor, group_commit: GroupCommit, log: Gated, request_ids: Sequence[str]
) -> list[Future[Appended]]:
    """The first request writes and stands at the gate; the others wait behind it, in order."""
    answers = [pool.submit(group_commit.append, append(request_id=request_ids[0]))]
    log.await_writer()
    for number, request_id in enumerate(request_ids[1:], start=1):
        answers.append(pool.submit(group_commit.append, append(request_id=request_id)))
        await_queue(group_commit, number)
    return answers
