"""Ingest: write a batch of queued messages as one commit per organization.

The queue is FIFO with one message group per organization, and it may deliver a message more than once. The request id
of each commit therefore contains the sequence number of its last message. When a message is delivered again, ingest
looks in the log for the last sequence number written. Messages delivered for the first time need no such lookup.

A message that can never be appended goes to the dead-letter queue at once, with the reason, and those behind it are
appended. Any other failure is temporary: the message and those behind it in the group are delivered again soon.
"""

import logging
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Protocol

from chalicelib.domain.backoff import Backoff
from chalicelib.domain.errors import NoSuchOrganization, Refused
from chalicelib.domain.log.append import MAX_BYTES, MAX_EVENTS, Append
from chalicelib.domain.log.ingest_message import IngestMessage
from chalicelib.domain.redaction import safe_description
from chalicelib.services.log.appender import Appender
from chalicelib.services.log.organizations import Organizations
from chalicelib.services.ports import Log

MAX_CLOCK_SKEW_MS = 15 * 60 * 1000
"""Maximum difference between the queue's clock and ours."""
RETRY_BACKOFF = Backoff(initial_s=2.0, max_s=30.0)
"""Delay before a message is delivered again, by its number of deliveries."""

_REQUEST_ID_PREFIX = "sqs-"
_log = logging.getLogger("annals")


class IngestQueue(Protocol):
    """The queue that delivered the messages, and its dead-letter queue."""

    def put_aside(self, message: IngestMessage, reason: str) -> None:
        """Send a copy of the message to the dead-letter queue. Repeats within five minutes are ignored."""

    def postpone(self, receipts: Sequence[str], delay_s: float) -> None:
        """Hide messages of one group, in order, until the queue delivers them again after `delay_s`."""


@dataclass(frozen=True, slots=True)
class Ingester:
    """Writes the messages of a queue to the logs of their organizations."""

    organizations: Organizations
    appender: Appender
    log: Log
    queue: IngestQueue
    jitter: Callable[[], float] = random.random

    def ingest(self, messages: Sequence[IngestMessage]) -> list[str]:
        """Write the messages, in order within each organization. Returns the ids of those to be delivered again.

        After a temporary failure the remaining messages of the same organization are delivered again too, so that
        they cannot overtake it.
        """
        groups: dict[str, list[IngestMessage]] = {}
        for message in sorted(messages, key=lambda message: message.sequence):
            groups.setdefault(message.organization, []).append(message)
        return [message.message_id for group in groups.values() for message in self._ingest_group(group)]

    def _ingest_group(self, messages: Sequence[IngestMessage]) -> list[IngestMessage]:
        """Returns the messages that have to be delivered again."""
        unfinished = list(messages)
        try:
            for finished in self._process(messages):
                unfinished = [message for message in unfinished if message not in finished]
        except Exception as error:  # Any error: the queue keeps the messages and delivers them again.
            first, reason = unfinished[0].message_id, safe_description(error)
            _log.warning("%d messages from %s on are not ingested yet: %s", len(unfinished), first, reason)
            self._postpone(unfinished)
        return unfinished

    def _process(self, messages: Sequence[IngestMessage]) -> Iterator[Sequence[IngestMessage]]:
        """Process the messages of one organization. Yields those that are finished after each step."""
        try:
            server = self.organizations.server(messages[0].organization)
        except NoSuchOrganization as refusal:
            for message in messages:
                self._put_aside(message, refusal)
                yield [message]
            return
        written_to = _last_written_sequence(server, messages, self.log)
        yield [message for message in messages if message.sequence <= written_to]
        unwritten = [message for message in messages if message.sequence > written_to]
        # Before any append: a later delivery skips every message up to the last sequence number in the log.
        for message in unwritten:
            if isinstance(message.texts, Refused):
                self._put_aside(message, message.texts)
                yield [message]
        for chunk in _chunks(unwritten):
            if texts := tuple(chain.from_iterable(map(_texts, chunk))):
                self.appender.append(Append(server, texts, f"{_REQUEST_ID_PREFIX}{chunk[-1].sequence}"))
            yield chunk

    def _put_aside(self, message: IngestMessage, reason: Refused) -> None:
        self.queue.put_aside(message, f"{type(reason).__name__}: {reason}")
        description = safe_description(reason)
        _log.warning("message %s put into the dead-letter queue: %s", message.message_id, description)

    def _postpone(self, messages: Sequence[IngestMessage]) -> None:
        # At least half of the delay, so that a store that is down is not asked again at once.
        delay_s = RETRY_BACKOFF.delay_s(messages[0].receives - 1, jitter=(1 + self.jitter()) / 2)
        try:
            self.queue.postpone([message.receipt for message in messages], delay_s)
        except Exception as error:  # The queue delivers them again anyway, once their visibility timeout ends.
            reason = safe_description(error)
            _log.warning("message %s and its successors are retried late: %s", messages[0].message_id, reason)


def _last_written_sequence(server: int, messages: Sequence[IngestMessage], log: Log) -> int:
    """Sequence number of the last ingested message in the log, or 0 if no message was delivered before."""
    first_received_ms = [message.first_received_ms for message in messages if message.receives > 1]
    if not first_received_ms:
        return 0
    oldest_us = (min(first_received_ms) - MAX_CLOCK_SKEW_MS) * 1000
    for commit in log.read_backwards(server, log.head(server).session + 1):
        if commit.last_event_id < oldest_us:
            break
        if commit.request_id.startswith(_REQUEST_ID_PREFIX):
            return int(commit.request_id.removeprefix(_REQUEST_ID_PREFIX))
    return 0


def _chunks(messages: Sequence[IngestMessage]) -> Iterator[list[IngestMessage]]:
    """Group the readable messages into as few commits as the limits allow."""
    chunk: list[IngestMessage] = []
    event_count = size_bytes = 0
    for message in messages:
        texts = _texts(message)
        message_bytes = sum(len(text.encode()) + 2 for text in texts)
        if chunk and (event_count + len(texts) > MAX_EVENTS or size_bytes + message_bytes > MAX_BYTES):
            yield chunk
            chunk, event_count, size_bytes = [], 0, 0
        if not isinstance(message.texts, Refused):
            chunk.append(message)
        event_count, size_bytes = event_count + len(texts), size_bytes + message_bytes
    if chunk:
        yield chunk


def _texts(message: IngestMessage) -> tuple[str, ...]:
    return () if isinstance(message.texts, Refused) else message.texts
