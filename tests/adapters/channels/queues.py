"""SQS queues and deliveries for tests."""

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Any

from chalicelib.adapters.aws.client import SQS, Client, create_client
from chalicelib.adapters.aws.protocol import ServiceClient
from chalicelib.domain.events.ids import Id
from chalicelib.domain.notifications.delivery import Delivery, DeliveryOutcome, Sent
from tests.torture.stores import REGION

VISIBILITY_TIMEOUT_S = 60
"""A received message is received again after this time unless it is deleted."""


def a_delivery(
    session: int = 1, key: str = "/job/1", observer: str = "ops", server: int = 1, address: str = "", replay: str = ""
) -> Delivery:
    """A delivery of the first event of a session."""
    event = Id(server, session, 1)
    return Delivery(f"{event}/{observer}", server, observer, event, key, address, replay)


def create_queue(sqs: ServiceClient) -> str:
    """Create an empty FIFO queue and return its URL."""
    attributes = {"FifoQueue": "true", "VisibilityTimeout": str(VISIBILITY_TIMEOUT_S)}
    wanted = {"QueueName": f"outbox-{uuid.uuid4().hex}.fifo", "Attributes": attributes}
    url: str = sqs.call("CreateQueue", wanted)["QueueUrl"]
    return url


@contextmanager
def open_client(endpoint: str) -> Iterator[Client]:
    opened = create_client(SQS, endpoint, REGION)
    yield opened
    opened.close()


def receive_batch(sqs: ServiceClient, url: str) -> dict[str, Any]:
    """Receive the next messages in the form of a Lambda event."""
    wanted = {"QueueUrl": url, "MaxNumberOfMessages": 10, "AttributeNames": ["All"]}
    answer = sqs.call("ReceiveMessage", wanted)
    return {
        "Records": [
            {
                "messageId": message["MessageId"],
                "receiptHandle": message["ReceiptHandle"],
                "body": message["Body"],
                "attributes": message["Attributes"],
                "messageAttributes": {},
                "eventSource": "aws:sqs",
            }
            for message in answer.get("Messages", ())
        ]
    }


def delete(sqs: ServiceClient, url: str, event: dict[str, Any], but: Sequence[str] = ()) -> None:
    """Delete the messages of an event, as Lambda does, except the failed ones."""
    for record in event["Records"]:
        if record["messageId"] not in but:
            sqs.call("DeleteMessage", {"QueueUrl": url, "ReceiptHandle": record["receiptHandle"]})


class FakeDeliverer:
    """Accepts every delivery unless other outcomes are set, and records the attempts."""

    def __init__(self) -> None:
        self.tries: list[tuple[str, int]] = []
        """Delivery id and number of the try, for each attempt."""
        self.sent: list[Delivery] = []
        self._outcomes: dict[str, list[DeliveryOutcome]] = {}
        self._mutex = Lock()

    def set_outcomes(self, delivery: Delivery, *outcomes: DeliveryOutcome) -> None:
        """Set the outcomes of the next attempts. Later ones succeed."""
        self._outcomes[delivery.id] = list(outcomes)

    def attempt(self, delivery: Delivery, tries: int, elapsed_s: float) -> DeliveryOutcome:
        del elapsed_s
        with self._mutex:
            self.tries.append((delivery.id, tries))
            outcomes = self._outcomes.get(delivery.id)
            outcome = outcomes.pop(0) if outcomes else Sent()
            if isinstance(outcome, Sent):
                self.sent.append(delivery)
        return outcome

    def channel_of(self, server: int, name: str) -> str:
        del server, name
        return "app"
