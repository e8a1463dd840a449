"""Requests about one job set wait for each other. Their number may be limited."""

from concurrent.futures import FIRST_COMPLETED, wait

import pytest

from chalicelib.adapters.sqlite.database import Database
from chalicelib.adapters.sqlite.log import SqliteLog
from chalicelib.adapters.sqlite.views import SqliteViews
from chalicelib.domain.errors import Busy
from tests.conformance.anyjob.anyjob import create, create_set, finish
from tests.services.fakes import World
from tests.services.jobs.job_log import JobLog, to_core_events
from tests.services.log.test_group_commit import TIMEOUT_S, DaemonThreads, GatedLog

MAX_WAITING = 3


def test_request_beyond_the_limit_is_refused(database: Database, sqlite_views: SqliteViews, world: World) -> None:
    job_log = JobLog(SqliteLog(database), sqlite_views, world)
    numbers = range(1, MAX_WAITING + 3)
    job_log.publish_jobs(create_set(7, len(numbers)), *(create(number, 7) for number in numbers))
    log = GatedLog(database)
    publisher = job_log.new_job_publisher(log, MAX_WAITING)
    with DaemonThreads() as pool:
        first, *others = numbers
        writing = pool.submit(publisher.publish, 1, to_core_events([finish(first, 7)]))
        log.await_writer()
        waiting = {pool.submit(publisher.publish, 1, to_core_events([finish(number, 7)])): number for number in others}
        (refused,), accepted = wait(waiting, TIMEOUT_S, FIRST_COMPLETED)
        with pytest.raises(Busy, match="Nothing was written"):
            refused.result()
        log.open(len(numbers) + 1)
        assert all(future.result(TIMEOUT_S).event_count == 1 for future in (writing, *accepted))
    assert publisher.publish(1, to_core_events([finish(waiting[refused], 7)])).event_count == 1
    assert job_log.sessions()[-1] == [f"finish {waiting[refused]}", "finishJobSet 7"]
