"""The history of deliveries: what became of each, for people."""

from dataclasses import dataclass
from typing import Literal

from chalicelib.domain.events.event import Event
from chalicelib.domain.events.ids import Id
from chalicelib.domain.notifications.delivery import Channel

DeliveryStatus = Literal["waiting", "sent", "dropped", "parked"]


@dataclass(frozen=True, slots=True)
class DeliveryRecord:
    """A delivery and what became of it."""

    cursor: str
    """The next page of the list starts after it."""
    id: str
    observer: str
    event: Id
    status: DeliveryStatus
    address: str = ""
    """Empty if the channel has no addresses, or if version 0.1.0 delivered it on AWS."""
    replay: str = ""
    tries: int = 0
    """Since it was put, or since a user retried it. Those of a sent delivery may not be known."""
    error: str = ""
    """The last error, or why it was dropped."""
    at_ms: int | None = None
    """When it was sent, dropped or parked. While it waits: when it was put, retried by a user, or last tried."""


@dataclass(frozen=True, slots=True)
class DeliveryEntry:
    """A delivery in the history."""

    record: DeliveryRecord
    channel: Channel | None
    """None if it is unknown."""
    event: Event | None
    """None if it has expired, or was not read."""


@dataclass(frozen=True, slots=True)
class DeliveryPage:
    """A page of the history, and the cursor of the next one. None: this is the last page."""

    entries: list[DeliveryEntry]
    cursor: str | None
