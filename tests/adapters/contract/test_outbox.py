"""Contract of the `Outbox` port: SQLite with the delivery worker, and SQS with the Lambda function."""

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event
from typing import cast

import pytest

from chalicelib.adapters.aws.boto3_client import Boto3Client
from chalicelib.adapters.aws.client import SQS
from chalicelib.adapters.aws.protocol import ServiceClient
from chalicelib.adapters.dynamodb.views import DynamoViews
from chalicelib.adapters.queue.sqs_outbox import SqsOutbox
from chalicelib.adapters.sqlite.database import Database
from chalicelib.adapters.sqlite.outbox import SqliteOutbox
from chalicelib.adapters.sqlite.outbox_table import SCHEMA
from chalicelib.domain.events.ids import Id
from chalicelib.domain.notifications.delivery import Delivery, DeliveryFailed, Dropped, Parked, Postponed
from chalicelib.lambda_events import sqs
from chalicelib.services.notifications.deliverer import Deliverer
from chalicelib.services.notifications.queue_worker import deliver_batch
from chalicelib.services.ports import Outbox
from infra.server.processes.delivery_worker import DeliveryWorker
from tests.adapters.channels.queues import FakeDeliverer, a_delivery, create_queue, delete, open_client, receive_batch
from tests.torture.stores import REGION

TEST_TIMEOUT_S = 60.0
POLL_INTERVAL_S = 0.02
BUSY = DeliveryFailed("the channel is busy", 0.0)
RATE_LIMITED = Postponed("too many messages", 0.0)
REFUSED = DeliveryFailed("the channel refuses it", None)


@dataclass
class OutboxUnderTest:
    """An outbox, and a function that delivers from it."""

    outbox: Outbox
    deliverer: FakeDeliverer
    deliver_some: Callable[[], object]
    """Deliver some of the waiting deliveries."""

    def put(self, *deliveries: Delivery) -> None:
        self.outbox.put(deliveries)

    def deliver_until(self, condition: Callable[[], bool]) -> None:
        """Deliver until the condition holds."""
        deadline = time.monotonic() + TEST_TIMEOUT_S
        while not condition():
            assert time.monotonic() < deadline
            self.deliver_some()
            Event().wait(POLL_INTERVAL_S)

    def deliver_until_sent(self, *deliveries: Delivery) -> None:
        """Deliver until all of these are sent and counted."""
        self.deliver_until(
            lambda: (
                set(self.sent_ids) >= {delivery.id for delivery in deliveries}
                and self._are_counted_as_sent(*deliveries)
            )
        )

    def deliver_until_parked(self, *deliveries: Delivery) -> None:
        self.deliver_until(
            lambda: {delivery.id for delivery in deliveries} <= {delivery.delivery.id for delivery in self.parked()}
        )

    def parked(self, observer: str = "ops", after: str = "", limit: int = 100, server: int = 1) -> list[Parked]:
        return self.outbox.parked(server, observer, after, limit)

    @property
    def sent_ids(self) -> list[str]:
        return [delivery.id for delivery in self.deliverer.sent]

    def _are_counted_as_sent(self, *deliveries: Delivery) -> bool:
        sent = sum(
            self.outbox.counts(*lane)["sent"]
            for lane in {(delivery.server, delivery.observer) for delivery in deliveries}
        )
        return sent >= len(deliveries)


@pytest.fixture
def sqlite_outbox(tmp_path: Path) -> Iterator[OutboxUnderTest]:
    database = Database(tmp_path / "outbox.sqlite", SCHEMA)
    outbox, deliverer = SqliteOutbox(database), FakeDeliverer()
    worker = DeliveryWorker(outbox, cast(Deliverer, deliverer))
    yield OutboxUnderTest(outbox, deliverer, worker.poll)
    worker.stop()
    database.close()


@pytest.fixture
def ministack_outbox(ministack: str, ministack_views: DynamoViews) -> Iterator[OutboxUnderTest]:
    with open_sqs_outbox(ministack, ministack_views) as opened:
        yield opened


