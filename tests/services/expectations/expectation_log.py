"""A log with jobs and expectations for tests: publish, configure, project, and run the due index."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from chalicelib.domain.expectations.alarm import Alarm
from chalicelib.domain.expectations.expectation import Configured, Expectation
from chalicelib.domain.expectations.facts import JobFact, job_fact
from chalicelib.domain.organizations.organization import configuration_log
from chalicelib.services.consumers.consumer import catch_up
from chalicelib.services.consumers.due_index import DueIndex
from chalicelib.services.consumers.for_each import raise_first
from chalicelib.services.consumers.projector import projector
from chalicelib.services.expectations.expectation_alarms import KIND, ExpectationAlarms
from chalicelib.services.expectations.fold_store import FoldStore
from chalicelib.services.expectations.registry import ExpectationRegistry
from chalicelib.services.expectations.status import ExpectationStatuses
from chalicelib.services.log.group_commit import GroupCommit
from chalicelib.services.log.publisher import Publisher
from chalicelib.services.ports import Log, Views
from chalicelib.services.reading.log_reader import LogReader
from chalicelib.services.reading.retention import Retention
from tests.conformance.anyjob.anyjob import Json
from tests.domain.expectations.reference import Expected, reference_alarms
from tests.domain.expectations.timeline import summary
from tests.services.fakes import World
from tests.services.jobs.job_log import to_core_events


@dataclass
class ExpectationLog:
    """An organization's logs, and the services that write and read them. Each call is like a new process."""

    log: Log
    views: Views
    world: World
    server: int = 1
    retention_s: float | None = None
    request_numbers: "count[int]" = field(default_factory=lambda: count(1))

    @property
    def reader(self) -> LogReader:
        return LogReader(self.log, self.views)

    @property
    def registry(self) -> ExpectationRegistry:
        return ExpectationRegistry(self.log, self.world.appender(self.log))

    @property
    def statuses(self) -> ExpectationStatuses:
        return ExpectationStatuses(self.registry, self.fold_store(self.reader), self.world.clock)

    def fold_store(self, reader: LogReader) -> FoldStore:
        return FoldStore(reader, Retention(self.log, self.world.clock, self.retention_s))

    def publish(self, *events: Json) -> None:
        """Publish job events in one request."""
        self.publisher(self.log).publish(self.server, to_core_events(events))

    def publisher(self, log: Log) -> Publisher:
        appends = GroupCommit(self.world.appender(log), lambda _: None)
        return Publisher(log, appends, lambda: f"request {next(self.request_numbers)}")

    def put(self, name: str = "nightly", **fields: Any) -> Configured:
        return self.registry.put(self.server, name, Expectation(**({"type": "backup"} | fields)))[0]

    def delete(self, name: str = "nightly") -> None:
        self.registry.delete(self.server, name)

    def due_index(self, views: Views | None = None, log: Log | None = None) -> DueIndex:
        """The due index with the alarms of expectations, as in a process of its own."""
        views, log = views or self.views, log or self.log
        registry = ExpectationRegistry(log, self.world.appender(log))
        alarms = ExpectationAlarms(registry, self.fold_store(LogReader(log, views)), self.publisher(log))
        return DueIndex(views, self.world.clock, {KIND: alarms})

    def project(self, due: DueIndex | None = None) -> None:
        """Update the views of both logs, and the due index."""
        due = due or self.due_index()
        for server in (configuration_log(self.server), self.server):
            catch_up(projector(due.views, enter_deadlines=due.enter), server, self.log, due.views)

    def work(self, due: DueIndex | None = None) -> list[Expected]:
        """Do all work that is due. Returns the new alarms."""
        before = len(self.alarms())
        due = due or self.due_index()
        self.project(due)
        while due.run(on_error=raise_first):
            pass
        return self.alarms()[before:]

    def alarms(self, name: str = "nightly") -> list[Expected]:
        """The alarms of an expectation in the log."""
        return [summary(alarm) for alarm in self._logged(f"/expectation/{name}")]

    def alarm_data(self, name: str = "nightly") -> list[Json]:
        """The payloads of the alarms."""
        return [dict(alarm.data) for alarm in self._logged(f"/expectation/{name}")]

    def facts(self) -> list[JobFact]:
        events = (event for commit in self.log.read(self.server, 0) for event in commit.events)
        return [fact for event in events if (fact := job_fact(event)) is not None]

    def verify(self, name: str = "nightly") -> None:
        """After all work that is due, the alarms are those of the second computation, each once.

        An alarm that fell due while the log grew may be there or not.
        """
        self.world.now_ms = max(self.world.now_ms, self.log.head(self.server).last_event_id // 1000 + 1)
        self.work()
        versions, facts = self.registry.get(self.server, name).versions, self.facts()
        now_us, alarms = self.world.clock() * 1000, self.alarms(name)
        assert [alarm for alarm, count in Counter(alarms).items() if count > 1] == []
        assert reference_alarms(versions, facts, now_us) - set(alarms) == set()
        end_us = max(now_us, self.log.head(self.server).last_event_id)
        assert set(alarms) - reference_alarms(versions, facts, end_us) == set()

    def advance_s(self, seconds: float) -> None:
        """Advance the clock."""
        self.world.now_ms += round(seconds * 1000)

    def _logged(self, key: str) -> list[Alarm]:
        events = (event for commit in self.log.read(self.server, 0) for event in commit.events)
        alarms = (Alarm.from_event(event) for event in events if event.fields.key == key)
        return [alarm for alarm in alarms if alarm is not None]


Hook = Callable[[], None]
