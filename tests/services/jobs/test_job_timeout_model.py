"""Closing silent jobs, compared with a naive model: each once, none early, none missed.

The clock is simulated and steps in both directions. Workers crash, overlap, and lag. Views are rebuilt and reset.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from chalicelib.adapters.sqlite.database import Database
from chalicelib.adapters.sqlite.log import SqliteLog
from chalicelib.adapters.sqlite.views import SCHEMA, SqliteViews
from chalicelib.services.consumers.consumer import run_once
from chalicelib.services.consumers.due_index import DueIndex
from chalicelib.services.consumers.for_each import raise_first
from chalicelib.services.consumers.healing import reset_views
from chalicelib.services.consumers.projector import projector, rebuild
from tests.conformance.anyjob.anyjob import Json, create, create_set, finish, progress
from tests.exactness.stores import CallOnce, Crash, Hook, InterceptedViews
from tests.services.fakes import World
from tests.services.jobs.job_log import TIMEOUT_S, JobLog, native_events

SERVERS = (1, 2)
Servers = st.sampled_from(SERVERS)
Numbers = st.integers(1, 3)
Timeouts = st.sampled_from([None, "0", "60", "7200"])
SET = 7

Name = tuple[int, str, int]
"""Server, collection and id."""


class TimeoutMachine(RuleBasedStateMachine):
    """Two logs, their jobs, and the workers that close them."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory()
        path = Path(self.folder.name)
        self.databases = Database(path / "log"), Database(path / "views", SCHEMA, durable=False)
        self.world, self.views = World(), SqliteViews(self.databases[1])
        # Request ids are unique, so both logs share their numbers.
        log, numbers = SqliteLog(self.databases[0]), count(1)
        self.logs = {server: JobLog(log, self.views, self.world, server, numbers) for server in SERVERS}

    def teardown(self) -> None:
        for database in self.databases:
            database.close()
        self.folder.cleanup()

    @rule(server=Servers, number=Numbers, timeout=Timeouts, in_set=st.booleans())
    def create(self, server: int, number: int, timeout: str | None, in_set: bool) -> None:
        self._publish(server, create(number, SET if in_set else None, props=_props(timeout)))

    @rule(server=Servers, timeout=Timeouts)
    def create_set(self, server: int, timeout: str | None) -> None:
        self._publish(server, create_set(SET, 3, props=_props(timeout)))

    @rule(server=Servers, number=Numbers, in_set=st.booleans())
    def make_progress(self, server: int, number: int, in_set: bool) -> None:
        self._publish(server, progress(number, SET if in_set else None))

    @rule(server=Servers, number=Numbers, in_set=st.booleans())
    def finish(self, server: int, number: int, in_set: bool) -> None:
        self._publish(server, finish(number, SET if in_set else None))

    @rule(server=Servers, number=Numbers)
    def create_and_finish(self, server: int, number: int) -> None:
        self._publish(server, create(number), finish(number))

    @rule(seconds=st.sampled_from([-8000, -61, -1, 0, 1, 30, 61, 1800, 3601, 7300]))
    def step_clock(self, seconds: int) -> None:
        self.world.now_ms += seconds * 1000

    @rule(server=Servers, commits=st.integers(1, 4))
    def project(self, server: int, commits: int) -> None:
        due = self._due_index()
        run_once(projector(self.views, enter_deadlines=due.enter), server, self._log, self.views, commits)

    @rule(server=Servers, writes=st.integers(1, 6))
    def crash_projector(self, server: int, writes: int) -> None:
        views = self._intercepted_views(CallOnce(writes, _crash))
        with suppress(Crash):
            run_once(projector(views, enter_deadlines=self._due_index(views).enter), server, self._log, views, 3)

    @rule()
    def run_worker(self) -> None:
        self._due_index().run(on_error=raise_first)

    @rule(writes=st.integers(1, 4))
    def crash_worker(self, writes: int) -> None:
        """Before it writes to the index, but perhaps after it has published."""
        with suppress(Crash):
            self._due_index(self._intercepted_views(CallOnce(writes, _crash))).run(on_error=raise_first)

    @rule(server=Servers, writes=st.integers(1, 4))
    def run_two_workers(self, server: int, writes: int) -> None:
        """While one worker is about to write, another one does all its work."""
        other = CallOnce(writes, lambda: self._do_all_work(server))
        self._due_index(self._intercepted_views(other)).run(on_error=raise_first)

    @rule(server=Servers)
    def rebuild_views(self, server: int) -> None:
        rebuild(server, self._log, self.views, lambda *_: None, enter_deadlines=self._due_index().enter)

    @rule(server=Servers)
    def reset_views(self, server: int) -> None:
        reset_views(server, self.views)

    @rule()
    def settle(self) -> None:
        """When all workers have done their work, no job is overdue."""
        for server in SERVERS:
            self._do_all_work(server)
        now_us = self.world.clock() * 1000
        overdue = [(server, name) for server in SERVERS for name, due in self._open(server).items() if due < now_us]
        assert overdue == []

    @invariant()
    def no_job_is_closed_early_or_twice(self) -> None:
        for server in SERVERS:
            self._open(server)

    def _open(self, server: int) -> dict[tuple[str, int], float]:
        """The deadlines of open jobs and sets, from the whole log. Checks each `clean` event on the way."""
        last: dict[tuple[str, int], tuple[int, float]] = {}
        for event in self._events(server):
            event_id, is_set = event["eventId"], event["event"].endswith("JobSet")
            own = ("jobset" if is_set else "job", event["id"])
            if event["event"] in ("clean", "cleanJobSet"):
                assert own in last, f"{own} was closed, but is not open"
                assert event_id > sum(last[own]), f"{own} was closed early"
            if event["event"] in ("finish", "clean", "finishJobSet", "cleanJobSet"):
                last.pop(own, None)
            elif event["event"] in ("create", "createJobSet") and (own not in last or is_set):
                last[own] = event_id, float(event["props"].get("clean_timeout", TIMEOUT_S)) * 1_000_000
            for name in (own, ("jobset", event.get("jobset"))):
                if name in last:
                    last[name] = event_id, last[name][1]
        return {name: event_id + timeout_us for name, (event_id, timeout_us) in last.items()}

    def _events(self, server: int) -> Iterator[Json]:
        for commit in self._log.read(server, 0):
            yield from native_events(commit)

    def _do_all_work(self, server: int) -> None:
        due = self._due_index()
        self.logs[server].project(due)
        while due.run(on_error=raise_first):
            pass

    def _publish(self, server: int, *events: Json) -> None:
        self.logs[server].publish_jobs(*events)

    def _due_index(self, views: InterceptedViews | None = None) -> DueIndex:
        return self.logs[1].due_index(views)

    def _intercepted_views(self, hook: Hook) -> InterceptedViews:
        return InterceptedViews(self.views, Counter(), hook)

    @property
    def _log(self) -> SqliteLog:
        return SqliteLog(self.databases[0])


def _props(timeout: str | None) -> dict[str, str]:
    return {} if timeout is None else {"clean_timeout": timeout}


def _crash() -> None:
    raise Crash


TimeoutMachine.TestCase.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
test_closed_jobs_match_naive_model = TimeoutMachine.TestCase
