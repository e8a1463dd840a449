"""Ingest: write a batch of queued messages as one commit per organization.

The queue is FIFO with one message group per organization, and it may deliver a message more than once. The request id
of each commit therefore contains the sequence number of its last message. When a message is delivered again, ingest
looks in the log for the last sequence number written. Messages delivered for the first time need no such lookup.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby

from chalicelib.domain.errors import Refused
from chalicelib.domain.log.append import MAX_BYTES, MAX_EVENTS, Append
from chalicelib.domain.log.ingest_message import IngestFailure, IngestMessage
from chalicelib.services.log.appender import Appender
from chalicelib.services.log.organizations import Organizations
from chalicelib.services.ports import Log

MAX_CLOCK_SKEW_MS = 15 * 60 * 1000
"""Maximum difference between the queue's clock and ours."""

_REQUEST_ID_PREFIX = "sqs-"


def ingest(
    messages: Sequence[IngestMessage], organizations: Organizations, appender: Appender, log: Log
) -> list[IngestFailure]:
    """Write the messages, in order within each organization, and return those that failed.

    After a failure the remaining messages of the same organization fail too, so that they cannot overtake it.
    """
    failures: list[IngestFailure] = []
    by_organization = sorted(messages, key=lambda message: message.organization)
    for organization, group in groupby(by_organization, key=lambda message: message.organization):
        in_order = sorted(group, key=lambda message: message.sequence)
        failures += _ingest_organization(organization, in_order, organizations, appender, log)
    return failures


def _ingest_organization(
    organization: str, messages: list[IngestMessage], organizations: Organizations, appender: Appender, log: Log
) -> list[IngestFailure]:
    remaining = list(messages)
    try:
        server = organizations.server(organization)
        written_to = _last_written_sequence(server, messages, log)
        remaining = [message for message in messages if message.sequence > written_to]
        for chunk in _chunks(remaining):
            texts = tuple(text for message in chunk for text in _texts(message))
            if texts:
                appender.append(Append(server, texts, f"{_REQUEST_ID_PREFIX}{chunk[-1].sequence}"))
            remaining = remaining[len(chunk) :]
    except Exception as failure:  # Any error: the queue keeps the messages and delivers them again.
        return [IngestFailure(message.message_id, failure) for message in remaining]
    return []


def _last_written_sequence(server: int, messages: Sequence[IngestMessage], log: Log) -> int:
    """Sequence number of the last ingested message in the log, or 0 if no message was delivered before."""
    first_received_ms = [message.first_received_ms for message in messages if message.first_received_ms]
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
    """Group the messages into as few commits as the limits allow. An invalid message starts a new chunk."""
    chunk: list[IngestMessage] = []
    event_count = size_bytes = 0
    for message in messages:
        message_events, message_bytes = _measure(message)
        is_over_limit = event_count + message_events > MAX_EVENTS or size_bytes + message_bytes > MAX_BYTES
        if chunk and (is_over_limit or isinstance(message.texts, Refused)):
            yield chunk
            chunk, event_count, size_bytes = [], 0, 0
        chunk.append(message)
        event_count, size_bytes = event_count + message_events, size_bytes + message_bytes
    if chunk:
        yield chunk


def _measure(message: IngestMessage) -> tuple[int, int]:
    """Number of events and their size in bytes."""
    if isinstance(message.texts, Refused):
        return 0, 0
    return len(message.texts), sum(len(text.encode()) + 2 for text in message.texts)


def _texts(message: IngestMessage) -> tuple[str, ...]:
    if isinstance(message.texts, Refused):
        raise message.texts
    return message.texts
