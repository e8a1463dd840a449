"""Publishing job events: unknown jobs are ignored, and each job set ends once, with its last job."""

import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chalicelib.adapters.sqlite.database import Database
from chalicelib.adapters.sqlite.log import SqliteLog
from chalicelib.adapters.sqlite.views import SCHEMA, SqliteViews
from chalicelib.domain.errors import BadInput, Busy, ConditionFailed, KeyReused
from chalicelib.domain.events.event import NewEvent
from chalicelib.domain.log.append import AppendCondition
from chalicelib.domain.log.commit import Appended, Commit
from chalicelib.domain.vocabularies.job.jobsets import is_finish_due
from chalicelib.services.jobs import publish_plan
from chalicelib.services.jobs.publish_plan import IgnoredEvent
from chalicelib.services.ports import Log
from chalicelib.services.reading import scan
from tests.conformance.anyjob.anyjob import (
    Json,
    create,
    create_set,
    finish,
    finish_set,
    finished_job,
    job_event,
    progress,
)
from tests.domain.test_jobs import core_event
from tests.services.fakes import OvertakenLog, World, no_match
from tests.services.jobs.job_log import JobLog, native_events, summarize, to_core_events

THREADS = 8
JOBS = 30
ROUNDS = 5
RACE_TIMEOUT_S = 60.0


@pytest.fixture(params=["sqlite", "moto", "dynamodb_local"])
def job_log(request: pytest.FixtureRequest, world: World) -> JobLog:
    """A log with jobs, on each store."""
    log: Log = request.getfixturevalue(f"{request.param}_log")
    return JobLog(log, request.getfixturevalue(f"{request.param}_views"), world)


@pytest.fixture
def sqlite_job_log(sqlite_log: SqliteLog, sqlite_views: SqliteViews, world: World) -> JobLog:
    """A log with jobs on SQLite, for several threads."""
    return JobLog(sqlite_log, sqlite_views, world)


def test_publish_finishes_jobset_with_empty_names(job_log: JobLog) -> None:
    """Events with empty names are no longer accepted from publishers, but logs may have some."""
    planned = [{"node": "", "type": ""}]
    job_log.write(core_event("jobset/createJobSet/", "/jobset/7", {"jobs": planned}))
    job_log.write(core_event("job/create//", "/job/1", {"jobset": 7}))
    assert summarize(job_log.publish_commit(finish(1, 7))) == ["finish 1", "finishJobSet 7"]


def jobset_finishes(job_log: JobLog) -> list[tuple[int, Json]]:
    """The finish events of job sets, each with its session."""
    return [
        (commit.session, fields)
        for commit in job_log.log.read(job_log.server, 0)
        for fields in native_events(commit)
        if fields["event"] == "finishJobSet"
    ]


def jobsets_with_finished_jobs(commit: Commit) -> set[int]:
    """Numbers of the job sets whose jobs finish in a commit."""
    return {fields["jobset"] for fields in native_events(commit) if fields["event"] == "finish"}


@pytest.mark.parametrize("projected", [False, True], ids=["before projection", "after projection"])
def test_publish_last_finish_adds_finish_of_jobset(job_log: JobLog, projected: bool) -> None:
    job_log.publish_jobs(create_set(7, 2, props={"a": "b"}), create(1, 7), create(2, 7), finish(1, 7))
    if projected:
        job_log.project()
    commit = job_log.publish_commit(finish(2, 7))
    assert summarize(commit) == ["finish 2", "finishJobSet 7"]
    fields = native_events(commit)[1]
    assert (fields["node"], fields["props"], fields["jobs"]) == ("n1", {"a": "b"}, [finished_job(1), finished_job(2)])


def test_publish_new_process_knows_existing_jobs(job_log: JobLog) -> None:
    job_log.publish_jobs(*map(create, range(1, 6)))
    for projected in (False, True):
        if projected:
            job_log.project()
        published = job_log.new_job_publisher().publish(1, to_core_events([progress(3), finish(404), progress(5)]))
        assert isinstance(published.outcome, Appended)
        assert (summarize(published.outcome.commit), published.ignored) == (
            ["progress 3", "progress 5"],
            (IgnoredEvent(1, "there is no job 404"),),
        )