@pytest.fixture
def dynamodb_local_outbox(ministack: str, dynamodb_local_views: DynamoViews) -> Iterator[OutboxUnderTest]:
    """The queue is ministack's; the delivery states are in DynamoDB Local."""
    with open_sqs_outbox(ministack, dynamodb_local_views) as opened:
        yield opened


@pytest.fixture
def localstack_outbox(localstack: str, localstack_views: DynamoViews) -> Iterator[OutboxUnderTest]:
    with open_sqs_outbox(localstack, localstack_views) as opened:
        yield opened


@pytest.fixture
def boto3_outbox(ministack: str, boto3_views: DynamoViews) -> Iterator[OutboxUnderTest]:
    with closing(Boto3Client(SQS, ministack, REGION)) as client, open_outbox(client, boto3_views) as opened:
        yield opened


@contextmanager
def open_sqs_outbox(endpoint: str, views: DynamoViews) -> Iterator[OutboxUnderTest]:
    with open_client(endpoint) as client, open_outbox(client, views) as opened:
        yield opened


@contextmanager
def open_outbox(client: ServiceClient, views: DynamoViews) -> Iterator[OutboxUnderTest]:
    """An outbox in a new queue, with the Lambda function that delivers from it."""
    url, deliverer = create_queue(client), FakeDeliverer()
    outbox = SqsOutbox(lambda: client, url, views)

    def deliver_some() -> None:
        event = receive_batch(client, url)
        failed = deliver_batch(sqs.parse_delivery_messages(event), deliverer, outbox, _now_ms, lambda: 60_000)
        delete(client, url, event, but=failed)

    yield OutboxUnderTest(outbox, deliverer, deliver_some)


@pytest.fixture(params=["sqlite", "ministack", "boto3", "dynamodb_local", "localstack"])
def under_test(request: pytest.FixtureRequest) -> OutboxUnderTest:
    """Each outbox, empty."""
    outbox_under_test: OutboxUnderTest = request.getfixturevalue(f"{request.param}_outbox")
    return outbox_under_test


def test_put_deliveries_are_sent_once_in_order_per_key(under_test: OutboxUnderTest) -> None:
    deliveries = [a_delivery(n, f"/job/{n % 3}") for n in range(1, 24)]
    under_test.put(*deliveries)
    under_test.deliver_until_sent(*deliveries)
    assert sorted(under_test.deliverer.sent, key=lambda delivery: (delivery.key, delivery.event)) == sorted(
        deliveries, key=lambda delivery: (delivery.key, delivery.event)
    )
    for key in ("/job/0", "/job/1", "/job/2"):
        assert [delivery for delivery in under_test.deliverer.sent if delivery.key == key] == [
            delivery for delivery in deliveries if delivery.key == key
        ]


def test_put_delivery_is_sent_with_all_fields(under_test: OutboxUnderTest) -> None:
    unusual_text = 'ß 日本 🎉 \x01 \x7f \uffff \\ " \n'
    delivery = a_delivery(key=unusual_text, address="Ärna <a@example.org>", replay="r-1")
    under_test.put(delivery)
    under_test.deliver_until_sent(delivery)
    assert under_test.deliverer.sent == [delivery]


def test_put_held_delivery_keeps_its_events(under_test: OutboxUnderTest) -> None:
    samples = tuple(Id(1, session, 1) for session in range(1, 6))
    delivery = replace(a_delivery(), until=1_700_000_000_000_123, count=1_000, samples=samples)
    under_test.deliverer.set_outcomes(delivery, REFUSED)
    under_test.put(delivery)
    under_test.deliver_until_parked(delivery)
    assert [parked.delivery for parked in under_test.parked()] == [delivery]
    under_test.outbox.retry(1, "ops", [delivery.id])
    under_test.deliver_until_sent(delivery)
    assert under_test.deliverer.sent == [delivery]


def test_put_of_nothing_sends_nothing(under_test: OutboxUnderTest) -> None:
    under_test.put()
    under_test.deliver_some()
    assert (under_test.sent_ids, under_test.parked(), under_test.outbox.retry(1, "ops", [])) == ([], [], 0)


