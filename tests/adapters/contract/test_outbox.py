"""What every outbox promises, with whoever delivers from it: SQLite with the courier, SQS with the function."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import cast

import pytest

from chalicelib.adapters.dynamodb.views import DynamoViews
from chalicelib.adapters.queue.sqs_outbox import SqsOutbox
from chalicelib.adapters.sqlite.database import Database
from chalicelib.adapters.sqlite.outbox import SCHEMA, SqliteOutbox
from chalicelib.domain.notifications.delivery import TRIES, Delivery, Dropped, Failed, Parked
from chalicelib.lambda_events import sqs
from chalicelib.services.notifications.deliverer import Delivering
from chalicelib.services.notifications.queue_worker import deliver_batch
from chalicelib.services.ports import Outbox
from infra.server.processes.delivery_worker import Courier
from tests.adapters.channels.queues import Teller, a_client, a_delivery, brought, create_queue, delete

DEADLINE_S = 60.0
LOOK_S = 0.02
BUSY = Failed("the channel is busy", 0.0)
REFUSED = Failed("the channel refuses it", None)


@dataclass
class Site:
    """An outbox, and how its deliveries are made."""

    outbox: Outbox
    teller: Teller
    turn: Callable[[], object]
    """Deliver some of what waits."""

    def put(self, *deliveries: Delivery) -> None:
        self.outbox.put(deliveries)

    def until(self, is_so: Callable[[], bool]) -> None:
        """Deliver until something is so."""
        deadline = time.monotonic() + DEADLINE_S
        while not is_so():
            assert time.monotonic() < deadline
            self.turn()
            Event().wait(LOOK_S)

    def until_told(self, *deliveries: Delivery) -> None:
        """Deliver until the last of these is told, or until there is nothing more to tell."""
        self.until(lambda: set(self.told) >= {one.id for one in deliveries} and self._is_settled(*deliveries))

    def until_parked(self, *deliveries: Delivery) -> None:
        self.until(lambda: {one.id for one in deliveries} <= {one.delivery.id for one in self.parked()})

    def parked(self, observer: str = "ops", after: str = "", most: int = 100, server: int = 1) -> list[Parked]:
        return self.outbox.parked(server, observer, after, most)

    @property
    def told(self) -> list[str]:
        return [one.id for one in self.teller.told]

    def _is_settled(self, *deliveries: Delivery) -> bool:
        sent = sum(self.outbox.counts(*lane)["sent"] for lane in {(one.server, one.observer) for one in deliveries})
        return sent >= len(deliveries)


@pytest.fixture
def sqlite_site(tmp_path: Path) -> Iterator[Site]:
    database = Database(tmp_path / "outbox.sqlite", SCHEMA)
    outbox, teller = SqliteOutbox(database), Teller()
    courier = Courier(outbox, cast(Delivering, teller))
    yield Site(outbox, teller, courier.look)
    courier.stop()
    database.close()


@pytest.fixture
def sqs_site(ministack: str, ministack_views: DynamoViews) -> Iterator[Site]:
    with a_client(ministack) as client:
        url, teller = create_queue(client), Teller()
        outbox = SqsOutbox(lambda: client, url, ministack_views)

        def turn() -> None:
            event = brought(client, url)
            failed = deliver_batch(sqs.received(event), teller, outbox, _now_ms, lambda: 60_000)
            delete(client, url, event, but=failed)

        yield Site(outbox, teller, turn)


@pytest.fixture(params=["sqlite", "sqs"])
def site(request: pytest.FixtureRequest) -> Site:
    """Each outbox, empty."""
    found: Site = request.getfixturevalue(f"{request.param}_site")
    return found


def test_what_is_put_is_told_once_in_order_for_each_key(site: Site) -> None:
    some = [a_delivery(n, f"/job/{n % 3}") for n in range(1, 24)]
    site.put(*some)
    site.until_told(*some)
    assert sorted(site.teller.told, key=lambda one: (one.key, one.event)) == sorted(
        some, key=lambda one: (one.key, one.event)
    )
    for key in ("/job/0", "/job/1", "/job/2"):
        assert [one for one in site.teller.told if one.key == key] == [one for one in some if one.key == key]


def test_every_member_of_a_delivery_arrives(site: Site) -> None:
    strange = 'ß 日本 🎉 \x01 \x7f \uffff \\ " \n'
    one = a_delivery(key=strange, address="Ärna <a@example.org>", replay="r-1")
    site.put(one)
    site.until_told(one)
    assert site.teller.told == [one]


def test_nothing_put_is_nothing_told(site: Site) -> None:
    site.put()
    site.turn()
    assert (site.told, site.parked(), site.outbox.retry(1, "ops", [])) == ([], [], 0)


def test_a_delivery_that_is_put_again_is_not_told_again(site: Site) -> None:
    first, second = a_delivery(1), a_delivery(2)
    site.put(first)
    site.put(first)
    site.until_told(first)
    site.put(first, second)
    site.until_told(first, second)
    assert site.told == [first.id, second.id]


def test_those_behind_one_that_fails_wait_and_lose_no_tries_of_their_own(site: Site) -> None:
    first, second = a_delivery(1), a_delivery(2)
    site.teller.expect(first, BUSY, BUSY, BUSY, BUSY)
    site.teller.expect(second, BUSY)
    site.put(first, second)
    site.until_told(first, second)
    assert site.teller.tries == [*((first.id, n) for n in range(1, 6)), (second.id, 1), (second.id, 2)]
    assert site.parked() == []


def test_those_with_other_keys_or_observers_do_not_wait(site: Site) -> None:
    stuck = a_delivery(1)
    others = [a_delivery(2, key="/job/2"), a_delivery(3, observer="dev"), a_delivery(4, server=2)]
    site.teller.expect(stuck, *[BUSY] * 1_000)
    site.put(stuck, *others)
    site.until_told(*others)
    assert sorted(site.told) == sorted(one.id for one in others)


def test_what_is_refused_is_parked_with_its_error_and_those_behind_it_go_on(site: Site) -> None:
    refused, behind = a_delivery(1), a_delivery(2)
    site.teller.expect(refused, REFUSED)
    before_ms = _now_ms()
    site.put(refused, behind)
    site.until_told(behind)
    (parked,) = site.parked()
    assert parked == Parked(refused, 1, "the channel refuses it", parked.at_ms)
    assert before_ms <= parked.at_ms <= _now_ms()
    assert site.told == [behind.id]


def test_the_tries_before_it_was_parked_are_told(site: Site) -> None:
    one = a_delivery()
    site.teller.expect(one, *[BUSY] * (TRIES - 1), REFUSED)
    site.put(one)
    site.until_parked(one)
    assert [parked.tries for parked in site.parked()] == [TRIES]


def test_a_parked_delivery_that_is_put_again_stays_parked(site: Site) -> None:
    one, behind = a_delivery(1), a_delivery(2)
    site.teller.expect(one, REFUSED)
    site.put(one)
    site.until_parked(one)
    site.put(one, behind)
    site.until_told(behind)
    assert (site.told, [parked.delivery for parked in site.parked()]) == ([behind.id], [one])


def test_parked_deliveries_are_listed_in_order_of_their_ids_page_by_page(site: Site) -> None:
    some = [a_delivery(n, key=f"/job/{n}") for n in (1, 10, 2, 3, 11)]
    others = [a_delivery(1, observer="dev"), a_delivery(1, server=2)]
    for one in (*some, *others):
        site.teller.expect(one, REFUSED)
    site.put(*some, *others)
    site.until_parked(*some)
    ids = sorted(one.id for one in some)
    assert [one.delivery.id for one in site.parked()] == ids
    assert [one.delivery.id for one in site.parked(most=2)] == ids[:2]
    assert [one.delivery.id for one in site.parked(after=ids[1], most=2)] == ids[2:4]
    assert site.parked(after=ids[-1]) == []
    site.until(lambda: len(site.parked("dev")) == 1 and len(site.parked(server=2)) == 1)


def test_a_parked_delivery_that_is_retried_is_told_and_listed_no_more(site: Site) -> None:
    some = [a_delivery(n, key=f"/job/{n}") for n in (1, 2, 3)]
    for one in some:
        site.teller.expect(one, BUSY, REFUSED)
    site.put(*some)
    site.until_parked(*some)
    assert site.outbox.retry(1, "ops", [some[0].id, some[1].id]) == 2
    assert [one.delivery for one in site.parked()] == some[2:]
    site.until_told(*some[:2])
    assert sorted(site.teller.tries[6:]) == [(some[0].id, 1), (some[1].id, 1)]
    assert [one.delivery for one in site.parked()] == some[2:]


def test_what_fails_after_a_retry_is_parked_again_and_can_be_retried_again(site: Site) -> None:
    one = a_delivery()
    site.teller.expect(one, REFUSED, BUSY, Failed("still refused", None))
    site.put(one)
    site.until_parked(one)
    assert site.outbox.retry(1, "ops", [one.id]) == 1
    site.until_parked(one)
    assert [(parked.error, parked.tries) for parked in site.parked()] == [("still refused", 2)]
    assert site.outbox.retry(1, "ops", [one.id]) == 1
    site.until_told(one)
    assert (site.teller.tries, site.parked()) == ([(one.id, 1), (one.id, 1), (one.id, 2), (one.id, 1)], [])


@pytest.mark.parametrize(
    "ids", [[], [""], ["1.9.1/ops"], ["x" * 2_000], ["日本" * 400]], ids=["none", "empty", "unknown", "long", "wide"]
)
def test_to_retry_what_is_not_parked_does_nothing(ids: list[str], site: Site) -> None:
    assert site.outbox.retry(1, "ops", ids) == 0


def test_a_delivery_is_retried_only_once_and_by_its_own_observer(site: Site) -> None:
    one = a_delivery()
    site.teller.expect(one, REFUSED)
    site.put(one)
    site.until_parked(one)
    assert site.outbox.retry(1, "dev", [one.id]) == 0
    assert site.outbox.retry(2, "ops", [one.id]) == 0
    assert site.outbox.retry(1, "ops", [one.id, one.id]) == 1
    assert site.outbox.retry(1, "ops", [one.id]) == 0
    site.until_told(one)
    assert (site.outbox.retry(1, "ops", [one.id]), site.told) == (0, [one.id])


def test_what_became_of_deliveries_is_counted_for_each_observer(site: Site) -> None:
    sent, dropped, parked = (a_delivery(n, key=f"/job/{n}") for n in (1, 2, 3))
    site.teller.expect(dropped, Dropped("the observer is gone"))
    site.teller.expect(parked, BUSY, REFUSED)
    site.put(sent, dropped, parked)
    site.until_parked(parked)
    site.until_told(sent)
    site.until(lambda: site.outbox.counts(1, "ops")["dropped"] == 1)
    counts = site.outbox.counts(1, "ops")
    assert {**counts, "waiting": 0} == {"waiting": 0, "parked": 1, "sent": 1, "dropped": 1}
    assert counts["waiting"] in (0, -1)
    assert {**site.outbox.counts(1, "dev"), "waiting": 0} == dict.fromkeys(counts, 0)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
