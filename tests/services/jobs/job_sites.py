"""A log with jobs, and all that is done with it: publishing, reading, projecting, cleaning."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count

from chalicelib.domain.events.event import NewEvent
from chalicelib.domain.log.append import AppendCondition
from chalicelib.domain.log.commit import Appended, Commit
from chalicelib.domain.objects.ref import ObjectRef, State
from chalicelib.domain.vocabularies import job
from chalicelib.services.consumers.consumer import catch_up
from chalicelib.services.consumers.projector import projector
from chalicelib.services.jobs.job_publisher import JobPublishing, Published
from chalicelib.services.jobs.job_timeouts import Cleaning
from chalicelib.services.log.group_commit import GroupCommit
from chalicelib.services.log.publisher import Publish
from chalicelib.services.objects.snapshots import one
from chalicelib.services.ports import Log, Views
from chalicelib.services.reading.log_reader import LogReader
from chalicelib.services.reading.retention import Retention
from tests.conformance.anyjob.anyjob import Json
from tests.services.worlds import World

TIMEOUT_S = 3600.0


@dataclass
class Site:
    """A log with jobs."""

    log: Log
    views: Views
    world: World
    server: int = 1
    requests: "count[int]" = field(default_factory=lambda: count(1))

    def __post_init__(self) -> None:
        self.publish = self._publish(self.log)
        self.publishing = self.new_publishing()

    def new_publishing(self, log: Log | None = None) -> JobPublishing:
        """The way into the log as a process has it that was started just now."""
        publish = self.publish if log is None else self._publish(log)
        return JobPublishing(publish, self.present, Retention(self.log, self.world.clock), self.world.clock)

    @property
    def present(self) -> LogReader:
        """Exact reads."""
        return LogReader(self.log, self.views)

    def tell(self, *own: Json, key: str | None = None, condition: AppendCondition | None = None) -> Published:
        """Publish events of jobs in one request."""
        return self.publishing(self.server, new(own), condition, key)

    def told(self, *own: Json) -> Commit:
        """Publish events of jobs; what was written."""
        outcome = self.tell(*own).outcome
        assert isinstance(outcome, Appended)
        return outcome.commit

    def write(self, *events: NewEvent) -> None:
        """Publish core events."""
        self.publish(self.server, events).result()

    def cleaning(
        self, views: Views | None = None, clock: Callable[[], int] | None = None, log: Log | None = None
    ) -> Cleaning:
        """Whoever cleans, perhaps through views, a log or a clock of their own."""
        views, clock = views or self.views, clock or self.world.clock
        publish = self.publish if log is None else self._publish(log)
        return Cleaning(LogReader(self.log, self.views), views, publish, clock, TIMEOUT_S)

    def clean(self) -> list[str]:
        """Look for what has been silent for too long; what is said to be cleaned."""
        before = self.log.head(self.server).session
        n = self.cleaning().run(self.server)
        found = [text for commit in self.log.read(self.server, before) for text in said(commit)]
        assert n == len(found)
        return found

    def project(self) -> None:
        """Bring the views up to date."""
        catch_up(projector(self.views), self.server, self.log, self.views)

    def state(self, collection: str, number: int) -> State:
        """A job or a set, whole."""
        path = f"/{number}"
        return one(self.present, self.server, ObjectRef(collection, path)).one(path)

    def sessions(self) -> list[list[str]]:
        """What each commit says, in short."""
        return [said(commit) for commit in self.log.read(self.server, 0)]

    def pass_s(self, seconds: float) -> None:
        """Let time go by."""
        self.world.now_ms += round(seconds * 1000)

    def _publish(self, log: Log) -> Publish:
        commit = GroupCommit(self.world.appender(log), lambda _: None)
        return Publish(log, commit.submit, lambda: f"request {next(self.requests)}")


def new(own: Sequence[Json]) -> list[NewEvent]:
    """The core events of events of jobs."""
    return [job.new_event(event) for event in own]


def said(commit: Commit) -> list[str]:
    """What a commit says, in short: `finish 117`."""
    return [f"{event.stored.type[1]} {str(event.stored.key).rpartition('/')[2]}" for event in commit.events]


def own_of(commit: Commit) -> list[Json]:
    """The events of a commit in the vocabulary's JSON."""
    found = [job.own_json(event) for event in commit.events]
    return [own for own in found if own is not None]
