"""All components of an embedded server in this process, with channels that the test controls."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from chalicelib.adapters.sqlite.outbox import SqliteOutbox, WaitingDelivery
from chalicelib.adapters.sqlite.outbox_table import WAITING
from chalicelib.domain.errors import NotDelivered
from chalicelib.domain.events.event import Event
from chalicelib.domain.notifications.delivery import Delivery, DeliveryOutcome, Dropped, Mail, Message, SlackPost
from chalicelib.domain.notifications.observer import Configuration, Observer
from chalicelib.domain.organizations.organization import inbox_log
from chalicelib.domain.vocabularies.job.events import new_event
from chalicelib.services.consumers.consumer import catch_up
from chalicelib.services.notifications.deliverer import Deliverer
from chalicelib.services.notifications.inbox import user_messages
from chalicelib.settings import Settings
from chalicelib.wiring import Components, build_local
from chalicelib.wiring.notifications import build_message_builder
from infra.server.processes.delivery_worker import DeliveryWorker
from tests.notifications.fake_channels import Json, eventually
from tests.services.fakes import World

ORGANIZATION = "here"


@dataclass
class RecordingChannels:
    """A mailer and a Slack client that record messages and fail on request."""

    sent: list[Mail | SlackPost] = field(default_factory=list)
    failing: dict[str, Iterator[NotDelivered]] = field(default_factory=dict)
    """By prefix of the delivery id: errors of the next attempts."""
    attempted: list[str] = field(default_factory=list)

    def send(self, mail: Mail) -> None:
        self._record(mail)

    def post(self, post: SlackPost) -> None:
        self._record(post)

    def _record(self, message: Mail | SlackPost) -> None:
        self.attempted.append(message.delivery)
        for start, failures in self.failing.items():
            if message.delivery.startswith(start) and (failure := next(failures, None)) is not None:
                raise failure
        self.sent.append(message)

    @property
    def delivery_ids(self) -> list[str]:
        return [message.delivery for message in self.sent]


class Site:
    """The components of an embedded server, without its processes."""

    def __init__(self, components: Components, channels: RecordingChannels) -> None:
        self.components = components
        self.channels = channels
        components.log.organizations.create(ORGANIZATION)
        self.server = components.log.organizations.server(ORGANIZATION)
        self.outbox = cast(SqliteOutbox, components.stores.outbox)
        self.messages = build_message_builder(components)
        self.deliverer = Deliverer(
            components.notifications.observers,
            components.stores.log,
            self.messages,
            channels,
            channels,
            components.notifications.inbox,
            jitter=lambda: 1.0,
        )
        failures = components.notifications.failures
        self.worker = DeliveryWorker(self.outbox, self.deliverer, components.clock, failures.report)

    def put(self, name: str, channel: str = "mail", /, **more: Any) -> Observer:
        config = {
            "mail": {"to": "ops@example.org"},
            "slack": {"url": "https://hooks.slack.com/x"},
            "app": {"to": "anna"},
        }
        configuration = {"channel": channel, **more, "config": {**config[channel], **more.get("config", {})}}
        return self.components.notifications.observers.put(self.server, name, Configuration(**configuration))[0]

    def configure_jobs(self, configured: Mapping[str, Json]) -> None:
        self.components.notifications.observers.configure_jobs(self.server, dict(configured))

    def publish(self, *events: Json) -> list[Event]:
        """Append job events in one commit and return them."""
        self.components.jobs.publisher.publish(self.server, [new_event(event) for event in events])
        return list(self.commits())[-1]

    def commits(self) -> Iterator[list[Event]]:
        """Events, grouped by commit."""
        return (list(commit.events) for commit in self.components.stores.log.read(self.server, 0))

    def observe(self) -> None:
        """Run the matching consumer."""
        catch_up(
            self.components.notifications.matcher.consumer,
            self.server,
            self.components.stores.log,
            self.components.stores.progress,
        )

    def build_message(self, name: str, event: Event) -> Message | Dropped:
        configured = self.components.notifications.observers.load(self.server)
        observer = configured.observers[name]
        delivery = Delivery(f"{event.id}/{name}", self.server, name, event.id, "", observer.addresses[0])
        return self.messages.build(delivery, event, observer, configured)

    def attempt(self, waiting: WaitingDelivery) -> DeliveryOutcome:
        return self.deliverer.attempt(waiting.delivery, waiting.tries.count + 1, 0.0)

    def waiting(self, name: str) -> list[WaitingDelivery]:
        return self.outbox.waiting(self.server, name)

    def counts(self, name: str) -> dict[str, int]:
        """Numbers of deliveries by state, without zeros."""
        return {state: count for state, count in self.outbox.counts(self.server, name).items() if count}

    def deliver(self) -> None:
        """Poll once and wait until all due deliveries are attempted."""
        self.worker.poll()
        eventually(lambda: not self.worker._busy)

    def make_due(self, *names: str) -> None:
        """End the retry delays of all waiting deliveries."""
        for name in names:
            for waiting in self.waiting(name):
                self.outbox.record_outcome(waiting.n, WAITING, 0)

    def inbox(self, user: str) -> list[Json]:
        selection = user_messages(user)
        commits = self.components.stores.log.read(inbox_log(self.server), 0)
        return [
            event.fields.payload["data"] for commit in commits for event in commit.events if selection.selects(event)
        ]


@contextmanager
def open_site(folder: Path, clock: Callable[[], int] | None = None, **environment: str) -> Iterator[Site]:
    given = {"DATA_DIR": str(folder), "MAIL_FROM": "annals@example.org", "JWT_KEY": "k" * 40, **environment}
    folder.mkdir(parents=True, exist_ok=True)
    site = Site(build_local(Settings.from_environment(given), clock or World().clock), RecordingChannels())
    try:
        yield site
    finally:
        site.worker.stop()
        for pool in site.worker._pools.values():
            pool.shutdown()
        site.components.close()
