"""Tries and what comes of them: order, pauses, parking, retrying; without waiting for any of it."""

from itertools import chain, repeat

import pytest

from chalicelib.adapters.templates.renderer import Templates
from chalicelib.domain.errors import NotDelivered, Unavailable, Undeliverable
from chalicelib.domain.notifications.delivery import TRIES, Dropped, Failed, Sent, pause_s
from chalicelib.services.notifications.deliverer import Delivering
from chalicelib.services.notifications.message_builder import Defaults, Messages
from infra.server.processes.delivery_worker import Courier
from tests.notifications.narration import job
from tests.notifications.outside import eventually
from tests.notifications.sites import Site

BUSY = NotDelivered("the server is busy")


def test_pauses_grow_and_five_tries_are_all() -> None:
    assert [pause_s(tries, None) for tries in range(1, 7)] == [2.0, 8.0, 32.0, 128.0, None, None]


def test_a_channel_that_asks_for_more_time_gets_it_but_no_more_tries() -> None:
    assert [pause_s(tries, 60.0) for tries in range(1, 6)] == [60.0, 60.0, 60.0, 128.0, None]


OUTCOMES = {
    "taken": (None, Sent()),
    "refused for now": (BUSY, Failed("the server is busy", 2.0)),
    "asked to wait": (NotDelivered("later", 600.0), Failed("later", 600.0)),
    "refused for good": (Undeliverable("no such user"), Failed("no such user", None)),
}


@pytest.mark.parametrize("name", OUTCOMES)
def test_what_a_channel_says_is_the_outcome(here: Site, name: str) -> None:
    failure, expected = OUTCOMES[name]
    here.put("ops")
    here.publish(job("create"))
    here.observe()
    here.channels.failing = {"": iter(()) if failure is None else iter([failure])}
    (waiting,) = here.waiting("ops")
    assert here.attempt(waiting) == expected


def test_five_failures_park_a_delivery_with_the_last_error(here: Site) -> None:
    here.put("ops")
    (event,) = here.publish(job("create"))
    here.observe()
    here.channels.failing = {"": (NotDelivered(f"failure {number}") for number in range(1, 100))}
    for tries in range(1, TRIES):
        here.deliver()
        (waiting,) = here.waiting("ops")
        assert (waiting.tries, waiting.due_ms > 0) == (tries, True)
        here.deliver()  # it is not due yet
        assert len(here.channels.tried) == tries
        here.make_due("ops")
    here.deliver()
    (parked,) = here.outbox.parked(here.server, "ops", "", 10)
    assert (parked.delivery.id, parked.tries, parked.error) == (f"{event.id}/ops", 5, "failure 5")
    assert here.counts("ops") == {"parked": 1}


def test_a_pause_is_as_long_as_the_channel_asks(here: Site) -> None:
    here.put("ops")
    here.publish(job("create", 1), job("create", 2))
    here.observe()
    here.channels.failing = {"": iter([NotDelivered("slow down", 1_000_000.0), BUSY])}
    here.deliver()
    one, other = here.waiting("ops")
    assert 900_000_000 < one.due_ms - other.due_ms < 1_100_000_000


def test_what_has_the_same_key_is_told_in_order_though_one_fails(here: Site) -> None:
    here.put("ops", "slack")
    for _ in range(3):
        here.publish(job("create", 1), job("create", 2), job("create", 3))
    here.observe()
    first, *_ = here.waiting("ops")
    here.channels.failing = {first.delivery.id: iter([BUSY, BUSY])}
    here.deliver()
    assert {one.delivery.key for one in here.waiting("ops")} == {"/job/1"}
    assert len(here.channels.sent) == 6
    for _ in range(2):
        here.make_due("ops")
        here.deliver()
    order = [tuple(map(int, one.partition("/")[0].split("."))) for one in here.channels.ids]
    of_first = [place for place in order if place[2] == 1]
    assert (len(order), of_first, here.counts("ops")) == (9, sorted(of_first), {"sent": 9})


def test_what_is_parked_lets_those_behind_it_go_on(here: Site) -> None:
    here.put("ops")
    first, *_ = here.publish(job("create", 1), job("progress", 1), job("finish", 1))
    here.observe()
    here.channels.failing = {f"{first.id}/": iter([Undeliverable("no")])}
    here.deliver()
    assert here.counts("ops") == {"parked": 1, "dropped": 1, "sent": 1}


def test_an_observer_that_fails_holds_up_no_other(here: Site) -> None:
    for name in ("bad", "good"):
        here.put(name)
    for _ in range(5):
        here.publish(job("create"))
    here.observe()
    bad = [one.delivery.id for one in here.waiting("bad")]
    here.channels.failing = {one: repeat(BUSY) for one in bad}
    here.deliver()
    assert (here.counts("bad"), here.counts("good")) == ({"waiting": 5}, {"sent": 5})
    assert [one for one in here.channels.tried if one in bad] == bad[:1]


