"""Batches of deliveries as a function gets them: order, tries, time, and a memory that fails."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import pytest

from chalicelib.adapters.queue.delivery_states import DeliveryRecords
from chalicelib.adapters.sqlite.database import Database
from chalicelib.adapters.sqlite.outbox import SqliteOutbox
from chalicelib.adapters.sqlite.views import SqliteViews
from chalicelib.domain.errors import BadInput, Unavailable
from chalicelib.domain.notifications.delivery import TRIES, Delivery, Dropped, Failed, Outcome, Parked, Sent
from chalicelib.domain.notifications.delivery_message import Queued, Received, Standing
from chalicelib.services.notifications.queue_worker import AGAIN_S, ENDED, LEAST_LEFT_MS, deliver_batch, queue_of
from tests.adapters.channels.queues import Teller, a_delivery

NOW_MS = 1_700_000_000_000
MEETING_S = 30.0
BUSY = Failed("the channel is busy", 8.0)
REFUSED = Failed("the channel refuses it", None)


class Memory(DeliveryRecords):
    """Remembers as the product does, keeps what was postponed, and fails when it is told to."""

    def __init__(self, views: SqliteViews) -> None:
        super().__init__(views)
        self.postponed: list[tuple[list[str], float]] = []
        self.fails: set[str] = set()

    def standing(self, queued: Queued) -> Standing:
        self._may("standing")
        return super().standing(queued)

    def done(self, queued: Queued, state: Literal["sent", "dropped"], seen: Standing) -> None:
        self._may("done")
        super().done(queued, state, seen)

    def park(self, queued: Queued, parked: Parked, seen: Standing) -> None:
        self._may("park")
        super().park(queued, parked, seen)

    def postpone(self, receipts: Sequence[str], pause_s: float) -> None:
        self._may("postpone")
        self.postponed.append((list(receipts), pause_s))

    def _may(self, what: str) -> None:
        if what in self.fails:
            raise Unavailable(f"no answer to {what}")


@dataclass
class Function:
    """The function, with all the time in the world unless the test says otherwise."""

    memory: Memory
    teller: Any = field(default_factory=Teller)
    left_ms: Callable[[], int] = lambda: 60_000

    def __call__(self, *received: Received) -> list[str]:
        return deliver_batch(received, self.teller, self.memory, lambda: NOW_MS, self.left_ms)

    @property
    def told(self) -> list[str]:
        return [one.id for one in self.teller.told]

    @property
    def parked(self) -> list[Parked]:
        return self.memory.parked(1, "ops", "", 100)


@pytest.fixture
def function(sqlite_views: SqliteViews) -> Function:
    return Function(Memory(sqlite_views))


def a_message(n: int, delivery: Delivery | None = None, receives: int = 1, retry: int = 0) -> Received:
    """The n-th message of its queue: by default the delivery of session n, about the same job."""
    own = delivery or a_delivery(n)
    return Received(f"m{n}", f"r{n}", f"{own.observer}{own.key}", n, receives, Queued(own, retry))


def test_a_batch_is_told_in_order_within_each_group(function: Function) -> None:
    jobs = {n: a_delivery(n, f"/job/{n % 2}") for n in range(1, 9)}
    shuffled = [a_message(n, jobs[n]) for n in (3, 1, 4, 2, 8, 5, 7, 6)]
    assert function(*shuffled) == []
    for key in ("/job/0", "/job/1"):
        told = [one for one in function.teller.told if one.key == key]
        assert told == [one for one in jobs.values() if one.key == key]
    assert len(function.teller.told) == 8


def test_an_empty_batch_is_no_work(function: Function) -> None:
    assert (function(), function.told) == ([], [])


def test_what_fails_comes_again_after_its_pause_with_all_that_is_behind_it(function: Function) -> None:
    other = a_delivery(3, key="/job/2")
    function.teller.expect(a_delivery(2), BUSY)
    assert function(a_message(1), a_message(2), a_message(3, other), a_message(4), a_message(5)) == ["m2", "m4", "m5"]
    assert sorted(function.told) == ["1.1.1/ops", "1.3.1/ops"]
    assert function.memory.postponed == [(["r2", "r4", "r5"], 8.0)]


@pytest.mark.parametrize("outcome", [Sent(), Dropped("nothing to tell")], ids=["sent", "dropped"])
def test_what_is_done_is_dropped_when_it_comes_again(outcome: Outcome, function: Function) -> None:
    function.teller.expect(a_delivery(1), outcome)
    assert function(a_message(1)) == []
    assert function(a_message(1, receives=2), a_message(9, a_delivery(1))) == []
    assert function.teller.tries == [("1.1.1/ops", 1)]


def test_a_repeat_in_the_same_batch_is_dropped(function: Function) -> None:
    assert function(a_message(1), a_message(2, a_delivery(1))) == []
    assert function.told == ["1.1.1/ops"]


def test_five_tries_are_made_and_then_it_is_parked_and_its_message_done(function: Function) -> None:
    function.teller.expect(a_delivery(1), *[BUSY] * (TRIES - 1), REFUSED)
    failed = [function(a_message(1, receives=n)) for n in range(1, TRIES + 1)]
    assert failed == [["m1"]] * (TRIES - 1) + [[]]
    assert function.teller.tries == [("1.1.1/ops", n) for n in range(1, TRIES + 1)]
    assert function.parked == [Parked(a_delivery(1), TRIES, "the channel refuses it", NOW_MS)]


def test_to_be_brought_behind_one_that_fails_is_no_try(function: Function) -> None:
    function.teller.expect(a_delivery(1), *[BUSY] * 20)
    for n in range(1, 5):
        assert function(a_message(1, receives=n), a_message(2, receives=n)) == ["m1", "m2"]
    function.teller.expect(a_delivery(1), REFUSED)
    function.teller.expect(a_delivery(2), BUSY)
    assert function(a_message(1, receives=5), a_message(2, receives=5)) == ["m2"]
    assert function.teller.tries[-2:] == [("1.1.1/ops", 5), ("1.2.1/ops", 1)]


class Dying:
    """A function that ends at each try."""

    def __init__(self) -> None:
        self.tries: list[int] = []

    def attempt(self, delivery: Delivery, tries: int) -> Outcome:
        del delivery
        self.tries.append(tries)
        raise SystemExit


def test_what_ends_the_function_at_each_try_is_parked_in_the_end(function: Function) -> None:
    dying = replace(function, teller=Dying())
    for receives in range(1, TRIES + 2):
        with pytest.raises(SystemExit):
            dying(a_message(1, receives=receives), a_message(2, receives=receives))
    assert dying.teller.tries == [1, 1, 2, 3, 4, 5]
    assert function(a_message(1, receives=7), a_message(2, receives=7)) == []
    assert function.parked == [Parked(a_delivery(1), TRIES, ENDED, NOW_MS)]
    assert function.teller.tries == [("1.2.1/ops", 1)]


def test_a_parked_one_is_told_only_by_the_message_of_its_retry(function: Function) -> None:
    function.teller.expect(a_delivery(1), REFUSED)
    function(a_message(1))
    (again,) = function.memory.to_retry(1, "ops", ["1.1.1/ops"]).values()
    assert again == Queued(a_delivery(1), 1)
    assert function(a_message(1, receives=2)) == []
    assert function.told == []
    assert function(a_message(7, again.delivery, retry=1)) == []
    assert (function.told, function.parked) == (["1.1.1/ops"], [])


def test_with_little_time_left_no_delivery_is_begun_and_the_rest_come_again_at_once(function: Function) -> None:
    left = iter([60_000, LEAST_LEFT_MS, LEAST_LEFT_MS - 1])
    hurried = replace(function, left_ms=lambda: next(left))
    assert hurried(*map(a_message, range(1, 6))) == ["m3", "m4", "m5"]
    assert function.told == ["1.1.1/ops", "1.2.1/ops"]
    assert function.memory.postponed == [(["r3", "r4", "r5"], 0.0)]


def test_what_cannot_be_read_comes_again_with_those_behind_it(
    function: Function, caplog: pytest.LogCaptureFixture
) -> None:
    unreadable = replace(a_message(2), queued=BadInput("this is no delivery: <x/>"))
    assert function(a_message(1), unreadable, a_message(3)) == ["m2", "m3"]
    assert function.memory.postponed == [(["r2", "r3"], AGAIN_S)]
    assert caplog.messages == ["message m2 not delivered: BadInput"]


def test_nothing_is_told_while_it_is_not_known_what_was_told(function: Function) -> None:
    function.memory.fails = {"standing"}
    assert function(a_message(1), a_message(2)) == ["m1", "m2"]
    assert (function.told, function.memory.postponed) == ([], [(["r1", "r2"], AGAIN_S)])


def test_what_was_told_is_done_even_if_that_cannot_be_remembered(
    function: Function, caplog: pytest.LogCaptureFixture
) -> None:
    function.memory.fails = {"done"}
    assert function(a_message(1), a_message(2)) == []
    assert function.told == ["1.1.1/ops", "1.2.1/ops"]
    assert "delivery 1.1.1/ops is sent, but that is not remembered" in caplog.text


def test_what_cannot_be_parked_comes_again(function: Function) -> None:
    function.teller.expect(a_delivery(1), REFUSED, REFUSED)
    function.memory.fails = {"park"}
    assert function(a_message(1), a_message(2)) == ["m1", "m2"]
    function.memory.fails = set()
    assert function(a_message(1, receives=2), a_message(2, receives=2)) == []
    assert [one.delivery for one in function.parked] == [a_delivery(1)]


def test_what_cannot_be_postponed_comes_again_all_the_same(
    function: Function, caplog: pytest.LogCaptureFixture
) -> None:
    function.teller.expect(a_delivery(1), BUSY)
    function.memory.fails = {"postpone"}
    assert function(a_message(1), a_message(2)) == ["m1", "m2"]
    assert "message m1 and those behind it come late: Unavailable: no answer to postpone" in caplog.text


class Meeting(Teller):
    """Tells nothing before all have come."""

    def __init__(self, several: int) -> None:
        super().__init__()
        self._barrier = threading.Barrier(several, timeout=MEETING_S)

    def attempt(self, delivery: Delivery, tries: int) -> Outcome:
        self._barrier.wait()
        return super().attempt(delivery, tries)


def test_a_channel_that_hangs_holds_up_no_other_group(function: Function) -> None:
    together = replace(function, teller=Meeting(10))
    assert together(*(a_message(n, a_delivery(n, f"/job/{n}")) for n in range(1, 11))) == []
    assert len(together.told) == 10


def test_an_outbox_without_a_queue_is_for_the_courier(database: Database) -> None:
    with pytest.raises(TypeError, match="no queue brings the deliveries of SqliteOutbox"):
        queue_of(SqliteOutbox(database))
