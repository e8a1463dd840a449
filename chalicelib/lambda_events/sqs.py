"""Events of the SQS queues, and the responses that name the messages to redeliver."""

from collections.abc import Mapping, Sequence
from typing import Any

from chalicelib.domain.errors import BadInput, Refused
from chalicelib.domain.log.append import encode_within_limits
from chalicelib.domain.log.ingest_message import IngestMessage
from chalicelib.domain.notifications.delivery_message import DeliveryMessage, ReceivedMessage
from chalicelib.http import requests
from chalicelib.http.parameters import QueuedRequest


def parse_ingest_messages(event: Mapping[str, Any]) -> list[IngestMessage]:
    return [_parse_ingest_message(record) for record in event["Records"]]


def parse_delivery_messages(event: Mapping[str, Any]) -> list[ReceivedMessage]:
    return [_parse_delivery_message(record) for record in event["Records"]]


def partial_batch_response(message_ids: Sequence[str]) -> dict[str, list[dict[str, str]]]:
    """The response that makes SQS redeliver these messages."""
    return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in message_ids]}


def _parse_ingest_message(record: Mapping[str, Any]) -> IngestMessage:
    attributes = record["attributes"]
    return IngestMessage(
        message_id=record["messageId"],
        receipt=record["receiptHandle"],
        organization=attributes["MessageGroupId"],
        sequence=int(attributes["SequenceNumber"]),
        receives=int(attributes["ApproximateReceiveCount"]),
        first_received_ms=int(attributes["ApproximateFirstReceiveTimestamp"]),
        body=record["body"],
        texts=_parse_event_texts(record["body"]),
    )


def _parse_event_texts(body: str) -> tuple[str, ...] | Refused:
    try:
        return encode_within_limits(requests.parse_json(QueuedRequest, body).events)
    except Refused as refusal:
        return refusal


def _parse_delivery_message(record: Mapping[str, Any]) -> ReceivedMessage:
    attributes = record["attributes"]
    return ReceivedMessage(
        message_id=record["messageId"],
        receipt=record["receiptHandle"],
        group=attributes["MessageGroupId"],
        sequence=int(attributes["SequenceNumber"]),
        receives=int(attributes["ApproximateReceiveCount"]),
        sent_ms=int(attributes["SentTimestamp"]),
        message=_parse_delivery(record["body"]),
    )


def _parse_delivery(body: str) -> DeliveryMessage | BadInput:
    try:
        return DeliveryMessage.parse(body)
    except BadInput as refusal:
        return refusal
