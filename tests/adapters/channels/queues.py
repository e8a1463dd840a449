"""Queues for tests, and deliveries to put into them."""

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Any

from chalicelib.adapters.aws.client import SQS, Client, client
from chalicelib.adapters.aws.protocol import Calls
from chalicelib.domain.events.ids import Id
from chalicelib.domain.notifications.delivery import Delivery, Outcome, Sent
from tests.torture.stores import REGION

HIDDEN_S = 60
"""A message that is brought is brought again after so long, if nobody says anything."""


def a_delivery(
    session: int = 1, key: str = "/job/1", observer: str = "ops", server: int = 1, address: str = "", replay: str = ""
) -> Delivery:
    """A delivery of the first event of a session."""
    event = Id(server, session, 1)
    return Delivery(f"{event}/{observer}", server, observer, event, key, address, replay)


def create_queue(sqs: Calls) -> str:
    """The URL of an empty FIFO queue."""
    attributes = {"FifoQueue": "true", "VisibilityTimeout": str(HIDDEN_S)}
    wanted = {"QueueName": f"outbox-{uuid.uuid4().hex}.fifo", "Attributes": attributes}
    url: str = sqs.call("CreateQueue", wanted)["QueueUrl"]
    return url


@contextmanager
def a_client(endpoint: str) -> Iterator[Client]:
    """A client of the SQS at an endpoint."""
    opened = client(SQS, endpoint, REGION)
    yield opened
    opened.close()


def brought(sqs: Calls, url: str) -> dict[str, Any]:
    """What the queue brings next, as Lambda gives it to a function."""
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


def delete(sqs: Calls, url: str, event: dict[str, Any], but: Sequence[str] = ()) -> None:
    """Delete what was brought, as Lambda does, but not the messages that failed."""
    for record in event["Records"]:
        if record["messageId"] not in but:
            sqs.call("DeleteMessage", {"QueueUrl": url, "ReceiptHandle": record["receiptHandle"]})


class Teller:
    """Tells everything at once, unless the test says what comes of the next tries; remembers what it did."""

    def __init__(self) -> None:
        self.tries: list[tuple[str, int]] = []
        """Which delivery, and for which time since it was put or retried."""
        self.told: list[Delivery] = []
        self._outcomes: dict[str, list[Outcome]] = {}
        self._mutex = Lock()

    def expect(self, delivery: Delivery, *outcomes: Outcome) -> None:
        """Let the next tries end so; those after them succeed."""
        self._outcomes[delivery.id] = list(outcomes)

    def attempt(self, delivery: Delivery, tries: int) -> Outcome:
        """What comes of the try."""
        with self._mutex:
            self.tries.append((delivery.id, tries))
            outcomes = self._outcomes.get(delivery.id)
            outcome = outcomes.pop(0) if outcomes else Sent()
            if isinstance(outcome, Sent):
                self.told.append(delivery)
        return outcome

    def channel_of(self, server: int, name: str) -> str:
        """All tell by the same one."""
        del server, name
        return "app"
