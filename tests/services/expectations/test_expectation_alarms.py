"""Alarms of expectations: each is appended once, at its time, whatever crashes or is lost."""

from collections import Counter
from contextlib import closing, suppress
from pathlib import Path

import pytest

from chalicelib.adapters.sqlite.database import Database
from chalicelib.adapters.sqlite.log import SqliteLog
from chalicelib.domain import timestamps
from chalicelib.domain.errors import DamagedRecord
from chalicelib.domain.organizations.organization import configuration_log
from chalicelib.services.consumers.for_each import raise_first
from chalicelib.services.consumers.healing import reset_views
from chalicelib.services.consumers.projector import rebuild
from chalicelib.services.expectations import expectation_alarms, fold_store
from chalicelib.services.ports import Log, Views
from tests.conformance.anyjob.anyjob import create, finish, job_event, progress
from tests.exactness.stores import CallOnce, CountingLog, Crash, InterceptedViews
from tests.services.expectations.expectation_log import ExpectationLog
from tests.services.fakes import FailingLog, OvertakenLog, World

HOUR = 3600
GRACE = 300


@pytest.fixture(params=["sqlite", "moto", "dynamodb_local"])
def jobs(request: pytest.FixtureRequest, world: World) -> ExpectationLog:
    """A log with jobs, on each store."""
    log: Log = request.getfixturevalue(f"{request.param}_log")
    return ExpectationLog(log, request.getfixturevalue(f"{request.param}_views"), world)


@pytest.fixture
def local(log: SqliteLog, sqlite_views: Views, world: World) -> ExpectationLog:
    return ExpectationLog(log, sqlite_views, world)


def kinds(jobs: ExpectationLog) -> list[str]:
    """The kinds of the alarms that the work appends now."""
    return [kind for kind, *_ in jobs.work()]


def test_run_not_started_is_missed_then_late_then_recovered(jobs: ExpectationLog) -> None:
    jobs.put(every="1h")
    jobs.advance_s(HOUR + GRACE)
    assert kinds(jobs) == []
    jobs.advance_s(1)
    assert (kinds(jobs), kinds(jobs)) == (["missed"], [])
    jobs.advance_s(60)
    jobs.publish(create(7))
    assert kinds(jobs) == ["late"]
    jobs.advance_s(60)
    jobs.publish(finish(7))
    assert (kinds(jobs), kinds(jobs)) == (["recovered"], [])
    jobs.verify()


def test_alarms_have_facts_in_payload(jobs: ExpectationLog) -> None:
    put = jobs.put(every="1h", node="n1")
    jobs.advance_s(HOUR + GRACE + 1)
    jobs.work()
    jobs.publish(create(7))
    jobs.publish(finish(7))
    jobs.work()
    slot = timestamps.iso(put.versions[0].at_us + 1 + HOUR * 1_000_000)
    missed, late, recovered = jobs.alarm_data()
    named = {"expectation": "nightly", "type": "backup", "node": "n1"}
    assert missed == {**named, "slot": slot, "due": slot.replace(":13:20", ":18:20")}
    assert late == {**named, "slot": slot, "job": 7, "run": 1, "startedAt": late["startedAt"], "lateS": late["lateS"]}
    assert late["lateS"] == pytest.approx(GRACE + 1, abs=0.01)
    assert (recovered["alarms"], recovered["since"], recovered["job"]) == (["late", "missed"], missed["due"], 7)
    (event,) = next(iter(jobs.log.read(1, 0))).events
    assert (event.fields.type, event.fields.key) == (("job", "missed", "n1", "backup"), "/expectation/nightly")


def test_run_overdue_by_duration_and_silence_once_each(jobs: ExpectationLog) -> None:
    jobs.put(max_duration="1h", max_silence="10m")
    jobs.publish(create(7))
    jobs.work()
    jobs.advance_s(601)
    assert kinds(jobs) == ["overdue"]
    jobs.publish(progress(7))
    jobs.work()
    jobs.advance_s(601)
    assert kinds(jobs) == ["overdue"]
    jobs.advance_s(HOUR)
    assert (kinds(jobs), kinds(jobs)) == (["overdue"], [])
    assert [data["reason"] for data in jobs.alarm_data()] == ["silence", "silence", "duration"]
    jobs.verify()


def test_run_started_too_soon_is_early(jobs: ExpectationLog) -> None:
    jobs.put(min_interval="1h")
    jobs.publish(create(7), finish(7))
    jobs.advance_s(60)
    jobs.publish(create(8))
    assert (kinds(jobs), kinds(jobs)) == (["early"], [])
    jobs.verify()


