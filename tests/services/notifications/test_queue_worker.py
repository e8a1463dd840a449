"""Delivery of SQS batches: order, tries, remaining time, and failures of the store."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import pytest

from chalicelib.adapters.queue.delivery_states import DeliveryStates
from chalicelib.adapters.sqlite.database import Database
from chalicelib.adapters.sqlite.outbox import SqliteOutbox
from chalicelib.adapters.sqlite.views import SqliteViews
from chalicelib.domain.errors import BadInput, Unavailable
from chalicelib.domain.notifications.delivery import (
    MAX_UNFINISHED_TRIES,
    MAX_WAIT_S,
    Delivery,
    DeliveryFailed,
    DeliveryOutcome,
    Dropped,
    Parked,
    Postponed,
    Sent,
    Tries,
)
from chalicelib.domain.notifications.delivery_message import DeliveryMessage, DeliveryState, ReceivedMessage
from chalicelib.services.notifications.attempt import TRIES_EXHAUSTED
from chalicelib.services.notifications.queue_worker import (
    ERROR_RETRY_S,
    MANY_RECEIVES,
    MANY_RECEIVES_DELAY_S,
    MIN_REMAINING_MS,
    as_delivery_queue,
    deliver_batch,
)
from tests.adapters.channels.queues import FakeDeliverer, a_delivery

NOW_MS = 1_700_000_000_000
BARRIER_TIMEOUT_S = 30.0
MAX_RECEIVES = 1_000
QUEUE_RETENTION_S = 14 * 24 * 3600.0
BUSY = DeliveryFailed("the channel is busy", 8.0)
RATE_LIMITED = Postponed("too many messages", 20.0)
REFUSED = DeliveryFailed("the channel refuses it", None)


class FakeQueue(DeliveryStates):
    """Stores states as SqsOutbox does, records postponed messages, and fails on request."""

    def __init__(self, views: SqliteViews) -> None:
        super().__init__(views, lambda: NOW_MS)
        self.postponed: list[tuple[list[str], float]] = []
        self.fails: set[str] = set()

    def state(self, queued: DeliveryMessage) -> DeliveryState:
        self.fail_if("state")
        return super().state(queued)

    def record_attempt(
        self, queued: DeliveryMessage, tries: Tries, seen: DeliveryState, error: str = ""
    ) -> DeliveryState:
        self.fail_if("record_attempt")
        return super().record_attempt(queued, tries, seen, error)

    def record_done(
        self, queued: DeliveryMessage, state: Literal["sent", "dropped"], seen: DeliveryState, reason: str = ""
    ) -> None:
        self.fail_if("record_done")
        super().record_done(queued, state, seen, reason)

    def park(self, queued: DeliveryMessage, tries: Tries, error: str, seen: DeliveryState) -> None:
        self.fail_if("park")
        super().park(queued, tries, error, seen)

    def postpone(self, receipts: Sequence[str], pause_s: float) -> None:
        self.fail_if("postpone")
        self.postponed.append((list(receipts), pause_s))

    def fail_if(self, operation: str) -> None:
        if operation in self.fails:
            raise Unavailable(f"no answer to {operation}")


@dataclass
class Function:
    """The Lambda function, with plenty of time left by default."""

    queue: FakeQueue
    deliverer: Any = field(default_factory=FakeDeliverer)
    remaining_ms: Callable[[], int] = lambda: 60_000
    now_ms: int = NOW_MS
    reported: list[tuple[str, int, int, str]] = field(default_factory=list)
    """Delivery, retry, tries and error of each report of a failure."""

    def __call__(self, *received: ReceivedMessage) -> list[str]:
        return deliver_batch(
            received,
            self.deliverer,
            self.queue,
            lambda: self.now_ms,
            self.remaining_ms,
            report_failure=self.report_failure,
        )

    def report_failure(self, delivery: Delivery, retry: int, tries: Tries, error: str) -> None:
        self.queue.fail_if("report")
        self.reported.append((delivery.id, retry, tries.count, error))

    @property
    def sent(self) -> list[str]:
        return [delivery.id for delivery in self.deliverer.sent]

    @property
    def parked(self) -> list[Parked]:
        return self.queue.parked(1, "ops", "", 100)


@pytest.fixture
def function(sqlite_views: SqliteViews) -> Function:
    return Function(FakeQueue(sqlite_views))


def a_message(n: int, delivery: Delivery | None = None, receives: int = 1, retry: int = 0) -> ReceivedMessage:
    """The n-th message of its queue, by default with the delivery of session n."""
    delivery = delivery or a_delivery(n)
    return ReceivedMessage(
        f"m{n}", f"r{n}", f"{delivery.observer}{delivery.key}", n, receives, NOW_MS, DeliveryMessage(delivery, retry)
    )


def test_batch_is_delivered_in_order_within_each_group(function: Function) -> None:
    jobs = {n: a_delivery(n, f"/job/{n % 2}") for n in range(1, 9)}
    shuffled = [a_message(n, jobs[n]) for n in (3, 1, 4, 2, 8, 5, 7, 6)]
    assert function(*shuffled) == []
    for key in ("/job/0", "/job/1"):
        sent = [delivery for delivery in function.deliverer.sent if delivery.key == key]
        assert sent == [delivery for delivery in jobs.values() if delivery.key == key]
    assert len(function.deliverer.sent) == 8


def test_empty_batch_delivers_nothing(function: Function) -> None:
    assert (function(), function.sent) == ([], [])


def test_failed_message_is_postponed_with_its_successors(function: Function) -> None:
    other = a_delivery(3, key="/job/2")
    function.deliverer.set_outcomes(a_delivery(2), BUSY)
    assert function(a_message(1), a_message(2), a_message(3, other), a_message(4), a_message(5)) == ["m2", "m4", "m5"]
    assert sorted(function.sent) == ["1.1.1/ops", "1.3.1/ops"]
    assert function.queue.postponed == [(["r2", "r4", "r5"], 8.0)]


@pytest.mark.parametrize("outcome", [Sent(), Dropped("silent")], ids=["sent", "dropped"])
def test_finished_message_received_again_is_ignored(outcome: DeliveryOutcome, function: Function) -> None:
    function.deliverer.set_outcomes(a_delivery(1), outcome)
    assert function(a_message(1)) == []
    assert function(a_message(1, receives=2), a_message(9, a_delivery(1))) == []
    assert function.deliverer.tries == [("1.1.1/ops", 1)]


def test_repeat_in_same_batch_is_ignored(function: Function) -> None:
    assert function(a_message(1), a_message(2, a_delivery(1))) == []
    assert function.sent == ["1.1.1/ops"]


def test_message_is_tried_until_it_is_refused(function: Function) -> None:
    function.deliverer.set_outcomes(a_delivery(1), *[BUSY] * 9, REFUSED)
    failed = [function(a_message(1, receives=n)) for n in range(1, 11)]
    assert failed == [["m1"]] * 9 + [[]]
    assert function.deliverer.tries == [("1.1.1/ops", n) for n in range(1, 11)]
    assert function.parked == [Parked(a_delivery(1), 10, "the channel refuses it", NOW_MS)]


def test_time_of_first_try_is_kept(function: Function) -> None:
    function.deliverer.set_outcomes(a_delivery(1), RATE_LIMITED, BUSY, RATE_LIMITED, BUSY)
    tries = []
    for n in range(1, 5):
        function(a_message(1, receives=n))
        tries.append(function.queue.state(DeliveryMessage(a_delivery(1))).tries)
    assert tries == [Tries(), Tries(1, NOW_MS), Tries(1, NOW_MS), Tries(2, NOW_MS)]
    assert function.queue.postponed == [(["r1"], 20.0), (["r1"], 8.0), (["r1"], 20.0), (["r1"], 8.0)]


def test_message_received_many_times_waits_longer(function: Function) -> None:
    """SQS gives a message up after 1,000 receives, but it may be rate limited for days."""
    function.deliverer.set_outcomes(a_delivery(1), RATE_LIMITED, RATE_LIMITED)
    function(a_message(1, receives=MANY_RECEIVES))
    function(a_message(1, receives=MANY_RECEIVES + 1))
    assert function.queue.postponed == [(["r1"], 20.0), (["r1"], MANY_RECEIVES_DELAY_S)]
    assert MANY_RECEIVES + 14 * 24 * 3600 / MANY_RECEIVES_DELAY_S < 1_000


@pytest.mark.parametrize("outcome", [BUSY, RATE_LIMITED], ids=["busy", "rate limited"])
def test_message_is_parked_before_queue_deletes_it(outcome: DeliveryOutcome, function: Function) -> None:
    function.deliverer.set_outcomes(a_delivery(1), outcome, outcome)
    kept = replace(a_message(1), sent_ms=NOW_MS - int(MAX_WAIT_S * 1000))
    assert function(kept) == ["m1"]
    assert function(replace(kept, sent_ms=kept.sent_ms - 1, receives=2)) == []
    assert [parked.delivery for parked in function.parked] == [a_delivery(1)]


def test_message_behind_failing_one_loses_no_tries(function: Function) -> None:
    function.deliverer.set_outcomes(a_delivery(1), *[BUSY] * 20)
    for n in range(1, 5):
        assert function(a_message(1, receives=n), a_message(2, receives=n)) == ["m1", "m2"]
    function.deliverer.set_outcomes(a_delivery(1), REFUSED)
    function.deliverer.set_outcomes(a_delivery(2), BUSY)
    assert function(a_message(1, receives=5), a_message(2, receives=5)) == ["m2"]
    assert function.deliverer.tries[-2:] == [("1.1.1/ops", 5), ("1.2.1/ops", 1)]


class CrashingDeliverer:
    """Ends the function at each attempt."""

    def __init__(self) -> None:
        self.tries: list[int] = []

    def attempt(self, delivery: Delivery, tries: int, elapsed_s: float) -> DeliveryOutcome:
        del delivery, elapsed_s
        self.tries.append(tries)
        raise SystemExit


def test_message_that_kills_function_is_finally_parked(function: Function) -> None:
    crashing = replace(function, deliverer=CrashingDeliverer())
    for receives in range(1, MAX_UNFINISHED_TRIES + 2):
        with pytest.raises(SystemExit):
            crashing(a_message(1, receives=receives), a_message(2, receives=receives))
    assert crashing.deliverer.tries == [1, 1, 2, 3, 4, 5]
    assert function(a_message(1, receives=7), a_message(2, receives=7)) == []
    assert function.parked == [Parked(a_delivery(1), MAX_UNFINISHED_TRIES, TRIES_EXHAUSTED, NOW_MS)]
    assert function.deliverer.tries == [("1.2.1/ops", 1)]


def test_parked_delivery_is_sent_only_by_retry_message(function: Function) -> None:
    function.deliverer.set_outcomes(a_delivery(1), REFUSED)
    function(a_message(1))
    (again,) = function.queue.parked_messages(1, "ops", ["1.1.1/ops"]).values()
    assert again == DeliveryMessage(a_delivery(1), 1)
    assert function(a_message(1, receives=2)) == []
    assert function.sent == []
    assert function(a_message(7, again.delivery, retry=1)) == []
    assert (function.sent, function.parked) == (["1.1.1/ops"], [])


def test_no_attempt_starts_with_little_time_left(function: Function) -> None:
    left = iter([60_000, MIN_REMAINING_MS, MIN_REMAINING_MS - 1])
    hurried = replace(function, remaining_ms=lambda: next(left))
    assert hurried(*map(a_message, range(1, 6))) == ["m3", "m4", "m5"]
    assert function.sent == ["1.1.1/ops", "1.2.1/ops"]
    assert function.queue.postponed == [(["r3", "r4", "r5"], 0.0)]


def test_unreadable_message_is_postponed_with_successors(function: Function, caplog: pytest.LogCaptureFixture) -> None:
    unreadable = replace(a_message(2), message=BadInput("not a delivery: <x/>"))
    assert function(a_message(1), unreadable, a_message(3)) == ["m2", "m3"]
    assert function.queue.postponed == [(["r2", "r3"], ERROR_RETRY_S)]
    assert caplog.messages == ["message m2 not delivered: BadInput"]


def test_unavailable_state_prevents_attempts(function: Function) -> None:
    function.queue.fails = {"state"}
    assert function(a_message(1), a_message(2)) == ["m1", "m2"]
    assert (function.sent, function.queue.postponed) == ([], [(["r1", "r2"], ERROR_RETRY_S)])


def test_unavailable_state_delays_grow(function: Function) -> None:
    function.queue.fails = {"state"}
    for receives in (1, 2, 3, MANY_RECEIVES, MANY_RECEIVES + 1):
        function(a_message(1, receives=receives))
    delays = [delay_s for _, delay_s in function.queue.postponed]
    assert delays == [10.0, 20.0, 40.0, 300.0, MANY_RECEIVES_DELAY_S]


def receive_until_gone(function: Function) -> tuple[int, float]:
    """Receive a message as often as its delays allow. Returns the number of receives and the message's age."""
    receives = 0
    while receives < MAX_RECEIVES:
        receives += 1
        if not function(a_message(1, receives=receives)):
            break
        function.now_ms += int(function.queue.postponed[-1][1] * 1000)
    return receives, (function.now_ms - NOW_MS) / 1000


