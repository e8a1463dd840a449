"""Large job sets: each ends once, and the work for an event does not grow with the set or with the lag of the views."""

import random
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from math import inf

import pytest

from chalicelib.adapters.sqlite.database import Database
from chalicelib.adapters.sqlite.log import SqliteLog
from chalicelib.adapters.sqlite.views import SqliteViews
from chalicelib.domain.errors import Busy, TooLarge, Unavailable
from chalicelib.domain.log.append import encode_within_limits
from chalicelib.domain.log.commit import Commit
from chalicelib.services.jobs import jobset_states
from tests.conformance.anyjob.anyjob import create, create_set, finish
from tests.services.fakes import FailingLog, OvertakenLog, World
from tests.services.jobs.job_log import JobLog, to_core_events

FIRST = 10**13
"""Ids of 14 digits are too long for the stored state of a large set."""
PLANNED = {"node": "node-1", "type": "backup"}


class CountingLog(SqliteLog):
    """Counts the commits that were read."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.commits_read = 0

    def read(self, server: int, after: int, limit: int | None = None) -> Iterator[Commit]:
        return self._count(super().read(server, after, limit))

    def commits(self, server: int, sessions: Sequence[int]) -> Iterator[Commit]:
        return self._count(super().commits(server, sessions))

    def _count(self, commits: Iterator[Commit]) -> Iterator[Commit]:
        for commit in commits:
            self.commits_read += 1
            yield commit


@pytest.fixture
def log(database: Database) -> CountingLog:
    return CountingLog(database)


@pytest.fixture
def job_log(log: CountingLog, sqlite_views: SqliteViews, world: World) -> JobLog:
    return JobLog(log, sqlite_views, world)


def requests_of(events: list[dict[str, object]], size: int) -> list[list[dict[str, object]]]:
    return [events[start : start + size] for start in range(0, len(events), size)]


def set_finishes(job_log: JobLog) -> list[int]:
    """The sessions with a finish event of a job set."""
    return [
        commit.session
        for commit in job_log.log.read(1, 0)
        for event in commit.events
        if event.fields.type[1] == "finishJobSet"
    ]


def test_publish_10000_jobs_ends_jobset_once(job_log: JobLog) -> None:
    """With concurrent publishers in two processes that lag, repeats, params that were not planned, and a restart."""
    numbers = list(range(FIRST, FIRST + 10_000))
    random.Random(7).shuffle(numbers)
    job_log.publish_jobs(create_set(7, [PLANNED] * len(numbers)))
    creates = [create(number, 7, node="node-1", params={"disk": str(number)}) for number in numbers]
    for request in requests_of(creates, 500):
        job_log.publish_jobs(*request)
    job_log.project()
    finishes = [finish(number, 7, node="node-1") for number in numbers]
    middle = 5_000
    with ThreadPoolExecutor(4) as pool:
        for part in (finishes[:middle], [*finishes[middle - 50 : middle], *finishes[middle:-1]]):
            publishers = [job_log.new_job_publisher(), job_log.new_job_publisher()]
            requests = [to_core_events(request) for request in requests_of(part, 250)]
            work = [(publishers[place % 2], request) for place, request in enumerate(requests)]
            list(pool.map(lambda one: one[0].publish(1, one[1]), work, timeout=60.0))
            job_log.project()
    assert set_finishes(job_log) == []
    last = job_log.publish_commit(finishes[-1])
    job_log.publish_jobs(finishes[0])
    assert (set_finishes(job_log), last.event_count) == ([last.session], 2)
    state = job_log.state("jobset", 7)
    assert (state["finished"], state["total"], state["state"]) == (10_000, 10_000, "finished")


def test_publish_finish_while_views_lag_reads_new_commits(job_log: JobLog, log: CountingLog) -> None:
    job_log.publish_jobs(create_set(7, [PLANNED] * 100), *(create(FIRST + n, 7) for n in range(100)))
    reads = []
    for n in range(60):
        before = log.commits_read
        job_log.publish_jobs(finish(FIRST + n, 7))
        reads.append(log.commits_read - before)
    assert max(reads[1:]) <= 2


def large_set(job_log: JobLog, jobs: int, unfinished: int, request_size: int = 1_000) -> list[int]:
    """Create a set whose stored state does not have the ids of its ended jobs. Returns the unfinished jobs."""
    numbers = list(range(FIRST, FIRST + jobs))
    job_log.publish_jobs(create_set(7, [], total=jobs))
    for request in requests_of([create(number, 7) for number in numbers], request_size):
        job_log.publish_jobs(*request)
    for request in requests_of([finish(number, 7) for number in numbers[: jobs - unfinished]], request_size):
        job_log.publish_jobs(*request)
    return numbers[jobs - unfinished :]


def test_publish_repeated_finishes_read_history_once(job_log: JobLog, log: CountingLog) -> None:
    """The stored state counts repeats of a very large set. Whether it is complete takes its whole history."""
    repeats = 40
    last = large_set(job_log, 1_000, repeats, request_size=10)
    for request in requests_of([finish(number, 7) for number in range(FIRST, FIRST + repeats)], 10):
        job_log.publish_jobs(*request)
    job_log.project()
    before = log.commits_read
    for number in last:
        job_log.publish_jobs(finish(number, 7))
        job_log.publish_jobs(finish(FIRST, 7))
        job_log.project()
    history = log.head(1).session
    assert log.commits_read - before < 4 * history
    assert set_finishes(job_log) == [history - 1]


def test_publish_long_history_continues_after_busy(job_log: JobLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request whose search is cut off writes nothing, and the next one continues."""
    (last,) = large_set(job_log, 1_000, 1, request_size=100)
    monkeypatch.setattr(jobset_states, "MAX_READ_S", -1.0)
    head, attempts = job_log.log.head(1), 0
    while not set_finishes(job_log):
        attempts += 1
        with suppress(Busy):
            job_log.publish_jobs(finish(last, 7))
            continue
        assert job_log.log.head(1) == head
    assert attempts == head.session + 1
    assert set_finishes(job_log) == [head.session + 1]


