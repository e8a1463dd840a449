"""Deliveries: the messages that an observer sends because of an event, and their outcomes."""

from dataclasses import dataclass
from typing import Literal

from chalicelib.domain.backoff import Backoff
from chalicelib.domain.events.ids import Id

Channel = Literal["mail", "slack", "app"]

MESSAGE_PARTS: dict[Channel, tuple[str, ...]] = {
    "mail": ("subject", "text", "html"),
    "slack": ("json",),
    "app": ("subject", "body"),
}
"""The parts of a message on each channel. Each part has its own template."""

MAX_TRIES = 5
RETRY_BACKOFF = Backoff(initial_s=2.0, max_s=900.0, factor=4.0)


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message about one event from one observer to one address."""

    id: str
    """`<event id>/<observer>`, followed by the address and the replay if needed. Every try has the same id."""
    server: int
    observer: str
    event: Id
    key: str
    """The event's key. Deliveries with the same observer and key are sent in order."""
    address: str = ""
    """Empty if the channel has no addresses."""
    replay: str = ""
    """The replay that created the delivery, empty if the event itself did."""


@dataclass(frozen=True, slots=True)
class Parked:
    """A delivery that is not tried any more unless a user retries it."""

    delivery: Delivery
    tries: int
    error: str
    at_ms: int
    """Time of the last try."""


@dataclass(frozen=True, slots=True)
class Sent:
    """The channel accepted the message."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """There is no message to send."""

    reason: str


@dataclass(frozen=True, slots=True)
class DeliveryFailed:
    """The channel did not accept the message."""

    error: str
    retry_delay_s: float | None
    """Delay before the next try. None: do not try again."""


DeliveryOutcome = Sent | Dropped | DeliveryFailed


def retry_delay_s(tries: int, retry_after_s: float | None) -> float | None:
    """Delay after `tries` failed tries, at least `retry_after_s`. None: do not try again."""
    if tries >= MAX_TRIES:
        return None
    return max(RETRY_BACKOFF.delay_s(tries - 1), retry_after_s or 0.0)


@dataclass(frozen=True, slots=True)
class Mail:
    """A mail to one recipient."""

    delivery: str
    """The id of the delivery."""
    sender: str
    title: str
    """The sender's display name."""
    recipient: str
    subject: str
    text: str
    html: str


@dataclass(frozen=True, slots=True)
class SlackPost:
    """A message to an incoming webhook."""

    delivery: str
    url: str
    json: str


@dataclass(frozen=True, slots=True)
class AppMessage:
    """A message to a user's inbox."""

    delivery: str
    server: int
    user: str
    observer: str
    subject: str
    body: str
    event: Id


Message = Mail | SlackPost | AppMessage
