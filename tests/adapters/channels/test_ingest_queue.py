"""The ingest queue on SQS: copies in the dead-letter queue, and postponed messages."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from moto import mock_aws

from chalicelib.adapters.aws.client import SQS
from chalicelib.adapters.aws.protocol import ServiceClient
from chalicelib.adapters.queue.ingest_queue import MAX_REASON_CHARS, SqsIngestQueue
from chalicelib.domain.errors import BadInput, Unavailable
from chalicelib.domain.log.ingest_message import IngestMessage
from tests.adapters.aws.transports import MotoTransport, create_test_client
from tests.adapters.channels.queues import create_queue, open_client, receive_batch

REFUSED = IngestMessage("m1", "r1", "acme", 7, 1, 0, '{"events": [1]}', BadInput("events.0: not an object"))


@pytest.fixture
def client(aws_environment: None) -> Iterator[ServiceClient]:  # noqa: ARG001
    """A client of moto's SQS."""
    with mock_aws():
        yield create_test_client(MotoTransport(SQS), SQS)


def receive(client: ServiceClient, url: str) -> list[dict[str, Any]]:
    wanted = {"MaxNumberOfMessages": 10, "AttributeNames": ["All"], "MessageAttributeNames": ["All"]}
    messages: list[dict[str, Any]] = client.call("ReceiveMessage", {"QueueUrl": url, **wanted}).get("Messages", [])
    return messages


def test_put_aside_keeps_body_and_group_and_adds_reason(client: ServiceClient) -> None:
    url = create_queue(client)
    queue = SqsIngestQueue(lambda: client, create_queue(client), url)
    queue.put_aside(REFUSED, "BadInput: events.0: not an object")
    queue.put_aside(REFUSED, "BadInput: events.0: not an object")
    (message,) = receive(client, url)
    assert (message["Body"], message["Attributes"]["MessageGroupId"]) == ('{"events": [1]}', "acme")
    assert message["MessageAttributes"]["reason"]["StringValue"] == "BadInput: events.0: not an object"


def test_put_aside_makes_reason_acceptable_for_sqs(client: ServiceClient) -> None:
    url = create_queue(client)
    SqsIngestQueue(lambda: client, "q", url).put_aside(REFUSED, "not \x00 this\n" + "ß" * 5_000)
    (message,) = receive(client, url)
    reason = message["MessageAttributes"]["reason"]["StringValue"]
    assert (reason[:10], len(reason)) == ("not this ß", MAX_REASON_CHARS)


def test_put_aside_in_missing_queue_raises_unavailable(client: ServiceClient) -> None:
    nowhere = "https://sqs.eu-central-1.amazonaws.com/123456789012/nowhere.fifo"
    with pytest.raises(Unavailable, match="SQS rejected SendMessage: QueueDoesNotExist"):
        SqsIngestQueue(lambda: client, nowhere, nowhere).put_aside(REFUSED, "no")


def test_postponed_message_is_received_again_later(ministack: str) -> None:
    with open_client(ministack) as client:
        url = create_queue(client)
        queue = SqsIngestQueue(lambda: client, url, url)
        queue.put_aside(REFUSED, "a")
        queue.put_aside(replace(REFUSED, message_id="m2"), "b")
        first = receive_batch(client, url)["Records"]
        queue.postpone([record["receiptHandle"] for record in first], 0.0)
        again = receive_batch(client, url)["Records"]
        assert [record["messageId"] for record in again] == [record["messageId"] for record in first]
        queue.postpone([record["receiptHandle"] for record in again], 30.0)
        assert receive_batch(client, url)["Records"] == []