def test_delivery_that_cannot_be_attempted_is_parked(function: Function) -> None:
    """Neither the limit of receives nor the retention of the queue ends it before."""
    function.queue.fails = {"record_attempt"}
    function.deliverer.set_outcomes(a_delivery(1), BUSY)
    receives, age_s = receive_until_gone(function)
    assert receives < MAX_RECEIVES
    assert MAX_WAIT_S < age_s < QUEUE_RETENTION_S
    assert [(parked.delivery, parked.error) for parked in function.parked] == [
        (a_delivery(1), "it could not be attempted: Unavailable: no answer to record_attempt")
    ]


def test_delivery_that_cannot_be_parked_is_a_dead_letter(function: Function) -> None:
    function.queue.fails = {"state", "park"}
    receives, age_s = receive_until_gone(function)
    assert (receives, MAX_WAIT_S < age_s < QUEUE_RETENTION_S) == (MAX_RECEIVES, True)


def test_sent_message_is_done_even_if_recording_fails(function: Function, caplog: pytest.LogCaptureFixture) -> None:
    function.queue.fails = {"record_done"}
    assert function(a_message(1), a_message(2)) == []
    assert function.sent == ["1.1.1/ops", "1.2.1/ops"]
    assert "delivery 1.1.1/ops is sent, but recording that failed" in caplog.text