def test_put_of_same_delivery_sends_it_once(under_test: OutboxUnderTest) -> None:
    first, second = a_delivery(1), a_delivery(2)
    under_test.put(first)
    under_test.put(first)
    under_test.deliver_until_sent(first)
    under_test.put(first, second)
    under_test.deliver_until_sent(first, second)
    assert under_test.sent_ids == [first.id, second.id]


def test_failing_delivery_delays_later_ones_of_its_key(under_test: OutboxUnderTest) -> None:
    first, second = a_delivery(1), a_delivery(2)
    under_test.deliverer.set_outcomes(first, BUSY, BUSY, BUSY, BUSY)
    under_test.deliverer.set_outcomes(second, BUSY)
    under_test.put(first, second)
    under_test.deliver_until_sent(first, second)
    assert under_test.deliverer.tries == [*((first.id, n) for n in range(1, 6)), (second.id, 1), (second.id, 2)]
    assert under_test.parked() == []


def test_failing_delivery_does_not_delay_other_keys(under_test: OutboxUnderTest) -> None:
    stuck = a_delivery(1)
    others = [a_delivery(2, key="/job/2"), a_delivery(3, observer="dev"), a_delivery(4, server=2)]
    under_test.deliverer.set_outcomes(stuck, *[BUSY] * 1_000)
    under_test.put(stuck, *others)
    under_test.deliver_until_sent(*others)
    assert sorted(under_test.sent_ids) == sorted(delivery.id for delivery in others)


def test_refused_delivery_is_parked_and_next_is_sent(under_test: OutboxUnderTest) -> None:
    refused, behind = a_delivery(1), a_delivery(2)
    under_test.deliverer.set_outcomes(refused, REFUSED)
    before_ms = _now_ms()
    under_test.put(refused, behind)
    under_test.deliver_until_sent(behind)
    (parked,) = under_test.parked()
    assert parked == Parked(refused, 1, "the channel refuses it", parked.at_ms)
    assert before_ms <= parked.at_ms <= _now_ms()
    assert under_test.sent_ids == [behind.id]


def test_parked_delivery_counts_its_tries(under_test: OutboxUnderTest) -> None:
    delivery = a_delivery()
    under_test.deliverer.set_outcomes(delivery, *[BUSY] * 6, REFUSED)
    under_test.put(delivery)
    under_test.deliver_until_parked(delivery)
    assert [parked.tries for parked in under_test.parked()] == [7]


def test_rate_limited_attempts_do_not_count(under_test: OutboxUnderTest) -> None:
    delivery = a_delivery()
    under_test.deliverer.set_outcomes(delivery, RATE_LIMITED, RATE_LIMITED, BUSY, RATE_LIMITED, BUSY, REFUSED)
    under_test.put(delivery)
    under_test.deliver_until_parked(delivery)
    assert [tries for _, tries in under_test.deliverer.tries] == [1, 1, 1, 2, 2, 3]
    assert [parked.tries for parked in under_test.parked()] == [3]


def test_put_of_parked_delivery_keeps_it_parked(under_test: OutboxUnderTest) -> None:
    delivery, behind = a_delivery(1), a_delivery(2)
    under_test.deliverer.set_outcomes(delivery, REFUSED)
    under_test.put(delivery)
    under_test.deliver_until_parked(delivery)
    under_test.put(delivery, behind)
    under_test.deliver_until_sent(behind)
    assert (under_test.sent_ids, [parked.delivery for parked in under_test.parked()]) == ([behind.id], [delivery])


def test_parked_returns_pages_in_order_of_ids(under_test: OutboxUnderTest) -> None:
    deliveries = [a_delivery(n, key=f"/job/{n}") for n in (1, 10, 2, 3, 11)]
    others = [a_delivery(1, observer="dev"), a_delivery(1, server=2)]
    for delivery in (*deliveries, *others):
        under_test.deliverer.set_outcomes(delivery, REFUSED)
    under_test.put(*deliveries, *others)
    under_test.deliver_until_parked(*deliveries)
    ids = sorted(delivery.id for delivery in deliveries)
    assert [delivery.delivery.id for delivery in under_test.parked()] == ids
    assert [delivery.delivery.id for delivery in under_test.parked(limit=2)] == ids[:2]
    assert [delivery.delivery.id for delivery in under_test.parked(after=ids[1], limit=2)] == ids[2:4]
    assert under_test.parked(after=ids[-1]) == []
    under_test.deliver_until(lambda: len(under_test.parked("dev")) == 1 and len(under_test.parked(server=2)) == 1)


