"""The state machine of deliveries: limits, counting, and transitions."""

import pytest

from chalicelib.domain.notifications.delivery import MAX_TRIES, Delivery, DeliveryFailed, DeliveryOutcome, Dropped, Sent
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


def advance_to(outcome: DeliveryOutcome, earlier_tries: int = 0) -> Transition:
    deliverer = FakeDeliverer()
    deliverer.set_outcomes(DELIVERY, outcome)
    return advance(DELIVERY, earlier_tries, deliverer, lambda _tries: True)


@pytest.mark.parametrize(
    ("outcome", "transition"),
    [
        (Sent(), Done("sent")),
        (Dropped("silent"), Done("dropped", "silent")),
        (DeliveryFailed("busy", 8.0), TryAgain(3, "busy", 8.0)),
        (DeliveryFailed("busy", 0.0), TryAgain(3, "busy", 0.0)),
        (DeliveryFailed("no such user", None), Park(3, "no such user")),
    ],
)
def test_advance_maps_outcome_to_transition(outcome: DeliveryOutcome, transition: Transition) -> None:
    assert advance_to(outcome, earlier_tries=2) == transition


def test_advance_on_last_try_still_attempts() -> None:
    assert advance_to(Sent(), earlier_tries=MAX_TRIES - 1) == Done("sent")


def test_advance_after_last_try_parks_without_attempt() -> None:
    deliverer, stored, metrics = FakeDeliverer(), list[int](), list[tuple[str, dict[str, str]]]()

    def store_attempt(tries: int) -> bool:
        stored.append(tries)
        return True

    def measure(name: str, value: float = 1, **dimensions: str) -> None:
        del value
        metrics.append((name, dimensions))

    transition = advance(DELIVERY, MAX_TRIES, deliverer, store_attempt, measure)
    assert transition == Park(MAX_TRIES, TRIES_EXHAUSTED)
    assert (deliverer.tries, stored) == ([], [])
    assert metrics == [("Deliveries", {"channel": "unknown", "result": "parked"})]


def test_advance_stores_attempt_before_making_it() -> None:
    calls: list[str] = []

    class RecordingDeliverer(FakeDeliverer):
        def attempt(self, delivery: Delivery, tries: int) -> DeliveryOutcome:
            calls.append(f"attempt {tries}")
            return super().attempt(delivery, tries)

    def store_attempt(tries: int) -> bool:
        calls.append(f"store {tries}")
        return True

    advance(DELIVERY, 1, RecordingDeliverer(), store_attempt)
    assert calls == ["store 2", "attempt 2"]


def test_advance_of_obsolete_delivery_makes_no_attempt() -> None:
    deliverer = FakeDeliverer()
    assert advance(DELIVERY, 1, deliverer, lambda _tries: False) == Obsolete()
    assert deliverer.tries == []


def test_advance_without_stored_attempt_makes_no_attempt() -> None:
    deliverer = FakeDeliverer()

    def store_attempt(_tries: int) -> bool:
        raise ConnectionError

    with pytest.raises(ConnectionError):
        advance(DELIVERY, 0, deliverer, store_attempt)
    assert deliverer.tries == []
