"""Delivery batches: what a queue brings at once is delivered, in order within each group.

Groups are independent: each has a thread of its own, so one whose channel hangs holds up none of the others.
"""

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from chalicelib.domain.errors import BadInput
from chalicelib.domain.notifications.delivery import TRIES, Delivery, Dropped, Failed, Outcome, Parked
from chalicelib.domain.notifications.delivery_message import Queued, Received, Standing
from chalicelib.domain.redaction import described
from chalicelib.services.notifications.deliverer import UNKNOWN
from chalicelib.services.ports import Clock, Measure, Outbox, unmeasured

THREADS = 10
LEAST_LEFT_MS = 15_000
"""With less time left than this no delivery is begun."""
AGAIN_S = 10.0
"""How long a message waits that could not even be tried."""
ENDED = f"it was tried {TRIES} times, and the function ended before it could say what came of the last try"

_log = logging.getLogger("annals")


class Attempts(Protocol):
    """Makes one try."""

    def attempt(self, delivery: Delivery, tries: int) -> Outcome:
        """What comes of the try; `tries` counts this one too."""


@runtime_checkable
class DeliveryQueue(Protocol):
    """An outbox whose deliveries are brought by a queue: it remembers what became of them."""

    def standing(self, queued: Queued) -> Standing:
        """What is remembered of the delivery."""

    def tried(self, queued: Queued, tries: int, seen: Standing) -> Standing:
        """Remember that it is being tried; `seen` is what was remembered before."""

    def done(self, queued: Queued, state: Literal["sent", "dropped"], seen: Standing) -> None:
        """Remember that there is nothing to do any more."""

    def park(self, queued: Queued, parked: Parked, seen: Standing) -> None:
        """List it, and try it no more."""

    def postpone(self, receipts: Sequence[str], pause_s: float) -> None:
        """Have the queue bring messages that it brought once more, after a pause; all of one group, in order."""


def queue_of(outbox: Outbox) -> DeliveryQueue:
    """The outbox, if a queue brings its deliveries."""
    if not isinstance(outbox, DeliveryQueue):
        raise TypeError(f"no queue brings the deliveries of {type(outbox).__name__}")
    return outbox


def deliver_batch(
    received: Sequence[Received],
    delivering: Attempts,
    outbox: DeliveryQueue,
    clock: Clock,
    left_ms: Callable[[], int],
    measure: Measure = unmeasured,
) -> list[str]:
    """Deliver what can be delivered in the time that is left; the ids of the messages that have to come again.

    After a failure the rest of its group has to come again too, or they would overtake it.
    """
    groups: dict[str, list[Received]] = {}
    for one in sorted(received, key=lambda one: one.sequence):
        groups.setdefault(one.group, []).append(one)
    courier = _Courier(delivering, outbox, clock, left_ms, measure)
    with ThreadPoolExecutor(min(max(len(groups), 1), THREADS), "deliver") as threads:
        held = list(threads.map(courier.work, groups.values()))
    failed = {one.message_id for some in held for one in some}
    return [one.message_id for one in received if one.message_id in failed]


@dataclass(frozen=True, slots=True)
class _Courier:
    """Works on groups."""

    delivering: Attempts
    outbox: DeliveryQueue
    clock: Clock
    left_ms: Callable[[], int]
    measure: Measure

    def work(self, group: Sequence[Received]) -> Sequence[Received]:
        """Deliver in order as far as that goes; those that have to come again."""
        for n, one in enumerate(group):
            pause_s = self._pause_s(one)
            if pause_s is not None:
                self._postpone(group[n:], pause_s)
                return group[n:]
        return ()

    def _pause_s(self, one: Received) -> float | None:
        """How long those behind it have to wait; None: not at all."""
        if self.left_ms() < LEAST_LEFT_MS:
            return 0.0
        try:
            return self._told(one)
        except Exception as failure:  # whatever it is, the queue keeps the message and brings it again
            _log.warning("message %s not delivered: %s", one.message_id, described(failure))
            return AGAIN_S

    def _told(self, one: Received) -> float | None:
        queued = _readable(one)
        seen = self.outbox.standing(queued)
        if seen.is_over(queued.retry):
            return None
        tries = seen.tries_of(queued.retry) + 1
        if tries > TRIES:
            self.measure("Deliveries", channel=UNKNOWN, result="parked")
            self._park(queued, TRIES, ENDED, seen)
            return None
        if one.receives > 1:
            # Counted before it is made: a try that ends the process counts too. The first is spared that.
            seen = self.outbox.tried(queued, tries, seen)
            if seen.is_over(queued.retry):
                return None
        match self.delivering.attempt(queued.delivery, tries):
            case Failed(error, None):
                self._park(queued, tries, error, seen)
            case Failed(error, pause_s):
                if one.receives == 1:
                    self.outbox.tried(queued, tries, seen)
                return pause_s
            case Dropped():
                self._done(queued, "dropped", seen)
            case _:
                self._done(queued, "sent", seen)
        return None

    def _park(self, queued: Queued, tries: int, error: str, seen: Standing) -> None:
        self.outbox.park(queued, Parked(queued.delivery, tries, error, self.clock()), seen)
        self.measure("ParkedDeliveries")
        # Why is kept with it: what a channel says may name an address.
        _log.warning("delivery %s is parked after %d tries", queued.delivery.id, tries)

    def _done(self, queued: Queued, state: Literal["sent", "dropped"], seen: Standing) -> None:
        try:
            self.outbox.done(queued, state, seen)
        except Exception as failure:
            # It was told. To tell it again is worse than to forget that: only a late repeat would find out.
            _log.warning(
                "delivery %s is %s, but that is not remembered: %s", queued.delivery.id, state, described(failure)
            )

    def _postpone(self, some: Sequence[Received], pause_s: float) -> None:
        try:
            self.outbox.postpone([one.receipt for one in some], pause_s)
        except Exception as failure:  # the queue brings them again all the same, only later
            _log.warning("message %s and those behind it come late: %s", some[0].message_id, described(failure))


def _readable(one: Received) -> Queued:
    if isinstance(one.queued, BadInput):
        raise one.queued
    return one.queued
