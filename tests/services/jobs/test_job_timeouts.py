"""Closing silent jobs: jobs without events for longer than their timeout are cleaned once."""

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from chalicelib.adapters.sqlite.database import Database
from chalicelib.adapters.sqlite.log import SqliteLog
from chalicelib.adapters.sqlite.views import SCHEMA, SqliteViews
from chalicelib.domain.events.event import NewEvent
from chalicelib.domain.views.record import PROJECTOR, Checkpoint, ConditionalWrite, Record
from chalicelib.services.jobs import job_timeouts
from chalicelib.services.ports import Log, Views
from tests.conformance.anyjob.anyjob import (
    EVENTS,
    LOG,
    PARAMS,
    PROPS,
    Json,
    create,
    create_set,
    finish,
    finish_set,
    finished_job,
    job_event,
    planned_job,
    progress,
    without,
)
from tests.domain.test_jobs import core_event
from tests.exactness.stores import RecordingViews
from tests.services.fakes import World
from tests.services.jobs.job_log import TIMEOUT_S, JobLog, native_events

AN_HOUR_S = TIMEOUT_S
LARGE = "x" * 100_000


@pytest.fixture(params=["sqlite", "moto", "dynamodb_local"])
def job_log(request: pytest.FixtureRequest, world: World) -> JobLog:
    """A log with jobs, on each store."""
    log: Log = request.getfixturevalue(f"{request.param}_log")
    return JobLog(log, request.getfixturevalue(f"{request.param}_views"), world)


def last_event(job_log: JobLog) -> Json:
    """The last event of the log, in the JSON of the vocabulary."""
    (commit,) = job_log.log.read(job_log.server, job_log.log.head(job_log.server).session - 1)
    return native_events(commit)[-1]


