"""Attempts and their outcomes: order, retry delays, parking and retries, without real delays."""

from dataclasses import replace
from itertools import chain, repeat
from pathlib import Path

import pytest

from chalicelib.adapters.templates.renderer import TemplateRenderer
from chalicelib.domain.errors import NotDelivered, RateLimited, Unavailable, Undeliverable
from chalicelib.domain.notifications.delivery import (
    DEFAULT_RETRY_S,
    MAX_UNFINISHED_TRIES,
    MAX_WAIT_S,
    DeliveryFailed,
    Dropped,
    Postponed,
    Sent,
    Tries,
    rate_limit_pause_s,
    retry_delay_s,
)
from chalicelib.services.notifications.attempt import TRIES_EXHAUSTED
from chalicelib.services.notifications.deliverer import Deliverer
from chalicelib.services.notifications.message_builder import MessageBuilder, MessageDefaults
from infra.server.processes.delivery_worker import DeliveryWorker
from tests.notifications.fake_channels import eventually
from tests.notifications.observer_client import job
from tests.notifications.sites import Site, open_site
from tests.services.fakes import World

DAY_S = DEFAULT_RETRY_S
BUSY = NotDelivered("the server is busy")


def test_retry_delay_grows_up_to_half_an_hour() -> None:
    delays = [retry_delay_s(tries, 0.0, DAY_S, jitter=1.0) for tries in range(1, 8)]
    assert delays == [2.0, 8.0, 32.0, 128.0, 512.0, 1800.0, 1800.0]


def test_retry_delay_has_jitter() -> None:
    assert [retry_delay_s(3, 0.0, DAY_S, jitter) for jitter in (0.0, 0.5, 1.0)] == [16.0, 24.0, 32.0]


def test_retry_delay_ends_after_retry_time() -> None:
    elapsed = (0.0, DAY_S - 60, DAY_S, DAY_S + 1)
    assert [retry_delay_s(50, elapsed_s, DAY_S, 1.0) for elapsed_s in elapsed] == [1800.0, 60.0, None, None]
    assert retry_delay_s(1, 0.0, 0.0, 1.0) is None


def test_retries_fill_a_day_with_few_tries() -> None:
    elapsed_s, tries = 0.0, 1
    while (delay_s := retry_delay_s(tries, elapsed_s, DAY_S, jitter=0.5)) is not None:
        elapsed_s, tries = elapsed_s + delay_s, tries + 1
    assert (elapsed_s, 50 < tries < 75) == (DAY_S, True)


def test_retry_delay_respects_retry_after_of_channel() -> None:
    assert [retry_delay_s(tries, 0.0, DAY_S, 1.0, 60.0) for tries in range(1, 5)] == [60.0, 60.0, 60.0, 128.0]


def test_rate_limit_pause_has_jitter_and_respects_retry_after() -> None:
    pauses = [rate_limit_pause_s(jitter, after_s) for jitter in (0.0, 1.0) for after_s in (None, 1.0, 60.0)]
    assert pauses == [15.0, 15.0, 60.0, 30.0, 30.0, 120.0]


OUTCOMES = {
    "accepted": (None, Sent()),
    "retryable error": (BUSY, DeliveryFailed("the server is busy", 2.0)),
    "retry-after": (NotDelivered("later", 600.0), DeliveryFailed("later", 600.0)),
    "rate limit": (RateLimited("too many"), Postponed("too many", 30.0)),
    "rate limit with time": (RateLimited("too many", 100.0), Postponed("too many", 200.0)),
    "permanent error": (Undeliverable("no such user"), DeliveryFailed("no such user", None)),
}


@pytest.mark.parametrize("name", OUTCOMES)
def test_attempt_maps_channel_result_to_outcome(site: Site, name: str) -> None:
    failure, expected = OUTCOMES[name]
    site.put("ops")
    site.publish(job("create"))
    site.observe()
    site.channels.failing = {"": iter(()) if failure is None else iter([failure])}
    (waiting,) = site.waiting("ops")
    assert site.attempt(waiting) == expected


