"""Delivers the messages of an SQS batch, in order within each message group.

Threads: each group is delivered by one pool thread, so that a channel that hangs delays only its own group. The
deliverer and the outbox are shared by all of them.
"""

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from chalicelib.domain.backoff import Backoff
from chalicelib.domain.errors import BadInput
from chalicelib.domain.notifications.delivery import Tries
from chalicelib.domain.notifications.delivery_message import DeliveryMessage, DeliveryState, ReceivedMessage
from chalicelib.domain.redaction import safe_description
from chalicelib.services.notifications.attempt import AttemptMaker, Done, Park, TryAgain, advance, is_overdue
from chalicelib.services.notifications.history.failure_events import ReportFailure, ignore_failure
from chalicelib.services.ports import Clock, Measure, Outbox, ignore_metric

MAX_THREADS = 10
MIN_REMAINING_MS = 15_000
"""No attempt starts if the function has less time left than this."""
ERROR_RETRY_S = 10.0
"""Delay for a message that can be neither delivered nor parked. After 1,000 receives it is a dead letter."""
ERROR_BACKOFF = Backoff(initial_s=ERROR_RETRY_S, max_s=300.0)
"""Delays for a delivery that could not be attempted, for example because the store is unavailable."""
MANY_RECEIVES = 100
MANY_RECEIVES_DELAY_S = 1800.0
"""Minimum delay after `MANY_RECEIVES`, so that the queue's limit of 1,000 receives is not reached in 14 days."""

_log = logging.getLogger("annals")


@runtime_checkable
class DeliveryQueue(Protocol):
    """An outbox on a queue. It stores the state of each delivery, because the queue may repeat messages."""

    def state(self, message: DeliveryMessage) -> DeliveryState: ...

    def record_attempt(
        self, message: DeliveryMessage, tries: Tries, seen: DeliveryState, error: str = ""
    ) -> DeliveryState:
        """Store the tries and return the stored state. `seen` is the state that the caller has read."""

    def record_done(
        self, message: DeliveryMessage, state: Literal["sent", "dropped"], seen: DeliveryState, reason: str = ""
    ) -> None: ...

    def park(self, message: DeliveryMessage, tries: Tries, error: str, seen: DeliveryState) -> None:
        """List the delivery as failed and stop attempting it."""

    def postpone(self, receipts: Sequence[str], delay_s: float) -> None:
        """Hide messages of one group, in order, until the queue delivers them again after `delay_s`."""


def as_delivery_queue(outbox: Outbox) -> DeliveryQueue:
    if not isinstance(outbox, DeliveryQueue):
        raise TypeError(f"{type(outbox).__name__} is not an outbox on a queue")
    return outbox


def deliver_batch(
    messages: Sequence[ReceivedMessage],
    deliverer: AttemptMaker,
    outbox: DeliveryQueue,
    clock: Clock,
    remaining_ms: Callable[[], int],
    measure: Measure = ignore_metric,
    report_failure: ReportFailure = ignore_failure,
) -> list[str]:
    """Deliver as many messages as the remaining time allows. Returns the ids of those that must be delivered again.

    After a failure the rest of the group must be delivered again too, to keep the order.
    """
    groups: dict[str, list[ReceivedMessage]] = {}
    for message in sorted(messages, key=lambda message: message.sequence):
        groups.setdefault(message.group, []).append(message)
    worker = _GroupWorker(deliverer, outbox, clock, remaining_ms, measure, report_failure)
    with ThreadPoolExecutor(min(max(len(groups), 1), MAX_THREADS), "deliver") as threads:
        undelivered = list(threads.map(worker.deliver_group, groups.values()))
    failed_ids = {message.message_id for group in undelivered for message in group}
    return [message.message_id for message in messages if message.message_id in failed_ids]


