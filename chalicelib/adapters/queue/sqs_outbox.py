"""The port `Outbox` on SQS: waiting deliveries in a FIFO queue, the states of deliveries in view records.

Threads: any thread may use `SqsOutbox`. Many messages are sent in parallel, by threads that end with the call. All
messages of a group are sent by the same thread. There are no locks.
"""

import hashlib
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from typing import Self

from chalicelib.adapters.aws.protocol import ServiceClient
from chalicelib.adapters.mail.message import Clock, now_ms
from chalicelib.adapters.queue.delivery_states import DeliveryStates, RecordStore
from chalicelib.adapters.queue.sqs_queue import MAX_BATCH, SqsQueue
from chalicelib.adapters.templates.text import shorten_reason
from chalicelib.domain.backoff import Backoff
from chalicelib.domain.errors import Unavailable
from chalicelib.domain.notifications.delivery import Delivery
from chalicelib.domain.notifications.delivery_message import DeliveryMessage

MAX_SEND_ATTEMPTS = 4
MAX_SEND_THREADS = 8
MAX_BATCH_BYTES = 256 * 1024
"""Bodies of a batch. They are ASCII. SQS allows 1 MiB, and 256 KiB in some regions and emulators."""

_BACKOFF = Backoff(initial_s=0.1)
_log = logging.getLogger("annals")


class SqsOutbox(DeliveryStates):
    """The outbox of all servers in one queue. Observer, event key and address form a message group."""

    def __init__(
        self,
        connect: Callable[[], ServiceClient],
        queue_url: str,
        records: RecordStore,
        sleep: Callable[[float], None] = time.sleep,
        clock: Clock = now_ms,
    ) -> None:
        super().__init__(records, clock)
        self._queue = SqsQueue(connect, queue_url)
        self._sleep = sleep

    def put(self, deliveries: Sequence[Delivery]) -> None:
        """Store deliveries durably, in this order. Deliveries that were already put are ignored.

        SQS ignores repeats for five minutes, and the worker ignores later ones. After `Unavailable` some deliveries
        are in the queue, and the caller should put all of them again.
        """
        self._send(map(DeliveryMessage, deliveries))

    def retry(self, server: int, observer: str, ids: Sequence[str]) -> int:
        """Put parked deliveries back into the queue with all their tries, and return how many there were."""
        messages = self.parked_messages(server, observer, ids).values()
        self._send(messages)
        return sum(map(self.mark_retried, messages))

    def postpone(self, receipts: Sequence[str], delay_s: float) -> None:
        """Hide messages of one group, in order, until the queue delivers them again after `delay_s`."""
        self._queue.postpone(receipts, delay_s)

    def _send(self, messages: Iterable[DeliveryMessage]) -> None:
        """Send all messages in full batches. The messages of a group are sent in order, by one thread."""
        lanes = _lanes([_Entry.of(message) for message in messages])
        if len(lanes) == 1:
            self._send_in_order(lanes[0])
        elif lanes:
            with ThreadPoolExecutor(len(lanes), "send") as threads:
                # Each thread gets a copy of the context, which contains the time limit of the function.
                sends = [threads.submit(copy_context().run, self._send_in_order, lane) for lane in lanes]
            for send in sends:
                send.result()

    def _send_in_order(self, entries: Sequence["_Entry"]) -> None:
        """Send the entries in order, and those that SQS rejects again before all others.

        If SQS rejects an entry but accepts a later one of the same group in the same batch, the later one overtakes it.
        """
        waiting, attempts = deque(entries), 0
        while waiting:
            batch = _next_batch(waiting)
            errors = self._send_batch(batch)
            waiting.extendleft(batch[index] for index in sorted(errors, reverse=True))
            attempts = attempts + 1 if errors else 0
            if errors:
                self._wait_before_retry(attempts, next(iter(errors.values())))

    def _send_batch(self, batch: Sequence["_Entry"]) -> dict[int, str]:
        """Returns the error codes of the entries that were not accepted, by index."""
        entries = [
            {
                "Id": str(index),
                "MessageBody": entry.text,
                "MessageGroupId": entry.group,
                "MessageDeduplicationId": entry.deduplication_id,
            }
            for index, entry in enumerate(batch)
        ]
        response = self._queue.call("SendMessageBatch", {"Entries": entries})
        sent = {entry["Id"] for entry in response.get("Successful", ())}
        codes = {entry["Id"]: entry["Code"] for entry in response.get("Failed", ())}
        return {index: codes.get(str(index), "no answer") for index in range(len(batch)) if str(index) not in sent}

    def _wait_before_retry(self, attempts: int, reason: str) -> None:
        if attempts >= MAX_SEND_ATTEMPTS:
            raise Unavailable(f"SQS rejected deliveries {attempts} times: {shorten_reason(reason)}")
        _log.warning("SQS rejected a part of a batch, which is sent again: %s", shorten_reason(reason))
        self._sleep(_BACKOFF.delay_s(attempts - 1))


@dataclass(frozen=True, slots=True)
class _Entry:
    """A message to send."""

    group: str
    text: str
    deduplication_id: str

    @classmethod
    def of(cls, message: DeliveryMessage) -> Self:
        delivery = message.delivery
        # A failing address must not hold up the other recipients.
        group = _hash(f"{delivery.server}/{delivery.observer}/{delivery.key}/{delivery.address}")[:32]
        return cls(group, message.text, _hash(f"{delivery.id}#{message.retry}"))


def _lanes(entries: Sequence[_Entry]) -> list[list[_Entry]]:
    """Distribute the groups evenly over as many lanes as there are full batches, but at most `MAX_SEND_THREADS`."""
    groups: dict[str, list[_Entry]] = {}
    for entry in entries:
        groups.setdefault(entry.group, []).append(entry)
    lane_count = min(len(groups), -(-len(entries) // MAX_BATCH), MAX_SEND_THREADS)
    lanes: list[list[_Entry]] = [[] for _ in range(lane_count)]
    for group in sorted(groups.values(), key=len, reverse=True):
        min(lanes, key=len).extend(group)
    return lanes


def _next_batch(waiting: deque[_Entry]) -> list[_Entry]:
    """Remove the next batch from `waiting`, as large as SQS allows."""
    batch = [waiting.popleft()]
    size_bytes = len(batch[0].text)
    while waiting and len(batch) < MAX_BATCH and size_bytes + len(waiting[0].text) <= MAX_BATCH_BYTES:
        batch.append(waiting.popleft())
        size_bytes += len(batch[-1].text)
    return batch


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
