"""The state machine of a delivery, shared by the SQLite and the SQS worker. The workers only load and store states."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

from chalicelib.domain.notifications.delivery import (
    MAX_TRIES,
    Delivery,
    DeliveryFailed,
    DeliveryOutcome,
    Dropped,
    Sent,
)
from chalicelib.services.ports import Measure, ignore_metric

UNKNOWN_CHANNEL = "unknown"
"""Value of the metric dimension `channel` if the observer is deleted or could not be read."""
TRIES_EXHAUSTED = f"the worker process ended during each of {MAX_TRIES} tries; see its log, then retry the delivery"


class AttemptMaker(Protocol):
    """Attempts deliveries. Implemented by `Deliverer`."""

    def attempt(self, delivery: Delivery, tries: int) -> DeliveryOutcome:
        """Attempt the delivery once. `tries` includes this attempt."""


@dataclass(frozen=True, slots=True)
class Done:
    """Nothing is left to do."""

    state: Literal["sent", "dropped"]
    reason: str = ""


@dataclass(frozen=True, slots=True)
class TryAgain:
    """Attempt it again after `delay_s`. Later deliveries of the same observer and key wait for it."""

    tries: int
    error: str
    delay_s: float


@dataclass(frozen=True, slots=True)
class Park:
    """List it as failed. It is attempted again only if a user retries it."""

    tries: int
    error: str


@dataclass(frozen=True, slots=True)
class Obsolete:
    """Another worker has finished it meanwhile."""


Transition = Done | TryAgain | Park | Obsolete


def advance(
    delivery: Delivery,
    earlier_tries: int,
    deliverer: AttemptMaker,
    store_attempt: Callable[[int], bool],
    measure: Measure = ignore_metric,
) -> Transition:
    """Make the next attempt and return what to store.

    `store_attempt` is called with the number of tries before the attempt is made, so that an attempt that ends the
    process counts too. It returns False if the delivery is obsolete.
    """
    tries = earlier_tries + 1
    if tries > MAX_TRIES:
        measure("Deliveries", channel=UNKNOWN_CHANNEL, result="parked")
        return Park(MAX_TRIES, TRIES_EXHAUSTED)
    if not store_attempt(tries):
        return Obsolete()
    match deliverer.attempt(delivery, tries):
        case Sent():
            return Done("sent")
        case Dropped(reason):
            return Done("dropped", reason)
        case DeliveryFailed(error, delay_s):
            return Park(tries, error) if delay_s is None else TryAgain(tries, error, delay_s)