def test_delivery_failing_for_a_day_is_parked_with_last_error(site: Site) -> None:
    site.put("ops")
    (event,) = site.publish(job("create"))
    site.observe()
    site.channels.failing = {"": (NotDelivered(f"failure {number}") for number in range(1, 100))}
    for tries in range(1, 20):
        site.deliver()
        (waiting,) = site.waiting("ops")
        assert (waiting.tries.count, waiting.tries.unfinished, waiting.due_ms > 0) == (tries, 0, True)
        site.deliver()  # It is not due yet.
        assert len(site.channels.attempted) == tries
        site.make_due("ops")
    site.outbox.record_tries(waiting.n, replace(waiting.tries, since_ms=waiting.tries.since_ms - int(DAY_S * 1000)))
    site.deliver()
    (parked,) = site.outbox.parked(site.server, "ops", "", 10)
    assert (parked.delivery.id, parked.tries, parked.error) == (f"{event.id}/ops", 20, "failure 20")
    assert site.counts("ops") == {"parked": 1}


def test_rate_limited_delivery_waits_without_losing_tries(site: Site) -> None:
    site.put("ops")
    site.publish(job("create"))
    site.observe()
    site.channels.failing = {"": chain([RateLimited("too many")] * 20, [BUSY])}
    for _ in range(20):
        site.deliver()
        (waiting,) = site.waiting("ops")
        assert (waiting.tries, waiting.due_ms > 0) == (Tries(), True)
        site.make_due("ops")
    site.deliver()
    assert [waiting.tries.count for waiting in site.waiting("ops")] == [1]
    site.make_due("ops")
    site.deliver()
    assert (site.counts("ops"), len(site.channels.attempted)) == ({"sent": 1}, 22)


def test_delivery_rate_limited_for_ever_is_parked(tmp_path: Path) -> None:
    world = World()
    with open_site(tmp_path, world.clock) as site:
        site.put("ops")
        site.publish(job("create"))
        site.observe()
        site.channels.failing = {"": repeat(RateLimited("too many"))}
        site.deliver()
        (waiting,) = site.waiting("ops")
        world.now_ms = waiting.put_ms + int(MAX_WAIT_S * 1000)
        site.deliver()
        assert site.counts("ops") == {"waiting": 1}
        world.now_ms += 3_600_000
        site.deliver()
        (parked,) = site.outbox.parked(site.server, "ops", "", 10)
        assert (parked.tries, parked.error, len(site.channels.attempted)) == (0, "too many", 3)
        site.outbox.retry(site.server, "ops", [parked.delivery.id])
        site.deliver()
        assert site.counts("ops") == {"waiting": 1}


def test_delivery_waits_as_long_as_channel_requests(site: Site) -> None:
    site.put("ops")
    site.publish(job("create", 1), job("create", 2))
    site.observe()
    site.channels.failing = {"": iter([NotDelivered("slow down", 1_000_000.0), BUSY])}
    site.deliver()
    first, second = site.waiting("ops")
    assert 900_000_000 < first.due_ms - second.due_ms < 1_100_000_000


def test_failing_address_does_not_hold_up_other_recipients(site: Site) -> None:
    site.put("ops", "mail", config={"to": "fine@example.org, full@example.org"})
    site.publish(job("create", 1))
    site.publish(job("create", 1))
    site.observe()
    bad = [waiting.delivery.id for waiting in site.waiting("ops") if waiting.delivery.address == "full@example.org"]
    site.channels.failing = {delivery_id: repeat(BUSY) for delivery_id in bad}
    site.deliver()
    assert [waiting.delivery.id for waiting in site.waiting("ops")] == bad
    assert len(bad) == len(site.channels.sent) == 2


