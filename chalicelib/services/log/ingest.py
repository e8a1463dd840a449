"""Ingest: a batch of queued messages becomes one commit per organization.

The queue is FIFO with one group per organization and may deliver a message again. So the commit's request id carries
the sequence number of the last message in it: whoever gets a message for the second time looks whether it is in the
log already. Messages delivered for the first time cannot be, and cost no look.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby

from chalicelib.domain.errors import Refused
from chalicelib.domain.log.append import MOST_BYTES, MOST_EVENTS, Append
from chalicelib.domain.log.ingest_message import Failure, Message
from chalicelib.services.log.appender import Appender
from chalicelib.services.log.organizations import Organizations
from chalicelib.services.ports import Log

CLOCKS_DIFFER_MS = 15 * 60 * 1000
"""The queue's clock and ours may differ by this much."""

_PREFIX = "sqs-"


def ingest(messages: Sequence[Message], organizations: Organizations, appender: Appender, log: Log) -> list[Failure]:
    """Write the messages, in order within each organization; return those that failed.

    After a failure the rest of its organization fails too, or they would overtake it.
    """
    failures: list[Failure] = []
    by_organization = sorted(messages, key=lambda message: message.organization)
    for organization, group in groupby(by_organization, key=lambda message: message.organization):
        in_order = sorted(group, key=lambda message: message.sequence)
        failures += _ingest_organization(organization, in_order, organizations, appender, log)
    return failures


def _ingest_organization(
    organization: str, messages: list[Message], organizations: Organizations, appender: Appender, log: Log
) -> list[Failure]:
    waiting = list(messages)
    try:
        server = organizations.server(organization)
        written = _written(server, messages, log)
        waiting = [message for message in messages if message.sequence > written]
        for chunk in _chunks(waiting):
            texts = tuple(text for message in chunk for text in _texts(message))
            if texts:
                appender.append(Append(server, texts, f"{_PREFIX}{chunk[-1].sequence}"))
            waiting = waiting[len(chunk) :]
    except Exception as failure:  # whatever it is, the queue keeps the messages and brings them again
        return [Failure(message.message_id, failure) for message in waiting]
    return []


def _written(server: int, messages: Sequence[Message], log: Log) -> int:
    """The last sequence number that is in the log already."""
    since = [message.first_received_ms for message in messages if message.first_received_ms]
    if not since:
        return 0
    oldest = (min(since) - CLOCKS_DIFFER_MS) * 1000
    for commit in log.read_back(server, log.head(server).session + 1):
        if commit.last < oldest:
            break
        if commit.request_id.startswith(_PREFIX):
            return int(commit.request_id.removeprefix(_PREFIX))
    return 0


def _chunks(messages: Sequence[Message]) -> Iterator[list[Message]]:
    """The messages in as few commits as the limits allow; one that cannot be read stands alone."""
    chunk: list[Message] = []
    events = size = 0
    for message in messages:
        n, length = _measure(message)
        if chunk and (events + n > MOST_EVENTS or size + length > MOST_BYTES or isinstance(message.texts, Refused)):
            yield chunk
            chunk, events, size = [], 0, 0
        chunk.append(message)
        events, size = events + n, size + length
    if chunk:
        yield chunk


def _measure(message: Message) -> tuple[int, int]:
    if isinstance(message.texts, Refused):
        return 0, 0
    return len(message.texts), sum(len(text.encode()) + 2 for text in message.texts)


def _texts(message: Message) -> tuple[str, ...]:
    if isinstance(message.texts, Refused):
        raise message.texts
    return message.texts