def test_message_whose_parking_fails_is_received_again(function: Function) -> None:
    function.deliverer.set_outcomes(a_delivery(1), REFUSED, REFUSED)
    function.queue.fails = {"park"}
    assert function(a_message(1), a_message(2)) == ["m1", "m2"]
    function.queue.fails = set()
    assert function(a_message(1, receives=2), a_message(2, receives=2)) == []
    assert [parked.delivery for parked in function.parked] == [a_delivery(1)]


def test_parked_message_is_reported_with_its_retry(function: Function) -> None:
    function.deliverer.set_outcomes(a_delivery(1), REFUSED, BUSY, REFUSED)
    function(a_message(1))
    for receives in (1, 2):
        function(a_message(2, a_delivery(1), receives, retry=1))
    error = "the channel refuses it"
    assert function.reported == [("1.1.1/ops", 0, 1, error), ("1.1.1/ops", 1, 2, error)]


def test_failure_is_reported_before_message_is_parked(function: Function) -> None:
    """If the parking fails, both are repeated: the report must not be lost."""
    function.deliverer.set_outcomes(a_delivery(1), *[REFUSED] * 3)
    function.queue.fails = {"report"}
    assert (function(a_message(1)), function.parked, function.reported) == (["m1"], [], [])
    function.queue.fails = {"park"}
    assert (function(a_message(1, receives=2)), function.parked, len(function.reported)) == (["m1"], [], 1)
    function.queue.fails = set()
    assert (function(a_message(1, receives=3)), len(function.parked), len(function.reported)) == ([], 1, 2)
    assert {report[:2] for report in function.reported} == {("1.1.1/ops", 0)}


