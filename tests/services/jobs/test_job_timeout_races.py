"""Closing silent jobs during concurrent writes, crashes and deletions: each job is cleaned once."""

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from chalicelib.adapters.sqlite.database import Database
from chalicelib.adapters.sqlite.log import SqliteLog
from chalicelib.adapters.sqlite.views import SqliteViews
from chalicelib.domain.log.commit import Commit
from chalicelib.domain.views.record import ConditionalWrite, Record
from chalicelib.services.consumers.for_each import raise_first
from chalicelib.services.consumers.projector import rebuild
from chalicelib.services.ports import Log, Views
from tests.conformance.anyjob.anyjob import Json, create, create_set, finish, job_event, progress
from tests.services.fakes import OvertakenLog, World
from tests.services.jobs.job_log import TIMEOUT_S, JobLog

AN_HOUR_S = TIMEOUT_S


@pytest.fixture(params=["sqlite", "moto", "dynamodb_local"])
def job_log(request: pytest.FixtureRequest, world: World) -> JobLog:
    """A log with jobs, on each store."""
    log: Log = request.getfixturevalue(f"{request.param}_log")
    return JobLog(log, request.getfixturevalue(f"{request.param}_views"), world)


@pytest.fixture
def shared_job_log(database: Database, sqlite_views: SqliteViews, world: World) -> JobLog:
    """A log with jobs in a database that several logs share."""
    return JobLog(SqliteLog(database), sqlite_views, world)


def test_run_job_event_before_write_prevents_clean(shared_job_log: JobLog, database: Database) -> None:
    """An event of the job is written just before its clean event."""
    shared_job_log.publish_jobs(create(1))
    shared_job_log.advance_s(AN_HOUR_S + 1)
    log = OvertakenLog(database, lambda: shared_job_log.publish_jobs(progress(1)))
    assert shared_job_log.run_due(shared_job_log.due_index(log=log)) == [["progress 1"]]
    assert (shared_job_log.sessions(), shared_job_log.clean()) == ([["create 1"], ["progress 1"]], [])


def test_run_job_event_before_write_prevents_clean_of_jobset(shared_job_log: JobLog, database: Database) -> None:
    shared_job_log.publish_jobs(create_set(7, 1, props={"clean_timeout": "60"}), create(1, 7))
    shared_job_log.advance_s(61)
    log = OvertakenLog(database, lambda: shared_job_log.publish_jobs(progress(1, 7)))
    assert shared_job_log.run_due(shared_job_log.due_index(log=log)) == [["progress 1"]]
    assert shared_job_log.clean() == []


@pytest.mark.parametrize(
    "event", [progress(1, 7), job_event("redirect", 1, 7, redirect="n2")], ids=lambda event: event["event"]
)
def test_run_job_event_after_read_prevents_clean(event: Json, job_log: JobLog) -> None:
    """The job was due when its state was read, but not when the clean event is written."""
    job_log.publish_jobs(create_set(7, 1), create(1, 7))
    job_log.advance_s(AN_HOUR_S + 1)
    pending_actions = iter([lambda: job_log.publish_jobs(event)])

    def clock() -> int:
        next(pending_actions, lambda: None)()
        return job_log.world.clock()

    job_log.run_due(job_log.due_index(clock=clock))
    assert job_log.sessions()[1:] == [[f"{event['event']} 1"]]


def test_run_finish_after_read_prevents_clean(job_log: JobLog) -> None:
    job_log.publish_jobs(create(1))
    job_log.advance_s(AN_HOUR_S + 1)
    pending_actions = iter([lambda: job_log.publish_jobs(finish(1))])

    def clock() -> int:
        next(pending_actions, lambda: None)()
        return job_log.world.clock()

    job_log.run_due(job_log.due_index(clock=clock))
    assert job_log.sessions() == [["create 1"], ["finish 1"]]


def test_run_concurrently_cleans_each_job_once(shared_job_log: JobLog) -> None:
    numbers = range(1, 41)
    shared_job_log.publish_jobs(*map(create, numbers), create_set(7, 1))
    shared_job_log.project()
    shared_job_log.advance_s(AN_HOUR_S + 1)
    start = threading.Barrier(4)

    def run(_: int) -> int:
        start.wait(30)
        return shared_job_log.due_index().run(on_error=raise_first)

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(run, range(4), timeout=60)) >= 41
    cleaned = sorted(text for commit in shared_job_log.sessions()[1:] for text in commit)
    assert cleaned == sorted([*(f"clean {number}" for number in numbers), "cleanJobSet 7"])


class Crash(Exception):
    """Simulates the end of the process."""


