"""A site in this process: its log and its outbox on disk, its channels in the hands of the test."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from chalicelib.adapters.sqlite.outbox import WAITING, SqliteOutbox, Waiting
from chalicelib.domain.errors import NotDelivered
from chalicelib.domain.events.event import Event
from chalicelib.domain.notifications.delivery import Delivery, Dropped, Mail, Message, Outcome, SlackPost
from chalicelib.domain.notifications.observer import Configuration, Observer
from chalicelib.domain.organizations.organization import inbox_of
from chalicelib.domain.vocabularies.job import new_event
from chalicelib.services.consumers.consumer import catch_up
from chalicelib.services.notifications.deliverer import Delivering
from chalicelib.services.notifications.inbox import of_user
from chalicelib.settings import Settings
from chalicelib.wiring import Annals, embedded
from chalicelib.wiring.notifications import messages
from infra.server.processes.delivery_worker import Courier
from tests.notifications.outside import Json, eventually
from tests.services.worlds import World

ORGANIZATION = "here"


@dataclass
class Channels:
    """A mail server and a Slack of one: they keep what they get, in order, and fail as they are told."""

    sent: list[Mail | SlackPost] = field(default_factory=list)
    failing: dict[str, Iterator[NotDelivered]] = field(default_factory=dict)
    """By the beginning of a delivery's id: how the next tries of such deliveries fail."""
    tried: list[str] = field(default_factory=list)

    def send(self, mail: Mail) -> None:
        self._take(mail)

    def post(self, post: SlackPost) -> None:
        self._take(post)

    def _take(self, message: Mail | SlackPost) -> None:
        self.tried.append(message.delivery)
        for start, failures in self.failing.items():
            if message.delivery.startswith(start) and (failure := next(failures, None)) is not None:
                raise failure
        self.sent.append(message)

    @property
    def ids(self) -> list[str]:
        """The deliveries that arrived."""
        return [one.delivery for one in self.sent]


class Site:
    """All parts of an embedded server, without the processes."""

    def __init__(self, parts: Annals, channels: Channels) -> None:
        self.parts = parts
        self.channels = channels
        parts.organizations.create(ORGANIZATION)
        self.server = parts.organizations.server(ORGANIZATION)
        self.outbox = cast(SqliteOutbox, parts.outbox)
        self.messages = messages(parts)
        self.delivering = Delivering(parts.observers, parts.log, self.messages, channels, channels, parts.inbox)
        self.courier = Courier(self.outbox, self.delivering)

    def put(self, name: str, channel: str = "mail", /, **more: Any) -> Observer:
        """Configure an observer that can tell something."""
        config = {
            "mail": {"to": "ops@example.org"},
            "slack": {"url": "https://hooks.slack.com/x"},
            "app": {"to": "anna"},
        }
        configuration = {"channel": channel, **more, "config": {**config[channel], **more.get("config", {})}}
        return self.parts.observers.put(self.server, name, Configuration(**configuration))[0]

    def jobs(self, configured: Mapping[str, Json]) -> None:
        """Configure jobs."""
        self.parts.observers.configure_jobs(self.server, dict(configured))

    def publish(self, *events: Json) -> list[Event]:
        """Write events of jobs, in one commit."""
        self.parts.job_publishing(self.server, [new_event(event) for event in events])
        return list(self.commits())[-1]

    def commits(self) -> Iterator[list[Event]]:
        """The events of each commit."""
        return (list(commit.events) for commit in self.parts.log.read(self.server, 0))

    def observe(self) -> None:
        """Have the consumer find out who is to be told what."""
        catch_up(self.parts.observing.consumer, self.server, self.parts.log, self.parts.progress)

    def told(self, name: str, event: Event) -> Message | Dropped:
        """What an observer has to say about an event."""
        configured = self.parts.observers.of(self.server)
        observer = configured.observers[name]
        delivery = Delivery(f"{event.id}/{name}", self.server, name, event.id, "", observer.addresses[0])
        return self.messages.message(delivery, event, observer, configured)

    def attempt(self, waiting: Waiting) -> Outcome:
        """One try."""
        return self.delivering.attempt(waiting.delivery, waiting.tries + 1)

    def waiting(self, name: str) -> list[Waiting]:
        """What waits for an observer."""
        return self.outbox.waiting(self.server, name, 0, 10_000)

    def counts(self, name: str) -> dict[str, int]:
        """What has become of an observer's deliveries, without what is none."""
        return {state: count for state, count in self.outbox.counts(self.server, name).items() if count}

    def deliver(self) -> None:
        """Let the courier look once; back when it has tried all that was due."""
        self.courier.look()
        eventually(lambda: not self.courier._busy)

    def make_due(self, *names: str) -> None:
        """The pause of all that waits is over."""
        for name in names:
            for one in self.waiting(name):
                self.outbox.settle(one.n, WAITING, 0)

    def inbox(self, user: str) -> list[Json]:
        """What a user was told in the app."""
        selection = of_user(user)
        commits = self.parts.log.read(inbox_of(self.server), 0)
        return [
            event.stored.payload["data"] for commit in commits for event in commit.events if selection.selects(event)
        ]


@contextmanager
def site(folder: Path, clock: Callable[[], int] | None = None, **environment: str) -> Iterator[Site]:
    """A site for as long as the block runs."""
    given = {"DATA_DIR": str(folder), "MAIL_FROM": "annals@example.org", "JWT_KEY": "k" * 40, **environment}
    folder.mkdir(parents=True, exist_ok=True)
    found = Site(embedded(Settings.from_environment(given), clock or World().clock), Channels())
    try:
        yield found
    finally:
        found.courier.stop()
        for pool in found.courier._pools.values():
            pool.shutdown()
        found.parts.close()
