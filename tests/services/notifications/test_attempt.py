"""The state machine of deliveries: limits, counting, and transitions."""

import pytest

from chalicelib.domain.notifications.delivery import (
    MAX_UNFINISHED_TRIES,
    MAX_WAIT_S,
    Delivery,
    DeliveryFailed,
    DeliveryOutcome,
    Dropped,
    Postponed,
    Sent,
    Tries,
)
from chalicelib.services.notifications.attempt import (
    TRIES_EXHAUSTED,
    Done,
    Obsolete,
    Park,
    Transition,
    TryAgain,
    advance,
)
from tests.adapters.channels.queues import FakeDeliverer, a_delivery

DELIVERY = a_delivery()
NOW_MS = 1_700_000_000_000
SINCE_MS = NOW_MS - 60_000


def advance_to(outcome: DeliveryOutcome, earlier: Tries, put_ms: int = NOW_MS) -> Transition:
    deliverer = FakeDeliverer()
    deliverer.set_outcomes(DELIVERY, outcome)
    return advance(DELIVERY, earlier, put_ms, deliverer, lambda _tries: True, NOW_MS)


@pytest.mark.parametrize(
    ("outcome", "transition"),
    [
        (Sent(), Done("sent")),
        (Dropped("silent"), Done("dropped", "silent")),
        (DeliveryFailed("busy", 8.0), TryAgain(Tries(3, SINCE_MS), "busy", 8.0)),
        (DeliveryFailed("busy", 0.0), TryAgain(Tries(3, SINCE_MS), "busy", 0.0)),
        (DeliveryFailed("no such user", None), Park(Tries(3, SINCE_MS), "no such user")),
        (Postponed("too many", 30.0), TryAgain(Tries(2, SINCE_MS), "too many", 30.0)),
    ],
)
def test_advance_maps_outcome_to_transition(outcome: DeliveryOutcome, transition: Transition) -> None:
    assert advance_to(outcome, Tries(2, SINCE_MS)) == transition


def test_advance_of_rate_limited_first_try_leaves_no_trace() -> None:
    assert advance_to(Postponed("too many", 30.0), Tries()) == TryAgain(Tries(), "too many", 30.0)


@pytest.mark.parametrize("outcome", [Postponed("too many", 30.0), DeliveryFailed("busy", 8.0)])
def test_advance_after_longest_wait_parks_with_last_error(outcome: Postponed | DeliveryFailed) -> None:
    put_ms = NOW_MS - int(MAX_WAIT_S * 1000)
    assert isinstance(advance_to(outcome, Tries(2, SINCE_MS), put_ms), TryAgain)
    count = 2 if isinstance(outcome, Postponed) else 3
    assert advance_to(outcome, Tries(2, SINCE_MS), put_ms - 1) == Park(Tries(count, SINCE_MS), outcome.error)
    assert advance_to(Sent(), Tries(2, SINCE_MS), put_ms - 1) == Done("sent")


def test_advance_dates_tries_of_first_release_from_now() -> None:
    assert advance_to(DeliveryFailed("busy", 8.0), Tries(3)) == TryAgain(Tries(4, NOW_MS), "busy", 8.0)


def test_advance_passes_time_since_first_try() -> None:
    attempts: list[tuple[int, float]] = []

    class RecordingDeliverer(FakeDeliverer):
        def attempt(self, delivery: Delivery, tries: int, elapsed_s: float) -> DeliveryOutcome:
            attempts.append((tries, elapsed_s))
            return super().attempt(delivery, tries, elapsed_s)

    for earlier in (Tries(), Tries(2, SINCE_MS)):
        advance(DELIVERY, earlier, NOW_MS, RecordingDeliverer(), lambda _tries: True, NOW_MS)
    assert attempts == [(1, 0.0), (3, 60.0)]


def test_advance_before_last_unfinished_try_still_attempts() -> None:
    assert advance_to(Sent(), Tries(9, SINCE_MS, MAX_UNFINISHED_TRIES - 1)) == Done("sent")


def test_advance_after_last_unfinished_try_parks() -> None:
    deliverer, stored, metrics = FakeDeliverer(), list[Tries](), list[tuple[str, dict[str, str]]]()

    def store_attempt(tries: Tries) -> bool:
        stored.append(tries)
        return True

    def measure(name: str, value: float = 1, **dimensions: str) -> None:
        del value
        metrics.append((name, dimensions))

    earlier = Tries(7, SINCE_MS, MAX_UNFINISHED_TRIES)
    assert advance(DELIVERY, earlier, NOW_MS, deliverer, store_attempt, NOW_MS, measure) == Park(
        earlier, TRIES_EXHAUSTED
    )
    assert (deliverer.tries, stored) == ([], [])
    assert metrics == [("Deliveries", {"channel": "unknown", "result": "parked"})]


def test_advance_stores_attempt_before_making_it() -> None:
    calls: list[str] = []

    class RecordingDeliverer(FakeDeliverer):
        def attempt(self, delivery: Delivery, tries: int, elapsed_s: float) -> DeliveryOutcome:
            calls.append(f"attempt {tries}")
            return super().attempt(delivery, tries, elapsed_s)

    def store_attempt(tries: Tries) -> bool:
        calls.append(f"store {tries.count}, {tries.unfinished} unfinished")
        return True

    advance(DELIVERY, Tries(1), NOW_MS, RecordingDeliverer(), store_attempt, NOW_MS)
    assert calls == ["store 2, 1 unfinished", "attempt 2"]


def test_advance_of_obsolete_delivery_makes_no_attempt() -> None:
    deliverer = FakeDeliverer()
    assert advance(DELIVERY, Tries(1), NOW_MS, deliverer, lambda _tries: False, NOW_MS) == Obsolete()
    assert deliverer.tries == []


def test_advance_without_stored_attempt_makes_no_attempt() -> None:
    deliverer = FakeDeliverer()

    def store_attempt(_tries: Tries) -> bool:
        raise ConnectionError

    with pytest.raises(ConnectionError):
        advance(DELIVERY, Tries(), NOW_MS, deliverer, store_attempt, NOW_MS)
    assert deliverer.tries == []
