"""Contract of the history of deliveries: SQLite with the delivery worker, and DynamoDB with the Lambda function."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Protocol, cast

import pytest

from chalicelib.adapters.dynamodb.views import DynamoViews
from chalicelib.adapters.queue.delivery_states import MAX_ERROR_CHARS, DeliveryStates
from chalicelib.adapters.sqlite.database import Database
from chalicelib.adapters.sqlite.outbox import SqliteOutbox
from chalicelib.adapters.sqlite.outbox_table import SCHEMA
from chalicelib.domain.errors import BadInput
from chalicelib.domain.events.ids import Id
from chalicelib.domain.notifications.delivery import Delivery, DeliveryFailed, Dropped
from chalicelib.domain.notifications.delivery_message import DeliveryMessage, ReceivedMessage
from chalicelib.domain.notifications.delivery_record import DeliveryRecord
from chalicelib.domain.views.record import ConditionalWrite, Record
from chalicelib.services.notifications.deliverer import Deliverer
from chalicelib.services.notifications.queue_worker import deliver_batch
from infra.server.processes.delivery_worker import DeliveryWorker
from tests.adapters.channels.queues import FakeDeliverer, a_delivery
from tests.notifications.fake_channels import eventually

NOW_MS = 1_700_000_000_000
BUSY = DeliveryFailed("the channel is busy", 3_600.0)
REFUSED = DeliveryFailed("the channel refuses it", None)


class HistoryStore(Protocol):
    """The part of the port that is tested here."""

    def history(
        self, server: int, observer: str, before: str, limit: int, event: Id | None = None
    ) -> list[DeliveryRecord]: ...


@dataclass
class HistoryUnderTest:
    """A history, and a function that attempts each of the deliveries once."""

    store: HistoryStore
    deliverer: FakeDeliverer
    attempt: Callable[[Sequence[Delivery]], None]

    def records(self, observer: str = "ops", event: Id | None = None, server: int = 1) -> list[DeliveryRecord]:
        return self.store.history(server, observer, "", 100, event)

    def ids(self, observer: str = "ops", event: Id | None = None, server: int = 1) -> list[str]:
        return [record.id for record in self.records(observer, event, server)]


class QueueStates(DeliveryStates):
    """The states of deliveries without their queue."""

    def postpone(self, receipts: Sequence[str], delay_s: float) -> None:
        del receipts, delay_s


@pytest.fixture
def sqlite_history(tmp_path: Path) -> Iterator[HistoryUnderTest]:
    database = Database(tmp_path / "outbox.sqlite", SCHEMA)
    outbox, deliverer = SqliteOutbox(database, lambda: NOW_MS), FakeDeliverer()
    worker = DeliveryWorker(outbox, cast(Deliverer, deliverer), lambda: NOW_MS)

    def attempt(deliveries: Sequence[Delivery]) -> None:
        outbox.put(deliveries)
        worker.poll()
        eventually(lambda: not worker._busy)

    yield HistoryUnderTest(outbox, deliverer, attempt)
    worker.stop()
    database.close()


@pytest.fixture
def moto_history(moto_views: DynamoViews) -> HistoryUnderTest:
    return on_dynamodb(moto_views)


@pytest.fixture
def ministack_history(ministack_views: DynamoViews) -> HistoryUnderTest:
    return on_dynamodb(ministack_views)


@pytest.fixture
def dynamodb_local_history(dynamodb_local_views: DynamoViews) -> HistoryUnderTest:
    return on_dynamodb(dynamodb_local_views)


def on_dynamodb(views: DynamoViews) -> HistoryUnderTest:
    states, deliverer, numbers = QueueStates(views, lambda: NOW_MS), FakeDeliverer(), count(1)

    def attempt(deliveries: Sequence[Delivery]) -> None:
        # One by one: moto cannot be shared by threads.
        for delivery in deliveries:
            n = next(numbers)
            received = ReceivedMessage(f"m{n}", f"r{n}", delivery.id, n, 1, NOW_MS, DeliveryMessage(delivery))
            deliver_batch([received], deliverer, states, lambda: NOW_MS, lambda: 60_000)

    return HistoryUnderTest(states, deliverer, attempt)


@pytest.fixture(params=["sqlite", "moto", "ministack", "dynamodb_local"])
def under_test(request: pytest.FixtureRequest) -> HistoryUnderTest:
    """Each history, empty."""
    history: HistoryUnderTest = request.getfixturevalue(f"{request.param}_history")
    return history


def test_history_has_every_state_with_its_reason(under_test: HistoryUnderTest) -> None:
    sent, dropped, parked, waiting = (a_delivery(n, f"/job/{n}", address=f"a{n}@example.org") for n in (1, 2, 3, 4))
    under_test.deliverer.set_outcomes(dropped, Dropped("filtered"))
    under_test.deliverer.set_outcomes(parked, REFUSED)
    under_test.deliverer.set_outcomes(waiting, BUSY)
    under_test.attempt([sent, dropped, parked, waiting])
    found = [
        (record.id, record.event, record.observer, record.address, record.status, record.error, record.at_ms)
        for record in under_test.records()
    ]
    assert found == [
        ("1.4.1/ops", Id(1, 4, 1), "ops", "a4@example.org", "waiting", "the channel is busy", NOW_MS),
        ("1.3.1/ops", Id(1, 3, 1), "ops", "a3@example.org", "parked", "the channel refuses it", NOW_MS),
        ("1.2.1/ops", Id(1, 2, 1), "ops", "a2@example.org", "dropped", "filtered", NOW_MS),
        ("1.1.1/ops", Id(1, 1, 1), "ops", "a1@example.org", "sent", "", NOW_MS),
    ]
    assert [record.tries for record in under_test.records()][:2] == [1, 1]


def test_history_is_paged_newest_first(under_test: HistoryUnderTest) -> None:
    """Also where the numbers of sessions have different lengths."""
    deliveries = [a_delivery(n, f"/job/{n}") for n in (1, 2, 9, 10, 11, 100, 1_000)]
    under_test.deliverer.set_outcomes(deliveries[2], REFUSED)
    under_test.deliverer.set_outcomes(deliveries[4], Dropped("filtered"))
    under_test.attempt(deliveries)
    pages, before = list[list[int]](), ""
    while page := under_test.store.history(1, "ops", before, 3):
        pages.append([record.event.session for record in page])
        before = page[-1].cursor
    assert pages == [[1_000, 100, 11], [10, 9, 2], [1]]


def test_history_is_kept_per_observer_and_server(under_test: HistoryUnderTest) -> None:
    under_test.attempt([a_delivery(1), a_delivery(1, observer="dev"), a_delivery(1, server=2)])
    assert (under_test.ids(), under_test.ids("dev"), under_test.ids("op")) == (["1.1.1/ops"], ["1.1.1/dev"], [])
    assert under_test.ids(server=2) == ["2.1.1/ops"]


def test_history_of_event_has_all_its_deliveries(under_test: HistoryUnderTest) -> None:
    event = Id(1, 1, 1)
    suffixes = ("ops", "ops/2", "ops/replay-x", "ops-2", "ops.2", "ops2")
    deliveries = [
        Delivery(f"{event}/{suffix}", 1, suffix.partition("/")[0], event, "/job/1", f"a{n}")
        for n, suffix in enumerate(suffixes)
    ]
    others = [a_delivery(n, f"/job/{n}") for n in (2, 10, 11)]
    under_test.attempt([*deliveries, *others])
    assert sorted(under_test.ids(event=event)) == ["1.1.1/ops", "1.1.1/ops/2", "1.1.1/ops/replay-x"]
    assert under_test.ids("ops-2", event) == ["1.1.1/ops-2"]
    assert under_test.ids(event=Id(1, 1, 10)) == []
    first, *rest = under_test.store.history(1, "ops", "", 1, event)
    assert (rest, len(under_test.store.history(1, "ops", first.cursor, 9, event))) == ([], 2)


@pytest.mark.parametrize("cursor", ["x" * 2_000, "日" * 400])
def test_history_with_invalid_cursor_is_refused(cursor: str, under_test: HistoryUnderTest) -> None:
    with pytest.raises(BadInput, match="it is not the cursor of a page"):
        under_test.store.history(1, "ops", cursor, 10)


def test_records_of_first_release_stay_readable(moto_views: DynamoViews) -> None:
    """They have no time and no address, and come after all others."""
    states, old = DeliveryStates(moto_views, lambda: NOW_MS), a_delivery(7, address="a@example.org")
    data = '{"state":"tried","retry":0,"tries":3,"since":1,"unfinished":0}'
    moto_views.put([ConditionalWrite(Record("1/delivery/ops", old.id, 4, data), None)])
    for delivery in (a_delivery(8), a_delivery(6)):
        states.record_done(DeliveryMessage(delivery), "sent", states.state(DeliveryMessage(delivery)))
    found = states.history(1, "ops", "", 10)
    assert [(record.event.session, record.status, record.tries) for record in found] == [
        (8, "sent", 0),
        (6, "sent", 0),
        (7, "waiting", 3),
    ]
    assert (found[2].at_ms, found[2].address) == (None, "")
    states.record_done(DeliveryMessage(old), "sent", states.state(DeliveryMessage(old)))
    (finished,) = states.history(1, "ops", found[1].cursor, 10)
    assert (finished.id, finished.status, finished.address) == (old.id, "sent", "a@example.org")
    assert states.state(DeliveryMessage(old)).is_done


def test_long_error_is_cut_on_dynamodb(moto_history: HistoryUnderTest) -> None:
    moto_history.deliverer.set_outcomes(a_delivery(1), DeliveryFailed("x" * 5_000, None))
    moto_history.attempt([a_delivery(1)])
    (record,) = moto_history.records()
    assert record.error == "x" * (MAX_ERROR_CHARS - 1) + "…"