def test_expectation_of_one_job_ignores_others(jobs: ExpectationLog) -> None:
    jobs.put(type=None, key="/job/117", max_duration="1m")
    jobs.publish(create(117), create(118), job_event("redirect", 117, redirect="n2"))
    jobs.advance_s(61)
    assert [alarm[2] for alarm in jobs.work()] == [117]


def test_alarms_do_not_change_jobs(local: ExpectationLog) -> None:
    local.put(type=None, key="/job/7", max_duration="1m")
    local.publish(create(7))
    local.advance_s(61)
    local.work()
    assert local.facts() == [fact for fact in local.facts() if fact.name == "create"]


@pytest.mark.parametrize("writes", range(1, 8))
def test_crash_of_worker_neither_repeats_nor_loses_alarms(writes: int, local: ExpectationLog) -> None:
    local.put(every="1h")
    for job in range(3):
        local.advance_s(HOUR + GRACE + 1)
        views = InterceptedViews(local.views, Counter(), CallOnce(writes, _crash))
        with suppress(Crash):
            local.work(local.due_index(views))
        local.publish(create(job))
        with suppress(Crash):
            local.work(local.due_index(views))
    local.verify()


@pytest.mark.parametrize("writes", [True, False], ids=["after-write", "before-write"])
def test_unanswered_append_is_not_repeated(
    writes: bool, database: Database, local: ExpectationLog, world: World
) -> None:
    """The store does not answer until the appender gives up."""
    local.put(every="1h")
    local.advance_s(HOUR + GRACE + 1)
    local.project()
    failing = FailingLog(database, float("inf"), writes)
    with suppress(Exception):
        local.due_index(log=failing).run(on_error=raise_first)
    assert len(local.alarms()) == int(writes)
    world.elapsed_s = 0
    local.verify()


def test_two_workers_append_alarm_once(database: Database, local: ExpectationLog) -> None:
    """While one worker is about to append, another one does all its work."""
    local.put(every="1h")
    local.advance_s(HOUR + GRACE + 1)
    local.project()
    log = OvertakenLog(database, local.work)
    local.due_index(log=log).run(on_error=raise_first)
    assert len(local.alarms()) == 1
    local.verify()


def test_start_before_append_is_judged_before_alarm(database: Database, local: ExpectationLog) -> None:
    """The job starts just before `missed` is appended. `late` follows, because the slot was due already."""
    local.put(every="1h")
    local.advance_s(HOUR + GRACE + 1)
    local.project()
    log = OvertakenLog(database, lambda: local.publish(create(7)))
    local.due_index(log=log).run(on_error=raise_first)
    assert local.alarms() == []
    local.verify()
    assert [kind for kind, *_ in local.alarms()] == ["missed", "late"]


def test_busy_job_type_does_not_delay_alarm(database: Database, local: ExpectationLog) -> None:
    """A job starts whenever a worker is about to append."""
    local.put(max_duration="1m")
    local.publish(create(7))
    local.advance_s(61)
    local.publish(create(8))
    local.project()
    log = OvertakenLog(database, lambda: local.publish(create(9), finish(9)), times=5)
    local.due_index(log=log).run(on_error=raise_first)
    assert [alarm[2] for alarm in local.alarms()] == [7]
    local.verify()


def test_configuration_that_begins_later_is_checked(local: ExpectationLog) -> None:
    """The clock was set back by a day before the expectation changed."""
    local.put(max_duration="1m")
    local.advance_s(-24 * HOUR)
    local.put(every="1h")
    local.work()
    local.advance_s(24 * HOUR + 1)
    local.work()
    local.advance_s(HOUR + GRACE)
    assert kinds(local) == ["missed"]
    local.verify()


def test_lost_views_decide_same_alarms(local: ExpectationLog) -> None:
    local.put(every="1h", max_duration="30m")
    for job in range(4):
        local.advance_s(HOUR + GRACE + 1)
        local.work()
        local.publish(create(job))
        for view in ("1/expectation", "due", "1/checkpoint", "-2/checkpoint"):
            while local.views.drop(view):
                pass
    local.advance_s(HOUR)
    local.verify()
    assert len(local.alarms()) > 8


@pytest.mark.parametrize("restore", ["reset", "rebuild"])
def test_rebuilt_views_have_deadlines(restore: str, local: ExpectationLog) -> None:
    """Also of expectations without any run."""
    local.put(every="1h")
    local.project()
    while local.views.drop("due"):
        pass
    for server in (1, configuration_log(1)):
        if restore == "reset":
            reset_views(server, local.views)
        else:
            rebuild(server, local.log, local.views, lambda *_: None, enter_deadlines=local.due_index().enter)
    local.advance_s(HOUR + GRACE + 1)
    assert kinds(local) == ["missed"]


