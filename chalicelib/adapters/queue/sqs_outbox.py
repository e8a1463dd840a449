"""The port `Outbox` on SQS: a FIFO queue for what waits, records for what is parked and what was delivered."""

import hashlib
import logging
import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from chalicelib.adapters.aws.protocol import Calls, Refusal
from chalicelib.adapters.queue.delivery_states import DeliveryRecords, Records
from chalicelib.adapters.templates.text import said
from chalicelib.domain.errors import Unavailable
from chalicelib.domain.notifications.delivery import Delivery
from chalicelib.domain.notifications.delivery_message import Queued

BATCH = 10
"""SQS takes so many messages at once."""
ATTEMPTS = 4
FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 11 * 3600
"""SQS hides a message for twelve hours at most, counted from when it brought it."""

_log = logging.getLogger("annals")


class SqsOutbox(DeliveryRecords):
    """The outbox of all servers in one queue; what has the same observer and key is one group there."""

    def __init__(
        self, connect: Callable[[], Calls], queue_url: str, views: Records, pause: Callable[[float], None] = time.sleep
    ) -> None:
        super().__init__(views)
        self._connect = connect
        self._queue_url = queue_url
        self._pause = pause

    @cached_property
    def _client(self) -> Calls:
        """Made when first needed: most functions send nothing."""
        return self._connect()

    def put(self, deliveries: Sequence[Delivery]) -> None:
        """Keep them durably, in this order; those that were put before are not put again.

        The queue itself drops repeats for five minutes, whoever delivers drops later ones. After `Unavailable` some
        are in the queue; to put all of them again is right.
        """
        self._send(map(Queued, deliveries))

    def retry(self, server: int, observer: str, ids: Sequence[str]) -> int:
        """Try parked ones again, from the first of five tries; how many there were."""
        again = self.to_retry(server, observer, ids).values()
        self._send(again)
        return sum(map(self.retried, again))

    def postpone(self, receipts: Sequence[str], pause_s: float) -> None:
        """Have the queue bring messages that it brought once more, after a pause; all of one group, in order."""
        timeout_s = math.ceil(min(pause_s, LONGEST_PAUSE_S))
        for start in range(0, len(receipts), BATCH):
            entries = [
                {"Id": str(n), "ReceiptHandle": receipt, "VisibilityTimeout": timeout_s}
                for n, receipt in enumerate(receipts[start : start + BATCH])
            ]
            self._called("ChangeMessageVisibilityBatch", entries)

    def _send(self, some: Iterable[Queued]) -> None:
        """Send all of them, but of each group only one at once: of a batch any one may fail, and none may overtake."""
        waiting: dict[str, deque[Queued]] = {}
        for one in some:
            waiting.setdefault(_group(one.delivery), deque()).append(one)
        groups, attempts = deque(waiting), 0
        while groups:
            batch = [groups.popleft() for _ in range(min(BATCH, len(groups)))]
            reasons = self._send_batch({group: waiting[group][0] for group in batch})
            for group in batch:
                if group not in reasons:
                    waiting[group].popleft()
            groups.extend(group for group in batch if group not in reasons and waiting[group])
            groups.extendleft(reversed(reasons))
            attempts = attempts + 1 if reasons else 0
            if reasons:
                self._wait(attempts, next(iter(reasons.values())))

    def _send_batch(self, by_group: Mapping[str, Queued]) -> dict[str, str]:
        """Send one message of each group; which groups failed, and why."""
        entries = [
            {
                "Id": str(n),
                "MessageBody": queued.text,
                "MessageGroupId": group,
                "MessageDeduplicationId": _hash(f"{queued.delivery.id}#{queued.retry}"),
            }
            for n, (group, queued) in enumerate(by_group.items())
        ]
        answer = self._called("SendMessageBatch", entries)
        sent = {entry["Id"] for entry in answer.get("Successful", ())}
        codes = {entry["Id"]: entry["Code"] for entry in answer.get("Failed", ())}
        return {group: codes.get(str(n), "no answer") for n, group in enumerate(by_group) if str(n) not in sent}

    def _wait(self, attempts: int, reason: str) -> None:
        if attempts >= ATTEMPTS:
            raise Unavailable(f"SQS does not take deliveries: {said(reason)}")
        _log.warning("SQS did not take all of a batch: %s", said(reason))
        self._pause(FIRST_PAUSE_S * 2.0 ** (attempts - 1))

    def _called(self, operation: str, entries: list[dict[str, Any]]) -> dict[str, Any]:
        try:
            return self._client.call(operation, {"QueueUrl": self._queue_url, "Entries": entries})
        except Refusal as refusal:
            raise Unavailable(f"SQS refuses: {said(refusal.code)}") from refusal


def _group(delivery: Delivery) -> str:
    return _hash(f"{delivery.server}/{delivery.observer}/{delivery.key}")[:32]


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
