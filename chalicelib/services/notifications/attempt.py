"""The state machine of a delivery, shared by the SQLite and the SQS worker. The workers only load and store states."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

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
from chalicelib.services.ports import Measure, ignore_metric

UNKNOWN_CHANNEL = "unknown"
"""Value of the metric dimension `channel` if the observer is deleted or could not be read."""
TRIES_EXHAUSTED = (
    f"the worker process ended during each of {MAX_UNFINISHED_TRIES} tries; see its log, then retry the delivery"
)


class AttemptMaker(Protocol):
    """Attempts deliveries. Implemented by `Deliverer`."""

    def attempt(self, delivery: Delivery, tries: int, elapsed_s: float) -> DeliveryOutcome:
        """Attempt the delivery once. `tries` includes this attempt. The first one was made `elapsed_s` ago."""


@dataclass(frozen=True, slots=True)
class Done:
    """Nothing is left to do."""

    state: Literal["sent", "dropped"]
    reason: str = ""


@dataclass(frozen=True, slots=True)
class TryAgain:
    """Attempt it again after `delay_s`. Later deliveries of the same observer and key wait for it."""

    tries: Tries
    error: str
    delay_s: float


@dataclass(frozen=True, slots=True)
class Park:
    """List it as failed. It is attempted again only if a user retries it."""

    tries: Tries
    error: str


@dataclass(frozen=True, slots=True)
class Obsolete:
    """Another worker has finished it meanwhile."""


Transition = Done | TryAgain | Park | Obsolete


def is_overdue(put_ms: int, now_ms: int) -> bool:
    """Whether a delivery that was put at `put_ms` has waited too long to be tried again."""
    return now_ms - put_ms > MAX_WAIT_S * 1000


def advance(
    delivery: Delivery,
    earlier: Tries,
    put_ms: int,
    deliverer: AttemptMaker,
    store_attempt: Callable[[Tries], bool],
    now_ms: int,
    measure: Measure = ignore_metric,
) -> Transition:
    """Make the next attempt and return what to store.

    `put_ms` is the time when the delivery was put, or when a user retried it. The time during which its channel limits
    the rate does not count as tries, so this alone ends a delivery that is rate limited for ever.

    `store_attempt` is called with the tries before the attempt is made, so that an attempt that ends the process
    counts too. It returns False if the delivery is obsolete.
    """
    if earlier.unfinished >= MAX_UNFINISHED_TRIES:
        measure("Deliveries", channel=UNKNOWN_CHANNEL, result="parked")
        return Park(earlier, TRIES_EXHAUSTED)
    tries = earlier.start(now_ms)
    if not store_attempt(tries):
        return Obsolete()
    delay_s: float | None
    match deliverer.attempt(delivery, tries.count, (now_ms - tries.since_ms) / 1000):
        case Sent():
            return Done("sent")
        case Dropped(reason):
            return Done("dropped", reason)
        case Postponed(error, delay_s):
            tries = tries.withdraw()
        case DeliveryFailed(error, retry_delay_s):
            tries, delay_s = tries.finish(), retry_delay_s
    if delay_s is None or is_overdue(put_ms, now_ms):
        return Park(tries, error)
    return TryAgain(tries, error, delay_s)