def test_damaged_deadline_is_entered_again(database: Database, local: ExpectationLog) -> None:
    del database
    local.put(every="1h")
    local.work()
    (record,) = local.views.range("due", "", "~")
    reset_views(1, local.views)
    local.due_index()._restore(DamagedRecord(record.view, record.item, record.version))
    assert list(local.views.range("due", "", "~")) == []
    local.advance_s(HOUR + GRACE + 1)
    assert kinds(local) == ["missed"]


def test_paused_expectation_resumes_from_now(local: ExpectationLog) -> None:
    local.put(every="1h")
    local.advance_s(HOUR)
    local.put(every="1h", paused=True)
    local.advance_s(10 * HOUR)
    assert kinds(local) == []
    local.put(every="1h")
    local.advance_s(HOUR + GRACE)
    assert kinds(local) == []
    local.advance_s(1)
    assert kinds(local) == ["missed"]
    local.verify()


def test_deleted_expectation_raises_no_alarm(local: ExpectationLog) -> None:
    local.put(every="1h")
    local.advance_s(HOUR + GRACE + 1)
    local.delete()
    assert kinds(local) == []
    assert (list(local.views.range("due", "", "~")), local.views.get("1/expectation", ["nightly"])) == ([], {})


def test_new_expectation_forgets_deleted_one(local: ExpectationLog) -> None:
    local.put(every="1h")
    local.advance_s(HOUR + GRACE + 1)
    assert kinds(local) == ["missed"]
    local.delete()
    local.put(every="2h")
    local.publish(create(7), finish(7))
    assert kinds(local) == []


def test_change_while_overdue_keeps_alarm_open(local: ExpectationLog) -> None:
    local.put(max_duration="1m")
    local.publish(create(7))
    local.advance_s(61)
    assert kinds(local) == ["overdue"]
    local.put(max_duration="2m", description="takes longer")
    local.advance_s(600)
    assert kinds(local) == []
    local.publish(finish(7))
    assert kinds(local) == ["recovered"]
    local.verify()


def test_long_outage_is_made_up_in_parts(local: ExpectationLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expectation_alarms, "MAX_COMMIT_ALARMS", 3)
    monkeypatch.setattr(expectation_alarms, "MAX_CHECK_ALARMS", 7)
    monkeypatch.setattr(fold_store, "MAX_FOLDED_COMMITS", 2)
    local.put(every="1m", grace="10s")
    for job in range(5):
        local.advance_s(600)
        local.publish(create(job))
    local.verify()
    assert len(local.alarms()) > 40


def test_alarms_follow_log_if_retention_deleted_history(local: ExpectationLog) -> None:
    """Slots before the first event that is kept are not judged again."""
    local.retention_s = 2 * HOUR
    local.put(every="1h")
    for job in range(5):
        local.advance_s(HOUR)
        local.publish(create(job))
        local.work()
    while local.views.drop("1/expectation"):
        pass
    local.advance_s(10)
    local.publish(finish(4))
    assert kinds(local) == []


def test_record_ahead_of_log_is_not_used(local: ExpectationLog, sqlite_views: Views, tmp_path: Path) -> None:
    """An older copy of the log was restored."""
    with closing(Database(tmp_path / "copy.sqlite")) as database:
        copy = ExpectationLog(SqliteLog(database), sqlite_views, local.world)
        for jobs in (local, copy):
            jobs.put(every="1h")
        for job in range(3):
            local.advance_s(HOUR)
            local.publish(create(job))
            local.work()
        copy.advance_s(2 * HOUR)
        copy.verify()
        assert len(copy.alarms()) == 4


def test_idle_expectation_reads_log_only_when_due(local: ExpectationLog) -> None:
    local.put(every="1h")
    local.work()
    log = CountingLog(local.log)
    for _ in range(50):
        local.advance_s(60)
        local.due_index(log=log).run(on_error=raise_first)
    assert log.fetched == 0


def test_projector_reads_no_configuration_without_job_events(local: ExpectationLog) -> None:
    local.put(every="1h")
    local.project()
    reads: list[None] = []
    log = CountingLog(local.log, lambda: reads.append(None))
    due = local.due_index(log=log)
    commits = list(local.log.read(configuration_log(1), 0))
    due.enter(1, [commit._replace(server=1) for commit in commits])
    assert reads == []


def _crash() -> None:
    raise Crash