def test_message_whose_postponing_fails_is_returned_as_failed(
    function: Function, caplog: pytest.LogCaptureFixture
) -> None:
    function.deliverer.set_outcomes(a_delivery(1), BUSY)
    function.queue.fails = {"postpone"}
    assert function(a_message(1), a_message(2)) == ["m1", "m2"]
    assert "message m1 and its successors are retried late: Unavailable: no answer to postpone" in caplog.text


class SynchronizedDeliverer(FakeDeliverer):
    """Waits in each attempt until `threads` attempts are under way."""

    def __init__(self, threads: int) -> None:
        super().__init__()
        self._barrier = threading.Barrier(threads, timeout=BARRIER_TIMEOUT_S)

    def attempt(self, delivery: Delivery, tries: int, elapsed_s: float) -> DeliveryOutcome:
        self._barrier.wait()
        return super().attempt(delivery, tries, elapsed_s)


def test_hanging_channel_does_not_block_other_groups(function: Function) -> None:
    together = replace(function, deliverer=SynchronizedDeliverer(10))
    assert together(*(a_message(n, a_delivery(n, f"/job/{n}")) for n in range(1, 11))) == []
    assert len(together.sent) == 10


def test_as_delivery_queue_rejects_sqlite_outbox(database: Database) -> None:
    with pytest.raises(TypeError, match="SqliteOutbox is not an outbox on a queue"):
        as_delivery_queue(SqliteOutbox(database))