def test_retried_ones_have_five_tries_again_and_only_those_named(here: Site) -> None:
    here.put("ops")
    events = here.publish(*(job("create", number) for number in (1, 2, 3)))
    here.observe()
    here.channels.failing = {"": chain([Undeliverable("no")] * 3, repeat(BUSY))}
    here.deliver()
    assert here.counts("ops") == {"parked": 3}
    ids = [f"{event.id}/ops" for event in events]
    assert here.outbox.retry(here.server, "ops", [ids[1], "no such one"]) == 1
    assert here.outbox.retry(here.server, "ops", [ids[1]]) == 0
    assert here.outbox.retry(here.server, "other", [ids[0]]) == 0
    for _ in range(TRIES):
        here.make_due("ops")
        here.deliver()
    parked = {one.delivery.id: (one.tries, one.error) for one in here.outbox.parked(here.server, "ops", "", 10)}
    assert parked == {ids[0]: (1, "no"), ids[1]: (5, "the server is busy"), ids[2]: (1, "no")}


def test_what_waits_for_an_observer_that_is_gone_is_dropped(here: Site) -> None:
    here.put("ops")
    here.publish(job("create", 1), job("create", 2))
    here.observe()
    here.parts.observers.delete(here.server, "ops")
    here.deliver()
    assert (here.counts("ops"), here.channels.tried) == ({"dropped": 2}, [])


def test_who_takes_the_name_of_one_that_is_gone_is_not_told_what_that_one_missed(here: Site) -> None:
    here.put("ops")
    (old,) = here.publish(job("create", 1))
    here.observe()
    here.channels.failing = {"": iter([BUSY])}
    here.deliver()
    here.parts.observers.delete(here.server, "ops")
    here.put("ops", config={"to": "somebody.else@example.org"})
    (new,) = here.publish(job("create", 2))
    here.observe()
    here.make_due("ops")
    here.deliver()
    assert here.channels.ids == [f"{new.id}/ops"], f"{old.id} came before"


def test_a_process_that_dies_at_each_try_is_the_deliverys_end(here: Site) -> None:
    here.put("ops")
    here.publish(job("create"))
    here.observe()
    (waiting,) = here.waiting("ops")
    for _ in range(TRIES):
        here.outbox.try_now(waiting.n)
    here.deliver()
    (parked,) = here.outbox.parked(here.server, "ops", "", 10)
    assert (parked.error, here.channels.tried) == ("the process ended at each of its tries", [])


def test_a_message_of_the_app_is_there_once_however_often_it_is_tried(here: Site) -> None:
    here.put("ops", "app")
    here.publish(job("create"))
    here.observe()
    (waiting,) = here.waiting("ops")
    assert [here.attempt(waiting), here.attempt(waiting)] == [Sent(), Sent()]
    assert [one["subject"] for one in here.inbox("anna")] == ["Job created"]


def test_a_message_of_the_app_is_there_once_though_its_words_change_between_tries(here: Site) -> None:
    """The process died after it had written; the next one was started with another address for its links."""
    here.put("ops", "app")
    here.publish(job("create"))
    here.observe()
    (waiting,) = here.waiting("ops")
    assert here.attempt(waiting) == Sent()
    other_words = Messages(Templates(), here.parts.present, Defaults(public_url="https://moved.example"))
    parts, channels = here.parts, here.channels
    restarted = Delivering(parts.observers, parts.log, other_words, channels, channels, parts.inbox)
    assert restarted.attempt(waiting.delivery, 2) == Sent()
    assert len(here.inbox("anna")) == 1


def test_an_event_that_is_no_longer_kept_is_dropped(here: Site) -> None:
    here.put("ops")
    here.publish(job("create", 1))
    here.publish(job("create", 2))
    here.observe()
    waiting, _ = here.waiting("ops")
    here.parts.forget(here.server, waiting.delivery.event.session)
    assert here.attempt(waiting) == Dropped("the event is no longer kept")


class _Unsure(Delivering):
    """Cannot tell an observer's channel the first time it is asked."""

    times = 1

    def channel_of(self, server: int, name: str) -> str:
        if self.times:
            self.times -= 1
            raise Unavailable("no answer")
        return super().channel_of(server, name)


def test_a_lane_whose_store_gave_no_answer_is_looked_at_again(here: Site) -> None:
    here.put("ops")
    here.publish(job("create"))
    here.observe()
    delivering = _Unsure(
        here.parts.observers, here.parts.log, here.messages, here.channels, here.channels, here.parts.inbox
    )
    courier = Courier(here.outbox, delivering)
    with pytest.raises(Unavailable):
        courier.look()
    courier.look()
    try:
        assert eventually(lambda: here.counts("ops"), lambda them: them == {"sent": 1}, 10)
    finally:
        courier.stop()


def test_what_was_done_long_ago_is_forgotten_and_what_waits_is_not(here: Site) -> None:
    here.put("ops")
    here.publish(*(job("create", number) for number in range(3)))
    here.observe()
    first, second, third = here.waiting("ops")
    here.channels.failing = {second.delivery.id: iter([Undeliverable("no")]), third.delivery.id: repeat(BUSY)}
    here.deliver()
    assert here.outbox.forget(2**52) == 1
    assert here.counts("ops") == {"waiting": 1, "parked": 1}
    assert first.delivery.id in here.channels.ids