def test_publish_last_finishes_race_ends_jobset_once(job_log: JobLog, log: CountingLog, database: Database) -> None:
    """Two processes finish the last two jobs of a very large set at the same time, and a third one repeats a finish."""
    first, second = large_set(job_log, 1_000, 2)
    job_log.project()
    others = [job_log.new_job_publisher(), job_log.new_job_publisher()]

    def overtake() -> None:
        others.pop().publish(1, to_core_events([finish(second, 7)]))

    overtaken = job_log.new_job_publisher(OvertakenLog(database, overtake, times=2))
    overtaken.publish(1, to_core_events([finish(first, 7)]))
    assert (others, set_finishes(job_log)) == ([], [log.head(1).session])


def test_publish_new_run_of_job_before_write_keeps_jobset_open(job_log: JobLog, database: Database) -> None:
    (last,) = large_set(job_log, 1_000, 1)
    again = OvertakenLog(database, lambda: job_log.publish_jobs(create(FIRST, 7)))
    job_log.new_job_publisher(again).publish(1, to_core_events([finish(last, 7)]))
    assert set_finishes(job_log) == []
    job_log.publish_jobs(finish(FIRST, 7))
    assert set_finishes(job_log) == [job_log.log.head(1).session]


@pytest.mark.parametrize("writes", [False, True], ids=["before write", "after write"])
def test_publish_last_finish_crash_ends_jobset_once(job_log: JobLog, database: Database, writes: bool) -> None:
    """The process ends while it writes the last finish. The publisher repeats the request in another process."""
    (last,) = large_set(job_log, 1_000, 1)
    job_log.project()
    failing = FailingLog(database, times=inf, writes=writes)
    with pytest.raises((Busy, Unavailable)):
        job_log.new_job_publisher(failing).publish(1, to_core_events([finish(last, 7)]))
    assert len(set_finishes(job_log)) == writes
    job_log.new_job_publisher().publish(1, to_core_events([finish(last, 7)]))
    assert len(set_finishes(job_log)) == 1


def test_publish_100000_jobs_ends_jobset_once(job_log: JobLog, log: CountingLog, database: Database) -> None:
    """Requests of 1,000 events by two processes, with repeats and a restart. Each reads the commits it has not seen."""
    jobs, half = 100_000, 50_000
    job_log.publish_jobs(create_set(7, [], total=jobs))
    for start in range(FIRST, FIRST + jobs, 1_000):
        job_log.publish_jobs(*(create(number, 7) for number in range(start, start + 1_000)))
    finishes = [finish(number, 7) for number in range(FIRST, FIRST + jobs)]
    reads = []
    for part in (finishes[:half], [*finishes[half - 2_000 : half], *finishes[half:-2]]):
        job_log.project()
        publishers = [job_log.new_job_publisher(), job_log.new_job_publisher()]
        for place, request in enumerate(requests_of(part, 1_000)):
            before = log.commits_read
            publishers[place % 2].publish(1, to_core_events(request))
            reads.append(log.commits_read - before)
    # The repeats make the set look complete before it is. Then each publisher reads the whole history once.
    *usual, history, other_history = sorted(reads)
    assert (max(usual) <= 4, set_finishes(job_log)) == (True, [])
    assert max(history, other_history) <= log.head(1).session
    first, second = to_core_events(finishes[-2:])
    log_of_new_process = OvertakenLog(database, lambda: publishers[0].publish(1, [second]))
    job_log.new_job_publisher(log_of_new_process).publish(1, [first])
    job_log.publish_jobs(finishes[0])
    assert set_finishes(job_log) == [log.head(1).session - 1]


def test_planned_jobs_without_params_are_stored_without(job_log: JobLog) -> None:
    request = to_core_events([create_set(7, [{**PLANNED, "params": {}, "props": {}}] * 10_000)])
    assert len(encode_within_limits(request)[0]) < 350_000
    with pytest.raises(TooLarge, match="at most 358400 are allowed in one request"):
        encode_within_limits(to_core_events([create_set(7, [{**PLANNED, "params": {"n": "1"}}] * 10_000)]))
    job_log.publish_jobs(create_set(7, [PLANNED]))
    assert job_log.state("jobset", 7)["jobs"] == [{**PLANNED, "params": {}, "props": {}, "state": "planned"}]


def test_silent_jobset_of_100000_jobs_is_cleaned_without_history(job_log: JobLog, log: CountingLog) -> None:
    job_log.publish_jobs(create_set(7, [], total=100_000, props={"clean_timeout": "60"}))
    for start in range(FIRST, FIRST + 20_000, 1_000):
        job_log.publish_jobs(
            *(create(number, 7, props={"clean_timeout": "7200"}) for number in range(start, start + 1_000))
        )
    job_log.project()
    job_log.advance_s(61)
    before = log.commits_read
    assert job_log.clean() == ["cleanJobSet 7"]
    assert log.commits_read - before <= 3
