"""Queues for tests, and deliveries to put into them."""

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Any

from chalicelib.delivery.sqs import sqs_client
from chalicelib.domain.deliveries import Delivery, Outcome, Sent
from chalicelib.domain.ids import Id
from tests.torture.stores import REGION

HIDDEN_S = 60
"""A message that is brought is brought again after so long, if nobody says anything."""


def a_delivery(
    session: int = 1, key: str = "/job/1", observer: str = "ops", server: int = 1, address: str = "", replay: str = ""
) -> Delivery:
    """A delivery of the first event of a session."""
    event = Id(server, session, 1)
    return Delivery(f"{event}/{observer}", server, observer, event, key, address, replay)


def create_queue(client: Any) -> str:
    """The URL of an empty FIFO queue."""
    attributes = {"FifoQueue": "true", "VisibilityTimeout": str(HIDDEN_S)}
    url: str = client.create_queue(QueueName=f"outbox-{uuid.uuid4().hex}.fifo", Attributes=attributes)["QueueUrl"]
    return url


@contextmanager
def a_client(endpoint: str | None = None) -> Iterator[Any]:
    """A client of SQS, at the endpoint if one is given."""
    client = sqs_client(endpoint, REGION)
    yield client
    client.close()


def brought(client: Any, url: str) -> dict[str, Any]:
    """What the queue brings next, as Lambda gives it to a function."""
    answer = client.receive_message(QueueUrl=url, MaxNumberOfMessages=10, AttributeNames=["All"])
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


def delete(client: Any, url: str, event: dict[str, Any], but: Sequence[str] = ()) -> None:
    """Delete what was brought, as Lambda does, but not the messages that failed."""
    for record in event["Records"]:
        if record["messageId"] not in but:
            client.delete_message(QueueUrl=url, ReceiptHandle=record["receiptHandle"])


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
