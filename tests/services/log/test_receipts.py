"""Idempotency keys in the views survive a retention that is shorter than they are valid."""

from collections.abc import Callable

import pytest

from chalicelib.adapters.sqlite.log import SqliteLog
from chalicelib.adapters.sqlite.views import SqliteViews
from chalicelib.services.consumers.consumer import catch_up
from chalicelib.services.consumers.healing import reset_views
from chalicelib.services.consumers.projector import projector, rebuild
from chalicelib.services.feeds.notifiers import PollingNotifier
from chalicelib.services.log.appender import Appender
from chalicelib.services.log.direct_appends import DirectAppends
from chalicelib.services.log.publisher import Publisher
from chalicelib.services.log.receipts import ProjectedReceipts
from chalicelib.services.reading.log_reader import LogReader
from chalicelib.services.reading.tail_cache import TailCache
from chalicelib.settings import Settings
from chalicelib.wiring.components import LogServices, build_log_services
from tests.services.fakes import World, append

HOUR_MS = 3_600_000


class Installation:
    """The services of an installation on AWS that shows events for an hour, with the log on disk."""

    def __init__(self, log: SqliteLog, views: SqliteViews, world: World) -> None:
        self.log, self.views, self.world = log, views, world
        reader = LogReader(log, views, tails=TailCache(log, views, clock=world.clock))
        receipts = ProjectedReceipts(reader, clock=world.clock)
        self.appender = Appender(log, world.clock, reader=reader, receipts=receipts)
        settings = Settings.from_environment({"STORE": "dynamodb", "RETENTION": "PT1H"})
        publisher = Publisher(log, DirectAppends(self.appender), lambda: "r")
        notifier = PollingNotifier()
        self.services: LogServices = build_log_services(
            settings, world.clock, reader, notifier, self.appender, publisher
        )

    def publish(self, key: str) -> bool:
        """Publish an event with an idempotency key, and return whether it was published before."""
        return self.appender.append(append("/1", request_id=key, idempotency_key=key)).replayed

    def expire(self, hours: int) -> None:
        """Let time pass, publish another event, and delete what may be deleted."""
        self.world.now_ms += hours * HOUR_MS
        self.publish(f"after {hours} hours")
        assert self.services.retention.boundary(1).head.session > 0
        deleted = self.services.stored_retention.boundary(1).head.session
        while self.log.delete_up_to(1, deleted):
            pass

    def start_over(self) -> None:
        """Start the views over, as after damage."""
        reset_views(1, self.views)
        catch_up(projector(self.views), 1, self.log, self.views, self.services.stored_retention.boundary(1).head)

    def rebuild(self) -> None:
        rebuild(1, self.log, self.views, lambda *_: None, self.services.stored_retention.boundary(1).head)


@pytest.fixture
def installation(log: SqliteLog, sqlite_views: SqliteViews, world: World) -> Installation:
    return Installation(log, sqlite_views, world)


@pytest.mark.parametrize("renew", [Installation.start_over, Installation.rebuild])
def test_key_of_hidden_commit_survives_new_views(
    installation: Installation, renew: Callable[[Installation], None]
) -> None:
    installation.publish("a")
    installation.expire(hours=23)
    renew(installation)
    assert installation.publish("a")


def test_commits_are_deleted_when_their_keys_have_expired(installation: Installation) -> None:
    installation.publish("a")
    installation.expire(hours=26)
    assert installation.log.start(1).session == 1
    assert not installation.publish("a")


@pytest.mark.parametrize(
    ("retention", "stored_s"), [("", None), ("PT1H", 25 * 3600), ("P1D", 25 * 3600), ("P30D", 30 * 24 * 3600)]
)
def test_commits_are_stored_as_long_as_their_keys(retention: str, stored_s: float | None) -> None:
    assert Settings.from_environment({"RETENTION": retention}).stored_s == stored_s
