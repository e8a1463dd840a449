"""The port `Outbox` on SQS: waiting deliveries in a FIFO queue, the states of deliveries in view records."""

import hashlib
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence

from chalicelib.adapters.aws.protocol import ServiceClient
from chalicelib.adapters.queue.delivery_states import DeliveryStates, RecordStore
from chalicelib.adapters.queue.sqs_queue import MAX_BATCH, SqsQueue
from chalicelib.adapters.templates.text import shorten_reason
from chalicelib.domain.backoff import Backoff
from chalicelib.domain.errors import Unavailable
from chalicelib.domain.notifications.delivery import Delivery
from chalicelib.domain.notifications.delivery_message import DeliveryMessage

MAX_SEND_ATTEMPTS = 4

_BACKOFF = Backoff(initial_s=0.1)
_log = logging.getLogger("annals")


class SqsOutbox(DeliveryStates):
    """The outbox of all servers in one queue. An observer and an event key together form a message group."""

    def __init__(
        self,
        connect: Callable[[], ServiceClient],
        queue_url: str,
        records: RecordStore,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__(records)
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
        """Send all messages, but at most one per group and batch.

        SQS may reject any message of a batch, and then its successors in the group must not be sent before it.
        """
        by_group: dict[str, deque[DeliveryMessage]] = {}
        for message in messages:
            by_group.setdefault(_group_id(message.delivery), deque()).append(message)
        groups, attempts = deque(by_group), 0
        while groups:
            batch = [groups.popleft() for _ in range(min(MAX_BATCH, len(groups)))]
            errors = self._send_batch({group: by_group[group][0] for group in batch})
            for group in batch:
                if group not in errors:
                    by_group[group].popleft()
            groups.extend(group for group in batch if group not in errors and by_group[group])
            groups.extendleft(reversed(errors))
            attempts = attempts + 1 if errors else 0
            if errors:
                self._wait_before_retry(attempts, next(iter(errors.values())))

    def _send_batch(self, by_group: Mapping[str, DeliveryMessage]) -> dict[str, str]:
        """Send one message per group. Returns error codes of the groups that failed."""
        entries = [
            {
                "Id": str(index),
                "MessageBody": message.text,
                "MessageGroupId": group,
                "MessageDeduplicationId": _hash(f"{message.delivery.id}#{message.retry}"),
            }
            for index, (group, message) in enumerate(by_group.items())
        ]
        response = self._queue.call("SendMessageBatch", {"Entries": entries})
        sent = {entry["Id"] for entry in response.get("Successful", ())}
        codes = {entry["Id"]: entry["Code"] for entry in response.get("Failed", ())}
        return {
            group: codes.get(str(index), "no answer") for index, group in enumerate(by_group) if str(index) not in sent
        }

    def _wait_before_retry(self, attempts: int, reason: str) -> None:
        if attempts >= MAX_SEND_ATTEMPTS:
            raise Unavailable(f"SQS rejected deliveries {attempts} times: {shorten_reason(reason)}")
        _log.warning("SQS rejected a part of a batch, which is sent again: %s", shorten_reason(reason))
        self._sleep(_BACKOFF.delay_s(attempts - 1))


def _group_id(delivery: Delivery) -> str:
    return _hash(f"{delivery.server}/{delivery.observer}/{delivery.key}")[:32]


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