class CrashingViews:
    """Views in which the process crashes just before or after a write."""

    def __init__(self, views: Views, remaining: int, writes: bool) -> None:
        self._views = views
        self._remaining = remaining
        self._writes = writes

    def get(self, view: str, items: Sequence[str]) -> dict[str, Record]:
        return self._views.get(view, items)

    def range(self, view: str, start: str, end: str, backwards: bool = False) -> Iterator[Record]:
        return self._views.range(view, start, end, backwards)

    def put(self, changes: Sequence[ConditionalWrite]) -> list[ConditionalWrite]:
        self._remaining -= 1
        if self._remaining == 0 and not self._writes:
            raise Crash
        refused = self._views.put(changes)
        if self._remaining == 0:
            raise Crash
        return refused

    def delete(self, view: str, items: Sequence[str]) -> None:
        self._views.delete(view, items)

    def drop(self, view: str) -> int:
        return self._views.drop(view)


@pytest.mark.parametrize("writes", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("remaining", [2, 3, 4], ids=["the records", "the deadlines", "the checkpoint"])
def test_run_after_crash_at_view_write_completes(job_log: JobLog, remaining: int, writes: bool) -> None:
    job_log.publish_jobs(*map(create, range(1, 6)), finish(2), create_set(7, 1), progress(3))
    job_log.publish_jobs(finish(4))
    with pytest.raises(Crash):
        job_log.project(job_log.due_index(CrashingViews(job_log.views, remaining, writes)))
    job_log.publish_jobs(finish(5))
    job_log.advance_s(AN_HOUR_S + 1)
    assert sorted(job_log.clean()) == ["clean 1", "clean 3", "cleanJobSet 7"]
    assert job_log.clean() == []


class CrashingLog(SqliteLog):
    """A log that crashes after a number of writes."""

    def __init__(self, database: Database, remaining: int) -> None:
        super().__init__(database)
        self._remaining = remaining

    def append(self, commits: Sequence[Commit]) -> None:
        super().append(commits)
        self._remaining -= 1
        if not self._remaining:
            raise Crash


def test_run_after_crash_does_not_repeat_cleans(shared_job_log: JobLog, database: Database) -> None:
    shared_job_log.publish_jobs(*map(create, range(1, 6)))
    shared_job_log.advance_s(AN_HOUR_S + 1)
    with pytest.raises(Crash):
        shared_job_log.run_due(shared_job_log.due_index(log=CrashingLog(database, 2)))
    assert (len(shared_job_log.clean()), shared_job_log.clean()) == (3, [])
    assert sorted(shared_job_log.sessions()[1:]) == [[f"clean {number}"] for number in range(1, 6)]


def test_run_repeated_cleans_many_jobs(shared_job_log: JobLog) -> None:
    shared_job_log.publish_jobs(*map(create, range(250)))
    shared_job_log.advance_s(AN_HOUR_S + 1)
    cleaned: list[str] = []
    while batch := shared_job_log.clean():
        cleaned += batch
        shared_job_log.project()
    assert sorted(cleaned) == sorted(f"clean {number}" for number in range(250))


def test_run_recreated_ended_jobs_are_cleaned_once(shared_job_log: JobLog) -> None:
    """Creating an ended job again opens it."""
    numbers = range(150)
    shared_job_log.publish_jobs(*map(create, numbers), *map(finish, numbers))
    shared_job_log.publish_jobs(*map(create, numbers))
    shared_job_log.project()
    shared_job_log.advance_s(AN_HOUR_S + 1)
    cleaned = [*shared_job_log.clean(), *shared_job_log.clean()]
    assert sorted(cleaned) == sorted(f"clean {number}" for number in numbers)
    assert shared_job_log.clean() == []


def test_run_after_view_rebuild_cleans_open_jobs_once(job_log: JobLog) -> None:
    job_log.publish_jobs(create(1), create(2))
    job_log.project()
    job_log.clean()
    rebuild(1, job_log.log, job_log.views, lambda *_: None)
    job_log.publish_jobs(finish(2))
    job_log.advance_s(AN_HOUR_S + 1)
    assert (job_log.clean(), job_log.clean()) == (["clean 1"], [])


def test_run_job_deleted_by_retention_does_not_block_others(shared_job_log: JobLog) -> None:
    """Retention has deleted its creation, and the views were rebuilt since then."""
    shared_job_log.publish_jobs(create(1))
    shared_job_log.publish_jobs(create(2))
    shared_job_log.project()
    shared_job_log.clean()
    assert isinstance(shared_job_log.log, SqliteLog)
    assert shared_job_log.log.delete_up_to(1, 1) == 1
    rebuild(1, shared_job_log.log, shared_job_log.views, lambda *_: None, shared_job_log.log.start(1))
    shared_job_log.advance_s(AN_HOUR_S + 1)
    assert "clean 2" in shared_job_log.clean()
