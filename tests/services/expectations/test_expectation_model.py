"""Alarms of expectations over real stores, compared with a second computation over the log.

The clock is simulated and steps in both directions. Workers crash before and after each write, overlap, and lag. Views
are rebuilt, reset and lost. No alarm is missing, none is repeated, and none comes before its time.
"""

from collections import Counter
from contextlib import ExitStack, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from chalicelib.adapters.sqlite.database import Database
from chalicelib.adapters.sqlite.log import SqliteLog
from chalicelib.adapters.sqlite.views import SCHEMA, SqliteViews
from chalicelib.domain.organizations.organization import configuration_log
from chalicelib.services.consumers.consumer import run_once
from chalicelib.services.consumers.due_index import DueIndex
from chalicelib.services.consumers.for_each import raise_first
from chalicelib.services.consumers.healing import reset_views
from chalicelib.services.consumers.projector import projector, rebuild
from tests.conformance.anyjob.anyjob import create, finish, job_event, progress
from tests.domain.expectations.timeline import NAME
from tests.exactness.stores import CallOnce, Crash, Hook, InterceptedViews
from tests.services.expectations.expectation_log import ExpectationLog
from tests.services.fakes import OvertakenLog, World

SERVER = 1
OTHER = "other"
LOGS = (SERVER, configuration_log(SERVER))
CONFIGURATIONS: list[dict[str, Any]] = [
    {"every": "10m"},
    {"every": "2m", "grace": "10m", "max_duration": "5m"},
    {"cron": "*/10 * * * *", "grace": "1m", "min_interval": "3m"},
    {"cron": "0 3 * * *", "time_zone": "Europe/Berlin", "max_silence": "2m"},
    {"max_duration": "5m", "max_silence": "1m"},
    {"every": "10m", "node": "n2"},
    {"every": "10m", "paused": True},
    {"type": None, "key": "/job/1", "every": "5m", "max_duration": "1m"},
]

Jobs = st.integers(1, 3)
Writes = st.integers(1, 6)
Seconds = st.sampled_from([0, 1, 30, 60, 61, 120, 300, 599, 601, 661, 1200, 3600, 30_000])
Servers = st.sampled_from(LOGS)
Configurations = st.sampled_from(CONFIGURATIONS)