@dataclass(frozen=True, slots=True)
class _GroupWorker:
    """Delivers message groups."""

    deliverer: AttemptMaker
    outbox: DeliveryQueue
    clock: Clock
    remaining_ms: Callable[[], int]
    measure: Measure
    report_failure: ReportFailure

    def deliver_group(self, group: Sequence[ReceivedMessage]) -> Sequence[ReceivedMessage]:
        """Deliver in order until a message must wait. Returns that message and all after it."""
        for index, received in enumerate(group):
            delay_s = self._retry_delay_s(received)
            if delay_s is not None:
                self._postpone(group[index:], delay_s)
                return group[index:]
        return ()

    def _retry_delay_s(self, received: ReceivedMessage) -> float | None:
        """Deliver the message. Returns how long it must wait for its next attempt, or None if it is finished."""
        if self.remaining_ms() < MIN_REMAINING_MS:
            return 0.0
        if isinstance(received.message, BadInput):
            _log.warning("message %s not delivered: %s", received.message_id, safe_description(received.message))
            return ERROR_RETRY_S
        try:
            return self._deliver(received, received.message)
        except Exception as error:  # Whatever failed, the queue keeps the message and delivers it again.
            _log.warning("message %s not delivered: %s", received.message_id, safe_description(error))
            return self._delay_after_error_s(received, received.message, error)

    def _delay_after_error_s(
        self, received: ReceivedMessage, message: DeliveryMessage, error: Exception
    ) -> float | None:
        """The delay after a failure of the store or of this code. After the longest wait the delivery is parked."""
        if not is_overdue(received.sent_ms, self.clock()):
            return _limit_receives(received, ERROR_BACKOFF.delay_s(received.receives - 1))
        try:
            self._park(message, Tries(), f"it could not be attempted: {safe_description(error)}", DeliveryState())
        except Exception as failure:  # Any error of the store, as for the attempt itself.
            # Soon, so that the message becomes a dead letter, which raises an alarm, before the queue deletes it.
            _log.warning("message %s could not be parked: %s", received.message_id, safe_description(failure))
            return ERROR_RETRY_S
        return None

    def _deliver(self, received: ReceivedMessage, message: DeliveryMessage) -> float | None:
        state = self.outbox.state(message)
        if state.is_obsolete(message.retry):
            return None
        is_first_receive = received.receives == 1

        def store_attempt(tries: Tries) -> bool:
            nonlocal state
            # Saves one write per delivery: if the function ends now, the message is received a second time.
            if is_first_receive:
                return True
            state = self.outbox.record_attempt(message, tries, state)
            return not state.is_obsolete(message.retry)

        earlier, now_ms = state.tries_in(message.retry), self.clock()
        put_ms = received.sent_ms
        match advance(message.delivery, earlier, put_ms, self.deliverer, store_attempt, now_ms, self.measure):
            case TryAgain(tries, error, delay_s):
                if tries != earlier or not is_first_receive:
                    self.outbox.record_attempt(message, tries, state, error)
                return _limit_receives(received, delay_s)
            case Park(tries, error):
                self._park(message, tries, error, state)
            case Done(result, reason):
                self._record_done(message, result, reason, state)
        return None

    def _park(self, message: DeliveryMessage, tries: Tries, error: str, seen: DeliveryState) -> None:
        # Before it is parked: a function that ends in between repeats both, and the event is written once.
        self.report_failure(message.delivery, message.retry, tries, error)
        self.outbox.park(message, tries, error, seen)
        self.measure("ParkedDeliveries")
        # The error is stored but not logged, because the answer of a channel may contain an address.
        _log.warning("delivery %s parked after %d tries", message.delivery.id, tries.count)

    def _record_done(
        self, message: DeliveryMessage, result: Literal["sent", "dropped"], reason: str, seen: DeliveryState
    ) -> None:
        try:
            self.outbox.record_done(message, result, seen, reason)
        except Exception as error:
            # Delivering it again now would notify twice. Without the record, only a late repeat would.
            failure = safe_description(error)
            _log.warning("delivery %s is %s, but recording that failed: %s", message.delivery.id, result, failure)

    def _postpone(self, group: Sequence[ReceivedMessage], delay_s: float) -> None:
        try:
            self.outbox.postpone([received.receipt for received in group], delay_s)
        except Exception as error:  # The queue delivers them again anyway, once their visibility timeout ends.
            reason = safe_description(error)
            _log.warning("message %s and its successors are retried late: %s", group[0].message_id, reason)


def _limit_receives(received: ReceivedMessage, delay_s: float) -> float:
    """The delay, or a longer one if the message might otherwise reach the limit of receives before it is parked."""
    return max(delay_s, MANY_RECEIVES_DELAY_S) if received.receives > MANY_RECEIVES else delay_s