def test_publish_search_cut_off_still_knows_jobs(job_log: JobLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each search ends after one commit, before it has found the create event of the job."""
    job_log.publish_jobs(create(1))
    for _ in range(5):
        job_log.publish_jobs(progress(1))
    job_log.publish_jobs(create(2))
    monkeypatch.setattr(scan, "SCAN_TIMEOUT_S", -1.0)
    published = job_log.new_job_publisher().publish(1, to_core_events([progress(2), progress(404)]))
    assert (published.event_count, published.ignored) == (1, (IgnoredEvent(1, "there is no job 404"),))
    head = job_log.log.head(1)
    monkeypatch.setattr(publish_plan, "MAX_SEARCH_S", -1.0)
    with pytest.raises(Busy, match="takes too long, retry"):
        job_log.new_job_publisher().publish(1, to_core_events([progress(2)]))
    assert job_log.log.head(1) == head


def test_publish_only_ignored_events_writes_nothing(job_log: JobLog) -> None:
    head = job_log.publish_commit(create(1)).head
    published = job_log.publish_jobs(progress(2), finish(3))
    assert (published.outcome, [event.place for event in published.ignored]) == (head, [0, 1])
    assert job_log.log.head(1) == head


def test_publish_knows_job_created_by_core_event(job_log: JobLog) -> None:
    job_log.write(core_event("job/create/n1/backup", "/job/1", {"jobset": 7, "params": {}, "props": {}}))
    job_log.publish_jobs(create_set(7, 1))
    assert summarize(job_log.publish_commit(finish(1, 7))) == ["finish 1", "finishJobSet 7"]


INVALID_CREATIONS: dict[str, NewEvent] = {
    "no payload": NewEvent(type=("job", "create", "n1", "backup"), key="/job/1"),
    "no type": core_event("job/create/n1", "/job/1", {"params": {}, "props": {}}),
    "an unknown field": core_event("job/create/n1/backup", "/job/1", {"params": {}, "props": {}, "unknown": 1}),
    "an odd key": core_event("job/create/n1/backup", "/job/01", {"params": {}, "props": {}}),
}


@pytest.mark.parametrize("name", INVALID_CREATIONS)
def test_publish_invalid_creation_creates_no_job(name: str, job_log: JobLog) -> None:
    job_log.write(INVALID_CREATIONS[name])
    published = job_log.publish_jobs(progress(1))
    assert (published.outcome, published.ignored) == (job_log.log.head(1), (IgnoredEvent(0, "there is no job 1"),))


INVALID_EVENTS = [
    NewEvent(type=(), key="/jobset/7"),
    NewEvent(type=("jobset", "finishJobSet", "n1"), key="/jobset/7"),
    core_event("jobset/finishJobSet/n1", "/jobset/7", {"jobs": [{"id": 1}]}),
    core_event("job/finish/n1/backup", "/job/2", {"jobset": 7}),
    core_event("job/finish/n1/backup", "/job/2", {"jobset": "7", "success": "1", "message": "", "unknown": 1}),
    core_event("job/progress/n1/backup", "/job/1", {"jobset": 7, "state": 1}),
]


def test_publish_invalid_events_do_not_finish_jobset(job_log: JobLog) -> None:
    job_log.publish_jobs(create_set(7, 2), create(1, 7), create(2, 7))
    for event in INVALID_EVENTS:
        job_log.write(event)
    job_log.publish_jobs(finish(1, 7))
    assert jobset_finishes(job_log) == []
    job_log.project()
    assert summarize(job_log.publish_commit(finish(2, 7))) == ["finish 2", "finishJobSet 7"]


def test_publish_repeated_key_returns_first_outcome(job_log: JobLog) -> None:
    job_log.publish_jobs(create_set(7, 2), create(1, 7), create(2, 7), finish(1, 7))
    first = job_log.publish_jobs(finish(2, 7), progress(404), key="k")
    job_log.publish_jobs(create(404))
    repeated = job_log.publish_jobs(finish(2, 7), progress(404), key="k")
    assert isinstance(first.outcome, Appended)
    assert summarize(first.outcome.commit) == ["finish 2", "finishJobSet 7"]
    assert repeated.outcome == Appended(first.outcome.commit, replayed=True)
    assert repeated.ignored == first.ignored == (IgnoredEvent(1, "there is no job 404"),)


def test_publish_jobset_created_again_ends_again(job_log: JobLog) -> None:
    job_log.publish_jobs(create_set(7, 1), create(1, 7), finish(1, 7))
    job_log.project()
    job_log.publish_jobs(create_set(7, 2), create(1, 7), create(2, 7), finish(1, 7))
    assert summarize(job_log.publish_commit(finish(2, 7))) == ["finish 2", "finishJobSet 7"]
    published = job_log.publish_jobs(finish_set(7, 1), create_set(7, 1), finish_set(7, 9), finish_set(7, 9))
    assert isinstance(published.outcome, Appended)
    assert summarize(published.outcome.commit) == ["createJobSet 7", "finishJobSet 7"]
    assert [event.place for event in published.ignored] == [0, 3]


@pytest.mark.parametrize(
    "fields",
    [
        [finish_set(7, 1)],
        [finish(1, 7), finish_set(7, 1)],
        [finish_set(7, 1), finish(1, 7), finish_set(7, 1)],
        [progress(404), finish_set(7, 1)],
    ],
    ids=lambda fields: " ".join(event["event"] for event in fields),
)
def test_publish_repeated_jobset_finish_returns_first_outcome(fields: list[Json], job_log: JobLog) -> None:
    job_log.publish_jobs(create_set(7, 1), create(1, 7))
    first, repeated = job_log.publish_jobs(*fields, key="k"), job_log.publish_jobs(*fields, key="k")
    assert isinstance(first.outcome, Appended)
    assert repeated.outcome == Appended(first.outcome.commit, replayed=True)
    assert [event.place for event in repeated.ignored] == [event.place for event in first.ignored]
    assert len(jobset_finishes(job_log)) == 1


def test_publish_key_of_other_request_raises_key_reused(job_log: JobLog) -> None:
    job_log.publish_jobs(create_set(7, 1), create(1, 7))
    job_log.publish_jobs(finish_set(7, 1), key="k")
    for other in ([finish(1, 7)], [finish_set(7, 1, props={"a": "b"})], [progress(404)]):
        with pytest.raises(KeyReused):
            job_log.publish_jobs(*other, key="k")


@pytest.mark.parametrize("last", [finish(2, 7), finish(9)], ids=["completes a job set", "without a job set"])
def test_publish_checks_condition_of_publisher(last: Json, job_log: JobLog) -> None:
    event_id = job_log.publish_commit(
        create_set(7, 2), create(1, 7), create(2, 7), create(9), finish(1, 7)
    ).last_event_id
    seen = job_log.publish_commit(create(5)).last_event_id
    with pytest.raises(ConditionFailed) as failure:
        job_log.publish_jobs(last, condition=no_match("/job/5", event_id))
    assert failure.value.event_id == seen
    assert job_log.log.head(1).last_event_id == seen
    outcome = job_log.publish_jobs(last, condition=no_match("/job/5", seen)).outcome
    assert isinstance(outcome, Appended)


def test_publish_condition_after_position_ignores_earlier_events(job_log: JobLog) -> None:
    created = job_log.publish_commit(create(5))
    condition = {"failIfEventsMatch": {"keys": ["/job/5"]}, "afterPosition": created.head.position}
    job_log.publish_jobs(finish(5), condition=AppendCondition.model_validate(condition))
    with pytest.raises(ConditionFailed):
        job_log.publish_jobs(create(6), condition=AppendCondition.model_validate(condition))


@pytest.mark.parametrize("last", [finish(1, 7), finish(9)], ids=["completes a job set", "without a job set"])
def test_publish_condition_after_head_raises_bad_input(last: Json, job_log: JobLog) -> None:
    head = job_log.publish_commit(create_set(7, 1), create(1, 7), create(9)).head
    with pytest.raises(BadInput, match="is beyond the end of the log"):
        job_log.publish_jobs(
            last, condition=AppendCondition.model_validate({"failIfEventsMatch": {}, "after": head.last_event_id + 1})
        )
    assert job_log.log.head(1) == head


def overtaken_log(database: Database, *others: Callable[[], object]) -> OvertakenLog:
    """A log in which each of these actions happens just before an append."""
    remaining = iter(others)

    def other() -> object:
        return next(remaining)()

    return OvertakenLog(database, other, len(others))


@pytest.fixture
def shared_job_log(database: Database, sqlite_views: SqliteViews, world: World) -> JobLog:
    """A log with jobs in a database that several logs share."""
    return JobLog(SqliteLog(database), sqlite_views, world)


def test_publish_overtaken_by_other_finish_plans_again(shared_job_log: JobLog, database: Database) -> None:
    """While the finish of the first job is written, the second one finishes. So the first becomes the last."""
    job_log = shared_job_log
    job_log.publish_jobs(create_set(7, 2), create(1, 7), create(2, 7))
    slow = job_log.new_job_publisher(overtaken_log(database, lambda: job_log.publish_jobs(finish(2, 7))))
    outcome = slow.publish(1, to_core_events([finish(1, 7)])).outcome
    assert isinstance(outcome, Appended)
    assert job_log.sessions()[1:] == [["finish 2"], ["finish 1", "finishJobSet 7"]]


def test_publish_overtaken_by_jobset_finish_ignores_own(shared_job_log: JobLog, database: Database) -> None:
    job_log = shared_job_log
    job_log.publish_jobs(create_set(7, 1), create(1, 7))
    slow = job_log.new_job_publisher(overtaken_log(database, lambda: job_log.publish_jobs(finish(1, 7))))
    published = slow.publish(1, to_core_events([finish(1, 7), finish_set(7, 1)]))
    assert job_log.sessions()[1:] == [["finish 1", "finishJobSet 7"], ["finish 1"]]
    assert published.ignored == (IgnoredEvent(1, "job set 7 has already ended"),)


def test_publish_overtaken_by_unrelated_events_succeeds(shared_job_log: JobLog, database: Database) -> None:
    job_log = shared_job_log
    job_log.publish_jobs(create_set(7, 1), create(1, 7), create_set(70, 2), create(2, 70), create(3))
    others = [lambda: job_log.publish_jobs(finish(2, 70)), lambda: job_log.publish_jobs(finish(3))]
    slow = job_log.new_job_publisher(overtaken_log(database, *others))
    slow.publish(1, to_core_events([finish(1, 7)]))
    assert job_log.sessions()[1:] == [["finish 2"], ["finish 3"], ["finish 1", "finishJobSet 7"]]


@pytest.mark.parametrize("processes", [1, 3])
def test_publish_concurrent_finishes_end_jobset_once(sqlite_job_log: JobLog, processes: int) -> None:
    """In any order no request is refused, and the finish of the job set is in the commit of the last job."""
    job_log = sqlite_job_log
    publishers = [job_log.job_publisher, *(job_log.new_job_publisher(job_log.log) for _ in range(processes - 1))]
    with ThreadPoolExecutor(THREADS) as pool:
        for jobset in range(1, ROUNDS + 1):
            numbers = [jobset * 1000 + n for n in range(JOBS)]
            job_log.publish_jobs(create_set(jobset, JOBS), *(create(number, jobset) for number in numbers))
            random.Random(jobset).shuffle(numbers)
            fields = [to_core_events([finish(number, jobset)]) for number in numbers]
            list(pool.map(lambda event: random.choice(publishers).publish(1, event), fields, timeout=RACE_TIMEOUT_S))
            job_log.project()
    commits = job_log.sessions()
    for jobset in range(1, ROUNDS + 1):
        set_commits = [summary for summary in commits if summary[0].startswith(f"finish {jobset}0")]
        assert [len(summary) for summary in set_commits] == [1] * (JOBS - 1) + [2]
        assert set_commits[-1][1] == f"finishJobSet {jobset}"
    assert [len(fields["jobs"]) for _, fields in jobset_finishes(job_log)] == [JOBS] * ROUNDS


def test_publish_many_concurrent_finishes_all_succeed(sqlite_job_log: JobLog) -> None:
    many = 60
    sqlite_job_log.publish_jobs(create_set(7, many), *(create(number, 7) for number in range(many)))
    with ThreadPoolExecutor(32) as pool:
        fields = [to_core_events([finish(number, 7)]) for number in range(many)]
        list(pool.map(lambda event: sqlite_job_log.job_publisher.publish(1, event), fields, timeout=RACE_TIMEOUT_S))
    assert sqlite_job_log.sessions()[-1][1:] == ["finishJobSet 7"]
    assert len(jobset_finishes(sqlite_job_log)) == 1


@pytest.mark.parametrize("first", [1, 10**13], ids=["short ids", "long ids"])
def test_publish_many_jobs_ends_jobset_once(sqlite_job_log: JobLog, first: int) -> None:
    """Also if some of the jobs finish twice, before and after the end."""
    many, job_log = 1_500, sqlite_job_log
    numbers = list(range(first, first + many))
    random.Random(7).shuffle(numbers)
    job_log.publish_jobs(create_set(7, [{"node": "n1", "type": "b"}] * many))
    for start in range(0, many, 250):
        job_log.publish_jobs(*(create(number, 7) for number in numbers[start : start + 250]))
        job_log.project()
    for start in range(0, many, 250):
        assert jobset_finishes(job_log) == []
        job_log.publish_jobs(*(finish(number, 7) for number in numbers[max(start - 3, 0) : start + 250]))
        job_log.project()
    job_log.publish_jobs(finish(numbers[0], 7))
    assert len(jobset_finishes(job_log)) == 1
    assert job_log.sessions()[-2][-2:] == [f"finish {numbers[-1]}", "finishJobSet 7"]


request_lists = st.lists(
    st.lists(
        st.one_of(
            st.builds(lambda n: create(n, 7 + n % 2), st.integers(1, 5)),
            st.builds(lambda n: finish(n, 7 + n % 2), st.integers(1, 5)),
            st.builds(lambda n: job_event("clean", n, 7 + n % 2), st.integers(1, 5)),
            st.builds(lambda n, jobs: create_set(7 + n, jobs), st.integers(0, 1), st.integers(0, 3)),
            st.builds(lambda n: finish_set(7 + n), st.integers(0, 1)),
        ),
        max_size=4,
    ),
    max_size=12,
)


@settings(max_examples=60, deadline=None)
@given(request_lists, st.lists(st.booleans(), min_size=12, max_size=12))
def test_publish_any_requests_end_each_jobset_at_most_once(
    tmp_path_factory: pytest.TempPathFactory, requests: list[list[Json]], projecting: list[bool]
) -> None:
    directory: Path = tmp_path_factory.mktemp("jobs")
    log, views = Database(directory / "log"), Database(directory / "views", SCHEMA, durable=False)
    try:
        job_log = JobLog(SqliteLog(log), SqliteViews(views), World())
        for fields, is_projected in zip(requests, projecting, strict=False):
            outcome = job_log.publish_jobs(*fields).outcome
            for number in jobsets_with_finished_jobs(outcome.commit) if isinstance(outcome, Appended) else ():
                assert not is_finish_due(job_log.state("jobset", number))
            if is_projected:
                job_log.project()
        ended: set[int] = set()
        for event in [event for commit in job_log.log.read(job_log.server, 0) for event in native_events(commit)]:
            match event["event"]:
                case "createJobSet":
                    ended.discard(event["id"])
                case "finishJobSet" | "cleanJobSet":
                    assert event["event"] == "cleanJobSet" or event["id"] not in ended
                    ended.add(event["id"])
    finally:
        log.close()
        views.close()
