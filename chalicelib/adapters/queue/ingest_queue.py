"""The port `IngestQueue` on SQS."""

from collections.abc import Callable, Sequence

from chalicelib.adapters.aws.protocol import ServiceClient
from chalicelib.adapters.queue.sqs_queue import SqsQueue
from chalicelib.adapters.templates.text import one_line
from chalicelib.domain.log.ingest_message import IngestMessage

MAX_REASON_CHARS = 1_000
"""The queue's limit for messages leaves 4 KiB for the attributes."""


class SqsIngestQueue:
    """The ingest queue and its dead-letter queue."""

    def __init__(self, connect: Callable[[], ServiceClient], url: str, dead_letter_url: str) -> None:
        self._queue = SqsQueue(connect, url)
        self._dead_letters = SqsQueue(connect, dead_letter_url)

    def put_aside(self, message: IngestMessage, reason: str) -> None:
        """Send a copy with the attribute `reason` to the dead-letter queue. Repeats within five minutes are ignored."""
        text = one_line(reason, MAX_REASON_CHARS)
        params = {
            "MessageBody": message.body,
            "MessageGroupId": message.organization,
            "MessageDeduplicationId": message.message_id,
            "MessageAttributes": {"reason": {"DataType": "String", "StringValue": text}},
        }
        self._dead_letters.call("SendMessage", params)

    def postpone(self, receipts: Sequence[str], delay_s: float) -> None:
        """Hide messages of one group, in order, until the queue delivers them again after `delay_s`."""
        self._queue.postpone(receipts, delay_s)
