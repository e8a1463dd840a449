"""A site whose clock the test moves, with observers of failing and succeeding jobs."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from chalicelib.adapters.sqlite.outbox_table import WAITING
from chalicelib.domain.calm.mutes import acknowledged_event, silenced_event
from chalicelib.domain.events.event import Event
from chalicelib.domain.notifications.delivery import Mail
from chalicelib.domain.notifications.observer import Configuration
from tests.notifications.observer_client import job
from tests.notifications.sites import Site, open_site
from tests.services.fakes import World

HOUR_S = 3600.0
TYPES = ["job/finish/*", "job/clean/*", "job/missed/*", "job/recovered/*"]


class Reported(NamedTuple):
    """A delivery in the outbox: the events that it reports."""

    id: str
    first: int
    """EventId."""
    until: int
    number: int
    samples: int


class CalmSite:
    """A site, its clock, and jobs with ascending numbers."""

    def __init__(self, site: Site, world: World) -> None:
        self.site = site
        self.world = world
        self.server = site.server
        self.numbers = count(1)

    def put(self, name: str = "ops", /, **more: Any) -> None:
        self.site.put(name, **{"types": TYPES, **more})

    def run_job(self, success: bool, job_type: str = "backup", **more: Any) -> Event:
        """Append the start and the end of a job. Returns the event of its end."""
        number = next(self.numbers)
        finish = job("finish", number, type=job_type, success=str(int(success)), message="disk full", **more)
        started = {name: value for name, value in more.items() if name == "node"}
        return self.site.publish(job("create", number, type=job_type, **started), finish)[1]

    def fail(self, job_type: str = "backup", **more: Any) -> Event:
        return self.run_job(False, job_type, **more)

    def succeed(self, job_type: str = "backup", **more: Any) -> Event:
        return self.run_job(True, job_type, **more)

    def wait(self, seconds: float) -> None:
        """Let time pass, then do the work that is due."""
        self.world.now_ms += int(seconds * 1000)
        self.work()

    def work(self) -> None:
        """What the consumer worker does."""
        self.site.observe()
        for index in self.site.components.consumers.due_indexes:
            while index.run():
                pass

    def snooze(self, seconds: float, name: str = "ops") -> None:
        until_us = int(self.world.now_ms + seconds * 1000) * 1000
        self.site.components.notifications.observers.snooze(self.server, name, until_us)

    def silence(self, job_type: str, seconds: float = HOUR_S) -> None:
        until_us = int(self.world.now_ms + seconds * 1000) * 1000
        self.site.components.log.publisher.publish(self.server, [silenced_event(job_type, None, until_us, "")])

    def acknowledge(self, job_type: str) -> None:
        self.site.components.log.publisher.publish(self.server, [acknowledged_event(job_type, None, "")])

    def reported(self, name: str = "ops") -> list[Reported]:
        """The deliveries of an observer, in the order of the outbox."""
        deliveries = [waiting.delivery for waiting in self.site.outbox.waiting(self.server, name)]
        event_ids = {event.id: event.event_id for commit in self.site.commits() for event in commit}
        return [
            Reported(one.id, event_ids[one.event], one.until or event_ids[one.event], one.count, len(one.samples))
            for one in deliveries
        ]

    def events(self, name: str = "ops") -> list[tuple[int, int]]:
        """First and last event of each delivery."""
        return [(one.first, one.until) for one in self.reported(name)]

    def mails(self) -> list[Mail]:
        """Deliver what is in the outbox, and return all mails that were sent."""
        for name in self.site.components.notifications.observers.load(self.server).observers:
            for waiting in self.site.waiting(name):
                self.site.outbox.record_outcome(waiting.n, WAITING, 0)
        self.site.deliver()
        return [message for message in self.site.channels.sent if isinstance(message, Mail)]

    def configuration(self, name: str = "ops") -> Configuration:
        return self.site.components.notifications.observers.get(self.server, name).configuration


def one(event: Event) -> tuple[int, int]:
    """The events of a delivery about one event."""
    return event.event_id, event.event_id


@contextmanager
def open_calm_site(folder: Path) -> Iterator[CalmSite]:
    world = World()
    with open_site(folder, world.clock) as site:
        yield CalmSite(site, world)