def test_deliveries_with_same_key_keep_order_after_failure(site: Site) -> None:
    site.put("ops", "slack")
    for _ in range(3):
        site.publish(job("create", 1), job("create", 2), job("create", 3))
    site.observe()
    first, *_ = site.waiting("ops")
    site.channels.failing = {first.delivery.id: iter([BUSY, BUSY])}
    site.deliver()
    assert {waiting.delivery.key for waiting in site.waiting("ops")} == {"/job/1"}
    assert len(site.channels.sent) == 6
    for _ in range(2):
        site.make_due("ops")
        site.deliver()
    order = [tuple(map(int, delivery_id.partition("/")[0].split("."))) for delivery_id in site.channels.delivery_ids]
    of_first = [place for place in order if place[2] == 1]
    assert (len(order), of_first, site.counts("ops")) == (9, sorted(of_first), {"sent": 9})


def test_parked_delivery_does_not_block_successors(site: Site) -> None:
    site.put("ops")
    first, *_ = site.publish(job("create", 1), job("progress", 1), job("finish", 1))
    site.observe()
    site.channels.failing = {f"{first.id}/": iter([Undeliverable("no")])}
    site.deliver()
    assert site.counts("ops") == {"parked": 1, "dropped": 1, "sent": 1}


def test_failing_observer_does_not_block_others(site: Site) -> None:
    for name in ("bad", "good"):
        site.put(name)
    for _ in range(5):
        site.publish(job("create"))
    site.observe()
    bad = [waiting.delivery.id for waiting in site.waiting("bad")]
    site.channels.failing = {delivery_id: repeat(BUSY) for delivery_id in bad}
    site.deliver()
    assert (site.counts("bad"), site.counts("good")) == ({"waiting": 5}, {"sent": 5})
    assert [delivery_id for delivery_id in site.channels.attempted if delivery_id in bad] == bad[:1]


def test_retry_gives_named_deliveries_a_new_day_of_tries(site: Site) -> None:
    site.put("ops")
    events = site.publish(*(job("create", number) for number in (1, 2, 3)))
    site.observe()
    site.channels.failing = {"": chain([Undeliverable("no")] * 3, repeat(BUSY))}
    site.deliver()
    assert site.counts("ops") == {"parked": 3}
    ids = [f"{event.id}/ops" for event in events]
    assert site.outbox.retry(site.server, "ops", [ids[1], "unknown"]) == 1
    assert site.outbox.retry(site.server, "ops", [ids[1]]) == 0
    assert site.outbox.retry(site.server, "other", [ids[0]]) == 0
    for _ in range(6):
        site.make_due("ops")
        site.deliver()
    assert [(waiting.delivery.id, waiting.tries.count) for waiting in site.waiting("ops")] == [(ids[1], 6)]
    parked = {entry.delivery.id: (entry.tries, entry.error) for entry in site.outbox.parked(site.server, "ops", "", 10)}
    assert parked == {ids[0]: (1, "no"), ids[2]: (1, "no")}


def test_waiting_delivery_of_deleted_observer_is_dropped(site: Site) -> None:
    site.put("ops")
    site.publish(job("create", 1), job("create", 2))
    site.observe()
    site.components.notifications.observers.delete(site.server, "ops")
    site.deliver()
    assert (site.counts("ops"), site.channels.attempted) == ({"dropped": 2}, [])


def test_recreated_observer_gets_no_deliveries_of_predecessor(site: Site) -> None:
    site.put("ops")
    (old,) = site.publish(job("create", 1))
    site.observe()
    site.channels.failing = {"": iter([BUSY])}
    site.deliver()
    site.components.notifications.observers.delete(site.server, "ops")
    site.put("ops", config={"to": "somebody.else@example.org"})
    (new,) = site.publish(job("create", 2))
    site.observe()
    site.make_due("ops")
    site.deliver()
    assert site.channels.delivery_ids == [f"{new.id}/ops"], f"{old.id} came before"