class ExpectationMachine(RuleBasedStateMachine):
    """A log, two expectations, and the workers that write their alarms."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory()
        path = Path(self.folder.name)
        self.databases = Database(path / "log"), Database(path / "views", SCHEMA, durable=False)
        self.world, self.views = World(), SqliteViews(self.databases[1])
        self.jobs = ExpectationLog(SqliteLog(self.databases[0]), self.views, self.world, SERVER)

    def teardown(self) -> None:
        with ExitStack() as stack:
            stack.callback(self._close)
            if NAME in self.jobs.registry.load(SERVER):
                self.settle()

    def _close(self) -> None:
        for database in self.databases:
            database.close()
        self.folder.cleanup()

    @initialize(fields=Configurations)
    def put_first(self, fields: dict[str, Any]) -> None:
        self.jobs.put(**fields)

    @rule(fields=Configurations, name=st.sampled_from([NAME, OTHER]))
    def put(self, fields: dict[str, Any], name: str) -> None:
        self.jobs.put(name, **(fields if name == NAME else {"every": "7m", "max_duration": "4m"}))

    @precondition(lambda self: OTHER in self.jobs.registry.load(SERVER))
    @rule()
    def delete(self) -> None:
        self.jobs.delete(OTHER)

    @rule(job=Jobs, node=st.sampled_from(["n1", "n2"]))
    def create(self, job: int, node: str) -> None:
        self.jobs.publish(create(job, node=node))

    @rule(job=Jobs, success=st.sampled_from("011"))
    def finish(self, job: int, success: str) -> None:
        self.jobs.publish(finish(job, success=success))

    @rule(job=Jobs)
    def run_at_once(self, job: int) -> None:
        self.jobs.publish(create(job), finish(job))

    @rule(job=Jobs, seconds=Seconds)
    def run_with_progress(self, job: int, seconds: int) -> None:
        self.jobs.publish(create(job))
        self.jobs.advance_s(seconds)
        self.jobs.publish(progress(job), job_event("redirect", job, redirect="n3"), create(9, type="restore"))
        self.jobs.advance_s(seconds)
        self.jobs.publish(finish(job))

    @rule(seconds=Seconds)
    def wait(self, seconds: int) -> None:
        self.jobs.advance_s(seconds)

    @rule(seconds=Seconds)
    def wait_and_work(self, seconds: int) -> None:
        self.jobs.advance_s(seconds)
        self.jobs.work()

    @rule(seconds=st.sampled_from([-4000, -61, -1, 61, 4000]))
    def set_clock(self, seconds: int) -> None:
        self.jobs.advance_s(seconds)

    @rule(server=Servers, commits=st.integers(1, 4))
    def project(self, server: int, commits: int) -> None:
        due = self.jobs.due_index()
        run_once(projector(self.views, enter_deadlines=due.enter), server, self.jobs.log, self.views, commits)

    @rule(server=Servers, writes=Writes)
    def crash_projector(self, server: int, writes: int) -> None:
        views = self._intercepted_views(CallOnce(writes, _crash))
        with suppress(Crash):
            due = self.jobs.due_index(views)
            run_once(projector(views, enter_deadlines=due.enter), server, self.jobs.log, views, 3)

    @rule(writes=Writes)
    def crash_worker(self, writes: int) -> None:
        """Before it stores a state or changes the index, but perhaps after it has appended alarms."""
        with suppress(Crash):
            self._run(self.jobs.due_index(self._intercepted_views(CallOnce(writes, _crash))))

    @rule()
    def crash_worker_before_append(self) -> None:
        with suppress(Crash):
            self._run(self.jobs.due_index(log=OvertakenLog(self.databases[0], _crash)))

    @rule(writes=Writes)
    def run_two_workers(self, writes: int) -> None:
        """While one worker is about to change the views, another one does all its work."""
        other = CallOnce(writes, self._work)
        self._run(self.jobs.due_index(self._intercepted_views(other)))

    @rule(job=Jobs, is_worker=st.booleans())
    def overtake_worker(self, job: int, is_worker: bool) -> None:
        """While a worker is about to append, another one appends, or the job starts."""
        other = self.jobs.work if is_worker else lambda: self.jobs.publish(create(job))
        self._run(self.jobs.due_index(log=OvertakenLog(self.databases[0], other)))

    @rule(server=Servers, how=st.sampled_from(["rebuild", "reset", "lose all", "lose states"]))
    def disturb_views(self, server: int, how: str) -> None:
        match how:
            case "rebuild":
                enter = self.jobs.due_index().enter
                rebuild(server, self.jobs.log, self.views, lambda *_: None, enter_deadlines=enter)
            case "reset":
                reset_views(server, self.views)
            case "lose all":
                self.databases[1].write("DELETE FROM record", ())
            case _:
                self.databases[1].write("DELETE FROM record WHERE view = ?", (f"{SERVER}/expectation",))

    @rule()
    def settle(self) -> None:
        """When all workers have done their work, the log has all alarms."""
        self.jobs.verify(NAME)
        assert max(Counter(self.jobs.alarms(OTHER)).values(), default=1) == 1

    def _work(self) -> None:
        self.jobs.work()

    def _run(self, due: DueIndex) -> None:
        due.run(on_error=raise_first)

    def _intercepted_views(self, hook: Hook) -> InterceptedViews:
        return InterceptedViews(self.views, Counter(), hook)


def _crash() -> None:
    raise Crash


ExpectationMachine.TestCase.settings = settings(max_examples=100, stateful_step_count=50, deadline=None)
test_alarms_in_log_match_second_computation = ExpectationMachine.TestCase
