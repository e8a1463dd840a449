"""The queues' side of Lambda: records in, partial failures out."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from chalicelib.domain.errors import BadInput, Refused
from chalicelib.domain.log.append import encoded
from chalicelib.domain.log.ingest_message import Failure, Message
from chalicelib.domain.notifications.delivery_message import Queued, Received
from chalicelib.domain.redaction import described
from chalicelib.http import requests
from chalicelib.http.parameters import QueuedRequest

_log = logging.getLogger("annals")


def messages(event: Mapping[str, Any]) -> list[Message]:
    """The messages of a Lambda event of the ingest queue."""
    return [_message(record) for record in event["Records"]]


def received(event: Mapping[str, Any]) -> list[Received]:
    """The messages of a Lambda event of the outbox's queue."""
    return [_received(record) for record in event["Records"]]


def partial_failures(failures: Sequence[Failure]) -> dict[str, list[dict[str, str]]]:
    """What Lambda wants to know: which messages to bring again."""
    for failure in failures:
        _log.warning("message %s not ingested: %s", failure.message_id, described(failure.reason))
    return brought_again([failure.message_id for failure in failures])


def brought_again(message_ids: Sequence[str]) -> dict[str, list[dict[str, str]]]:
    """What Lambda wants to know: which messages to bring again."""
    return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in message_ids]}


def _message(record: Mapping[str, Any]) -> Message:
    attributes = record["attributes"]
    again = int(attributes["ApproximateReceiveCount"]) > 1
    return Message(
        message_id=record["messageId"],
        organization=attributes["MessageGroupId"],
        sequence=int(attributes["SequenceNumber"]),
        first_received_ms=int(attributes["ApproximateFirstReceiveTimestamp"]) if again else 0,
        texts=_texts(record["body"]),
    )


def _texts(body: str) -> tuple[str, ...] | Refused:
    try:
        return encoded(requests.json(QueuedRequest, body).events)
    except Refused as refusal:
        return refusal


def _received(record: Mapping[str, Any]) -> Received:
    attributes = record["attributes"]
    return Received(
        message_id=record["messageId"],
        receipt=record["receiptHandle"],
        group=attributes["MessageGroupId"],
        sequence=int(attributes["SequenceNumber"]),
        receives=int(attributes["ApproximateReceiveCount"]),
        queued=_queued(record["body"]),
    )


def _queued(body: str) -> Queued | BadInput:
    try:
        return Queued.parse(body)
    except BadInput as refusal:
        return refusal
