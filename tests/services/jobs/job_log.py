"""A log with jobs for tests: publish, read, project and close silent jobs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count

from chalicelib.domain.events.event import NewEvent
from chalicelib.domain.log.append import AppendCondition
from chalicelib.domain.log.commit import Appended, Commit
from chalicelib.domain.objects.ref import ObjectRef, State
from chalicelib.domain.vocabularies import JOB_VOCABULARY
from chalicelib.services.consumers.consumer import catch_up
from chalicelib.services.consumers.due_index import DueIndex
from chalicelib.services.consumers.for_each import raise_first
from chalicelib.services.consumers.projector import projector
from chalicelib.services.jobs.job_publisher import NO_LIMIT, JobPublisher, Published
from chalicelib.services.jobs.job_timeouts import KIND, JobTimeouts
from chalicelib.services.log.group_commit import GroupCommit
from chalicelib.services.log.publisher import Publisher
from chalicelib.services.objects.snapshots import object_snapshot
from chalicelib.services.ports import Log, Views
from chalicelib.services.reading.log_reader import LogReader
from chalicelib.services.reading.retention import Retention
from tests.conformance.anyjob.anyjob import Json
from tests.services.fakes import World

TIMEOUT_S = 3600.0


@dataclass
class JobLog:
    """A log with jobs, and the services that write and read it."""

    log: Log
    views: Views
    world: World
    server: int = 1
    request_numbers: "count[int]" = field(default_factory=lambda: count(1))

    def __post_init__(self) -> None:
        self.publisher = self._new_publisher(self.log)
        self.job_publisher = self.new_job_publisher()

    def new_job_publisher(self, log: Log | None = None, max_waiting: int = NO_LIMIT) -> JobPublisher:
        """A publisher with an empty cache, as in a new process."""
        publisher = self.publisher if log is None else self._new_publisher(log)
        retention, has_receipt = Retention(self.log, self.world.clock), self.world.appender(self.log).has_receipt
        return JobPublisher(publisher, self.reader, retention, self.world.clock, has_receipt, max_waiting)

    @property
    def reader(self) -> LogReader:
        return LogReader(self.log, self.views)

    def publish_jobs(
        self, *events: Json, key: str | None = None, condition: AppendCondition | None = None
    ) -> Published:
        """Publish job events in one request."""
        return self.job_publisher.publish(self.server, to_core_events(events), condition, key)

    def publish_commit(self, *events: Json) -> Commit:
        """Publish job events and return their commit."""
        outcome = self.publish_jobs(*events).outcome
        assert isinstance(outcome, Appended)
        return outcome.commit

    def write(self, *events: NewEvent) -> None:
        """Publish core events."""
        self.publisher.publish(self.server, events)

    def due_index(
        self, views: Views | None = None, clock: Callable[[], int] | None = None, log: Log | None = None
    ) -> DueIndex:
        """The due index with the timeouts of jobs, as in a process of its own."""
        publisher = self.publisher if log is None else self._new_publisher(log)
        timeouts = JobTimeouts(self.reader, publisher, TIMEOUT_S)
        return DueIndex(views or self.views, clock or self.world.clock, {KIND: timeouts})

    def run_due(self, due: DueIndex | None = None) -> list[list[str]]:
        """Update the views, close silent jobs of all logs, and return the commits that were written meanwhile."""
        due = due or self.due_index()
        before = self.log.head(self.server).session
        self.project(due)
        due.run(on_error=raise_first)
        return [summarize(commit) for commit in self.log.read(self.server, before)]

    def clean(self) -> list[str]:
        """Update the views, close silent jobs, and return a summary of the events that were written."""
        return [text for commit in self.run_due() for text in commit]

    def project(self, due: DueIndex | None = None) -> None:
        """Update the views and the due index."""
        due = due or self.due_index()
        catch_up(projector(due.views, enter_deadlines=due.enter), self.server, self.log, due.views)

    def state(self, collection: str, number: int) -> State:
        """The full state of a job or a job set."""
        path = f"/{number}"
        return object_snapshot(self.reader, self.server, ObjectRef(collection, path)).state_of(path)

    def sessions(self) -> list[list[str]]:
        """A summary of each commit."""
        return [summarize(commit) for commit in self.log.read(self.server, 0)]

    def advance_s(self, seconds: float) -> None:
        """Advance the clock."""
        self.world.now_ms += round(seconds * 1000)

    def _new_publisher(self, log: Log) -> Publisher:
        appends = GroupCommit(self.world.appender(log), lambda _: None)
        return Publisher(log, appends, lambda: f"request {next(self.request_numbers)}")


def to_core_events(events: Sequence[Json]) -> list[NewEvent]:
    return [JOB_VOCABULARY.new_event(event) for event in events]


def summarize(commit: Commit) -> list[str]:
    """The events of a commit in short, such as `finish 117`."""
    return [f"{event.fields.type[1]} {str(event.fields.key).rpartition('/')[2]}" for event in commit.events]


def native_events(commit: Commit) -> list[Json]:
    """The events of a commit in the JSON of the vocabulary."""
    fields = [JOB_VOCABULARY.native_json(event) for event in commit.events]
    return [json for json in fields if json is not None]