def test_delivery_that_kills_worker_five_times_is_parked(site: Site) -> None:
    site.put("ops")
    site.publish(job("create"))
    site.observe()
    (waiting,) = site.waiting("ops")
    tries = Tries()
    for _ in range(MAX_UNFINISHED_TRIES):
        tries = tries.start(1_700_000_000_000)
    site.outbox.record_tries(waiting.n, tries)
    site.deliver()
    (parked,) = site.outbox.parked(site.server, "ops", "", 10)
    assert (parked.error, site.channels.attempted) == (TRIES_EXHAUSTED, [])


def test_app_message_attempted_twice_is_stored_once(site: Site) -> None:
    site.put("ops", "app")
    site.publish(job("create"))
    site.observe()
    (waiting,) = site.waiting("ops")
    assert [site.attempt(waiting), site.attempt(waiting)] == [Sent(), Sent()]
    assert [message["subject"] for message in site.inbox("anna")] == ["Created backup on n1 (#1)"]


def test_app_message_changed_between_tries_is_stored_once(site: Site) -> None:
    """The worker ended after the write, and was restarted with another PUBLIC_URL."""
    site.put("ops", "app")
    site.publish(job("create"))
    site.observe()
    (waiting,) = site.waiting("ops")
    assert site.attempt(waiting) == Sent()
    other_words = MessageBuilder(
        TemplateRenderer(),
        site.components.log.reader,
        site.components.log.organizations.name,
        MessageDefaults(public_url="https://moved.example"),
    )
    components, channels = site.components, site.channels
    restarted = Deliverer(
        components.notifications.observers,
        components.stores.log,
        other_words,
        channels,
        channels,
        components.notifications.inbox,
    )
    assert restarted.attempt(waiting.delivery, 2, 0.0) == Sent()
    assert len(site.inbox("anna")) == 1


def test_delivery_of_deleted_event_is_dropped(site: Site) -> None:
    site.put("ops")
    site.publish(job("create", 1))
    site.publish(job("create", 2))
    site.observe()
    waiting, _ = site.waiting("ops")
    site.components.stores.delete_commits(site.server, waiting.delivery.event.session)
    assert site.attempt(waiting) == Dropped("the event is no longer stored")


class _UnavailableOnce(Deliverer):
    """Raises `Unavailable` at the first request for a channel."""

    failures = 1

    def channel_of(self, server: int, name: str) -> str:
        if self.failures:
            self.failures -= 1
            raise Unavailable("no answer")
        return super().channel_of(server, name)


def test_poll_after_store_failure_starts_observer_again(site: Site) -> None:
    site.put("ops")
    site.publish(job("create"))
    site.observe()
    deliverer = _UnavailableOnce(
        site.components.notifications.observers,
        site.components.stores.log,
        site.messages,
        site.channels,
        site.channels,
        site.components.notifications.inbox,
    )
    worker = DeliveryWorker(site.outbox, deliverer)
    with pytest.raises(Unavailable):
        worker.poll()
    worker.poll()
    try:
        assert eventually(lambda: site.counts("ops"), lambda them: them == {"sent": 1}, 10)
    finally:
        worker.stop()


def test_delete_done_keeps_waiting_and_parked_deliveries(site: Site) -> None:
    site.put("ops")
    site.publish(*(job("create", number) for number in range(3)))
    site.observe()
    first, second, third = site.waiting("ops")
    site.channels.failing = {second.delivery.id: iter([Undeliverable("no")]), third.delivery.id: repeat(BUSY)}
    site.deliver()
    assert site.outbox.delete_done(2**52) == 1
    assert site.counts("ops") == {"waiting": 1, "parked": 1}
    assert first.delivery.id in site.channels.delivery_ids


def test_delete_done_keeps_deliveries_of_last_seven_days(site: Site) -> None:
    """They are needed to ignore a delivery that is put again."""
    site.put("ops")
    site.publish(job("create", 1))
    site.observe()
    site.deliver()
    now_ms, day_ms = site.components.clock(), 24 * 3600 * 1000
    assert site.outbox.delete_done(now_ms + 6 * day_ms) == 0
    assert site.outbox.delete_done(now_ms + 8 * day_ms) == 1
