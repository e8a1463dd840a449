"""Jobs that are created without an id get the next number, also while several processes create jobs."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from chalicelib.adapters.sqlite.database import Database
from chalicelib.adapters.sqlite.log import SqliteLog
from chalicelib.adapters.sqlite.views import SqliteViews
from chalicelib.domain.errors import BadInput, ConditionFailed
from chalicelib.domain.log.append import MAX_EVENTS, AppendCondition
from chalicelib.domain.log.commit import Appended
from chalicelib.domain.queries.event_filter import Selection
from chalicelib.services.jobs.job_publisher import Published
from chalicelib.services.ports import Log
from tests.conformance.anyjob.anyjob import Json, create, create_set, finish, progress, without
from tests.services.fakes import OvertakenLog, World
from tests.services.jobs.job_log import JobLog, native_events, to_core_events

THREADS = 8


@pytest.fixture(params=["sqlite", "moto", "dynamodb_local"])
def job_log(request: pytest.FixtureRequest, world: World) -> JobLog:
    """A log with jobs, on each store."""
    log: Log = request.getfixturevalue(f"{request.param}_log")
    return JobLog(log, request.getfixturevalue(f"{request.param}_views"), world)


@pytest.fixture
def shared_job_log(database: Database, sqlite_views: SqliteViews, world: World) -> JobLog:
    """A log with jobs in a database that several logs share."""
    return JobLog(SqliteLog(database), sqlite_views, world)


def new_job(**more: object) -> Json:
    """The `create` event of a job without an id."""
    return without(create(0, **more), "id")


def created_ids(job_log: JobLog) -> list[int]:
    """The ids of all jobs that were created, in the order of the log."""
    commits = job_log.log.read(job_log.server, 0)
    return [native["id"] for commit in commits for native in native_events(commit) if native["event"] == "create"]


def test_first_job_without_id_gets_number_1(job_log: JobLog) -> None:
    assert job_log.publish_jobs(new_job()).ids == (1,)
    assert job_log.sessions() == [["create 1"]]


def test_request_with_ids_only_reports_none(job_log: JobLog) -> None:
    assert job_log.publish_jobs(create(7), finish(7)).ids == ()


@pytest.mark.parametrize("is_projected", [False, True], ids=["tail", "views"])
def test_number_is_greater_than_all_known_ones(job_log: JobLog, is_projected: bool) -> None:
    job_log.publish_jobs(create(40))
    job_log.publish_jobs(create(12))
    if is_projected:
        job_log.project()
    assert job_log.new_job_publisher().publish(1, to_core_events([new_job()])).ids == (41,)


@pytest.mark.parametrize("is_projected", [False, True], ids=["tail", "views"])
def test_number_of_job_that_was_never_created_is_known(job_log: JobLog, is_projected: bool) -> None:
    """Another program may write events of a job without creating it. A new job must not have these events."""
    job_log.write(*to_core_events([progress(90)]))
    if is_projected:
        job_log.project()
    assert job_log.publish_jobs(new_job()).ids == (91,)


def test_numbers_follow_ids_of_the_same_request(job_log: JobLog) -> None:
    published = job_log.publish_jobs(new_job(), create(30), new_job(), finish(30))
    assert (published.ids, job_log.sessions()) == ((31, 32), [["create 31", "create 30", "create 32", "finish 30"]])


def test_number_after_views_counts_later_commits(job_log: JobLog) -> None:
    job_log.publish_jobs(create(5))
    job_log.project()
    job_log.publish_jobs(create(50))
    assert job_log.new_job_publisher().publish(1, to_core_events([new_job()])).ids == (51,)


def test_job_with_assigned_number_belongs_to_its_set(job_log: JobLog) -> None:
    job_log.publish_jobs(create_set(7, 1))
    (number,) = job_log.publish_jobs(new_job(jobset=7)).ids
    job_log.publish_jobs(finish(number, 7))
    assert job_log.state("jobset", 7)["state"] == "finished"


def test_full_request_of_jobs_without_ids_is_written(job_log: JobLog) -> None:
    assert job_log.publish_jobs(*[new_job()] * MAX_EVENTS).ids == tuple(range(1, MAX_EVENTS + 1))


@pytest.mark.parametrize("is_projected", [False, True])
@pytest.mark.parametrize("greatest", [2**52, 2**53 - 1])
def test_number_that_is_never_assigned_does_not_count(job_log: JobLog, greatest: int, is_projected: bool) -> None:
    job_log.publish_jobs(create(greatest), create(6))
    if is_projected:
        job_log.project()
    published = job_log.new_job_publisher().publish(1, to_core_events([create(greatest), new_job()]))
    assert published.ids == (7,)


def test_greatest_assignable_number_leaves_none_to_assign(job_log: JobLog) -> None:
    job_log.publish_jobs(create(2**52 - 1))
    with pytest.raises(BadInput, match="no number after 4503599627370495 to assign"):
        job_log.publish_jobs(new_job())


def test_key_that_no_job_can_have_is_not_counted(job_log: JobLog) -> None:
    (event,) = to_core_events([create(1)])
    job_log.write(event.model_copy(update={"key": "/job/9999999999999999"}))
    job_log.project()
    assert job_log.publish_jobs(new_job()).ids == (1,)


def test_repeated_request_gets_the_same_ids(job_log: JobLog) -> None:
    events = [finish(99), new_job(), create(20), new_job()]
    first = job_log.publish_jobs(*events, key="a")
    second = job_log.publish_jobs(*events, key="a")
    assert isinstance(second.outcome, Appended)
    assert second.outcome.replayed
    assert (first.ids, second.ids, second.ignored) == ((21, 22), (21, 22), first.ignored)
    assert job_log.publish_jobs(new_job()).ids == (23,)


def test_repeated_request_of_another_process_gets_the_same_ids(job_log: JobLog) -> None:
    first = job_log.publish_jobs(new_job(), key="a")
    job_log.publish_jobs(create(50))
    second = job_log.new_job_publisher().publish(1, to_core_events([new_job()]), None, "a")
    assert (first.ids, second.ids, created_ids(job_log)) == ((1,), (1,), [1, 50])


def test_refused_request_leaves_its_numbers_free(job_log: JobLog) -> None:
    job_log.publish_jobs(create(3))
    condition = AppendCondition(fail_if_events_match=Selection(types=(("job", "create", "*"),)))
    with pytest.raises(ConditionFailed):
        job_log.publish_jobs(new_job(), condition=condition)
    assert job_log.publish_jobs(new_job()).ids == (4,)


def test_condition_after_end_of_log_is_refused(job_log: JobLog) -> None:
    condition = AppendCondition(fail_if_events_match=Selection(types=(("x",),)), after=2**50)
    with pytest.raises(BadInput, match="beyond the end of the log"):
        job_log.publish_jobs(new_job(), condition=condition)
    assert job_log.publish_jobs(new_job()).ids == (1,)


def test_condition_of_publisher_holds_with_assigned_numbers(job_log: JobLog) -> None:
    job_log.publish_jobs(create(3))
    condition = AppendCondition(fail_if_events_match=Selection(types=(("job", "finish", "*"),)))
    assert job_log.publish_jobs(new_job(), condition=condition).ids == (4,)


def test_number_taken_by_another_process_is_assigned_again(shared_job_log: JobLog, database: Database) -> None:
    """While the job is written, another process creates one with the same number."""
    other = shared_job_log.new_job_publisher()
    others = iter([new_job(), create(2), create(30)])

    def create_another() -> None:
        if (event := next(others, None)) is not None:
            other.publish(1, to_core_events([event]))

    slow = shared_job_log.new_job_publisher(OvertakenLog(database, create_another))
    number = slow.publish(1, to_core_events([new_job()])).ids
    assert (number, created_ids(shared_job_log)) == ((2,), [1, 2])


@pytest.mark.parametrize("processes", [1, 2])
def test_concurrent_jobs_without_ids_get_distinct_numbers(shared_job_log: JobLog, processes: int) -> None:
    """Beside them, another publisher creates jobs with ids that follow the greatest one of its own."""
    publishers = [shared_job_log.new_job_publisher() for _ in range(processes)]

    def work(thread: int) -> Sequence[Published]:
        publisher = publishers[thread % processes]
        return [publisher.publish(1, to_core_events([new_job()] * 2)) for _ in range(10)]

    def publish_with_ids(_: int) -> Sequence[Published]:
        return [
            shared_job_log.new_job_publisher().publish(1, to_core_events([create(number)]))
            for number in range(1, 20, 2)
        ]

    with ThreadPoolExecutor(THREADS + 1) as pool:
        futures = [pool.submit(work, thread) for thread in range(THREADS)]
        futures.append(pool.submit(publish_with_ids, 0))
        published = [one for future in futures for one in future.result(timeout=120)]
    assigned = [number for one in published for number in one.ids]
    assert len(set(assigned)) == len(assigned) == THREADS * 20
    for one in published:
        assert isinstance(one.outcome, Appended)
        if one.ids:
            assert tuple(native["id"] for native in native_events(one.outcome.commit)) == one.ids
    assert sorted(set(created_ids(shared_job_log)) - set(range(1, 20, 2))) == sorted(
        set(assigned) - set(range(1, 20, 2))
    )
