"""The deliverer: which failures are retried."""

from collections.abc import Iterator

from chalicelib.adapters.sqlite.database import Database
from chalicelib.adapters.sqlite.log import SqliteLog
from chalicelib.adapters.templates.renderer import TemplateRenderer
from chalicelib.domain.errors import Unavailable, Undeliverable
from chalicelib.domain.log.commit import Commit
from chalicelib.domain.notifications.delivery import DeliveryFailed, Mail, Sent, SlackPost
from chalicelib.domain.notifications.observer import Configuration
from chalicelib.services.notifications.deliverer import Deliverer
from chalicelib.services.notifications.inbox import Inbox
from chalicelib.services.notifications.message_builder import MessageBuilder, MessageDefaults
from chalicelib.services.notifications.registry import ObserverRegistry
from chalicelib.services.reading.log_reader import LogReader
from chalicelib.services.reading.no_views import NoViews
from tests.adapters.channels.queues import a_delivery
from tests.services.fakes import World, append


class InterruptedLog(SqliteLog):
    """Raises `Unavailable` for all reads while `is_down`."""

    is_down = False

    def commit(self, server: int, session: int) -> Commit | None:
        self._check()
        return super().commit(server, session)

    def read(self, server: int, after: int, limit: int | None = None) -> Iterator[Commit]:
        self._check()
        return super().read(server, after, limit)

    def _check(self) -> None:
        if self.is_down:
            raise Unavailable("no answer")


class NoChannel:
    """A mail server and a Slack that accept nothing."""

    def send(self, mail: Mail) -> None:
        raise Undeliverable(f"no mail to {mail.recipient}")

    def post(self, post: SlackPost) -> None:
        raise Undeliverable(f"no post to {post.url}")


def test_delivery_during_store_outage_is_retried(database: Database, world: World) -> None:
    log = InterruptedLog(database)
    appender, registry = world.appender(log), ObserverRegistry(log, world.appender(log))
    configuration = Configuration.model_validate({"channel": "app", "scope": "private", "user": "anna"})
    registry.put(1, "ops", configuration)
    appender.append(append("/job/1"))
    messages = MessageBuilder(TemplateRenderer(None), LogReader(log, NoViews()), lambda _: None, MessageDefaults())
    deliverer = Deliverer(registry, log, messages, NoChannel(), NoChannel(), Inbox(appender), jitter=lambda: 1.0)
    log.is_down = True
    assert [deliverer.attempt(a_delivery(), tries, 0.0) for tries in (1, 2)] == [
        DeliveryFailed("Unavailable: no answer", delay_s) for delay_s in (2.0, 8.0)
    ]
    log.is_down = False
    assert deliverer.attempt(a_delivery(), 3, 10.0) == Sent()
