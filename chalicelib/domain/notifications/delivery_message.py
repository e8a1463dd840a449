"""Deliveries in a queue: it may bring a message again, or late a second time, so what became of each is remembered."""

import json
from dataclasses import asdict, dataclass, replace
from typing import Literal, Self

from pydantic_core import from_json

from chalicelib.domain.errors import BadInput
from chalicelib.domain.events.ids import Id
from chalicelib.domain.notifications.delivery import Delivery


@dataclass(frozen=True, slots=True)
class Queued:
    """A delivery as a message says it."""

    delivery: Delivery
    retry: int = 0
    """How often somebody had it tried again after it was parked."""

    @property
    def text(self) -> str:
        """Compact JSON. ASCII, for queues do not take every character that a key may have."""
        found = {**asdict(self.delivery), "event": str(self.delivery.event), "retry": self.retry}
        return json.dumps(found, separators=(",", ":"))

    @classmethod
    def parse(cls, text: str) -> Self:
        """What `text` says."""
        try:
            found = from_json(text)
            retry = int(found.pop("retry"))
            return cls(Delivery(**{**found, "event": Id.parse(found["event"])}), retry)
        except (ValueError, TypeError, KeyError, AttributeError) as failure:
            raise BadInput(f"this is no delivery: {text[:200]}") from failure


@dataclass(frozen=True, slots=True)
class Received:
    """A message that the queue has brought, and keeps for itself until it is told what came of it."""

    message_id: str
    receipt: str
    """Whoever has it may tell the queue when to bring the message again."""
    group: str
    sequence: int
    """Rises within a group."""
    receives: int
    """How often it was brought; not how often it was tried, for it may have been brought behind one that failed."""
    queued: Queued | BadInput


@dataclass(frozen=True, slots=True)
class Standing:
    """What is remembered of a delivery; nothing is ever deleted, so each change has a higher version."""

    state: Literal["tried", "parked", "sent", "dropped"] = "tried"
    retry: int = 0
    tries: int = 0
    """How often it was tried since the last retry."""
    version: int = 0
    """0: nothing is remembered yet."""

    @property
    def is_done(self) -> bool:
        """Whether it will never be tried again, whatever anybody does."""
        return self.state in ("sent", "dropped")

    def is_over(self, retry: int) -> bool:
        """Tell whether a message has nothing to do any more: another one did it, or it was parked and not retried."""
        return self.is_done or retry < self.retry or (self.state == "parked" and retry == self.retry)

    def tries_of(self, retry: int) -> int:
        """How often a message was tried."""
        return self.tries if retry == self.retry else 0

    def tried(self, retry: int, tries: int) -> Self:
        """Once it is tried, for the `tries`-th time."""
        return replace(self, state="tried", retry=retry, tries=tries, version=self.version + 1)

    def parked(self, retry: int, tries: int) -> Self:
        """Once it is parked."""
        return replace(self, state="parked", retry=retry, tries=tries, version=self.version + 1)

    def done(self, state: Literal["sent", "dropped"]) -> Self:
        """Once it is told, or there is nothing to tell."""
        return replace(self, state=state, version=self.version + 1)