def test_retry_sends_parked_delivery(under_test: OutboxUnderTest) -> None:
    deliveries = [a_delivery(n, key=f"/job/{n}") for n in (1, 2, 3)]
    for delivery in deliveries:
        under_test.deliverer.set_outcomes(delivery, BUSY, REFUSED)
    under_test.put(*deliveries)
    under_test.deliver_until_parked(*deliveries)
    assert under_test.outbox.retry(1, "ops", [deliveries[0].id, deliveries[1].id]) == 2
    assert [delivery.delivery for delivery in under_test.parked()] == deliveries[2:]
    under_test.deliver_until_sent(*deliveries[:2])
    assert sorted(under_test.deliverer.tries[6:]) == [(deliveries[0].id, 1), (deliveries[1].id, 1)]
    assert [delivery.delivery for delivery in under_test.parked()] == deliveries[2:]


def test_retry_that_fails_parks_delivery_again(under_test: OutboxUnderTest) -> None:
    delivery = a_delivery()
    under_test.deliverer.set_outcomes(delivery, REFUSED, BUSY, DeliveryFailed("still refused", None))
    under_test.put(delivery)
    under_test.deliver_until_parked(delivery)
    assert under_test.outbox.retry(1, "ops", [delivery.id]) == 1
    under_test.deliver_until_parked(delivery)
    assert [(parked.error, parked.tries) for parked in under_test.parked()] == [("still refused", 2)]
    assert under_test.outbox.retry(1, "ops", [delivery.id]) == 1
    under_test.deliver_until_sent(delivery)
    assert (under_test.deliverer.tries, under_test.parked()) == (
        [(delivery.id, 1), (delivery.id, 1), (delivery.id, 2), (delivery.id, 1)],
        [],
    )


@pytest.mark.parametrize(
    "ids", [[], [""], ["1.9.1/ops"], ["x" * 2_000], ["日本" * 400]], ids=["none", "empty", "unknown", "long", "wide"]
)
def test_retry_of_unknown_ids_does_nothing(ids: list[str], under_test: OutboxUnderTest) -> None:
    assert under_test.outbox.retry(1, "ops", ids) == 0


def test_retry_works_once_and_only_for_its_observer(under_test: OutboxUnderTest) -> None:
    delivery = a_delivery()
    under_test.deliverer.set_outcomes(delivery, REFUSED)
    under_test.put(delivery)
    under_test.deliver_until_parked(delivery)
    assert under_test.outbox.retry(1, "dev", [delivery.id]) == 0
    assert under_test.outbox.retry(2, "ops", [delivery.id]) == 0
    assert under_test.outbox.retry(1, "ops", [delivery.id, delivery.id]) == 1
    assert under_test.outbox.retry(1, "ops", [delivery.id]) == 0
    under_test.deliver_until_sent(delivery)
    assert (under_test.outbox.retry(1, "ops", [delivery.id]), under_test.sent_ids) == (0, [delivery.id])


def test_counts_are_kept_per_observer(under_test: OutboxUnderTest) -> None:
    sent, dropped, parked = (a_delivery(n, key=f"/job/{n}") for n in (1, 2, 3))
    under_test.deliverer.set_outcomes(dropped, Dropped("the observer is gone"))
    under_test.deliverer.set_outcomes(parked, BUSY, REFUSED)
    under_test.put(sent, dropped, parked)
    under_test.deliver_until_parked(parked)
    under_test.deliver_until_sent(sent)
    under_test.deliver_until(lambda: under_test.outbox.counts(1, "ops")["dropped"] == 1)
    counts = under_test.outbox.counts(1, "ops")
    assert {**counts, "waiting": 0} == {"waiting": 0, "parked": 1, "sent": 1, "dropped": 1}
    assert counts["waiting"] in (0, -1)
    assert {**under_test.outbox.counts(1, "dev"), "waiting": 0} == dict.fromkeys(counts, 0)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
