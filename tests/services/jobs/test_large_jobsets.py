"""Large job sets: each ends once, and the work for an event does not grow with the set or with the lag of the views."""

import random
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from chalicelib.adapters.sqlite.database import Database
from chalicelib.adapters.sqlite.log import SqliteLog
from chalicelib.adapters.sqlite.views import SqliteViews
from chalicelib.domain.errors import TooLarge
from chalicelib.domain.log.append import encode_within_limits
from chalicelib.domain.log.commit import Commit
from tests.conformance.anyjob.anyjob import create, create_set, finish
from tests.services.fakes import World
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


def test_publish_repeated_finishes_read_history_once(job_log: JobLog, log: CountingLog) -> None:
    """The stored state counts repeats of a very large set. Whether it is complete takes its whole history."""
    many, repeats = 1_000, 40
    numbers = range(FIRST, FIRST + many)
    job_log.publish_jobs(create_set(7, [PLANNED] * many))
    for request in requests_of([create(number, 7) for number in numbers], 10):
        job_log.publish_jobs(*request)
    for request in requests_of([finish(number, 7) for number in [*numbers[:-repeats], *numbers[:repeats]]], 10):
        job_log.publish_jobs(*request)
    job_log.project()
    before = log.commits_read
    for number in numbers[-repeats:]:
        job_log.publish_jobs(finish(number, 7))
        job_log.project()
    history = log.head(1).session
    assert log.commits_read - before < 4 * history
    assert set_finishes(job_log) == [history]


def test_planned_jobs_without_params_are_stored_without(job_log: JobLog) -> None:
    request = to_core_events([create_set(7, [{**PLANNED, "params": {}, "props": {}}] * 10_000)])
    assert len(encode_within_limits(request)[0]) < 350_000
    with pytest.raises(TooLarge, match="at most 358400 are allowed in one request"):
        encode_within_limits(to_core_events([create_set(7, [{**PLANNED, "params": {"n": "1"}}] * 10_000)]))
    job_log.publish_jobs(create_set(7, [PLANNED]))
    assert job_log.state("jobset", 7)["jobs"] == [{**PLANNED, "params": {}, "props": {}, "state": "planned"}]
