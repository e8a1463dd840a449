"""Deliveries in a queue.

The queue may deliver a message more than once, so the state of each delivery is stored outside the queue.
"""

import json
from dataclasses import asdict, dataclass, field, replace
from typing import Literal, Self

from pydantic_core import from_json

from chalicelib.domain.errors import BadInput
from chalicelib.domain.events.ids import Id
from chalicelib.domain.notifications.delivery import Delivery, Tries


@dataclass(frozen=True, slots=True)
class DeliveryMessage:
    """A delivery as a queue message."""

    delivery: Delivery
    retry: int = 0
    """How often a user has retried the delivery after it was parked."""

    @property
    def text(self) -> str:
        """Compact JSON in ASCII, because queues do not accept every character that a key may contain."""
        delivery = self.delivery
        members = {**asdict(delivery), "event": str(delivery.event), "samples": list(map(str, delivery.samples))}
        if not delivery.until:
            # The message has the format of earlier versions.
            for name in ("until", "count", "samples"):
                del members[name]
        members["retry"] = self.retry
        return json.dumps(members, separators=(",", ":"))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises `BadInput` if the text is not a delivery."""
        try:
            members = from_json(text)
            retry = int(members.pop("retry"))
            members["event"] = Id.parse(members["event"])
            members["samples"] = tuple(map(Id.parse, members.get("samples", ())))
            return cls(Delivery(**members), retry)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise BadInput(f"not a delivery: {text[:200]}") from error


@dataclass(frozen=True, slots=True)
class ReceivedMessage:
    """A message received from the queue, which keeps it until it is deleted."""

    message_id: str
    receipt: str
    """Needed to delete the message or to postpone it."""
    group: str
    sequence: int
    """Increases within a group."""
    receives: int
    """Number of receives. It can exceed the tries, because a message behind a failed one is received again untried."""
    sent_ms: int
    """When the message was put into the queue."""
    message: DeliveryMessage | BadInput


@dataclass(frozen=True, slots=True)
class DeliveryState:
    """The stored state of a delivery. Each change increases the version."""

    state: Literal["tried", "parked", "sent", "dropped"] = "tried"
    retry: int = 0
    tries: Tries = field(default_factory=Tries)
    """Since the last retry by a user."""
    version: int = 0
    """0: no state is stored yet."""
    error: str = ""
    """The last error, or why the delivery was dropped."""
    is_legacy: bool = False
    """Whether it is stored as in version 0.1.0, which had no history of deliveries."""

    @property
    def is_done(self) -> bool:
        """Whether the delivery can never be tried again."""
        return self.state in ("sent", "dropped")

    def is_obsolete(self, retry: int) -> bool:
        """Whether a message with this retry number needs no further work."""
        return self.is_done or retry < self.retry or (self.state == "parked" and retry == self.retry)

    def tries_in(self, retry: int) -> Tries:
        """The tries with this retry number."""
        return self.tries if retry == self.retry else Tries()

    def after_attempt(self, retry: int, tries: Tries, error: str = "") -> Self:
        return replace(self, state="tried", retry=retry, tries=tries, error=error, version=self.version + 1)

    def after_parking(self, retry: int, tries: Tries, error: str = "") -> Self:
        return replace(self, state="parked", retry=retry, tries=tries, error=error, version=self.version + 1)

    def after_outcome(self, state: Literal["sent", "dropped"], reason: str = "") -> Self:
        return replace(self, state=state, error=reason, version=self.version + 1)