def test_run_silent_job_is_cleaned_once_with_fields(job_log: JobLog) -> None:
    job_log.publish_jobs(EVENTS["create"], {**EVENTS["redirect"], "redirect": "n2"})
    job_log.advance_s(AN_HOUR_S)
    assert job_log.clean() == []
    job_log.advance_s(1)
    assert job_log.clean() == ["clean 117"]
    event = {**EVENTS["clean"], "node": "n2", "time": job_log.world.now_ms // 1000}
    assert without(last_event(job_log), "eventId") == event
    assert job_log.state("job", 117)["state"] == "cleaned"
    for _ in range(3):
        job_log.advance_s(10 * AN_HOUR_S)
        assert "clean 117" not in job_log.clean()


def test_run_clean_event_has_fields_too_large_for_views(job_log: JobLog) -> None:
    job_log.publish_jobs(create(1, params={"a": LARGE}, props=PROPS))
    job_log.project()
    job_log.advance_s(AN_HOUR_S + 1)
    assert job_log.clean() == ["clean 1"]
    assert (last_event(job_log)["params"], last_event(job_log)["props"]) == ({"a": LARGE}, PROPS)


@pytest.mark.parametrize(
    "event",
    [
        progress(1, state="run"),
        progress(1, progress="1/2"),
        progress(1, log=LOG),
        job_event("redirect", 1, redirect="n2"),
        create(1),
    ],
    ids=lambda event: f"A-20 {event['event']}",
)
def test_run_event_of_job_extends_its_timeout(event: Json, job_log: JobLog) -> None:
    job_log.publish_jobs(create(1))
    for _ in range(3):
        job_log.advance_s(AN_HOUR_S - 1)
        assert job_log.clean() == []
        job_log.publish_jobs(event)
    job_log.advance_s(AN_HOUR_S)
    assert job_log.clean() == []
    job_log.advance_s(1)
    assert job_log.clean() == ["clean 1"]


@pytest.mark.parametrize("end", [finish(1), job_event("clean", 1)], ids=lambda event: str(event["event"]))
@pytest.mark.parametrize("after", [[], [progress(1)], [job_event("redirect", 1, redirect="n2")]], ids=len)
def test_run_ended_job_is_not_cleaned(end: Json, after: list[Json], job_log: JobLog) -> None:
    job_log.publish_jobs(create(1), end)
    if after:
        job_log.publish_jobs(*after)
    job_log.advance_s(10 * AN_HOUR_S)
    assert job_log.clean() == []


def test_run_new_run_of_ended_job_is_cleaned(job_log: JobLog) -> None:
    job_log.publish_jobs(create(1, props={"clean_timeout": "60"}), finish(1))
    job_log.publish_jobs(create(1), create(1, props={"clean_timeout": "60"}))
    job_log.advance_s(AN_HOUR_S - 1)
    assert job_log.clean() == []
    job_log.advance_s(2)
    assert (job_log.clean(), job_log.clean()) == (["clean 1"], [])


def test_run_job_without_creation_is_not_cleaned(job_log: JobLog) -> None:
    job_log.publish_jobs(job_event("redirect", 1, redirect="n2"), job_event("redirect", 2, 7, redirect="n2"))
    job_log.advance_s(10 * AN_HOUR_S)
    assert job_log.clean() == []


@pytest.mark.parametrize(
    ("text", "after_s"),
    [("60", 60), ("0", 0), ("7200", 7200), ("", AN_HOUR_S), ("soon", AN_HOUR_S), ("-5", AN_HOUR_S), ("1e3", AN_HOUR_S)],
)
def test_run_uses_clean_timeout_property_if_numeric(text: str, after_s: float, job_log: JobLog) -> None:
    job_log.publish_jobs(create(1, props={"clean_timeout": text}))
    job_log.publish_jobs(create_set(7, 1, props={"clean_timeout": text}))
    job_log.advance_s(after_s)
    assert job_log.clean() == []
    job_log.advance_s(1)
    assert sorted(job_log.clean()) == ["clean 1", "cleanJobSet 7"]


@pytest.mark.parametrize("text", ["9" * 30, "9" * 400], ids=len)
def test_run_huge_timeout_never_expires(text: str, job_log: JobLog) -> None:
    job_log.publish_jobs(create(1, props={"clean_timeout": text}), create(2))
    job_log.advance_s(100 * 365 * 24 * 3600)
    assert job_log.clean() == ["clean 2"]


def test_run_events_of_jobs_extend_timeout_of_jobset(job_log: JobLog) -> None:
    job_log.publish_jobs(create_set(7, 2), create(1, 7))
    for event in (
        progress(1, 7),
        create(2, 7),
        job_event("redirect", 2, 7, redirect="n2"),
        finish(1, 7),
        progress(2, 7),
    ):
        job_log.advance_s(AN_HOUR_S - 1)
        assert "cleanJobSet 7" not in job_log.clean()
        job_log.publish_jobs(event)
    job_log.advance_s(AN_HOUR_S + 1)
    assert sorted(job_log.clean())[-1:] in (["clean 2"], ["cleanJobSet 7"])


def test_run_clean_event_of_jobset_lists_its_jobs(job_log: JobLog) -> None:
    jobs = [planned_job("a"), planned_job("b"), planned_job("c"), planned_job("d")]
    job_log.publish_jobs(create_set(7, jobs, node="global", props={**PROPS, "clean_timeout": "60"}))
    job_log.publish_jobs(create(1, 7, type="a"), create(2, 7, type="b", params=PARAMS), create(3, 7, type="c"))
    job_log.publish_jobs(finish(1, 7, type="a", success="0"), progress(2, 7, type="b", state="run", progress="1/2"))
    job_log.advance_s(61)
    assert job_log.clean() == ["cleanJobSet 7"]
    assert without(last_event(job_log), "eventId", "time") == {
        "event": "cleanJobSet",
        "node": "global",
        "id": 7,
        "props": {**PROPS, "clean_timeout": "60"},
        "jobs": [
            finished_job(1, type="a", success="0"),
            {**planned_job("b"), "params": PARAMS, "id": 2, "state": "run", "progress": "1/2"},
            {**planned_job("c"), "id": 3, "state": "created"},
            {**planned_job("d"), "state": "planned"},
        ],
    }
    assert (job_log.state("jobset", 7)["state"], job_log.clean()) == ("cleaned", [])


@pytest.mark.parametrize("event", [finish(1, 7), finish_set(7, 1)], ids=lambda event: str(event["event"]))
def test_run_finished_jobset_is_not_cleaned(event: Json, job_log: JobLog) -> None:
    job_log.publish_jobs(create_set(7, 1), create(1, 7), event)
    job_log.advance_s(10 * AN_HOUR_S)
    assert "cleanJobSet 7" not in job_log.clean()


def test_run_jobset_with_unknown_job_is_cleaned(job_log: JobLog) -> None:
    """A redirect does not create the job."""
    job_log.publish_jobs(create_set(7, 1), job_event("redirect", 9, 7, redirect="n2"), create(5))
    job_log.advance_s(AN_HOUR_S + 1)
    assert sorted(job_log.clean()) == ["clean 5", "cleanJobSet 7"]


def test_run_oversized_jobset_does_not_block_others(job_log: JobLog) -> None:
    jobs = [planned_job(text="x" * 6_800) for _ in range(50)]
    job_log.publish_jobs(create_set(7, jobs))
    for number in range(50):
        job_log.publish_jobs(finish(number, 7)) if number else job_log.publish_jobs(
            create(0, 7, params={"text": "y" * 100_000})
        )
    job_log.publish_jobs(create(900))
    job_log.advance_s(AN_HOUR_S + 1)
    assert "clean 900" in job_log.clean()


def test_run_cleans_many_jobs_in_rounds(sqlite_log: Log, sqlite_views: Views, world: World) -> None:
    job_log = JobLog(sqlite_log, sqlite_views, world)
    for first in (0, 50):
        job_log.publish_jobs(*(create(number) for number in range(first, first + 51)))
    job_log.advance_s(AN_HOUR_S + 1)
    assert [len(job_log.clean()) for _ in range(2)] == [101, 0]


INVALID_EVENTS: list[NewEvent] = [
    NewEvent(type=()),
    NewEvent(type=(), key="/job/1"),
    NewEvent(type=("job",), key="/job/1"),
    NewEvent(type=("job", "create", "n1", "backup"), key="/job/1"),
    NewEvent.model_validate({"type": ["job", "create", "n1", "backup"], "key": "/job/1",
                             "payload": {"type": "binary", "name": "create", "data": "MTIz"}}),
    core_event("job/create/n1/backup", "/job/1", {"params": 1}),
    core_event("job/create/n1/backup", "/job/1", {"jobset": True}),
    core_event("jobset/createJobSet/n1", "/jobset/7", {"jobs": [{}]}),
]  # fmt: skip


def test_run_ignores_invalid_events(job_log: JobLog) -> None:
    for event in INVALID_EVENTS:
        job_log.write(event)
    job_log.publish_jobs(create(2))
    job_log.advance_s(AN_HOUR_S + 1)
    assert job_log.clean() == ["clean 2"]


def test_run_job_with_few_fields_is_cleaned(job_log: JobLog) -> None:
    job_log.write(
        core_event("job/create/n1/backup", "/job/1", {}),
        core_event("job/create/n1/backup", "/job/2", {"props": {"a": "b"}}),
    )
    job_log.write(core_event("jobset/createJobSet/n1", "/jobset/7", {"jobs": [{"node": "n1", "type": "backup"}]}))
    job_log.advance_s(AN_HOUR_S + 1)
    assert sorted(job_log.clean()) == ["clean 1", "clean 2", "cleanJobSet 7"]


def test_run_job_with_empty_names_is_cleaned(job_log: JobLog) -> None:
    """Events with empty names are no longer accepted from publishers, but logs may have some."""
    job_log.write(core_event("job/create//", "/job/1", {}))
    job_log.advance_s(AN_HOUR_S + 1)
    assert job_log.clean() == ["clean 1"]
    assert (last_event(job_log)["node"], last_event(job_log)["type"]) == ("", "")


def test_run_cleans_jobs_of_all_organizations(job_log: JobLog) -> None:
    other = JobLog(job_log.log, job_log.views, job_log.world, server=2)
    job_log.publish_jobs(create(1))
    other.publish_jobs(create(1), create(2))
    other.project()
    job_log.advance_s(AN_HOUR_S + 1)
    assert job_log.clean() == ["clean 1"]
    assert other.sessions()[1:] == [["clean 1"], ["clean 2"]]


def test_run_waits_for_views_that_lag_far(job_log: JobLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """A check would have to read all commits after the views. The deadline is kept meanwhile."""
    monkeypatch.setattr(job_timeouts, "MAX_UNPROJECTED_COMMITS", 3)
    job_log.publish_jobs(create(1, props={"clean_timeout": "0"}))
    job_log.project()
    job_log.advance_s(1)
    for number in range(2, 6):
        job_log.publish_jobs(create(number))
    assert job_log.due_index().run() == 0
    assert job_log.clean() == ["clean 1"]


def test_run_ended_jobs_are_read_in_one_batch(job_log: JobLog) -> None:
    """No job is checked one by one if the views show that it has ended."""
    numbers = range(1, 41)
    job_log.publish_jobs(*map(create, numbers))
    job_log.project()
    job_log.publish_jobs(*map(finish, numbers))
    job_log.project()
    job_log.advance_s(AN_HOUR_S + 1)
    reads: list[None] = []
    views = RecordingViews(job_log.views, Counter(), lambda: reads.append(None))
    counting = JobLog(job_log.log, views, job_log.world)
    assert (counting.due_index().run(), counting.sessions()[2:]) == (40, [])
    assert len(reads) <= 6
    assert list(job_log.views.range("due", "", "~")) == []


def test_delete_retired_records_leaves_other_views(job_log: JobLog) -> None:
    """Version 0.1.0 and format 5 kept the open jobs of each log."""
    job_log.publish_jobs(create(1))
    job_log.project()
    stored = [Record("1.5/open", f"{n:02d}", 1, "{}") for n in range(64)]
    job_log.views.put([ConditionalWrite(record, None) for record in stored])
    job_log.views.put([Checkpoint(job_log.log.head(1)).to_write("clean-5", None)])
    job_timeouts.delete_retired_records(1, job_log.views)
    assert list(job_log.views.range("1.5/open", "", "~")) == []
    assert [record.item for record in job_log.views.range("1/checkpoint", "", "~")] == [PROJECTOR]
    job_timeouts.delete_retired_records(1, job_log.views)


@pytest.mark.parametrize("field", ["props", "params"])
def test_job_without_large_fields_does_not_stop_others(
    field: str, log: SqliteLog, sqlite_views: SqliteViews, world: World
) -> None:
    """The create event, which alone has the large field, is deleted by retention."""
    job_log = JobLog(log, sqlite_views, world)
    job_log.publish_jobs({**create(1), field: {"a": "x" * 3_000}})
    job_log.publish_jobs(create(2))
    job_log.project()
    job_log.publish_jobs({**create(1), "event": "progress", "progress": "1%"})
    job_log.project()
    log.delete_up_to(1, 1)
    job_log.advance_s(AN_HOUR_S + 1)
    assert job_log.clean() == ["clean 1", "clean 2"]


def test_damaged_deadline_is_entered_again(
    log: SqliteLog, views_database: Database, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    job_log = JobLog(log, SqliteViews(views_database), world)
    job_log.publish_jobs(create(1))
    job_log.project()
    views_database.write("UPDATE record SET crc = crc + 1 WHERE view = 'due'", ())
    job_log.advance_s(AN_HOUR_S + 1)
    assert job_log.clean() == []
    job_log.project()
    assert job_log.clean() == ["clean 1"]
    assert "are entered again" in caplog.text


@pytest.fixture
def views_database(tmp_path: Path) -> Iterator[Database]:
    with closing(Database(tmp_path / "damaged-views.sqlite", SCHEMA, durable=False)) as database:
        yield database
